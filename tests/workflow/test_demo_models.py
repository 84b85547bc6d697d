"""The demo's models learn the embedded corpus, so that attributions have something true to find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from throwaway import Workspace, make_workspace

from alignlens.alignment.pharaoh import read_links
from alignlens.metrics.causes import count_causes, read_causes

pytestmark = pytest.mark.workflow
# Whose causes are looked for is trained as the demo does it; half of that is enough to see that the others learn.
UPDATES = {"lstm": 1800, "fconv": 1400, "transformer": 1900}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, project: Path) -> Workspace:
    """A copy with a model of every architecture, by the demo's own configuration but for the length of training."""
    models = {name: {"preset": f"demo_{name}", "training": {"max_updates": count}} for name, count in UPDATES.items()}
    made = make_workspace(tmp_path_factory.mktemp("demo") / "project", project, {"models": models})
    made.snakemake("--cores", "all", "--", *(_scores(model) for model in UPDATES))
    return made


def _scores(model: str) -> str:
    return f"results/demo/translations/demo/xa-xb/{model}/1/forced.json"


def test_every_architecture_learns_the_corpus(trained: Workspace) -> None:
    for model in UPDATES:
        assert json.loads((trained.folder / _scores(model)).read_text())["accuracy"] >= 0.92, model


@pytest.mark.parametrize(
    ("model", "method"), [("lstm", "smoothgrad,n=10"), ("lstm", "lrp"), ("fconv", "lrp"), ("transformer", "lrp")]
)
def test_true_causes_are_found(trained: Workspace, model: str, method: str) -> None:
    """Which source words determined a target word is known here; a source word drawn blindly seldom is one."""
    folder, data = f"results/demo/models/demo/xa-xb/{model}/1/model", trained.folder / "results/demo/data/demo"
    source, target = data / "test.source", data / "test.target"
    text = ("--source", str(source), "--target", str(target), "--threads", "1")
    links = f"{model}.{method}.links"
    done = trained.alignlens("align", "--model", folder, "--method", method, *text, "--out", links)
    assert done.returncode == 0, done.stderr
    counts = count_causes(read_links(trained.folder / links), read_causes(data / "test.causes", source))
    assert counts.scores().words > 3000
    assert counts.interval()[0] > 2 * counts.scores().chance
