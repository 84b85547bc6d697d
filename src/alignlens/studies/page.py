"""The page of a study: verdicts, then every figure and table by its number in print, then the runs behind them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens import __version__
from alignlens.display.pages import embedded_figures, page
from alignlens.display.render import html
from alignlens.studies.claims import NOT_TESTABLE, REPRODUCED, UNDECIDED, counted
from alignlens.studies.exhibits import IN_PRINT, deciding, exhibits_of
from alignlens.studies.runs import KEY_TAG, linked, runs_of, runs_table
from alignlens.studies.shown import claim_anchor, claims_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from alignlens.display.pages import Picture
    from alignlens.display.render import Table
    from alignlens.studies.claims import Verdict
    from alignlens.studies.contract import Study
    from alignlens.studies.exhibits import Exhibit
    from alignlens.studies.runs import PageRun


@dataclass(frozen=True)
class Section:
    """Our tables and figures of an exhibit, by its label in ``printed/exhibits.csv``."""

    label: str
    tables: Sequence[Table] = ()
    figures: Sequence[Picture] = ()


def sections_of(tables: Mapping[str, Sequence[Table]], figures: Mapping[str, Sequence[Picture]]) -> list[Section]:
    """Returns sections of tables and figures by label."""
    return [
        Section(label, tables.get(label, ()), figures.get(label, ())) for label in dict.fromkeys((*tables, *figures))
    ]


def study_page(
    study: Study,
    preset: str,
    verdicts: Sequence[Verdict],
    sections: Sequence[Section],
    facts: Sequence[tuple[str, str]],
    runs: Sequence[PageRun] = (),
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
        exhibits=_exhibits(study, verdicts, sections, runs),
        runs=html(runs_table(study.name, runs)) if runs else "",
        run_count=len(runs),
        key_tag=KEY_TAG,
    )


def _exhibits(
    study: Study, verdicts: Sequence[Verdict], sections: Sequence[Section], runs: Sequence[PageRun]
) -> list[dict[str, Any]]:
    """Returns what the template shows of every exhibit, those without numbers of ours too: they say why."""
    known = exhibits_of(study.name)
    ours = {section.label: section for section in sections}
    if len(ours) < len(sections) or not ours.keys() <= {exhibit.label for exhibit in known}:
        raise ValueError(f"sections {[section.label for section in sections]} are not those of printed/exhibits.csv")
    return [_exhibit(exhibit, verdicts, ours.get(exhibit.label, Section(exhibit.label)), runs) for exhibit in known]


def _exhibit(
    exhibit: Exhibit, verdicts: Iterable[Verdict], section: Section, runs: Sequence[PageRun]
) -> dict[str, Any]:
    shown = bool(section.tables or section.figures)
    # Numbers that know their runs are exact; a filter of the whole exhibit stands for all others.
    cells = (cell for table in section.tables for row in table.rows for cell in row)
    exact = list(dict.fromkeys(each for cell in cells for each in cell.source))
    return {
        "label": exhibit.label,
        "title": exhibit.title,
        "anchor": exhibit.anchor,
        "in_print": IN_PRINT[exhibit.in_print],
        "claims": [
            {"id": verdict.claim.id, "anchor": claim_anchor(verdict.claim), "verdict": verdict.verdict}
            for verdict in verdicts
            if exhibit.label in deciding(verdict.claim.decided_by)[0]
        ],
        "tables": [html(linked(table, runs)) for table in section.tables],
        "figures": embedded_figures(section.figures, "Figure"),
        "missing": "" if shown else exhibit.absent or "nothing was measured",
        "runs": runs_of(exact or exhibit.runs, runs) if shown else [],
        "exact": bool(exact),
    }


def _tested(counts: Mapping[str, int]) -> int:
    return sum(counts.values()) - counts[NOT_TESTABLE]
