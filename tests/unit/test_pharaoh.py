from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alignlens.alignment.links import Alignment
from alignlens.alignment.pharaoh import read_links, write_links
from alignlens.errors import InputError


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@given(st.lists(st.sets(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=9), min_size=1, max_size=5))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip(tmp_path: Path, links: list[set[tuple[int, int]]]) -> None:
    alignment = Alignment.from_pairs(links)
    write_links(tmp_path / "a", alignment)
    assert read_links(tmp_path / "a") == alignment


def test_scores_round_trip(tmp_path: Path) -> None:
    alignment = Alignment.from_arrays(np.array([0, 0]), np.array([0, 1]), np.array([3, 1]), 2, np.array([0.25, 1e-7]))
    write_links(tmp_path / "a", alignment)
    assert (tmp_path / "a").read_text() == "0-3:0.25 1-1:1e-07\n\n"
    back = read_links(tmp_path / "a")
    assert back == alignment
    assert back.scores is not None
    assert back.scores.tolist() == [0.25, 1e-7]


def test_tabs_separate_links_and_a_line_may_be_long(tmp_path: Path) -> None:
    path = written(tmp_path / "a", "0-0\t1-1\n" + " ".join(f"{k}-{k}" for k in range(60_000)) + "\n")
    assert read_links(path).counts().tolist() == [2, 60_000]


def test_the_base_is_subtracted_and_empty_lines_stay(tmp_path: Path) -> None:
    path = written(tmp_path / "a", "1-1  2-3\n\n1-2 \n")
    assert list(read_links(path, base=1)) == [[(0, 0), (1, 2)], [], [(0, 1)]]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("0-0\n0-x\n", 2, "'0-x' is not a link"),
        ("0-0\n0p1\n", 2, "'0p1' is not a link"),
        ("0-0:0.5 1-1\n", 1, "without a score"),
        ("0-0\n9-0\n", 2, "9-0 is out of range"),
        ("0-0\n1-1\n", 2, "empty sentence"),
        ("0-0 1-99999999999\n\n", 1, "beyond word"),
        (f"0-0 1-{'9' * 10_000}\n\n", 1, "is not a link"),
        ("0-0 1-٣\n\n", 1, "is not a link"),
        ("0-0\u20031-1\n\n", 1, "is not a link"),
        ("0-0:1e999\n\n", 1, "is not a link"),
        ("0-0:nan\n\n", 1, "is not a link"),
        ("0-0:٣\n\n", 1, "is not a link"),
        ("0-0\x00\n\n", 1, "is not a link"),
        ("0-0\n", 2, "1 lines for 2 sentence pairs"),
    ],
)
def test_broken_files_name_file_and_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = written(tmp_path / "links", text)
    lengths = ([3, 3], [3, 0]) if "empty" in message else ([3, 3], [3, 3])
    with pytest.raises(InputError, match=message) as error:
        read_links(path, 0, *lengths)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert "\n" not in str(error.value)


def test_an_empty_file_asks_for_links(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the file is empty\. Expected a line of links per sentence pair"):
        read_links(written(tmp_path / "empty", ""))


def test_wrong_base_is_told_in_both_directions(tmp_path: Path) -> None:
    one_based = written(tmp_path / "one", "1-1 2-2 3-3\n")
    with pytest.raises(InputError, match="counts from 1"):
        read_links(one_based, 0, [3], [3])
    zero_based = written(tmp_path / "zero", "0-0\n")
    with pytest.raises(InputError, match="counts from 0"):
        read_links(zero_based, 1)


def test_exchanged_sides_are_told(tmp_path: Path) -> None:
    path = written(tmp_path / "swapped", "0-3 1-0\n")
    with pytest.raises(InputError, match="swap source and target"):
        read_links(path, 0, [4], [2])
