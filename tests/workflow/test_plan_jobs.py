"""The jobs that ``alignlens plan`` counts are those that Snakemake would run, rule by rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from marian_configs import write_configs
from throwaway import TINY, Workspace

from alignlens.workflow.costs.jobs import estimate
from alignlens.workflow.costs.rates import Rates
from alignlens.workflow.costs.sizes import sizes_of
from alignlens.workflow.plan import Plan
from alignlens.workflow.settings import load_settings, read_config

FOLDER = Path("config", "presets")
PRESETS = sorted(path.stem for path in (Path(__file__).parents[2] / FOLDER).glob("*.yaml"))
#: Presets with the models of one study alone.
LEARNING = ("snell2021", "voita2020", "paper-voita2020")
#: Presets whose models are all from elsewhere.
FOREIGN = ("opus-hansards",)


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
    if preset in FOREIGN:
        folders = write_configs(workspace.folder / "opus", "en-fr", "fr-en")
        content["models"]["opus"]["huggingface"] = folders
    (workspace.folder / "tiny.yaml").write_text(yaml.safe_dump({**content, **changes}))
    jobs = workspace.dry_run()
    assert planned(workspace.folder) == jobs
    assert {"align", "symmetrize", "report", "segment"} <= set(jobs)
    assert ("train" not in jobs) == ("import_model" in jobs) == (preset in FOREIGN)
    # Some presets are about how models learn: their models are not asked to translate the test text.
    learning = preset in LEARNING
    assert ("translate" in jobs) != learning
    assert ("agreement" in jobs) == (preset in (None, "snell2021"))
    assert ("trajectory" in jobs) == (preset is None or learning)
    # Some have no gold links, and so no scores.
    gold = preset not in ("multi30k", "snell2021", "paper-voita2020", "lu2021", "paper-lu2021")
    assert ("score" in jobs) == gold
    assert ("ding2019_study" in jobs) == (gold and not learning)
    calibrated = preset in (None, "lu2021", "paper-lu2021")
    assert {name in jobs for name in ("calibration", "compare_bleu", "lu2021_study")} == {calibrated}
    asked = gold or "attribution" in changes or "voita2020_study" in jobs or calibrated
    assert bool({"attribute", "attribute_shard"} & set(jobs)) == asked
