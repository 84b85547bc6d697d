"""``alignlens calibration``, called as a user calls it, on small untrained models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_folder import SOURCE, TARGET, write_folder

from alignlens.cli.main import main
from alignlens.metrics.calibration import CalibrationSums
from alignlens.metrics.sampled import Draws
from alignlens.tracking.records import read_journal

TEXT = ["--source", "source", "--target", "target"]
ABOUT = {"preset": "demo", "dataset": "demo", "direction": "xa-xb", "model": "gate", "seed": "1", "split": "dev"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("trained")
    return {name: write_folder(folder / name, name) for name in ("calibrated", "transformer", "lstm")}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, lines in (("source", SOURCE), ("target", TARGET)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(folder: Path, *arguments: str) -> int:
    return main(["calibration", "--model", str(folder), "--threads", "1", *arguments])


def status_of(folder: Path, *arguments: str) -> Any:
    """The exit code, also where the parser of options ends the process."""
    try:
        return call(folder, *arguments)
    except SystemExit as stop:
        return stop.code


def written(name: str = "out.json") -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(name).read_text())
    return content


def test_quantities_are_those_of_the_sums(folders: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--out", "out.json", "--sentences", "sums.npz", "--samples", "200", "--level", "90", "--seed", "7"]
    assert call(folders["calibrated"], *TEXT, *options, "--about", json.dumps(ABOUT), "--json") == 0
    content, sums = written(), CalibrationSums.load(Path("sums.npz"))
    assert json.loads(capsys.readouterr().out) == content
    assert ABOUT.items() <= content.items()
    assert content["interval"] == {"level": 90, "samples": 200, "seed": 7}
    assert (content["layers"], content["heads"], content["sentences"]) == (2, 2, 4)
    assert content["steps"] == sums.counts["loss_clean"].sum() > 4
    means, limits = sums.means(), sums.intervals(Draws(90, 200, 7))
    assert content["quantities"].keys() == means.keys()
    for name, found in content["quantities"].items():
        for key, expected in (("mean", means[name]), ("low", limits[name][..., 0]), ("high", limits[name][..., 1])):
            given = np.array(found[key], float)  # None is nan
            known = ~np.isnan(given)
            assert given.shape == expected.shape
            np.testing.assert_allclose(given[known], expected[known])
            assert not np.isfinite(expected[~known]).any()
    assert content["quantities"]["jsd_by_entropy"]["mean"][0][4] is None  # Rows this short are never that spread out.
    assert np.shape(content["quantities"]["jsd_by_entropy"]["mean"]) == (2, 5)


def test_a_run_is_recorded_with_layers_from_one(folders: dict[str, Path]) -> None:
    out = ["--out", "out.json", "--sentences", "sums.npz", "--journal", "run.jsonl", "--about", json.dumps(ABOUT)]
    assert call(folders["calibrated"], *TEXT, *out) == 0
    (run,) = read_journal(Path("run.jsonl"))
    assert run.experiment == "calibration"
    assert run.name == "demo · xa-xb · gate · s1 · calibration · dev"
    numbers = run.latest
    quantities = written()["quantities"]
    for layer in (0, 1):
        for name in ("jsd", "mask", "tau_mask_without_end", "entropy_change"):
            assert numbers[f"{name}/layer {layer + 1}"] == quantities[name]["mean"][layer]
    by_entropy = quantities["jsd_by_entropy"]["mean"]
    assert numbers["jsd_by_entropy/layer 2/bin 3"] == by_entropy[1][2]
    assert "jsd_by_entropy/layer 1/bin 5" not in numbers
    assert "jsd/layer 3" not in numbers
    assert "jsd/layer 0" not in numbers
    for name in ("loss_clean", "loss_perturbed", "loss_shuffled"):
        assert numbers[name] == quantities[name]["mean"]
    assert {Path(artifact.path).name for artifact in run.artifacts} == {"out.json", "sums.npz"}


def test_a_plain_transformer_and_batches_of_any_size(
    folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(folders["transformer"], *TEXT, "--out", "one.json", "--batch-tokens", "1") == 0
    told = capsys.readouterr().out
    assert call(folders["transformer"], *TEXT, "--out", "all.json") == 0
    one, everything = written("one.json")["quantities"], written("all.json")["quantities"]
    assert list(everything) == ["entropy_original", "loss_clean", "tau_original", "tau_original_without_end"]
    for name in everything:
        assert one[name]["mean"] == pytest.approx(everything[name]["mean"], rel=1e-5)
    first, *lines = told.splitlines()
    assert first == f"4 sentences, {written('all.json')['steps']} target positions"
    assert len(lines) == 4
    assert f"{everything['loss_clean']['mean']:.4f}" in told
    assert len(next(line for line in lines if "entropy_original" in line).split()) == 3


def test_text_is_a_token_store_too(folders: dict[str, Path]) -> None:
    folder = folders["calibrated"]
    for side, text in (("source", "source"), ("target", "target")):
        made = [
            "--model",
            str(folder / f"{side}.model"),
            "--input",
            text,
            "--out",
            f"{side}.p",
            "--tokens",
            f"{side}.t",
        ]
        assert main(["subwords", "segment", *made]) == 0
    assert call(folder, *TEXT, "--out", "text.json") == 0
    assert call(folder, "--source", "source.t", "--target", "target.t", "--out", "store.json") == 0
    assert written("text.json") == written("store.json")


def test_what_is_wrong_is_one_line(folders: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    Path("short").write_text("the dog\n")
    out = ["--out", "out.json"]
    for name, arguments, problem in (
        ("lstm", [*TEXT, *out], "architecture lstm. Give one of transformer or calibrated."),
        ("calibrated", ["--source", "none", "--target", "target", *out], "none: no such file."),
        ("calibrated", ["--source", "source", "--target", "short", *out], "short:2: 1 lines, but source has 4."),
        ("calibrated", [*TEXT, "--out", "source"], "--out source: would overwrite its input"),
        ("calibrated", [*TEXT, "--out", "x.json", "--sentences", "x.json"], "would write the same file"),
        ("calibrated", [*TEXT, *out, "--samples", "1"], "--samples"),
        ("calibrated", [*TEXT, *out, "--threads", "0"], "--threads"),
        ("calibrated", [*TEXT, *out, "--weights", "worst"], "worst"),
        ("calibrated", [*TEXT], "--out"),
    ):
        assert status_of(folders[name], *arguments) == 2
        told = capsys.readouterr().err
        assert problem in told
        assert told.count("\n") == 1
        assert not Path("out.json").exists()
    assert call(Path("nowhere"), *TEXT, *out) == 2
    assert "nowhere" in capsys.readouterr().err
