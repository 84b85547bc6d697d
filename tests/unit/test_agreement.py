"""Agreement A, xi and Kendall's tau on rows made by hand, with ties and constants, and on random ones."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from agreement_oracle import like, ragged, slow_agreement, slow_tau

from alignlens.metrics import kendall
from alignlens.metrics.agreement import Rows, agreement, first_above, generator_of, greatest
from alignlens.metrics.kendall import kendall_tau


def rows(*values: list[float]) -> Rows:
    return Rows.of([np.array([row], np.float32) for row in values])


def agrees(u: list[float], v: list[float]) -> bool:
    return bool(agreement(rows(u), rows(v))[0])


def test_a_short_row_agrees_where_v_is_at_its_maximum() -> None:
    assert agrees([0.1, 0.7, 0.2], [1, 5, 3])
    assert not agrees([0.1, 0.7, 0.2], [5, 1, 3])
    # It is not symmetric: u points at 1, where v has its maximum too; v points at 0, where u is not the largest.
    assert agrees([0, 2, 1], [5, 5, 0])
    assert not agrees([5, 5, 0], [0, 2, 1])


def test_only_strictly_larger_values_count_and_the_first_maximum_points() -> None:
    assert agrees([0, 1, 0], [3, 3, 3])
    assert agrees([0, 1, 0], [3, 3, 2])
    assert agrees([1, 1, 0], [3, 2, 1])
    assert not agrees([1, 1, 0], [2, 3, 1])
    assert agrees([7, 7, 7], [2, 1, 1])
    assert not agrees([7, 7, 7], [1, 2, 1])


@pytest.mark.parametrize(("length", "allowed"), [(1, 0), (19, 0), (20, 0), (21, 1), (40, 1), (41, 2), (60, 2), (61, 3)])
def test_fewer_than_a_twentieth_of_the_positions_may_be_larger(length: int, allowed: int) -> None:
    u = [1.0] + [0.0] * (length - 1)
    for larger in range(min(length, allowed + 3)):
        v = [0.0] + [1.0 + k for k in range(larger)] + [-1.0] * (length - 1 - larger)
        assert agrees(u, v) == (larger <= allowed), larger


def test_a_constant_agrees_with_everything_and_shows_it() -> None:
    constant, any_row = rows([0.25] * 4), rows([0, 0, 9, 1])
    assert agreement(any_row, constant).all()
    assert constant.distinct.tolist() == [1]
    assert math.isnan(kendall_tau(any_row, constant)[0])
    assert math.isnan(kendall_tau(constant, any_row)[0])
    assert rows([1, 2, 2, 3], [-5, -5, -5, -5], [0.0, -0.0, 1, 1]).distinct.tolist() == [3, 1, 2]
    # Rows of one position are constant too, however much padding follows them.
    several = rows([3], [1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert several.distinct.tolist() == [1, 9]
    assert np.isnan(kendall_tau(several, several)).tolist() == [True, False]


def test_a_row_without_positions_or_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="without positions"):
        Rows.of([np.zeros((1, 0), np.float32)])
    with pytest.raises(ValueError, match="different lengths"):
        agreement(rows([1, 2]), rows([1, 2, 3]))
    with pytest.raises(ValueError, match="different lengths"):
        kendall_tau(rows([1, 2]), rows([1, 2, 3]))


@pytest.mark.parametrize("values", [2, 3, 6, 10_000])
def test_many_rows_at_once_are_the_rows_one_by_one(values: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(values)
    one = ragged(generator, 120, 45, values)
    other = like(generator, one, values)
    left, right = Rows.of(one), Rows.of(other)
    pairs = [(u, v) for first, second in zip(one, other, strict=True) for u, v in zip(first, second, strict=True)]
    assert agreement(left, right).tolist() == [slow_agreement(u, v) for u, v in pairs]
    assert left.distinct.tolist() == [len(set(u.tolist())) for u, _ in pairs]
    taus = [slow_tau(u, v) for u, v in pairs]
    assert 0 < np.isnan(taus).sum() < len(taus) / 2
    np.testing.assert_allclose(kendall_tau(left, right), taus, atol=1e-12)
    monkeypatch.setattr(kendall, "PAIRS_AT_ONCE", 1)
    np.testing.assert_allclose(kendall_tau(left, right), taus, atol=1e-12)


def test_tau_of_hand_made_rows() -> None:
    assert kendall_tau(rows([1, 2, 3, 4]), rows([1, 2, 3, 4]))[0] == pytest.approx(1)
    assert kendall_tau(rows([1, 2, 3, 4]), rows([9, 7, 5, 3]))[0] == pytest.approx(-1)
    # Five pairs of each are untied, and all four that both have agree.
    assert kendall_tau(rows([1, 1, 2, 3]), rows([1, 2, 2, 3]))[0] == pytest.approx(0.8)


def test_a_shuffle_keeps_the_values_of_every_row_and_its_seed_has_a_name() -> None:
    generator = np.random.default_rng(1)
    given = Rows.of(ragged(generator, 200, 30, 5))
    drawn = given.shuffled(generator_of(1, "run", "000500"))
    assert np.array_equal(np.sort(drawn.ranks), np.sort(given.ranks))
    beyond = np.arange(given.ranks.shape[1]) >= given.lengths[:, None]
    assert (drawn.ranks[beyond] == -1).all()
    assert (drawn.ranks != given.ranks).any()
    assert np.array_equal(drawn.ranks, given.shuffled(generator_of(1, "run", "000500")).ranks)
    assert not np.array_equal(drawn.ranks, given.shuffled(generator_of(2, "run", "000500")).ranks)
    assert not np.array_equal(drawn.ranks, given.shuffled(generator_of(1, "run", "001000")).ranks)


def test_a_shuffled_row_agrees_as_often_as_its_values_allow() -> None:
    # One of four values is the largest in the first row; two are in the second.
    given = Rows.of([np.array([[1, 2, 3, 4]], np.float32), np.array([[4, 2, 3, 4]], np.float32)] * 4000)
    found = agreement(given, given.shuffled(generator_of(7, "test")))
    assert found[::2].mean() == pytest.approx(0.25, abs=0.03)
    assert found[1::2].mean() == pytest.approx(0.5, abs=0.03)


def test_xi_is_the_performance_at_the_first_checkpoint_above() -> None:
    curve = {"000000": 10.0, "000050": 30.0, "000100": 50.0, "000500": 40.0}
    performance = {"000000": 1.0, "000050": 20.0, "000100": 25.0, "000500": 60.0}
    assert first_above(5, curve, performance) == 1.0
    assert first_above(10, curve, performance) == 20.0  # strictly
    assert first_above(30, curve, performance) == 25.0
    assert first_above(45, curve, performance) == 25.0
    assert first_above(50, curve, performance) is None
    assert first_above(math.nan, curve, performance) is None
    assert first_above(5, {"000000": math.nan, "000050": 6.0}, performance) == 20.0


def test_the_greatest_is_the_first_of_equals() -> None:
    assert greatest({"000000": 1.0, "000050": 3.0, "000100": 3.0}) == "000050"
    assert greatest({"000000": math.nan, "000050": -3.0}) == "000050"
    assert greatest({"000000": math.nan}) is None


MEMORY = """
import resource, sys
import numpy as np
from alignlens.metrics.agreement import Rows
from alignlens.metrics.kendall import kendall_tau
generator = np.random.default_rng(1)
rows = [Rows.of([generator.random((int(sys.argv[1]), 400), dtype=np.float32)]) for _ in range(2)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
kendall_tau(*rows)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def test_memory_does_not_grow_with_the_pairs_of_all_rows() -> None:
    answer = subprocess.run([sys.executable, "-c", MEMORY, "1000"], check=True, capture_output=True, text=True)
    assert int(answer.stdout) < 32  # megabytes, where all comparisons of one explanation as bytes would be 150
