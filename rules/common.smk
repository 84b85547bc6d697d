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
from alignlens.workflow.orphans import cancel_orphans, summary
from alignlens.workflow.attribution_plan import Attribution
from alignlens.workflow.calibration_plan import ComparedModels
from alignlens.workflow.learning_plan import AskedClassifier, AskedModel
from alignlens.workflow.plan import SIDES, Plan
from alignlens.workflow.settings import load_settings, read_config
from alignlens.results import paths
from alignlens.results.manifest import FILE as MANIFEST
from alignlens.results.paths import ALIGNER as RUN, ATTRIBUTION, FINAL, FORCED, FREE, MODEL, SPLITS
from alignlens.studies.registry import study_of

with exit_on_error("config"):
    # Snakemake has read these files itself, but less strictly: of a key that appears twice it took the last.
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
ADAPTIVE = option("--adaptive", plan.settings.attribution.adaptive)
MASKS = plan.settings.attribution.masks
FOREIGN = "|".join(plan.foreign.names()) or "(?!)"
OURS = "|".join(model.name for model in plan.requested.models if model.name not in plan.foreign.names()) or "(?!)"
INTERVAL = [text for key, value in written(plan.settings.interval).items() for text in option(f"--{key}", value)]


wildcard_constraints:
    dataset="|".join(dataset.name for dataset in plan.settings.datasets),
    split="|".join([*SPLITS, *map(re.escape, plan.requested.texts)]),
    side="|".join(SIDES),
    aligner="[a-z0-9_]+",
    text="offline|online",
    size="all|[0-9]+",
    direction="|".join(name for dataset in plan.settings.datasets for name in plan.directions(dataset.name)),
    model="|".join(model.name for model in plan.requested.models) or "(?!)",
    seed="[0-9]+",
    weights=f"{FINAL}|[0-9]+",
    decoding=f"{FORCED}|{FREE}",
    corpus="|".join(plan.learning.corpora()) or "(?!)",
    classifier="|".join(dict.fromkeys(name for _, name in plan.learning.classifiers)) or "(?!)",
    task="|".join(dict.fromkeys(task for task, _ in plan.learning.agreements)) or "(?!)",
    toy="|".join(plan.learning.toys) or "(?!)",
    comparison="|".join(dict.fromkeys(re.escape(each.comparison) for each in plan.calibration.comparisons)) or "(?!)",


def at(pattern, **names):
    """Returns a path with some names filled in and wildcards for the others."""
    return f"{ROOT}/{pattern.partly(**names)}"


def text_of(split):
    """Returns the two sides of a split of the wildcard's dataset."""
    return {side: at(paths.TEXT, split=split, side=side) for side in SIDES}


def side_of(split, place):
    """Returns an input function for the text that the wildcards' model reads (place 0) or writes (place 1)."""
    return lambda wildcards: given(paths.TEXT, wildcards, split, place)


def tokens_of(split, place):
    """Returns an input function for the token store of that text."""
    return lambda wildcards: given(paths.TOKENS, wildcards, split, place)


def given(pattern, wildcards, split, place):
    """Returns a file of the side that the wildcards' model reads (place 0) or writes (place 1)."""
    return plan.given(pattern, place, **{**dict(wildcards.items()), "split": split})


def chosen_from(pattern, wildcards, side):
    """Returns a side of the text that a selection is made of."""
    split = plan.requested.texts[wildcards.selection].of
    return plan.path(pattern, dataset=wildcards.dataset, split=split, side=side)


def model_side(wildcards, place):
    """Returns which side of the dataset the wildcards' model reads (place 0) or writes (place 1)."""
    return plan.side(wildcards.dataset, wildcards.direction, place)


def links_of(place):
    """Returns an input function for the links of one direction of the wildcards' aligner run."""
    return lambda wildcards: at(paths.ALIGNER_LINKS, links=plan.directions(wildcards.dataset)[place])


