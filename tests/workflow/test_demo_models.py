"""The demo's models learn the embedded corpus, so that attributions have something true to find."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch
from throwaway import Workspace, make_workspace

from alignlens.alignment.pharaoh import read_links
from alignlens.metrics.causes import count_causes, read_causes
from alignlens.models.checkpoint import load_tensors

pytestmark = pytest.mark.workflow
# Whose causes are looked for is trained as the demo does it; half of that is enough to see that the others learn.
UPDATES = {"lstm": 1800, "fconv": 1400, "transformer": 1900}
MASKS = "results/demo/models/demo/xa-xb/transformer/1/masks"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, project: Path) -> Workspace:
    """A copy with a model of every architecture, by the demo's own configuration but for the length of training."""
    models = {name: {"preset": f"demo_{name}", "training": {"max_updates": count}} for name, count in UPDATES.items()}
    made = make_workspace(tmp_path_factory.mktemp("demo") / "project", project, {"models": models})
    made.snakemake("--cores", "all", "--", *(_scores(model) for model in UPDATES), MASKS)
    return made


def _scores(model: str) -> str:
    return f"results/demo/translations/demo/xa-xb/{model}/1/forced.json"


def test_every_architecture_learns_the_corpus(trained: Workspace) -> None:
    for model in UPDATES:
        assert json.loads((trained.folder / _scores(model)).read_text())["accuracy"] >= 0.92, model


def test_mask_nets_learn_what_hurts_and_leave_the_model_alone(trained: Workspace) -> None:
    """On the dev text; the same masks in random order hurt less."""
    last = list(csv.DictReader((trained.folder / MASKS / "curves.csv").open()))[-1]
    clean, perturbed, by_luck = (float(last[f"dev_{name}_loss"]) for name in ("clean", "perturbed", "shuffled"))
    assert 0.5 < float(last["dev_mask"]) < 0.98
    assert perturbed > clean + 1
    assert perturbed > by_luck + 0.5
    kept = load_tensors(trained.folder / MASKS / "weights.safetensors")[0]
    model = load_tensors(trained.folder / MASKS / "../model/weights.safetensors")[0]
    assert all(torch.equal(kept[name], tensor) for name, tensor in model.items())


@pytest.mark.parametrize(
    ("model", "method"),
    [("lstm", "smoothgrad,n=10"), ("lstm", "lrp"), ("fconv", "lrp"), ("transformer", "lrp"), ("transformer", "mask")],
)
def test_true_causes_are_found(trained: Workspace, model: str, method: str) -> None:
    """Which source words determined a target word is known here; a source word picked at random rarely is one."""
    folder, data = f"results/demo/models/demo/xa-xb/{model}/1/model", trained.folder / "results/demo/data/demo"
    source, target = data / "test.source", data / "test.target"
    text = ("--source", str(source), "--target", str(target), "--threads", "1")
    links = f"{model}.{method}.links"
    done = trained.alignlens("align", "--model", folder, "--method", method, *text, "--out", links)
    assert done.returncode == 0, done.stderr
    counts = count_causes(read_links(trained.folder / links), read_causes(data / "test.causes", source))
    assert counts.scores().words > 3000
    assert counts.interval()[0] > 2 * counts.scores().chance
