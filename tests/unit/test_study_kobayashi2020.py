"""The study of Kobayashi et al. 2020 on translation models: the released run must get the verdicts that it supports."""

from __future__ import annotations

import argparse
import csv
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ding2019_results import row, write_model, write_scored

from alignlens.cli import study
from alignlens.io.matrices import MatrixWriter
from alignlens.results.manifest import Manifest
from alignlens.results.protocol import Protocol
from alignlens.results.reader import read_results
from alignlens.studies.claims import COLUMNS, NOT_REPRODUCED, NOT_TESTABLE, REPRODUCED, UNDECIDED, Verdict, claims_of
from alignlens.studies.kobayashi2020.claims import judge
from alignlens.studies.kobayashi2020.heads import correlations
from alignlens.studies.kobayashi2020.layers import BEST, LARGEST, MEAN, ON_DEV, Curve, curves, heads, layer_records
from alignlens.studies.kobayashi2020.runs import layer_method, requests
from alignlens.studies.kobayashi2020.shares import END, PERIOD, shares
from alignlens.studies.kobayashi2020.shown.tables import table3 as shown_table3
from alignlens.studies.kobayashi2020.study import Kobayashi2020Settings
from alignlens.studies.kobayashi2020.table3 import records, tables
from alignlens.studies.requests import Offer, OfferedDataset, OfferedModel

# Error rates of the six layers of one seed of the released run, German-English.
RELEASED = {
    ("attention", "in"): (46.2, 30.3, 50.9, 91.4, 90.9, 93.4),
    ("norms", "in"): (26.5, 25.4, 45.7, 83.8, 84.4, 84.0),
    ("attention", "out"): (92.5, 83.6, 64.3, 56.8, 45.2, 62.2),
    ("norms", "out"): (87.9, 82.1, 61.4, 50.2, 39.8, 52.6),
}


def layer_rows(rates: dict[tuple[str, str], tuple[float, ...]], shift: float = 0.0) -> list[dict[str, Any]]:
    """Returns rows of every layer, by words; the norm of a layer grows with its number."""
    return [
        row(
            layer_method(kind, number, step),
            "de-en",
            rate + shift,
            1.0,
            extraction="kobayashi",
            score_mean=float(number + 1),
        )
        for (kind, step), layers in rates.items()
        for number, rate in enumerate(layers)
    ]


def gradient_rows() -> list[dict[str, Any]]:
    return [
        row(name, "de-en", 36.4, 1.0, extraction=extraction)
        for name in ("ding_smoothgrad", "li_smoothgrad")
        for extraction in ("ding", "kobayashi")
    ]


def write_aligner(folder: Path, name: str, aer: float) -> None:
    content = {
        "dataset": "deen",
        "aligner": name,
        "text": "offline",
        "size": "all",
        "pair": ["de", "en"],
        "train_pairs": 10,
        "sentences": 508,
        # One direction is compared, never both together.
        "rows": [row("attention", "de-en", aer), row("attention", "grow-diag-lilt", aer - 10)],
    }
    write_scored(folder / "scores" / "deen" / name / "offline" / "all" / "metrics.json", content)


@pytest.fixture
def released(tmp_path: Path) -> Path:
    write_model(tmp_path, "deen", "transformer", "forced", [*layer_rows(RELEASED), *gradient_rows()])
    write_aligner(tmp_path, "fast_align", 28.4)
    write_aligner(tmp_path, "ibm4", 21.0)
    return tmp_path


def verdicts(folder: Path) -> dict[str, Verdict]:
    results = read_results(Manifest.whole(folder))
    found = curves(results)
    return {verdict.claim.id: verdict for verdict in judge(results, found, shares(results, found), [])}


def curve(folder: Path, kind: str, step: str) -> Curve:
    (found,) = (
        c for c in curves(read_results(Manifest.whole(folder))) if (c.setting.kind, c.setting.step) == (kind, step)
    )
    return found


