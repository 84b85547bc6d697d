"""Numbers of the study as records: curves, the timeline of training, and what layers lose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.attribution.statistics import lost_shares
from alignlens.io.matrices import Matrices
from alignlens.results.paths import ATTRIBUTED
from alignlens.studies.voita2020.evidence import QUANTITIES, SOURCE, SOURCE_ENTROPY, TARGET_ENTROPY, limits

if TYPE_CHECKING:
    from alignlens.results.manifest import Manifest
    from alignlens.studies.voita2020.evidence import Evidence

CURVE_COLUMNS = (*("dataset", "model", "prefix", "alpha", "quantity", "position", "mean", "low", "high", "sentences"),)
TIMELINE_COLUMNS = (
    *("dataset", "alpha", "update", "divergence", "divergence_low", "divergence_high"),
    *(f"{name}{limit}" for name in ("source", "source_entropy", "target_entropy") for limit in ("", "_low", "_high")),
    "accuracy",
)
LOSS_COLUMNS = ("dataset", "model", "prefix", "method", "layer", "lost_percent")
_ALONG = {"source": SOURCE, "source_entropy": SOURCE_ENTROPY, "target_entropy": TARGET_ENTROPY}


def curve_records(evidence: Evidence) -> list[dict[str, Any]]:
    """Returns every curve, position by position counted from 1, with its band."""
    records = []
    for key, curves in evidence.curves.items():
        for quantity in QUANTITIES:
            numbers = curves.numbers[quantity]
            edges = limits(numbers, evidence.draws)
            for place, mean in enumerate(curves.mean(quantity).tolist()):
                if not np.isnan(mean):
                    numbers_there = {"mean": mean, "low": edges[0, place], "high": edges[1, place]}
                    records.append(
                        {
                            **key._asdict(),
                            "quantity": quantity,
                            "position": place + 1,
                            **{name: round(float(value), 6) for name, value in numbers_there.items()},
                            "sentences": curves.sentences,
                        }
                    )
    return records


def timeline_records(evidence: Evidence) -> list[dict[str, Any]]:
    """Returns the training of the first model, snapshot by snapshot; the weights that it kept are ``final``."""
    records = []
    for (dataset, alpha), snapshots in evidence.timelines.items():
        for snapshot in snapshots:
            columns = {"divergence": snapshot.divergence}
            for name, quantity in _ALONG.items():
                columns[name] = snapshot.curves.numbers[quantity][:, 1:].mean(axis=1)
            record: dict[str, Any] = {"dataset": dataset, "alpha": alpha}
            record["update"] = "final" if snapshot.update is None else snapshot.update
            for name, column in columns.items():
                low, high = limits(column[:, None], evidence.draws)[:, 0]
                values = {name: column.mean(), f"{name}_low": low, f"{name}_high": high}
                record |= {key: round(float(value), 6) for key, value in values.items()}
            right = snapshot.correct
            record["accuracy"] = None if right is None else round(100 * float(right.mean()), 3)
            records.append(record)
    return records


def loss_records(manifest: Manifest) -> list[dict[str, Any]]:
    """Returns what share of relevance each kind of layer loses before rescaling."""
    records = []
    for path, names in manifest.find(ATTRIBUTED):
        if names["model"].startswith("voita_"):
            for (method, kind), share in lost_shares(Matrices.open(path).facts.get("statistics", {})).items():
                about = {"dataset": names["dataset"], "model": names["model"]}
                prefix = "own" if names["decoding"] == "free" else names["split"].removeprefix("voita_")
                loss = {"prefix": prefix, "method": method, "layer": kind, "lost_percent": round(100 * share, 4)}
                records.append({**about, **loss})
    return records
