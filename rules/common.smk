# The configuration, checked before anything else, and the names that rules share.
import json
import os
import sys
from pathlib import Path

PROJECT = Path(workflow.basedir)
sys.path.insert(0, str(PROJECT / "src"))

from alignlens.cli.main import exit_on_error
from alignlens.code_version import code_version, commit_of
from alignlens.io.locks import release_stale_locks
from alignlens.plan import SIDES, SPLITS, Plan
from alignlens.settings import load_settings
from alignlens.tracking.address import resolve_address

with exit_on_error("config"):
    plan = Plan.of(load_settings(config, PROJECT))
    TRACKING_URI = resolve_address(plan.settings.tracking_uri, Path("results")).uri

# Steps run the code of this checkout with the Python that runs Snakemake, whether or not it is on the path.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PROJECT / "src"), os.environ.get("PYTHONPATH")]))
# Not parameters of rules: where runs are shown, and where data comes from, changes no result.
os.environ["MLFLOW_TRACKING_URI"] = TRACKING_URI
os.environ["ALIGNLENS_COMMIT"] = commit_of(PROJECT)
if plan.settings.mirror:
    os.environ["ALIGNLENS_MIRROR"] = plan.settings.mirror

if workflow.is_main_process:
    release_stale_locks(Path.cwd())

ROOT = str(plan.root)
RUN = "{dataset}/{aligner}/{text}/{size}"


wildcard_constraints:
    dataset="|".join(dataset.name for dataset in plan.settings.datasets),
    split="train|dev|test",
    side="source|target",
    aligner="[a-z0-9_]+",
    text="offline|online",
    size="all|[0-9]+",
    direction="|".join(name for dataset in plan.settings.datasets for name in plan.directions(dataset.name)),


def text_of(split):
    """Returns the two sides of a split of the wildcard's dataset."""
    return {side: f"{ROOT}/data/{{dataset}}/{split}.{side}" for side in ("source", "target")}


def about(wildcards, **more):
    """Returns what a job is, for its journal."""
    return json.dumps({"preset": plan.settings.preset, **dict(wildcards.items()), **more}, sort_keys=True)