def test_the_released_run_gets_the_verdicts_of_its_numbers(released: Path) -> None:
    found = verdicts(released)
    assert list(found) == [claim.id for claim in claims_of("kobayashi2020")]
    reproduced = {"K08", "K09", "K10", "K11", "K12", "K16"}
    assert {name for name, verdict in found.items() if verdict.verdict == REPRODUCED} == reproduced
    # What norms gain is larger in the lower layers with the word read, and smaller with the word predicted.
    assert found["K13"].verdict == NOT_REPRODUCED
    assert "AWO +3.0 against +7.2" in found["K13"].numbers
    assert "AWI +9.9 against +7.8" in found["K13"].numbers
    assert found["K08"].numbers == "12 of 12 layers"
    assert found["K16"].numbers == "12 of 12 layers"
    assert found["K12"].numbers == "1 of 1 cells: deen de-en transformer 21.0 < 25.4 < 36.4"
    # Nothing about encoders, and no matrices.
    untested = {name for name, verdict in found.items() if verdict.verdict == NOT_TESTABLE}
    assert untested == {"K01", "K02", "K03", "K04", "K05", "K06", "K07", "K14", "K15"}
    assert found["K01"].reason == "no encoder was measured (encoders of the configuration)"
    assert "matrices" in found["K14"].reason


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("K08", {("norms", "in"): (99.0,) * 6, ("norms", "out"): (92.0, 82.0, 61.0, 50.0, 39.0, 62.9)}),
        (
            "K09",
            {("norms", "in"): (26.5, 30.4, 45.7, 83.8, 84.4, 84.0), ("attention", "in"): (46.2, 20.0, 50, 91, 90, 93)},
        ),
        ("K10", {("norms", "out"): (99.0, 99.0, 99.0, 99.0, 39.8, 52.6)}),
        ("K11", {("norms", "in"): (46.2, 30.5, 50, 91, 90, 93)}),
        ("K12", {("norms", "in"): (20.9, 30.5, 50, 91, 90, 93)}),
        ("K16", {("norms", "out"): (20.0, 82.1, 61.4, 50.2, 39.8, 52.6)}),
    ],
)
def test_a_claim_can_fail(released: Path, claim: str, change: dict[tuple[str, str], tuple[float, ...]]) -> None:
    rows = [*layer_rows({**RELEASED, **change}), *gradient_rows()]
    write_model(released, "deen", "transformer", "forced", rows)
    assert verdicts(released)[claim].verdict == NOT_REPRODUCED


def test_seeds_choose_their_own_layers_and_are_averaged(released: Path) -> None:
    other = {**RELEASED, ("norms", "in"): (20.0, 21.4, 45.7, 83.8, 84.4, 84.0)}
    write_model(released, "deen", "transformer", "forced", layer_rows(other), seed=2)
    found = curve(released, "norms", "in")
    assert found.chosen(BEST) == {"1": 1, "2": 0}
    best = found.estimate(BEST)
    assert (best.mean, best.seeds) == (pytest.approx((25.4 + 20.0) / 2), 2)
    assert found.means()[0] == pytest.approx((26.5 + 20.0) / 2)


def test_ways_to_choose_a_layer(released: Path) -> None:
    found = curve(released, "norms", "in")
    assert found.estimate(LARGEST).mean == 84.0  # the last one has the largest norm
    assert found.estimate(MEAN).mean == pytest.approx(sum(RELEASED["norms", "in"]) / 6)
    assert (found.estimate(ON_DEV).known, found.estimate(ON_DEV).reason) == (False, "no dev gold")
    dev = {("norms", "in"): (30.0, 31.0, 45.7, 83.8, 84.4, 84.0)}
    write_model(released, "deen", "transformer", "forced", layer_rows(dev), split="dev")
    chosen = curve(released, "norms", "in")
    assert chosen.chosen(ON_DEV) == {"1": 0}
    assert chosen.estimate(ON_DEV).mean == 26.5  # scored on the test text
    # The dev text has sentences of its own, which are not those of the table.
    assert read_results(Manifest.whole(released)).datasets[0].sentences == 508


