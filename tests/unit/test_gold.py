from __future__ import annotations

from pathlib import Path

import pytest

from alignlens.alignment.gold import Gold, read_gold, write_gold
from alignlens.alignment.links import Alignment
from alignlens.errors import ConfigError, InputError


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_all_three_marks_and_both_bases(tmp_path: Path) -> None:
    one = read_gold(written(tmp_path / "one", "1-1 2p2 3?1\n\n"), base=1)
    zero = read_gold(written(tmp_path / "zero", "0-0 1p1 2?0\n\n"), base=0)
    for gold in (one, zero):
        assert list(gold.sure) == [[(0, 0)], []]
        assert list(gold.possible) == [[(0, 0), (1, 1), (2, 0)], []]


def test_a_link_that_is_sure_and_possible_is_sure(tmp_path: Path) -> None:
    gold = read_gold(written(tmp_path / "gold", "0p0 0-0\n"), base=0)
    assert gold.sure[0] == gold.possible[0] == [(0, 0)]


def test_numbered_format_with_null_links_and_gaps(tmp_path: Path) -> None:
    text = "0001 1 1 S\n0001 2 3 P 0.5\n0003 0 2\n0003 4 2\n"
    gold = read_gold(written(tmp_path / "gold", text), 1, "naacl", [2, 5, 4], [3, 5, 2])
    assert list(gold.sure) == [[(0, 0)], [], [(3, 1)]]
    assert list(gold.possible) == [[(0, 0), (1, 2)], [], [(3, 1)]]


def test_canonical_form_round_trips(tmp_path: Path) -> None:
    path = written(tmp_path / "in", "2-3 1?1 1-1\n\n1p2\n")
    gold = read_gold(path, base=1)
    write_gold(tmp_path / "out", gold)
    assert (tmp_path / "out").read_text() == "0-0 1-2\n\n0p1\n"
    again = read_gold(tmp_path / "out", base=0)
    assert (again.sure, again.possible) == (gold.sure, gold.possible)


@pytest.mark.parametrize(
    ("text", "format_", "line", "message"),
    [
        ("1-1\n1_1\n", "pharaoh", 2, "is not a link"),
        ("1-1\n4-1\n", "pharaoh", 2, "out of range"),
        ("1-1\n0-1\n", "pharaoh", 2, "--base 0"),
        ("1-1\n1-1\n1-1\n", "pharaoh", 3, "3 lines for 2 sentence pairs"),
        ("1 1 1\n2 1\n", "naacl", 2, "not a numbered link"),
        ("0 1 1\n", "naacl", 1, "sentence number 0"),
        ("2 9 1\n", "naacl", 1, "out of range"),
        ("1 1 1\n1 2 2 X\n", "naacl", 2, r"'X' is not a mark \(S or P\)"),
        ("1 1 1 s\n", "naacl", 1, "'s' is not a mark"),
        ("1 1 1 S high\n", "naacl", 1, "'S high' is not a mark"),
        ("1 1 1 S 1.5\n", "naacl", 1, "a confidence from 0 to 1"),
        ("1 1 1 0.5 S\n", "naacl", 1, "'0.5 S' is not a mark"),
        ("1 1 1 nan\n", "naacl", 1, "'nan' is not a mark"),
        ("1 0 0\n", "naacl", 1, "two empty words"),
        ("3 1 1\n", "naacl", 1, "sentence number 3, but the text has 2"),
        ("999999999999 1 1\n", "naacl", 1, "sentence number 999999999999"),
        (f"{'9' * 5000} 1 1\n", "naacl", 1, "is not a numbered link"),
        ("1 ٣ 1\n", "naacl", 1, "is not a numbered link"),
        ("1 -1 1\n", "naacl", 1, "is not a numbered link"),
        ("1-1\n1-1\xa02-2\n", "pharaoh", 2, "is not a link"),
        ("1-1\r2-2\r\n\n", "pharaoh", 1, "is not a link"),
        ("1-²\n\n", "pharaoh", 1, "is not a link"),
        ("1-99999999999999999999999\n\n", "pharaoh", 1, "is not a link"),
        ("1-1 -1-1\n\n", "pharaoh", 1, "is not a link"),
    ],
)
def test_broken_gold_names_file_and_line(tmp_path: Path, text: str, format_: str, line: int, message: str) -> None:
    path = written(tmp_path / "gold", text)
    with pytest.raises(InputError, match=message) as error:
        read_gold(path, 1, format_, [3, 3], [3, 3])
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert len(str(error.value)) < len(str(path)) + 300


def test_absurd_sentence_numbers_are_refused_without_text_too(tmp_path: Path) -> None:
    path = written(tmp_path / "gold", "1 1 1\n999999999999 1 1\n")
    with pytest.raises(InputError, match="gold:2: sentence number 999999999999"):
        read_gold(path, 1, "naacl")


def test_confidence_alone_and_after_a_mark(tmp_path: Path) -> None:
    gold = read_gold(written(tmp_path / "gold", "1 1 1 0.5\n1 2 2 P 1\n1 2 2 S .25\n1 3 3 P 1e-3\n"), 1, "naacl")
    assert gold.sure[0] == [(0, 0), (1, 1)]
    assert gold.possible[0] == [(0, 0), (1, 1), (2, 2)]


def test_wrong_arguments(tmp_path: Path) -> None:
    path = written(tmp_path / "gold", "1-1\n")
    with pytest.raises(ConfigError, match="not one of 0, 1"):
        read_gold(path, base=2)
    with pytest.raises(ConfigError, match="did you mean naacl"):
        read_gold(path, 1, "nacl")
    with pytest.raises(ValueError, match="not possible"):
        Gold(Alignment.from_pairs([[(0, 0)]]), Alignment.from_pairs([[(1, 1)]]))
