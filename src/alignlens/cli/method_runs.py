"""Records the scores of methods in the journal: one run per cell of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alignlens.attribution.registry import method as method_of
from alignlens.cli.about import occasion, run_name
from alignlens.cli.model_run import model_run

if TYPE_CHECKING:
    from alignlens.tracking.journal import Journal

_AGAINST_GOLD = ("aer", "aer_low", "aer_high", "precision", "recall", "f1", "links_count")
_METRICS = (*_AGAINST_GOLD, "entropy", "score_mean", "cause_hits", "cause_low", "cause_high", "cause_chance")
_USUAL = "grow-diag-final-lilt"  # the combination of the published tables: its scores stand for both directions
_IDENTITY = ("preset", "dataset", "model", "seed", "weights", "split", "decoding")
_TAGS = ("dataset", "pair", "model", "architecture", "seed", "weights", "split", "decoding", "study")


def record_part(journal: Journal, about: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Records that a part was scored; the scores are recorded when all parts are joined."""
    common = model_run(about, "score-part")
    name = run_name(common["name"], occasion(about), f"part {about['shard']}" if "shard" in about else None)
    journal.run(**{**common, "name": name}).metric("rows", len(rows))


def record_methods(journal: Journal, about: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Records one run per cell of a table: a direction, or both directions combined in every way.

    Single heads of a layer are metrics of the layer's run, where it has one: ``head_aer`` by number.
    """
    pair = "-".join(about.get("pair", []))
    known = {key: str(about[key]) for key in _TAGS if key in about} | ({"pair": pair} if pair else {})
    seed = f"s{about['seed']}" if "seed" in about else None
    cells: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    heads: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    methods = {row["method"] for row in rows}
    for row in rows:
        links = row["links"] if row["kind"] == "direction" else "bidir"
        layer = _layer_of(row)
        if layer is not None and layer in methods:
            heads.setdefault((layer, row["extraction"], links), []).append(row)
        else:
            cells.setdefault((row["method"], row["extraction"], links), []).append(row)
    for (method, extraction, links), combined in cells.items():
        row = next((row for row in combined if row["links"] == _USUAL), combined[0])
        shown = links if row["kind"] == "direction" else " ".join(filter(None, (pair, links)))
        which = {"method": method, "extraction": extraction, "links": links}
        record = journal.run(
            experiment="attribution",
            name=run_name(
                shown,
                about.get("model"),
                seed,
                method,
                occasion(about),
                None if extraction == "ding" else extraction,
            ),
            identity={**{key: str(about[key]) for key in _IDENTITY if key in about}, **which},
            tags={
                **known,
                "direction": links,
                "links": row["links"],
                "method": method,
                "method_name": row["name"],
                "extraction": extraction,
                "kind": row["kind"],
            },
            params={**_axes(about, row, links), **row["parameters"]},
            group=about.get("dataset"),
        )
        record.metrics({key: row[key] for key in _METRICS if row[key] is not None})
        if row["kind"] != "direction":
            record.metrics({f"aer {each['links']}": each["aer"] for each in combined if each["aer"] is not None})
        for each in heads.get((method, extraction, links), []):
            if each["links"] == row["links"] and each["aer"] is not None:
                record.metric("head_aer", each["aer"], each["parameters"]["head"])


def _axes(about: dict[str, Any], row: dict[str, Any], links: str) -> dict[str, str]:
    """Returns what MLflow's charts can draw a metric over: they know parameters, not tags."""
    known: dict[str, str] = {key: str(about[key]) for key in ("model", "decoding") if key in about}
    return {**known, "direction": links, "extraction": row["extraction"], "method": row["name"]}


def _layer_of(row: dict[str, Any]) -> str | None:
    """Returns the method that takes all heads together, if a row is about one of them."""
    if not isinstance(row["parameters"].get("head"), int):
        return None
    whole = {key: value for key, value in row["parameters"].items() if key != "head"}
    return method_of(row["name"], whole).text