def asked(wildcards):
    """Returns which attribution the wildcards are about."""
    names = {key: wildcards[key] for key in Attribution._fields}
    return Attribution(**{**names, "seed": int(wildcards.seed)})


def methods_of(wildcards):
    """Returns the methods that the wildcards' model is asked with."""
    return plan.attribution.methods(asked(wildcards))


def masks_of(wildcards):
    """Returns the mask nets that a method of the wildcards' attribution reads: none or one folder."""
    return plan.attribution.masks(asked(wildcards), wildcards.direction)


def weights_of(wildcards):
    """Returns the option that names other weights than those that training ended in."""
    return option("--weights", None if wildcards.weights == FINAL else f"snapshots/{int(wildcards.weights):06d}")


def attributed(place, text=paths.TOKENS, translation=paths.TRANSLATED_TOKENS):
    """Returns an input function for the text that is read (place 0) or explained (place 1), as tokens unless said.

    What is explained is the reference, or the model's own translation as it was generated. Of a text that a study has
    selected there is none beforehand.
    """

    def path(wildcards):
        own = wildcards.decoding == FREE and place == 1
        if own and wildcards.split not in SPLITS:
            return []
        return plan.path(translation, **wildcards) if own else given(text, wildcards, wildcards.split, place)

    return path


def explained(input):
    """Returns the options for what is explained: a text, or how the model makes one."""
    if input.target:
        return option("--target", input.target)
    found = plan.settings.decoding
    settings = {"beam": found.beam, "length-penalty": found.length_penalty}
    settings |= {"max-ratio": found.max_ratio, "max-offset": found.max_offset}
    return [word for name, value in settings.items() for word in option(f"--{name}", value)]


def question(wildcards):
    """Returns what the wildcards' model is asked at all its checkpoints."""
    names = {key: wildcards[key] for key in AskedModel._fields}
    return plan.learning.trajectories[AskedModel(**{**names, "seed": int(wildcards.seed)})]


def quantities(wildcards):
    """Returns what the wildcards' classifier is asked at all its checkpoints."""
    names = {key: wildcards[key] for key in AskedClassifier._fields}
    return ",".join(plan.learning.quantities(AskedClassifier(**{**names, "seed": int(wildcards.seed)})))


def compared(wildcards):
    """Returns the folders whose agreement the wildcards ask for, by option."""
    return plan.learning.compared(wildcards.task, wildcards.split)


def systems(wildcards):
    """Returns the translations that the wildcards' comparison is about, by model, the baseline last."""
    return plan.calibration.translations(ComparedModels(**{key: wildcards[key] for key in ComparedModels._fields}))


def named_systems(wildcards):
    """Returns them as a command wants them."""
    *others, baseline = systems(wildcards).items()
    hypotheses = [word for _, files in others for word in ("--hypothesis", *files)]
    return [*hypotheses, "--versus", *baseline[1], "--names", *systems(wildcards)]


def attributed_links(wildcards, place):
    """Returns the links of all methods for one direction of the wildcards' model, which was given the reference."""
    direction = plan.directions(wildcards.dataset)[place]
    return plan.path(paths.METHOD_LINKS, decoding=FORCED, direction=direction, **wildcards)


def attributed_cells(wildcards):
    """Returns the folders of links of the wildcards' model, with what each is scored against."""
    return plan.attribution.cells(asked(wildcards))


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
        study=" ".join(plan.attribution.studies_of(asked(wildcards))),
    )


def manifest_of(reader):
    """Returns what a study or the report may read."""
    made = plan.report.manifest() if reader == "report" else plan.studies.manifest(reader)
    return json.dumps(made.as_json(), indent=1)


def grows(amount):
    """Returns a resource that is asked for again, and more of it, when a job is tried again."""
    return lambda wildcards, attempt: attempt * amount


def about(wildcards, **more):
    """Returns what a job is, for its journal."""
    return json.dumps({"preset": plan.settings.preset, **dict(wildcards.items()), **more}, sort_keys=True)
