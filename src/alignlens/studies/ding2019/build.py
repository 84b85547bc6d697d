"""The study of Ding et al. 2019: its tables, figures and claims as files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alignlens.display.figures import write_figure
from alignlens.results.paths import FORCED, FREE
from alignlens.studies.ding2019.causes import COLUMNS as CAUSE_COLUMNS
from alignlens.studies.ding2019.causes import cause_table, records
from alignlens.studies.ding2019.claims import judge
from alignlens.studies.ding2019.curves import COLUMNS as CURVE_COLUMNS
from alignlens.studies.ding2019.curves import points
from alignlens.studies.ding2019.labels import label_changes
from alignlens.studies.ding2019.shown.curves import draw_noise_curves
from alignlens.studies.ding2019.shown.figures import figures
from alignlens.studies.ding2019.shown.tables import causes_table, study_table
from alignlens.studies.ding2019.study import STUDY
from alignlens.studies.ding2019.summary import short_causes, short_error_rates
from alignlens.studies.ding2019.tables import entropy_table, error_table, variants_table
from alignlens.studies.examples import read_example
from alignlens.studies.files import Built, write_csv, write_shown
from alignlens.studies.page import sections_of
from alignlens.studies.tables import LONG_COLUMNS, long_form

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.display.pages import Picture
    from alignlens.display.render import Table
    from alignlens.results.scores import Results
    from alignlens.studies.ding2019.causes import CauseTable
    from alignlens.studies.tables import StudyTable

_FILES = {"1": "table1", "2": "table2", "3": "table3", "variants": "variants"}
_LABELS = {"1": "Table 1", "2": "Table 2", "3": "Table 3", "variants": "Variants"}
_FIGURES = {"figure1": "Figure 1", "figure2": "Figure 2", "figure3": "Figure 3"}


def build(results: Results, out: Path) -> Built:
    """Writes tables and figures, and returns what they say."""
    verdicts = judge(results, label_changes(results))
    tables = _write_tables(out, results)
    causes, tables["True causes"] = _write_causes(out, results)
    figures = {**_write_figures(out, results), "Noise": _write_curves(out, results)}
    facts = [
        ("datasets", ", ".join(_described(dataset) for dataset in results.datasets)),
        ("models", ", ".join(dict.fromkeys(run.model for run in results.models)) or "none attributed"),
        ("model seeds", ", ".join(dict.fromkeys(run.seed for run in results.models)) or "none"),
        (
            "noise",
            f"σ = {results.protocol.sigma:g} of a sentence's range of values, n = {results.protocol.samples} copies",
        ),
        ("intervals", "; ".join(results.intervals) or "not recorded"),
    ]
    summary = {"error_rates": short_error_rates(results), "causes": short_causes(causes)}
    names = [*_FILES.values(), *(["causes"] if causes else []), "samples"]
    return Built(verdicts, sections_of(tables, figures), facts, names, summary)


def _write_tables(out: Path, results: Results) -> dict[str, list[Table]]:
    """Writes every table of all datasets as CSV, Markdown, LaTeX and HTML, and returns them by label."""
    by_label: dict[str, list[Table]] = {}
    for number, stem in _FILES.items():
        selected = [table for table in _study_tables(results) if table.table == number]
        by_label[_LABELS[number]] = shown = [study_table(table, results) for table in selected]
        write_csv(out / f"{stem}.csv", LONG_COLUMNS, long_form(selected))
        write_shown(out, stem, STUDY.title, shown)
    return by_label


def _write_causes(out: Path, results: Results) -> tuple[list[CauseTable], list[Table]]:
    """Writes the hits among true causes where they are known, and returns them with their tables."""
    for old in out.glob("causes.*"):
        old.unlink()
    causes = [table for dataset in results.datasets if (table := cause_table(results, dataset)) is not None]
    shown = [causes_table(table, results) for table in causes]
    if causes:
        write_csv(out / "causes.csv", CAUSE_COLUMNS, records(causes))
        write_shown(out, "causes", STUDY.title, shown)
    return causes, shown


def _study_tables(results: Results) -> list[StudyTable]:

    return [
        table
        for dataset in results.datasets
        for table in (
            error_table(results, dataset, FORCED),
            error_table(results, dataset, FREE),
            entropy_table(results, dataset),
            variants_table(results, dataset),
        )
    ]


def _write_figures(out: Path, results: Results) -> dict[str, list[Picture]]:
    """Writes the heatmaps of one sentence of every dataset whose matrices are there, and returns them by label."""
    written: dict[str, list[Picture]] = {}
    for dataset in results.datasets:
        example = read_example(results, dataset)
        for name, (drawing, caption) in figures(example, results.protocol).items() if example is not None else ():
            picture = write_figure(out / f"{name}-{dataset.name}", drawing, caption)
            written.setdefault(_FIGURES[name], []).append(picture)
    return written


def _write_curves(out: Path, results: Results) -> list[Picture]:
    """Writes what noise does to the error rate; the table always, the figure if there is anything to draw."""
    curve = points(results)
    write_csv(out / "samples.csv", CURVE_COLUMNS, [point.record() for point in curve])
    if not curve:
        return []
    caption = "Signed saliency: error rate against noisy copies and noise level"
    description = (
        f"{caption}. A pass is one forward run and one backward run per target piece; shaded: interval over sentences."
    )
    return [write_figure(out / "samples", draw_noise_curves(curve, caption), description)]


def _described(dataset: Any) -> str:
    counterpart = f"printed as {dataset.published}" if dataset.published else "not in the paper"
    return f"{dataset.name} ({'-'.join(dataset.pair)}, {counterpart})"
