"""What the studies write: tables in every form, and what is made of it all."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from alignlens.display.pages import tables_page
from alignlens.display.render import latex, markdown
from alignlens.io.atomic import atomic_path, write_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from alignlens.display.render import Table
    from alignlens.studies.claims import Verdict
    from alignlens.studies.page import Section


@dataclass(frozen=True)
class Built:
    """A study whose tables and figures are written: its verdicts, what its page shows, and more for its summary."""

    verdicts: Sequence[Verdict]
    sections: Sequence[Section]
    facts: Sequence[tuple[str, str]]
    tables: Sequence[str]
    summary: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)


def write_shown(out: Path, stem: str, title: str, shown: Sequence[Table]) -> None:
    """Writes tables as Markdown, LaTeX and HTML."""
    write_text(out / f"{stem}.md", "\n".join(markdown(table) for table in shown))
    write_text(out / f"{stem}.tex", "\n".join(latex(table) for table in shown))
    write_text(out / f"{stem}.html", tables_page(title, shown))


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes records under their columns."""
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
