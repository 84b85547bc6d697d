"""The files of the study of Snell et al. 2021: tables say what was put in, and damage is one line."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from snell2021_results import (
    QUANTITIES,
    curve_to,
    verdicts,
    write_agreement,
    write_classified,
    write_copy,
    write_counts,
    write_heads,
    write_keyword,
    write_preparation,
)

from alignlens.cli.main import main
from alignlens.errors import ConfigError, InputError
from alignlens.io.arrays import read_arrays, write_arrays
from alignlens.io.atomic import write_json
from alignlens.io.trajectories import write_trajectory
from alignlens.io.typed import read
from alignlens.report.studies import read_study, study_tables
from alignlens.results.manifest import Manifest
from alignlens.results.protocol import Protocol
from alignlens.results.reader import read_results
from alignlens.studies.claims import NOT_TESTABLE
from alignlens.studies.snell2021.published import stated
from alignlens.studies.snell2021.sizes import read_texts, size_lines
from alignlens.studies.snell2021.study import STUDY, Snell2021Settings, check
from alignlens.studies.snell2021.toys import TOYS

if TYPE_CHECKING:
    from pathlib import Path

EVIDENCE = {name: [0.0, 1.0, 2.0] for name in ("keyword", "next", "mean", "last")}


def rows(folder: Path, stem: str) -> list[dict[str, str]]:
    with (folder / "snell2021" / f"{stem}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def row(found: list[dict[str, str]], **wanted: str) -> dict[str, str]:
    (one,) = [each for each in found if all(each[key] == value for key, value in wanted.items())]
    return one


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with something of everything, and the study of it."""
    folder = tmp_path_factory.mktemp("results") / "mine"
    write_agreement(folder, "multi30k", spread=10.0, xi={"beta_px,beta_uf": None}, bleu=True)
    write_agreement(folder, "multi30k", {"alpha,beta_uf": 33.0}, split="train-1000", bleu=True)
    write_agreement(folder, "demo")
    write_classified(folder, "imdb_small")
    write_classified(folder, "sst", **{"alpha,beta": {"distinct": 1.2}})
    for task in ("permutation", "control", "mixture", "permuted_copy"):
        write_copy(folder, task, [curve_to(1.0, at=100), curve_to(0.3)])
    write_keyword(folder, EVIDENCE)
    write_heads(folder, 2, 20, 18, (15, 60))
    write_counts(folder, ((16, 0.8), (64, 0.97)))
    write_preparation(folder, "sst")
    for split in ("train", "dev"):
        for side, words in (("source", "▁a ▁b ▁c"), ("target", "▁x ▁y")):
            path = folder / "pieces" / "multi30k" / f"{split}.{side}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{words}\n" * 3)
    write_json(folder / "subwords" / "multi30k" / "subwords.json", {"statistics": {"source": {"vocabulary": 8000}}})
    assert main(["study", "snell2021", "--results", str(folder)]) == 0
    return folder


def test_tables_have_what_was_put_in(studied: Path) -> None:
    five = rows(studied, "table5")
    for quantity, value in QUANTITIES.items():
        assert float(row(five, task="demo", what="A", quantity=quantity)["ours"]) == value
    ours = row(five, task="multi30k", what="A", quantity="alpha,beta_uf")
    assert (ours["published"], ours["ours"], ours["difference"], ours["at"]) == ("31.02", "31.0", "-0.02", "000500")
    assert float(ours["low"]) < 31 < float(ours["high"])
    assert row(five, task="multi30k", what="xi", quantity="alpha,beta")["ours"] == "55.0"
    assert row(five, task="multi30k", what="star")["difference"] == "-0.29"
    # Never reached: the best, with an asterisk.
    never = row(five, task="multi30k", what="xi", quantity="beta_px,beta_uf")
    assert (never["ours"], never["starred"], never["published_starred"]) == ("66.0", "yes", "no")
    assert row(five, printed_task="AG News", what="xi", quantity="beta_px,beta_uf")["published_starred"] == "yes"
    assert row(five, printed_task="Yelp", what="A", quantity="random")["reason"] == "not run"
    # Print knows one order, the released one.
    orders = {each["quantity"]: each for each in five if (each["task"], each["what"]) == ("multi30k", "A")}
    assert (orders["beta_px,beta_uf"]["published"], orders["beta_px,beta_uf"]["order"]) == ("34.43", "as released")
    assert (orders["beta_uf,beta_px"]["published"], orders["beta_uf,beta_px"]["ours"]) == ("", "50.0")


