"""Sampling: the right distribution, and the same draws in any company."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from table_model import VOCABULARY, WORDS, TableModel, all_targets, batch_of, log_prob_of
from tiny_folder import SMALL

from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID, UNKNOWN_ID
from alignlens.decoding.beam import beam_search
from alignlens.decoding.sampling import _where, sample
from alignlens.decoding.settings import BeamSettings, SamplingSettings
from alignlens.errors import ConfigError, ToolError
from alignlens.models.registry import build
from alignlens.models.settings import ModelSpec, architecture_settings

SOURCES = [[4], [5, 4, 6], [6, 6], [4, 5, 6, 4, 5], [5]]
ALLOWED = [END_ID, *WORDS]


def exact(model: TableModel, source: list[int], longest: int, temperature: float) -> dict[tuple[int, ...], float]:
    """Returns the probability of every translation, by multiplying what the table says."""
    probabilities = {}
    for ids in all_targets(longest):
        with torch.no_grad():
            logits = model(*batch_of(source), torch.tensor([[BEGIN_ID, *ids]]))[0] / temperature
        shares = logits[:, ALLOWED].softmax(-1)
        labels = [ALLOWED.index(token) for token in (*ids, END_ID)]
        if len(ids) == longest:
            labels.pop()  # the end is certain there
        probabilities[ids] = math.prod(float(shares[place, label]) for place, label in enumerate(labels))
    assert sum(probabilities.values()) == pytest.approx(1.0, abs=1e-5)
    return probabilities


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_have_the_probabilities_of_the_table(temperature: float) -> None:
    model = TableModel(2, spread=1.0)
    draws = 5000
    settings = SamplingSettings(draws, temperature, seed=7, max_ratio=0, max_offset=2)
    found = sample(model, *batch_of([5, 4]), settings, [11])[0]
    counts = Counter(hypothesis.ids for hypothesis in found)
    expected = exact(model, [5, 4], 2, temperature)
    assert counts.keys() <= expected.keys()
    statistic = sum((counts[ids] - draws * share) ** 2 / (draws * share) for ids, share in expected.items())
    # 13 translations, 12 degrees of freedom: above 32.9 once in a thousand seeds.
    assert len(expected) == 13
    assert statistic < 32.9
    # The test has the power to see a temperature that is not applied.
    other = exact(model, [5, 4], 2, 1.3 * temperature)
    assert sum((counts[ids] - draws * share) ** 2 / (draws * share) for ids, share in other.items()) > 32.9


@pytest.mark.parametrize("architecture", SMALL)
def test_a_sentence_is_drawn_alike_alone_and_in_any_batch(architecture: str) -> None:
    spec = ModelSpec(architecture, architecture_settings(architecture, SMALL[architecture]), 11, 13)
    model = build(spec, seed=3).eval()
    settings = SamplingSettings(3, 1.0, seed=5, max_ratio=1, max_offset=5)
    numbers = [17, 3, 0, 101, 5]
    together = sample(model, *batch_of(*SOURCES), settings, numbers)
    backwards = sample(model, *batch_of(*SOURCES[::-1]), settings, numbers[::-1])[::-1]
    for source, number, these, those in zip(SOURCES, numbers, together, backwards, strict=True):
        alone = sample(model, *batch_of(source), settings, [number])[0]
        assert [draw.ids for draw in these] == [draw.ids for draw in alone] == [draw.ids for draw in those]
        for draw in these:
            assert draw.log_prob == pytest.approx(log_prob_of(model, source, draw.ids), abs=1e-4)
            assert draw.score == draw.log_prob
            assert not {UNKNOWN_ID, BEGIN_ID, END_ID, PADDING_ID} & set(draw.ids)
            assert len(draw.ids) <= len(source) + 6
            assert draw.finished == (len(draw.ids) < len(source) + 6)


def test_draws_depend_on_seed_and_number_and_not_on_how_many_there_are() -> None:
    model = TableModel(1, spread=0.5)

    def drawn(samples: int, seed: int, number: int) -> list[tuple[int, ...]]:
        settings = SamplingSettings(samples, 1.0, seed, max_ratio=0, max_offset=11)
        return [draw.ids for draw in sample(model, *batch_of([4, 5]), settings, [number])[0]]

    assert drawn(3, 1, 0) == drawn(7, 1, 0)[:3]
    assert len({tuple(drawn(5, seed, number)) for seed in (1, 2) for number in (0, 1)}) == 4


def test_lengths_may_be_counted_from_something_else_than_the_source() -> None:
    model = TableModel(1, spread=0.1)
    with torch.no_grad():
        model.table[:, END_ID] = -30.0  # it never ends by itself
    settings = SamplingSettings(2, max_ratio=1.5, max_offset=1)
    for lengths, expected in ((None, [4, 7, 5, 10, 4]), (np.array([1, 2, 0, 3, 9]), [2, 4, 1, 5, 14])):
        found = sample(model, *batch_of(*SOURCES), settings, range(5), lengths)
        assert [[len(draw.ids) for draw in draws] for draws in found] == [[most] * 2 for most in expected]
    model.longest = 4
    found = sample(model, *batch_of(*SOURCES), settings, range(5), np.full(5, 9))
    assert {len(draw.ids) for draws in found for draw in draws} == {3}


def test_a_cold_model_draws_what_greedy_search_finds() -> None:
    model = TableModel(4)
    limits = {"max_ratio": 0.0, "max_offset": 11}
    settings = SamplingSettings(2, temperature=1e-3, **limits)  # type: ignore[arg-type]
    draws = sample(model, *batch_of(*SOURCES), settings, range(5))
    best = beam_search(model, *batch_of(*SOURCES), BeamSettings(1, **limits))  # type: ignore[arg-type]
    assert [[draw.ids for draw in those] for those in draws] == [[those[0].ids] * 2 for those in best]


def test_only_tokens_with_a_share_are_drawn_whatever_the_number() -> None:
    never = torch.tensor([UNKNOWN_ID, BEGIN_ID, PADDING_ID])
    logits = torch.zeros(3, VOCABULARY)
    logits[:, [5, 6]] = -math.inf
    logits[:, UNKNOWN_ID] = 9.0
    # END and word 4 share all: half each.
    uniform = torch.tensor([0.0, 0.5, 1.0 - 2.0**-53], dtype=torch.float64)
    assert _where(uniform, logits, never).tolist() == [END_ID, 4, 4]


def test_what_cannot_be_drawn_says_so() -> None:
    model = TableModel(1)
    with pytest.raises(ValueError, match="2 numbers for 1"):
        sample(model, *batch_of([4]), SamplingSettings(), [1, 2])
    with torch.no_grad():
        model.table.fill_(math.nan)
    with pytest.raises(ToolError, match="not numbers"):
        sample(model, *batch_of([4]), SamplingSettings(), [1])
    for wrong, key in (({"samples": 0}, "samples"), ({"temperature": 0.0}, "temperature"), ({"seed": -1}, "seed")):
        with pytest.raises(ConfigError, match=rf"decoding\.{key}"):
            SamplingSettings(**wrong)  # type: ignore[arg-type]
