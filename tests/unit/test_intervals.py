"""Intervals of many systems at once: the same numbers as one by one, and as the plain loop over resampled corpora."""

from __future__ import annotations

import numpy as np
import pytest

from alignlens.metrics.aer import Counts, scores_of
from alignlens.metrics.bootstrap import aer_interval, aer_intervals


def systems_of(count: int, sentences: int) -> list[Counts]:
    generator = np.random.default_rng(5)
    sure = generator.integers(0, 9, sentences)
    found = []
    for _ in range(count):
        links = generator.integers(0, 12, sentences)
        possible = np.minimum(links, generator.integers(0, 12, sentences))
        found.append(Counts(np.stack([np.minimum(possible, sure), possible, links, sure], axis=1)))
    return found


def test_equals_the_plain_loop() -> None:
    systems = systems_of(3, 40)
    generator = np.random.default_rng(7)
    # The corpora are drawn 64 at a time.
    drawn = np.concatenate([generator.integers(0, 40, size=(64, 40)), generator.integers(0, 40, size=(36, 40))])
    for system, interval in zip(systems, aer_intervals(systems, 90, 100, 7), strict=True):
        values = [scores_of(*system.per_sentence[sample].sum(axis=0)).aer for sample in drawn]
        assert (interval.low, interval.high) == pytest.approx(tuple(np.percentile(values, [5, 95])), abs=1e-10)
        assert (interval.level, interval.samples, interval.seed) == (90, 100, 7)


def test_one_by_one_gives_exactly_the_same() -> None:
    systems = systems_of(9, 33)
    assert aer_intervals(systems, samples=200) == [aer_interval(system, samples=200) for system in systems]
    assert aer_intervals([]) == []


def test_systems_on_different_sentences_are_refused() -> None:
    with pytest.raises(ValueError, match="different sentences"):
        aer_intervals([*systems_of(1, 5), *systems_of(1, 6)])
