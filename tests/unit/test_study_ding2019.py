"""The study of Ding et al. 2019, fed with the paper's own numbers: what holds in print must hold here, no more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from ding2019_results import ARCHITECTURES, row, verdicts, write_model, write_printed

from alignlens.errors import InputError
from alignlens.results.manifest import Manifest
from alignlens.results.paths import FORCED, FREE
from alignlens.results.protocol import Protocol, published_pair
from alignlens.results.reader import read_results
from alignlens.studies.claims import NOT_REPRODUCED, NOT_TESTABLE, REPRODUCED, claims_of
from alignlens.studies.ding2019.claims import judge
from alignlens.studies.ding2019.runs import methods
from alignlens.studies.ding2019.shown.tables import study_table
from alignlens.studies.ding2019.study import Ding2019Settings
from alignlens.studies.ding2019.tables import entropy_table, error_table, variants_table
from alignlens.studies.shown import claims_table
from alignlens.studies.tables import LONG_COLUMNS, long_form

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.results.scores import Results

IN_PRINT = {"yes": REPRODUCED, "no": NOT_REPRODUCED, "not testable from print": NOT_TESTABLE}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return read_results(Manifest.whole(write_printed(tmp_path_factory.mktemp("printed"))))


# ---- claims --------------------------------------------------------------------------------------------------


def test_every_claim_gets_the_verdict_of_the_printed_numbers(printed: Results) -> None:
    found = verdicts(printed)
    assert list(found) == [f"D{number:02d}" for number in range(1, 24)]
    assert {name: verdict.verdict for name, verdict in found.items()} == {
        claim.id: IN_PRINT[claim.print_passes] for claim in claims_of("ding2019")
    }
    assert [name for name, verdict in found.items() if verdict.verdict == NOT_REPRODUCED] == ["D12", "D15", "D20"]


@pytest.mark.parametrize(
    ("claim", "numbers"),
    [
        ("D01", "27 of 27 cells"),
        ("D02", "18 of 18 cells"),
        ("D03", "6 of 9 cells"),
        ("D04", "18 of 18 cells"),
        ("D05", "Transformer +26.6, LSTM +4.7, FConv -4.6"),
        ("D08", "mean 11.5, smallest 2.6, largest 22.8"),
        ("D09", "22 of 27 cells, 1 within noise"),  # two equal numbers in print
        ("D10", "18 of 18 cells"),
        ("D11", "3 of 9 cells; mean absolute gap 1.1"),
        ("D12", "8 of 9 columns"),  # print has 7: Zenkel et al. cannot be run
        ("D13", "online: 7 of 9 cells"),
        ("D13", "offline: 6 of 9 cells"),
        ("D14", "+8.7 on roen bidir"),
        ("D15", "8 of 9 columns"),
        ("D16", "41 of 54 cells"),
        ("D17", "99 of 108 cells"),
        ("D18", "6 of 6 rows"),
        ("D19", "15 of 15 cells"),
        ("D20", "3 of 4 comparisons"),
    ],
)
def test_the_counts_are_those_of_the_paper(printed: Results, claim: str, numbers: str) -> None:
    assert numbers in verdicts(printed)[claim].numbers


def test_failures_and_datasets_are_named(printed: Results) -> None:
    found = verdicts(printed)
    assert "deen bidir" in found["D15"].numbers
    assert found["D15"].by_dataset == "deen: 2 held, 1 failed; hansards: 3 held; roen: 3 held"
    assert "do not pass this rule either" in found["D15"].reason
    assert "IBM4" in found["D12"].reason


def test_what_is_missing_makes_a_claim_untestable(tmp_path: Path) -> None:
    found = verdicts(
        read_results(Manifest.whole(write_printed(tmp_path, architectures=["transformer"], aligners=False)))
    )
    assert found["D01"].verdict == REPRODUCED
    assert found["D01"].numbers == "9 of 9 cells"
    for claim, reason in {
        "D03": "no FConv model",
        "D04": "no LSTM model",
        "D10": "no FConv and no LSTM model",
        "D12": "ibm4 offline and fast_align offline were not run",
        "D15": "no FConv and no LSTM model",
        "D22": "li_grad,reading=abs_dot was not run",
    }.items():
        assert (found[claim].verdict, found[claim].reason) == (NOT_TESTABLE, reason)


def test_without_free_decoding_its_claims_are_untestable(tmp_path: Path) -> None:
    write_model(
        tmp_path, "deen", "lstm", "forced", [row("attention", "de-en", 40.0), row("ding_smoothgrad", "de-en", 30)]
    )
    found = verdicts(read_results(Manifest.whole(tmp_path)))
    assert {found[claim].reason for claim in ("D02", "D07", "D17")} == {"no free decoding"}
    assert found["D01"].numbers == "1 of 1 cells; 2 without numbers"


def test_an_empty_folder_has_no_verdicts(tmp_path: Path) -> None:
    found = judge(read_results(Manifest.whole(tmp_path)))
    assert {(verdict.verdict, verdict.reason) for verdict in found} == {(NOT_TESTABLE, "no attributed models")}


@pytest.mark.parametrize(("at_strong_noise", "verdict"), [(45.0, REPRODUCED), (35.0, NOT_REPRODUCED)])
def test_middle_noise_must_beat_none_and_much(tmp_path: Path, at_strong_noise: float, verdict: str) -> None:
    levels = {"ding_grad": 70.0, "ding_smoothgrad,sigma=0.05": 30.0, "ding_smoothgrad": 40.0}
    rows = [
        row(method, "de-en", aer) for method, aer in {**levels, "ding_smoothgrad,sigma=0.3": at_strong_noise}.items()
    ]
    write_model(tmp_path, "deen", "transformer", "forced", rows)
    found = verdicts(read_results(Manifest.whole(tmp_path)))["D21"]
    assert found.verdict == verdict
    assert "also below sigma 0.05: 0 of 1 models" in found.reason


def test_the_sign_is_judged_under_the_same_noise(tmp_path: Path) -> None:
    # Over all noise seeds signed saliency is worse (mean 40), under the noise of the unsigned one it is better.
    smooth = [row(f"ding_smoothgrad,seed={seed}", "de-en", aer) for seed, aer in ((1, 20.0), (2, 50.0), (3, 50.0))]
    plain = [row("ding_grad", "de-en", 20.0), row("li_grad,reading=abs_dot", "de-en", 30.0)]
    rows = [*smooth, *plain, row("li_smoothgrad,reading=abs_dot", "de-en", 30.0)]
    write_model(tmp_path, "deen", "transformer", "forced", rows)
    found = verdicts(read_results(Manifest.whole(tmp_path)))["D22"]
    assert (found.verdict, found.reason) == (REPRODUCED, "Grad 1 of 1, SmoothGrad 1 of 1")


# ---- tables --------------------------------------------------------------------------------------------------


def test_the_tables_agree_with_print(printed: Results) -> None:
    for dataset in printed.datasets:
        tables = [error_table(printed, dataset, "forced"), error_table(printed, dataset, "free")]
        tables.append(entropy_table(printed, dataset))
        records = long_form(tables)
        known = [record for record in records if record["published"] is not None and record["ours"] is not None]
        assert {record["difference"] for record in known} == {0.0}
        by_table = {name: sum(record["table"] == name for record in known) for name in ("1", "2", "3")}
        # 18 rows of models and 3 of aligners in three columns; 18 rows in two; 6 rows of 5 settings.
        assert by_table == {"1": 63, "2": 36, "3": 30 if dataset.name == "deen" else 0}
        assert tuple(records[0]) == LONG_COLUMNS


def test_cells_tell_stars_quotes_and_what_is_not_ours(printed: Results) -> None:
    table = error_table(printed, printed.datasets[0], "forced")
    shown = study_table(table, printed)
    assert shown.header[:6] == ("architecture", "method", "de-en print", "de-en ours", "de-en CI", "de-en Δ")
    rows = {(cells[0].text, cells[1].text): cells for cells in shown.rows}
    smooth = rows["Transformer", "Ding et al., SmoothGrad"]
    assert [cell.text for cell in smooth[2:6]] == ["36.4*", "36.4", "34.9–37.9", "0.0"]
    assert smooth[5].strong
    zenkel = rows["aligners", "Zenkel et al. 2019"]
    assert [cell.text for cell in zenkel[2:6]] == ["26.6", "not run", "–", "–"]
    assert zenkel[2].muted
    assert rows["aligners", "eflomal"][3].text == "not run"
    final = rows["aligners", "fast_align, offline, with final"]
    assert [final[k].text for k in (3, 10, 11)] == ["as above", "27.7", "not run"]


def test_a_missing_architecture_keeps_its_rows(tmp_path: Path) -> None:
    results = read_results(
        Manifest.whole(write_printed(tmp_path, architectures=["lstm"], aligners=False, datasets=["roen"]))
    )
    records = long_form([error_table(results, results.datasets[0], "forced")])
    reasons = {record["architecture"]: record["reason"] for record in records if record["column"] == "bidir"}
    assert reasons["fconv"] == reasons["transformer"] == "no model"
    assert reasons["lstm"] == ""
    assert all(record["published"] is not None for record in records if record["architecture"] == "fconv")


def test_means_and_spread_over_model_and_noise_seeds(tmp_path: Path) -> None:
    for seed, first, second in ((1, 10.0, 12.0), (2, 20.0, 22.0)):
        rows = [row("ding_smoothgrad", "de-en", first), row("ding_smoothgrad,seed=2", "de-en", second)]
        write_model(tmp_path, "deen", "lstm", "forced", rows, seed)
    results = read_results(Manifest.whole(tmp_path))
    table = error_table(results, results.datasets[0], "forced")
    record = next(record for record in long_form([table]) if record["ours"] is not None)
    assert (record["ours"], record["seeds"]) == (16.0, 4)
    assert record["spread"] == pytest.approx(np.std([10, 12, 20, 22], ddof=1), abs=1e-4)
    assert (record["low"], record["high"]) == (14.5, 17.5)
    notes = " ".join(study_table(table, results).notes)
    assert "2 model seeds and 2 noise seeds" in notes


def test_only_the_paper_s_test_sets_are_compared_with_print() -> None:
    assert published_pair(("de", "en"), 508) == published_pair(("en", "de"), 508) == "de<>en"
    assert published_pair(("en", "fr"), 447) == "fr<>en"
    assert published_pair(("de", "en"), 1000) is None  # captions, not Europarl
    assert published_pair(("xa", "xb"), 300) is None


def test_a_dataset_without_counterpart_has_no_columns_of_print(tmp_path: Path) -> None:
    write_model(tmp_path, "demo", "lstm", "forced", [row("attention", "xa-xb", 20.0)])
    results = read_results(Manifest.whole(tmp_path))
    shown = study_table(error_table(results, results.datasets[0], "forced"), results)
    attention = next(cells for cells in shown.rows if [cells[0].text, cells[1].text] == ["LSTM", "attention"])
    assert shown.header[2:4] == ("xa-xb ours", "xa-xb CI")
    assert [cell.text for cell in attention[2:]] == ["20.0", "18.5–21.5", "not run", "–", "one direction only", "–"]
    entropies = study_table(entropy_table(results, results.datasets[0]), results)
    assert entropies.header == ("architecture", "decoding", "attention", "σ=0", "σ=0.05", "σ=0.15", "σ=0.3")
    assert any("no numbers for this text" in note for note in shown.notes)


def test_variants_differ_from_the_row_they_vary_under_the_same_noise(tmp_path: Path) -> None:
    rows = [row("ding_smoothgrad", "de-en", 30.0), row("ding_smoothgrad,seed=2", "de-en", 90.0)]
    rows += [row("ding_smoothgrad,order=mean_then_clip", "de-en", 33.0)]
    rows += [row("ding_smoothgrad", "de-en", 27.0, extraction="kobayashi")]
    rows += [row("ding_smoothgrad,gradient=true", "de-en", 29.0)]
    write_model(tmp_path, "deen", "fconv", "forced", rows)
    results = read_results(Manifest.whole(tmp_path))
    records = long_form([variants_table(results, results.datasets[0])])
    found = {record["method"]: record["difference"] for record in records if record["ours"] is not None}
    assert found == {
        "ding_smoothgrad,order=mean_then_clip": 3.0,
        "ding_smoothgrad.kobayashi": -3.0,
        "ding_smoothgrad,gradient=true": -1.0,
    }


def test_the_noise_of_the_tables_is_that_of_the_manifest(tmp_path: Path) -> None:
    """However many rows have another one."""
    rows = [row("smoothed_attention,sigma=0.1,n=4", "de-en", 30.0), row("ding_smoothgrad,sigma=0.1,n=4", "de-en", 20.0)]
    rows += [row(f"smoothed_attention,n=100,seed={seed}", "de-en", 50.0) for seed in range(2, 9)]
    write_model(tmp_path, "deen", "lstm", "forced", rows)
    results = read_results(Manifest.whole(tmp_path, Protocol(0.1, 4)))
    records = long_form([error_table(results, results.datasets[0], "forced")])
    ours = {(record["method"], record["ours"]) for record in records if record["ours"] is not None}
    assert ours == {("smoothed_attention,sigma=0.1,n=4", 30.0), ("ding_smoothgrad,sigma=0.1,n=4", 20.0)}


def test_damaged_scores_are_refused_by_name(tmp_path: Path) -> None:
    write_printed(tmp_path, architectures=["lstm"], aligners=False, datasets=["deen"])
    path = tmp_path / "attributions" / "deen" / "lstm" / "1" / "final" / "test" / "forced" / "metrics.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["architecture"]
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InputError, match=r"lstm/1/final/test/forced/metrics.json: 'architecture' is missing"):
        read_results(Manifest.whole(tmp_path))
    path.write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="not JSON"):
        read_results(Manifest.whole(tmp_path))


# ---- what must be run ----------------------------------------------------------------------------------------


def asked(architecture: str, decoding: str = FORCED) -> tuple[str, ...]:
    return methods(architecture, Ding2019Settings(), Protocol(), decoding)


def test_the_methods_of_the_study_are_canonical_and_complete() -> None:
    found = asked("transformer")
    assert len(found) == len(set(found))
    assert found[:6] == error_names()
    assert not any("sigma=0.15" in name or "n=30" in name or "seed=1" in name for name in found)
    assert {"li_grad,reading=abs_dot", "ding_smoothgrad,order=mean_then_clip", "ding_smoothgrad,sigma=0.05"} <= set(
        found
    )
    assert {"ding_smoothgrad,n=1", "ding_smoothgrad,seed=3", "ding_grad,label=runner_up"} <= set(found)
    assert not any("gradient=true" in name for name in found)
    fconv = set(asked("fconv")) - set(found)
    assert fconv == {"ding_grad,gradient=true", "ding_smoothgrad,gradient=true"}
    free = set(asked("transformer", decoding=FREE))
    assert free < set(found)
    assert not any("runner_up" in name or ",n=" in name for name in free)


def error_names() -> tuple[str, ...]:
    return ("attention", "smoothed_attention", "li_grad", "li_smoothgrad", "ding_grad", "ding_smoothgrad")


def test_other_noise_is_spelt_out() -> None:
    settings = Ding2019Settings(sigmas=(0.1,), samples_curve=(4,), noise_seeds=(1,))
    found = methods("lstm", settings, Protocol(0.1, 4), FORCED)
    assert "ding_smoothgrad,sigma=0.1,n=4" in found
    assert sum(name.startswith("ding_smoothgrad") for name in found) == 2  # the second in the other order


def test_the_table_of_claims_has_a_row_for_each(printed: Results) -> None:
    shown = claims_table("ding2019", judge(printed))
    assert [cells[0].text for cells in shown.rows] == [claim.id for claim in claims_of("ding2019")]
    assert set(ARCHITECTURES) == {"fconv", "lstm", "transformer"}
