# The configuration, checked before anything else, and the names that rules share.
import json
import os
import sys
from pathlib import Path

PROJECT = Path(workflow.basedir)
sys.path.insert(0, str(PROJECT / "src"))

from alignlens.cli.main import exit_on_error
from alignlens.code_version import code_version
from alignlens.environment import step_environment
from alignlens.io.locks import release_stale_locks
from alignlens.plan import SIDES, SPLITS, Plan
from alignlens.settings import load_settings

with exit_on_error("config"):
    plan = Plan.of(load_settings(config, PROJECT))
    os.environ.update(step_environment(plan.settings, PROJECT))

if workflow.is_main_process:
    release_stale_locks(Path.cwd())

ROOT = str(plan.root)
RUN = "{dataset}/{aligner}/{text}/{size}"


wildcard_constraints:
    dataset="|".join(dataset.name for dataset in plan.settings.datasets),
    split="|".join(SPLITS),
    side="|".join(SIDES),
    aligner="[a-z0-9_]+",
    text="offline|online",
    size="all|[0-9]+",
    direction="|".join(name for dataset in plan.settings.datasets for name in plan.directions(dataset.name)),


def text_of(split):
    """Returns the two sides of a split of the wildcard's dataset."""
    return {side: f"{ROOT}/data/{{dataset}}/{split}.{side}" for side in SIDES}


def links_of(place):
    """Returns an input function for the links of one direction of the wildcards' aligner run."""
    return lambda wildcards: f"{ROOT}/links/{RUN}/{plan.directions(wildcards.dataset)[place]}.pharaoh"


def about(wildcards, **more):
    """Returns what a job is, for its journal."""
    return json.dumps({"preset": plan.settings.preset, **dict(wildcards.items()), **more}, sort_keys=True)
