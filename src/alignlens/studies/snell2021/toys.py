"""Generated tasks that small models learn, as the files of a results folder tell it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.io import values
from alignlens.io.documents import read_json, taking
from alignlens.io.typed import written
from alignlens.results.paths import TOY
from alignlens.toys.settings import TASKS, HeadsSettings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from alignlens.results.manifest import Manifest

    Numbers = NDArray[np.float64]

PERMUTATION, CONTROL, MIXTURE, PERMUTED_COPY = COPY_TASKS = "permutation", "control", "mixture", "permuted_copy"
KEYWORD, HEADS = "keyword", "heads"
TOYS = (*COPY_TASKS, KEYWORD, HEADS)
# What says how long and how often, and not what is learned.
_EFFORT = (
    "seeds",
    "steps",
    "evaluate_every",
    "evaluate_samples",
    "side_by_side",
    "count_samples",
    "draws",
    "most_heads",
    "collect",
    "random_pool",
)
TITLES = {
    PERMUTATION: "permutations of one set",
    CONTROL: "words drawn from a larger set",
    MIXTURE: "permutations of two sets",
    PERMUTED_COPY: "copy in another order",
    KEYWORD: "keyword",
    HEADS: "heads",
}
ONE_DIRECTION, TWO_DIRECTIONS = "one_direction", "two_directions"
EVIDENCE = {"keyword": "keyword", "next": "after the keyword", "mean": "mean", "last": "last"}
ALL_BAD, ONE_GOOD, RANDOM_HEADS = SCENARIOS = "all_bad", "one_good", "random"
LEARNED = 0.95
_ADVICE = "Delete it and make it again with: alignlens toy, or run the pipeline again."


@dataclass(frozen=True, eq=False)
class Copy:
    """A copy task: accuracy of every seed at every step, and how often words occur together."""

    name: str
    task: str
    settings: Mapping[str, Any]
    steps: tuple[int, ...]
    accuracy: Numbers
    """Seeds x steps."""
    counts: Numbers | None

    @property
    def seeds(self) -> int:
        """How many seeds ran."""
        return len(self.accuracy)

    def converged(self) -> int:
        """Returns how many seeds end above the threshold."""
        return int((self.accuracy[:, -1] > LEARNED).sum())

    def first_steps(self, most: float = math.inf) -> list[float]:
        """Returns the step at which each seed first passes the threshold; infinity if it does not by ``most``."""
        firsts = []
        for row in self.accuracy:
            passed = [step for step, value in zip(self.steps, row, strict=True) if value > LEARNED and step <= most]
            firsts.append(float(passed[0]) if passed else math.inf)
        return firsts


@dataclass(frozen=True, eq=False)
class Keyword:
    """The keyword task: evidence of positions, and accuracy, by variant; seeds x steps each."""

    name: str
    settings: Mapping[str, Any]
    steps: tuple[int, ...]
    variants: Mapping[str, Mapping[str, Numbers]]
    task: str = KEYWORD


@dataclass(frozen=True, eq=False)
class Heads:
    """Eight heads from good and bad beginnings, and single heads; accuracies are runs x steps."""

    name: str
    settings: Mapping[str, Any]
    steps: tuple[int, ...]
    variant: str
    trials: int
    successes: int
    kinds: Mapping[str, int]
    """Single heads that are good, bad, or neither."""
    single: Numbers
    scenarios: Mapping[str, Numbers]
    task: str = HEADS

    @property
    def heads(self) -> int:
        """How many heads a model of the scenarios has."""
        return int(self.settings.get("heads", HeadsSettings.heads))

    def learned(self, scenario: str) -> tuple[int, int]:
        """Returns how many runs end above the threshold, and how many there are."""
        runs = self.scenarios[scenario]
        return int((runs[:, -1] > LEARNED).sum()), len(runs)


@dataclass(frozen=True)
class Toys:
    """All generated tasks of a results folder."""

    copies: tuple[Copy, ...] = ()
    keywords: tuple[Keyword, ...] = ()
    heads: tuple[Heads, ...] = ()

    def copy(self, task: str) -> Copy | None:
        """Returns a copy task: the one of that name, or else the first of that kind."""
        of_task = [toy for toy in self.copies if toy.task == task]
        return min(of_task, key=lambda toy: toy.name != task, default=None)

    def longest(self, task: str) -> Copy | None:
        """Returns the copy task of that kind that was trained longest."""
        return max((toy for toy in self.copies if toy.task == task), key=lambda toy: toy.steps[-1], default=None)

    def names(self) -> list[str]:
        """Returns the names of all tasks."""
        return [toy.name for toy in self.all()]

    def all(self) -> list[Copy | Keyword | Heads]:
        """Returns all tasks."""
        return [*self.copies, *self.keywords, *self.heads]


def changes(task: str, settings: Mapping[str, Any]) -> str:
    """Returns what a task has that is not as in the paper, apart from how long and how often it is trained."""
    usual = written(TASKS[task]())
    changed = {name: value for name, value in settings.items() if name in usual and value != usual[name]}
    listed = [f"{name} {value}" for name, value in changed.items() if name not in _EFFORT]
    return f"not as in the paper: {', '.join(listed)}" if listed else ""


def read_toys(manifest: Manifest) -> Toys:
    """Returns the generated tasks of a manifest; what is damaged is an InputError."""
    read = [_read(path, names["toy"]) for path, names in manifest.find(TOY)]
    return Toys(
        tuple(toy for toy in read if isinstance(toy, Copy)),
        tuple(toy for toy in read if isinstance(toy, Keyword)),
        tuple(toy for toy in read if isinstance(toy, Heads)),
    )


def _read(path: Path, name: str) -> Copy | Keyword | Heads:
    content = read_json(path, _ADVICE)
    with taking(path, _ADVICE):
        task, settings, steps = values.text(content, "task"), values.mapping(content, "settings"), _steps(content)
        if task == KEYWORD:
            variants = values.mapping(content, "variants")
            seeds = len(content["seeds"])
            by_variant = {
                variant: _variant(values.mapping(variants, variant), seeds, len(steps))
                for variant in (ONE_DIRECTION, TWO_DIRECTIONS)
                if variant in variants
            }
            return Keyword(name, settings, steps, by_variant)
        if task == HEADS:
            return _heads(content, name, settings, steps)
        if task not in COPY_TASKS:
            raise ValueError(f"task is {task!r}, not one of {', '.join(TOYS)}")
        accuracy = _table(content, "accuracy", len(steps), 0, 1)
        if len(accuracy) != len(content["seeds"]):
            raise ValueError(f"accuracy is not of {len(content['seeds'])} seeds")
        counts = _table(content, "counts", None, 0) if content.get("counts") is not None else None
        return Copy(name, task, settings, steps, accuracy, counts)


def _heads(content: dict[str, Any], name: str, settings: dict[str, Any], steps: tuple[int, ...]) -> Heads:
    single, scenarios = values.mapping(content, "single"), values.mapping(content, "scenarios")
    trials = values.whole(single, "trials", least=1)
    return Heads(
        name,
        settings,
        steps,
        values.text(content, "variant"),
        trials,
        values.whole(single, "successes", most=trials),
        {kind: values.whole(single, kind) for kind in ("good", "bad", "rejected")},
        _table(single, "accuracy", len(steps), 0, 1),
        {name: _runs(values.mapping(scenarios, name), len(steps)) for name in SCENARIOS},
    )


def _runs(content: dict[str, Any], steps: int) -> Numbers:
    """Returns the runs of a scenario; there are none if too few heads of a kind were found."""
    return np.zeros((0, steps)) if content["accuracy"] == [] else _table(content, "accuracy", steps, 0, 1)


def _variant(content: dict[str, Any], seeds: int, steps: int) -> dict[str, Numbers]:
    numbers = {name: _table(content, name, steps) for name in EVIDENCE}
    numbers["accuracy"] = _table(content, "accuracy", steps, 0, 1)
    if any(len(rows) != seeds for rows in numbers.values()):
        raise ValueError(f"not every number is of {seeds} seeds")
    return numbers


def _steps(content: dict[str, Any]) -> tuple[int, ...]:
    listed = content["steps"]
    if not isinstance(listed, list) or not listed:
        raise ValueError("steps is not a list of numbers")
    steps = tuple(values.whole({"steps": step}, "steps") for step in listed)
    if list(steps) != sorted(set(steps)):
        raise ValueError("steps are not in ascending order")
    return steps


def _table(
    content: Mapping[str, Any], key: str, columns: int | None, least: float = -math.inf, most: float = math.inf
) -> Numbers:
    """Returns rows of numbers, all as long as they must be."""
    rows = content[key]
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list) for row in rows):
        raise ValueError(f"{key} is not a list of rows")
    size = len(rows[0]) if columns is None else columns
    if any(len(row) != size for row in rows):
        raise ValueError(f"{key} is not rows of {size} numbers")
    return np.array([[values.number({key: value}, key, least, most) for value in row] for row in rows], dtype=float)
