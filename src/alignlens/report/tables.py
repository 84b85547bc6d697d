"""The tables of a preset: error rates with intervals, precision and recall, and what the jobs cost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from alignlens.display.render import Cell, Table
from alignlens.report.collect import reason_missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from alignlens.report.collect import Failure, Job
    from alignlens.results.scores import AlignerId, Score, ScoredAligner

DIRECTION, SYMMETRISED = "direction", "symmetrised"

_NOT_A_COST = ("score",)


def datasets_of(scored: Sequence[ScoredAligner], expected: Sequence[AlignerId] = ()) -> list[str]:
    """Returns the datasets in the order of their first run."""
    return list(dict.fromkeys([item.id.dataset for item in scored] + [run.dataset for run in expected]))


def run_label(run: AlignerId, train_pairs: int | None = None, sizes: int = 1) -> str:
    """Returns a run's name for people; ``sizes`` is how many sizes its aligner has."""
    label = f"{run.aligner}, {run.text}"
    if run.size != "all":
        return label + f", {int(run.size):,} pairs" if run.size.isdecimal() else label + f", {run.size}"
    if sizes > 1:
        return label + (f", all {train_pairs:,} pairs" if train_pairs is not None else ", all pairs")
    return label


def labels_of(
    dataset: str, scored: Sequence[ScoredAligner], expected: Sequence[AlignerId] = ()
) -> dict[AlignerId, str]:
    """Returns the name of every run of a dataset that has scores or should have, in the order expected."""
    pairs = {item.id: item.train_pairs for item in scored if item.id.dataset == dataset}
    runs = list(dict.fromkeys([*(run for run in expected if run.dataset == dataset), *pairs]))
    sizes = {run.aligner: len({other.size for other in runs if other.aligner == run.aligner}) for run in runs}
    return {run: run_label(run, pairs.get(run), sizes[run.aligner]) for run in runs}


def aer_table(
    dataset: str,
    scored: Sequence[ScoredAligner],
    expected: Sequence[AlignerId] = (),
    failures: Sequence[Failure] = (),
) -> Table:
    """Returns all runs of a dataset (rows) by directions and symmetrisations (columns)."""
    own = {item.id: item for item in scored if item.id.dataset == dataset}
    columns = _link_columns(list(own.values()))
    best = {
        links: _lowest([row.aer for item in own.values() for row in item.rows if row.links == links])
        for links in columns
    }
    rows = []
    for run, label in labels_of(dataset, scored, expected).items():
        item = own.get(run)
        rows_by_links = {row.links: row for row in item.rows} if item else {}
        why = "not scored" if item else reason_missing(run, failures)
        cells = [
            aer_cell(rows_by_links[links], best[links]) if links in rows_by_links else Cell(why, muted=True)
            for links in columns
        ]
        rows.append([Cell(label), *cells])
    return Table(f"aer-{dataset}", _caption(dataset, list(own.values())), ("aligner", *columns), rows, _notes(own))


def aer_cell(row: Score, best: float | None = None) -> Cell:
    """Returns error rate and half width of its interval, strong if it is the best to the printed digit."""
    if math.isnan(row.aer):
        return Cell("undefined", muted=True, detail="neither links nor sure gold links to count")
    return Cell(
        f"{row.aer:.1f} ±{row.half_width:.1f}" if not math.isnan(row.half_width) else f"{row.aer:.1f}",
        number=row.aer,
        strong=best is not None and round(row.aer, 1) == round(best, 1),
        detail=(
            f"AER {row.aer:.2f} [{row.low:.2f}, {row.high:.2f}], precision {row.precision:.1f}, "
            f"recall {row.recall:.1f}, {row.links_count:,} links"
        ),
    )


