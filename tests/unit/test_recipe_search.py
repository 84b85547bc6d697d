"""The search for components, on shares with planted candidates: found with and without gold, the same every time."""

from __future__ import annotations

import time

import numpy as np
import pytest

from alignlens.alignment.links import Alignment
from alignlens.metrics import aer
from alignlens.recipes import search as searching
from alignlens.recipes.grid import Grid
from alignlens.recipes.search import Agreement, Candidates, ErrorRate, search

SOURCES, TARGETS = np.array([3, 5, 0, 4, 6, 7]), np.array([4, 5, 2, 3, 6, 5])
GRID = Grid.of(TARGETS, SOURCES)
THRESHOLDS = (0.1, 0.15, 0.3)


def planted(grid: Grid, truth: np.ndarray, share: float, generator: np.random.Generator) -> np.ndarray:
    """Returns shares of which so many are where the truth is, the rest anywhere."""
    noise = generator.random(grid.cells).astype(np.float32)
    return grid.normalised(grid.normalised(noise) * np.float32(1 - share) + truth * np.float32(share))


def links(grid: Grid) -> np.ndarray:
    """Returns links along the diagonal, as cells of a grid."""
    found = [
        [(min(column, row), row) for row in range(height) for column in [min(row, width - 1)]]
        for height, width in zip(grid.heights.tolist(), grid.widths.tolist(), strict=True)
    ]
    return grid.links(
        Alignment.from_pairs([pairs if width else [] for pairs, width in zip(found, grid.widths, strict=True)])
    )


def sides(count: int = 12, good: tuple[int, int] = (7, 3), grid: Grid = GRID) -> list[Candidates]:
    """Returns candidates of both directions, one of each along the diagonal."""
    generator = np.random.default_rng(1)
    made = []
    for side, place in zip((grid, grid.turned), good, strict=True):
        values = [planted(side, links(side), 0.9 if k == place else 0.0, generator) for k in range(count)]
        made.append(Candidates(side, np.stack(values)))
    return made


def test_the_grid_is_the_matrices_of_all_sentences() -> None:
    generator = np.random.default_rng(2)
    matrices = [generator.random((t, s)).astype(np.float32) for t, s in zip(TARGETS, SOURCES, strict=True)]
    matrices[3][1] = 0
    values = np.concatenate([each.ravel() for each in matrices])
    np.testing.assert_array_equal(
        values[GRID.turned.places_turned], np.concatenate([each.T.ravel() for each in matrices])
    )
    np.testing.assert_array_equal(values[GRID.places_turned][GRID.turned.places_turned], values)
    shares = GRID.normalised(values)
    best = GRID.best(values)
    for number, matrix in enumerate(matrices):
        low, high = GRID.offsets[number : number + 2]
        sums = matrix.sum(1, keepdims=True)
        expected = np.divide(matrix, sums, out=np.zeros_like(matrix), where=sums > 0)
        np.testing.assert_allclose(shares[low:high], expected.ravel(), rtol=1e-6)
        if matrix.size:
            rows = [row for row in range(len(matrix)) if matrix[row].any()]
            cells = [low + row * matrix.shape[1] + int(matrix[row].argmax()) for row in rows]
            assert best[(best >= low) & (best < high)].tolist() == cells


def test_of_equal_values_the_first_counts() -> None:
    grid = Grid.of(np.array([2]), np.array([3]))
    assert grid.best(np.array([0, 2, 2, 1, 1, 1], np.float32)).tolist() == [1, 3]


def test_agreement_is_the_f1_of_links_whatever_is_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    both = sides(4, (1, 2))
    table = Agreement(*both).table()
    for (row, column), found in np.ndenumerate(table):
        here = set(GRID.best(both[0].values[row]).tolist())
        there = set(GRID.turned.places_turned[GRID.turned.best(both[1].values[column])].tolist())
        assert found == pytest.approx(2 * len(here & there) / (len(here) + len(there)))
        assert Agreement(*both).score([both[0].values[row], both[1].values[column]]) == pytest.approx(found)
    monkeypatch.setattr(searching, "_CELLS_AT_ONCE", 7)
    np.testing.assert_array_equal(Agreement(*both).table(), table)


