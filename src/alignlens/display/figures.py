"""Figures as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.display.heatmap import render
from alignlens.display.pages import Picture
from alignlens.io.atomic import atomic_path

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.display.heatmap import Drawing


def write_figure(stem: Path, drawing: Drawing, caption: str) -> Picture:
    """Writes a figure as SVG and PNG, and returns it for the page."""
    contents = {suffix: render(drawing, suffix) for suffix in (".svg", ".png")}
    for suffix, content in contents.items():
        with atomic_path(stem.with_name(stem.name + suffix)) as temporary:
            temporary.write_bytes(content)
    return Picture(caption, contents[".svg"], f"{stem.name}.svg")
