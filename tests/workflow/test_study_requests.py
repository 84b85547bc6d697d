"""A study that asks for everything there is to ask for, run for real."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from throwaway import BRIEFLY, TINY, make_workspace

pytestmark = pytest.mark.workflow
STUDY = {
    "__init__.py": '"""A toy."""\n',
    "caption.rst": "A toy.\n",
    "printed/claims.csv": "id,claim,test,pass_rule,published,print_passes,priority,where,decided_by\n"
    "T1,it is so,none,any,yes,yes,core,section 1,Table 1\n",
    "printed/exhibits.csv": "label,title,in_print,runs,absent\nTable 1,Attention,no,attribution,\n",
    "study.py": """
        from alignlens.studies.contract import Study
        from alignlens.studies.requests import AttributionRequest, ModelRequest, Requests, TextRequest


        def requests(offer, settings):
            training = {"max_updates": 20, "validate_every": 10, "snapshots": [10]}
            training["objective"] = {"name": "source_word_dropout"}
            more = {"pairs": 200, "start_from": "lstm", "directions": "forward"}
            own = ModelRequest("own", "demo_lstm", training=training, **more)
            return Requests(
                models=[own],
                texts=[TextRequest("strange", lengths="common", pairs=5, exchanged=True)],
                attributions=[
                    AttributionRequest("tiny", "own", ("attention",), weights="10"),
                    AttributionRequest("tiny", "own", ("attention",)),
                    AttributionRequest("tiny", "own", ("ding_grad",), split="strange"),
                ],
            )


        FILES = ("index.html", "claims.csv", "seen.csv", "summary.json")
        STUDY = Study("toy2024", "A toy", "A toy", "A toy.", FILES, requests=requests)
        """,
    "build.py": """
        from alignlens.io.matrices import Matrices
        from alignlens.results.paths import ATTRIBUTED
        from alignlens.studies.claims import REPRODUCED, Finding, claims_of, verdict_of
        from alignlens.studies.files import Built, write_csv


        def build(results, out):
            (claim,) = claims_of("toy2024")
            rows = []
            for path, names in results.manifest.find(ATTRIBUTED):
                matrices = Matrices.open(path)
                rows.append({**names, "methods": " ".join(matrices.names), "sentences": len(matrices)})
            write_csv(out / "seen.csv", list(rows[0]), rows)
            scored = [f"{run.model} {run.weights} {run.split}" for run in results.models]
            return Built([verdict_of(claim, Finding(REPRODUCED))], [], [], [], {"error_rates": [], "scored": scored})
        """,
}


def test_models_texts_and_weights_of_its_own(tmp_path: Path, project: Path) -> None:
    workspace = make_workspace(tmp_path / "project", project)
    for name, content in STUDY.items():
        path = workspace.folder / "src/alignlens/studies/toy2024" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(content).lstrip())
    models = {"lstm": {"preset": "demo_lstm", "training": BRIEFLY}, "transformer": None, "fconv": None}
    config = {**TINY, "models": models, "aligners": [{"name": "fast_align"}], "studies": {"toy2024": {}}}
    config["studies"] |= dict.fromkeys(TINY["studies"])
    (workspace.folder / "tiny.yaml").write_text(yaml.safe_dump(config))
    jobs = workspace.dry_run("--", "toy2024")
    assert jobs["train"] == 2  # its own, and the one that it starts from
    assert jobs["attribute"] == 3
    assert jobs["select_text"] == 1
    assert not {"measure_cost", "translate", "report"} & set(jobs)
    workspace.snakemake("--cores", "all", "--", "toy2024")
    results = workspace.results
    card = json.loads((results / "models/tiny/xa-xb/own/1/model/model.json").read_text())
    assert card["updates"] == 20
    with (results / "toy2024/seen.csv").open() as file:
        seen = {(row["weights"], row["split"]): row for row in csv.DictReader(file)}
    assert set(seen) == {("10", "test"), ("final", "test"), ("final", "strange")}
    assert {row["direction"] for row in seen.values()} == {"xa-xb"}
    assert [seen[key]["methods"] for key in seen] == ["attention", "attention", "ding_grad"]
    assert int(seen["final", "strange"]["sentences"]) <= 5
    matrices = [
        results / f"attributions/tiny/own/1/{weights}/test/forced/xa-xb/matrices" for weights in ("10", "final")
    ]
    first, last = (next(folder.glob("*.f32")).read_bytes() for folder in matrices)
    assert first != last  # ten updates more
    read, written = ((results / f"data/tiny/strange.{side}").read_text().splitlines() for side in ("source", "target"))
    pairs = list(
        zip(
            *(((results / f"data/tiny/test.{side}").read_text().splitlines()) for side in ("source", "target")),
            strict=True,
        )
    )
    assert len(read) == len(written) >= 2
    assert not set(zip(read, written, strict=True)) & set(pairs)
    assert json.loads((results / "toy2024/summary.json").read_text())["scored"] == ["own 10 test", "own final test"]
