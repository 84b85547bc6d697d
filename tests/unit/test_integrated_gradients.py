"""Integrated gradients: what they add up to, closed forms, and how many passes they take."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from linear_model import LONGEST, VOCABULARY, LinearModel
from torch import Tensor

from alignlens.attribution.corpus import attribute
from alignlens.attribution.registry import METHODS, parse, parse_all
from alignlens.attribution.spec import GRADIENT, NOISE, PATH, GradientPasses, MethodSpec, Reading
from alignlens.attribution.statistics import Statistics
from alignlens.corpora.symbols import BEGIN_ID, END_ID
from alignlens.models.base_settings import ArchitectureSettings
from alignlens.models.contract import Seq2Seq
from alignlens.models.registry import build
from alignlens.models.settings import (
    BagOfWordsSettings,
    CalibratedSettings,
    FconvSettings,
    LstmSettings,
    ModelSpec,
    TransformerSettings,
)

SMALL = {"dim": 16, "ffn": 24, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}
SETTINGS: dict[str, tuple[str, ArchitectureSettings]] = {
    "transformer": ("transformer", TransformerSettings(**SMALL)),
    "transformer_pre": ("transformer", TransformerSettings(**SMALL, norm="pre")),
    "calibrated": ("calibrated", CalibratedSettings(**SMALL)),
    "lstm": ("lstm", LstmSettings(dim=12, hidden=10, bidirectional=True)),
    "lstm_heads": ("lstm", LstmSettings(dim=12, hidden=10, bidirectional=True, heads=2)),
    "fconv": ("fconv", FconvSettings(dim=12, hidden=10, encoder_layers=2, decoder_layers=2, max_positions=32)),
    "bag_of_words": ("bag_of_words", BagOfWordsSettings(dim=10)),
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def model_of(name: str) -> Seq2Seq:
    """Returns a model that is sure of itself, so that its log p changes on the way."""
    architecture, settings = SETTINGS[name]
    model = build(ModelSpec(architecture, settings, VOCABULARY, VOCABULARY), seed=3).eval()
    with torch.no_grad():
        model.output.weight.mul_(3)
    return model


def text(sentences: int = 6) -> tuple[list[list[int]], list[list[int]]]:
    rng = np.random.default_rng(2)
    sides = [[rng.integers(4, VOCABULARY, rng.integers(0, LONGEST)).tolist() for _ in range(sentences)] for _ in "st"]
    return sides[0], sides[1]


@torch.no_grad()
def log_p(model: Seq2Seq, vectors: Tensor, target: list[int]) -> Tensor:
    """Returns (target): of every label, for source vectors (source, dim)."""
    memory = model.encode(vectors[None], torch.ones(1, len(vectors), dtype=torch.bool))
    states = model.decode(memory, model.embed_target(torch.tensor([[BEGIN_ID, *target]]))).states[0]
    return model.logits(states).log_softmax(-1)[range(len(target) + 1), [*target, END_ID]]


def gained(model: Seq2Seq, source: list[int], target: list[int]) -> Tensor:
    """Returns what log p of every label gains between vectors of zeros and the sentence; the prefix is the same."""
    vectors = model.embed_source(torch.tensor([[*source, END_ID]]))[0].detach()
    return log_p(model, vectors, target) - log_p(model, torch.zeros_like(vectors), target)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_scores_of_a_piece_add_up_to_what_it_gains(name: str) -> None:
    model, (sources, targets) = model_of(name), text()
    few, many = "integrated_gradients,n=5", "integrated_gradients,n=300"
    found = dict(attribute(model, sources, targets, parse_all([few, many])))
    errors: dict[str, list[float]] = {few: [], many: []}
    largest = 0.0
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        expected = gained(model, source, target).numpy()
        largest = max(largest, np.abs(expected).max())
        for method, each in errors.items():
            each.append(np.abs(found[number][method].sum(1) - expected).max())
    assert largest > 0.15, "a gain of nothing would test nothing"
    assert max(errors[many]) < 2e-3 * max(1.0, largest)
    assert max(errors[many]) < max(errors[few])


def test_it_takes_the_derivative_to_add_up() -> None:
    """FConv's backward passes of training are scaled: with these nothing adds up."""
    model, (sources, targets) = model_of("fconv"), text()
    method = parse("integrated_gradients,n=100,gradient=train")
    found = dict(attribute(model, sources, targets, [method]))
    gains = [gained(model, source, target).numpy() for source, target in zip(sources, targets, strict=True)]
    assert max(np.abs(found[number][method.text].sum(1) - gain).max() for number, gain in enumerate(gains)) > 0.05


