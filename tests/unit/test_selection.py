"""Some pairs of a text: of one length, at random, with partners exchanged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alignlens.cli.main import main
from alignlens.corpora.selection import COMMON, Selection
from alignlens.errors import ConfigError

LENGTHS = np.array([[3, 4], [3, 5], [3, 4], [2, 2], [3, 4], [2, 2]])


def test_pairs_of_two_lengths_are_chosen_in_the_order_of_the_text() -> None:
    for lengths, expected in (((3, 4), [0, 2, 4]), ((2, 2), [3, 5]), (COMMON, [0, 2, 4]), (None, range(6))):
        source, target = Selection(lengths).places(LENGTHS)
        assert source.tolist() == target.tolist() == list(expected)
    told = "no pair has 9 source pieces and 4 target pieces. Most pairs \\(3\\) have 3 and 4"
    with pytest.raises(ConfigError, match=told):
        Selection((9, 4)).places(LENGTHS)


def test_first_pairs_may_be_left_out() -> None:
    assert Selection(COMMON, skip=3).places(LENGTHS)[0].tolist() == [3, 5]
    assert Selection((3, 4), skip=3).places(LENGTHS)[0].tolist() == [4]
    assert Selection(skip=4).places(LENGTHS)[0].tolist() == [4, 5]
    with pytest.raises(ConfigError, match="no pair is left: there are 6, and the first 6 are left out"):
        Selection(skip=6).places(LENGTHS)


def test_some_are_drawn_and_a_seed_draws_them_again() -> None:
    many = np.zeros((1000, 2), np.int64)
    first, again, other = (Selection(pairs=20, seed=seed).places(many)[0].tolist() for seed in (1, 1, 2))
    assert first == again == sorted(set(first))
    assert len(first) == 20
    assert first != other
    assert Selection(pairs=2000).places(many)[0].tolist() == list(range(1000))


@given(st.integers(2, 60), st.integers(0, 5))
def test_everybody_gets_the_partner_of_another(pairs: int, seed: int) -> None:
    source, target = Selection(exchanged=True, seed=seed).places(np.zeros((pairs, 2), np.int64))
    assert source.tolist() == sorted(target.tolist()) == list(range(pairs))
    assert not (source == target).any()


def test_partners_have_the_chosen_lengths() -> None:
    source, target = Selection((3, 4), exchanged=True).places(LENGTHS)
    assert source.tolist() == [0, 2, 4] == sorted(target)
    with pytest.raises(ConfigError, match="a single pair has no other partner"):
        Selection((3, 5), exchanged=True).places(LENGTHS)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for side in ("source", "target"):
        Path(side).write_text("".join(f"{side} {number}\n" for number in range(6)))
    for place, side in enumerate(("source", "target")):
        Path(f"{side}.pieces").write_text("".join(" ".join(["x"] * length) + "\n" for length in LENGTHS[:, place]))
    return tmp_path


TEXT = ("select", "--source", "source", "--target", "target", "--out-source", "s", "--out-target", "t")
PIECES = ("--source-pieces", "source.pieces", "--target-pieces", "target.pieces")


def test_the_verb_writes_both_sides(folder: Path) -> None:
    assert main([*TEXT, *PIECES, "--common-length", "--exchange", "--journal", "j.jsonl"]) == 0
    assert Path("s").read_text() == "source 0\nsource 2\nsource 4\n"
    found = Path("t").read_text().splitlines()
    assert sorted(found) == ["target 0", "target 2", "target 4"]
    assert all(a.split()[1] != b.split()[1] for a, b in zip(Path("s").read_text().splitlines(), found, strict=True))
    assert main([*TEXT, "--pairs", "2", "--skip", "3"]) == 0
    assert len(Path("s").read_text().splitlines()) == 2
    assert "source 0" not in Path("s").read_text()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--source-length", "3"], "--source-length and --target-length: give both or none"),
        (
            ["--source-length", "3", "--target-length", "4"],
            "--source-pieces and --target-pieces are needed to choose by",
        ),
        (["--common-length", "--source-length", "3", "--target-length", "4"], "--common-length excludes"),
        (["--skip", "9"], "source: no pair is left: there are 6, and the first 9 are left out"),
        ([*PIECES, "--source-length", "3", "--target-length", "9"], "source: no pair has 3 source pieces and 9 target"),
        (["--source-pieces", "s.gz", "--target-pieces", "target.pieces", "--common-length"], "s.gz"),
    ],
)
def test_what_cannot_be_chosen_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], more: list[str], told: str
) -> None:
    assert main([*TEXT, *more]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert not Path("s").exists()
