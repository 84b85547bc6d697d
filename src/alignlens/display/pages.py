"""Pages that are complete in themselves: one file, no server, nothing loaded from anywhere."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from alignlens.display.render import html

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.display.render import Table

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Picture:
    """A figure for a page."""

    caption: str
    svg: bytes
    file: str = ""
    """The name of the SVG file, if there is one."""


def page(template: Path, **values: Any) -> str:
    """Returns a template filled in; style and the script that sorts tables are the same on every page."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template.parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    shell = {"css": asset(_TEMPLATES / "page.css"), "tables_js": asset(_TEMPLATES / "tables.js")}
    return environment.get_template(template.name).render(**shell, **values)


def tables_page(title: str, shown: Sequence[Table]) -> str:
    """Returns a page of tables and nothing else."""
    return page(_TEMPLATES / "tables.html.j2", title=title, tables=[html(table) for table in shown])


def embedded_figures(pictures: Sequence[Picture], kind: str) -> list[dict[str, str]]:
    """Returns what a template needs of every figure, its drawing included."""
    return [
        {"caption": picture.caption, "uri": _data_uri(picture.svg), "alt": f"{kind}: {picture.caption}"}
        for picture in pictures
    ]


def embedded_json(value: Any) -> str:
    """Returns JSON that can stand inside a script element, whatever words it holds."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def asset(path: Path) -> str:
    """Returns a script or a style sheet."""
    return path.read_text(encoding="utf-8").rstrip("\n")


def _data_uri(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")
