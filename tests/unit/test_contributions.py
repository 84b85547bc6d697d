"""Shares of source and prefix, by hand: entropies, influence, divergence, and which sentences are suspicious."""

from __future__ import annotations

import numpy as np
import pytest

from alignlens.metrics.contributions import Steps, Suspicion, divergence, entropy, influence

SOURCE = np.array([[0.6, 0.2], [0.1, 0.3], [0.25, 0.25]])
PREFIX = np.array([[0.2, 0.0, 0.0], [0.2, 0.4, 0.0], [0.1, 0.1, 0.3]])


def test_shares_are_of_source_target_and_start_and_sum_to_one() -> None:
    steps = Steps.of(SOURCE, PREFIX)
    assert steps.source == pytest.approx([0.8, 0.4, 0.5])
    assert steps.target == pytest.approx([0.0, 0.4, 0.4])
    assert steps.start == pytest.approx([0.2, 0.2, 0.1])
    assert steps.renormalised == pytest.approx([1.0, 0.5, 5 / 9])
    assert steps.mean_share() == pytest.approx((0.5 + 5 / 9) / 2)


def test_scores_of_any_size_are_shares() -> None:
    one, other = Steps.of(SOURCE, PREFIX), Steps.of(7 * SOURCE, 7 * PREFIX)
    assert other.source == pytest.approx(one.source)
    assert other.source_entropy == pytest.approx(one.source_entropy)


def test_entropies_are_of_each_side_by_itself() -> None:
    steps = Steps.of(SOURCE, PREFIX)
    assert steps.source_entropy[2] == pytest.approx(np.log(2))
    assert steps.source_entropy[0] == pytest.approx(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25)))
    assert np.isnan(steps.target_entropy[0])
    assert steps.target_entropy[1] == 0
    assert steps.target_entropy[2] == pytest.approx(-(0.25 * np.log(0.25) + 0.75 * np.log(0.75)))
    assert entropy(np.zeros((1, 3))) == pytest.approx([0.0])


def test_influence_has_a_mean_of_one() -> None:
    found = influence(SOURCE)
    assert found.mean() == pytest.approx(1)
    assert found[0] == pytest.approx((0.75 + 0.25 + 0.5) * 2 / 3)


def test_divergence_is_of_the_final_scores_to_earlier_ones() -> None:
    assert divergence((SOURCE, PREFIX), (SOURCE, PREFIX)) == pytest.approx(0, abs=1e-12)
    final = np.array([[0.5, 0.5]]), np.array([[0.0]])
    earlier = np.array([[0.25, 0.75]]), np.array([[0.0]])
    assert divergence(final, earlier) == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(2 / 3), abs=1e-6)
    # The start symbol has no part in it.
    assert divergence((SOURCE, PREFIX), (SOURCE, PREFIX + np.array([[0.5, 0, 0]]))) == pytest.approx(0, abs=1e-12)


def test_a_sentence_is_suspicious_far_below_the_median() -> None:
    shares = [0.6, 0.61, 0.59, 0.62, 0.58, 0.3]
    rule = Suspicion.of(shares)
    assert rule.median == pytest.approx(0.595)
    assert rule.bound == pytest.approx(0.595 - 3 * 0.015 / 0.6745)
    assert [rule.holds(share) for share in shares] == [False] * 5 + [True]
    assert not any(map(Suspicion.of([0.5, 0.5]).holds, [0.5, 0.4999]))
    assert not Suspicion.of([]).holds(0.0)
    assert not Suspicion.of([float("nan")]).holds(float("nan"))


@pytest.mark.parametrize("wrong", [[[-0.1, 1.0]], [[np.nan, 1.0]], [[0.0, 0.0]]])
def test_scores_that_are_no_shares_are_refused(wrong: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="none negative"):
        Steps.of(np.array(wrong), np.array([[0.0]]))
