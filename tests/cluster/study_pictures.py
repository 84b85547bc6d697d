"""Makes the pictures of the front page and of the study pages in docs/studies.md, from a finished results folder.

make screenshot                                                        of the demo
python tests/cluster/study_pictures.py --results results/hansards --out pictures
"""

from __future__ import annotations

import argparse
import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING

from browser import chromium, missing_programs
from PIL import Image

from alignlens.cli.main import exit_on_error
from alignlens.errors import InputError, ToolError
from alignlens.io.atomic import atomic_path
from alignlens.studies.exhibits import exhibits_of
from alignlens.studies.registry import studies

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

WINDOW = {"width": 1280, "height": 1500}
_COLOURS = 128  # pages are flat colours: a third of the size, and nobody sees a difference
_NO_SCROLLBARS = """
const style = document.createElement('style');
style.textContent = '::-webkit-scrollbar { display: none; }';
document.head.append(style);
"""
_HEIGHT = "return Math.ceil(document.querySelector('footer').getBoundingClientRect().bottom + scrollY)"


def main() -> None:
    """Takes the pictures."""
    parser = argparse.ArgumentParser(description="pictures of the front page and of the pages of studies")
    parser.add_argument("--results", type=Path, default=Path("results/demo"), help="results of a preset (results/demo)")
    parser.add_argument("--out", type=Path, default=Path("docs/images"), help="folder of the PNG files (docs/images)")
    args = parser.parse_args()
    missing = missing_programs()
    if missing:
        raise ToolError(f"not installed: {', '.join(missing)}. Run tests/cluster/install.sh.")
    pages = {name: args.results / name / "index.html" for name in studies()}
    for page in (args.results / "index.html", *pages.values()):
        if not page.is_file():
            raise InputError("no such page.", page, advice="Run the pipeline first, with all studies.")
    with chromium(**WINDOW) as driver:
        _write(args.out / "studies.png", _front(driver, args.results / "index.html"))
        for name, page in pages.items():
            # The first figure or table as in print: with what is printed, ours, and the claims it decides.
            _write(args.out / f"{name}.png", _at(driver, page, exhibits_of(name)[0].anchor))


def _front(driver: Chrome, page: Path) -> bytes:
    """Returns a picture of the whole front page."""
    _open(driver, page.resolve().as_uri())
    return _picture(driver, 0, driver.execute_script(_HEIGHT))


def _at(driver: Chrome, page: Path, anchor: str) -> bytes:
    """Returns what is on the screen after a link to a place of a page."""
    _open(driver, f"{page.resolve().as_uri()}#{anchor}")
    return _picture(driver, driver.execute_script("return scrollY"), driver.execute_script("return innerHeight"))


def _open(driver: Chrome, address: str) -> None:
    driver.get(address)
    driver.execute_script(_NO_SCROLLBARS)


def _picture(driver: Chrome, top: float, height: float) -> bytes:
    """Returns a part of the page over its whole width."""
    area = {"x": 0, "y": top, "width": driver.execute_script("return innerWidth"), "height": height, "scale": 1}
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": area, "captureBeyondViewport": True})
    return base64.b64decode(taken["data"])


def _write(path: Path, picture: bytes) -> None:
    flat = Image.open(io.BytesIO(picture)).convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        flat.save(temporary, format="PNG", optimize=True)
    print(f"{path}: {path.stat().st_size // 1000} KB")


if __name__ == "__main__":
    with exit_on_error("study_pictures"):
        main()
