"""The table of ``docs/reliability.md``: what is promised, how it is tried, how often, how often it held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness import GROUPS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from run import Result

BEGIN, END = "<!-- drills: made by make drills -->", "<!-- drills: end -->"
_PROMISES = {
    "bad input": (
        "one line that says what, where and what to do; exit code 2; nothing changed, nothing left behind",
        "every option of every verb with every bad value of its kind; malformed files of every format; absurd sizes",
    ),
    "damage": (
        "the same result as without damage, or one line and exit code 2; never another result, never a crash",
        "every intermediate file: a flipped bit, cut off, appended to, overwritten, emptied, removed, exchanged",
    ),
    "kills": (
        "the same command again ends with the same bytes, and nothing else is left",
        "kill -9 at random moments of every long verb; two at once on the same folder",
    ),
    "disk": (
        "one line, exit code 2; what was there is kept, nothing half written",
        "a full disk, a limit on the size of files and a full standard output, for every verb that writes",
    ),
    "tracker": (
        "a bad journal or store costs one line; all other runs arrive; nothing is lost or written elsewhere",
        "malformed journals, hostile paths in them, stores that are damaged, locked, read-only, gone or silent",
    ),
    "security": (
        "no value of a configuration, a journal or an archive runs a command or leaves its folder",
        "names and values with every shell character and path trick, through alignlens plan and Snakemake itself",
    ),
}


def markdown(results: Sequence[Result], seed: int) -> str:
    """Returns the table and the list of what is not clean."""
    lines = [
        f"| what | promised | tried | drills | clean |\n|---|---|---|---|---|\n{_rows(results)}",
        f"Seed {seed}. {_skips(results)}",
    ]
    failed = [result for result in results if result.problems]
    if failed:
        shown = "\n".join(f"- {result.group}: {result.name}: {'; '.join(result.problems)}" for result in failed)
        lines.append(f"Not clean:\n\n{shown}")
    else:
        lines.append("Not clean: none.")
    return "\n\n".join(lines) + "\n"


def _rows(results: Sequence[Result]) -> str:
    rows = []
    for group in GROUPS:
        own = [result for result in results if result.group == group and not result.skipped]
        if own:
            promised, tried = _PROMISES[group]
            clean = sum(not result.problems for result in own)
            rows.append(f"| {group} | {promised} | {tried} | {len(own)} | {clean} |")
    return "\n".join(rows)


def _skips(results: Sequence[Result]) -> str:
    reasons = sorted({result.skipped for result in results if result.skipped})
    count = sum(bool(result.skipped) for result in results)
    return f"{count} more could not be tried on this machine: {'; '.join(reasons)}." if reasons else "None was skipped."


def write(path: Path, results: Sequence[Result], seed: int) -> None:
    """Replaces what stands between the markers of a document."""
    before, found, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise SystemExit(f"{path}: no markers {BEGIN} and {END}")
    path.write_text(f"{before}{BEGIN}\n\n{markdown(results, seed)}\n{END}{after}", encoding="utf-8")
