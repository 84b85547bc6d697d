"""The page of the study of Ding et al. 2019: verdicts, tables beside print, figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from alignlens import __version__
from alignlens.report.html import _figures, _page
from alignlens.report.render import html
from alignlens.report.study_tables import claims_table
from alignlens.studies.claims import NOT_REPRODUCED, NOT_TESTABLE, REPRODUCED, counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alignlens.report.html import Picture
    from alignlens.report.render import Table
    from alignlens.studies.claims import Verdict

TITLE = "Ding, Xu and Koehn 2019: word saliency for alignment"
_LEAD = (
    "Saliency-driven word alignment interpretation for neural machine translation (WMT 2019), rerun: printed numbers, "
    "ours, and what became of every claim."
)


@dataclass(frozen=True)
class StudyContents:
    """Everything the page shows, by dataset."""

    preset: str
    verdicts: Sequence[Verdict]
    tables: Mapping[str, Sequence[Table]]
    figures: Mapping[str, Sequence[Picture]] = field(default_factory=dict)
    curves: Sequence[Picture] = ()
    facts: Sequence[tuple[str, str]] = ()


def study_page(contents: StudyContents) -> str:
    """Returns the page: no server, no other file, nothing loaded from anywhere."""
    counts = counted(contents.verdicts)
    core = counted([verdict for verdict in contents.verdicts if verdict.claim.priority == "core"])
    tested = counts[REPRODUCED] + counts[NOT_REPRODUCED]
    return _page(
        "study.html.j2",
        title=f"{TITLE} · {contents.preset}",
        lead=_LEAD,
        version=__version__,
        cards=[
            {
                "above": "claims reproduced",
                "value": f"{counts[REPRODUCED]} of {tested}",
                "below": "of those testable here",
            },
            {
                "above": "core claims reproduced",
                "value": f"{core[REPRODUCED]} of {core[REPRODUCED] + core[NOT_REPRODUCED]}",
                "below": "of those testable here",
            },
            {"above": "not testable here", "value": str(counts[NOT_TESTABLE]), "below": "for the reasons given below"},
        ],
        facts=contents.facts,
        claims=html(claims_table(contents.verdicts)),
        datasets=[
            {
                "name": dataset,
                "tables": [html(table) for table in shown],
                "figures": _figures(contents.figures.get(dataset, ()), "Heatmaps"),
            }
            for dataset, shown in contents.tables.items()
        ],
        curves=_figures(contents.curves, "Curves"),
    )
