"""Links against true causes: by hand, on generated text, and through the verb that scores methods."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from alignlens.alignment.links import Alignment
from alignlens.cli.main import main
from alignlens.corpora.synthetic import SyntheticSettings, generate, write_corpus
from alignlens.errors import InputError
from alignlens.metrics.causes import Causes, count_causes, read_causes
from alignlens.tracking.records import read_journal


def write(folder: Path, causes: str, source: str) -> tuple[Path, Path]:
    (folder / "test.causes").write_text(causes)
    (folder / "test.source").write_text(source)
    return folder / "test.causes", folder / "test.source"


# Sentence 0: word 0 is caused by a and b, word 1 by nothing, word 2 by d. Sentence 1: both words by x.
CAUSES, SOURCE = "0,1 - 3\n0 0\n", "a b c d\nx y\n"


@pytest.fixture
def causes(tmp_path: Path) -> Causes:
    return read_causes(*write(tmp_path, CAUSES, SOURCE))


def test_the_file_is_read(causes: Causes) -> None:
    assert list(causes.pairs) == [[(0, 0), (1, 0), (3, 2)], [(0, 0), (0, 1)]]
    assert causes.source_lengths.tolist() == [4, 2]
    assert causes.target_lengths.tolist() == [3, 2]


@pytest.mark.parametrize(
    ("links", "hits", "chance", "words"),
    [
        # Every cause found; the word without a cause is not linked.
        ([[(0, 0), (3, 2)], [(0, 0), (0, 1)]], 4, 2 / 4 + 1 / 4 + 1 / 2 + 1 / 2, 4),
        # A word that nothing caused is linked: neither found nor to be found by chance.
        ([[(0, 1)], []], 0, 0, 1),
        # One of two links is a cause, then two of three.
        ([[(1, 0), (2, 0)], []], 1 / 2, 2 / 4, 1),
        ([[(0, 0), (1, 0), (2, 0)], []], 2 / 3, 2 / 4, 1),
        # The right word of the wrong sentence, or source and target exchanged.
        ([[(0, 2)], [(1, 0)]], 0, 1 / 4 + 1 / 2, 2),
    ],
)
def test_shares_by_hand(
    causes: Causes, links: list[list[tuple[int, int]]], hits: float, chance: float, words: int
) -> None:
    found = count_causes(Alignment.from_pairs(links), causes).scores()
    assert found.words == words
    assert found.hits == pytest.approx(100 * hits / words)
    assert found.chance == pytest.approx(100 * chance / words)


def test_sentences_count_by_their_words(causes: Causes) -> None:
    counts = count_causes(Alignment.from_pairs([[(2, 0)], [(0, 0), (0, 1)]]), causes)
    assert counts.per_sentence.tolist() == [[0, 0.5, 1], [2, 1, 2]]
    assert counts.scores().hits == pytest.approx(200 / 3)  # not the mean of 0 and 100


def test_nothing_linked_is_no_number(causes: Causes) -> None:
    counts = count_causes(Alignment.from_pairs([[], []]), causes)
    assert math.isnan(counts.scores().hits)
    assert math.isnan(counts.scores().chance)
    assert counts.scores().words == 0
    assert all(map(math.isnan, counts.interval()))


def test_links_of_another_text_are_refused(causes: Causes) -> None:
    for links in ([[(4, 0)], []], [[(0, 3)], []], [[], [(2, 0)]]):
        with pytest.raises(ValueError, match="outside its sentence pair"):
            count_causes(Alignment.from_pairs(links), causes)
    with pytest.raises(ValueError, match="links of 1 and causes of 2"):
        count_causes(Alignment.from_pairs([[]]), causes)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0 1;2\n-\n", "test.causes:1: '1;2' does not list causes"),
        ("0,\n-\n", "'0,' does not list causes"),
        ("0 ٣\n-\n", "'٣' does not list causes"),
        (f"0 {'9' * 5000}\n-\n", "does not list causes"),
        ("0 999999999\n-\n", "test.causes:1: link 999999999-1 beyond word"),
        ("0\n- 2\n", "test.causes:2: link 2-1 is out of range"),
        ("0\n", "test.source:2: 2 lines, but .* has 1"),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_causes(*write(tmp_path, content, SOURCE))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SyntheticSettings]:
    folder = tmp_path_factory.mktemp("corpus")
    settings = SyntheticSettings(train=1, dev=1, test=200)
    write_corpus(settings, folder)
    return folder, settings


def test_what_the_generator_wrote_is_what_is_scored(corpus: tuple[Path, SyntheticSettings]) -> None:
    folder, settings = corpus
    causes = read_causes(folder / "test.causes", folder / "test.source")
    drawn = list(generate(settings, "test"))
    first = [[(min(found), j) for j, found in enumerate(each.causes) if found] for each in drawn]
    scores = count_causes(Alignment.from_pairs(first), causes).scores()
    assert scores.hits == 100
    assert scores.words == sum(map(len, first))
    rng = np.random.default_rng(5)
    everywhere = [[(int(rng.integers(len(s.source))), j) for j in range(len(s.target))] for s in drawn]
    counts = count_causes(Alignment.from_pairs(everywhere), causes)
    low, high = counts.interval(level=99.9)
    assert low < counts.scores().chance < high
    assert low < counts.scores().hits < high
    assert high - low < 15
    gold = [sorted(each.possible) for each in drawn]  # every link is a cause
    assert count_causes(Alignment.from_pairs(gold), causes).scores().hits == 100


def test_an_interval_gets_wider_with_its_level_and_stays_with_its_seed(corpus: tuple[Path, SyntheticSettings]) -> None:
    folder, settings = corpus
    causes = read_causes(folder / "test.causes", folder / "test.source")
    links = Alignment.from_pairs([[(0, j) for j in range(len(each.target))] for each in generate(settings, "test")])
    counts = count_causes(links, causes)
    (low, high), (lower, higher) = counts.interval(50, 300), counts.interval(95, 300)
    assert lower < low < counts.scores().hits < high < higher
    assert counts.interval(50, 300) == (low, high)
    assert counts.interval(50, 300, seed=2) != (low, high)


@pytest.fixture
def scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(tmp_path, CAUSES, SOURCE)
    (tmp_path / "gold").write_text("0-0 3-2\n0-0\n")
    files = {
        "xa-xb": {"ding_grad.ding": "0-0 2-1 3-2\n1-0 0-1\n", "attention.ding": "\n\n"},
        "xb-xa": {"ding_grad.ding": "0-0\n1-0\n", "attention.ding": "\n\n"},
        "bidir": {"ding_grad.ding.union": "0-0 2-1 3-2\n1-0 0-1\n"},
    }
    for folder, links in files.items():
        (tmp_path / folder).mkdir()
        for name, text in links.items():
            (tmp_path / folder / f"{name}.pharaoh").write_text(text)
        (tmp_path / folder / "entropy.json").write_text('{"ding_grad": {}, "attention": {}}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


CELLS = ["--cell", *(f"{name}={name}=gold" for name in ("xa-xb", "xb-xa", "bidir"))]
COLUMNS = ("cause_hits", "cause_low", "cause_high", "cause_chance", "cause_words")


def score(causes: str, *more: str) -> list[str]:
    return ["score-methods", *CELLS, "--causes", causes, "--samples", "50", *more]


def test_the_verb_scores_the_direction_that_causes_are_known_of(
    scored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(score("xa-xb=test.causes=test.source", "--out", "metrics.json", "--journal", "j")) == 0
    rows = json.loads((scored / "metrics.json").read_text())["rows"]
    found = {(row["links"], row["name"]): {key: row[key] for key in COLUMNS} for row in rows}
    nothing = dict.fromkeys(COLUMNS)
    forward = found.pop(("xa-xb", "ding_grad"))
    assert (forward["cause_hits"], forward["cause_words"]) == (60.0, 5)  # 0-0, 3-2 and 0-1 of five words
    assert forward["cause_chance"] == pytest.approx(100 * (2 / 4 + 0 + 1 / 4 + 1 / 2 + 1 / 2) / 5)
    assert forward["cause_low"] <= 60 <= forward["cause_high"]
    assert found.pop(("xa-xb", "attention")) == {**nothing, "cause_words": 0}
    assert set(found) == {("xb-xa", "ding_grad"), ("xb-xa", "attention"), ("union", "ding_grad")}
    assert all(columns == nothing for columns in found.values())
    metrics = {(run.tags["direction"], run.tags["method"]): run.latest for run in read_journal(scored / "j")}
    assert metrics["xa-xb", "ding_grad"]["cause_hits"] == 60
    assert metrics["xa-xb", "ding_grad"]["cause_chance"] == 35
    assert all("cause_hits" not in latest for which, latest in metrics.items() if which != ("xa-xb", "ding_grad"))
    assert main(score("xa-xb=test.causes=test.source")) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].endswith("causes  chance")
    assert shown[2].split()[-2:] == ["60.00", "35.00"]


def test_without_causes_the_columns_are_null(scored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score-methods", *CELLS, "--samples", "50", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert all(row[key] is None for row in rows for key in COLUMNS)
    assert main(["score-methods", *CELLS, "--samples", "50"]) == 0
    assert "causes" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["test.causes"], "--causes 'test.causes': expected NAME=CAUSES=SOURCE"),
        (
            ["xa-xc=test.causes=test.source"],
            "--causes: unknown cell 'xa-xc'; known: bidir, xa-xb, xb-xa (did you mean xa-xb?)",
        ),
        (["xa-xb=nowhere=test.source"], "nowhere: no such file"),
        (["xa-xb=test.causes=test.source", "--about", '{"decoding": "free"}'], "not for a model's own translation"),
        (["xa-xb=long=test.source"], "test.source:3: 2 lines, but long has 3"),
        (["xa-xb=short=test.source"], "xa-xb/ding_grad.ding.pharaoh:1: link 3-2 is out of range"),
    ],
)
def test_causes_that_do_not_belong_there(
    scored: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    (scored / "long").write_text("0\n0\n0\n")
    (scored / "short").write_text("0,1 -\n0 0\n")
    assert main(score(*arguments)) == 2
    assert message in capsys.readouterr().err
