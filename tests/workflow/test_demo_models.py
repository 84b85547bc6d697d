"""The demo's models learn the embedded corpus, so that attributions have something true to find."""

from __future__ import annotations

import json

import pytest
from throwaway import Workspace

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
