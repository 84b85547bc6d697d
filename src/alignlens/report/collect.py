"""What a results folder holds, found by the path grammar: scores, links, text, jobs, failures."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.alignment.gold import Gold, read_gold
from alignlens.alignment.pharaoh import read_links
from alignlens.errors import InputError
from alignlens.io import values
from alignlens.io.documents import read_json, taking
from alignlens.io.tables import read_table
from alignlens.io.text import check_equal_counts, read_lines, words
from alignlens.studies.results import interval_of, pair_of
from alignlens.tracking.records import FAILED, KILLED, SUFFIX, find_journals, is_alive, read_journal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from alignlens.alignment.links import Alignment
    from alignlens.tracking.records import RunRecord

_LOG_LINES = 20
_LOG_BYTES = 1 << 16
_SCORE_AGAIN = "Delete it and make it again with: alignlens score, or run the pipeline again."
_NOT_MEASURED = ("", "NA", "-")


@dataclass(frozen=True, order=True)
class RunId:
    """The names that make the path of an aligner run."""

    dataset: str
    aligner: str
    text: str
    size: str

    @classmethod
    def parse(cls, path: str) -> RunId:
        """Returns the run of ``dataset/aligner/text/size``."""
        parts = path.strip("/").split("/")
        if len(parts) != 4 or not all(parts):
            raise InputError("is not a run.", path, advice="Expected dataset/aligner/text/size.")
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.dataset}/{self.aligner}/{self.text}/{self.size}"


@dataclass(frozen=True)
class Row:
    """The scores of one links file, in percent."""

    links: str
    kind: str
    aer: float
    aer_low: float
    aer_high: float
    precision: float
    recall: float
    f1: float
    links_count: int
    sure: int
    possible: int

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.aer_high - self.aer_low) / 2


@dataclass(frozen=True)
class ScoredRun:
    """One metrics file."""

    run: RunId
    pair: tuple[str, str]
    train_pairs: int
    sentences: int
    rows: tuple[Row, ...]
    interval: dict[str, Any]
    changed: float
    """When the file was written, in seconds since 1970."""

    def best(self, kind: str) -> Row | None:
        """Returns the row of a kind with the lowest AER, or None if there is none."""
        rows = [row for row in self.rows if row.kind == kind and not math.isnan(row.aer)]
        return min(rows, key=lambda row: row.aer, default=None)


@dataclass(frozen=True)
class Job:
    """What one job cost; None where nobody measured it."""

    rule: str
    job: str
    seconds: float | None
    peak_memory_mb: float | None
    measured_by: str

    def names(self, *parts: str) -> bool:
        """Tells whether the job's path has all these parts."""
        mine = self.job.replace(".", "/").split("/")
        return all(part in mine for part in parts)


@dataclass(frozen=True)
class Failure:
    """A job whose journal does not end well."""

    name: str
    status: str
    error: str
    identity: dict[str, Any]
    log: str
    log_tail: str


@dataclass(frozen=True)
class TestSet:
    """The text and gold of a dataset, and the links of every system that has some."""

    dataset: str
    source: list[list[str]]
    target: list[list[str]]
    gold: Gold
    systems: dict[tuple[RunId, str], Alignment]

    __test__ = False


def metrics_files(results: Path) -> list[Path]:
    """Returns the metrics files below a results folder."""
    return sorted(results.glob("scores/*/*/*/*/metrics.json"))


def prepared_datasets(results: Path) -> list[str]:
    """Returns the datasets prepared below a results folder, scored or not."""
    return sorted(path.parent.name for path in results.glob("data/*/preparation.json"))


def read_metrics(path: Path | str) -> ScoredRun:
    """Returns the content of a metrics file; what is missing or no number is an error with its name."""
    path = Path(path)
    content = read_json(path, _SCORE_AGAIN)
    with taking(path, _SCORE_AGAIN):
        return ScoredRun(
            run=RunId(*(values.name(content, name) for name in ("dataset", "aligner", "text", "size"))),
            pair=pair_of(content),
            train_pairs=values.whole(content, "train_pairs"),
            sentences=values.whole(content, "sentences", least=1),
            rows=tuple(_row(row) for row in values.mappings(content, "rows")),
            interval=interval_of(content),
            changed=path.stat().st_mtime,
        )


def _row(content: dict[str, Any]) -> Row:
    def percent(key: str) -> float:
        return values.number_or_nan(content, key, 0, 100)

    return Row(
        links=values.text(content, "links"),
        kind=values.text(content, "kind"),
        aer=percent("aer"),
        aer_low=percent("aer_low"),
        aer_high=percent("aer_high"),
        precision=percent("precision"),
        recall=percent("recall"),
        f1=percent("f1"),
        links_count=values.whole(content, "links_count"),
        sure=values.whole(content, "sure"),
        possible=values.whole(content, "possible"),
    )


