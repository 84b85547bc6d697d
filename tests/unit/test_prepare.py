"""Preparation: what stands in the files, what the report counts, and that files appear together."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from alignlens.corpora.fetch import Places, fetch
from alignlens.corpora.prepare import prepare, staged, write_report
from alignlens.corpora.registry import DataFile, Dataset, GoldFile, PartOfTrain, TextPair
from alignlens.corpora.settings import PrepareSettings
from alignlens.corpora.synthetic_settings import SyntheticSettings
from alignlens.errors import ConfigError, InputError
from alignlens.io.checksum import sha256_of


def text(path: Path, *lines: str) -> DataFile:
    """Writes a file and returns it as a file of the user."""
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return DataFile(path=str(path))


def pair(directory: Path, name: str, *pairs: tuple[str, str]) -> TextPair:
    """Writes the two files of some pairs."""
    source, target = zip(*pairs, strict=True)
    return TextPair(text(directory / f"{name}.de", *source), text(directory / f"{name}.en", *target))


def made(dataset: Dataset, out: Path, **settings: Any) -> dict[str, Any]:
    """Prepares a dataset and returns its report as read from disk."""
    manifest = fetch(dataset, Places(None))
    with staged(out) as stage:
        write_report(stage, prepare(dataset, manifest, stage, PrepareSettings.from_dict(settings)))
    report: dict[str, Any] = json.loads((out / "preparation.json").read_text(encoding="utf-8"))
    return report


def lines(path: Path) -> list[str]:
    """Returns the lines of a prepared file."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def numbered(count: int) -> list[tuple[str, str]]:
    """Returns different pairs."""
    return [(f"q{n} .", f"z{n} .") for n in range(count)]


def small(tmp_path: Path, **changes: Any) -> Dataset:
    """Returns a dataset of two training parts and a test pair."""
    values = {
        "name": "mine",
        "kind": "files",
        "pair": ("de", "en"),
        "licence": "free",
        "origin": "here",
        "train": (pair(tmp_path, "a", *numbered(6)), pair(tmp_path, "b", ("Eins  zwei", "One\ttwo"), ("", "x"))),
        "test": pair(tmp_path, "t", ("Ja ,  gut", "Yes , Good"), ("q3 .", "Z3 ."), ("", "")),
    }
    return Dataset(**{**values, **changes})


def test_files_and_report(tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = made(small(tmp_path, dev=PartOfTrain(last=2)), out)
    assert lines(out / "train.source") == ["q0 .", "q1 .", "q2 .", "q4 ."]
    assert lines(out / "dev.source") == ["q5 .", "Eins zwei"]
    assert lines(out / "dev.target") == ["z5 .", "One two"]
    assert lines(out / "test.source") == ["Ja , gut", "q3 .", ""]
    train = report["splits"]["train"]
    assert (train["read"], train["pairs"], train["not_used"]) == (8, 4, 0)
    assert {reason: count for reason, count in train["dropped"].items() if count} == {"empty": 1, "test_overlap": 1}
    assert report["splits"]["test"] == {"pairs": 3, "words": {"source": 5, "target": 5}}
    assert (report["licence"], report["origin"], report["pair"]) == ("free", "here", ["de", "en"])
    assert report["inputs"]["train.0.source"] == {"name": "a.de", "sha256": sha256_of(tmp_path / "a.de")}
    assert sorted(report["files"]) == sorted(path.name for path in out.iterdir() if path.name != "preparation.json")
    assert all(sha256_of(out / name) == checksum for name, checksum in report["files"].items())


def test_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    dataset = small(tmp_path)
    assert made(dataset, tmp_path / "one") == made(dataset, tmp_path / "two")


def test_lower_case_everywhere(tmp_path: Path) -> None:
    made(small(tmp_path, lowercase=True), tmp_path / "out")
    assert lines(tmp_path / "out/test.target") == ["yes , good", "z3 .", ""]
    assert lines(tmp_path / "out/train.source")[-1] == "eins zwei"


def test_tokenise_never_touches_text_with_gold(tmp_path: Path) -> None:
    parts = (pair(tmp_path, "p", ("Ja, gut.", "Yes, good.")),)
    test, dev = pair(tmp_path, "s", ("Nein, du.", "No, you.")), pair(tmp_path, "d", ("So, so.", "So, so."))
    gold = GoldFile(text(tmp_path / "t.gold", "0-0"), 0, "pharaoh")
    dataset = small(tmp_path, train=parts, test=test, dev=dev, gold=gold, tokenise=True)
    made(dataset, tmp_path / "out")
    assert lines(tmp_path / "out/train.target") == ["Yes , good ."]
    assert lines(tmp_path / "out/dev.source") == ["So , so ."]
    assert lines(tmp_path / "out/test.source") == ["Nein, du."]


def test_max_train_pairs_counts_after_cleaning_and_after_dev(tmp_path: Path) -> None:
    report = made(small(tmp_path, dev=PartOfTrain(last=2)), tmp_path / "out", max_train_pairs=3)
    assert lines(tmp_path / "out/train.source") == ["q0 .", "q1 .", "q2 ."]
    assert lines(tmp_path / "out/dev.source") == ["q5 .", "Eins zwei"]
    assert report["splits"]["train"]["not_used"] == 1


def test_test_and_dev_out_of_train(tmp_path: Path) -> None:
    parts = (pair(tmp_path, "p", *numbered(6), *numbered(6)[5:], ("x ||| y", "z")),)
    dataset = small(tmp_path, train=parts, test=PartOfTrain(last=1), dev=PartOfTrain(every=2))
    report = made(dataset, tmp_path / "out", cleaning={"drop_duplicates": False})
    # The seventh pair repeats the sixth: it becomes test, and the sixth leaves train.
    assert lines(tmp_path / "out/test.source") == ["q5 ."]
    assert lines(tmp_path / "out/dev.source") == ["q1 .", "q3 ."]
    assert lines(tmp_path / "out/train.source") == ["q0 .", "q2 .", "q4 ."]
    assert report["splits"]["train"]["dropped"]["test_overlap"] == 1
    assert report["splits"]["train"]["dropped"]["separator"] == 1


def test_too_little_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="7 pairs are too few to split off dev"):
        made(small(tmp_path, dev=PartOfTrain(last=9), test=pair(tmp_path, "u", ("n", "n"))), tmp_path / "out")
    empty = (pair(tmp_path, "e", ("", "")),)
    with pytest.raises(InputError, match="none of 1 pairs is left after cleaning"):
        made(small(tmp_path, train=empty), tmp_path / "out")
    assert not (tmp_path / "out/preparation.json").exists()


