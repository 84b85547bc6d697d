"""The study of Lu et al. 2021: its tables, figures and claims as files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alignlens.display.figures import write_figure
from alignlens.display.weight_heatmap import draw_weights
from alignlens.errors import InputError
from alignlens.metrics.sampled import mean_of
from alignlens.studies.files import Built, write_csv, write_shown
from alignlens.studies.lu2021 import alignments, tables
from alignlens.studies.lu2021.claims import judge
from alignlens.studies.lu2021.evidence import SYSTEMS, Evidence
from alignlens.studies.lu2021.published import stated
from alignlens.studies.lu2021.runs import BASELINE, GATE, calibrated
from alignlens.studies.lu2021.shown import tables as shown
from alignlens.studies.lu2021.shown.figures import figures
from alignlens.studies.lu2021.study import STUDY
from alignlens.studies.page import sections_of
from alignlens.studies.tables import rounded

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.display.pages import Picture
    from alignlens.display.render import Table
    from alignlens.results.scores import Results

_STEMS = ("table1", "table2", "table3", "table4", "table5", "bleu", "models", "layers", "bins", "masks")
_LABELS = {
    **{f"table{number}": f"Table {number}" for number in range(1, 6)},
    "bleu": "BLEU of all models",
    "models": "Models and losses",
    "layers": "Attention and masks by layer",
    "bins": "Figure 7",
    "masks": "Masks as alignments",
}


def build(results: Results, out: Path) -> Built:
    """Writes tables and figures, and returns what they say."""
    evidence = Evidence.of(results)
    if evidence.empty:
        advice = "Run the pipeline first, with this study in its configuration."
        raise InputError("no models of this study below this folder.", results.manifest.root, advice=advice)
    verdicts = judge(evidence)
    by_stem = _write_tables(out, evidence)
    aligned = alignments.layer_lines(results)
    by_stem["masks"] = shown.mask_table(aligned)
    write_csv(out / "masks.csv", alignments.COLUMNS, [line.record() for line in aligned])
    for stem in _STEMS:
        write_shown(out, stem, STUDY.title, [by_stem[stem]])
    pictures = _write_figures(out, evidence, results)
    sections = sections_of({_LABELS[stem]: [by_stem[stem]] for stem in _STEMS if by_stem[stem].rows}, pictures)
    return Built(verdicts, sections, _facts(evidence), list(_STEMS), _summary(evidence), _metrics(evidence))


def _write_tables(out: Path, evidence: Evidence) -> dict[str, Table]:
    """Writes the numbers of every table as CSV, and returns the tables by name."""
    texts, compared = tables.text_records(evidence), tables.compared_records(evidence)
    entropies = tables.entropy_cells(evidence)
    by_stem = {"table1": shown.text_table(texts)}
    write_csv(out / "table1.csv", tables.TEXT_COLUMNS, texts)
    for table in tables.bleu_tables(evidence):
        by_stem[f"table{table.number}"] = shown.bleu_table(table, evidence.draws.level)
        write_csv(out / f"table{table.number}.csv", tables.BLEU_COLUMNS, tables.bleu_records(table))
    by_stem["table5"] = shown.entropy_table(entropies)
    write_csv(out / "table5.csv", tables.ENTROPY_COLUMNS, tables.entropy_records(entropies))
    by_stem["bleu"] = shown.compared_table(compared)
    write_csv(out / "bleu.csv", tables.COMPARED_COLUMNS, compared)
    by_stem |= {"models": shown.model_table(evidence), "layers": shown.layer_table(evidence)}
    by_stem["bins"] = shown.bin_table(evidence)
    for stem in ("models", "layers", "bins"):
        write_csv(out / f"{stem}.csv", *tables.shown_records(by_stem[stem]))
    write_csv(out / "calibration.csv", tables.MEASURED_COLUMNS, tables.measured_records(evidence))
    return by_stem


def _write_figures(out: Path, evidence: Evidence, results: Results) -> dict[str, list[Picture]]:
    """Writes all figures and returns them by label; what an earlier run drew is removed first."""
    for old in [*out.glob("figure*.svg"), *out.glob("figure*.png")]:
        old.unlink()
    written: dict[str, list[Picture]] = {}
    for dataset in dict.fromkeys(test_set.dataset for test_set in evidence.test_sets):
        written.setdefault("Figure 1", []).extend(_write_example(out, evidence, results, dataset))
        for figure in figures(evidence, dataset):
            picture = write_figure(out / figure.name, figure.draw(), figure.caption)
            written.setdefault(figure.label, []).append(picture)
    return written


def _write_example(out: Path, evidence: Evidence, results: Results, dataset: str) -> list[Picture]:
    """Writes one sentence of the first direction in which there is one to draw."""
    for test_set in evidence.test_sets:
        if test_set.dataset != dataset:
            continue
        sentence = alignments.read_sentence(results.manifest, test_set, evidence.texts.get(dataset))
        if sentence is not None:
            caption = (
                f"Figure 1, {test_set}: attention of sentence {sentence.number + 1}, its mask, and calibrated attention"
            )
            drawing = draw_weights(sentence.source, sentence.target, sentence.matrices, caption)
            description = f"{caption}. Last decoder layer, mean over heads; not compared with the paper."
            return [write_figure(out / f"figure1-{dataset}", drawing, description)]
    return []


def _facts(evidence: Evidence) -> list[tuple[str, str]]:
    draws = evidence.draws
    looked = {run.test_set: evidence.sentences(run) for run in evidence.calibrations}
    return [
        ("test sets", ", ".join(map(str, evidence.test_sets)) or "none"),
        (
            "analysed",
            ", ".join(f"{test_set}: {number:,} sentences" for test_set, number in looked.items()) or "none",
        ),
        ("more parameters", _more_parameters(evidence)),
        ("intervals", f"{draws.level:g} % bootstrap over sentences ({draws.samples} samples, seed {draws.seed})"),
    ]


def _more_parameters(evidence: Evidence) -> str:
    """Returns what calibration with the gate adds, beside print."""
    parts = [f"in print {stated()['extra_parameters'] / 1e6:.0f} million"]
    for test_set in evidence.test_sets:
        gate, plain = (evidence.cards.get(test_set.run(name)) for name in (calibrated(GATE), BASELINE))
        if gate is not None and plain is not None:
            more, all_of = gate.parameters - plain.parameters, plain.parameters
            parts.append(f"{test_set} {more:,} to {all_of:,} ({100 * more / all_of:.1f} %)")
    return "; ".join(parts)


def _summary(evidence: Evidence) -> dict[str, Any]:
    """Returns BLEU of the four systems in the form that the report reads."""
    test_sets = [
        each for each in evidence.test_sets if any(each.run(name) in evidence.translations for name in SYSTEMS)
    ]
    rows = []
    for model in SYSTEMS:
        cells = []
        for test_set in test_sets:
            estimate = evidence.estimate(evidence.bleu(test_set.run(model)))
            numbers = {"mean": estimate.mean, "low": estimate.low, "high": estimate.high}
            cells.append({**{key: rounded(value) for key, value in numbers.items()}, "reason": estimate.reason})
        kind = "plain" if model == BASELINE else "calibrated"
        rows.append({"architecture": kind, "method": tables.short(model), "cells": cells})
    shown_rates = {
        "dataset": "bleu",
        "pair": [],
        "sentences": max((each.sentences for each in evidence.comparisons), default=0),
        "caption": "BLEU of a Transformer and of its calibrated variants",
        "labels": ["attention", "system"],
        "columns": list(map(str, test_sets)),
        "rows": rows,
    }
    names = list(dict.fromkeys(test_set.dataset for test_set in evidence.test_sets))
    return {"error_rates": [shown_rates] if test_sets else [], "datasets": names}


def _metrics(evidence: Evidence) -> dict[str, float]:
    """Returns numbers under names for the tracker."""
    metrics = {}
    for run in dict.fromkeys((*evidence.calibrations, *evidence.translations)):
        place = f"{run.dataset}/{run.direction}/{run.model}"
        if (bleu := evidence.bleu(run)) is not None:
            metrics[f"{place}/bleu"] = bleu.value
        for quantity in ("mask", "jsd", "entropy_change", "tau_original", "tau_mask"):
            if layers := evidence.by_layer(run, quantity):
                metrics[f"{place}/{quantity}"] = mean_of(layers).value
    return metrics