def detail_table(dataset: str, scored: Sequence[ScoredAligner]) -> Table:
    """Returns precision, recall, F1 and number of links of each run's best direction and symmetrisation."""
    own = [item for item in scored if item.id.dataset == dataset]
    labels = labels_of(dataset, scored)
    chosen = [(item, row) for item in own for kind in (DIRECTION, SYMMETRISED) if (row := item.best(kind)) is not None]
    best = _lowest([row.aer for _, row in chosen])
    rows = [
        [
            Cell(labels[item.id]),
            Cell(row.links),
            aer_cell(row, best),
            *(_percent(value) for value in (row.precision, row.recall, row.f1)),
            *(Cell(f"{count:,}", count) for count in (row.links_count, row.sure, row.possible)),
        ]
        for item, row in chosen
    ]
    header = ("aligner", "links", "AER", "precision", "recall", "F1", "links found", "sure", "possible")
    caption = f"{dataset}: best direction and best symmetrisation of each run"
    notes = ["Chosen by AER on the same test set; a choice made in advance would do slightly worse."]
    return Table(f"detail-{dataset}", caption, header, rows, notes, labels=2)


def summary_table(
    dataset: str,
    scored: Sequence[ScoredAligner],
    expected: Sequence[AlignerId] = (),
    failures: Sequence[Failure] = (),
) -> Table:
    """Returns a table narrow enough for a terminal: both directions and the best symmetrisation of each run."""
    own = {item.id: item for item in scored if item.id.dataset == dataset}
    directions = [row.links for row in next(iter(own.values())).rows if row.kind == DIRECTION] if own else []
    best = {
        links: _lowest([row.aer for item in own.values() for row in item.rows if row.links == links])
        for links in directions
    }
    best_symmetrised = _lowest([row.aer for item in own.values() if (row := item.best(SYMMETRISED))])
    rows = []
    for run, label in labels_of(dataset, scored, expected).items():
        item = own.get(run)
        why = Cell("not scored" if item else reason_missing(run, failures), muted=True)
        rows_by_links = {row.links: row for row in item.rows} if item else {}
        cells = [aer_cell(rows_by_links[links], best[links]) if links in rows_by_links else why for links in directions]
        symmetrised = item.best(SYMMETRISED) if item else None
        cells += [aer_cell(symmetrised, best_symmetrised), Cell(symmetrised.links)] if symmetrised else [why, why]
        rows.append([Cell(label), *cells])
    header = ("aligner", *directions, "best symmetrised", "by")
    return Table(f"summary-{dataset}", _caption(dataset, list(own.values())), header, rows, _notes(own))


def runtime_tables(jobs: Sequence[Job]) -> list[Table]:
    """Returns what the jobs cost, by rule and job by job; no table where nothing was measured."""
    if not jobs:
        return []
    by_journal = jobs[0].measured_by == "journal"
    where = "Measured by the jobs themselves (journals)." if by_journal else "Measured by Snakemake (benchmark files)."
    notes = [f"{where} A job that ended before its memory was first read shows 'not sampled'."]
    rules = []
    for rule in dict.fromkeys(job.rule for job in jobs):
        of_rule = [job for job in jobs if job.rule == rule]
        seconds = [job.seconds for job in of_rule if job.seconds is not None]
        memory = [job.peak_memory_mb for job in of_rule if job.peak_memory_mb is not None]
        rules.append(
            [
                Cell(rule),
                Cell(str(len(of_rule)), len(of_rule)),
                _measured(sum(seconds) if seconds else None, ".1f"),
                _measured(max(seconds, default=None), ".1f"),
                _measured(max(memory, default=None), ",.0f"),
            ]
        )
    each = [
        [Cell(job.rule), Cell(job.job), _measured(job.seconds, ".1f"), _measured(job.peak_memory_mb, ",.0f")]
        for job in jobs
    ]
    total = ("rule", "jobs", "seconds, all", "seconds, longest", "peak memory (MB)")
    return [
        Table("runtime-rules", "Cost by rule", total, rules, notes),
        Table("runtime-jobs", "Cost by job", ("rule", "job", "seconds", "peak memory (MB)"), each, notes, labels=2),
    ]