def test_tables_are_of_their_text_measure_and_kind(studied: Path) -> None:
    assert row(rows(studied, "table7"), task="multi30k", what="A", quantity="alpha,beta_uf")["ours"] == "33.0"
    assert {each["task"] for each in rows(studied, "table6")} == {"", "multi30k"}  # BLEU is of translation
    assert row(rows(studied, "table3"), task="demo", what="A", quantity="alpha,beta_uf")["ours"] == "8.0"
    assert {each["task"] for each in rows(studied, "table10")} == {"", "imdb_small", "sst"}
    eleven = row(rows(studied, "table11"), task="sst", quantity="beta_log,beta_uf")
    assert (eleven["published"], eleven["ours"], eleven["difference"]) == ("0.46", "0.36", "-0.1")
    assert eleven["unit"] == "fractions, as in print"
    assert row(rows(studied, "table2"), task="imdb_small", quantity="alpha,beta_uf", what="A")["printed_task"] == "IMDB"
    shown = (studied / "snell2021" / "table2.md").read_text()
    assert "| ours (imdb_small)" in shown
    assert "τ(β_uf,β_px) as" not in (studied / "snell2021" / "table3.md").read_text()


def test_sizes_of_texts(studied: Path) -> None:
    nine = rows(studied, "table9")
    assert row(nine, task="sst", split="dev", name="examples")["difference"] == "0.0"
    assert row(nine, task="multi30k", split="dev", name="source")["ours"] == "3.0"
    assert row(nine, task="multi30k", split="train", name="vocabulary")["ours"] == "8000"
    assert row(nine, printed_task="Yelp", split="train", name="examples")["ours"] == ""
    lines = size_lines(read_texts(Manifest.whole(studied), ["nowhere"]))
    assert {line.task for line in lines} == {None, "sst"}
    assert "12,488" in (studied / "snell2021" / "table9.md").read_text()


def test_a_collapsed_probe_is_marked(studied: Path) -> None:
    text = (studied / "snell2021" / "table5.md").read_text()
    assert "49.00!" in text
    assert "agrees with everything" in text


def test_all_promised_files_are_there_and_the_page_has_the_figures(studied: Path) -> None:
    out = studied / "snell2021"
    assert {file for file in STUDY.files if not (out / file).is_file()} == set()
    names = {path.name for path in out.glob("*.svg")}
    assert names == {
        *(f"figure2-{task}.svg" for task in ("demo", "imdb_small", "multi30k", "sst")), "figure3.svg",
        "figure6-heads.svg", "figure7-keyword.svg", "probes.svg", "permuted.svg", "counts-multi30k-de-en.svg",
        "counts-tasks.svg",
    }  # fmt: skip
    page = (out / "index.html").read_text(encoding="utf-8")
    assert page.count("data:image/svg+xml") == len(names)
    assert all(f"Table {number}: " in page for number in range(2, 12))
    assert "S21" in page


def test_summary_report_and_tracker(studied: Path) -> None:
    summary = json.loads((studied / "snell2021" / "summary.json").read_text())
    assert summary["datasets"] == ["demo", "imdb_small", "multi30k", "sst"]
    assert sum(summary["claims"].values()) == 21
    (table,) = study_tables(read_study(studied / "snell2021" / "summary.json"))
    assert table.caption.startswith("snell2021: agreement (%) on dev texts")
    assert table.header[:3] == ("task", "kind", "A(α,β_uf)")
    shown = {cells[0].text: cells for cells in table.rows}
    assert shown["multi30k"][1].text == "translation"
    assert shown["sst"][2].text == "31.0 ±0.0"
    assert not any(cell.strong for cells in table.rows for cell in cells)
    journal = (studied / "snell2021" / "study.journal.jsonl").read_text()
    assert '"multi30k/dev/agreement/alpha_beta_uf":31.0' in journal
    assert '"toys/control/converged":0.5' in journal
    assert "multi30k/dev/xi/beta_px_beta_uf" not in journal  # never reached: no number
    toys = rows(studied, "toys")
    assert row(toys, task="control")["learned"] == "1"
    assert row(toys, task="heads", runs_of="single heads")["share"] == "0.25"


