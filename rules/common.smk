# The configuration, checked before anything else, and the names that rules share.
import json
import os
import re
import sys
from pathlib import Path

PROJECT = Path(workflow.basedir)
sys.path.insert(0, str(PROJECT / "src"))

from alignlens.cli.main import exit_on_error
from alignlens.workflow.code_version import code_version
from alignlens.workflow.environment import step_environment
from alignlens.io.locks import release_stale_locks
from alignlens.io.typed import written
from alignlens.workflow.orphans import cancel_orphans, told
from alignlens.workflow.plan import SIDES, SPLITS, Plan
from alignlens.workflow.settings import load_settings, read_config
from alignlens.studies.registry import study_of

with exit_on_error("config"):
    # Snakemake has read these files itself, and not as strictly: of a key that stands there twice it took the last.
    read_config([path for path in map(Path, workflow.configfiles) if path.is_file()])
    plan = Plan.of(load_settings(config, PROJECT))
    os.environ.update(step_environment(plan.settings, PROJECT))


def option(name, value):
    """Returns an option with its value as a list of words for {params.x:q}; without a value, no words.

    Whatever a rule passes to a shell is quoted. Name and value are one word, so that no value is taken for an option.
    """
    # argparse of Python 3.11 drops a value that is "--".
    return [] if value is None else [f"{name}=./--" if value == "--" else f"{name}={value}"]


ALONE = workflow.is_main_process and release_stale_locks(Path.cwd())

ROOT = str(plan.root)
RUN = "{dataset}/{aligner}/{text}/{size}"
MODEL = "{dataset}/{direction}/{model}/{seed}"
ATTRIBUTION = "{dataset}/{model}/{seed}/{decoding}"
ADAPTIVE = option("--adaptive", plan.settings.attribution.adaptive)
INTERVAL = [text for key, value in written(plan.settings.interval).items() for text in option(f"--{key}", value)]


wildcard_constraints:
    dataset="|".join(dataset.name for dataset in plan.settings.datasets),
    split="|".join(SPLITS),
    side="|".join(SIDES),
    aligner="[a-z0-9_]+",
    text="offline|online",
    size="all|[0-9]+",
    direction="|".join(name for dataset in plan.settings.datasets for name in plan.directions(dataset.name)),
    model="|".join(run.name for run in plan.settings.models) or "(?!)",
    seed="[0-9]+",
    decoding="forced|free|dev",


def text_of(split):
    """Returns the two sides of a split of the wildcard's dataset."""
    return {side: f"{ROOT}/data/{{dataset}}/{split}.{side}" for side in SIDES}


def side_of(split, place):
    """Returns an input function for the text that the wildcards' model reads (place 0) or writes (place 1)."""
    return lambda wildcards: f"{ROOT}/data/{wildcards.dataset}/{split}.{model_side(wildcards, place)}"


def tokens_of(split, place):
    """Returns an input function for the token store of that text."""
    return lambda wildcards: f"{ROOT}/tokens/{wildcards.dataset}/{split}.{model_side(wildcards, place)}"


def model_side(wildcards, place):
    """Returns which side of the dataset the wildcards' model reads (place 0) or writes (place 1)."""
    return plan.side(wildcards.dataset, wildcards.direction, place)


def links_of(place):
    """Returns an input function for the links of one direction of the wildcards' aligner run."""
    return lambda wildcards: f"{ROOT}/links/{RUN}/{plan.directions(wildcards.dataset)[place]}.pharaoh"


def methods_of(wildcards):
    """Returns the methods that the wildcards' model is asked with."""
    return plan.attribution.methods(wildcards.dataset, wildcards.model, wildcards.decoding)


def attributed_text(place):
    """Returns an input function for the text that is read (place 0) or explained (place 1).

    What is explained is the reference, or the model's own translation.
    """

    def text(wildcards):
        own = f"{ROOT}/translations/{MODEL}/test.txt".format(**wildcards)
        given = side_of(plan.attribution.split(wildcards.decoding), place)
        return own if wildcards.decoding == "free" and place == 1 else given(wildcards)

    return text


def attributed_pieces(place):
    """Returns an input function for that text in pieces."""

    def pieces(wildcards):
        own = f"{ROOT}/free/{MODEL}/test.pieces".format(**wildcards)
        split, side = plan.attribution.split(wildcards.decoding), model_side(wildcards, place)
        given = f"{ROOT}/pieces/{wildcards.dataset}/{split}.{side}"
        return own if wildcards.decoding == "free" and place == 1 else given

    return pieces


def attributed_links(wildcards, place):
    """Returns the links of all methods for one direction of the wildcards' model, which was given the reference."""
    direction = plan.directions(wildcards.dataset)[place]
    return f"{ROOT}/attributions/{ATTRIBUTION}/{direction}/links".format(decoding="forced", **wildcards)


def attributed_cells(wildcards):
    """Returns the folders of links of the wildcards' model, with what each is scored against."""
    return plan.attribution.cells(wildcards.dataset, wildcards.model, wildcards.seed, wildcards.decoding)


def cells_of(wildcards):
    """Returns them as a command wants them."""
    return list(map(str, attributed_cells(wildcards)))


def causes_of(wildcards, input):
    """Returns the option that names the true causes, where the input has them."""
    named = "=".join([plan.directions(wildcards.dataset)[0], *input.causes])
    return option("--causes", named if input.causes else None)


def about_methods(wildcards):
    """Returns what a job is that scores the methods of a model."""
    return about(
        wildcards,
        pair=plan.dataset(wildcards.dataset).pair,
        architecture=plan.model(wildcards.model).architecture,
        study=" ".join(plan.settings.studies),
    )


def grows(amount):
    """Returns a resource that is asked for again, and more of it, when a job is tried again."""
    return lambda wildcards, attempt: attempt * amount


def about(wildcards, **more):
    """Returns what a job is, for its journal."""
    return json.dumps({"preset": plan.settings.preset, **dict(wildcards.items()), **more}, sort_keys=True)
