"""Shares of words, their combinations and the product of two directions, on matrices that can be computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from alignlens.alignment.extraction import extract
from alignlens.alignment.soft import best_links, combined, links_above, normalised, product, word_shares

# Two source words, the first of two pieces; two target words, the second of two pieces; then END.
SOURCE, TARGET = [0, 0, 1], [0, 1, 1]
SCORES = np.array(
    [
        [0.1, 0.2, 0.3, 0.4],
        [0.0, 0.2, 0.2, 0.6],
        [0.2, 0.0, 0.6, 0.2],
        [9.0, 9.0, 9.0, 9.0],
    ]
)
# Row 0: 0.3 and 0.3. Rows 1 and 2: 0.2 and 0.2, 0.2 and 0.6, their mean 0.2 and 0.4.
EXPECTED = [[1 / 2, 1 / 2], [1 / 3, 2 / 3]]


def test_pieces_become_shares_of_words_without_the_end() -> None:
    np.testing.assert_allclose(word_shares(SCORES, SOURCE, TARGET), EXPECTED)


def test_begin_is_left_out_too() -> None:
    with_begin = np.concatenate((np.full((4, 1), 7.0), SCORES), axis=1)
    np.testing.assert_allclose(word_shares(with_begin, SOURCE, TARGET, begin=True), EXPECTED)


def test_several_matrices_at_once_are_each_by_itself() -> None:
    stack = np.stack([SCORES, SCORES[:, ::-1]])
    found = word_shares(stack, SOURCE, TARGET)
    for each, matrix in zip(found, stack, strict=True):
        np.testing.assert_array_equal(each, word_shares(matrix, SOURCE, TARGET))


def test_the_best_word_is_that_of_kobayashi_where_the_end_does_not_win() -> None:
    drawn = np.random.default_rng(3).random((50, 5, 6))
    drawn[:, :, -1] = 0
    for matrix in drawn:
        source, target, _ = best_links(word_shares(matrix, [0, 0, 1, 2, 2], [0, 1, 1, 2]))
        links = extract(matrix, [0, 0, 1, 2, 2], [0, 1, 1, 2], "kobayashi")
        assert sorted(zip(source.tolist(), target.tolist(), strict=True)) == [(i, j) for i, j, _ in links]


def test_a_row_of_zeros_stays_one_and_has_no_link() -> None:
    shares = normalised(np.array([[0.0, 0.0], [1.0, 3.0]]))
    np.testing.assert_array_equal(shares, [[0, 0], [0.25, 0.75]])
    assert [column.tolist() for column in best_links(shares)] == [[1], [1], [0.75]]
    one_has_none = combined([shares, np.array([[0.5, 0.5], [1.0, 0.0]])], [1, 1])
    np.testing.assert_array_equal(one_has_none, [[0.5, 0.5], [0.625, 0.375]])


def test_components_are_weighted_and_normalised_again() -> None:
    first, second = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    np.testing.assert_allclose(combined([first, second], [1, 3]), [[0.25, 0.75]])
    np.testing.assert_allclose(combined([first], [0.5]), first)


def test_the_product_and_its_threshold() -> None:
    forward = np.array([[0.9, 0.1, 0.0], [0.5, 0.3, 0.2]])  # 2 target words, 3 source words
    reverse = np.array([[0.6, 0.4], [0.5, 0.5], [0.0, 1.0]])  # 3 source words, 2 target words
    found = product(forward, reverse)
    np.testing.assert_allclose(found, [[0.54, 0.05, 0.0], [0.2, 0.15, 0.2]])
    source, target, scores = links_above(found, 0.15)
    assert list(zip(source.tolist(), target.tolist(), strict=True)) == [(0, 0), (0, 1), (2, 1)]
    np.testing.assert_allclose(scores, [0.54, 0.2, 0.2])
    # What equals the threshold is not above it.
    assert len(links_above(np.array([[0.25, 0.5]]), 0.25)[0]) == 1


def test_words_that_two_models_split_differently_meet_as_words() -> None:
    forward = word_shares(np.array([[0.2, 0.5, 0.3, 0.0], [0, 0, 0, 1.0]]), [0, 1, 1], [0])
    # The reverse model reads the one word in two pieces, and explains the two words in one piece each.
    reverse = word_shares(np.array([[0.1, 0.1, 0.8], [0.4, 0.2, 0.4], [0, 0, 1.0]]), [0, 0], [0, 1])
    np.testing.assert_allclose(product(forward, reverse), [[0.2, 0.8]])


@pytest.mark.parametrize(("source", "target"), [([], []), ([], [0]), ([0], []), ([-1], [0])])
def test_a_side_without_words_has_no_shares(source: list[int], target: list[int]) -> None:
    shares = word_shares(np.ones((len(target) + 1, len(source) + 1)), source, target)
    assert shares.size == 0
    assert best_links(shares)[0].size == links_above(shares, 0.0)[0].size == 0


def test_another_shape_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="expected"):
        word_shares(SCORES, SOURCE, TARGET, begin=True)