def test_of_two_at_once_the_second_waits(tmp_path: Path) -> None:
    out, dataset, begun = tmp_path / "out", small(tmp_path), threading.Event()

    def second() -> None:
        with staged(out) as stage:
            begun.set()
            write_report(stage, prepare(dataset, fetch(dataset, Places(None)), stage, PrepareSettings()))

    with staged(out) as stage:
        other = threading.Thread(target=second)
        other.start()
        assert not begun.wait(0.5), "both write where one can"
        write_report(stage, prepare(dataset, fetch(dataset, Places(None)), stage, PrepareSettings()))
    other.join()
    assert begun.is_set()
    assert (out / "preparation.json").is_file()
    left = [path.name for path in tmp_path.rglob(".*") if path.suffix != ".sha256"]
    assert left == [], "neither stage nor lock"


def test_files_appear_together_and_old_ones_go(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made(small(tmp_path, dev=PartOfTrain(last=2)), out)
    (out / "test.gold").write_text("0-0\n")
    (out / "prepare.log").write_text("kept\n")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    manifest = {role: file.path or "" for role, file in small(tmp_path).files().items()}
    manifest["test.target"] = text(tmp_path / "short.en", "one").path or ""
    with pytest.raises(InputError, match=r"short\.en:2: 1 lines"), staged(out) as stage:
        prepare(small(tmp_path), manifest, stage, PrepareSettings())
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    made(small(tmp_path), out)
    assert sorted(path.name for path in out.iterdir()) == [
        "preparation.json",
        "prepare.log",
        "test.source",
        "test.target",
        "train.source",
        "train.target",
    ]


def test_synthetic(tmp_path: Path) -> None:
    settings = SyntheticSettings(seed=3, train=40, dev=5, test=6)
    dataset = Dataset("toy", "synthetic", ("xa", "xb"), settings=settings)
    report = made(dataset, tmp_path / "out", max_train_pairs=30)
    assert {split: counts["pairs"] for split, counts in report["splits"].items()} == {"train": 30, "dev": 5, "test": 6}
    assert report["splits"]["train"]["not_used"] == 10
    assert len(lines(tmp_path / "out/train.target")) == 30
    assert {"test.gold", "dev.gold", "test.causes", "dev.causes"} <= set(report["files"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_train_pair": 3}, "max_train_pair: unknown key .* did you mean max_train_pairs"),
        ({"cleaning": {"max_word": 3}}, r"cleaning\.max_word: unknown key .* did you mean max_words"),
        ({"cleaning": {"max_words": 0}}, r"cleaning\.max_words: 0 must be at least 1 and at most 200"),
        ({"cleaning": {"max_words": 2.5}}, r"cleaning\.max_words: 2\.5 is not a whole number"),
        ({"cleaning": {"max_ratio": "9"}}, r"cleaning\.max_ratio: '9' is not a number"),
        ({"cleaning": {"drop_duplicates": 1}}, r"cleaning\.drop_duplicates: 1 is not true or false"),
        ({"cleaning": 3}, "cleaning: 3 is not a mapping"),
        ({"max_train_pairs": True}, "max_train_pairs: True is not a whole number"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace(" .* did", ".*did")):
        PrepareSettings.from_dict(settings)


def test_default_settings() -> None:
    settings = PrepareSettings.from_dict({})
    assert settings == PrepareSettings()
    assert (settings.cleaning.max_words, settings.max_train_pairs) == (100, None)