def test_the_table_has_print_beside_ours(released: Path) -> None:
    results = read_results(Manifest.whole(released))
    (table,) = tables(results, curves(results))
    found = {(line.row, line.step, line.selection): line for line in table.lines}
    best = found["norms", "AWI", BEST]
    assert (best.text, best.released) == (28.3, 25.0)
    own, other = best.cells
    assert (own.direction, own.ours.mean, own.layers) == ("de-en", 25.4, (2,))
    assert own.difference == pytest.approx(0.4)
    assert (other.direction, other.ours.reason) == ("en-de", "no model")
    assert found["attention", "AWO", BEST].cells[0].layers == (5,)
    assert found["norms", "AWO", MEAN].cells[0].ours.mean == pytest.approx(62.3, abs=0.05)
    assert found["giza", "", ""].cells[0].difference == pytest.approx(0)
    assert found["ding_smoothgrad", "AWO", ""].cells[0].ours.mean == 36.4
    long = records([table])
    assert len(long) == 2 * len(table.lines)
    assert {entry["print_released"] is None for entry in long if entry["direction"] == "en-de"} == {True}
    beside = [entry for entry in long if entry["direction"] == "de-en"]
    assert [entry["print_text"] for entry in beside if entry["row"] in ("fast_align", "giza")] == [28.4, 21.0]
    assert shown_table3(table, results).header[3:5] == ("de-en text", "de-en released")
    assert len(layer_records(curves(results))) == 24


def test_another_text_has_no_difference(tmp_path: Path) -> None:
    write_model(tmp_path, "hansards", "transformer", "forced", [{**r, "links": "en-fr"} for r in layer_rows(RELEASED)])
    results = read_results(Manifest.whole(tmp_path))
    (table,) = tables(results, curves(results))
    assert all(np.isnan(cell.difference) for line in table.lines for cell in line.cells)
    assert not any(entry["print_text"] or entry["print_released"] for entry in records([table]))
    shown = shown_table3(table, results)
    assert not any("text" in name or "released" in name for name in shown.header)
    (told,) = (note for note in shown.notes if "German-English" in note)
    assert "weights 51.9 and 81.4; norms 28.3 and 61.6" in told
    assert "AWI: weights 29.8 and 68.5; norms 25.0 and 60.4" in told
    assert "fast_align 28.4, GIZA++ 21.0" in told


def test_gradients_are_compared_by_the_links_of_norms(released: Path) -> None:
    by_words = [{**r, "aer": 20.0} if r["extraction"] == "kobayashi" else r for r in gradient_rows()]
    write_model(released, "deen", "transformer", "forced", [*layer_rows(RELEASED), *by_words])
    found = verdicts(released)["K12"]
    assert found.verdict == NOT_REPRODUCED
    assert found.numbers.endswith("21.0 < 25.4 < 20.0")


def test_heads_whose_norm_tells_how_they_align(released: Path) -> None:
    rates = {0: (80.0, 60.0), 1: (40.0, 20.0)}  # the larger the norm, the better the head
    rows = [
        row(layer_method("norms", layer, "out", head), "de-en", rate, extraction="kobayashi", score_mean=100 - rate)
        for layer, of_layer in rates.items()
        for head, rate in enumerate(of_layer)
    ]
    write_model(released, "deen", "transformer", "forced", [*layer_rows(RELEASED), *rows])
    results = read_results(Manifest.whole(released))
    found = heads(results, curves(results))
    assert [(head.layer, head.head, head.aer) for head in found] == [
        (layer, head, rate) for layer, of_layer in rates.items() for head, rate in enumerate(of_layer)
    ]
    (related,) = correlations(found)
    assert (related.step, related.rho, related.heads, related.printed) == ("AWO", pytest.approx(-1.0), 4, 0.56)


def write_matrices(folder: Path) -> None:
    """Writes two sentences, one with a final period; norms take half of what END gets, and give it to the others."""
    shapes = np.array([(2, 3), (2, 3)])
    weights = np.array([[0.2, 0.2, 0.6], [0.1, 0.3, 0.6]], dtype=np.float32)
    norms = np.array([[3.5, 3.5, 3.0], [7.0, 7.0, 6.0]], dtype=np.float32)
    names = {layer_method("attention", 0, "out"): weights, layer_method("norms", 0, "out"): norms}
    scores = folder / "attributions" / "deen" / "transformer" / "1" / "final" / "test" / "forced" / "de-en" / "matrices"
    with MatrixWriter(scores, list(names), shapes, {}) as writer:
        for number in range(2):
            writer.write(number, names)
    pieces = folder / "pieces" / "deen"
    pieces.mkdir(parents=True)
    (pieces / "test.source").write_text("▁ja ▁.\n▁ja ▁nein\n", encoding="utf-8")


