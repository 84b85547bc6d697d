"""Symmetrisation against the textbook loop, sentence by sentence, written here once more as plainly as possible."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignlens.alignment import symmetrize as module
from alignlens.alignment.links import Alignment
from alignlens.alignment.symmetrizations import GROWING, SYMMETRIZATIONS
from alignlens.alignment.symmetrize import symmetrize
from alignlens.errors import ConfigError

Links = set[tuple[int, int]]
NEIGHBOURS = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]
corpora = st.lists(
    st.tuples(*[st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=14)] * 2), min_size=1, max_size=6
)


def textbook(forward: Links, reverse: Links, method: str) -> Links:
    """Koehn, Och and Marcu's loop for one sentence pair; 'lilt' asks for both words free everywhere."""
    if method == "intersection":
        return forward & reverse
    if method == "union":
        return forward | reverse
    both_free_to_grow = method.endswith("lilt")
    both_free_at_the_end = both_free_to_grow or "final-and" in method
    links = forward & reverse

    def free(i: int, j: int, both: bool) -> bool:
        source = all(i != a for a, _ in links)
        target = all(j != b for _, b in links)
        return (source and target) if both else (source or target)

    added = True
    while added:
        added = False
        for i in range(9):
            for j in range(9):
                if (i, j) not in links:
                    continue
                for di, dj in NEIGHBOURS:
                    new = (i + di, j + dj)
                    if new not in links and new in forward | reverse and free(*new, both_free_to_grow):
                        links = links | {new}
                        added = True
    if "final" in method:
        for direction in (forward, reverse):
            for new in sorted(direction):
                if new not in links and free(*new, both_free_at_the_end):
                    links = links | {new}
    return links


@pytest.mark.parametrize("method", SYMMETRIZATIONS)
@given(corpora)
@settings(max_examples=120, deadline=None)
def test_equals_the_textbook_loop(method: str, corpus: list[tuple[Links, Links]]) -> None:
    forward = Alignment.from_pairs([left for left, _ in corpus])
    reverse = Alignment.from_pairs([right for _, right in corpus])
    found = symmetrize(forward, reverse, method)
    assert [set(links) for links in found] == [textbook(left, right, method) for left, right in corpus]


def test_readings_differ_where_one_word_is_taken() -> None:
    # (0,0) in both; (0,1) only forward: its source word is taken, its target word free.
    forward, reverse = Alignment.from_pairs([[(0, 0), (0, 1)]]), Alignment.from_pairs([[(0, 0)]])
    assert symmetrize(forward, reverse, "grow-diag")[0] == [(0, 0), (0, 1)]
    assert symmetrize(forward, reverse, "grow-diag-lilt")[0] == [(0, 0)]
    # (3,0) touches nothing: grow leaves it, final takes it (target 0 taken, source 3 free), final-and does not.
    forward = Alignment.from_pairs([[(0, 0), (3, 0)]])
    assert symmetrize(forward, reverse, "grow-diag")[0] == [(0, 0)]
    assert symmetrize(forward, reverse, "grow-diag-final")[0] == [(0, 0), (3, 0)]
    assert symmetrize(forward, reverse, "grow-diag-final-and")[0] == [(0, 0)]


def test_final_takes_the_forward_direction_first() -> None:
    forward, reverse = Alignment.from_pairs([[(0, 1)]]), Alignment.from_pairs([[(0, 0)]])
    assert symmetrize(forward, reverse, "grow-diag-final-and")[0] == [(0, 1)]
    assert symmetrize(reverse, forward, "grow-diag-final-and")[0] == [(0, 0)]


@pytest.mark.parametrize("method", GROWING)
def test_chunks_of_sentences_make_no_difference(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [([(k % 3, 0), (1, 1), (2, (k * 7) % 4)], [(1, 1), (k % 5, 3), (0, k % 2)]) for k in range(23)]
    forward = Alignment.from_pairs([left for left, _ in pairs])
    reverse = Alignment.from_pairs([right for _, right in pairs])
    whole = symmetrize(forward, reverse, method)
    monkeypatch.setattr(module, "_SENTENCES_AT_ONCE", 8)
    assert symmetrize(forward, reverse, method) == whole


def test_empty_corpora_and_sentences() -> None:
    nothing = Alignment.from_pairs([[], []])
    for method in SYMMETRIZATIONS:
        assert list(symmetrize(nothing, nothing, method)) == [[], []]
        assert len(symmetrize(Alignment.from_pairs([]), Alignment.from_pairs([]), method)) == 0


def test_an_unknown_method_names_the_nearest() -> None:
    nothing = Alignment.from_pairs([[]])
    with pytest.raises(ConfigError, match="did you mean grow-diag-final"):
        symmetrize(nothing, nothing, "grow-diag-fina")