def test_figures_of_what_has_left_go(studied: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    for task in ("demo", "sst"):
        write_agreement(folder, task)
    assert main(["study", "snell2021", "--results", str(folder)]) == 0
    (folder / "snell2021" / "mine.svg").write_text("<svg/>")
    for path in (folder / "agreement" / "sst").rglob("*.*"):
        path.unlink()
    assert main(["study", "snell2021", "--results", str(folder)]) == 0
    assert {path.name for path in (folder / "snell2021").glob("*.svg")} == {
        "figure2-demo.svg",
        "probes.svg",
        "mine.svg",
    }


def test_without_anything_there_is_nothing_to_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.joinpath("mine").mkdir()
    assert main(["study", "snell2021", "--results", str(tmp_path / "mine")]) == 2
    error = capsys.readouterr().err
    assert "no agreement, generated task or count below this folder" in error
    assert error.count("\n") == 1


def test_one_toy_is_enough(tmp_path: Path) -> None:
    write_copy(tmp_path, "control", [curve_to(1.0, at=100)] * 20)
    assert main(["study", "snell2021", "--results", str(tmp_path)]) == 0
    found = verdicts(tmp_path)
    assert {claim for claim, each in found.items() if each.verdict != NOT_TESTABLE} == {"S08", "S21"}
    assert all(each.reason for each in found.values() if each.verdict == NOT_TESTABLE)
    assert "all numbers are printed ones" in (tmp_path / "snell2021" / "table5.md").read_text()
    assert json.loads((tmp_path / "snell2021" / "summary.json").read_text())["error_rates"] == []


def test_what_the_manifest_does_not_name_does_not_exist(tmp_path: Path) -> None:
    write_agreement(tmp_path, "demo")
    write_agreement(tmp_path, "multi30k")
    files = tuple(f"agreement/demo/dev/{name}" for name in ("agreement.json", "sentences.npz"))
    results = read_results(Manifest(tmp_path, files, Protocol()))
    built = STUDY.build(results, tmp_path / "out")
    assert built.summary["datasets"] == ["demo"]


def test_best_attention_of_a_linear_model(tmp_path: Path) -> None:
    write_agreement(tmp_path, "multi30k", bleu=True)
    # Of three rows two agree: the maximum of u is that of v in the first and the last.
    best = np.array([[0.9, 0.1, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], np.float32)
    probe = np.array([[0.5, 0.2, 0.1], [0.5, 0.2, 0.1], [0.1, 0.2, 0.5]], np.float32)
    folder = tmp_path / "trajectories" / "multi30k" / "de-en" / "snell_linear" / "1" / "dev"
    rows_of = {"final": {"optimal_attention": [best] * 2, "probe,scale=log_p": [probe] * 2}}
    write_trajectory(folder, rows_of, {"final": {"accuracy": 0.6, "loss": 1.0, "bleu": 36.0}}, {})
    assert main(["study", "snell2021", "--results", str(tmp_path)]) == 0
    found = rows(tmp_path, "optimal")
    agreed = row(found, name="multi30k_agreement_optimal_attention_probe")
    assert (agreed["published"], agreed["ours"], agreed["difference"]) == ("0.53", "0.6667", "0.1367")
    assert row(found, name="multi30k_bleu_linear_additive_variant")["ours"] == "36.0"
    assert row(found, name="multi30k_bleu_main_model")["ours"] == "66.0"
    assert "Appendix A.1" in (tmp_path / "snell2021" / "index.html").read_text(encoding="utf-8")


# ---- damage ----------------------------------------------------------------------------------------------------


def told(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        verdicts(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda c: c.pop("measures"), "'measures' is missing"),
        (lambda c: c["measures"].pop("accuracy"), "no accuracy among its measures"),
        (lambda c: c.update(items=1000), "rows is 900, not a whole number, at least 1000"),
        (lambda c: c["measures"]["accuracy"].update(star=101.0), "star is 101.0, not between 0 and 100"),
        (lambda c: c["measures"]["accuracy"]["agreement"][0].update(value="x"), "value is 'x', not a number"),
        (lambda c: c["curves"]["again"]["agreement"].pop(), "agreement is not a list of 5 numbers"),
    ],
)
def test_a_damaged_agreement_is_one_line(tmp_path: Path, change: Any, problem: str) -> None:
    path = write_agreement(tmp_path, "demo")
    content = json.loads(path.read_text())
    change(content)
    write_json(path, content)
    error = told(tmp_path)
    assert error.startswith(str(path))
    assert problem in error


def test_damaged_sums_are_one_line(tmp_path: Path) -> None:
    path = write_agreement(tmp_path, "demo").with_name("sentences.npz")
    whole = read_arrays(path, "")
    for change, problem in (
        ({"sums": whole["sums"] + 0.1}, "another accuracy.agreement.alpha,beta_uf than agreement.json beside it"),
        ({"sums": whole["sums"][:, 1:]}, "its arrays do not fit together"),
        ({"counts": -whole["counts"]}, "a number that no text has"),
        ({"sums": np.where(whole["sums"] > 0.3, np.nan, whole["sums"])}, "a number that no text has"),
        ({"names": np.arange(len(whole["names"]))}, "not the agreement of single texts"),
        ({"names": np.array([f"x{name}" for name in whole["names"]])}, "no accuracy.agreement."),
    ):
        write_arrays(path, {**whole, **change})
        assert problem in told(tmp_path)
    path.write_bytes(b"nothing")
    assert "not an archive of arrays" in told(tmp_path)
    path.unlink()
    assert "no such file" in told(tmp_path)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"task": "weaving"}, "task is 'weaving', not one of permutation"),
        ({"steps": [0, 10, 10]}, "steps are not in ascending order"),
        ({"steps": [0, 10]}, "accuracy is not rows of 2 numbers"),
        ({"seeds": [1, 2]}, "accuracy is not of 2 seeds"),
        ({"accuracy": [[0.0, 0.5, 1.5]]}, "accuracy is 1.5, not between 0 and 1"),
        ({"accuracy": [[0.0, 0.5, None]]}, "accuracy is None, not a number"),
        ({"counts": [[1.0], [1.0, 2.0]]}, "counts is not rows of 1 numbers"),
    ],
)
def test_a_damaged_toy_is_one_line(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    path = write_copy(tmp_path, "control", [[0.0, 0.5, 1.0]], (0, 10, 20))
    write_json(path, {**json.loads(path.read_text()), **change})
    assert problem in told(tmp_path)


def test_other_damaged_files_are_one_line(tmp_path: Path) -> None:
    for path, key in (
        (write_keyword(tmp_path, EVIDENCE), "variants"),
        (write_heads(tmp_path, 1, 1, 1, (1, 2)), "scenarios"),
        (write_counts(tmp_path, ((16, 0.9),)), "growth"),
    ):
        content = json.loads(path.read_text())
        write_json(path, {name: value for name, value in content.items() if name != key})
        assert f"'{key}' is missing" in told(tmp_path)
        path.write_text("{")
        assert "not JSON" in told(tmp_path)
        path.unlink()
    path = write_preparation(tmp_path, "sst")
    write_json(path, {"vocabulary": {"words": 9}, "splits": {}})
    with pytest.raises(InputError, match="is missing"):
        read_texts(Manifest.whole(tmp_path), [])


# ---- settings --------------------------------------------------------------------------------------------------


def test_settings_have_the_grid_of_the_paper() -> None:
    settings = read(Snell2021Settings, {})
    assert settings.checkpoints[:8] == (0, 50, 100, 500, 1000, 1500, 2000, 4000)
    assert settings.checkpoints[-5:] == (20_000, 24_000, 28_000, 32_000, 36_000)
    assert settings.classifier_checkpoints[:8] == (0, 10, 50, 100, 150, 200, 250, 500)
    assert settings.wanted_toys == {task: {} for task in TOYS}
    changed = read(Snell2021Settings, {"toys": {"heads": None, "control": {"steps": 300}}})
    assert "heads" not in changed.wanted_toys
    assert changed.wanted_toys["control"] == {"steps": 300}
    assert stated()["translation_parameters_with_embeddings"] == 8_180_544


def test_settings_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match=r"here\.checkpoints: updates must be in ascending order"):
        check(Snell2021Settings(checkpoints=(100, 0)), [], "here")
    with pytest.raises(ConfigError, match="'demo' is taken"):
        check(Snell2021Settings(classification=("demo",)), ["demo"], "here")
    with pytest.raises(ConfigError, match=r"here\.toys\.heads.head: unknown key"):
        check(Snell2021Settings(toys={"heads": {"head": 4}}), [], "here")
    with pytest.raises(ConfigError, match=r"here\.toys: .*'mixtures'.*mixture"):
        check(Snell2021Settings(toys={"mixtures": {}}), [], "here")
    with pytest.raises(ConfigError, match=r"here\.classifier\.models: unknown key"):
        check(Snell2021Settings(classifier={"models": {}}), [], "here")
    check(Snell2021Settings(classification=("sst",), toys={"heads": {"heads": 4}, "mixture": None}), ["demo"], "here")
