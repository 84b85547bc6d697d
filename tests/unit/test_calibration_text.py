"""Calibration of a text by a model: gradients against a slow oracle, losses against forced scores, batches, parts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from calibrated_cases import (
    SETTINGS,
    SOURCE_VOCAB,
    TARGET_VOCAB,
    VARIANTS,
    filled,
    name_of,
    plain_twin,
    with_masks_of,
)
from torch import nn

from alignlens.attribution.calibration import SentenceFound, calibration_of, sentences_of
from alignlens.corpora.batches import make_batch, ordered_batches
from alignlens.corpora.symbols import BEGIN_ID, END_ID
from alignlens.decoding.forced import force_all
from alignlens.decoding.sentences import SentencesInMemory
from alignlens.errors import ToolError
from alignlens.metrics.calibration import CalibrationSums
from alignlens.models.calibrated import Fusion
from alignlens.models.settings import TransformerSettings
from alignlens.models.transformer import Transformer

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from alignlens.models.calibrated import Calibrated

SOURCES = [[4, 5, 6], [7], [], [10, 9, 8, 7, 6, 5, 4, 4, 5], [5, 5], [6, 10, 4, 8]]
TARGETS = [[4, 12, 6, 7], [11, 5, 4, 6, 7, 8, 9, 10, 12, 4, 5], [6], [5, 4], [], [8, 7, 6]]
ALL_OF_A_CALIBRATED_MODEL = {
    *("jsd", "jsd_by_entropy", "jsd_entropy_rank", "mask", "entropy_original", "entropy_combined", "entropy_change"),
    *("entropy_change_of_rows", "entropy_change_of_mean", "loss_clean", "loss_perturbed", "loss_shuffled"),
    *(f"tau_{side}{end}" for side in ("original", "combined", "mask") for end in ("", "_without_end")),
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def plain() -> Transformer:
    shared = {key: getattr(SETTINGS, key) for key in TransformerSettings.__dataclass_fields__}
    torch.manual_seed(4)
    model = Transformer(TransformerSettings(**shared), SOURCE_VOCAB, TARGET_VOCAB).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def found_by(model: Transformer, tokens: int = 1000) -> dict[int, SentenceFound]:
    stores = SentencesInMemory(SOURCES), SentencesInMemory(TARGETS)
    return {one.number: one for batch in ordered_batches(*stores, tokens=tokens) for one in sentences_of(model, batch)}


def log_prob(model: Transformer, number: int, step: int, states: Tensor) -> Tensor:
    """Log p of one label, from encoder states of one sentence without padding."""
    mask = torch.ones(1, states.shape[1], dtype=torch.bool)
    memory = model.encode(model.embed_source(torch.tensor([[*SOURCES[number], END_ID]])), mask)
    prefix = torch.tensor([[BEGIN_ID, *TARGETS[number]][: step + 1]])
    read = model.decode(replace(memory, states=states), model.embed_target(prefix)).states[0, -1]
    return model.logits(read).log_softmax(-1)[[*TARGETS[number], END_ID][step]]


def states_of(model: Transformer, number: int) -> Tensor:
    ids = torch.tensor([[*SOURCES[number], END_ID]])
    with torch.no_grad():
        return model.encode(model.embed_source(ids), torch.ones_like(ids, dtype=torch.bool)).states


def slow_importance(model: Transformer, number: int, of_p: bool = False) -> NDArray[np.float64]:
    rows = []
    for step in range(len(TARGETS[number]) + 1):
        leaf = states_of(model, number).requires_grad_()
        value = log_prob(model, number, step, leaf)
        (value.exp() if of_p else value).backward()  # type: ignore[no-untyped-call]
        assert leaf.grad is not None
        rows.append(leaf.grad[0].norm(dim=-1).numpy())
    return np.stack(rows)


@pytest.mark.parametrize("settings", [None, *VARIANTS], ids=lambda each: "plain" if each is None else name_of(each))
def test_importance_is_that_of_one_sentence_and_step_at_a_time(settings: object) -> None:
    model = plain() if settings is None else filled(settings)  # type: ignore[arg-type]
    found = found_by(model)
    assert sorted(found) == list(range(len(SOURCES)))
    for number, one in found.items():
        assert one.importance.shape == (len(TARGETS[number]) + 1, len(SOURCES[number]) + 1)
        np.testing.assert_allclose(one.importance, slow_importance(model, number), rtol=1e-9, atol=1e-13)


def test_the_gradient_of_p_has_the_same_order() -> None:
    model = filled(SETTINGS)
    for number, one in found_by(model).items():
        of_p = slow_importance(model, number, of_p=True)
        for step, row in enumerate(one.importance):
            p = float(log_prob(model, number, step, states_of(model, number)).exp().detach())
            np.testing.assert_allclose(of_p[step], p * row, rtol=1e-8, atol=1e-14)


@torch.no_grad()
def test_importance_is_how_fast_log_p_changes() -> None:
    model, number, small = filled(SETTINGS), 0, 1e-5
    states = states_of(model, number)
    importance = found_by(model)[number].importance
    for step in (0, 2, 4):
        slopes = torch.zeros_like(states)
        for place in np.ndindex(tuple(states.shape)):
            ends = []
            for sign in (1, -1):
                moved = states.clone()
                moved[place] += sign * small
                ends.append(float(log_prob(model, number, step, moved)))
            slopes[place] = (ends[0] - ends[1]) / (2 * small)
        np.testing.assert_allclose(importance[step], slopes[0].norm(dim=-1).numpy(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("tokens", [1, 30])
@pytest.mark.parametrize("kind", ["plain", "calibrated"])
def test_a_sentence_does_not_depend_on_its_batch(kind: str, tokens: int) -> None:
    model: Transformer = plain() if kind == "plain" else filled(SETTINGS)
    together, apart = found_by(model), found_by(model, tokens)
    for number, one in together.items():
        for name in ("original", "importance", "combined", "mask"):
            mine, other = getattr(one, name), getattr(apart[number], name)
            assert (mine is None) == (other is None) == (kind == "plain" and name in ("combined", "mask"))
            if mine is not None:
                np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-13)
        assert one.losses == pytest.approx(apart[number].losses, rel=1e-10)


def test_attention_and_masks_are_those_of_a_traced_pass() -> None:
    model = filled(SETTINGS)
    for number, one in found_by(model).items():
        ids, prefix = (torch.tensor([each]) for each in ([*SOURCES[number], END_ID], [BEGIN_ID, *TARGETS[number]]))
        with torch.no_grad():
            memory = model.encode(model.embed_source(ids), torch.ones_like(ids, dtype=torch.bool))
            layers = model.decode(memory, model.embed_target(prefix), trace=True).cross
        for name, attribute in (("original", "original"), ("combined", "weights"), ("mask", "mask")):
            expected = torch.stack([getattr(layer, attribute)[0] for layer in layers]).numpy()
            np.testing.assert_allclose(getattr(one, name), expected, rtol=1e-9)
        assert one.original.sum(-1) == pytest.approx(1.0)
        assert (one.mask > 0).all()  # type: ignore[operator]


@pytest.mark.parametrize("kind", ["plain", "calibrated"])
def test_the_clean_loss_is_that_of_forced_scores(kind: str) -> None:
    model: Transformer = plain() if kind == "plain" else filled(SETTINGS)
    forced = force_all(model, SOURCES, TARGETS, vocabulary=TARGET_VOCAB)
    sums = calibration_of(model, SOURCES, TARGETS)
    assert sums.sentences == tuple(range(len(SOURCES)))
    for number, row in enumerate(forced.log_probs):
        assert sums.totals["loss_clean"][number] == pytest.approx(-float(row.sum()), rel=1e-5)
        assert sums.counts["loss_clean"][number] == len(row) == len(TARGETS[number]) + 1
    assert sums.means()["loss_clean"] == pytest.approx(forced.summary()["loss"], rel=1e-5)


def test_perturbed_losses_are_those_of_one_sentence_at_a_time() -> None:
    model = filled(SETTINGS)
    for number, one in found_by(model).items():
        assert list(one.losses) == ["clean", "perturbed", "shuffled"]
        ids, prefix = (torch.tensor([each]) for each in ([*SOURCES[number], END_ID], [BEGIN_ID, *TARGETS[number]]))
        with torch.no_grad(), model.perturbed():
            memory = model.encode(model.embed_source(ids), torch.ones_like(ids, dtype=torch.bool))
            logs = model.logits(model.decode(memory, model.embed_target(prefix)).states[0]).log_softmax(-1)
        expected = -sum(float(logs[step, label]) for step, label in enumerate([*TARGETS[number], END_ID]))
        assert one.losses["perturbed"] == pytest.approx(expected, rel=1e-10)
        assert one.losses["clean"] != pytest.approx(expected, rel=1e-6) or not SOURCES[number]


def same_everywhere(value: float) -> Calibrated:
    return with_masks_of(filled(SETTINGS), value)


def test_masks_of_one_perturb_nothing_and_equal_masks_have_no_order() -> None:
    open_, closed = (calibration_of(same_everywhere(value), SOURCES, TARGETS).means() for value in (1.0, 0.0))
    assert open_["mask"] == pytest.approx(1)
    assert open_["loss_perturbed"] == pytest.approx(open_["loss_clean"])
    assert open_["jsd"] == pytest.approx(0, abs=1e-9)
    assert closed["mask"] == pytest.approx(0)
    assert closed["loss_perturbed"] != pytest.approx(closed["loss_clean"], rel=1e-6)
    for means in (open_, closed):
        assert means["loss_shuffled"] == pytest.approx(means["loss_perturbed"])
        assert np.isnan(means["tau_mask"]).all()


def test_masks_in_another_order_are_another_perturbation() -> None:
    means = calibration_of(filled(SETTINGS), SOURCES, TARGETS).means()
    assert means["loss_shuffled"] != pytest.approx(means["loss_perturbed"], rel=1e-6)


def test_a_plain_transformer_has_less_to_say() -> None:
    calibrated = filled(SETTINGS)
    assert calibration_of(calibrated, SOURCES, TARGETS).means().keys() == ALL_OF_A_CALIBRATED_MODEL
    twin = calibration_of(plain_twin(calibrated, SETTINGS), SOURCES, TARGETS).means()
    assert twin.keys() == {"entropy_original", "tau_original", "tau_original_without_end", "loss_clean"}
    # With masks at one a calibrated model that renormalises is its twin.
    renormed = with_masks_of(filled(replace(SETTINGS, rows="renorm")), 1.0)
    means = calibration_of(renormed, SOURCES, TARGETS).means()
    assert twin["loss_clean"] == pytest.approx(means["loss_clean"])
    assert twin["entropy_original"] == pytest.approx(means["entropy_original"])


class Unchanged(Fusion):
    """Leaves attention as it is: the masks only tell what matters."""

    def forward(self, original: Tensor, more: Tensor, query: Tensor) -> Tensor:
        return original


def test_masks_that_change_nothing_have_no_combined_attention() -> None:
    model = filled(SETTINGS)
    for layer in model.decoder:
        layer.cross.fusion = Unchanged()
    means = calibration_of(model, SOURCES, TARGETS).means()
    assert means.keys() == {
        *("entropy_original", "mask", "loss_clean", "loss_perturbed", "loss_shuffled"),
        *("tau_original", "tau_original_without_end", "tau_mask", "tau_mask_without_end"),
    }
    twin = calibration_of(plain_twin(model, SETTINGS), SOURCES, TARGETS).means()
    for name, mean in twin.items():
        assert means[name] == pytest.approx(mean), name


def test_parts_of_a_text_are_the_whole() -> None:
    model = filled(SETTINGS)
    whole, done = calibration_of(model, SOURCES, TARGETS, tokens=40), list[int]()
    parts = CalibrationSums.joined(
        calibration_of(model, SOURCES, TARGETS, tokens=13, numbers=np.array(numbers), advance=done.append)
        for numbers in ([5, 1], [3], [4, 0, 2])
    )
    assert sum(done) == len(SOURCES)
    assert parts.sentences == whole.sentences
    for name, totals in whole.totals.items():
        np.testing.assert_allclose(parts.totals[name], totals, rtol=1e-8, atol=1e-10, err_msg=name)
        np.testing.assert_array_equal(parts.counts[name], whole.counts[name], err_msg=name)


def test_the_start_symbol_of_a_source_is_one_more_position() -> None:
    model = filled(SETTINGS)
    batch = make_batch(SentencesInMemory(SOURCES), SentencesInMemory(TARGETS), np.array([0]), source_begin=True)
    (one,) = sentences_of(model, batch)
    assert one.importance.shape == (5, 5)
    sums = calibration_of(model, SOURCES, TARGETS, source_begin=True)
    assert sums.totals["loss_clean"][0] == pytest.approx(one.losses["clean"])


def test_a_model_keeps_no_gradients_and_must_not_train() -> None:
    model = filled(SETTINGS)
    with torch.no_grad():
        quiet = calibration_of(model, SOURCES, TARGETS)
    loud = calibration_of(model, SOURCES, TARGETS)
    assert all(parameter.grad is None for parameter in model.parameters())
    np.testing.assert_array_equal(quiet.totals["tau_original"], loud.totals["tau_original"])
    with pytest.raises(ValueError, match="training mode"):
        calibration_of(model.train(), SOURCES, TARGETS)


def test_a_model_that_diverged_is_one_line() -> None:
    model = filled(SETTINGS)
    nn.init.constant_(model.output.weight, float("nan"))
    with pytest.raises(ToolError, match="its training diverged"):
        calibration_of(model, SOURCES, TARGETS)
