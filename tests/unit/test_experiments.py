"""What MLflow shows of an experiment before its runs: descriptions and saved views, and stores that had none."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

from alignlens.tracking.experiments import EXPERIMENTS, experiment_tags
from alignlens.tracking.journal import Journal
from alignlens.tracking.store import Store

DESCRIPTION, VIEW = "mlflow.note.content", "mlflow.sharedViewState.alignlens"


def experiments_of(store: Store) -> dict[str, Any]:
    from mlflow import MlflowClient

    found = MlflowClient(tracking_uri=store.address.uri).search_experiments(filter_string="name LIKE 'alignlens/%'")
    return {experiment.name: experiment for experiment in found}


def write(path: Path, experiment: str) -> Path:
    with Journal(path) as journal:
        journal.run(experiment=experiment, name="a", identity={"preset": "demo", "experiment": experiment})
    return path


def test_every_experiment_that_a_verb_records_is_described(project: Path) -> None:
    code = "\n".join(path.read_text() for path in (project / "src/alignlens/cli").glob("*.py"))
    named = re.findall(r'(?:experiment=|"experiment": |model_run\(about, )"([^"]+)"', code)
    chosen = re.findall(r'experiment="([^"]+)" if .* else "([^"]+)"', code)
    recorded = {*named, *(name for pair in chosen for name in pair)}
    recorded.remove("cost")  # stands among the methods: "experiment": "attribution"
    assert len(recorded) > 12
    assert recorded == set(EXPERIMENTS)


def test_a_view_is_what_mlflow_itself_would_save() -> None:
    saved = json.loads(experiment_tags("train models")[VIEW])
    assert saved["name"] == "models by BLEU"
    packing, _, packed = saved["state"].partition(";")
    state = json.loads(zlib.decompress(base64.b64decode(packed)))
    assert packing == "deflate"
    assert (state["orderByKey"], state["orderByAsc"]) == ("metrics.`dev_bleu`", False)
    assert state["selectedColumns"][0] == "metrics.`dev_bleu`"
    assert state["columnOrder"] == ["attributes.`Run Name`", *state["selectedColumns"]]


def test_new_experiments_have_them_and_those_of_others_do_not(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'mlflow.db'}")
    journals = [write(tmp_path / f"{name}.journal.jsonl", name) for name in ("score", "own")]
    assert store.sync(journals).complete
    found = experiments_of(store)
    assert experiment_tags("score").items() <= found["alignlens/score"].tags.items()
    assert not {DESCRIPTION, VIEW} & found["alignlens/own"].tags.keys()


def test_a_store_of_an_older_version_gets_them_and_keeps_what_people_wrote(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    store = Store(f"sqlite:///{tmp_path / 'mlflow.db'}")
    client = MlflowClient(tracking_uri=store.address.uri)
    client.create_experiment("alignlens/score", tags={DESCRIPTION: "mine"})
    assert store.sync([write(tmp_path / "a.journal.jsonl", "score")]).complete
    tags = experiments_of(store)["alignlens/score"].tags
    assert (tags[DESCRIPTION], tags[VIEW]) == ("mine", experiment_tags("score")[VIEW])
