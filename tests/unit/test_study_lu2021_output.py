"""The files of the study of Lu et al. 2021: tables and figures say what was put in; damage is one line."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alignlens.cli.main import main
from alignlens.display.sentences import Side
from alignlens.display.weight_heatmap import draw_weights
from alignlens.io.matrices import MatrixWriter
from alignlens.metrics.calibration import Calibration, CalibrationSums
from alignlens.results.manifest import Manifest
from alignlens.results.scores import AttributedModel, Results, Score, ScoredDataset
from alignlens.studies.lu2021.alignments import layer_lines, read_sentence
from alignlens.studies.lu2021.published import bleu
from alignlens.studies.lu2021.readings import Bitext, BleuComparison, Compared, Text
from alignlens.studies.lu2021.study import STUDY
from alignlens.studies.lu2021.tables import BleuCell, BleuTable

SENTENCES, LAYERS, HEADS = 24, 2, 2
MODELS = ("lu_baseline", "lu_fixed", "lu_anneal", "lu_gate")
#: How many words of a hundred each system gets wrong, in both directions.
WRONG = {"lu_baseline": 30, "lu_fixed": 24, "lu_anneal": 26, "lu_gate": 10}
SWEPT = {"lu_gate_alpha_0_01": 0.01, "lu_gate_alpha_0_1": 0.1}
DIRECTIONS = {"xa-xb": "target", "xb-xa": "source"}


def rows_of(generator: np.random.Generator, targets: int, sources: int) -> Any:
    made = generator.random((LAYERS, HEADS, targets, sources)) ** 4 + 1e-3
    return made / made.sum(-1, keepdims=True)


def analysed(masked: bool, level: float, seed: int) -> CalibrationSums:
    """Returns what is measured of random attention; masks have this mean, and more of one where it is important."""
    generator, made = np.random.default_rng(seed), Calibration()
    for number in range(SENTENCES):
        targets, sources = 5 + number % 3, 6 + number % 4
        importance = generator.random((targets, sources))
        original = rows_of(generator, targets, sources)
        mask = np.clip(level + 0.2 * (0.5 - importance) + 0 * original, 0, 1)
        losses = {"clean": 2.0 * targets, "perturbed": (3 + generator.random()) * targets, "shuffled": 2.5 * targets}
        if masked:
            made.add(number, original, importance, original * np.exp(1 - mask), mask, losses)
        else:
            made.add(number, original, importance, losses={"clean": losses["clean"]})
    return made.sums()


def write_model(folder: Path, model: str, alpha: float | None, direction: str = "xa-xb", seed: int = 1) -> None:
    place = folder / "models" / "made" / direction / model / str(seed) / "model"
    place.mkdir(parents=True)
    objective = {"name": "cross_entropy"} if alpha is None else {"name": "mask_game", "alpha": alpha}
    card = {"parameters": 1000 if alpha is None else 1234, "updates": 7, "training": {"objective": objective}}
    card |= {"spec": {"source_vocab": 40, "target_vocab": 50}}
    (place / "model.json").write_text(json.dumps(card))


def write_looked(folder: Path, model: str, level: float | None, direction: str = "xa-xb") -> None:
    place = folder / "calibration" / "made" / direction / model / "1"
    place.mkdir(parents=True)
    analysed(level is not None, level or 0, seed=len(model)).save(place / "test.npz")


def write_text(folder: Path) -> None:
    generator = np.random.default_rng(5)
    data = folder / "data" / "made"
    data.mkdir(parents=True)
    for side in DIRECTIONS.values():
        lines = [" ".join(f"{side[0]}{word}" for word in generator.integers(0, 50, 12)) for _ in range(SENTENCES)]
        (data / f"test.{side}").write_text("\n".join(lines) + "\n")
    splits = {"train": {"pairs": 4000}, "dev": {"pairs": 20}, "test": {"pairs": SENTENCES}}
    (data / "preparation.json").write_text(json.dumps({"pair": ["xa", "xb"], "splits": splits}))


def translated(folder: Path, model: str, wrong: int, direction: str = "xa-xb") -> str:
    """Writes a translation with wrong words and its BLEU, and returns where it is."""
    place = folder / "translations" / "made" / direction / model / "1"
    place.mkdir(parents=True)
    reference = folder / "data" / "made" / f"test.{DIRECTIONS[direction]}"
    generator = np.random.default_rng(len(model))
    lines = [
        " ".join("wrong" if generator.integers(100) < wrong else word for word in line.split())
        for line in reference.read_text().splitlines()
    ]
    (place / "test.txt").write_text("\n".join(lines) + "\n")
    options = ["--hypothesis", str(place / "test.txt"), "--reference", str(reference), "--tokenize", "none"]
    assert main(["bleu", *options, "--out", str(place / "bleu.json")]) == 0
    return str(place / "test.txt")


def compared(folder: Path, name: str, found: dict[str, str], baseline: str, direction: str = "xa-xb") -> None:
    place = folder / "comparisons" / "made" / direction
    place.mkdir(parents=True, exist_ok=True)
    systems = [model for model in found if model != baseline]
    options = [word for model in systems for word in ("--hypothesis", found[model])]
    options += ["--versus", found[baseline], "--names", *systems, baseline, "--tokenize", "none", "--trials", "100"]
    reference = folder / "data" / "made" / f"test.{DIRECTIONS[direction]}"
    out = str(place / f"{name}.json")
    assert main(["bleu", *options, "--reference", str(reference), "--samples", "100", "--out", out]) == 0


def write_attributed(folder: Path, model: str, methods: list[str], direction: str = "xa-xb") -> None:
    """Writes matrices of the test text, whose pieces are words."""
    place = folder / "attributions" / "made" / model / "1" / "final" / "test" / "forced" / direction / "matrices"
    place.parent.mkdir(parents=True)
    read, written = ("source", "target") if direction == "xa-xb" else ("target", "source")
    sides = [pieces_of(folder, side) for side in (written, read)]
    shapes = np.array([[len(side[number]) + 1 for side in sides] for number in range(SENTENCES)])
    generator = np.random.default_rng(3)
    with MatrixWriter(place, methods, shapes, {}) as writer:
        for number, shape in enumerate(shapes):
            writer.write(number, {method: generator.random(shape) for method in methods})


def pieces_of(folder: Path, side: str) -> list[list[str]]:
    return [line.split() for line in (folder / "pieces" / "made" / f"test.{side}").read_text().splitlines()]


def write_pieces(folder: Path) -> None:
    """Writes pieces, every word one of them; of one sentence alone there are few."""
    place = folder / "pieces" / "made"
    place.mkdir(parents=True)
    for side in DIRECTIONS.values():
        lines = (folder / "data" / "made" / f"test.{side}").read_text().splitlines()
        whole = [[f"\u2581{word}" for word in line.split()] for line in lines]
        whole[7] = whole[7][:9]
        (place / f"test.{side}").write_text("\n".join(map(" ".join, whole)) + "\n")


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with something of everything, and the study of it."""
    folder = tmp_path_factory.mktemp("results") / "mine"
    write_text(folder)
    for direction in DIRECTIONS:
        found = {}
        for model in MODELS:
            write_model(folder, model, None if model == "lu_baseline" else 0.3, direction)
            write_looked(folder, model, None if model == "lu_baseline" else 0.8, direction)
            found[model] = translated(folder, model, WRONG[model], direction)
        compared(folder, "lu_fusions", found, "lu_baseline", direction)
    baseline = {"lu_baseline": str(folder / "translations/made/xa-xb/lu_baseline/1/test.txt")}
    for model, alpha in SWEPT.items():
        write_model(folder, model, alpha)
        write_looked(folder, model, 0.2 + alpha)
    compared(folder, "lu_alphas", {**{m: translated(folder, m, 20) for m in SWEPT}, **baseline}, "lu_baseline")
    less = {model: translated(folder, model, wrong) for model, wrong in (("lu_gate_500", 5), ("lu_baseline_500", 80))}
    compared(folder, "lu_500", less, "lu_baseline_500")
    write_pieces(folder)
    write_attributed(folder, "lu_baseline", ["attention"])
    write_attributed(folder, "lu_gate", ["attention", "mask,layer=-1"])
    # Of other studies nothing is read.
    write_looked(folder, "other", 0.5)
    translated(folder, "transformer", 5)
    assert main(["study", "lu2021", "--results", str(folder)]) == 0
    return folder


