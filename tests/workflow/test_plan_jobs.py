"""The jobs that ``alignlens plan`` counts are those that Snakemake would run, rule by rule."""

from __future__ import annotations

import re
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

PRESETS = Path("config", "presets")


def planned(project: Path) -> dict[str, int]:
    config = read_config([project / "config" / "config.yaml", project / "tiny.yaml"])
    plan = Plan.of(load_settings(config, project), project / "results")
    return dict(estimate(plan, sizes_of(plan), Rates.load(project / "config")).rules())


def counted(workspace: Workspace) -> dict[str, int]:
    told = workspace.snakemake("--dry-run", "--cores", "1").stdout
    table = told[told.index("Job stats:") : told.index("\ntotal ")]
    return {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", table, re.MULTILINE)}


@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        (None, {}),
        (None, TINY),
        ("hansards", {}),
        ("hansards", {"attribution": {"shards": 3}, "directions": "forward", "seeds": [1, 2]}),
        ("paper", {}),
        ("multi30k", {"attribution": {"methods": ["attention"]}}),
    ],
    ids=["demo", "an aligner on a part", "hansards", "shards and seeds", "paper", "no gold links"],
)
def test_every_rule_has_as_many_jobs_as_planned(workspace: Workspace, preset: str | None, changes: Any) -> None:
    content = {} if preset is None else read_config([workspace.folder / PRESETS / f"{preset}.yaml"])
    (workspace.folder / "tiny.yaml").write_text(yaml.safe_dump({**content, **changes}))
    # The target of all others is no work, and not planned as such.
    assert {**planned(workspace.folder), "all": 1} == counted(workspace)
