"""Methods declare what they need of a model: every kind of pass on a model that is known in closed form."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from added_method import add_method
from linear_model import LONGEST, VOCABULARY, LinearModel
from torch import Tensor

from alignlens.attribution.corpus import attribute
from alignlens.attribution.noise import unit_noise
from alignlens.attribution.registry import ALIASES, METHODS, parse, parse_all
from alignlens.attribution.spec import (
    GRADIENT,
    NOISE,
    Contributions,
    ForwardPass,
    GradientPasses,
    MethodSpec,
    Only,
    OwnPasses,
    Reading,
    TracedAttention,
)
from alignlens.attribution.statistics import Statistics
from alignlens.corpora.symbols import BEGIN_ID, END_ID

Found = dict[int, dict[str, np.ndarray]]
TOLD = {"summary": "s", "paper": "p", "equation": "e", "cost": "1 forward"}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def model() -> LinearModel:
    return LinearModel()


def text(sentences: int = 9) -> tuple[list[list[int]], list[list[int]]]:
    rng = np.random.default_rng(4)
    sides = [[rng.integers(4, VOCABULARY, rng.integers(0, LONGEST)).tolist() for _ in range(sentences)] for _ in "st"]
    return sides[0], sides[1]


def register(monkeypatch: pytest.MonkeyPatch, spec: MethodSpec) -> None:
    monkeypatch.setitem(METHODS, spec.name, spec)


def closed_form(model: LinearModel, source: list[int], target: list[int], noise: Tensor | float = 0.0) -> Contributions:
    """Contributions to the logit of every label, (target, source) and (target, prefix)."""
    labels, read = torch.tensor([*target, END_ID]), torch.tensor([*source, END_ID])
    towards = model.output.weight.detach()[labels]
    rows, columns = len(labels), len(read)
    prefix = model.table(torch.tensor([BEGIN_ID, *target]))
    return Contributions(
        model.of_source[:rows, :columns] * (towards @ (model.table(read) + noise).T),
        model.of_prefix[:rows, :rows] * (towards @ prefix.T),
    )


@pytest.mark.parametrize("tokens", [8, 4096])
def test_a_method_gives_contributions_of_source_and_prefix(
    model: LinearModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: int
) -> None:
    add_method(tmp_path, monkeypatch)
    method = parse("toy,sign=kept")
    assert method.matrices == ("toy,sign=kept", "toy,sign=kept@prefix")
    sources, targets = text()
    statistics = Statistics()
    found = dict(attribute(model, sources, targets, [method], tokens=tokens, statistics=statistics))
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        sides = [found[number][name] for name in method.matrices]
        assert [side.shape for side in sides] == [
            (len(target) + 1, len(source) + 1),
            (len(target) + 1, len(target) + 1),
        ]
        for side, expected in zip(sides, closed_form(model, source, target), strict=True):
            np.testing.assert_allclose(side, expected, atol=1e-5)
        # A model that only adds: contributions are all of the logit. The start symbol's are the first column.
        logits = model(torch.tensor([[*source, END_ID]]), torch.ones(1, len(source) + 1), torch.tensor([[1, *target]]))
        labels = torch.tensor([*target, END_ID])[:, None]
        whole = logits[0].gather(1, labels)[:, 0].detach()
        np.testing.assert_allclose(sides[0].sum(1) + sides[1].sum(1), whole, atol=1e-4)
        assert not np.triu(sides[1], 1).any()
    assert statistics.forward_passes == len(sources)  # those that the method counted, and no others
    assert statistics.backward_passes == sum(len(target) + 1 for target in targets)


def test_passes_of_a_methods_own_get_noisy_copies_too(
    model: LinearModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = add_method(tmp_path, monkeypatch)
    register(monkeypatch, replace(spec, name="noisy", parameters={**spec.parameters, **NOISE}))
    method = parse("noisy,sign=kept,sigma=0.3,n=7,seed=3")
    sources, targets = text()
    found = dict(attribute(model, sources, targets, [method]))
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        vectors = model.table(torch.tensor([*source, END_ID]))
        drawn = unit_noise(3, number, range(7), *vectors.shape).mean(0)
        expected = closed_form(model, source, target, 0.3 * (vectors.max() - vectors.min()) * drawn)
        for name, side in zip(method.matrices, expected, strict=True):
            np.testing.assert_allclose(found[number][name], side, atol=1e-4)
    statistics = Statistics()
    list(attribute(model, sources, targets, [method], adaptive=0.01, statistics=statistics))
    assert 0 < statistics.copies[method.text] < 7 * sum(len(target) + 1 for target in targets)


def test_a_gradient_method_is_a_reading_of_shared_passes(model: LinearModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def length(gradient: Tensor, embeddings: Tensor) -> Tensor:
        return gradient.norm(dim=-1)

    passes = GradientPasses(lambda values: Reading(length))
    register(monkeypatch, MethodSpec("length", passes=passes, parameters=GRADIENT, **TOLD))
    sources, targets = text()
    counts = [Statistics(), Statistics()]
    alone = dict(attribute(model, sources, targets, [parse("grad")], statistics=counts[0]))
    both = dict(attribute(model, sources, targets, parse_all(["grad", "length"]), statistics=counts[1]))
    assert counts[1].backward_passes == counts[0].backward_passes > 0
    assert counts[1].forward_passes == counts[0].forward_passes == len(sources)
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        np.testing.assert_allclose(both[number]["ding_grad"], alone[number]["ding_grad"], atol=1e-5)
        # Every column of the gradient is the same vector, times the weight of that source position.
        weights = model.of_source[: len(target) + 1, : len(source) + 1].abs()
        np.testing.assert_allclose(both[number]["length"], weights / weights.sum(1, keepdim=True), atol=1e-5)


def test_a_method_may_read_states_and_attention_of_the_shared_pass(
    model: LinearModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def score(inputs: Any, forward: Any, values: Any) -> Contributions:
        gain = inputs.model.logits(forward.states).amax(-1)
        return Contributions(forward.cross[-1].weights[:, 0] * gain[..., None])

    register(monkeypatch, MethodSpec("gain", passes=ForwardPass(score), **TOLD))
    sources, targets = text()
    statistics = Statistics()
    found = dict(attribute(model, sources, targets, parse_all(["gain", "attention"]), statistics=statistics))
    assert statistics.forward_passes == len(sources)
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        mask = torch.ones(1, len(source) + 1, dtype=torch.bool)
        logits = model(torch.tensor([[*source, END_ID]]), mask, torch.tensor([[BEGIN_ID, *target]]))
        expected = found[number]["attention"] * logits[0].detach().amax(-1, keepdim=True).numpy()
        np.testing.assert_allclose(found[number]["gain"], expected, atol=1e-5)


def test_a_parameter_called_n_is_no_noise(model: LinearModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def score(inputs: Any, values: Any) -> Contributions:
        return Contributions(torch.full((*inputs.labels.shape, inputs.source.shape[1]), float(values["n"])))

    register(monkeypatch, MethodSpec("top", passes=OwnPasses(score), parameters={"n": NOISE["n"]}, **TOLD))
    found = dict(attribute(model, *text(3), parse_all(["top,n=2", "top,n=5"])))
    assert all((each["top,n=2"] == 2).all() and (each["top,n=5"] == 5).all() for each in found.values())


def _only_source(inputs: Any, values: Any) -> Contributions:
    return Contributions(inputs.vectors.new_zeros(*inputs.labels.shape, inputs.source.shape[1]))


def test_a_method_that_gives_other_matrices_than_it_declares_is_told(
    model: LinearModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(monkeypatch, MethodSpec("half", passes=OwnPasses(_only_source), prefix=True, **TOLD))
    with pytest.raises(ValueError, match="method half declares 2 matrices, but gave 1"):
        list(attribute(model, *text(3), [parse("half")]))


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"passes": TracedAttention(lambda attention, head: attention.weights)}, "needs parameters layer, head, step"),
        ({"passes": GradientPasses(lambda values: Reading())}, "needs parameters gradient, score, label"),
        ({"passes": OwnPasses(_only_source), "parameters": {"sigma": NOISE["sigma"]}}, "needs parameters n, seed"),
        (
            {"passes": GradientPasses(lambda values: Reading()), "parameters": GRADIENT, "prefix": True},
            "GradientPasses cannot explain the prefix",
        ),
    ],
)
def test_a_spec_that_cannot_work_is_told_when_it_is_made(declared: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"method x: .*{message}"):
        MethodSpec("x", **TOLD, **declared)


def test_a_method_says_which_architectures_it_works_with() -> None:
    anything = MethodSpec("any", passes=OwnPasses(_only_source), **TOLD)
    some = replace(anything, only=Only(("lstm", "fconv"), "it has no rule for more than one head"))
    assert all(anything.supports(name) for name in ("lstm", "transformer"))
    assert [name for name in ("transformer", "lstm", "fconv") if some.supports(name)] == ["lstm", "fconv"]


def test_the_engine_asks_for_no_name(project: Path) -> None:
    """What a method needs stands in its file; elsewhere no text is the name of one, or begins or ends one."""
    root = project / "src" / "alignlens"
    files = [*(root / "attribution").glob("*.py"), *(root / "attribution/gradients").glob("*.py")]
    files += (root / "costs").glob("*.py")
    assert len(files) > 20
    names = {*METHODS, *ALIASES, "li", "smoothed_"}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.Constant) and node.value in names), f"{path}:{node.lineno}"
