"""Everything that reads a results folder: damage of any kind is an AlignlensError, or does not matter."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignlens.corpora.fetch import read_manifest
from alignlens.corpora.registry import DataFile, Dataset, TextPair
from alignlens.encoders.files import KIND
from alignlens.encoders.folders import model_type
from alignlens.errors import AlignlensError, InputError
from alignlens.io.atomic import atomic_directory, write_json
from alignlens.report.collect import read_jobs
from alignlens.report.methods import read_compared
from alignlens.report.models import ModelId, read_curve, read_models
from alignlens.report.provenance import checksum_table, facts, origin_facts, preparation_table, read_preparation
from alignlens.report.studies import read_study, study_tables
from alignlens.results.manifest import Manifest
from alignlens.results.reader import read_aligner, read_results
from alignlens.results.scores import Results
from alignlens.studies.kobayashi2020.encoders import judge_encoders, read_encoders

if TYPE_CHECKING:
    from collections.abc import Callable

ROW = {
    "links": "union", "kind": "symmetrised", "aer": 20.5, "aer_low": 19.0, "aer_high": 22.0, "precision": 80.0,
    "recall": 70.0, "f1": 75.0, "links_count": 9, "sure": 8, "possible": 10,
}  # fmt: skip
METHOD = {"method": "attention", "extraction": "ding", "name": "attention", "parameters": {"layer": "paper"}}
NOISY = {
    "method": "smoothed_attention,n=20", "extraction": "ding", "name": "smoothed_attention", "entropy": 1.5,
    "parameters": {"sigma": 0.15, "n": 20, "seed": 1}, "cause_hits": None,
}  # fmt: skip
INTERVAL = {"level": 95.0, "samples": 1000, "seed": 1}
ALIGNED = {
    "dataset": "toy", "aligner": "hmm", "text": "offline", "size": "all", "pair": ["xx", "yy"], "train_pairs": 9,
    "sentences": 2, "rows": [ROW], "interval": INTERVAL,
}  # fmt: skip
ATTRIBUTED = {
    "dataset": "toy", "model": "lstm", "architecture": "lstm", "seed": 1, "weights": "final", "split": "test",
    "decoding": "forced", "pair": ["xx", "yy"], "sentences": 2, "interval": INTERVAL,
    "rows": [ROW | METHOD, ROW | NOISY],
}  # fmt: skip
MANIFEST = Manifest(Path(), ("scores/x", "data/y"), interval=INTERVAL).as_json()
CARD = {
    "spec": {"architecture": "lstm"}, "parameters": 5, "updates": 7, "epochs": 1.5, "kept": "best",
    "best": {"dev_loss": 2.5},
}  # fmt: skip
COST = {
    "threads": 2,
    "methods": [
        {"method": "attention", "seconds_per_100": 1.0, "cpu_seconds_per_100": 1.0, "forward_passes": 1.0,
         "backward_passes": 0.0, "sentences": 5}
    ],
}  # fmt: skip
SUMMARY = {
    "study": "ding2019", "title": "A study", "lead": "t", "intervals": ["95 %"],
    "figure": {"file": "a.svg", "caption": "c"},
    "claims": {"reproduced": 1, "not reproduced": 2, "undecided": 4, "not testable here": 3},
    "error_rates": [
        {"dataset": "toy", "pair": ["xx", "yy"], "sentences": 2, "columns": ["xx-yy"],
         "rows": [{"architecture": "lstm", "method": "attention",
                   "cells": [{"mean": 20.0, "low": None, "high": 22.0, "reason": ""}]}]}
    ],
}  # fmt: skip
PREPARED = {
    "kind": "files", "pair": ["xx", "yy"], "licence": "none", "lowercase": True,
    "inputs": {"test.source": {"name": "a", "sha256": "0" * 64}}, "files": {"test.source": "0" * 64},
    "splits": {"train": {"pairs": 2, "read": 3, "words": {"source": 5, "target": 6}, "dropped": {"empty": 1}}},
}  # fmt: skip


def statistics() -> dict[str, Any]:
    """Returns what ``alignlens encoder`` would write of an encoder with one layer and two heads."""
    names = ["END", "other"]
    spread = {"average": {"mean": 1.0, "deviation": 0.5, "cv": 0.5}}
    figures = ("mean", "deviation", "cv", "max", "min")
    kinds = ("weights", "norms", "norm_totals")
    return {
        "facts": {"encoder": "tiny", "model_type": "transformer", "layers": 1, "heads": 2, "dim": 4, "sequences": 3,
                  "tokens": 9, "frequency": None},
        "categories": names,
        "correlations": {
            name: {"by_layer": [0.1], "rho": -0.2, "sequences": 3, "sequences_used": 3, "triples": 9, "used": 9,
                   "exact": True}
            for name in names
        },
        "dispersion": {
            "inputs": {**spread, **{key: [1.0] for key in figures}},
            "transformed": {**spread, **{key: [[1.0, 2.0]] for key in figures}},
        },
        "frequency": {"rho_norms": None, "rho_weights": None},
        "identity": {"largest_error": 1e-7},
        "singular_values": {"largest": [[1.0, 2.0]], "smallest": [[0.5, 0.5]], "ratio": [[2.0, 4.0]],
                            "smallest_ratio": 2.0, "mean_ratio": 3.0},
        "shares": {
            "by_layer": {kind: {name: [0.5] for name in names} for kind in kinds},
            "by_head": {kind: {name: [[0.5, None]] for name in names} for kind in kinds},
            "tokens": dict.fromkeys(names, 0.5),
        },
        "means": {kind: {name: [0.5] for name in names} for kind in ("weights", "norms")},
    }  # fmt: skip


def points() -> dict[str, Any]:
    """Returns the samples that belong to them."""
    whole = {name: np.array([0, 0, 0]) for name in ("layer", "head")} | {"category": np.array([0, 1, 1])}
    found = {name: np.array([0.5, 0.25, 0.25], np.float32) for name in ("weight", "norm")}
    return whole | found | {f"frequency_{name}": np.empty(0) for name in ("rank", "weight", "norm")}


def encoder_in(folder: Path, sealed: bool = False) -> Path:
    """Writes the files of an encoder; returns the folder of the results."""
    place = folder / "encoders/tiny"
    if sealed:
        with atomic_directory(place, KIND) as temporary:
            _write_encoder(temporary)
    else:
        place.mkdir(parents=True, exist_ok=True)
        _write_encoder(place)
    return folder


def _write_encoder(place: Path) -> None:
    write_json(place / "statistics.json", statistics())
    with (place / "points.npz").open("wb") as file:
        np.savez(file, **points())


def _preparation(folder: Path) -> None:
    report = read_preparation(Manifest.whole(folder))["toy"]
    preparation_table({"toy": report}), origin_facts(report), checksum_table("toy", report)


def _manifest(folder: Path) -> None:
    (folder / "text").write_text("a\n")
    files = TextPair(DataFile(path="a"), DataFile(path="b"))
    read_manifest(folder / "manifest.json", Dataset("mine", "files", ("xx", "yy"), test=files))


def _models(folder: Path) -> None:
    read_models(Manifest.whole(folder), [])


def _results(folder: Path) -> None:
    read_results(Manifest.whole(folder))


def _encoders(folder: Path) -> None:
    judge_encoders(read_encoders(Manifest.whole(folder)))


LSTM = "models/toy/xx-yy/lstm/1/model"
TRANSLATED = "translations/toy/xx-yy/lstm/1"
SCORES = "scores/toy/hmm/offline/all/metrics.json"
READERS: dict[str, tuple[Any, Callable[[Path], Any]]] = {
    SCORES: (ALIGNED, lambda folder: facts("p", [read_aligner(folder / SCORES)], [], [])),
    "scores/toy/ibm1/offline/all/metrics.json": (ALIGNED, _results),
    "attributions/toy/lstm/1/final/test/forced/metrics.json": (ATTRIBUTED, _results),
    "attributions/toy/lstm/1/final/test/forced/xx-yy/cost.json": (
        COST, lambda folder: read_compared(Manifest.whole(folder), Results(Manifest.whole(folder))),
    ),
    f"{LSTM}/model.json": (CARD, _models),
    f"{TRANSLATED}/bleu.json": ({"bleu": 20.0, "signature": "x"}, _models),
    f"{TRANSLATED}/forced.json": ({"accuracy": 0.5, "perplexity": 9.0}, _models),
    "data/toy/preparation.json": (PREPARED, _preparation),
    "ding2019/summary.json": (SUMMARY, lambda folder: study_tables(read_study(folder / "ding2019/summary.json"))),
    "encoders/tiny/statistics.json": (statistics(), _encoders),
    "bert/config.json": ({"model_type": "bert"}, lambda folder: model_type(folder / "bert")),
    "mine/manifest.json": (MANIFEST, lambda folder: Manifest.read(folder / "mine/manifest.json", folder)),
    "manifest.json": ({"test.source": __file__, "test.target": __file__}, _manifest),
}  # fmt: skip
HOSTILE = [
    None, True, -1, 0, 10**30, -(10**400), 1e308, 1.5, "", "x", "٣", "9" * 5000, "../..", [], [[]], {}, {"a": {}},
    [None], [1], ["a"], ["a", "b", "c"],
]  # fmt: skip


def results_in(folder: Path) -> Path:
    """Writes all files of the readers, and what they need beside them."""
    for name, (content, _) in READERS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return encoder_in(folder)


@pytest.mark.parametrize("name", READERS)
def test_good_files_are_read(tmp_path: Path, name: str) -> None:
    READERS[name][1](results_in(tmp_path))


def _places(content: Any) -> list[tuple[Any, Any]]:
    """Returns every container of a document with every key in it."""
    found = []
    if isinstance(content, dict | list):
        for key in list(content) if isinstance(content, dict) else range(len(content)):
            found += [(content, key), *_places(content[key])]
    return found


@pytest.mark.parametrize("name", READERS)
def test_no_value_of_a_document_gives_a_traceback(tmp_path: Path, name: str) -> None:
    content, read = READERS[name]
    folder = results_in(tmp_path)
    count = len(_places(content))
    for place in range(count):
        # Long documents have many places that are alike.
        for value in HOSTILE if count < 60 else HOSTILE[place % 4 :: 4]:
            _tried(folder, name, read, content, place, value)
        _tried(folder, name, read, content, place)


def _tried(folder: Path, name: str, read: Callable[[Path], Any], content: Any, place: int, *value: Any) -> None:
    """Reads a document with one value replaced, or removed."""
    changed = json.loads(json.dumps(content))
    container, key = _places(changed)[place]
    if value:
        container[key] = value[0]
    else:
        del container[key]
    (folder / name).write_text(json.dumps(changed))
    with suppress(AlignlensError):
        read(folder)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"a": NaN}', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000, b"{}"],
    ids=["empty", "cut", "list", "null", "nan", "bytes", "deep-list", "deep", "digits", "bare"],
)
def test_what_is_no_such_document_names_the_command_that_makes_it(tmp_path: Path, name: str, content: bytes) -> None:
    folder = results_in(tmp_path)
    (folder / name).write_bytes(content)
    if (name, content) in (("data/toy/preparation.json", b"{}"), ("data/toy/preparation.json", b'{"a": NaN}')):
        return
    with pytest.raises(AlignlensError) as caught:
        READERS[name][1](folder)
    told = str(caught.value)
    assert told.startswith(str(folder / name))
    assert "\n" not in told
    assert "one sentence per line" not in told
    assert len(told) < len(str(folder)) + 400
    if "config" not in name:
        assert "alignlens" in told


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return results_in(tmp_path_factory.mktemp("results"))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_random_damage_gives_no_traceback(results: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*READERS, "encoders/tiny/points.npz"]))
    good = (results / name).read_bytes()
    content = bytearray(good)
    kind = data.draw(st.sampled_from(("random", "cut", "flip")))
    if kind == "random":
        content = bytearray(data.draw(st.binary(max_size=200)))
    elif kind == "cut":
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    (results / name).write_bytes(content)
    with suppress(AlignlensError):
        READERS.get(name, (None, _encoders))[1](results)
    (results / name).write_bytes(good)


@pytest.mark.parametrize("name", ["statistics.json", "points.npz"])
def test_no_damage_of_a_sealed_encoder_passes(tmp_path: Path, name: str) -> None:
    folder = encoder_in(tmp_path, sealed=True)
    assert read_encoders(Manifest.whole(folder))[0].name == "tiny"
    path = folder / "encoders/tiny" / name
    content = path.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 50)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(InputError, match="damaged"):
            read_encoders(Manifest.whole(folder))


@pytest.mark.parametrize(
    "change",
    [
        {"weight": np.zeros((3, 1), np.float32)},
        {"weight": np.zeros(2, np.float32)},
        {"weight": np.array([math.nan] * 3, np.float32)},
        {"norm": np.array(["a", "b", "c"])},
        {"category": np.array([0, 1, 7])},
        {"category": np.array([0.0, 1.0, 1.0])},
        {"frequency_rank": np.array([-1.0])},
        {"layer": np.array([object()] * 3)},
        {"head": None},
    ],
)
def test_samples_of_other_kinds_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = encoder_in(tmp_path)
    arrays = {name: array for name, array in (points() | change).items() if array is not None}
    with (folder / "encoders/tiny/points.npz").open("wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(InputError, match=r"points\.npz: .* recreate it with: alignlens encoder") as caught:
        read_encoders(Manifest.whole(folder))
    assert "\n" not in str(caught.value)


def test_a_single_array_is_no_archive(tmp_path: Path) -> None:
    folder = encoder_in(tmp_path)
    with (folder / "encoders/tiny/points.npz").open("wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(InputError, match="not an archive of arrays"):
        read_encoders(Manifest.whole(folder))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "curves.csv:1: no column update"),
        ("update,dev_loss,dev_accuracy\n1,2,3\n", ":1: no column dev_bleu"),
        ("update,dev_loss,dev_accuracy,dev_bleu\n1,nan,,\n", ":2: 'nan' is not a number"),
        ("update,dev_loss,dev_accuracy,dev_bleu\n1,1,,\n2,1e999,,\n", ":3: '1e999' is not a number"),
        ("update,dev_loss,dev_accuracy,dev_bleu\n1.5,1,,\n", ":2: update '1.5' is not a number"),
        (f"update,dev_loss,dev_accuracy,dev_bleu\n{'9' * 5000},1,,\n", "is not a number"),
        ("update,dev_loss,dev_accuracy,dev_bleu\n1,1\n", ":2: expected 4 values"),
        ("update,dev_loss,dev_accuracy,dev_bleu\n1,1,,,5\n", ":2: expected 4 values"),
        ("update,dev_loss,dev_accuracy,dev_bleu,update\n1,1,,,5\n", "two columns have the same name"),
        (f"update,dev_loss,dev_accuracy,dev_bleu\n1,{'1' * 200_000},,\n", "field larger than field limit"),
        ('update,dev_loss,dev_accuracy,dev_bleu\n1,"1,,\n', "not a table"),
    ],
)
def test_damaged_curves_are_named(tmp_path: Path, text: str, told: str) -> None:
    folder = results_in(tmp_path)
    (folder / LSTM / "curves.csv").write_text(text)
    with pytest.raises(InputError) as caught:
        read_curve(Manifest.whole(folder), ModelId("toy", "xx-yy", "lstm", 1))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "x\n1\n", "s\n", "s\nfast\n", "s\nnan\n", "s\n-1\n", "s\ninf\n", "s\tt\n1\n"])
def test_damaged_benchmarks_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "benchmarks/align/toy.tsv"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(InputError, match=r"toy\.tsv"):
        read_jobs(Manifest.whole(tmp_path), [])
    path.write_text("s\tmax_rss\n2.0\tNA\n4.0\t-\n")
    assert read_jobs(Manifest.whole(tmp_path), [])[0].seconds == 3.0
