"""The study of Snell et al. 2021: its tables, figures and claims as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.display.figures import write_figure
from alignlens.errors import InputError
from alignlens.studies.files import Built, write_csv, write_shown
from alignlens.studies.page import sections_of
from alignlens.studies.snell2021 import optimal, sizes, tables, toy_tables
from alignlens.studies.snell2021.claims import judge
from alignlens.studies.snell2021.evidence import Evidence
from alignlens.studies.snell2021.shown.copying import draw_copying, draw_heads
from alignlens.studies.snell2021.shown.counts import draw_task_counts, draw_text_counts
from alignlens.studies.snell2021.shown.keyword import draw_keyword, keyword_note
from alignlens.studies.snell2021.shown.sizes import sizes_table
from alignlens.studies.snell2021.shown.tables import agreement_table
from alignlens.studies.snell2021.shown.trajectories import (
    PROBES_NOTE,
    SECOND_RUN_NOTE,
    draw_probes,
    draw_second_run,
)
from alignlens.studies.snell2021.study import STUDY
from alignlens.studies.snell2021.summary import metrics, short_agreements
from alignlens.studies.snell2021.toys import CONTROL, MIXTURE, PERMUTATION, PERMUTED_COPY

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.display.pages import Picture
    from alignlens.display.render import Table
    from alignlens.results.scores import Results

_FIGURE3 = (PERMUTATION, CONTROL, MIXTURE)
_FIGURES = ("figure2-*", "figure3", "figure6-*", "figure7-*", "probes", "permuted", "counts-*")


def build(results: Results, out: Path) -> Built:
    """Writes tables and figures, and returns what they say."""
    evidence = Evidence.of(results)
    if evidence.empty:
        advice = "Run the pipeline first, with this study in its configuration."
        raise InputError(
            "no agreement, generated task or count below this folder.", results.manifest.root, advice=advice
        )
    verdicts = judge(evidence)
    _remove_old_figures(out)
    shown = _write_tables(out, results, evidence)
    best = optimal.read_optimal(results.manifest, evidence)
    write_csv(out / "optimal.csv", optimal.COLUMNS, optimal.optimal_records(best))
    shown["Section A.1"] = [optimal.optimal_table(best)] if best else []
    toys = toy_tables.toy_records(evidence)
    write_csv(out / "toys.csv", toy_tables.COLUMNS, toys)
    shown["Generated tasks"] = [toy_tables.toys_table(evidence, toys)] if toys else []
    figures = {**_write_agreement(out, evidence), **_write_toys(out, evidence), **_write_counts(out, evidence)}
    tasks = list(dict.fromkeys(each.task for each in evidence.agreements))
    facts = [
        ("tasks", ", ".join(tasks) or "none compared"),
        ("generated tasks", ", ".join(evidence.toys.names()) or "none"),
        ("counted texts", ", ".join(f"{text.dataset} {text.direction}" for text in evidence.counts) or "none"),
        ("intervals", "; ".join(evidence.intervals) or "not recorded"),
    ]
    summary = {
        "error_rates": short_agreements(evidence),
        "datasets": tasks,
        "intervals": evidence.intervals,
        "toys": toys,
    }
    stems = [*(f"table{number}" for number in range(2, 12)), "optimal", "toys"]
    return Built(verdicts, sections_of(shown, figures), facts, stems, summary, metrics(evidence))


def _remove_old_figures(out: Path) -> None:
    """Removes what an earlier run drew: a task that has left the configuration leaves no figure."""
    for stem in _FIGURES:
        for suffix in (".svg", ".png"):
            for old in out.glob(f"{stem}{suffix}"):
                old.unlink()


def _write_tables(out: Path, results: Results, evidence: Evidence) -> dict[str, list[Table]]:
    """Writes Tables 2 to 11 as CSV, Markdown, LaTeX and HTML, and returns them by label."""
    by_stem: dict[str, Table] = {}
    for table in tables.agreement_tables(evidence.agreements):
        by_stem[table.stem] = agreement_table(table, evidence.intervals)
        write_csv(out / f"{table.stem}.csv", tables.COLUMNS, tables.records(table))
    names = dict.fromkeys(each.task for each in evidence.agreements if not each.classified)
    lines = sizes.size_lines(sizes.read_texts(results.manifest, names))
    by_stem["table9"] = sizes_table(lines)
    write_csv(out / "table9.csv", sizes.COLUMNS, sizes.size_records(lines))
    for stem, shown in by_stem.items():
        write_shown(out, stem, STUDY.title, [shown])
    return {f"Table {stem.removeprefix('table')}": [shown] for stem, shown in by_stem.items()}


def _write_agreement(out: Path, evidence: Evidence) -> dict[str, list[Picture]]:
    """Writes agreement along training, and returns the figures by label."""
    written: dict[str, list[Picture]] = {"Figure 2": [], "Section A.7": []}
    for each in evidence.dev():
        caption = f"Figure 2, {each.task}: a second run along its training"
        drawing = draw_second_run(each, caption)
        if drawing is not None:
            description = f"{caption}. {SECOND_RUN_NOTE}"
            written["Figure 2"].append(write_figure(out / f"figure2-{each.task}", drawing, description))
    caption = "Probes along their training (section A.7): agreement with attention and saliency"
    probes = draw_probes(evidence.dev(), caption)
    if probes is not None:
        written["Section A.7"].append(write_figure(out / "probes", probes, f"{caption}. {PROBES_NOTE}"))
    return written


def _write_toys(out: Path, evidence: Evidence) -> dict[str, list[Picture]]:
    """Writes Figures 3, 6 and 7, and copying through another order of positions, and returns them by label."""
    written: dict[str, list[Picture]] = {"Figure 3": [], "Section 6.2": [], "Figure 6": [], "Figure 7": []}
    copies = [toy for task in _FIGURE3 if (toy := evidence.toys.copy(task)) is not None]
    if copies:
        caption = "Figure 3: accuracy along training, by seed"
        written["Figure 3"].append(write_figure(out / "figure3", draw_copying(copies, caption), caption))
    permuted, plain = evidence.toys.longest(PERMUTED_COPY), evidence.toys.longest(CONTROL)
    if permuted is not None:
        caption = "Section 6.2: copying through another order of positions, and plain copying"
        both = [toy for toy in (permuted, plain) if toy is not None]
        written["Section 6.2"].append(write_figure(out / "permuted", draw_copying(both, caption), caption))
    for heads in evidence.toys.heads:
        caption = f"Figure 6: heads from good and bad initialisations, {heads.variant} variant"
        drawing = draw_heads(heads, evidence, caption)
        written["Figure 6"].append(write_figure(out / f"figure6-{heads.name}", drawing, caption))
    for keyword in evidence.toys.keywords:
        caption = "Figure 7: where the evidence for a keyword sits along training"
        description = f"{caption}. {keyword_note(keyword)}"
        drawing = draw_keyword(keyword, caption)
        written["Figure 7"].append(write_figure(out / f"figure7-{keyword.name}", drawing, description))
    return written


def _write_counts(out: Path, evidence: Evidence) -> dict[str, list[Picture]]:
    """Writes tables of counts, as in Figures 1, 4, 5 and 8, and returns them by label."""
    written: dict[str, list[Picture]] = {"Figure 1": [], "Figures 4, 5 and 8": []}
    for text in evidence.counts:
        caption = f"As Figure 1, {text.dataset} {text.direction}: words that occur together"
        name = f"counts-{text.dataset}-{text.direction}"
        written["Figure 1"].append(write_figure(out / name, draw_text_counts(text, caption), caption))
    copies = [toy for task in _FIGURE3 if (toy := evidence.toys.copy(task)) is not None and toy.counts is not None]
    if copies:
        caption = "As Figures 4, 5 and 8: words that occur together in generated tasks"
        drawing = draw_task_counts(copies, caption)
        written["Figures 4, 5 and 8"].append(write_figure(out / "counts-tasks", drawing, caption))
    return written
