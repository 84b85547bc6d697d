"""The timeline of training, and what layers lose, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alignlens.display.render import Cell, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ALONG = {
    "divergence": "divergence",
    "source": "source share",
    "source_entropy": "source entropy",
    "target_entropy": "target entropy",
}


def timeline_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Returns the training of the first model, snapshot by snapshot (Figures 8 and 9)."""
    header = ("dataset", "alpha", "update", *_ALONG.values(), "accuracy (%)")
    rows = []
    for record in records:
        update = record["update"]
        row = [Cell(record["dataset"]), Cell(f"{record['alpha']:g}", record["alpha"])]
        row.append(Cell(update) if isinstance(update, str) else Cell(f"{update:,}", update))
        for name in _ALONG:
            value, low, high = (record[f"{name}{limit}"] for limit in ("", "_low", "_high"))
            row.append(Cell(f"{value:.3f} [{low:.3f}, {high:.3f}]", value))
        right = record["accuracy"]
        row.append(Cell("–", muted=True) if right is None else Cell(f"{right:.1f}", right))
        rows.append(row)
    notes = [
        "Divergence is KL(final || snapshot) over source and prefix, in nats; shares are renormalised without the "
        "start symbol. Means over positions after the first and over sentences, bootstrap intervals over sentences."
    ]
    return Table("voita2020-timeline", "The training of the first model", header, rows, notes, labels=3)


def loss_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Returns what each kind of layer loses, a row per model, text and method."""
    kinds = list(dict.fromkeys(record["layer"] for record in records))
    groups: dict[tuple[str, ...], dict[str, float]] = {}
    for record in records:
        key = tuple(record[name] for name in ("dataset", "model", "prefix", "method"))
        groups.setdefault(key, {})[record["layer"]] = record["lost_percent"]
    rows = [
        [
            *map(Cell, key),
            *(Cell(f"{by_kind[kind]:.2f}", by_kind[kind]) if kind in by_kind else Cell("–") for kind in kinds),
        ]
        for key, by_kind in groups.items()
    ]
    notes = ["Before rescaling, in percent of the relevance that arrives there; rescaling gives it back."]
    header = ("dataset", "model", "prefix", "method", *kinds)
    return Table("voita2020-losses", "Relevance that layers lose", header, rows, notes, labels=4)