def test_the_derivative_of_every_point_of_a_linear_model() -> None:
    """State j moves along a line, and the derivative of log p there is known: W_y - sum over v of p(v) W_v."""
    model, (sources, targets), count = LinearModel(), text(), 7
    found = dict(attribute(model, sources, targets, parse_all(["integrated_gradients,n=7"])))
    weight = model.output.weight.detach()
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        read, labels = model.table(torch.tensor([*source, END_ID])), torch.tensor([*target, END_ID])
        of_source = model.of_source[: len(labels), : len(read)]
        of_prefix = model.of_prefix[: len(labels), : len(labels)] @ model.table(torch.tensor([BEGIN_ID, *target]))
        towards = torch.zeros(len(labels), weight.shape[1])
        for point in range(count):
            states = (point + 0.5) / count * (of_source @ read) + of_prefix
            towards += (weight[labels] - (states @ weight.T).softmax(-1) @ weight) / count
        expected = of_source * (towards @ read.T)
        np.testing.assert_allclose(found[number]["integrated_gradients,n=7"], expected, atol=1e-5)


def test_with_the_probability_it_adds_up_to_what_that_gains() -> None:
    model, (sources, targets) = model_of("transformer"), text()
    method = parse("integrated_gradients,n=300,score=p")
    found = dict(attribute(model, sources, targets, [method]))
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        vectors = model.embed_source(torch.tensor([[*source, END_ID]]))[0].detach()
        ends = [log_p(model, share * vectors, target).exp() for share in (1, 0)]
        np.testing.assert_allclose(found[number][method.text].sum(1), ends[0] - ends[1], atol=1e-3)


@pytest.mark.parametrize("name", ["transformer", "fconv"])
def test_neither_batches_nor_threads_nor_adaptive_sampling_change_it(name: str) -> None:
    model, (sources, targets) = model_of(name), text(20)
    methods = parse_all(["integrated_gradients,n=6", "ding_smoothgrad,n=6"])
    together = dict(attribute(model, sources, targets, methods))
    # FConv switches scaling off while its passes are made, which threads must not see.
    threads = dict(attribute(model, sources, targets, methods, workers=3))
    assert all(np.array_equal(threads[k][name], matrix) for k in together for name, matrix in together[k].items())
    settled = dict(attribute(model, sources, targets, methods, adaptive=0.05))
    few = dict(attribute(model, sources, targets, methods, tokens=20))
    for number, each in together.items():
        ((_, alone),) = attribute(model, [sources[number]], [targets[number]], methods[:1])
        for other in (settled[number], few[number], alone):
            np.testing.assert_allclose(other["integrated_gradients,n=6"], each["integrated_gradients,n=6"], atol=1e-5)


def test_every_point_is_one_pass_forwards_and_one_back_from_every_target_position() -> None:
    sources, targets = text()
    statistics = Statistics()
    list(
        attribute(model_of("transformer"), sources, targets, parse_all(["integrated_gradients"]), statistics=statistics)
    )
    assert statistics.forward_passes == 20 * len(sources)
    assert statistics.backward_passes == 20 * sum(len(target) + 1 for target in targets)


def test_a_path_cannot_be_noisy_and_has_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"summary": "s", "paper": "p", "equation": "e", "cost": "c"}
    passes = GradientPasses(lambda values: Reading(), path=True)
    with pytest.raises(ValueError, match="needs parameters baseline, n"):
        MethodSpec("x", passes=passes, parameters=GRADIENT, **told)
    with pytest.raises(ValueError, match="on a path, or noisy"):
        MethodSpec("x", passes=passes, parameters={**GRADIENT, **PATH, **NOISE}, **told)
    assert METHODS["integrated_gradients"].follows_path
    assert not METHODS["ding_smoothgrad"].follows_path
