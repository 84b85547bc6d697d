"""The jobs that ``alignlens plan`` counts are those that Snakemake would run, rule by rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from throwaway import TINY, Workspace

from alignlens.workflow.costs.jobs import estimate
from alignlens.workflow.costs.rates import Rates
from alignlens.workflow.costs.sizes import sizes_of
from alignlens.workflow.plan import Plan
from alignlens.workflow.settings import load_settings, read_config

FOLDER = Path("config", "presets")
PRESETS = sorted(path.stem for path in (Path(__file__).parents[2] / FOLDER).glob("*.yaml"))


def planned(project: Path) -> dict[str, int]:
    config = read_config([project / "config" / "config.yaml", project / "tiny.yaml"])
    plan = Plan.of(load_settings(config, project), project / "results")
    return dict(estimate(plan, sizes_of(plan), Rates.load(project / "config")).rules())


@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        (None, {}),
        (None, TINY),
        *((preset, {}) for preset in PRESETS),
        ("hansards", {"attribution": {"shards": 3}, "directions": "forward", "seeds": [1, 2]}),
        ("multi30k", {"attribution": {"methods": ["attention"]}}),
    ],
    ids=["demo", "an aligner on a part", *PRESETS, "shards and seeds", "no gold links"],
)
def test_every_rule_has_as_many_jobs_as_planned(workspace: Workspace, preset: str | None, changes: Any) -> None:
    content = {} if preset is None else read_config([workspace.folder / FOLDER / f"{preset}.yaml"])
    (workspace.folder / "tiny.yaml").write_text(yaml.safe_dump({**content, **changes}))
    jobs = workspace.dry_run()
    assert planned(workspace.folder) == jobs
    assert {"align", "symmetrize", "report", "segment", "train"} <= set(jobs)
    # One preset is about how models learn to attend: they translate nothing but the dev text.
    learning = preset == "snell2021"
    assert ("translate" in jobs) != learning
    assert ("agreement" in jobs) == (preset is None or learning)
    # Two presets have no gold links, and so no scores and no study of links.
    scored = preset != "multi30k" and not learning
    assert ("score" in jobs) == ("ding2019_study" in jobs) == scored
    assert bool({"attribute", "attribute_shard"} & set(jobs)) == (scored or "attribution" in changes)
