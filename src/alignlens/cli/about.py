"""Options of the verbs that are steps of the pipeline: where to keep the journal, and what the job is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.errors import ConfigError
from alignlens.io.documents import read_json_option
from alignlens.results.paths import FINAL, TEST

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

_LISTS = ("pair", "directions")
_NUMBERS = ("seed", "size", "shard", "train_pairs")


def add_about(parser: argparse.ArgumentParser) -> None:
    """Adds --journal and --about."""
    group = parser.add_argument_group("for steps of the pipeline")
    group.add_argument("--journal", type=Path, help="record the run in this journal, for MLflow")
    group.add_argument("--about", default="{}", metavar="JSON", help="what the job is (preset, dataset, ...)")


def about_of(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the mapping given as --about: names, some of which may be numbers, and lists of languages."""
    content = read_json_option("--about", args.about)
    for key, value in content.items():
        if key in _LISTS:
            fits, wanted = isinstance(value, list) and all(isinstance(item, str) for item in value), "a list of texts"
        elif key in _NUMBERS:
            fits, wanted = isinstance(value, str | int) and not isinstance(value, bool), "a text or a whole number"
        else:
            fits, wanted = isinstance(value, str), "a text"
        if not fits:
            raise ConfigError(f"--about: {key} is {str(value)[:60]!r}; use {wanted}.")
    return content


def occasion(about: Mapping[str, Any]) -> str | None:
    """Returns what is run on a model, for the name of a run; the default text and weights are left out."""
    weights, split = (about.get(key) for key in ("weights", "split"))
    parts = (
        about.get("decoding"),
        None if split in (None, TEST) else split,
        None if weights in (None, FINAL) else f"update {weights}",
    )
    return run_name(*parts) or None


def run_name(*parts: str | None) -> str:
    """Returns the name of a run for people: its parts joined by middle dots."""
    return " · ".join(part for part in parts if part)