def long_form(scored: Sequence[ScoredAligner], jobs: Sequence[Job]) -> pd.DataFrame:
    """Returns one record per run and links file, with everything known about it.

    Seconds and memory are those of the jobs that made the links; an aligner that starts from the model of another
    (hmm, ibm4) does not count that one's again.
    """
    import pandas as pd

    records = []
    for item in scored:
        names = (item.id.dataset, item.id.aligner, item.id.text, item.id.size)
        own = [job for job in jobs if job.names(*names) and job.rule not in _NOT_A_COST]
        for row in item.rows:
            # A direction did not pay for the other one; a symmetrisation needed both.
            paid = [job for job in own if row.kind != DIRECTION or job.names(row.links)]
            seconds = [job.seconds for job in paid if job.seconds is not None]
            memory = [job.peak_memory_mb for job in paid if job.peak_memory_mb is not None]
            records.append(
                {
                    "dataset": item.id.dataset,
                    "pair": "-".join(item.pair),
                    "aligner": item.id.aligner,
                    "text": item.id.text,
                    "size": item.id.size,
                    "train_pairs": item.train_pairs,
                    "sentences": item.sentences,
                    "links": row.links,
                    "kind": row.kind,
                    "aer": row.aer,
                    "aer_low": row.low,
                    "aer_high": row.high,
                    "precision": row.precision,
                    "recall": row.recall,
                    "f1": row.f1,
                    "links_count": row.links_count,
                    "sure": row.sure,
                    "possible": row.possible,
                    "seconds": round(sum(seconds), 2) if seconds else None,
                    "peak_memory_mb": round(max(memory), 1) if memory else None,
                    "interval_level": item.interval.get("level"),
                    "interval_samples": item.interval.get("samples"),
                    "interval_seed": item.interval.get("seed"),
                }
            )
    return pd.DataFrame.from_records(records).round(4)


def runtime_form(jobs: Sequence[Job]) -> pd.DataFrame:
    """Returns one record per job; an empty field where it was not measured."""
    import pandas as pd

    columns = ["rule", "job", "seconds", "peak_memory_mb", "measured_by"]
    return pd.DataFrame.from_records([[getattr(job, name) for name in columns] for job in jobs], columns=columns)


def _link_columns(scored: Sequence[ScoredAligner]) -> list[str]:
    """Returns the links of all runs, directions first, each in the order of the files."""
    rows = [row for item in scored for row in item.rows]
    ordered = sorted(rows, key=lambda row: row.kind != DIRECTION)
    return list(dict.fromkeys(row.links for row in ordered))


def _caption(dataset: str, scored: Sequence[ScoredAligner]) -> str:
    if not scored:
        return f"{dataset}: alignment error rate (%)"
    counts = sorted({item.sentences for item in scored})
    sentences = " or ".join(f"{count:,}" for count in counts)
    return f"{dataset} ({' – '.join(scored[0].pair)}, {sentences} test sentences): alignment error rate (%)"


def _notes(scored: dict[AlignerId, ScoredAligner]) -> list[str]:
    notes = ["Lower is better; the best of each column is bold."]
    intervals = {
        (item.interval.get("level"), item.interval.get("samples"), item.interval.get("seed"))
        for item in scored.values()
    }
    for level, samples, seed in sorted(intervals, key=str):
        if level is not None:
            notes.append(f"± is half the {level:g} % bootstrap interval ({samples} samples of sentences, seed {seed}).")
    return notes


def _lowest(values: Sequence[float]) -> float | None:
    return min((value for value in values if not math.isnan(value)), default=None)


def _percent(value: float) -> Cell:
    return Cell("undefined", muted=True) if math.isnan(value) else Cell(f"{value:.1f}", value)


def _measured(value: float | None, form: str) -> Cell:
    return Cell("not sampled", muted=True) if value is None else Cell(format(value, form), value)
