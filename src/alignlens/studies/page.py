"""The page of a study: verdicts, tables beside print, figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens import __version__
from alignlens.display.pages import embedded_figures, page
from alignlens.display.render import html
from alignlens.studies.claims import NOT_TESTABLE, REPRODUCED, UNDECIDED, counted
from alignlens.studies.shown import claims_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alignlens.display.pages import Picture
    from alignlens.display.render import Table
    from alignlens.studies.claims import Verdict
    from alignlens.studies.contract import Study


@dataclass(frozen=True)
class Section:
    """Tables and figures of one dataset or subject; ``missing`` says why there are no figures."""

    name: str
    tables: Sequence[Table]
    figures: Sequence[Picture] = ()
    missing: str = ""


def study_page(
    study: Study,
    preset: str,
    verdicts: Sequence[Verdict],
    sections: Sequence[Section],
    facts: Sequence[tuple[str, str]],
) -> str:
    """Returns the page: no server, no other file, nothing loaded from anywhere."""
    counts = counted(verdicts)
    core = counted([verdict for verdict in verdicts if verdict.claim.priority == "core"])
    return page(
        Path(__file__).parent / "templates" / "study.html.j2",
        title=f"{study.title} · {preset}",
        lead=study.lead,
        version=__version__,
        cards=[
            {
                "above": "claims reproduced",
                "value": f"{counts[REPRODUCED]} of {_tested(counts)}",
                "below": "of those testable here",
            },
            {
                "above": "core claims reproduced",
                "value": f"{core[REPRODUCED]} of {_tested(core)}",
                "below": "of those testable here",
            },
            {"above": "undecided", "value": str(counts[UNDECIDED]), "below": "within the noise of the test text"},
            {"above": "not testable here", "value": str(counts[NOT_TESTABLE]), "below": "for the reasons given below"},
        ],
        facts=facts,
        claims=html(claims_table(study.name, verdicts)),
        sections=[
            {
                "name": section.name,
                "id": section.name.replace(" ", "-"),
                "tables": [html(table) for table in section.tables],
                "figures": embedded_figures(section.figures, "Figures"),
                "missing": section.missing,
            }
            for section in sections
        ],
    )


def _tested(counts: Mapping[str, int]) -> int:
    return sum(counts.values()) - counts[NOT_TESTABLE]
