"""A results folder about how attention is learned, with whatever numbers a test wants in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.io.arrays import write_arrays
from alignlens.io.atomic import write_json
from alignlens.metrics.sampled import Draws
from alignlens.results.manifest import Manifest
from alignlens.results.reader import read_results
from alignlens.studies.snell2021.claims import judge
from alignlens.studies.snell2021.evidence import Evidence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from alignlens.studies.claims import Verdict

INTERVAL = {"level": 95.0, "samples": 200, "seed": 1}
ITEMS = 100
GRID = ["000000", "000100", "000500", "001000", "002000"]
# The second run: agreement with run A, and accuracy, at every checkpoint.
AGAIN = {"agreement": [5.0, 20.0, 45.0, 60.0, 70.0], "accuracy": [1.0, 20.0, 40.0, 55.0, 62.0]}
QUANTITIES = {
    "alpha,beta_uf": 31.0, "beta_uf,beta_px": 50.0, "beta_px,beta_uf": 34.0, "Delta,beta_uf": 27.0, "alpha,beta": 49.0,
    "random": 7.0,
}  # fmt: skip
STAR = 66.0


def evidence(folder: Path) -> Evidence:
    return Evidence.of(read_results(Manifest.whole(folder)))


def verdicts(folder: Path) -> dict[str, Verdict]:
    """Returns the verdict on every claim by its number."""
    return {verdict.claim.id: verdict for verdict in judge(evidence(folder))}


def uneven(mean: float, spread: float = 0.0) -> NDArray[np.float64]:
    """Returns shares of items whose mean is that many percent; with ``spread``, half of them above and half below."""
    return np.tile([mean - spread, mean + spread], ITEMS // 2) / 100


def write_agreement(
    folder: Path,
    task: str = "multi30k",
    numbers: Mapping[str, float] | None = None,
    *,
    split: str = "dev",
    rows: int = 900,
    spread: float | Mapping[str, float] = 0.0,
    taus: Mapping[str, float] | None = None,
    xi: Mapping[str, float | None] | None = None,
    star: float = STAR,
    curve: Sequence[float] | None = None,
    bleu: bool = False,
    **changes: Any,
) -> Path:
    """Writes the agreements of a task; every item has the same numbers, but for the spread of each."""
    found = {**QUANTITIES, **(numbers or {})}
    kendall = {"alpha,beta_uf": 8.0, "beta_px,beta_uf": 27.0, "Delta,beta_uf": 4.0, "random": 0.0, **(taus or {})}
    reached = {"alpha,beta_uf": 40.0, "alpha,beta": 55.0, **(xi or {})}
    spreads = spread if not isinstance(spread, float | int) else dict.fromkeys({**found, **kendall}, float(spread))
    names, sums = [], []
    draws = Draws(**INTERVAL)  # type: ignore[arg-type]
    measures = {}
    for measure in ("accuracy", "bleu") if bleu else ("accuracy",):
        measures[measure] = {"star": star, "gold": "002000"}
        for kind, values in (("agreement", found), ("kendall", kendall)):
            written = []
            for quantity, value in values.items():
                shares = uneven(value, spreads.get(quantity, 0.0))
                names.append(f"{measure}.{kind}.{quantity}")
                sums.append(shares)
                low, high = np.percentile(100 * draws.ratio(shares, np.ones(ITEMS)), [2.5, 97.5])
                row = {"quantity": quantity, "value": value, "low": low, "high": high, "distinct": 12.0}
                at = None if quantity == "random" else "000500"
                written.append({**row, "at": at, "xi": reached.get(quantity, 40.0), **changes.get(quantity, {})})
            measures[measure][kind] = written
    probe = list(curve or (5.0, 20.0, found["alpha,beta_uf"], 25.0, 20.0))
    content = {
        "task": task,
        "split": split,
        "items": ITEMS,
        "rows": rows,
        "interval": INTERVAL,
        "measures": measures,
        "curves": {
            "again": {"weights": GRID, "kendall": [0.0] * 5, **AGAIN, **({"bleu": [0, 2, 9, 20, 30]} if bleu else {})},
            "alpha,beta_uf": {"weights": GRID[: len(probe)], "agreement": probe, "kendall": [0.0] * len(probe)},
            "alpha,beta": {"weights": GRID, "agreement": [4.0, 20.0, 40.0, 48.0, 49.0], "kendall": [0.0] * 5},
            "Delta,beta_uf": {"weights": GRID, "agreement": [4.0, 15.0, 27.0, 26.0, 22.0], "kendall": [0.0] * 5},
        },
    }
    path = folder / "agreement" / task / split / "agreement.json"
    write_json(path, content)
    arrays = {"names": np.array(names), "sums": np.array(sums), "counts": np.ones((len(names), ITEMS))}
    write_arrays(path.with_name("sentences.npz"), arrays)
    return path


def write_classified(folder: Path, task: str = "sst", numbers: Mapping[str, float] | None = None, **more: Any) -> Path:
    """Writes the agreements of a classification task: one row a text, frozen probe and logistic regression."""
    found = {"alpha,alpha_fr": 14.0, "beta_uf,beta_log": 48.0, "beta_log,beta_uf": 36.0, **(numbers or {})}
    settings: dict[str, Any] = {"rows": ITEMS, "xi": {"alpha,beta_uf": 60.0}, **more}
    return write_agreement(folder, task, found, **settings)


def curve_to(end: float, at: int | None = None, steps: Sequence[int] = range(0, 201, 10)) -> list[float]:
    """Returns an accuracy that goes to ``end``; with ``at``, it stands there from that step on."""
    if at is not None:
        return [end if step >= at else 0.02 for step in steps]
    return [end * step / steps[-1] for step in steps]


def write_copy(
    folder: Path,
    task: str,
    accuracy: Sequence[Sequence[float]],
    steps: Sequence[int] = range(0, 201, 10),
    name: str = "",
) -> Path:
    path = folder / "toys" / f"{name or task}.json"
    counts = [[3.0 + (i == j) for j in range(4)] for i in range(4)]
    content = {
        "task": task,
        "settings": {"words": 40},
        "seeds": list(range(1, len(accuracy) + 1)),
        "steps": list(steps),
    }
    write_json(path, {**content, "accuracy": [list(row) for row in accuracy], "counts": counts})
    return path


def write_keyword(
    folder: Path, values: Mapping[str, Sequence[float]], seeds: int = 5, spread: float = 0.0, accuracy: Any = None
) -> Path:
    """Writes the keyword task: numbers by step, the seeds as far apart as ``spread`` says."""
    steps = list(range(0, 10 * len(next(iter(values.values()))), 10))
    grids = {
        name: [
            [value + spread * (seed - (seeds - 1) / 2) * (1 if name == "keyword" else -1) for value in row]
            for seed in range(seeds)
        ]
        for name, row in values.items()
    }
    grids["accuracy"] = [list(accuracy or np.linspace(0.5, 0.9, len(steps)))] * seeds
    path = folder / "toys" / "keyword.json"
    content = {"task": "keyword", "settings": {}, "seeds": list(range(1, seeds + 1)), "steps": steps}
    write_json(path, {**content, "variants": {"one_direction": grids, "two_directions": grids}})
    return path


def write_heads(
    folder: Path, all_bad: int, one_good: int, random: int, single: tuple[int, int], runs: int = 20, name: str = "heads"
) -> Path:
    """Writes the task of heads, with so many runs of each kind that succeed."""

    def runs_of(learned: int) -> list[list[float]]:
        return [[0.02, 0.5, 1.0] if number < learned else [0.02, 0.1, 0.3] for number in range(runs)]

    content = {
        "task": "heads",
        "settings": {},
        "steps": [0, 100, 200],
        "single": {
            "trials": single[1], "successes": single[0], "good": 5, "bad": 20, "rejected": 3,
            "accuracy": [[0.02, 0.5, 1.0], [0.02, 0.1, 0.3]],
        },
        "scenarios": {
            key: {"accuracy": runs_of(learned)}
            for key, learned in (("all_bad", all_bad), ("one_good", one_good), ("random", random))
        },
        "variant": "printed",
    }  # fmt: skip
    path = folder / "toys" / f"{name}.json"
    write_json(path, content)
    return path


def write_counts(
    folder: Path, growth: Sequence[tuple[int, float]], seeds: float = 0.0, dataset: str = "multi30k"
) -> Path:
    """Writes counts of words, with correlations by width that vary by ``seeds`` either way."""
    path = folder / "counts" / dataset / "de-en.json"
    entries = [
        {"d": d, "pearson": value, "least": max(value - seeds, -1.0), "greatest": min(value + seeds, 1.0)}
        for d, value in growth
    ]
    table = [[4.0, 1.0], [1.0, 3.0]]
    translation = [[0.8, 0.2], [0.25, 0.75]]
    content = {"pairs": 10, "source_words": ["ein", "der"], "target_words": ["a", "the"], "table": table}
    write_json(path, {**content, "translation": translation, "growth": entries})
    return path


def write_preparation(folder: Path, corpus: str, train: int = 5130, dev: int = 1421) -> Path:
    path = folder / "classification" / corpus / "data" / "preparation.json"
    splits = {name: {"texts": count, "median_words": 16.0} for name, count in (("train", train), ("dev", dev))}
    write_json(path, {"dataset": corpus, "vocabulary": {"words": 11022, "symbols": 4}, "splits": splits})
    return path
