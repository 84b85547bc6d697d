"""One table model, three renderers: Markdown (also for the terminal), LaTeX with booktabs, HTML."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Cell:
    """One entry; ``number`` is what it sorts by, ``detail`` what a pointer resting on it shows."""

    text: str
    number: float | None = None
    strong: bool = False
    muted: bool = False
    detail: str = ""
    links: tuple[tuple[str, str], ...] = ()
    """Texts and the addresses that they lead to, instead of ``text`` where there are links: on pages."""
    source: tuple[str, ...] = ()
    """Filters of the runs that the number comes from, for pages that know runs."""


@dataclass(frozen=True)
class Table:
    """Header, rows and the words around them; the first ``labels`` columns are text, the others numbers."""

    name: str
    caption: str
    header: tuple[str, ...]
    rows: list[list[Cell]]
    notes: list[str] = field(default_factory=list)
    labels: int = 1
    wraps: bool = False
    """Whether long headings of numbers may break."""
    anchors: Sequence[str] = ()
    """The name of every row's place on a page; none if nothing leads there."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"table {self.name}: a row of {len(row)} cells under {len(self.header)} headings")


# An underscore between letters means nothing to Markdown and reads better bare.
_MARKDOWN = re.compile(r"([\\|*`\[\]#~]|(?<![^\W_])_|_(?![^\W_]))")
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "·": r"\textperiodcentered{}",
}


def markdown_text(text: str) -> str:
    """Returns text that Markdown shows as it is."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN.sub(r"\\\1", " ".join(plain.split("\n")))


def latex_text(text: str) -> str:
    """Returns text that LaTeX shows as it is."""
    return "".join(_LATEX.get(character, character) for character in text)


def markdown(table: Table) -> str:
    """Returns a Markdown table padded so that it reads well unrendered."""
    grid = [[markdown_text(name) for name in table.header]]
    grid += [[_emphasised(cell, markdown_text(cell.text), "**{}**", "*{}*") for cell in row] for row in table.rows]
    widths = [max(3, *(len(row[k]) for row in grid)) for k in range(len(table.header))]
    rule = ["-" * width if k < table.labels else "-" * (width - 1) + ":" for k, width in enumerate(widths)]
    lines = [
        "| " + " | ".join(_padded(text, width, k < table.labels) for k, (text, width) in enumerate(pairs)) + " |"
        for row in (grid[0], rule, *grid[1:])
        for pairs in [list(zip(row, widths, strict=True))]
    ]
    notes = [f"\n{markdown_text(note)}" for note in table.notes]
    return "\n".join([f"**{markdown_text(table.caption)}**", "", *lines, *notes]) + "\n"


def _padded(text: str, width: int, left: bool) -> str:
    return text.ljust(width) if left else text.rjust(width)


def latex(table: Table) -> str:
    """Returns a LaTeX table; it needs the packages booktabs and graphicx."""
    columns = "l" * table.labels + "r" * (len(table.header) - table.labels)
    lines = [
        r"\begin{table}",
        r"  \centering",
        f"  \\caption{{{latex_text(table.caption)}}}",
        f"  \\label{{tab:{re.sub(r'[^A-Za-z0-9:.-]', '-', table.name)}}}",
        r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        f"  \\begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        "    " + " & ".join(latex_text(name) for name in table.header) + r" \\",
        r"    \midrule",
    ]
    for row in table.rows:
        texts = [_emphasised(cell, latex_text(cell.text), r"\textbf{{{}}}", r"\textit{{{}}}") for cell in row]
        lines.append("    " + " & ".join(texts) + r" \\")
    lines += [r"    \bottomrule", r"  \end{tabular}}"]
    lines += [f"  \\par\\smallskip\\footnotesize {latex_text(note)}" for note in table.notes]
    lines.append(r"\end{table}")
    return "\n".join(lines) + "\n"


def html(table: Table) -> str:
    """Returns an HTML table that the report's script makes sortable."""
    head = "".join(
        f'<th scope="col" class="{"label" if k < table.labels else "number"}">{escape(name)}</th>'
        for k, name in enumerate(table.header)
    )
    anchors = [f' id="{escape(anchor)}"' for anchor in table.anchors] or [""] * len(table.rows)
    body = "\n".join(
        ("<tr" + anchor + (' class="first">' if first else ">"))
        + "".join(_html_cell(cell, k < table.labels) for k, cell in enumerate(row))
        + "</tr>"
        for row, first, anchor in zip(table.rows, _begins_group(table), anchors, strict=True)
    )
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in table.notes)
    kind = "table wraps" if table.wraps else "table"
    return (
        f'<figure class="{kind}" id="table-{escape(table.name)}"><figcaption>{escape(table.caption)}</figcaption>'
        f'<div class="scroll"><table class="sortable"><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>{notes}</figure>\n"
    )


def _begins_group(table: Table) -> list[bool]:
    """Returns which rows begin a further group: rows under the same name, which the next column tells apart."""
    names = [row[0].text for row in table.rows]
    if table.labels < 2 or len(set(names)) == len(names):
        return [False] * len(names)
    return [k > 0 and name != names[k - 1] for k, name in enumerate(names)]


def _html_cell(cell: Cell, label: bool) -> str:
    classes = ["label" if label else "number"]
    classes += ["best"] * cell.strong + ["muted"] * cell.muted
    attributes = f' class="{" ".join(classes)}"'
    if cell.number is not None:
        attributes += f' data-sort="{cell.number:g}"'
    if cell.detail:
        attributes += f' title="{escape(cell.detail)}"'
    links = ", ".join(f'<a href="{escape(address)}">{escape(text)}</a>' for text, address in cell.links)
    return f"<td{attributes}>{links or escape(cell.text)}</td>"


def _emphasised(cell: Cell, text: str, strong: str, muted: str) -> str:
    if cell.strong:
        return strong.format(text)
    return muted.format(text) if cell.muted else text
