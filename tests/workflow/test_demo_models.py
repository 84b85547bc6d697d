"""The demo's models learn the embedded corpus, so that attributions have something true to find."""

from __future__ import annotations

import json

import pytest
from throwaway import Workspace

from alignlens.alignment.pharaoh import read_links
from alignlens.metrics.causes import count_causes, read_causes

pytestmark = pytest.mark.workflow


def test_every_architecture_learns_the_harder_direction(workspace: Workspace) -> None:
    """Okaru to Velnish: the orders and fillers that Velnish may choose freely bound what can be known."""
    (workspace.folder / "tiny.yaml").write_text("{}\n")  # nothing but the demo's own configuration
    scores = [
        f"results/demo/translations/demo/xb-xa/{model}/1/forced.json" for model in ("lstm", "fconv", "transformer")
    ]
    workspace.snakemake("--cores", "all", "--", *scores)
    for path in scores:
        assert json.loads((workspace.folder / path).read_text())["accuracy"] >= 0.90, path


def test_smoothgrad_finds_the_true_causes(workspace: Workspace) -> None:
    """Which source words determined a target word is known here; a source word drawn blindly seldom is one."""
    (workspace.folder / "tiny.yaml").write_text("{}\n")
    model, data = "results/demo/models/demo/xa-xb/lstm/1/model", workspace.folder / "results/demo/data/demo"
    workspace.snakemake("--cores", "all", "--", model)
    source, target = data / "test.source", data / "test.target"
    text = ("--source", str(source), "--target", str(target), "--threads", "1")
    done = workspace.alignlens("align", "--model", model, "--method", "smoothgrad,n=10", *text, "--out", "links")
    assert done.returncode == 0, done.stderr
    counts = count_causes(read_links(workspace.folder / "links"), read_causes(data / "test.causes", source))
    assert counts.scores().words > 3000
    assert counts.interval()[0] > 2 * counts.scores().chance
