"""The tables of models: one row per model and direction, several seeds as mean and spread."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from alignlens.display.render import Cell, Table
from alignlens.report.models import why_absent

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from alignlens.report.collect import Failure
    from alignlens.report.models import ModelCard, ModelId

Group = tuple[str, str]  # direction and model


@dataclass(frozen=True)
class Column:
    """A measure as a column: where it comes from, how it is printed, and whether more or less is better."""

    name: str
    field: str
    form: str
    better: int = 0
    scale: float = 1.0
    spread: bool = True
    training: bool = False
    """Whether it is about the training, which is unknown for a model from elsewhere."""

    def values(self, seeds: Sequence[ModelCard]) -> list[float]:
        """Returns what was measured, one value per seed."""
        numbers = (float(getattr(item, self.field)) * self.scale for item in seeds)
        return [value for value in numbers if not math.isnan(value)]

    def printed(self, value: float) -> str:
        """Returns a value as it stands in the table."""
        return format(value, self.form)


_COLUMNS = (
    Column("parameters", "parameters", ",.0f"),
    Column("updates", "updates", ",.0f", training=True),
    Column("epochs", "epochs", ".4g", training=True),
    Column("dev loss", "dev_loss", ".3f", better=-1, training=True),
    Column("accuracy (%)", "accuracy", ".1f", better=1, scale=100.0),
    Column("perplexity", "perplexity", ".2f", better=-1),
    Column("BLEU", "bleu", ".1f", better=1),
    Column("seconds", "seconds", ",.0f", spread=False, training=True),
    Column("tokens/s", "tokens_per_second", ",.0f", spread=False, training=True),
)
_NARROW = ("accuracy (%)", "perplexity", "BLEU", "seconds")


def model_datasets(models: Sequence[ModelCard], expected: Sequence[ModelId] = ()) -> list[str]:
    """Returns the datasets that models were or should be trained on, in order."""
    return list(dict.fromkeys([*(name.dataset for name in expected), *(item.id.dataset for item in models)]))


def models_table(
    dataset: str,
    models: Sequence[ModelCard],
    expected: Sequence[ModelId] = (),
    failures: Sequence[Failure] = (),
    narrow: bool = False,
) -> Table:
    """Returns every model of a dataset by direction; ``narrow`` leaves out what a terminal has no room for.

    That is also any model that was trained and not tried on the test text, where others were.
    """
    columns = [column for column in _COLUMNS if not narrow or column.name in _NARROW]
    groups = _groups(dataset, models, expected)
    if narrow:
        tried = {
            group: members for group, members in groups.items() if not members[1] or any(map(_is_tried, members[1]))
        }
        groups = tried or groups
    best = {column.name: _best(column, groups) for column in columns if column.better}
    rows = []
    for group, (names, trained) in groups.items():
        direction, model = group
        labels = [
            Cell(model),
            Cell(_architecture(trained)),
            Cell(direction),
            Cell(", ".join(str(name.seed) for name in names)),
        ]
        if narrow:
            del labels[1]
        absent = [name for name in names if name not in {item.id for item in trained}]
        why = why_absent(absent[0], failures) if absent else "not measured"
        rows.append([*labels, *(_cell(column, trained, why, best.get(column.name, {})) for column in columns)])
    header = ("model", *(() if narrow else ("architecture",)), "direction", "seed", *(item.name for item in columns))
    notes = _notes([item for _, trained in groups.values() for item in trained], narrow)
    caption = f"{dataset}: translation models on the test text"
    return Table(f"models-{dataset}", caption, header, rows, notes, labels=3 if narrow else 4)


def models_form(models: Sequence[ModelCard]) -> pd.DataFrame:
    """Returns one record per dataset, direction, model and seed; an empty field where it was not measured."""
    import pandas as pd

    fields = [
        "architecture", "parameters", "updates", "epochs", "kept", "dev_loss", "accuracy", "perplexity", "bleu",
        "signature", "seconds", "tokens_per_second",
    ]  # fmt: skip
    ids = ["dataset", "direction", "model", "seed"]
    records = [
        [*(getattr(item.id, name) for name in ids), *(getattr(item, name) for name in fields)] for item in models
    ]
    frame = pd.DataFrame.from_records(records, columns=[*ids, *fields])
    # Whole numbers also where some are missing.
    return frame.astype({"updates": "Int64"}).round(4)


def best_translator(dataset: str, direction: str, models: Sequence[ModelCard]) -> tuple[str, float] | None:
    """Returns the model with the highest BLEU (mean over seeds) in a direction, or None if none was scored."""
    column = next(column for column in _COLUMNS if column.field == "bleu")
    scored = {
        model: fmean(values)
        for (of_direction, model), (_, trained) in _groups(dataset, models, ()).items()
        if of_direction == direction and (values := column.values(trained))
    }
    return max(scored.items(), key=lambda entry: entry[1], default=None)


def _groups(
    dataset: str, models: Sequence[ModelCard], expected: Sequence[ModelId]
) -> dict[Group, tuple[list[ModelId], list[ModelCard]]]:
    """Returns the seeds of every direction and model: those that there should be, and those that there are."""
    ids = [name for name in (*expected, *(item.id for item in models)) if name.dataset == dataset]
    directions = list(dict.fromkeys(name.direction for name in ids))
    ordered = sorted(dict.fromkeys(ids), key=lambda name: directions.index(name.direction))
    groups: dict[Group, tuple[list[ModelId], list[ModelCard]]] = {}
    for name in ordered:
        names, trained = groups.setdefault((name.direction, name.model), ([], []))
        names.append(name)
        trained += [item for item in models if item.id == name]
    return groups


def _is_tried(item: ModelCard) -> bool:
    return not (math.isnan(item.accuracy) and math.isnan(item.bleu))


def _best(column: Column, groups: dict[Group, tuple[list[ModelId], list[ModelCard]]]) -> dict[str, str]:
    """Returns the best printed mean of every direction in which there is something to compare."""
    best = {}
    for direction in {of_direction for of_direction, _ in groups}:
        rows = [
            column.values(trained) for (of_direction, _), (_, trained) in groups.items() if of_direction == direction
        ]
        means = [fmean(values) * column.better for values in rows if values]
        if len(means) > 1:
            best[direction] = column.printed(max(means) * column.better)
    return best


def _cell(column: Column, trained: Sequence[ModelCard], why: str, best: dict[str, str]) -> Cell:
    values = column.values(trained)
    if not values:
        unknown = column.training and trained and all(item.imported for item in trained)
        return Cell("–" if unknown else why, muted=True)
    mean = fmean(values)
    strong = best.get(trained[0].id.direction) == column.printed(mean)
    several = len(set(values)) > 1
    spread = f" ±{column.printed(stdev(values))}" if several and column.spread else ""
    detail = ", ".join(column.printed(value) for value in values) if several else ""
    return Cell(column.printed(mean) + spread, number=mean, strong=strong, detail=detail)


def _architecture(trained: Sequence[ModelCard]) -> str:
    return ", ".join(dict.fromkeys(item.architecture for item in trained)) or "not known"


def _notes(models: Sequence[ModelCard], narrow: bool) -> list[str]:
    notes = [
        "Accuracy and perplexity are per piece of the reference with its end, given the pieces before it; they compare "
        "models of one vocabulary only. The best of each direction is bold.",
    ]
    if not narrow:
        notes.append("Dev loss is that of the best checkpoint, in nats per piece; seconds include validation.")
    if any(item.imported for item in models):
        notes.append("– means that a model from elsewhere was not trained here.")
    if len({item.id.seed for item in models}) > 1:
        notes.append("± is the standard deviation over seeds.")
    notes += [f"BLEU by sacreBLEU: {text}" for text in dict.fromkeys(item.signature for item in models) if text]
    return notes
