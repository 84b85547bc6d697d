"""A study that asks for calibration and for BLEU against a baseline, run for real."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from throwaway import TINY, Workspace, environment, make_workspace

from alignlens.metrics.calibration import CalibrationSums

pytestmark = pytest.mark.workflow
STUDY = {
    "__init__.py": '"""A toy."""\n',
    "caption.rst": "A toy.\n",
    "printed/claims.csv": "id,claim,test,pass_rule,published,print_passes,priority,where,decided_by\n"
    "T1,it is so,none,any,yes,yes,core,section 1,Table 1\n",
    "printed/exhibits.csv": "label,title,in_print,runs,absent\nTable 1,Attention,no,attribution,\n",
    "study.py": """
        from alignlens.studies.contract import Study
        from alignlens.studies.requests import (
            CalibrationRequest, ComparisonRequest, ModelRequest, Requests, TextRequest
        )


        def requests(offer, settings):
            training = {"max_updates": 20, "validate_every": 10}
            made = {"training": training, "directions": "forward"}
            return Requests(
                models=[
                    ModelRequest("gate", "demo_calibrated", seeds=(1, 2), **made),
                    ModelRequest("base", "demo_transformer", seeds=(2, 1), **made),
                ],
                texts=[TextRequest("few", of="dev", pairs=5)],
                calibrations=[
                    CalibrationRequest("tiny", "gate"),
                    CalibrationRequest("tiny", "base", split="few", seeds=(1,)),
                ],
                comparisons=[ComparisonRequest("gate_or_not", "tiny", ("gate",), "base")],
            )


        FILES = ("index.html", "claims.csv", "seen.json", "summary.json")
        STUDY = Study("toy2024", "A toy", "A toy", "A toy.", FILES, requests=requests, needs_gold=False)
        """,
    "build.py": """
        import json

        from alignlens.io.atomic import write_json
        from alignlens.metrics.calibration import CalibrationSums
        from alignlens.results.paths import BLEU, CALIBRATION, CALIBRATION_SENTENCES, COMPARISON, PREPARED
        from alignlens.studies.claims import REPRODUCED, Finding, claims_of, verdict_of
        from alignlens.studies.files import Built


        def build(results, out):
            (claim,) = claims_of("toy2024")
            find = results.manifest.find
            seen = {
                "calibrations": [[*names.values()] for path, names in find(CALIBRATION)],
                "steps": [json.loads(path.read_text())["steps"] for path, names in find(CALIBRATION)],
                "sentences": [len(CalibrationSums.load(path).sentences) for path, _ in find(CALIBRATION_SENTENCES)],
                "comparisons": [json.loads(path.read_text()) for path, names in find(COMPARISON)],
                "bleu": [[names["model"], names["seed"]] for path, names in find(BLEU)],
                "prepared": [names["dataset"] for path, names in find(PREPARED)],
            }
            write_json(out / "seen.json", seen)
            return Built([verdict_of(claim, Finding(REPRODUCED))], [], [], [], {"error_rates": []})
        """,
}


def planned(workspace: Workspace) -> dict[str, int]:
    """The jobs that ``alignlens plan`` counts, by the code of the copy, which knows the study."""
    command = [sys.executable, "-m", "alignlens", "plan", "--configfile", "tiny.yaml", "--json"]
    told = {**environment(), "PYTHONPATH": str(workspace.folder / "src")}
    done = subprocess.run(command, cwd=workspace.folder, env=told, capture_output=True, text=True, check=True)
    rules: dict[str, int] = json.loads(done.stdout)["cost"]["rules"]
    return rules


def test_calibration_and_comparisons_of_a_study(tmp_path: Path, project: Path) -> None:
    workspace = make_workspace(tmp_path / "project", project)
    for name, content in STUDY.items():
        path = workspace.folder / "src/alignlens/studies/toy2024" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(content).lstrip())
    models = {"lstm": None, "transformer": None, "fconv": None}
    config = {**TINY, "models": models, "aligners": [{"name": "fast_align"}], "studies": {"toy2024": {}}}
    config["studies"] |= dict.fromkeys(TINY["studies"])
    (workspace.folder / "tiny.yaml").write_text(yaml.safe_dump(config))
    jobs = workspace.dry_run("--", "toy2024")
    assert (jobs["train"], jobs["calibration"], jobs["compare_bleu"], jobs["translate"]) == (4, 3, 1, 4)
    assert (jobs["score_bleu"], jobs["select_text"]) == (4, 1)
    assert "attribute" not in jobs
    assert planned(workspace) == workspace.dry_run()
    workspace.snakemake("--cores", "all", "--", "toy2024")
    results = workspace.results
    seen = json.loads((results / "toy2024/seen.json").read_text())
    assert seen["calibrations"] == [
        ["tiny", "xa-xb", "gate", "1", "test"],
        ["tiny", "xa-xb", "gate", "2", "test"],
        ["tiny", "xa-xb", "base", "1", "few"],
    ]
    assert seen["sentences"] == [30, 30, 5]
    assert seen["steps"][0] == seen["steps"][1] > 60
    assert sorted(map(tuple, seen["bleu"])) == [(model, seed) for model in ("base", "gate") for seed in "12"]
    assert seen["prepared"] == ["tiny"]
    (compared,) = seen["comparisons"]
    assert compared["baseline"] == "base"
    assert compared["comparison"] == "gate_or_not"
    assert [system["system"] for system in compared["systems"]] == ["gate", "base"]
    folders = [[Path(row["translation"]).parent.name for row in system["seeds"]] for system in compared["systems"]]
    assert folders == [["1", "2"], ["1", "2"]]
    bleu = json.loads((results / "translations/tiny/xa-xb/gate/2/bleu.json").read_text())
    assert compared["systems"][0]["seeds"][1]["bleu"] == pytest.approx(bleu["bleu"])
    assert "|tok:none|" in compared["signature"]
    assert "|tok:none|" in bleu["signature"]
    content = json.loads((results / "calibration/tiny/xa-xb/gate/1/test.json").read_text())
    sums = CalibrationSums.load(results / "calibration/tiny/xa-xb/gate/1/test.npz")
    assert content["quantities"]["jsd"]["mean"] == pytest.approx(sums.means()["jsd"].tolist())
    assert content["interval"]["samples"] == 100
    assert not any(workspace.dry_run("--", "toy2024").get(rule) for rule in ("calibration", "compare_bleu"))
