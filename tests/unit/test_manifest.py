"""The path grammar, and what belongs to a configuration."""

from __future__ import annotations

from pathlib import Path, PurePath

import pytest

from alignlens.errors import InputError
from alignlens.io.atomic import write_json
from alignlens.results import paths
from alignlens.results.manifest import FILE, Manifest
from alignlens.results.protocol import Protocol

NAMES = {
    "dataset": "demo", "direction": "xa-xb", "model": "lstm", "seed": "1", "aligner": "hmm", "text": "offline",
    "size": "all", "links": "union", "weights": "final", "split": "test", "decoding": "forced", "side": "source",
    "encoder": "minilm", "study": "mine1999", "file": "index.html", "corpus": "sst", "classifier": "uniform",
    "task": "demo", "toy": "control", "comparison": "fusions",
}  # fmt: skip
PATTERNS = {name: value for name, value in vars(paths).items() if isinstance(value, paths.PathPattern)}


@pytest.mark.parametrize("name", PATTERNS)
def test_names_make_a_path_and_a_path_tells_its_names(name: str) -> None:
    pattern = PATTERNS[name]
    path = pattern.of(**NAMES)
    found = pattern.names(path)
    assert found is not None
    assert pattern.of(**found) == path
    assert found.items() <= NAMES.items()
    assert pattern.names(f"{path}/more") is pattern.names(f"x/{path}") is None


def test_no_two_patterns_make_the_same_path() -> None:
    made = {name: pattern.of(**NAMES) for name, pattern in PATTERNS.items()}
    assert len(set(made.values())) == len(made)


def test_what_it_does_not_name_does_not_exist(tmp_path: Path) -> None:
    for seed in (1, 2):
        (tmp_path / f"models/demo/xa-xb/lstm/{seed}/model").mkdir(parents=True)
    files = tuple(paths.TRAINED.of(**NAMES | {"seed": seed}) for seed in (1, 3))
    manifest = Manifest(tmp_path, files)
    assert [names["seed"] for _, names in manifest.find(paths.TRAINED)] == ["1"]
    assert [names["seed"] for names in manifest.expected(paths.TRAINED)] == ["1", "3"]
    assert manifest.path(paths.TRAINED, **NAMES) == tmp_path / files[0]
    for seed in (2, 3):
        assert manifest.path(paths.TRAINED, **NAMES | {"seed": seed}) is None
    whole = Manifest.whole(tmp_path)
    assert [names["seed"] for _, names in whole.find(paths.TRAINED)] == ["1", "2"]
    assert whole.expected(paths.TRAINED) == []


@pytest.mark.parametrize(
    ("job", "belongs"),
    [
        ("train/demo/xa-xb/lstm/1", True),
        ("models/demo/xa-xb/lstm/1/model.journal.jsonl", True),
        ("train/demo/xa-xb/lstm/2", False),
        ("train/demo/xa-xb/fconv/1", False),
        ("attribute/demo/lstm/1/final/test/forced/xa-xb", True),
        ("attributions/demo/lstm/2/final/test/forced/metrics.json.journal.jsonl", False),
        ("encoders/demo/xa-xb/lstm/1.journal.jsonl", True),
        ("align/demo/hmm/offline/all/xa-xb", True),
        ("links/demo/hmm/offline/200/xa-xb.pharaoh.journal.jsonl", False),
        ("symmetrize/demo/hmm/offline/all", True),
        ("segment/demo/train.source", True),
        ("calibration/demo/xa-xb/lstm/1/test", True),
        ("calibration/demo/xa-xb/lstm/2/test.json.journal.jsonl", False),
        ("compare_bleu/demo/xa-xb/fusions", True),
        ("comparisons/demo/xa-xb/fusions.json.journal.jsonl", True),
        ("comparisons/demo/xa-xb/old.json.journal.jsonl", False),
        ("mine1999/study.journal.jsonl", True),
    ],
)
def test_jobs_of_other_models_and_aligners_are_not_its_own(tmp_path: Path, job: str, belongs: bool) -> None:
    compared = paths.COMPARISON.of(**NAMES)
    manifest = Manifest(tmp_path, (paths.TRAINED.of(**NAMES), paths.ALIGNER_METRICS.of(**NAMES), compared))
    assert manifest.has_job(PurePath(job)) == belongs
    assert Manifest.whole(tmp_path).has_job(PurePath(job))


def test_the_one_of_the_pipeline_is_read_unless_another_is_given(tmp_path: Path) -> None:
    assert Manifest.of(tmp_path, "mine1999").everything
    write_json(tmp_path / "mine1999" / FILE, Manifest(tmp_path, ("a",), Protocol(0.1, 4)).as_json())
    write_json(tmp_path / "other.json", Manifest(tmp_path, ("b",)).as_json())
    assert Manifest.of(tmp_path, "mine1999") == Manifest(tmp_path, ("a",), Protocol(0.1, 4))
    assert Manifest.of(tmp_path, "mine1999", tmp_path / "other.json").files == ("b",)
    with pytest.raises(InputError, match="absent: no such results folder"):
        Manifest.of(tmp_path / "absent", "mine1999")
    for file in ("/etc/passwd", "../secret", "a/../../b"):
        write_json(tmp_path / "other.json", Manifest(tmp_path, (file,)).as_json())
        with pytest.raises(InputError, match="is not below the results folder"):
            Manifest.of(tmp_path, "mine1999", tmp_path / "other.json")
