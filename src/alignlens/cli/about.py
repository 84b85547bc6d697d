"""Options of the verbs that are steps of the pipeline: where to keep the journal, and what the job is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.io.documents import read_json_option

if TYPE_CHECKING:
    import argparse


def add_about(parser: argparse.ArgumentParser) -> None:
    """Adds --journal and --about."""
    group = parser.add_argument_group("as a step of the pipeline")
    group.add_argument("--journal", type=Path, help="record the run in this file, for MLflow")
    group.add_argument("--about", default="{}", metavar="JSON", help="what the job is (preset, dataset, ...)")


def about_of(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the mapping given as --about."""
    return read_json_option("--about", args.about)


def run_name(*parts: str | None) -> str:
    """Returns the name of a run for people: its parts joined by middle dots."""
    return " · ".join(part for part in parts if part)
