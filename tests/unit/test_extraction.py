"""Links from scores against slow loops, piece by piece, written here as plainly as possible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from alignlens.alignment.extraction import extract, links_of
from alignlens.alignment.extractions import EXTRACTIONS
from alignlens.errors import ConfigError

Links = dict[tuple[int, int], float]
Sentence = tuple[NDArray[np.float32], list[int], list[int]]


def first_best(values: list[float]) -> int:
    best = 0
    for place, value in enumerate(values):
        if value > values[best]:
            best = place
    return best


def ding(matrix: NDArray[np.float32], source: list[int], target: list[int], begin: bool) -> Links:
    links: Links = {}
    for j, target_word in enumerate(target):
        row = [float(matrix[j, i + begin]) for i in range(len(source))]
        if row:
            i = first_best(row)
            link = (source[i], target_word)
            links[link] = max(links.get(link, 0.0), row[i])
    return links


def kobayashi(matrix: NDArray[np.float32], source: list[int], target: list[int], begin: bool) -> Links:
    links: Links = {}
    for target_word in sorted(set(target)) if source else []:
        rows = [j for j, word in enumerate(target) if word == target_word]
        candidates: list[tuple[int | None, float]] = []
        if begin:
            candidates.append((None, sum(float(matrix[j, 0]) for j in rows) / len(rows)))
        for source_word in sorted(set(source)):
            columns = [i + begin for i, word in enumerate(source) if word == source_word]
            candidates.append((source_word, sum(float(matrix[j, i]) for j in rows for i in columns) / len(rows)))
        candidates.append((None, sum(float(matrix[j, -1]) for j in rows) / len(rows)))
        word, score = candidates[first_best([value for _, value in candidates])]
        if word is not None:
            links[word, target_word] = score
    return links


ORACLES = {"ding": ding, "kobayashi": kobayashi}


@st.composite
def sentences(draw: st.DrawFn, begin: bool) -> Sentence:
    """Scores that are sums of powers of two, so that sums are exact and equal maxima are common."""
    owners = []
    for _ in range(2):
        steps = draw(st.lists(st.integers(0, 1), max_size=6))
        owners.append(np.cumsum([0, *steps[1:]]).tolist() if steps else [])
    source, target = owners
    shape = (len(target) + 1, len(source) + 1 + begin)
    cells = draw(st.lists(st.integers(0, 6), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    return np.array(cells, dtype=np.float32).reshape(shape) / 64, source, target


@pytest.mark.parametrize("begin", [False, True])
@pytest.mark.parametrize("procedure", EXTRACTIONS)
@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_equals_the_slow_loop(procedure: str, begin: bool, data: st.DataObject) -> None:
    corpus = data.draw(st.lists(sentences(begin), max_size=4))
    expected = [ORACLES[procedure](*sentence, begin) for sentence in corpus]
    for sentence, links in zip(corpus, expected, strict=True):
        found = extract(*sentence, procedure, begin=begin)
        assert found == [(i, j, score) for (i, j), score in sorted(links.items())]
    columns = [[sentence[part] for sentence in corpus] for part in range(3)]
    whole = links_of(iter(columns[0]), columns[1], columns[2], procedure, begin=begin)
    assert list(whole) == [sorted(links) for links in expected]
    assert whole.scores is not None
    assert whole.scores.tolist() == [links[link] for links in expected for link in sorted(links)]


def test_end_is_left_out_before_by_ding_and_may_win_by_kobayashi() -> None:
    matrix = np.array([[0.1, 0.2, 0.7], [0.3, 0.1, 0.6], [0.5, 0.4, 0.1]], dtype=np.float32)
    assert [link[:2] for link in extract(matrix, [0, 1], [0, 1], "ding")] == [(0, 1), (1, 0)]
    assert extract(matrix, [0, 1], [0, 1], "kobayashi") == []
    # The row of END links nothing, whatever it says.
    matrix = np.array([[0.8, 0.1, 0.1], [0.0, 1.0, 0.0]], dtype=np.float32)
    for procedure in EXTRACTIONS:
        assert [link[:2] for link in extract(matrix, [0, 1], [0], procedure)] == [(0, 0)]


def test_where_end_never_wins_and_words_are_pieces_the_two_agree() -> None:
    generator = np.random.default_rng(1)
    matrix = generator.random((8, 6), dtype=np.float32)
    matrix[:, -1] = 0
    found = [extract(matrix, range(5), range(7), procedure) for procedure in EXTRACTIONS]
    assert [link[:2] for link in found[0]] == [link[:2] for link in found[1]]
    assert len(found[0]) == 7


def test_begin_is_a_column_of_its_own() -> None:
    matrix = np.array([[0.6, 0.3, 0.1, 0.0], [0.1, 0.2, 0.7, 0.0], [0, 0, 0, 1]], dtype=np.float32)
    assert [link[:2] for link in extract(matrix, [0, 1], [0, 1], "ding", begin=True)] == [(0, 0), (1, 1)]
    assert [link[:2] for link in extract(matrix, [0, 1], [0, 1], "kobayashi", begin=True)] == [(1, 1)]
    with pytest.raises(ValueError, match=r"shape \(3, 4\), expected \(3, 3\)"):
        extract(matrix, [0, 1], [0, 1], "ding")


def test_pieces_of_words() -> None:
    # Source: word 0 in two pieces, word 1 in one. Target: one word in two pieces.
    matrix = np.array([[0.3, 0.3, 0.4, 0.0], [0.25, 0.25, 0.5, 0.0], [0, 0, 0, 1]], dtype=np.float32)
    source, target = [0, 0, 1], [0, 0]
    # Every piece prefers word 1; both links are the same one, with the larger score.
    assert extract(matrix, source, target, "ding") == [(1, 0, 0.5)]
    # Together the pieces of word 0 have more: the mean of 0.6 and 0.5.
    ((i, j, score),) = extract(matrix, source, target, "kobayashi")
    assert (i, j, score) == (0, 0, pytest.approx(0.55))
    # Pieces that prefer different words link both.
    matrix[0, 0] = 0.9
    assert [link[:2] for link in extract(matrix, source, target, "ding")] == [(0, 0), (1, 0)]


def test_the_first_of_equal_scores_counts() -> None:
    equal = np.full((2, 4), 0.25, dtype=np.float32)
    for procedure in EXTRACTIONS:
        assert extract(equal, [0, 1, 2], [0], procedure) == [(0, 0, 0.25)]
    assert extract(np.full((2, 4), 0.25, dtype=np.float32), [0, 1], [0], "kobayashi", begin=True) == []
    nothing_but_end = np.array([[0, 0, 1], [0, 0, 1]], dtype=np.float32)
    assert extract(nothing_but_end, [0, 1], [0], "ding") == [(0, 0, 0.0)]


@pytest.mark.parametrize("procedure", EXTRACTIONS)
def test_a_side_without_words_has_no_links(procedure: str) -> None:
    assert extract(np.ones((1, 1)), [], [], procedure) == []
    assert extract(np.ones((3, 1)), [], [0, 1], procedure) == []
    assert extract(np.ones((1, 3)), [0, 1], [], procedure) == []
    assert extract(np.ones((2, 3)), [0, 1], [-1], procedure) == []
    assert extract(np.ones((2, 3)), [-1, -1], [0], procedure) == []
    matrices = [np.ones((1, 2)), np.ones((2, 2)), np.ones((2, 1))]
    corpus = links_of(matrices, [[0], [0], []], [[], [0], [0]], procedure)
    assert list(corpus) == [[], [(0, 0)], []]
    assert len(links_of([], [], [], procedure)) == 0


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean kobayashi"):
        extract(np.ones((2, 2)), [0], [0], "kobayash")
    with pytest.raises(ValueError, match=r"sentence 1: scores of shape \(2, 2\), expected \(3, 2\)"):
        links_of([np.ones((2, 2))] * 2, [[0], [0]], [[0], [0, 0]], "ding")
    with pytest.raises(ValueError, match="argument"):
        links_of([np.ones((2, 2))], [[0], [0]], [[0], [0]], "ding")
    with pytest.raises(ValueError, match="not in order"):
        extract(np.ones((2, 3)), [1, 0], [0], "kobayashi")
