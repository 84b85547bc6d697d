from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alignlens.alignment.links import LONGEST_SENTENCE, Alignment

Corpus = list[set[tuple[int, int]]]
corpora = st.lists(st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6))), max_size=7)


def test_an_alignment_is_its_links_sorted_and_without_duplicates() -> None:
    alignment = Alignment.from_pairs([[(2, 1), (0, 0), (2, 1)], [], [(5, 3)]])
    assert len(alignment) == 3
    assert list(alignment) == [[(0, 0), (2, 1)], [], [(5, 3)]]
    assert alignment.counts().tolist() == [2, 0, 1]
    assert alignment.offsets().tolist() == [0, 2, 2, 3]


def test_scores_follow_their_links() -> None:
    arrays = [np.array(values) for values in ([0, 0, 0], [1, 0, 1], [1, 2, 1])]
    alignment = Alignment.from_arrays(*arrays, sentences=1, scores=np.array([0.5, 0.25, 0.125]))
    assert alignment[0] == [(0, 2), (1, 1)]
    assert alignment.scores is not None
    assert alignment.scores.tolist() == [0.25, 0.5]
    assert alignment.transposed().scores.tolist() == [0.5, 0.25]  # type: ignore[union-attr]


@given(corpora, corpora)
def test_set_operations_are_those_of_python_sets(
    left: list[set[tuple[int, int]]], right: list[set[tuple[int, int]]]
) -> None:
    size = min(len(left), len(right))
    left, right = left[:size], right[:size]
    first, second = Alignment.from_pairs(left), Alignment.from_pairs(right)
    for combined, operation in (
        (first & second, set.__and__),
        (first | second, set.__or__),
        (first - second, set.__sub__),
    ):
        assert [set(links) for links in combined] == [operation(a, b) for a, b in zip(left, right, strict=True)]
        assert np.all(np.diff(combined.keys) > 0)


@given(corpora)
def test_transposing_twice_changes_nothing(links: list[set[tuple[int, int]]]) -> None:
    alignment = Alignment.from_pairs(links)
    assert [set(row) for row in alignment.transposed()] == [{(j, i) for i, j in row} for row in links]
    assert alignment.transposed().transposed() == alignment


def test_impossible_indices_are_refused() -> None:
    with pytest.raises(ValueError, match="word index"):
        Alignment.from_pairs([[(LONGEST_SENTENCE, 0)]])
    with pytest.raises(ValueError, match="word index"):
        Alignment.from_pairs([[(0, -1)]])
    with pytest.raises(ValueError, match="2 and 1"):
        _ = Alignment.from_pairs([[], []]) & Alignment.from_pairs([[]])
