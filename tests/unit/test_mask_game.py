"""The mask game: penalties and losses by hand, who follows which gradient, measures of the dev text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from training_files import MODELS, CopyTask
from trainings import training_of

from alignlens.corpora.batches import Batch, make_batch
from alignlens.decoding.sentences import SentencesInMemory
from alignlens.models.calibrated import Calibrated
from alignlens.models.settings import CalibratedSettings, ModelSpec
from alignlens.training.loop import Training
from alignlens.training.objectives.contract import Material, Moment
from alignlens.training.objectives.cross_entropy import smoothed_cross_entropy
from alignlens.training.objectives.mask_game import MaskGame, penalty_by_length, released_penalty, shuffled
from alignlens.training.objectives.registry import MaskGameOptions
from alignlens.training.settings import TrainingSettings

VOCABULARY = 12
SETTINGS = CalibratedSettings(dim=8, ffn=12, heads=2, encoder_layers=1, decoder_layers=2, dropout=0.0)
SOURCES = [[4, 5], [6], [5, 4, 6, 7, 8], [7, 7, 4]]
TARGETS = [[5, 4, 8], [6, 6], [4, 5, 6, 7, 8, 4], [7, 4]]
MOMENT = Moment(5, 1, 0)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> CopyTask:
    return CopyTask.write(tmp_path_factory.mktemp("copy"))


def objective_of(smoothing: float = 0.1, precision: str = "float32", **options: Any) -> MaskGame:
    training = TrainingSettings.from_json({"max_updates": 1, "label_smoothing": smoothing, "precision": precision})
    nothing = SentencesInMemory([])
    material = Material(ModelSpec("calibrated", SETTINGS, VOCABULARY, VOCABULARY), training, nothing, nothing)
    return MaskGame(MaskGameOptions(**options), material)


def model_of(**changes: Any) -> Calibrated:
    torch.manual_seed(3)
    model = Calibrated(replace(SETTINGS, **changes), VOCABULARY, VOCABULARY).double().train()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def pairs(rows: Sequence[int] = range(4)) -> Batch:
    sources, targets = ([side[row] for row in rows] for side in (SOURCES, TARGETS))
    batch = make_batch(SentencesInMemory(sources), SentencesInMemory(targets), np.arange(len(rows)))
    return replace(batch, indices=np.array(rows) + 10)


def wider(batch: Batch, by: int = 3) -> Batch:
    """The same pairs with more padding on both sides."""

    def padded(side: Any, value: int) -> Any:
        return np.pad(side, ((0, 0), (0, by)), constant_values=value)

    return Batch(
        batch.indices,
        padded(batch.source, 3),
        padded(batch.source_mask, 0),
        padded(batch.prefix, 3),
        padded(batch.labels, 3),
    )


def traced_masks(model: Calibrated, batch: Batch) -> list[Tensor]:
    source, mask, prefix = (torch.from_numpy(each) for each in (batch.source, batch.source_mask, batch.prefix))
    memory = model.encode(model.embed_source(source), mask)
    return [layer.mask for layer in model.decode(memory, model.embed_target(prefix), trace=True).cross]


def real(batch: Batch) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(batch.labels_mask), torch.from_numpy(batch.source_mask)


# ---- penalties


def test_penalties_in_closed_form() -> None:
    keep = torch.tensor([[True, True, True], [True, False, False]])
    source = torch.tensor([[True, True, True, True], [True, True, False, False]])
    for value in (0.0, 0.25, 1.0):
        # Four labels, two layers of three heads; padding of the source has masks of zero, that of the target any.
        mask = torch.full((2, 3, 3, 4), value).masked_fill(~source[:, None, None], 0.0)
        assert float(penalty_by_length([mask, mask], keep, source)) == pytest.approx(4 * (1 - value))
        real_squares = 2 * 3 * 3 * (4 + 2) * (1 - value) ** 2
        expected = math.sqrt(real_squares + 2 * 3 * 3 * 2) / 4
        assert float(released_penalty([mask, mask], keep, source)) == pytest.approx(expected)


def test_the_penalty_by_length_is_that_of_a_slow_loop() -> None:
    batch = pairs()
    masks = [mask.detach() for mask in traced_masks(model_of(), batch)]
    total, rows = 0.0, 0
    for mask in masks:
        for row in range(len(mask)):
            for head in range(mask.shape[1]):
                for t in range(len(TARGETS[row]) + 1):
                    real_masks = mask[row, head, t, : len(SOURCES[row]) + 1].tolist()
                    total += math.sqrt(sum((1 - m) ** 2 for m in real_masks) / len(real_masks))
                    rows += 1
    found = float(penalty_by_length(masks, *real(batch)))
    assert found == pytest.approx(total / rows * batch.target_tokens)


def test_masks_of_one_have_a_gradient_that_is_a_number() -> None:
    for penalty in (penalty_by_length, released_penalty):
        mask = torch.ones(1, 1, 2, 3, requires_grad=True)
        penalty([mask], torch.ones(1, 2, dtype=torch.bool), torch.ones(1, 3, dtype=torch.bool)).backward()
        assert mask.grad.isfinite().all()


def test_penalty_losses_and_measures_do_not_depend_on_padding_or_batch() -> None:
    model, objective = model_of(), objective_of(alpha=2.0)
    together = objective(model, pairs(), MOMENT)
    padded = objective(model, wider(pairs()), MOMENT)
    alone = [objective(model, pairs([row]), MOMENT) for row in range(4)]
    for name, loss in together.losses.items():
        assert padded.losses[name].item() == pytest.approx(loss.item(), rel=1e-10)
        assert sum(each.losses[name].item() for each in alone) == pytest.approx(loss.item(), rel=1e-10)
    for name, (value, number) in together.measured.items():
        assert padded.measured[name] == pytest.approx((value, number))
        sums = np.sum([each.measured[name] for each in alone], axis=0)
        assert sums == pytest.approx((value, number))


def test_the_released_penalty_depends_on_padding() -> None:
    model, objective = model_of(), objective_of(alpha=2.0, penalty="released")
    together, padded = (objective(model, batch, MOMENT).losses for batch in (pairs(), wider(pairs())))
    assert padded["model"].item() == pytest.approx(together["model"].item(), rel=1e-10)
    assert padded["mask"].item() != pytest.approx(together["mask"].item(), rel=1e-3)


# ---- losses


@pytest.mark.parametrize("penalty", ["length", "released"])
def test_losses_are_those_of_two_passes_by_hand(penalty: str) -> None:
    model, objective, batch = model_of(), objective_of(alpha=0.7, penalty=penalty), pairs()
    outcome = objective(model, batch, MOMENT)
    source, mask, prefix, keep, labels = (
        torch.from_numpy(each)
        for each in (batch.source, batch.source_mask, batch.prefix, batch.labels_mask, batch.labels)
    )
    clean = smoothed_cross_entropy(model(source, mask, prefix, keep), labels[keep], 0.1)
    with model.perturbed():
        perturbed = smoothed_cross_entropy(model(source, mask, prefix, keep), labels[keep], 0.1)
    masks = traced_masks(model, batch)
    cost = {"length": penalty_by_length, "released": released_penalty}[penalty](masks, keep, mask)
    assert outcome.losses["model"].item() == pytest.approx(clean.item())
    assert outcome.losses["mask"].item() == pytest.approx((-perturbed + 0.7 * cost).item())
    assert perturbed.item() != pytest.approx(clean.item(), rel=1e-3)
    valid = [m[row, :, : len(TARGETS[row]) + 1, : len(SOURCES[row]) + 1].flatten() for m in masks for row in range(4)]
    total, number = outcome.measured["mask"]
    assert total / number == pytest.approx(torch.cat(valid).mean().item())
    assert number == len(torch.cat(valid))
    assert outcome.measured["clean_loss"] == pytest.approx((clean.item(), batch.target_tokens))
    assert outcome.measured["perturbed_loss"] == pytest.approx((perturbed.item(), batch.target_tokens))


@pytest.mark.parametrize("fusion", ["fixed", "anneal", "gate"])
@pytest.mark.parametrize("rows", ["raw", "renorm"])
def test_half_precision_gives_nearly_the_same(fusion: str, rows: str) -> None:
    model = model_of(fusion=fusion, rows=rows).float()
    model.at_update(50_000)
    full, half = (objective_of(precision=each)(model, pairs(), MOMENT).losses for each in ("float32", "bfloat16"))
    for name, loss in full.items():
        assert half[name].dtype == torch.float32
        assert half[name].item() == pytest.approx(loss.item(), rel=0.02)
        assert half[name].item() != loss.item()
    half["mask"].backward()
    model.eval()
    assert objective_of(precision="bfloat16").validation(model, [pairs()])["mask"] > 0


def test_the_source_is_encoded_once_and_each_pass_has_its_own_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(dropout=0.3)
    calls: list[str] = []
    for name in ("encode", "decode"):
        method = getattr(Calibrated, name)
        monkeypatch.setattr(
            Calibrated, name, lambda *given, name=name, method=method: (calls.append(name), method(*given))[1]
        )
    monkeypatch.setattr(Calibrated, "perturbed", lambda self, masks=None: torch.no_grad())  # which perturbs nothing
    measured = objective_of()(model, pairs(), MOMENT).measured
    assert calls == ["encode", "decode", "decode"]
    assert measured["clean_loss"] != measured["perturbed_loss"]


# ---- who follows what


def of_players(training: Training) -> tuple[dict[str, Tensor | None], dict[str, Tensor | None]]:
    """What the loop leaves as the gradient of every parameter, and what each loss alone would give its own player."""
    model, objective, players = training.model, training.objective, training.players
    batch = next(training.batches.at(training.progress.position))[0]
    torch.manual_seed(MOMENT.torch_seed)
    losses = objective(model, batch, MOMENT).losses
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    expected: dict[str, Tensor | None] = {}
    for player, content in players.items():
        found = torch.autograd.grad(losses[player], content.parameters, retain_graph=True)
        expected |= {names[id(each)]: value for each, value in zip(content.parameters, found, strict=True)}
    torch.manual_seed(MOMENT.torch_seed)
    training._backward(objective(model, batch, MOMENT), 1)
    return {name: parameter.grad for name, parameter in model.named_parameters()}, expected


def game_training(task: CopyTask, place: Path, model: dict[str, Any] | None = None, **changes: Any) -> Training:
    changes = {"objective": {"name": "mask_game", "alpha": 0.3}, **changes}
    return training_of(
        task, place, architecture="calibrated", model={**MODELS["calibrated"], **(model or {})}, **changes
    )


@pytest.mark.parametrize("fusion", ["fixed", "anneal", "gate"])
def test_every_loss_moves_its_own_parameters_and_no_others(task: CopyTask, tmp_path: Path, fusion: str) -> None:
    training = game_training(task, tmp_path, {"fusion": fusion})
    training.model.at_update(1000)
    of_masks = {name for name, _ in training.model.named_parameters() if "mask_net" in name}
    trained = {name for name, each in training.model.named_parameters() if each.requires_grad}
    names = {id(each): name for name, each in training.model.named_parameters()}
    sides = {player: {names[id(each)] for each in its.parameters} for player, its in training.players.items()}
    assert sides == {"model": trained - of_masks, "mask": of_masks}
    assert any("fusion" in name for name in sides["model"]) == (fusion == "gate")
    found, expected = of_players(training)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient)
        assert gradient.any(), name


def test_the_mask_loss_would_reach_the_encoder_and_the_loop_keeps_it_from_there(task: CopyTask, tmp_path: Path) -> None:
    training = game_training(task, tmp_path)
    model, objective = training.model, training.objective
    batch = next(training.batches.at(training.progress.position))[0]

    def gradients(loss: str) -> dict[str, Tensor]:
        torch.manual_seed(1)
        model.zero_grad()
        objective(model, batch, MOMENT).losses[loss].backward()
        return {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}

    only_model, only_mask = gradients("model"), gradients("mask")
    assert only_mask["encoder.0.own.project.weight"].any()
    assert only_model["decoder.0.cross.mask_net.query.weight"].any()
    torch.manual_seed(1)
    model.zero_grad()
    training._backward(objective(model, batch, MOMENT), 1)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, (only_mask if "mask_net" in name else only_model)[name])


def test_the_loss_of_the_model_reaches_its_states_through_the_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    model, objective = model_of(), objective_of()
    players = objective.players(model)

    def gradients() -> list[Tensor]:
        losses = objective(model, pairs(), MOMENT).losses
        return list(torch.autograd.grad(losses["model"], players["model"].parameters, allow_unused=True))

    through = gradients()
    sigmoid = torch.sigmoid
    # Masks are (batch, head, target, source); the gate, a sigmoid too, has one number for each target position.
    monkeypatch.setattr(torch, "sigmoid", lambda x: sigmoid(x).detach() if x.shape[-1] > 1 else sigmoid(x))
    detached = gradients()
    names = {id(each): name for name, each in model.named_parameters()}
    for parameter, one, other in zip(players["model"].parameters, through, detached, strict=True):
        if names[id(parameter)].startswith("encoder.0.own.project"):
            assert not torch.allclose(one, other, rtol=1e-3)
        if names[id(parameter)].startswith("output"):
            torch.testing.assert_close(one, other)


def test_the_mask_nets_go_towards_a_higher_perturbed_loss_and_masks_near_one() -> None:
    batch = pairs()
    for alpha, metric, rises in ((0.0, "perturbed_loss", True), (1000.0, "mask", True)):
        model, objective = model_of(), objective_of(alpha=alpha)
        masks = objective.players(model)["mask"].parameters
        before = objective(model, batch, MOMENT)
        found = torch.autograd.grad(before.losses["mask"], masks)
        norm = torch.nn.utils.get_total_norm(found)
        with torch.no_grad():
            for parameter, gradient in zip(masks, found, strict=True):
                parameter -= 1e-3 * gradient / norm
        after = objective(model, batch, MOMENT)
        assert (after.measured[metric][0] > before.measured[metric][0]) == rises


# ---- the dev text


def test_shuffled_masks_are_the_same_values_in_another_order_of_real_positions() -> None:
    batch = pairs()
    masks = [mask.detach() for mask in traced_masks(model_of(), batch)]
    found = shuffled(masks, batch)
    assert all(torch.equal(one, other) for one, other in zip(found, shuffled(masks, batch), strict=True))
    moved = 0
    for old, new in zip(masks, found, strict=True):
        torch.testing.assert_close(old.sort(-1).values, new.sort(-1).values, rtol=0, atol=1e-6)
        for row in range(4):
            assert (new[row, :, :, len(SOURCES[row]) + 1 :] == 0).all()
            alone = shuffled(
                [mask[row : row + 1] for mask in masks], replace(pairs([row]), indices=batch.indices[[row]])
            )
            labels = len(TARGETS[row]) + 1
            torch.testing.assert_close(alone[0][0, :, :labels], found[0][row, :, :labels], rtol=0, atol=1e-6)
        moved += int((old - new).abs().gt(1e-5).sum())
    assert moved > 0.5 * sum(int((mask != 0).sum()) for mask in masks)


def test_measures_of_the_dev_text_are_those_of_hand_and_do_not_depend_on_batches() -> None:
    model, objective = model_of().eval(), objective_of(smoothing=0.1)
    found = objective.validation(model, [pairs()])
    assert tuple(found) == MaskGame.dev_metrics == ("mask", "clean_loss", "perturbed_loss", "shuffled_loss")
    assert objective.validation(model, [pairs()]) == found
    again = objective.validation(model, [pairs([2, 0]), pairs([3]), wider(pairs([1]))])
    assert again == pytest.approx(found, rel=1e-6)
    unsmoothed = objective_of(smoothing=0.0)(model, pairs(), MOMENT).measured
    for name in ("mask", "clean_loss", "perturbed_loss"):
        value, number = unsmoothed[name]
        assert found[name] == pytest.approx(value / number)
    assert len(set(found.values())) == 4
    assert objective.validation(model, []) == dict.fromkeys(MaskGame.dev_metrics, 0.0)