def rows(folder: Path, stem: str, **wanted: Any) -> list[dict[str, str]]:
    with (folder / "lu2021" / f"{stem}.csv").open(encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    return [row for row in found if all(row[key] == str(value) for key, value in wanted.items())]


def test_every_file_is_there(studied: Path) -> None:
    missing = [name for name in STUDY.files if not (studied / "lu2021" / name).is_file()]
    assert missing == []
    drawn = {path.stem for path in (studied / "lu2021").glob("figure*.svg")}
    assert drawn == {f"figure{number}-made" for number in (1, 2, 4, 5, 6, 7)}
    page = (studied / "lu2021" / "index.html").read_text()
    # The one with a usual number of pieces.
    assert "Figure 1, made xa-xb: attention of sentence 8, its mask, and calibrated attention" in page
    assert "Figure 4, made: masks and BLEU against the weight of the penalty, gate" in page
    assert "in print 6 million; made xa-xb 234 to 1,000 (23.4 %)" in page
    assert "Not here: no numbers of it are on record, and ours has no counterpart" in page


def test_table_1_has_print_and_ours(studied: Path) -> None:
    assert len(rows(studied, "table1", origin="print")) == 8
    assert rows(studied, "table1", origin="print", direction="zh-en")[0]["train"] == "2090000"
    ours = rows(studied, "table1", origin="ours")
    assert [row["direction"] for row in ours] == ["xa-xb", "xb-xa"]
    sizes = [ours[0][name] for name in ("train", "dev", "test", "vocabulary")]
    assert sizes == ["4000", "20", str(SENTENCES), "50"]


def test_bleu_stands_beside_print(studied: Path) -> None:
    scored = json.loads((studied / "translations/made/xb-xa/lu_gate/1/bleu.json").read_text())
    (row,) = rows(studied, "table4", system="gate", test_set="made xb-xa")
    assert float(row["ours"]) == pytest.approx(scored["bleu"], abs=1e-4)
    assert float(row["gain_low"]) < float(row["gain"]) < float(row["gain_high"])
    assert 0 < float(row["p_bootstrap"]) < 0.05
    assert 0 < float(row["p_randomisation"]) < 0.05
    assert "tok:none" in row["signature"]
    assert rows(studied, "table4", system="baseline", test_set="made xa-xb")[0]["gain"] == ""
    printed = rows(studied, "table4", system="gate", test_set="en-ro")
    assert [(each["published"], each["published_significant"]) for each in printed] == [("24.0", "yes")]
    # No direction of ours belongs to the other two.
    for stem, number in (("table2", 9), ("table3", 24)):
        assert len(rows(studied, stem)) == number
        assert not any(row["ours"] for row in rows(studied, stem))
        assert "Nothing in this table was measured here" in (studied / "lu2021" / f"{stem}.md").read_text()
    average = rows(studied, "table3", system="baseline", test_set="AVE")
    assert average[0]["published"] == "48.24"
    table = (studied / "lu2021" / "table4.md").read_text()
    # The printed numbers are for other language pairs: they are below the table, not beside ours.
    assert "print," not in table.partition("\n\n")[2].splitlines()[0]
    assert r"en-lv 16.26, 16.54, 16.35, 16.83\*; lv-en" in table


def test_all_comparisons_are_listed(studied: Path) -> None:
    names = [(row["comparison"], row["direction"], row["model"]) for row in rows(studied, "bleu")]
    assert len(names) == len(set(names)) == 2 * 4 + 3 + 2
    assert ("lu_500", "xa-xb", "lu_gate_500") in names
    shown = re.findall(r"\| made xa-xb \| ([^|]*?) +\|", (studied / "lu2021" / "bleu.md").read_text())
    assert shown == [
        "baseline", "fixed", "anneal", "gate", "gate, alpha 0.01", "gate, alpha 0.1",
        "baseline, 500 pairs", "gate, 500 pairs",
    ]  # fmt: skip


def test_table_5_has_both_readings_and_the_check(studied: Path) -> None:
    sums = CalibrationSums.load(studied / "calibration/made/xa-xb/lu_gate/1/test.npz").means()
    plain = CalibrationSums.load(studied / "calibration/made/xa-xb/lu_baseline/1/test.npz").means()
    wanted = {"test_set": "made xa-xb", "model": "lu_gate"}
    within = rows(studied, "table5", what="change within the model", **wanted)
    expected = [*sums["entropy_change"], sums["entropy_change_of_rows"], sums["entropy_change_of_mean"]]
    assert [float(row["ours"]) for row in within] == pytest.approx(expected, abs=1e-4)
    assert [row["layer"] for row in within[2:]] == [
        "all: mean over layers", "all: attention averaged over layers and heads",
    ]  # fmt: skip
    check = rows(studied, "table5", what="against the baseline", **wanted)
    expected = sums["entropy_combined"] - plain["entropy_original"]
    assert [float(row["ours"]) for row in check] == pytest.approx(expected, abs=1e-4)
    assert len(rows(studied, "table5", model="print")) == 14
    assert {row["model"] for row in rows(studied, "table5")} == {"print", "lu_fixed", "lu_anneal", "lu_gate"}
    shown = (studied / "lu2021" / "table5.md").read_text()
    assert "print," not in shown.partition("\n\n")[2].splitlines()[0]
    assert "In print, zh-en: layer 1 +0.0203," in shown
    assert "All -0.0336." in shown
    assert "layer 6: 0.0084 in the first bin, 0.0324 in the last" in (studied / "lu2021" / "bins.md").read_text()


@pytest.mark.parametrize(
    ("number", "directions", "beside"),
    [
        (4, ["en-ro", "xa-xb"], ["en-ro"]),
        (4, ["xa-xb"], []),
        (4, [], ["en-lv", "lv-en", "en-fi", "fi-en", "en-ro", "ro-en"]),
        (2, ["en-de"], ["en-de"]),
    ],
)
def test_print_stands_beside_ours_of_the_same_direction(number: int, directions: list[str], beside: list[str]) -> None:
    system = Compared("lu_gate", *[1.0] * 8, 0.01, 1)
    test_sets = [Bitext("mine", direction) for direction in directions]
    cells = [
        BleuCell(test_set, BleuComparison("lu", test_set, "lu_baseline", "", 10, (system,)), system)
        for test_set in test_sets
    ]
    assert BleuTable(number, bleu(number), tuple(cells)).beside == beside


def test_everything_measured_has_its_interval(studied: Path) -> None:
    sums = CalibrationSums.load(studied / "calibration/made/xa-xb/lu_gate/1/test.npz").means()
    wanted = {"model": "lu_gate", "direction": "xa-xb"}
    for quantity in ("mask", "jsd", "tau_mask", "tau_mask_without_end"):
        found = rows(studied, "calibration", quantity=quantity, **wanted)
        assert [float(row["mean"]) for row in found] == pytest.approx(sums[quantity].tolist(), abs=1e-5)
        assert [row["layer"] for row in found] == ["1", "2"]
        assert all(float(row["low"]) <= float(row["mean"]) <= float(row["high"]) for row in found)
    bins = rows(studied, "calibration", quantity="jsd_by_entropy", layer=1, **wanted)
    known = sums["jsd_by_entropy"][0]
    assert [float(row["mean"]) for row in bins] == pytest.approx(known[~np.isnan(known)].tolist(), abs=1e-5)
    assert [row["bin"] for row in bins][:2] == ["below 0.8", "0.8 to 1.6"]
    assert {row["model"] for row in rows(studied, "calibration")} == {*MODELS, *SWEPT}
    (gate,) = rows(studied, "models", **{"test set": "made xb-xa", "model": "gate"})
    assert [gate[name] for name in ("parameters", "more than the baseline", "alpha")] == ["1234", "234", "0.3"]
    (losses,) = rows(studied, "models", **{"test set": "made xa-xb", "model": "gate"})
    assert [float(losses[name]) for name in ("loss", "shuffled")] == pytest.approx([2.0, 2.5])


def test_verdicts_and_summary(studied: Path) -> None:
    verdicts = {row["id"]: row["verdict"] for row in rows(studied, "claims")}
    expected = dict.fromkeys(("L02", "L03", "L05", "L06", "L07", "L08", "L09"), "reproduced")
    assert {name: verdicts[name] for name in expected} == expected
    assert verdicts["L01"] == "undecided"  # random attention has nothing to do with importance
    content = json.loads((studied / "lu2021" / "summary.json").read_text())
    (short,) = content["error_rates"]
    assert short["columns"] == ["made xa-xb", "made xb-xa"]
    assert [row["method"] for row in short["rows"]] == ["baseline", "fixed", "anneal", "gate"]
    assert all(cell["low"] <= cell["mean"] <= cell["high"] for row in short["rows"] for cell in row["cells"])


def test_the_sentence_is_read_in_its_direction(studied: Path, tmp_path: Path) -> None:
    folder, text = again(studied, tmp_path), Text(("xa", "xb"), 1, 1, 1)
    back = Bitext("made", "xb-xa")
    assert read_sentence(Manifest.whole(folder), back, text) is None  # nobody was asked
    write_attributed(folder, "lu_baseline", ["attention"], "xb-xa")
    write_attributed(folder, "lu_gate", ["attention", "mask,layer=-1"], "xb-xa")
    found = read_sentence(Manifest.whole(folder), back, text)
    assert found is not None
    assert (found.number, len(found.source.pieces)) == (7, 9)
    assert found.source.pieces == pieces_of(folder, "target")[7]
    assert list(found.matrices) == ["baseline: attention", "gate: 1 − mask", "gate: calibrated attention"]
    assert read_sentence(Manifest.whole(folder), back, None) is None


def test_a_matrix_of_another_sentence_is_refused() -> None:
    side = Side(["\u2581a", "\u2581b"], [0, 1])
    with pytest.raises(ValueError, match="mine: a matrix of"):
        draw_weights(side, side, {"mine": np.ones((3, 2))}, "a caption")
    assert draw_weights(side, side, {"mine": np.zeros((3, 3))}, "a caption").figure.axes


def scored(aer: float, sentences: Any = None) -> Score:
    return Score("xa-xb", "direction", aer, aer - 1, aer + 1, 0, 0, 0, 1, 1, 1, sentences)


def test_error_rates_of_masks_stand_beside_those_of_attention(tmp_path: Path) -> None:
    def model(name: str, architecture: str, seed: str, **rates: float) -> AttributedModel:
        methods = {key.replace("_", ",layer="): [scored(aer)] for key, aer in rates.items()}
        found = {(method, "ding", "xa-xb"): scores for method, scores in methods.items()}
        return AttributedModel("made", name, architecture, seed, "forced", found)

    runs = (
        model("wide", "transformer", "1", attention_0=40, attention_1=20, mask_0=50, mask_1=30),
        model("wide", "transformer", "2", attention_0=44, attention_1=20, mask_0=50, mask_1=36),
        model("lstm", "lstm", "1", attention=25),
        model("lu_baseline", "transformer", "1", attention=33),
    )
    gate = AttributedModel("made", "lu_gate", "calibrated", "1", "forced", {
        ("attention", "ding", "xa-xb"): [scored(31)], ("mask,layer=-1", "ding", "xa-xb"): [scored(45)],
    })  # fmt: skip
    dataset = ScoredDataset("made", ("xa", "xb"), 3)
    lines = layer_lines(Results(Manifest.whole(tmp_path), (dataset,), (*runs, gate)))
    assert [(line.model, line.layer, line.attention.mean, line.mask.mean) for line in lines[:2]] == [
        ("wide", "1", 42, 50), ("wide", "2", 20, 33),
    ]  # fmt: skip
    assert [(line.model, line.layer) for line in lines[2:]] == [("lu_baseline", "last"), ("lu_gate", "last")]
    assert [lines[2].attention.mean, lines[3].attention.mean, lines[3].mask.mean] == [33, 31, 45]
    assert not lines[2].mask.known
    record = lines[1].record()
    assert (record["mask"], record["mask_low"], record["mask_high"], record["seeds"]) == (33, 32, 34, 2)


def again(studied: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    shutil.copytree(studied, folder)
    return folder


def test_a_second_run_writes_the_same_and_leaves_no_old_figure(studied: Path, tmp_path: Path) -> None:
    folder = again(studied, tmp_path)
    (folder / "lu2021" / "figure9-old.svg").write_text("old")
    assert main(["study", "lu2021", "--results", str(folder)]) == 0
    assert not (folder / "lu2021" / "figure9-old.svg").exists()
    for path in sorted((studied / "lu2021").iterdir()):
        if path.suffix in (".csv", ".md", ".svg"):
            assert (folder / "lu2021" / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("calibration/made/xa-xb/lu_gate/1/test.npz", "nothing", "test.npz"),
        ("comparisons/made/xa-xb/lu_fusions.json", '{"systems": []}', "lu_fusions.json"),
        ("comparisons/made/xa-xb/lu_fusions.json", '{"systems": [{"system": "lu_gate"}]}', "lu_fusions.json"),
        (
            "translations/made/xa-xb/lu_gate/1/test.txt",
            "other words\n" * SENTENCES,
            "is not the BLEU of the translation",
        ),
        ("translations/made/xa-xb/lu_gate/1/test.txt", "too few lines\n", "test.txt"),
        ("models/made/xa-xb/lu_gate/1/model/model.json", '{"parameters": 0}', "model.json"),
        ("data/made/preparation.json", '{"pair": ["xa", "xb"]}', "preparation.json"),
    ],
)
def test_damage_is_one_line(
    studied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, content: str, told: str
) -> None:
    folder = again(studied, tmp_path)
    (folder / file).write_text(content)
    assert main(["study", "lu2021", "--results", str(folder)]) == 2
    error = capsys.readouterr().err.strip()
    assert told in error
    assert "\n" not in error


def test_without_models_of_the_study_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    assert main(["study", "lu2021", "--results", str(tmp_path / "mine")]) == 2
    assert "no models of this study" in capsys.readouterr().err


def test_translations_alone_will_do(studied: Path, tmp_path: Path) -> None:
    folder = again(studied, tmp_path)
    for name in ("calibration", "attributions"):
        shutil.rmtree(folder / name)
    assert main(["study", "lu2021", "--results", str(folder)]) == 0
    verdicts = {row["id"]: row["verdict"] for row in rows(folder, "claims")}
    assert (verdicts["L02"], verdicts["L07"]) == ("reproduced", "not testable here")
    assert not list((folder / "lu2021").glob("figure*"))