def test_without_gold_the_planted_pair_is_found_among_noise() -> None:
    both = sides()
    steps = search(both, Agreement(*both))
    assert [(step.side, step.candidate) for step in steps[:2]] == [(0, 7), (1, 3)]
    assert steps[0].score == steps[1].score == steps[0].alone == Agreement(*both).table().max()
    assert steps == search(both, Agreement(*both))


def test_components_that_know_different_words_are_added_up() -> None:
    generator = np.random.default_rng(5)
    grid = Grid.of(np.full(20, 8), np.full(20, 8))
    truth = links(grid)
    odd = (np.arange(grid.cells) // 8) % 2 == 1  # rows of every other target word
    noise = [planted(grid, truth, 0.0, generator) for _ in range(3)]
    # Each is certain of half of the words and knows nothing of the others.
    halves = [
        grid.normalised(np.where(mine, truth * np.float32(1), np.float32(0.125)) + np.float32(0.001) * noise[0])
        for mine in (odd, ~odd)
    ]
    whole = planted(grid.turned, links(grid.turned), 0.9, generator)
    both = [Candidates(grid, np.stack([*noise, *halves])), Candidates(grid.turned, np.stack([*noise, whole]))]
    steps = search(both, Agreement(*both))
    assert {(step.side, step.candidate) for step in steps} >= {(0, 3), (0, 4), (1, 3)}
    assert steps[-1].score == pytest.approx(1)
    gains = np.diff([step.score for step in steps[1:]])
    assert (gains >= searching.GAIN).all()


def test_with_gold_the_error_rate_falls_and_is_that_of_the_links() -> None:
    both = sides()
    gold = links(GRID)
    judge = ErrorRate(both, gold, gold, THRESHOLDS)
    steps = search(both, judge)
    assert [(step.side, step.candidate) for step in steps[:2]] == [(0, 7), (1, 3)]
    table = judge.table()
    for row, column in ((7, 3), (0, 0), (7, 0)):
        product = both[0].values[row] * both[1].values[column][GRID.places_turned]
        rates = []
        for threshold in THRESHOLDS:
            linked = product > np.float32(threshold)
            hits = int((linked & gold).sum())
            rates.append(aer.scores_of(hits, hits, int(linked.sum()), int(gold.sum())).aer / 100)
        score, threshold = judge.best([both[0].values[row], both[1].values[column]])
        assert table[row, column] == pytest.approx(-min(rates))
        assert score == pytest.approx(-min(rates), abs=0.02)  # normalised once more, to within rounding
        assert threshold in THRESHOLDS


def test_with_gold_one_direction_is_enough() -> None:
    forward = sides()[:1]
    gold = links(GRID)
    judge = ErrorRate(forward, gold, gold)
    steps = search(forward, judge)
    assert (steps[0].side, steps[0].candidate) == (0, 7)
    assert judge.best([forward[0].values[7]])[1] is None


def test_of_equal_candidates_the_first_is_taken() -> None:
    both = sides(6, (2, 4))
    doubled = [Candidates(each.grid, np.concatenate((each.values, each.values))) for each in both]
    steps = search(doubled, Agreement(*doubled))
    assert [(step.side, step.candidate) for step in steps[:2]] == [(0, 2), (1, 4)]


def test_many_candidates_take_seconds() -> None:
    grid = Grid.of(np.full(100, 20), np.full(100, 20))
    both = sides(48, (40, 17), grid)
    gold = links(grid)
    started = time.process_time()
    for judge in (Agreement(*both), ErrorRate(both, gold, gold, THRESHOLDS)):
        assert [step.candidate for step in search(both, judge)[:2]] == [40, 17]
    assert time.process_time() - started < 60
