"""What the report shows besides scores: test sets with links, jobs, failures."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from alignlens.alignment.gold import Gold, read_gold
from alignlens.alignment.pharaoh import read_links
from alignlens.errors import InputError
from alignlens.io.documents import taking
from alignlens.io.tables import read_table
from alignlens.io.text import check_equal_counts, read_lines, words
from alignlens.results.paths import ALIGNER_LINKS, PREPARED, TEST, TEXT
from alignlens.tracking.records import FAILED, KILLED, SUFFIX, find_journals, is_alive, read_journal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from alignlens.alignment.links import Alignment
    from alignlens.results.manifest import Manifest
    from alignlens.results.scores import AlignerId, ScoredAligner
    from alignlens.tracking.records import RunRecord

_LOG_LINES = 20
_LOG_BYTES = 1 << 16
_NOT_MEASURED = ("", "NA", "-")


@dataclass(frozen=True)
class Job:
    """What one job cost; None where it was not measured."""

    rule: str
    job: str
    seconds: float | None
    peak_memory_mb: float | None
    measured_by: str

    def names(self, *parts: str) -> bool:
        """Returns whether the job's path has all these parts."""
        own_parts = self.job.replace(".", "/").split("/")
        return all(part in own_parts for part in parts)


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
    systems: dict[tuple[AlignerId, str], Alignment]

    __test__ = False


def prepared_datasets(manifest: Manifest) -> list[str]:
    """Returns the prepared datasets of a manifest, scored or not."""
    return [names["dataset"] for _, names in manifest.find(PREPARED)]


def read_test_set(manifest: Manifest, dataset: str, runs: Iterable[ScoredAligner]) -> TestSet | None:
    """Returns the test set of a dataset with the links of ``runs``, all checked against the text; None without gold."""
    paths = [manifest.path(TEXT, dataset=dataset, split=TEST, side=side) for side in ("source", "target", "gold")]
    texts = [path for path in paths if path is not None]
    if len(texts) != len(paths):
        return None
    source, target = ([words(line) for line in read_lines(path)] for path in texts[:2])
    check_equal_counts([*texts[:2]], [len(source), len(target)])
    lengths = [len(sentence) for sentence in source], [len(sentence) for sentence in target]
    gold = read_gold(texts[2], 0, "pharaoh", *lengths)
    systems: dict[tuple[AlignerId, str], Alignment] = {}
    for scored in runs:
        for row in scored.rows:
            path = manifest.path(ALIGNER_LINKS, links=row.links, **asdict(scored.id))
            if scored.id.dataset == dataset and path is not None:
                systems[scored.id, row.links] = read_links(path, 0, *lengths)
    return TestSet(dataset, source, target, gold, systems)


def read_jobs(manifest: Manifest, records: Iterable[RunRecord]) -> list[Job]:
    """Returns what the jobs cost: by Snakemake's benchmark files, or by the journals where there are none."""
    results = manifest.root
    found_files = (
        (path, path.relative_to(results / "benchmarks").with_suffix(""))
        for path in sorted((results / "benchmarks").rglob("*.tsv"))
    )
    jobs = [_read_benchmark(path, name) for path, name in found_files if manifest.has_job(name)]
    if jobs:
        return jobs
    by_name = {}
    for record in records:
        name = record.journal.relative_to(results).as_posix().removesuffix(SUFFIX)
        latest = record.latest
        if "seconds" in latest:
            by_name[name] = Job(record.experiment, name, latest["seconds"], latest.get("peak_memory_mb"), "journal")
    return [by_name[name] for name in sorted(by_name)]


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


def _mean(texts: Iterable[str | None]) -> float | None:
    """Returns the mean of what was measured; jobs of a moment leave NA, a dash, or zero memory."""
    numbers = []
    for text in texts:
        if text is None or text in _NOT_MEASURED:
            continue
        number = float(text)
        if not 0 <= number < math.inf:
            raise ValueError(f"{text!r} is no measurement")
        if number > 0:
            numbers.append(number)
    return sum(numbers) / len(numbers) if numbers else None


def read_records(manifest: Manifest) -> list[RunRecord]:
    """Returns the runs of every journal of a configuration; one that cannot be read is told and left out."""
    problems: list[str] = []
    records: list[RunRecord] = []
    for path in find_journals(manifest.root, skipped=problems):
        if not manifest.has_job(path.relative_to(manifest.root)):
            continue
        try:
            records += read_journal(path)
        except InputError as error:
            problems.append(str(error))
    for problem in problems:
        print(f"alignlens report: warning: {problem}", file=sys.stderr)
    return records


def failures_of(results: Path, records: Iterable[RunRecord]) -> list[Failure]:
    """Returns the runs that failed or were killed, with the last lines of their logs."""
    failures = []
    for record in records:
        status = KILLED if record.end is None and not is_alive(record) else record.status
        if status in (FAILED, KILLED):
            log = _log_of(results, record.journal)
            tail = _last_lines(log) if log else ""
            shown = log.relative_to(results).as_posix() if log else ""
            error = record.error or "the process ended without an error message"
            failures.append(Failure(record.name, status, error, record.identity, shown, tail))
    return failures


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


def reason_missing(run: AlignerId, failures: Sequence[Failure]) -> str:
    """Returns why a run has no scores: ``failed`` or ``killed`` if a journal says so, otherwise ``not run``."""
    names = {"dataset": run.dataset, "aligner": run.aligner, "text": run.text, "size": run.size}
    for failure in failures:
        shared = {name: str(failure.identity[name]) for name in names if name in failure.identity}
        if {"dataset", "aligner"} <= shared.keys() and all(names[name] == shared[name] for name in shared):
            return failure.status.lower()
    return "not run"
