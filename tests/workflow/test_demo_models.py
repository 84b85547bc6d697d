"""The demo's models learn the embedded corpus, so that attributions have something true to find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from throwaway import Workspace, make_workspace

from alignlens.alignment.pharaoh import read_links
from alignlens.metrics.causes import count_causes, read_causes

pytestmark = pytest.mark.workflow
# Okaru to Velnish is the harder direction: Velnish may choose some orders and fillers freely. The true causes are known
# of the other one.
DIRECTIONS = {"lstm": "xa-xb", "fconv": "xb-xa", "transformer": "xb-xa"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, project: Path) -> Workspace:
    """A copy with a model of every architecture, by nothing but the demo's own configuration."""
    made = make_workspace(tmp_path_factory.mktemp("demo") / "project", project)
    (made.folder / "tiny.yaml").write_text("{}\n")
    made.snakemake("--cores", "all", "--", *(_scores(model) for model in DIRECTIONS))
    return made


def _scores(model: str) -> str:
    return f"results/demo/translations/demo/{DIRECTIONS[model]}/{model}/1/forced.json"


def test_every_architecture_learns_the_corpus(trained: Workspace) -> None:
    for model in DIRECTIONS:
        assert json.loads((trained.folder / _scores(model)).read_text())["accuracy"] >= 0.90, model


def test_smoothgrad_finds_the_true_causes(trained: Workspace) -> None:
    """Which source words determined a target word is known here; a source word drawn blindly seldom is one."""
    model, data = "results/demo/models/demo/xa-xb/lstm/1/model", trained.folder / "results/demo/data/demo"
    source, target = data / "test.source", data / "test.target"
    text = ("--source", str(source), "--target", str(target), "--threads", "1")
    done = trained.alignlens("align", "--model", model, "--method", "smoothgrad,n=10", *text, "--out", "links")
    assert done.returncode == 0, done.stderr
    counts = count_causes(read_links(trained.folder / "links"), read_causes(data / "test.causes", source))
    assert counts.scores().words > 3000
    assert counts.interval()[0] > 2 * counts.scores().chance
