"""``alignlens train``: train a translation model; the same command continues after any interruption."""

from __future__ import annotations

import logging
import os
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.cli.about import about_of, add_about, run_name
from alignlens.cli.failures import one_line
from alignlens.cli.numbers import count, seed
from alignlens.cli.paths import Outputs
from alignlens.io.atomic import check_replaceable
from alignlens.io.documents import read_json_option
from alignlens.io.limits import PAIRS, THREADS
from alignlens.io.progress import Progress
from alignlens.tracking.journal import Journal
from alignlens.training.presets import check_recipe
from alignlens.training.settings import TrainingSettings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from alignlens.models.settings import ModelSpec
    from alignlens.tracking.journal import Run
    from alignlens.training.loop import Training
    from alignlens.training.processes import Processes

OUTPUTS = Outputs(folders=("out", "work"))
_log = logging.getLogger("train")
_FILES = {
    "train_source": ("DIR", "token store of the training source (alignlens subwords segment --tokens)"),
    "train_target": ("DIR", "token store of the training target"),
    "dev_source": ("DIR", "token store of the dev source"),
    "dev_target": ("DIR", "token store of the dev target"),
    "dev_text": ("FILE", "the dev target text, for BLEU"),
    "source_subwords": ("FILE", "SentencePiece model of the source"),
    "target_subwords": ("FILE", "SentencePiece model of the target"),
}
# After this time a run is shown in MLflow while it runs; a shorter one would end before the store is open.
_LIVE_AFTER_SECONDS = 120.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "--settings", required=True, metavar="JSON", help="JSON with architecture, model, training, source_begin"
    )
    parser.add_argument("--seed", type=seed, default=1, help="seed of weights, order and dropout (default 1)")
    for name, (kind, text) in _FILES.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=Path, required=True, metavar=kind, help=text)
    parser.add_argument(
        "--start-from",
        type=Path,
        metavar="DIR",
        help="trained model to start from, with the same settings and subwords",
    )
    parser.add_argument("--pairs", type=count(PAIRS), metavar="N", help="train on the first N pairs (default: all)")
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="resumable state; removed at the end")
    parser.add_argument("--threads", type=count(THREADS), help="CPU threads of a process (default: training.threads)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the trained model")
    add_about(parser)
    parser.epilog = (
        "Ctrl-C and SIGTERM finish the update, save and exit. The same command continues, even after kill -9.\n\n"
        'example:\n  alignlens train --settings "$(cat settings.json)" --train-source train.de.tokens ... --out model\n'
        "  torchrun --nproc-per-node 4 -m alignlens train ...      # several GPUs or nodes"
    )


def run(args: argparse.Namespace) -> None:
    """Trains from wherever the work folder is to the end, then writes the model folder."""
    recipe = check_recipe(read_json_option("--settings", args.settings), "--settings")
    about = about_of(args)
    training_settings = TrainingSettings.from_json(recipe.training)
    from alignlens.training.assembly import Files, assemble, write_model

    files = Files(**{name: getattr(args, name) for name in _FILES})

    def assembled(processes: Processes) -> tuple[Training, ModelSpec]:
        return assemble(
            files,
            recipe.architecture,
            recipe.model,
            recipe.source_begin,
            training_settings,
            args.seed,
            args.work,
            processes,
            args.start_from,
            args.pairs,
        )

    def written(training: Training, spec: ModelSpec) -> None:
        write_model(args.out, training, spec, files)

    carry_out(
        args, about, args.threads or training_settings.threads, Task(assembled, written, experiment="train models")
    )


@dataclass(frozen=True)
class Task:
    """A training of a verb: how it is assembled and written, and what one process does before and after."""

    assembled: Callable[[Processes], tuple[Training, ModelSpec]]
    written: Callable[[Training, ModelSpec], None]
    experiment: str
    before: Callable[[], None] = lambda: None
    after: Callable[[], None] = lambda: None
    step: str | None = None  # in the name of the run, unless it is the model itself