def read_test_set(results: Path, dataset: str, runs: Iterable[ScoredRun]) -> TestSet:
    """Returns the test set of a dataset with the links of ``runs``, all checked against the text."""
    folder = results / "data" / dataset
    paths = [folder / name for name in ("test.source", "test.target", "test.gold")]
    source, target = ([words(line) for line in read_lines(path)] for path in paths[:2])
    check_equal_counts([*paths[:2]], [len(source), len(target)])
    lengths = [len(sentence) for sentence in source], [len(sentence) for sentence in target]
    gold = read_gold(paths[2], 0, "pharaoh", *lengths)
    systems: dict[tuple[RunId, str], Alignment] = {}
    for scored in runs:
        for row in scored.rows:
            path = results / "links" / str(scored.run) / f"{row.links}.pharaoh"
            if scored.run.dataset == dataset and path.is_file():
                systems[scored.run, row.links] = read_links(path, 0, *lengths)
    return TestSet(dataset, source, target, gold, systems)


def read_jobs(results: Path, records: Iterable[RunRecord]) -> list[Job]:
    """Returns what the jobs cost: by Snakemake's benchmark files, or by the journals where there are none."""
    jobs = [
        _read_benchmark(path, path.relative_to(results / "benchmarks").with_suffix(""))
        for path in sorted((results / "benchmarks").rglob("*.tsv"))
    ]
    if jobs:
        return jobs
    found = {}
    for record in records:
        name = record.journal.relative_to(results).as_posix().removesuffix(SUFFIX)
        latest = record.latest
        if "seconds" in latest:
            found[name] = Job(record.experiment, name, latest["seconds"], latest.get("peak_memory_mb"), "journal")
    return [found[name] for name in sorted(found)]


def _read_benchmark(path: Path, name: Path) -> Job:
    """Returns the job of a benchmark file; several repetitions give their mean."""
    advice = "Delete it; the next run of the rule makes it again."
    table = read_table(path, advice, ("s",), delimiter="\t")
    if not table:
        raise InputError("not a Snakemake benchmark: no measurement.", path, 1, advice)
    rule, *job = name.parts
    with taking(path, advice):
        return Job(
            rule,
            "/".join(job) or rule,
            _mean(row["s"] for row in table),
            _mean(row.get("max_rss") for row in table),
            "benchmark",
        )


def _mean(found: Iterable[str | None]) -> float | None:
    """Returns the mean of what was measured; jobs of a moment leave NA, a dash, or zero memory."""
    numbers = []
    for text in found:
        if text is None or text in _NOT_MEASURED:
            continue
        number = float(text)
        if not 0 <= number < math.inf:
            raise ValueError(f"{text!r} is no measurement")
        if number > 0:
            numbers.append(number)
    return sum(numbers) / len(numbers) if numbers else None


def read_records(results: Path) -> list[RunRecord]:
    """Returns the runs of every journal below a results folder; one that cannot be read is told and left out."""
    problems: list[str] = []
    records: list[RunRecord] = []
    for path in find_journals(results, skipped=problems):
        try:
            records += read_journal(path)
        except InputError as error:
            problems.append(str(error))
    for problem in problems:
        print(f"alignlens report: warning: {problem}", file=sys.stderr)
    return records


def failures_of(results: Path, records: Iterable[RunRecord]) -> list[Failure]:
    """Returns the runs that failed or were killed, with the last lines of their logs."""
    found = []
    for record in records:
        status = KILLED if record.end is None and not is_alive(record) else record.status
        if status in (FAILED, KILLED):
            log = _log_of(results, record.journal)
            tail = _last_lines(log) if log else ""
            shown = log.relative_to(results).as_posix() if log else ""
            error = record.error or "the process ended without a word"
            found.append(Failure(record.name, status, error, record.identity, shown, tail))
    return found


def _last_lines(log: Path) -> str:
    """Returns the end of a log, whatever some program wrote into it."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_BYTES))
        text = file.read().decode("utf-8", errors="replace")
    return "\n".join(text.splitlines()[-_LOG_LINES:])


def _log_of(results: Path, journal: Path) -> Path | None:
    """Returns the log of the job of a journal: beside it, or below another stage at the same place."""
    stem = journal.with_name(journal.name.removesuffix(SUFFIX))
    beside = stem.with_name(stem.name + ".log")
    if beside.is_file():
        return beside
    names = {*stem.relative_to(results).parts[1:-1], stem.name.partition(".")[0]}
    for log in sorted(results.rglob("*.log")):
        if names <= set(log.relative_to(results).with_suffix("").parts):
            return log
    near = sorted(journal.parent.glob("*.log"))
    return near[0] if len(near) == 1 else None


def reason_missing(run: RunId, failures: Sequence[Failure]) -> str:
    """Returns why a run has no scores: ``failed`` or ``killed`` if a journal says so, otherwise ``not run``."""
    names = {"dataset": run.dataset, "aligner": run.aligner, "text": run.text, "size": run.size}
    for failure in failures:
        shared = {name: str(failure.identity[name]) for name in names if name in failure.identity}
        if {"dataset", "aligner"} <= shared.keys() and all(names[name] == shared[name] for name in shared):
            return failure.status.lower()
    return "not run"
