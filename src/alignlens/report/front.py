"""The front page of a preset: every study with its verdicts and one figure, and the way to everything else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens import __version__
from alignlens.display.pages import Picture, embedded_figures, page
from alignlens.io.atomic import write_text
from alignlens.report.studies import relative_link, verdicts_in_words
from alignlens.studies.claims import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.report.studies import StudySummary

_LARGEST_FIGURE = 8_000_000


def write_front(front: Path, title: str, studies: Sequence[StudySummary], report: Path) -> None:
    """Writes the page; links are relative to its folder."""
    text = page(
        Path(__file__).parent / "templates" / "front.html.j2",
        title=title,
        version=__version__,
        studies=[_study(study, front) for study in studies],
        verdicts=VERDICTS,
        report=relative_link(report, front),
    )
    write_text(front, text)


def _study(study: StudySummary, front: Path) -> dict[str, Any]:
    total = sum(study.claims.values())
    return {
        "title": study.title,
        "lead": study.lead,
        "verdicts": verdicts_in_words(study),
        "bar": [
            {"verdict": verdict, "count": count, "share": round(100 * count / total, 2)}
            for verdict, count in study.claims.items()
            if count
        ],
        "figures": embedded_figures(_figure(study), study.name),
        "link": relative_link(study.page, front),
    }


def _figure(study: StudySummary) -> list[Picture]:
    """Returns the figure that stands for a study, if it has drawn one."""
    if study.figure is None:
        return []
    path = study.page.parent / study.figure.file
    if not path.is_file() or path.stat().st_size > _LARGEST_FIGURE:
        return []
    return [Picture(study.figure.caption, path.read_bytes())]