def test_what_end_and_a_final_period_get(released: Path) -> None:
    write_model(
        released, "deen", "transformer", "forced", layer_rows({key: rates[:1] for key, rates in RELEASED.items()})
    )
    write_matrices(released)
    results = read_results(Manifest.whole(released))
    found = {share.piece: share for share in shares(results, curves(results))}
    assert (found[END].weights, found[END].norms) == (pytest.approx(0.6), pytest.approx(0.3))
    assert (found[END].sentences, found[PERIOD].sentences) == (2, 1)
    assert (found[PERIOD].weights, found[PERIOD].norms) == (pytest.approx(0.25), pytest.approx(0.35))
    verdict = verdicts(released)["K14"]
    assert (verdict.verdict, verdict.numbers) == (NOT_REPRODUCED, "END 1 of 1 layers; final period 0 of 1 layers")


def test_only_transformers_are_asked_layer_by_layer() -> None:
    sizes = {"decoder_layers": 3, "heads": 2}

    def asked(architecture: str, decoding: str, dev_gold: bool = True) -> dict[str, tuple[str, ...]]:
        dataset, model = OfferedDataset("demo", True, dev_gold), OfferedModel("mine", architecture, sizes)
        offer = Offer((dataset,), (model,), (), (1,), "both", (decoding,), Protocol())
        found = requests(offer, Kobayashi2020Settings()).attributions
        assert {request.decoding for request in found} <= {"forced"}
        return {request.split: request.methods for request in found}

    assert asked("lstm", "forced") == asked("transformer", "free", dev_gold=False) == {}
    assert list(asked("transformer", "forced", dev_gold=False)) == ["test"]
    wanted = asked("transformer", "forced")["test"]
    assert len(wanted) == len(set(wanted)) == 2 * 2 * 3 * (1 + 2) + 2
    assert {"norms,layer=2,head=1,step=in", "attention,layer=0", "ding_smoothgrad"} <= set(wanted)
    assert asked("transformer", "forced")["dev"] == tuple(
        layer_method(kind, layer, step)
        for kind in ("attention", "norms")
        for step in ("out", "in")
        for layer in range(3)
    )


def run_study(*arguments: str) -> None:
    parser = argparse.ArgumentParser()
    study.configure(parser)
    study.run(parser.parse_args(["kobayashi2020", *arguments]))


def test_the_verb_writes_everything(released: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_study("--results", str(released), "--json")
    summary = json.loads(capsys.readouterr().out)
    out = released / "kobayashi2020"
    names = {path.name for path in out.iterdir()}
    made = {f"table3.{kind}" for kind in ("csv", "md", "tex", "html")} | {"layers.csv", "heads.csv", "shares.csv"}
    assert made | {"figure7-deen.svg", "figure7-deen.png", "claims.csv", "index.html", "summary.json"} <= names
    with (out / "claims.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [entry["verdict"] for entry in rows] == list(summary["verdicts"].values())
    assert summary["claims"] == {REPRODUCED: 6, NOT_REPRODUCED: 1, UNDECIDED: 0, NOT_TESTABLE: 9}
    page = (out / "index.html").read_text(encoding="utf-8")
    places = [page.index(f">{claim.id}<") for claim in claims_of("kobayashi2020")]
    assert all(first < second for first, second in pairwise(places))
    assert "http" not in page.replace("http://www.w3.org", "")
    journal = [json.loads(line) for line in (out / "study.journal.jsonl").read_text(encoding="utf-8").splitlines()]
    measured = {name for event in journal if event["event"] == "metrics" for name in event.get("values", event)}
    assert any("aer_de-en_AWI_norms_best" in name for name in measured)
