"""The study of Voita et al. 2020: its figures, tables and claims as files."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from alignlens.display.figures import write_figure
from alignlens.errors import InputError
from alignlens.studies.files import Built, write_csv, write_shown
from alignlens.studies.page import sections_of
from alignlens.studies.voita2020 import tables
from alignlens.studies.voita2020.claims import judge
from alignlens.studies.voita2020.evidence import SOURCE, SOURCE_ENTROPY, TARGET_ENTROPY, Evidence
from alignlens.studies.voita2020.shown.figures import figures
from alignlens.studies.voita2020.shown.tables import loss_table, timeline_table
from alignlens.studies.voita2020.study import STUDY

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.display.pages import Picture
    from alignlens.results.scores import Results

_TABLES = {"timeline": "Figure 8", "losses": "Lost relevance"}


def build(results: Results, out: Path) -> Built:
    """Writes tables and figures, and returns what they say."""
    evidence = Evidence.of(results)
    if not evidence.curves:
        advice = "Run the pipeline first, with this study in its configuration."
        raise InputError(
            "no relevance of models of this study below this folder.", results.manifest.root, advice=advice
        )
    verdicts = judge(evidence)
    write_csv(out / "curves.csv", tables.CURVE_COLUMNS, tables.curve_records(evidence))
    along, lost = tables.timeline_records(evidence), tables.loss_records(results.manifest)
    shown = {"timeline": timeline_table(along), "losses": loss_table(lost)}
    for stem, columns, records in (
        ("timeline", tables.TIMELINE_COLUMNS, along),
        ("losses", tables.LOSS_COLUMNS, lost),
    ):
        write_csv(out / f"{stem}.csv", columns, records)
        write_shown(out, stem, STUDY.title, [shown[stem]])
    placed = {label: [shown[stem]] for stem, label in _TABLES.items() if shown[stem].rows}
    sections = sections_of(placed, _write_figures(out, evidence))
    sizes = {key.dataset: curves for key, curves in evidence.curves.items()}
    facts = [
        ("datasets", ", ".join(evidence.datasets)),
        ("sentences", ", ".join(f"{name}: {each.sentences} of {each.positions} steps" for name, each in sizes.items())),
        ("relevance", ", ".join(f"alpha {alpha:g}" for alpha in evidence.alphas)),
    ]
    return Built(verdicts, sections, facts, ["timeline", "losses"], _summary(evidence), _metrics(evidence))


def _write_figures(out: Path, evidence: Evidence) -> dict[str, list[Picture]]:
    """Writes all figures and returns them by label; what an earlier run drew is removed first."""
    for old in [*out.glob("figure*.svg"), *out.glob("figure*.png")]:
        old.unlink()
    written: dict[str, list[Picture]] = {}
    for alpha, dataset in product(evidence.alphas, evidence.datasets):
        for figure in figures(evidence, dataset, alpha):
            picture = write_figure(out / figure.name, figure.draw(), figure.caption)
            written.setdefault(figure.label, []).append(picture)
    return written


def _summary(evidence: Evidence) -> dict[str, Any]:
    return {"datasets": evidence.datasets, "alphas": evidence.alphas, "error_rates": []}


def _metrics(evidence: Evidence) -> dict[str, float]:
    """Returns the means of every model and kind of prefixes, for the tracker."""
    metrics = {}
    for key, curves in evidence.curves.items():
        for name, quantity in (
            ("source", SOURCE),
            ("source_entropy", SOURCE_ENTROPY),
            ("target_entropy", TARGET_ENTROPY),
        ):
            place = f"{key.dataset}/{key.model}/{key.prefix}/alpha {key.alpha:g}/{name}"
            metrics[place] = float(curves.numbers[quantity][:, 1:].mean())
    return metrics
