"""The best attention over the simplex: against scipy, the printed counter-example, and the model's own loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from alignlens.attribution.corpus import attribute
from alignlens.attribution.registry import METHODS, parse
from alignlens.attribution.simplex import ENOUGH, minimise, over_logits
from alignlens.attribution.statistics import Statistics
from alignlens.corpora.symbols import BEGIN_ID, END_ID
from alignlens.models.lstm import Lstm
from alignlens.models.settings import ARCHITECTURES, LstmSettings

VOCABULARY = 17
LINEAR = LstmSettings(dim=8, hidden=8, bidirectional=True, input_feeding=False, output="linear")
VARIANTS = {
    "linear": LINEAR,
    "linear_heads": replace(LINEAR, heads=3, head_projection="own"),
    "two_layer": replace(LINEAR, output="two_layer"),
    "luong_feeding": replace(LINEAR, output="luong", input_feeding=True),
    "uniform": replace(LINEAR, output="two_layer", activation="tanh", attention="uniform"),
    "gru": replace(LINEAR, cell="gru"),
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def loss_of(weights: np.ndarray, logits: np.ndarray, label: int) -> float:
    mixed = weights @ logits
    return float(np.log(np.exp(mixed - mixed.max()).sum()) + mixed.max() - mixed[label])


def by_scipy(logits: np.ndarray, label: int) -> np.ndarray:
    """Returns the minimiser over the simplex."""
    count = len(logits)
    found = minimize(
        lambda weights: loss_of(weights, logits, label),
        np.full(count, 1 / count),
        method="SLSQP",
        bounds=[(0, 1)] * count,
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1},
        options={"maxiter": 1000, "ftol": 1e-13},
    )
    assert found.success
    return np.asarray(found.x)


@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_random_cases_as_scipy_solves_them(scale: float) -> None:
    rng = np.random.default_rng(3)
    logits, labels = rng.normal(size=(40, 6, 9)) * scale, rng.integers(0, 9, 40)
    found = over_logits(torch.from_numpy(logits), torch.from_numpy(labels), steps=5000, enough=1e-9)
    assert found.left.max() <= 1e-9
    for number in range(40):
        expected = by_scipy(logits[number], labels[number])
        np.testing.assert_allclose(found.weights[number], expected, atol=2e-4)
        best = loss_of(expected, logits[number], labels[number])
        assert found.losses[number] == pytest.approx(best, abs=1e-7)
        assert found.losses[number] == pytest.approx(
            loss_of(found.weights[number].numpy(), logits[number], labels[number]), abs=1e-9
        )
    inside = (found.weights > 1e-3).sum(1)
    assert {1, 2} < set(inside.tolist()), "all at a corner would be no test"


def test_what_is_left_bounds_what_can_be_gained() -> None:
    rng = np.random.default_rng(4)
    logits, labels = torch.from_numpy(rng.normal(size=(60, 8, 9)) * 3), torch.from_numpy(rng.integers(0, 9, 60))
    best = over_logits(logits, labels, steps=5000, enough=1e-9).losses
    for steps in (1, 5, 20, 200):
        found = over_logits(logits, labels, steps)
        assert (found.losses - best <= found.left + 1e-9).all()
    assert found.left.max() <= ENOUGH
    assert 60 < found.evaluations < 60 * 200


def test_the_printed_counter_example() -> None:
    """The probe is largest at the first position, and the best attention has none of it there."""
    logits = torch.tensor([[[0.0, 0, 0], [0, -10, 5], [0, 5, -10]]], dtype=torch.float64)
    probe = logits.softmax(-1)[0, :, 0]
    torch.testing.assert_close(probe, torch.tensor([1 / 3, 0.0067, 0.0067], dtype=torch.float64), atol=5e-5, rtol=0)
    found = over_logits(logits, torch.tensor([0]), steps=1000, enough=1e-12)
    torch.testing.assert_close(found.weights[0], torch.tensor([0, 0.5, 0.5], dtype=torch.float64), atol=1e-9, rtol=0)
    exact = 1 / (1 + 2 * np.exp(-2.5))
    assert float(torch.exp(-found.losses)) == pytest.approx(exact, abs=1e-9)
    assert round(exact, 3) == 0.859


def test_positions_that_are_not_allowed_get_nothing() -> None:
    slopes = torch.tensor([[3.0, 1.0, -9.0], [-1.0, -1.0, 0.0]])
    allowed = torch.tensor([[True, True, False], [True, True, True]])
    asked: list[int] = []

    def losses(numbers: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        asked.append(len(numbers))
        return (weights * slopes[numbers]).sum(-1), slopes[numbers]

    found = minimise(losses, allowed, slopes, steps=100)
    torch.testing.assert_close(found.weights, torch.tensor([[0, 1.0, 0], [0.5, 0.5, 0]]), atol=ENOUGH, rtol=0)
    assert found.evaluations == sum(asked)
    assert asked[-1] < 2 or len(asked) < 100, "what has ended is not asked again"


def lstm(name: str) -> Lstm:
    torch.manual_seed(5)
    model = Lstm(VARIANTS[name], VOCABULARY, VOCABULARY).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return model


def text(sentences: int = 12) -> tuple[list[list[int]], list[list[int]]]:
    rng = np.random.default_rng(2)
    sides = [[rng.integers(4, VOCABULARY, rng.integers(1, 8)).tolist() for _ in range(sentences)] for _ in "st"]
    return sides[0], sides[1]


def losses_at(model: Lstm, source: list[int], target: list[int], weights: Tensor) -> Tensor:
    """Returns -log p of every label (target) if attention is ``weights`` (target, source), by the model's formulas."""
    memory = model.encode(model.embed_source(torch.tensor([[*source, END_ID]])), torch.ones(1, len(source) + 1).bool())
    decoded = model.decode(memory, model.embed_target(torch.tensor([[BEGIN_ID, *target]])), trace=True)
    layer = decoded.cross[0]
    of_source = torch.einsum("hkv,hvd->kd", layer.values[0], layer.projection)
    context = weights @ of_source + (0.0 if layer.bias is None else layer.bias)
    logs = model.logits(model.join(decoded.recurrent[0], context)).log_softmax(-1)
    return -logs[range(len(target) + 1), [*target, END_ID]].detach()


