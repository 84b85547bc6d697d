"""Classifiers: parameters, settings, closed forms, padding and gradients."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from classifiers import SMALL, recipe
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from alignlens.classification.examples import Examples
from alignlens.classification.explain import explained
from alignlens.classification.model import Classifier, build
from alignlens.classification.recurrence import hidden_states
from alignlens.classification.settings import QUANTITIES, ClassifierRecipe
from alignlens.errors import ConfigError

WORDS = 20


def made(**model: Any) -> Classifier:
    return build(recipe({**SMALL, **model}).model, WORDS, seed=3)


@pytest.fixture
def examples() -> Examples:
    random = np.random.default_rng(2)
    texts = [random.integers(0, WORDS, length).tolist() for length in (9, 2, 5, 5, 12, 1)]
    return Examples.of(texts, [True, False, True, False, False, True])


def all_of(examples: Examples) -> Any:
    return examples.batch(np.arange(len(examples)))


# ---- sizes ---------------------------------------------------------------------------------------------------


def test_parameters_are_those_of_the_paper() -> None:
    printed = {60338: 19376282, 31065: 10594382, 12488: 5021282, 11022: 4581482, 41368: 13685282, 37110: 12407882}
    for words, parameters in printed.items():
        with torch.device("meta"):
            model = build(recipe().model, words)
        assert model.sizes() == {"parameters": parameters, "parameters_without_embeddings": 1274882}
    with torch.device("meta"):
        one, bag = (build(recipe(each).model, 100) for each in ({"bidirectional": False}, {"kind": "bag_of_words"}))
    assert one.sizes()["parameters_without_embeddings"] == 571_392 + 257 * 256 + 257 + 257
    assert bag.sizes() == {"parameters": 256 * 100 + 257, "parameters_without_embeddings": 257}


def test_settings_have_the_defaults_of_their_kind_and_mistakes_are_told() -> None:
    usual, bag = recipe().training, recipe({"kind": "bag_of_words"}).training
    assert (usual.updates, usual.epochs, usual.learning_rate, usual.batch) == (4000, None, 1e-3, 32)
    assert (bag.updates, bag.epochs, bag.learning_rate, bag.snapshots) == (None, 60, 1.5e-4, (0,))
    assert recipe({"kind": "bag_of_words"}, updates=7).training.epochs is None
    for each in (recipe(), recipe({"kind": "bag_of_words"}), recipe({"trained": "attention"}, epochs=3)):
        assert ClassifierRecipe.from_json(json.loads(json.dumps(each.as_json())), "x") == each
    for model, changes, text in (
        ({"attention": "even"}, {}, "--settings.model.attention: 'even' is not one of learned, uniform"),
        ({"trained": "attention", "attention": "uniform"}, {}, "--settings.model.trained: attention needs"),
        ({}, {"updates": 3, "epochs": 2}, "--settings.training.epochs: give updates or epochs, not both"),
        ({}, {"batch": 0}, "--settings.training.batch: 0 must be at least 1"),
        ({}, {"snapshot": 1}, "--settings.training.snapshot: unknown key"),
    ):
        with pytest.raises(ConfigError) as caught:
            recipe(model, **changes)
        assert text in str(caught.value)


# ---- closed forms --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("lengths", [(6, 4, 4, 1), (3, 3), (1,), (40, 1)])
def test_states_and_gradients_are_those_of_the_library(bidirectional: bool, lengths: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    lstm = torch.nn.LSTM(5, 4, bidirectional=bidirectional, batch_first=True).double()
    vectors = torch.randn(7, 5, dtype=torch.double, requires_grad=True)
    which, sizes = torch.randint(0, 7, (sum(lengths),)), torch.tensor(lengths)
    states = hidden_states(lstm, vectors, which, sizes)
    packed = pack_padded_sequence(pad_sequence(vectors[which].split(list(lengths)), True), sizes, batch_first=True)
    rows, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True)
    expected = torch.cat([row[:length] for row, length in zip(rows, lengths, strict=True)])
    torch.testing.assert_close(states, expected)
    weights, given = torch.randn_like(states), [vectors, *lstm.parameters()]
    found = torch.autograd.grad((states * weights).sum(), given)
    torch.testing.assert_close(found, torch.autograd.grad((expected * weights).sum(), given))


def test_a_second_derivative_of_the_same_steps_is_refused() -> None:
    lstm = torch.nn.LSTM(2, 3, batch_first=True)
    vectors = torch.randn(2, 2, requires_grad=True)
    total = hidden_states(lstm, vectors, torch.tensor([0, 1]), torch.tensor([2])).sum()
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="already taken"):
        total.backward()


def by_hand(model: Any, ids: np.ndarray, positive: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns attention, probe and score of one text, from the weights alone."""
    vectors = model.table.weight[torch.from_numpy(ids.astype(np.int64))]
    states = model.encoder(vectors[None])[0][0]
    logits = torch.stack(
        [
            model.attend.weight[0] @ torch.relu(model.query.weight @ h + model.query.bias) + model.attend.bias[0]
            for h in states
        ]
    )
    attention = torch.exp(logits) / torch.exp(logits).sum()
    if model.settings.attention == "uniform":
        attention = torch.full_like(logits, 1 / len(ids))
    gamma = states @ model.output.weight[0] + model.output.bias
    return attention, (1 if positive else -1) * gamma, attention @ gamma


