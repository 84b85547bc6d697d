"""Translation models from elsewhere go through the whole pipeline like those that are trained here."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from throwaway import BRIEFLY, TINY, Workspace, make_workspace

pytest.importorskip("transformers", reason="the Hugging Face library is not installed")
from foreign_folders import mt5
from marian_folder import write_folder

from alignlens.corpora.tokens import TokenStore
from alignlens.decoding.translate import TrainedModel
from alignlens.io.matrices import Matrices
from alignlens.io.text import read_lines
from alignlens.subwords.spans import word_of_piece

pytestmark = pytest.mark.workflow


def configured(root: Path) -> dict[str, Any]:
    """A pair of models with random weights beside one that is trained, two studies, and as little else as may be."""
    for seed, direction in enumerate(("xa-xb", "xb-xa")):
        write_folder(root / f"opus-mt-{direction}", seed=seed, max_position_embeddings=512)
        (root / f"mt5-{direction}").mkdir()
        mt5(root / f"mt5-{direction}")
    lstm = {"preset": "demo_lstm", "training": BRIEFLY}
    return {
        **TINY,
        "seeds": [2],
        "models": {
            **dict.fromkeys(("fconv", "transformer")),
            "lstm": lstm,
            "opus": {"huggingface": f"{root}/opus-mt-{{source}}-{{target}}"},
            "mt5": {"huggingface": f"{root}/mt5-{{source}}-{{target}}"},
        },
        "aligners": [{"name": "fast_align"}],
        "studies": {
            **dict.fromkeys(TINY["studies"]),
            "ding2019": {"sigmas": [0.15], "samples_curve": [1, 2], "noise_seeds": [1]},
            "kobayashi2020": {"encoders": {"models": {"minilm": None}, "sequences": 4}},
        },
        "attribution": {**TINY["attribution"], "samples": 2, "cost_sentences": 2},
    }


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, project: Path) -> Workspace:
    root = tmp_path_factory.mktemp("foreign")
    made = make_workspace(root / "project", project, configured(root / "opus"))
    made.snakemake("--cores", "all")
    return made


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_everything_is_there_and_nothing_is_left_to_do(workspace: Workspace) -> None:
    assert workspace.dry_run() == {}
    results = workspace.results
    for direction in ("xa-xb", "xb-xa"):
        assert [path.name for path in (results / "models/tiny" / direction / "opus").iterdir()] == ["2"]
        translated = results / "translations/tiny" / direction / "opus/2"
        assert len(read_lines(translated / "test.txt")) == 30
        assert json.loads((translated / "bleu.json").read_text())["bleu"] >= 0


def test_the_pieces_attributed_are_the_pieces_read_off(workspace: Workspace) -> None:
    results = workspace.results
    for direction, sides in (("xa-xb", ("source", "target")), ("xb-xa", ("target", "source"))):
        folder = results / "models/tiny" / direction / "opus/2"
        trained = TrainedModel.load(folder / "model")
        pieces = []
        for side, segmenter in zip(sides, (trained.source, trained.target), strict=True):
            store = TokenStore.open(folder / "tokens" / f"test.{side}")
            assert store.subwords == segmenter.checksum
            written = [line.split(" ") for line in read_lines(folder / "pieces" / f"test.{side}")]
            assert written == [segmenter.pieces_of(store[k]) for k in range(len(store))]
            words = [line.split(" ") for line in read_lines(results / "data/tiny" / f"test.{side}")]
            assert [max(word_of_piece(line)) + 1 for line in written] == list(map(len, words))
            pieces.append(written)
        matrices = Matrices.open(results / "attributions/tiny/opus/2/final/test/forced" / direction / "matrices")
        for number in range(30):
            shape = matrices.matrix("attention", number).shape
            assert shape == (len(pieces[1][number]) + 1, len(pieces[0][number]) + 1)
            assert np.isfinite(matrices.matrix("ding_smoothgrad,n=2", number)).all()


def test_tables_studies_and_tracking_know_it(workspace: Workspace) -> None:
    results = workspace.results
    models = {(row["model"], row["direction"]): row for row in table(results / "report/models.csv")}
    ours, theirs = models["lstm", "xa-xb"], models["opus", "xa-xb"]
    training = ("updates", "epochs", "dev_loss", "seconds", "tokens_per_second")
    assert [theirs[name] for name in training] == [""] * 5
    assert all(ours[name] for name in training)
    assert ours["updates"] == "30"
    assert all(theirs[name] for name in ("parameters", "accuracy", "perplexity", "bleu", "signature"))
    assert "*–*" in (results / "report/models.md").read_text()
    page = (results / "report.html").read_text()
    assert "2 trained" in page
    assert "4 imported" in page
    methods = {row["method"] for row in table(results / "report/methods.csv") if row["model"] == "opus"}
    assert {"attention", "ding_smoothgrad,n=2", "lrp", "mask", "alti"} <= methods
    methods = {row["method"] for row in table(results / "report/methods.csv") if row["model"] == "mt5"}
    assert {"attention", "ding_smoothgrad,n=2", "probe", "alti"} <= methods
    assert not {"lrp", "lrp_epsilon", "mask"} & methods
    for study in ("ding2019", "kobayashi2020"):
        assert (
            "opus" in (results / study / "comparisons.csv").read_text() + (results / study / "summary.json").read_text()
        )
        assert (results / study / "claims.csv").is_file()
    runs = {run["name"]: run["status"] for run in workspace.mlflow_runs()}
    for direction in ("xa-xb", "xb-xa"):
        assert runs[f"tiny · {direction} · opus · s2 · import models"] == "FINISHED"
        assert runs[f"tiny · {direction} · opus · segment · test · source"] == "FINISHED"
    assert set(runs.values()) == {"FINISHED"}


def test_another_folder_is_imported_again_and_a_wrong_one_stops_everything(workspace: Workspace) -> None:
    config = yaml.safe_load((workspace.folder / "tiny.yaml").read_text())
    named = config["models"]["opus"]["huggingface"]
    other = {way: named.format(source=way[:2], target=way[3:]) for way in ("xa-xb", "xb-xa")}
    config["models"]["opus"]["huggingface"] = {**other, "xa-xb": other["xb-xa"]}
    (workspace.folder / "tiny.yaml").write_text(yaml.safe_dump(config))
    jobs = workspace.dry_run()
    assert (jobs["import_model"], jobs.get("train"), jobs["segment_for_model"]) == (1, None, 6)
    config["models"]["opus"]["huggingface"] = named.replace("opus-mt", "nothing")
    (workspace.folder / "tiny.yaml").write_text(yaml.safe_dump(config))
    stopped = workspace.snakemake("--cores", "1", check=False)
    assert stopped.returncode == 2
    assert "config.models.opus.huggingface: " in stopped.stderr
    assert "Traceback" not in stopped.stderr
