"""``alignlens agreement``: how far attention, probes and saliency of several runs agree, checkpoint by checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.cli.about import about_of, add_about, run_name
from alignlens.cli.paths import Outputs
from alignlens.cli.score_options import add_interval, interval_of
from alignlens.io.atomic import write_json
from alignlens.io.progress import Progress
from alignlens.io.trajectories import FINAL, Trajectory
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse

    from alignlens.metrics.quantities import TaskRuns
    from alignlens.tracking.journal import Run

OUTPUTS = Outputs(files=("out", "sentences"))
_STEP = "agreement"
_RUNS = {
    "attention": "trajectory of run A, whose attention and saliency are compared with the others",
    "uniform": "trajectory of a model with uniform attention",
    "proxy": "trajectory of the bag-of-words proxy",
    "frozen": "trajectory of a model whose probe is frozen",
    "logistic": "trajectory of a logistic regression",
}
_OPTIONAL = ("frozen", "logistic")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    for name, text in _RUNS.items():
        parser.add_argument(f"--{name}", type=Path, required=name not in _OPTIONAL, metavar="DIR", help=text)
    parser.add_argument(
        "--again",
        type=Path,
        required=True,
        nargs="+",
        metavar="DIR",
        help="trajectories of runs like A with other seeds",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="write agreements and curves as JSON")
    parser.add_argument("--sentences", type=Path, metavar="FILE", help="write the sums of every item (.npz)")
    parser.add_argument("--json", action="store_true", help="print all agreements as one JSON object")
    add_interval(parser)
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens agreement --attention A --again B --uniform uniform --proxy proxy --out agreement.json\n"
        "\nA trajectory is what alignlens trajectory or alignlens classify explain wrote. A(u, v) of a row of\n"
        "L positions is 1 if fewer than 0.05 L values of v are larger than the one at the first maximum of u. A\n"
        "constant v agrees with everything: look at the number of distinct values beside it."
    )


def run(args: argparse.Namespace) -> None:
    """Writes all agreements of a task, and records them."""
    interval = interval_of(args)
    about = about_of(args)
    runs = _opened(args)
    task, split = (str(about.get(key) or runs.attention.facts.get(key) or "") for key in ("task", "split"))
    from alignlens.metrics.quantities import agreement_of
    from alignlens.metrics.sampled import Draws

    with Journal(args.journal) as journal:
        record = journal.run(**_identity(about, task, split), params=interval)
        with Progress(_STEP, len(runs.attention), unit="items") as progress:
            agreement = agreement_of(runs, Draws(**interval), progress.advance)
        content = {"task": task, "split": split, **agreement.content}
        if args.sentences:
            _write_sums(args.sentences, agreement.names, agreement.sums, agreement.counts)
            record.artifact(args.sentences)
        write_json(args.out, content)
        record.artifact(args.out)
        _record_curves(record, content["curves"])
        numbers = _numbers(content["measures"])
        record.metrics(numbers)
    print(json.dumps(content) if args.json else _table(content["measures"]))


def _opened(args: argparse.Namespace) -> TaskRuns:
    from alignlens.metrics.quantities import TaskRuns

    runs_by_name = {
        name: None if getattr(args, name) is None else Trajectory.open(getattr(args, name)) for name in _RUNS
    }
    runs = TaskRuns(again=tuple(map(Trajectory.open, args.again)), **runs_by_name)  # type: ignore[arg-type]
    runs.check()
    return runs


def _identity(about: dict[str, Any], task: str, split: str) -> dict[str, Any]:
    """Returns experiment, name (``multi30k · dev · agreement``), identity, tags and group."""
    identity = {**about, "task": task, "split": split}
    return {
        "experiment": "agreement",
        "name": run_name(task, split, _STEP),
        "identity": identity,
        "tags": {"step": _STEP, **{key: str(value) for key, value in identity.items()}},
        "group": task or None,
    }


def _write_sums(path: Path, names: list[str], sums: Any, counts: Any) -> None:
    import numpy as np

    from alignlens.io.arrays import write_arrays

    write_arrays(path, {"names": np.array(names), "sums": sums, "counts": counts})


def _plain(quantity: str) -> str:
    """Returns a name that MLflow takes, the same for all tasks."""
    return quantity.replace(",", "_")


def _numbers(measures: dict[str, Any]) -> dict[str, float]:
    """Returns the known values of all tables as metrics for charts."""
    numbers: dict[str, float | None] = {}
    for measure, content in measures.items():
        numbers[f"{measure}/xi_star"] = content["star"]
        for kind in ("agreement", "kendall"):
            for row in content[kind]:
                place = f"{measure}/{kind}/{_plain(row['quantity'])}"
                numbers[place] = row["value"]
                numbers |= {f"{place}_{key}": row[key] for key in ("low", "high", "xi", "distinct")}
    return {name: value for name, value in numbers.items() if value is not None}


def _record_curves(record: Run, curves: dict[str, Any]) -> None:
    """Records every curve by the update of its checkpoints."""
    for quantity, curve in curves.items():
        for place, weights in enumerate(curve["weights"]):
            values = {
                f"curves/{_plain(quantity)}/{kind}": curve[kind][place]
                for kind in curve
                if kind != "weights" and curve[kind][place] is not None
            }
            if weights != FINAL:
                record.metrics(values, int(weights))


def _table(measures: dict[str, Any]) -> str:
    """Returns the tables as text."""
    lines = []
    for measure, content in measures.items():
        lines.append(f"{measure}: xi* {content['star']:.2f}, alpha of checkpoint {content['gold']}")
        for kind in ("agreement", "kendall"):
            lines += [f"  {kind:<10}{row['quantity']:<18}{_line(row)}" for row in content[kind]]
    return "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    value, low, high, xi = ("-" if row[key] is None else f"{row[key]:.2f}" for key in ("value", "low", "high", "xi"))
    at = "" if row["at"] is None else f"  at {row['at']}"
    return f"{value:>7} [{low}, {high}]  xi {xi}  distinct {row['distinct']:.1f}{at}"