@pytest.mark.parametrize("changes", [{}, {"attention": "uniform"}, {"bidirectional": False}])
def test_attention_probe_and_score_by_hand(examples: Examples, changes: dict[str, Any]) -> None:
    model = made(**changes)
    batch = all_of(examples)
    found, score = explained(model, batch, QUANTITIES)
    for row, number in enumerate(batch.numbers):
        ids = examples.ids[examples.starts[number] : examples.starts[number + 1]]
        attention, probe, expected = by_hand(model, ids, bool(examples.labels[number]))
        torch.testing.assert_close(found["attention"][row, : len(ids)], attention.detach())
        torch.testing.assert_close(found["probe"][row, : len(ids)], probe.detach())
        torch.testing.assert_close(score[row], expected.detach())
        assert not found["attention"][row, len(ids) :].any()
        assert not found["probe"][row, len(ids) :].any()


def test_a_bag_of_words_is_a_mean_and_its_probe_has_no_bias(examples: Examples) -> None:
    model: Any = made(kind="bag_of_words")
    batch = all_of(examples)
    found, score = explained(model, batch, QUANTITIES)
    for row, number in enumerate(batch.numbers):
        ids = torch.from_numpy(examples.ids[examples.starts[number] : examples.starts[number + 1]].astype(np.int64))
        said = (model.table.weight[ids] @ model.output.weight[0]).detach()
        sign = 1 if examples.labels[number] else -1
        torch.testing.assert_close(found["probe"][row, : len(ids)], sign * said)
        torch.testing.assert_close(score[row], said.mean() + model.output.bias[0].detach())
        torch.testing.assert_close(found["attention"][row, : len(ids)], torch.full((len(ids),), 1 / len(ids)))


@pytest.mark.parametrize("changes", [{}, {"attention": "uniform"}, {"bidirectional": False}, {"kind": "bag_of_words"}])
def test_saliency_is_the_slope_of_the_log_probability(examples: Examples, changes: dict[str, Any]) -> None:
    """Along e_l * (1 + t) the log-probability of the label changes by the saliency of l, to first order."""
    model = made(**changes).double()
    batch = all_of(examples)
    found, _ = explained(model, batch, QUANTITIES)
    vectors = model.table.weight.detach()[torch.from_numpy(batch.ids)]
    sign = torch.from_numpy(batch.labels).double() * 2 - 1
    lengths, which, step = torch.from_numpy(batch.lengths), torch.arange(len(vectors)), 1e-5

    def log_probability(token: int, change: float) -> torch.Tensor:
        moved = vectors.clone()
        moved[token] *= 1 + change
        return torch.nn.functional.logsigmoid(sign * model(moved, which, lengths).score)

    token = 0
    for row, length in enumerate(batch.lengths):
        for place in range(length):
            slope = (log_probability(token, step) - log_probability(token, -step))[row].detach() / (2 * step)
            assert float(found["grad_input"][row, place]) == pytest.approx(float(slope), rel=1e-5, abs=1e-9)
            token += 1


@pytest.mark.parametrize("changes", [{}, {"attention": "uniform"}, {"kind": "bag_of_words"}])
def test_neither_padding_nor_neighbours_change_an_explanation(examples: Examples, changes: dict[str, Any]) -> None:
    model = made(**changes)
    together, scores = explained(model, all_of(examples), QUANTITIES)
    places = {number: row for row, number in enumerate(all_of(examples).numbers.tolist())}
    for number in range(len(examples)):
        alone, score = explained(model, examples.batch(np.array([number])), QUANTITIES)
        assert alone["attention"].sum() == pytest.approx(1)
        torch.testing.assert_close(scores[places[number]], score[0])
        for name, values in alone.items():
            padded = together[name][places[number]]
            torch.testing.assert_close(padded[: values.shape[1]], values[0], rtol=1e-4, atol=1e-6)
            assert not padded[values.shape[1] :].any()
    without, _ = explained(model, all_of(examples), ["probe", "attention"])
    torch.testing.assert_close(without["probe"], together["probe"])
    assert list(without) == ["probe", "attention"]