def carry_out(args: argparse.Namespace, about: dict[str, Any], threads: int, task: Task) -> None:
    """Trains from wherever the work folder is to the end, recorded in the journal, then writes the folder."""
    from alignlens.models.checkpoint import KIND
    from alignlens.training.processes import joined_processes
    from alignlens.training.state import WorkFolder

    check_replaceable(args.out, KIND)
    with (
        joined_processes(threads) as processes,
        WorkFolder.reserved(args.work) if processes.leads else nullcontext() as hold,
    ):
        if processes.leads:
            task.before()
        processes.from_leader(None)  # The others look into the work folder when the leader has it.
        training, spec = task.assembled(processes)
        with Journal(args.journal if processes.leads else None) as journal:
            record = _record(journal, about, spec, training, task)
            started = time.monotonic()
            _watched(training, journal, record, speaks=processes.leads)
            record.metric("train_seconds", time.monotonic() - started, training.progress.update)
            if processes.leads:
                task.written(training, spec)
                for name in ("model.json", "curves.csv", "samples.txt"):
                    if (args.out / name).exists():
                        record.artifact(args.out / name)
                # A waiting process finds the finished training, and writes the same model without repeating it.
                if hold is None or not hold.awaited():
                    task.after()
                    training.work.remove()


def _record(journal: Journal, about: dict[str, Any], spec: ModelSpec, training: Training, task: Task) -> Run:
    from alignlens.models.contract import parameter_count

    named = (about.get("dataset"), about.get("direction"), about.get("model", spec.architecture), f"s{training.seed}")
    run = journal.run(
        experiment=task.experiment,
        name=run_name(*named, task.step),
        identity={
            "architecture": spec.architecture,
            "seed": training.seed,
            **({} if task.step is None else {"step": task.step}),
            **about,
        },
        tags={
            "architecture": spec.architecture,
            "seed": str(training.seed),
            **{key: str(value) for key, value in about.items()},
        },
        params={
            **spec.as_json()["settings"],
            **_flat(training.settings.as_json()),
            "parameters": parameter_count(training.model),
        },
        group=about.get("dataset"),
    )
    _log.info(
        "%s, %s parameters, seed %d, %d processes on %s, from update %d",
        spec.architecture,
        f"{parameter_count(training.model):,}",
        training.seed,
        training.processes.count,
        training.processes.device.type,
        training.progress.update,
    )
    return run


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns settings of one level: the objective by its name, its options each under a name of its own."""
    objective = settings.pop("objective")
    options = {f"objective_{key}": value for key, value in objective.items() if key != "name"}
    return {"objective": objective["name"], **options, **settings}


def _watched(training: Training, journal: Journal, run: Run, speaks: bool) -> None:
    """Runs the training; its records go to the journal, its samples to the log, its progress to the terminal."""
    from alignlens.training.loop import Watcher

    started, resumed_at = time.monotonic(), training.progress.update
    shown_live = False

    def record(entry: dict[str, Any]) -> None:
        nonlocal shown_live
        run.metrics({**entry["values"], "epoch": entry["epoch"]}, entry["update"])
        if entry["update"] > resumed_at and "samples" in entry:
            measures = ", ".join(f"{name} {value:.3f}" for name, value in entry["values"].items() if "dev" in name)
            _log.info("update %d: %s", entry["update"], measures)
            for reference, translation in entry["samples"]:
                _log.info("  reference    %s\n  translation  %s", one_line(reference), one_line(translation))
        uri = os.environ.get("MLFLOW_TRACKING_URI")
        if uri and not shown_live and time.monotonic() - started > _LIVE_AFTER_SECONDS:
            shown_live = True
            journal.show_live(uri)

    if not speaks:
        training.run(Watcher(lambda entry: None, lambda note: None))
        return
    with Progress("train", training.settings.max_updates, "updates") as progress:
        progress.start_at(resumed_at)
        training.run(Watcher(record, lambda note: progress.advance(1, note)))