@pytest.mark.parametrize("name", VARIANTS)
def test_no_other_attention_makes_the_word_more_probable(name: str) -> None:
    model, (sources, targets) = lstm(name), text()
    found = dict(attribute(model, sources, targets, [parse("optimal_attention")]))
    generator, gained = torch.manual_seed(1), 0.0
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        weights = torch.from_numpy(found[number]["optimal_attention"])
        assert weights.sum(1).tolist() == pytest.approx([1.0] * (len(target) + 1), abs=1e-5)
        best = losses_at(model, source, target, weights)
        uniform = losses_at(model, source, target, torch.full_like(weights, 1 / weights.shape[1]))
        assert (best <= uniform + 1e-5).all()
        gained = max(gained, float((uniform - best).max()))
        for _ in range(20):
            near = weights + 0.02 * torch.rand(weights.shape, generator=generator) * (torch.rand(weights.shape) < 0.3)
            near = near / near.sum(1, keepdim=True)
            assert (losses_at(model, source, target, near) >= best - 2 * ENOUGH).all()
    assert gained > 0.1, "uniform weights that are the best would test nothing"


def test_with_a_linear_output_it_is_the_best_of_all() -> None:
    model, (sources, targets) = lstm("linear"), text(6)
    found = dict(attribute(model, sources, targets, [parse("optimal_attention,steps=1000")]))
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        weights = torch.from_numpy(found[number]["optimal_attention,steps=1000"])
        best = losses_at(model, source, target, weights)
        mask = torch.ones(1, len(source) + 1, dtype=torch.bool)
        memory = model.encode(model.embed_source(torch.tensor([[*source, END_ID]])), mask)
        focused = model.focused(memory, model.embed_target(torch.tensor([[BEGIN_ID, *target]])))
        corners = model.logits(focused)[0].detach().double().numpy()
        for row, label in enumerate([*target, END_ID]):
            expected = loss_of(by_scipy(corners[row], label), corners[row], label)
            assert float(best[row]) == pytest.approx(expected, abs=ENOUGH)


def test_neither_padding_nor_other_sentences_change_it_and_passes_are_counted() -> None:
    model, (sources, targets), method = lstm("linear"), text(), parse("optimal_attention")
    statistics = Statistics()
    together = dict(attribute(model, sources, targets, [method], statistics=statistics))
    assert statistics.forward_passes == len(sources)
    positions = sum(len(target) + 1 for target in targets)
    assert positions < statistics.backward_passes < 200 * positions
    for number in range(len(sources)):
        alone = dict(attribute(model, [sources[number]], [targets[number]], [method], tokens=16))[0]
        np.testing.assert_allclose(alone[method.text], together[number][method.text], atol=1e-3)


def test_it_is_for_models_with_one_attention_layer_that_ends_in_the_output() -> None:
    spec = METHODS["optimal_attention"]
    assert [name for name in ARCHITECTURES if spec.supports(name)] == ["lstm"]
