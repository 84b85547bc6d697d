from __future__ import annotations

import math

import numpy as np
import pytest

from alignlens.metrics.entropy import corpus_entropy, row_entropies

ONE_HOT = np.array([[0, 1, 0]], dtype=np.float32)


def uniform(rows: int, columns: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.full((rows, columns), 1 / columns, dtype=np.float32)


@pytest.mark.parametrize("columns", [1, 2, 7, 100])
def test_a_uniform_row_has_the_natural_logarithm_of_its_length(columns: int) -> None:
    assert row_entropies(uniform(3, columns)) == pytest.approx([math.log(columns)] * 3, abs=1e-12)


def test_a_row_with_one_cell_has_none_and_zero_times_its_logarithm_is_zero() -> None:
    found = row_entropies(np.array([[0, 1, 0], [0.5, 0, 0.5], [1, 0, 0]], dtype=np.float32))
    assert found.tolist() == [0, math.log(2), 0]
    assert not np.signbit(found).any()


def test_a_known_distribution() -> None:
    row = [0.7, 0.2, 0.1]
    expected = -sum(p * math.log(p) for p in row)
    assert row_entropies(np.array([row])) == pytest.approx([expected], abs=1e-15)


def test_rounding_is_taken_out() -> None:
    assert row_entropies(uniform(1, 4) * np.float32(1.0008)) == pytest.approx([math.log(4)], abs=1e-7)


@pytest.mark.parametrize("row", [[0.5, 0.4], [0.5, 0.6], [1.5, -0.5], [math.nan, 1.0], [0.0, 0.0]])
def test_a_row_that_is_no_distribution_is_an_error(row: list[float]) -> None:
    with pytest.raises(ValueError, match="row 1 is no distribution"):
        row_entropies(np.array([[1.0, 0.0], row]))
    with pytest.raises(ValueError, match="sentence 1: row 0 is no distribution"):
        corpus_entropy([ONE_HOT, np.array([row])])


def test_the_two_means_differ_where_sentences_have_different_lengths() -> None:
    # One row with log 8, three rows with 0.
    found = corpus_entropy(iter([uniform(1, 8), np.repeat(ONE_HOT, 3, axis=0)]))
    assert found.rows == 4
    assert found.sentence_mean == pytest.approx(math.log(8) / 2)
    assert found.row_mean == pytest.approx(math.log(8) / 4)
    assert found.by_sentence.tolist() == pytest.approx([math.log(8), 0])


def test_a_sentence_without_rows_has_no_mean_and_does_not_count() -> None:
    found = corpus_entropy([uniform(1, 8), uniform(0, 3), uniform(2, 8)])
    assert found.sentence_mean == pytest.approx(math.log(8))
    assert np.isnan(found.by_sentence).tolist() == [False, True, False]


def test_scores_that_are_no_distribution_are_made_one() -> None:
    norms = np.array([[2.0, 2.0], [0.0, 8.0]], dtype=np.float32)
    assert row_entropies(norms, distribution=False) == pytest.approx([math.log(2), 0.0])
    found = corpus_entropy([norms, 3 * ONE_HOT[:, :2]], distribution=False)
    assert found.score_mean == pytest.approx(15 / 6)
    with pytest.raises(ValueError, match="row 0 is no distribution"):
        row_entropies(norms)
    for row in ([0.0, 0.0], [1.0, -0.5], [1.0, math.nan], [1.0, math.inf]):
        with pytest.raises(ValueError, match="row 0 is no distribution"):
            row_entropies(np.array([row]), distribution=False)


def test_nothing_has_no_mean() -> None:
    found = corpus_entropy([])
    assert (math.isnan(found.sentence_mean), math.isnan(found.row_mean), found.rows) == (True, True, 0)


def test_signed_scores_have_an_entropy_only_if_none_of_them_is_negative() -> None:
    shares, signed = np.array([[2.0, 6.0], [1.0, 1.0]]), np.array([[2.0, 6.0], [1.0, -1.0]])
    found = row_entropies(np.vstack([signed, [[0.0, 0.0]]]), distribution=False, signed=True)
    assert np.isnan(found).tolist() == [False, True, True]
    positive = corpus_entropy([shares, shares], distribution=False, signed=True)
    assert positive.means() == corpus_entropy([shares, shares], distribution=False).means()
    mixed = corpus_entropy([shares, signed], distribution=False, signed=True)
    assert math.isnan(mixed.sentence_mean)
    assert math.isnan(mixed.row_mean)
    assert np.isnan(mixed.by_sentence).all()
    assert (mixed.rows, mixed.score_mean) == (4, (10 + 8) / 8)
    with pytest.raises(ValueError, match="sentence 1: row 0 is no distribution"):
        corpus_entropy([signed, np.array([[math.nan, -1.0]])], distribution=False, signed=True)
    with pytest.raises(ValueError, match="is no distribution"):
        corpus_entropy([signed], distribution=False)
