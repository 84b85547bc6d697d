"""Numbers with samples: the plain loop over resampled texts and seeds, and cases that can be told without any."""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from alignlens.metrics.aer import Counts, scores_of
from alignlens.metrics.bootstrap import paired_test
from alignlens.metrics.sampled import Draws, Sampled, greatest_of, least_of, mean_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


def system(seed: int, sentences: int = 40) -> Counts:
    """Links of a system on text whose gold links are always the same."""
    sure = np.random.default_rng(1).integers(1, 9, sentences)
    generator = np.random.default_rng(seed)
    links = generator.integers(1, 12, sentences)
    hits = np.minimum(np.minimum(links, sure), generator.integers(0, 12, sentences))
    return Counts(np.stack([hits, hits, links, sure], axis=1))


def error_rate(draws: Draws, counts: Counts) -> Sampled:
    table = counts.per_sentence
    samples = 100 * (1 - draws.ratio(table[:, :2].sum(axis=1), table[:, 2:].sum(axis=1)))
    return Sampled(counts.scores().aer, samples)


def drawn(sentences: int, samples: int, seed: int) -> NDArray[np.int64]:
    """The sentences of every resampled text, which are drawn 64 at a time."""
    generator = np.random.default_rng(seed)
    sizes = [min(64, samples - done) for done in range(0, samples, 64)]
    return np.concatenate([generator.integers(0, sentences, size=(size, sentences)) for size in sizes])


def test_a_difference_is_that_of_the_plain_loop() -> None:
    draws, first, second = Draws(90, 100, 7), system(2), system(3)
    found = error_rate(draws, first) - error_rate(draws, second)
    loop = []
    for sample in drawn(40, 100, 7):
        rates = [scores_of(*counts.per_sentence[sample].sum(axis=0)).aer for counts in (first, second)]
        loop.append(rates[0] - rates[1])
    assert found.samples is not None
    assert found.samples.tolist() == pytest.approx(loop, abs=1e-10)
    assert found.interval(90) == pytest.approx(tuple(np.percentile(loop, [5, 95])), abs=1e-10)
    # And that of the verb that compares two files.
    alone = paired_test(first, second, 90, 100, 7)
    assert (found.value, *(found.interval(90) or ())) == pytest.approx((alone.difference, alone.low, alone.high))


def test_the_spread_of_a_mean_is_known() -> None:
    values = np.repeat([0.0, 1.0], 50)
    samples = Draws(samples=4000).ratio(values, np.ones(100))
    assert samples.mean() == pytest.approx(0.5, abs=0.005)
    assert samples.std() == pytest.approx(0.5 / math.sqrt(100), rel=0.05)
    low, high = Sampled(0.5, samples).interval(95) or (0, 0)
    assert (low, high) == pytest.approx((0.5 - 1.96 * 0.05, 0.5 + 1.96 * 0.05), abs=0.011)


def test_the_same_system_differs_by_exactly_nothing() -> None:
    draws = Draws()
    found = error_rate(draws, system(2)) - error_rate(draws, system(2))
    assert (found.value, found.interval(95)) == (0, (0, 0))


def test_sentences_without_a_number_do_not_count() -> None:
    values, known = np.array([1.0, 0.0, 3.0]), np.array([True, False, True])
    loop = []
    for sample in drawn(3, 50, 1):
        chosen = [values[k] for k in sample if known[k]]
        loop.append(np.mean(chosen) if chosen else math.nan)
    assert any(map(math.isnan, loop))
    assert Draws(samples=50).ratio(values, known).tolist() == pytest.approx(loop, nan_ok=True)
    assert Sampled(2.0, np.array(loop)).interval(100) == (1, 3)


def test_one_sentence_says_nothing_about_others() -> None:
    found = error_rate(Draws(), system(2, sentences=1))
    assert found.interval(95) == (-math.inf, math.inf)
    assert (found - error_rate(Draws(), system(3, sentences=1))).interval(95) == (-math.inf, math.inf)


def test_numbers_without_samples_are_exact() -> None:
    exact, varying = Sampled(2.0), Sampled(3.0, np.array([1.0, 5.0]))
    assert (exact - 1).samples is None
    assert (exact + exact).interval(95) is None
    assert mean_of([exact, exact]).samples is None
    assert ((varying - exact).samples, (-varying).samples) == (
        pytest.approx(np.array([-1.0, 3.0])), pytest.approx(np.array([-1.0, -5.0])),
    )  # fmt: skip
    assert abs(varying - exact).samples == pytest.approx(np.array([1.0, 3.0]))


def test_means_and_extremes_are_taken_sample_by_sample() -> None:
    values = [Sampled(1.0, np.array([1.0, 4.0])), Sampled(3.0, np.array([3.0, 2.0])), Sampled(2.0)]
    for function, value, samples in ((mean_of, 2, [2, 8 / 3]), (least_of, 1, [1, 2]), (greatest_of, 3, [3, 4])):
        found = function(values)
        assert found.value == value
        assert found.samples == pytest.approx(np.array(samples))


def test_seeds_are_drawn_again_with_the_sentences() -> None:
    draws = Draws(samples=60, seed=5)
    seeds = [error_rate(draws, system(number)) for number in (2, 3, 4)]
    found = draws.over_seeds("demo lstm", seeds)
    generator = np.random.default_rng([5, zlib.crc32(b"demo lstm")])
    chosen = generator.integers(0, 3, size=(3, 60))
    rows = [seed.samples for seed in seeds]
    loop = [np.mean([rows[chosen[k, sample]][sample] for k in range(3)]) for sample in range(60)]  # type: ignore[index]
    assert found.value == pytest.approx(np.mean([seed.value for seed in seeds]))
    assert found.samples == pytest.approx(np.array(loop))
    assert draws.over_seeds("demo lstm", seeds[:1]) is seeds[0]


def test_seeds_of_one_model_are_drawn_together_and_of_two_models_apart() -> None:
    draws = Draws()
    values = [Sampled(float(number)) for number in (10, 20, 40)]
    shifted = [value + 5 for value in values]
    same = draws.over_seeds("demo lstm", shifted) - draws.over_seeds("demo lstm", values)
    assert same.interval(95) == pytest.approx((5, 5))
    low, high = (draws.over_seeds("demo lstm", shifted) - draws.over_seeds("demo fconv", values)).interval(95) or (0, 0)
    assert low < 0 < 5 < high
