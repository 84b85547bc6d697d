"""Figures as files, for the verbs that draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.io.atomic import atomic_path

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.report.heatmap import Drawing
    from alignlens.report.html import Picture


def write_figure(stem: Path, drawing: Drawing, caption: str) -> Picture:
    """Writes a figure as SVG and PNG, and returns it for the page."""
    from alignlens.report.heatmap import render
    from alignlens.report.html import Picture

    contents = {suffix: render(drawing, suffix) for suffix in (".svg", ".png")}
    for suffix, content in contents.items():
        with atomic_path(stem.with_name(stem.name + suffix)) as temporary:
            temporary.write_bytes(content)
    return Picture(caption, contents[".svg"])
