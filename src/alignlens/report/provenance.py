"""Where results come from: versions, seeds, machine, preparation counts, checksums, licences."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from alignlens import __version__
from alignlens.display.render import Cell, Table
from alignlens.io import values
from alignlens.io.documents import read_json, taking
from alignlens.report.models import PREPARE_AGAIN
from alignlens.results.paths import PREPARED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alignlens.report.models import ModelCard
    from alignlens.results.manifest import Manifest
    from alignlens.results.scores import ScoredAligner
    from alignlens.tracking.records import RunRecord

_LIBRARIES = ("snakemake", "numpy", "sil-thot", "sentencepiece", "mlflow", "torch")
_FACTS = ("kind", "pair", "licence", "origin", "cite", "lowercase", "tokenise")


def date_of(items: Sequence[ScoredAligner | ModelCard]) -> str:
    """Returns when the newest result was written: the page does not change because it is made again."""
    if not items:
        return "no scores yet"
    newest = max(item.changed for item in items)
    return datetime.fromtimestamp(newest, UTC).strftime("%Y-%m-%d %H:%M UTC")


def facts(
    preset: str, scored: Sequence[ScoredAligner], models: Sequence[ModelCard], records: Sequence[RunRecord]
) -> list[tuple[str, str]]:
    """Returns what a reader must know to make the results again, as pairs of name and text."""
    intervals = {
        f"{item.interval['level']:g} %, {item.interval['samples']} samples, seed {item.interval['seed']}"
        for item in scored
        if {"level", "samples", "seed"} <= item.interval.keys()
    }
    versions = {record.version for record in records} | {__version__}
    commits = {record.commit for record in records if record.commit}
    seeds = {f"{name} {value}" for record in records for name, value in record.params.items() if "seed" in name.lower()}
    libraries = [f"{name} {installed}" for name in _LIBRARIES if (installed := _installed(name))]
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    pairs = [
        ("preset", preset),
        ("newest result", date_of([*scored, *models])),
        ("intervals", "; ".join(sorted(intervals)) or "not recorded"),
        ("seeds", "; ".join(sorted(seeds)) or "none recorded by the jobs"),
        ("alignlens", ", ".join(sorted(versions)) + (f" (commit {', '.join(sorted(commits))})" if commits else "")),
        ("libraries", ", ".join([f"Python {platform.python_version()}", *libraries])),
        ("machine", f"{machine} (where this page was made)"),
    ]
    return [(name, text) for name, text in pairs if text]


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def read_preparation(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """Returns the preparation reports by dataset."""
    prepared = {}
    for path, names in manifest.find(PREPARED):
        prepared[names["dataset"]] = content = read_json(path, PREPARE_AGAIN)
        with taking(path, PREPARE_AGAIN):
            _check_report(content)
    return prepared


def _check_report(content: dict[str, Any]) -> None:
    """Raises unless what the tables show has the types that they expect; much of it may be missing."""
    splits = values.mapping(content, "splits") if "splits" in content else {}
    for split in splits:
        counts = values.mapping(splits, split)
        counted = [counts, *(values.mapping(counts, key) for key in ("words", "dropped") if key in counts)]
        for each in counted:
            for key in each:
                if key not in ("words", "dropped", "links"):
                    values.whole(each, key)
    inputs = values.mapping(content, "inputs") if "inputs" in content else {}
    for role in inputs:
        entry = values.mapping(inputs, role)
        values.text(entry, "name"), values.text(entry, "sha256")
    files = values.mapping(content, "files") if "files" in content else {}
    for name in files:
        values.text(files, name)
    for key in _FACTS:
        if key in content and not isinstance(content[key], bool | str):
            values.texts(content, key)


def preparation_table(reports: Mapping[str, dict[str, Any]]) -> Table:
    """Returns how many pairs and words every split has, and what was dropped and why."""
    rows = []
    for dataset, report in reports.items():
        for split, counts in report.get("splits", {}).items():
            word_counts = counts.get("words", {})
            dropped = {reason: count for reason, count in counts.get("dropped", {}).items() if count}
            why = ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in dropped.items())
            rows.append(
                [
                    Cell(dataset),
                    Cell(split),
                    _count(counts.get("read")),
                    _count(counts.get("pairs")),
                    _count(word_counts.get("source")),
                    _count(word_counts.get("target")),
                    _count(sum(dropped.values()) if "dropped" in counts else None),
                    _count(counts.get("not_used")),
                    Cell(why) if why else Cell("nothing dropped" if "dropped" in counts else "kept whole", muted=True),
                ]
            )
    header = ("dataset", "split", "pairs read", "pairs", "source words", "target words", "dropped", "not used", "why")
    return Table("preparation", "What preparation kept and dropped", header, rows, labels=2)


def _count(value: int | None) -> Cell:
    return Cell("not counted", muted=True) if value is None else Cell(f"{value:,}", value)


def origin_facts(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns licence, origin and the like of a dataset as pairs of name and text."""
    return [(name, _as_text(report[name])) for name in _FACTS if report.get(name) not in (None, "", [])]


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " – ".join(map(str, value)) if isinstance(value, list) else str(value)


def checksum_table(dataset: str, report: Mapping[str, Any]) -> Table:
    """Returns the SHA-256 of everything read for a dataset and everything written."""
    rows = [
        [Cell("read"), Cell(f"{role}: {entry['name']}"), Cell(entry["sha256"])]
        for role, entry in report.get("inputs", {}).items()
    ]
    rows += [[Cell("written"), Cell(name), Cell(digest)] for name, digest in report.get("files", {}).items()]
    return Table(f"checksums-{dataset}", dataset, ("", "file", "SHA-256"), rows, labels=3)
