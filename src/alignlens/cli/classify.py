"""``alignlens classify``: prepare labelled texts, train classifiers on them, and ask what they look at."""

from __future__ import annotations

import argparse
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.classification.settings import QUANTITIES, ClassifierRecipe
from alignlens.cli.about import about_of, add_about, run_name
from alignlens.cli.numbers import count, seed
from alignlens.cli.paths import Outputs
from alignlens.corpora.fetch import DEFAULT_CACHE, Places, fetch
from alignlens.corpora.labelled import LABELLED_SPLITS
from alignlens.corpora.registry import DEFAULT_PATH, Registry
from alignlens.errors import ConfigError
from alignlens.io.atomic import check_replaceable
from alignlens.io.documents import read_json_option
from alignlens.io.limits import PAIRS, THREADS, Limits
from alignlens.io.progress import Progress
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    from alignlens.classification.examples import Examples
    from alignlens.classification.prepare import Prepared
    from alignlens.classification.training import ClassifierLoop
    from alignlens.tracking.journal import Run

OUTPUTS = {
    "prepare": Outputs(folders=("out",), places=("cache",)),
    "train": Outputs(folders=("out", "work")),
    "explain": Outputs(folders=("out",), words=("split", "quantities")),
    "logistic": Outputs(folders=("out",), words=("split",)),
}
_log = logging.getLogger("classify")
_RAREST = 3
_WIDTH = 300
# After this time a run is shown in MLflow while it runs; a shorter one would end before the store is open.
_LIVE_AFTER_SECONDS = 120.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of all tasks."""
    parser.epilog = "example:\n  alignlens classify prepare demo-keywords --out texts"
    tasks = parser.add_subparsers(dest="task", required=True, metavar="TASK")

    def task(name: str, text: str, example: str) -> argparse.ArgumentParser:
        added = tasks.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        added.formatter_class = argparse.RawDescriptionHelpFormatter
        added.epilog = f"example:\n  alignlens classify {name} {example}"
        return added

    preparing = task(
        "prepare", "turn labelled texts into word ids, with their vocabulary", "sst --mirror ~/data --out texts"
    )
    preparing.add_argument("name", metavar="NAME", help="text classification set")
    preparing.add_argument(
        "--rarest",
        type=count(PAIRS),
        default=_RAREST,
        metavar="N",
        help="smallest count of a word in train (%(default)s)",
    )
    preparing.add_argument(
        "--vectors", type=Path, metavar="FILE", help="word vectors: a word and its numbers on each line"
    )
    preparing.add_argument(
        "--width", type=count(Limits(1, 8192)), default=_WIDTH, metavar="N", help="numbers in a vector (%(default)s)"
    )
    preparing.add_argument("--mirror", metavar="DIR", help="directory with a copy of the files")
    preparing.add_argument("--cache", metavar="DIR", help=f"where downloads are kept ({DEFAULT_CACHE})")
    preparing.add_argument("--datasets", metavar="FILE", action="append", help=f"datasets ({DEFAULT_PATH})")
    # The entry itself instead of the one on file: the pipeline passes custom datasets this way.
    preparing.add_argument("--definition", help=argparse.SUPPRESS)

    training = task("train", "train a classifier, resumably", "--data texts --work work --out model")
    training.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder that prepare wrote")
    training.add_argument("--settings", default="{}", metavar="JSON", help="JSON with model, training")
    training.add_argument("--seed", type=seed, default=1, help="seed of weights and order (%(default)s)")
    training.add_argument("--work", type=Path, required=True, metavar="DIR", help="resumable state; removed at the end")

    explaining = task(
        "explain", "ask a classifier what it looks at, at every checkpoint", "--model model --data texts --out dev"
    )
    explaining.add_argument("--model", type=Path, required=True, metavar="DIR", help="folder that train wrote")
    explaining.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder that prepare wrote")
    explaining.add_argument(
        "--quantities", default=",".join(QUANTITIES), metavar="LIST", help="some of them (%(default)s)"
    )

    fitting = task("logistic", "fit a logistic regression over the words of a text", "--data texts --out logistic")
    fitting.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder that prepare wrote")
    for added in (explaining, fitting):
        added.add_argument("--split", choices=LABELLED_SPLITS, default="dev", help="which texts (%(default)s)")
        added.add_argument(
            "--items", type=count(PAIRS), metavar="N", help="use only the first N of them (default: all)"
        )
    for added in (preparing, training, explaining, fitting):
        if added in (training, explaining):
            added.add_argument(
                "--threads", type=count(THREADS), default=1, metavar="N", help="CPU threads (%(default)s)"
            )
        added.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write")
        add_about(added)


def run(args: argparse.Namespace) -> None:
    """Runs one task."""
    {"prepare": _prepare, "train": _train, "explain": _explain, "logistic": _logistic}[args.task](args)


def _prepare(args: argparse.Namespace) -> None:
    from alignlens.classification.prepare import KIND, REPORT, Vectors, prepare

    about, places = about_of(args), Places.of(args.mirror, args.cache)
    registry = Registry.load_all(args.datasets or [DEFAULT_PATH])
    if args.definition:
        registry = registry.merged({args.name: read_json_option("--definition", args.definition)}, "--definition")
    entry = registry.get_labelled(args.name)
    check_replaceable(args.out, KIND)
    with Journal(args.journal) as journal:
        record = journal.run(
            experiment="data",
            name=run_name(args.name, "labelled texts"),
            identity={"step": "prepare", "corpus": args.name, **about},
            tags={"step": "prepare", "corpus": args.name, **_texts(about)},
            params={"kind": entry.kind, "licence": entry.licence, "origin": entry.origin, "rarest": args.rarest},
            group=args.name,
        )
        vectors = Vectors(args.vectors, args.width) if args.vectors else None
        report = prepare(entry, fetch(entry, places), args.out, args.rarest, vectors)
        numbers = {
            f"{split}_{key}": float(counts[key])
            for split, counts in report["splits"].items()
            for key in ("texts", "positive", "words", "median_words", "unknown_share")
        }
        record.metrics({"vocabulary": report["vocabulary"]["words"], **numbers})
        record.artifact(args.out / REPORT, folder="data")
    train, dev = (report["splits"][split] for split in LABELLED_SPLITS)
    print(
        f"{args.out}: {train['texts']:,} training and {dev['texts']:,} dev texts, "
        f"{report['vocabulary']['words']:,} words, {100 * dev['unknown_share']:.1f} % of dev unknown"
    )


def _train(args: argparse.Namespace) -> None:
    recipe = ClassifierRecipe.from_json(read_json_option("--settings", args.settings), "--settings")
    about = about_of(args)
    import torch

    from alignlens.classification.folder import CARD, CURVE_FILE, KIND, assemble, write_classifier
    from alignlens.classification.prepare import Prepared
    from alignlens.training.state import WorkFolder

    torch.set_num_threads(args.threads)
    check_replaceable(args.out, KIND)
    with WorkFolder.reserved(args.work) as hold:
        prepared = Prepared.open(args.data)
        loop = assemble(prepared, recipe, args.seed, args.work)
        with Journal(args.journal) as journal:
            record = _training_record(journal, about, recipe, loop, prepared)
            started = time.monotonic()
            _watched(loop, journal, record)
            record.metric("train_seconds", time.monotonic() - started, loop.progress.update)
            write_classifier(args.out, loop, recipe, prepared)
            for name in (CARD, CURVE_FILE):
                record.artifact(args.out / name)
            # A waiting process finds the finished training, and writes the same model without repeating it.
            if not hold.awaited():
                loop.work.remove()
    best = loop.progress.best or {}
    print(f"{args.out}: dev accuracy {100 * best['dev_accuracy']:.2f} at update {best['update']:.0f}")


def _training_record(
    journal: Journal, about: dict[str, Any], recipe: ClassifierRecipe, loop: ClassifierLoop, prepared: Prepared
) -> Run:
    content, corpus = recipe.as_json(), about.get("corpus", prepared.report.get("dataset"))
    classifier = about.get("classifier", recipe.model.kind)
    identity = {"corpus": corpus, "classifier": classifier, "seed": loop.seed, **about}
    sizes = loop.model.sizes()
    _log.info(
        "%s, %s parameters (%s without word vectors), seed %d, from update %d",
        classifier,
        *(f"{size:,}" for size in sizes.values()),
        loop.seed,
        loop.progress.update,
    )
    return journal.run(
        experiment="train classifiers",
        name=run_name(corpus, classifier, f"s{loop.seed}"),
        identity=identity,
        tags={"step": "train", **_texts(identity)},
        params={**content["model"], **content["training"], **sizes, "words": len(prepared.words)},
        group=corpus,
    )


def _watched(loop: ClassifierLoop, journal: Journal, run: Run) -> None:
    """Runs the training; its records go to the journal and the log, its progress to the terminal."""
    from alignlens.training.loop import Watcher

    started, resumed_at, shown_live = time.monotonic(), loop.progress.update, False

    def record(entry: dict[str, Any]) -> None:
        nonlocal shown_live
        run.metrics({**entry["values"], "epoch": entry["epoch"]}, entry["update"])
        if entry["update"] > resumed_at:
            values = entry["values"]
            _log.info(
                "update %d: accuracy %.4f, loss %.4f", entry["update"], values["dev_accuracy"], values["dev_loss"]
            )
        uri = os.environ.get("MLFLOW_TRACKING_URI")
        if uri and not shown_live and time.monotonic() - started > _LIVE_AFTER_SECONDS:
            shown_live = True
            journal.show_live(uri)

    with Progress("train", loop.updates, "updates") as progress:
        progress.start_at(resumed_at)
        loop.run(Watcher(record, lambda note: progress.advance(1, note)))


def _explain(args: argparse.Namespace) -> None:
    about, quantities = about_of(args), args.quantities.split(",")
    if not set(quantities) <= set(QUANTITIES) or len(set(quantities)) < len(quantities):
        raise ConfigError(f"--quantities {args.quantities[:60]}: give some of {', '.join(QUANTITIES)}, each once")
    import torch

    from alignlens.classification.explain import explain
    from alignlens.classification.folder import TrainedClassifier

    torch.set_num_threads(args.threads)
    _check_trajectory(args.out)
    trained = TrainedClassifier(args.model)
    corpus, examples = _asked(args)
    trained.check_data(corpus)
    facts = {"dataset": corpus.report.get("dataset"), "split": args.split, "items": len(examples)}
    facts |= {"seed": trained.card.get("seed"), "recipe": trained.card["recipe"], "task": "classification"}
    classifier = about.get("classifier", trained.model.settings.kind)
    with Journal(args.journal) as journal:
        identity = {"corpus": facts["dataset"], "classifier": classifier, "seed": facts["seed"], "split": args.split}
        record = journal.run(
            experiment="explain classifiers",
            name=run_name(facts["dataset"], classifier, f"s{facts['seed']}", args.split),
            identity={**identity, **about},
            tags={"step": "explain", **_texts({**identity, **about})},
            params={"quantities": args.quantities, "texts": len(examples)},
            group=facts["dataset"],
        )
        with Progress("explain", len(examples) * len(trained.checkpoints), "texts") as progress:
            performance = explain(trained, examples, quantities, args.out, facts, progress.advance)
        for checkpoint, measures in performance.items():
            if checkpoint.isdecimal():
                record.metrics(measures, int(checkpoint))
        record.metrics({f"final_{name}": value for name, value in performance["final"].items()})
    print(f"{args.out}: {len(examples):,} texts at {len(performance)} checkpoints")


def _logistic(args: argparse.Namespace) -> None:
    from alignlens.classification.logistic import STRENGTHS, fit

    about = about_of(args)
    _check_trajectory(args.out)
    corpus, examples = _asked(args)
    name = corpus.report.get("dataset")
    with Journal(args.journal) as journal:
        identity = {"corpus": name, "classifier": "logistic", "split": args.split, **about}
        record = journal.run(
            experiment="explain classifiers",
            name=run_name(name, "logistic", args.split),
            identity=identity,
            tags={"step": "logistic", **_texts(identity)},
            params={"strengths": len(STRENGTHS), "texts": len(examples)},
            group=name,
        )
        with Progress("logistic", len(STRENGTHS), "strengths") as progress:
            fitted = fit(corpus.splits["train"], corpus.splits["dev"], len(corpus.words), progress.advance)
        facts = {"dataset": name, "split": args.split, "items": len(examples), "task": "classification"}
        facts |= {"path": fitted.path, "strength": fitted.chosen}
        performance = fitted.performance(examples)
        _write_final(args.out, fitted.probe(examples), performance, facts)
        record.metrics({f"final_{key}": value for key, value in performance.items()})
        record.metrics({"strength": fitted.chosen})
    print(f"{args.out}: accuracy {100 * performance['accuracy']:.2f} on {args.split}, at C = {fitted.chosen:g}")


def _write_final(out: Path, probe: Any, performance: dict[str, float], facts: dict[str, Any]) -> None:
    """Writes the trajectory of a model that has no checkpoints but its last, and only a probe."""
    from alignlens.io.trajectories import FINAL, write_trajectory

    write_trajectory(out, {FINAL: {"probe": probe}}, {FINAL: performance}, facts)


def _asked(args: argparse.Namespace) -> tuple[Prepared, Examples]:
    """Returns prepared texts, and those of them that are asked about."""
    from alignlens.classification.prepare import Prepared

    prepared = Prepared.open(args.data)
    return prepared, prepared.splits[args.split].first(args.items)


def _check_trajectory(out: Path) -> None:
    from alignlens.io.matrices import KIND

    check_replaceable(out, KIND)


def _texts(about: dict[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in about.items()}
