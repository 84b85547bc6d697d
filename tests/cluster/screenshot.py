"""Takes the pictures of pages in the docs.

``compare`` is MLflow's compare view with four methods of one model, for given translations. ``sentences`` is the
browser of sentences with two methods of one model.

make screenshot                                                        both of the demo
python tests/cluster/screenshot.py compare --results results --preset hansards --direction en-fr --out compare.png
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from urllib.parse import urlencode

from browser import MlflowPage, chromium, missing_programs, served
from browser_page import SentencePage
from selenium.common.exceptions import TimeoutException

from alignlens.cli.main import exit_on_error
from alignlens.errors import InputError, ToolError
from alignlens.io.atomic import atomic_path

METHODS = ("attention", "li_smoothgrad", "ding_grad", "ding_smoothgrad")
# 1600 pixels wide, in letters that can be read where the README shows it smaller; high enough to scroll nothing.
WINDOW = {"width": 1280, "height": 1900, "zoom": 1.25}
# A sentence with two methods, of which the second explains the prefix, too: its rows fit, and the shares below them.
SENTENCES = {"width": 1280, "height": 1400, "zoom": 1.25}
SIDE_BY_SIDE = ("ding_smoothgrad", "lrp")
PICTURES = {"compare": "mlflow-compare.png", "sentences": "browser.png"}


def main() -> None:
    """Takes a picture."""
    args = parsed()
    missing = missing_programs()
    if missing:
        raise ToolError(f"not installed: {', '.join(missing)}. Run tests/cluster/install.sh.")
    if args.picture == "sentences":
        with chromium(**SENTENCES) as driver:
            picture = browsed(SentencePage(driver), args)
    else:
        with served(args.results) as address, chromium(**WINDOW) as driver:
            picture = compared(MlflowPage(driver, address), args)
    out = args.out or Path("docs/images", PICTURES[args.picture])
    with atomic_path(out) as temporary:
        temporary.write_bytes(picture)
    print(f"{out}: {len(picture) // 1000} KB")


def parsed() -> argparse.Namespace:
    """Returns the options."""
    parser = argparse.ArgumentParser(description="a picture of the docs")
    parser.add_argument("picture", choices=PICTURES, help="MLflow's compare view, or the browser of sentences")
    parser.add_argument("--results", type=Path, default=Path("results"), help="results folder (results)")
    parser.add_argument("--preset", default="demo", help="whose runs (demo)")
    parser.add_argument("--model", default="transformer", help="which model (transformer)")
    parser.add_argument("--direction", default="xa-xb", help="in which direction (xa-xb)")
    parser.add_argument("--out", type=Path, help="the PNG file (docs/images/...)")
    return parser.parse_args()


def browsed(page: SentencePage, args: argparse.Namespace) -> bytes:
    """Returns the picture of the sentence that two methods disagree on most, of those that fit beside each other."""
    path = args.results / args.preset / "browser/index.html"
    if not path.is_file():
        raise InputError("no browser of sentences.", path, advice="Run the pipeline first.")
    panels = (f"{args.model}|forced|{method}|ding" for method in SIDE_BY_SIDE)
    view = {"direction": args.direction, "view": "words", "sort": "apart", **dict(zip("ab", panels, strict=True))}
    page.open(path, f"#{urlencode(view)}")
    fields = page.fields("a"), page.fields("b")
    if tuple(each.get("method") for each in fields) != SIDE_BY_SIDE or {each["who"] for each in fields} != {args.model}:
        raise InputError(f"does not show {' and '.join(SIDE_BY_SIDE)} of {args.model}.", path)
    page.leave_fields()
    for _ in page.sentences()[1:]:
        if page.fits():
            break
        page.press("j")
    picture: bytes = page.driver.get_screenshot_as_png()
    return picture


def compared(page: MlflowPage, args: argparse.Namespace) -> bytes:
    """Returns the picture, after the clicks that docs/tracking.md describes."""
    page.start()
    page.hide_sidebar()
    page.open("alignlens/attribution")
    page.choose_view("methods by AER")
    wanted = {"preset": args.preset, "model": args.model, "direction": args.direction}
    wanted |= {"decoding": "forced", "extraction": "ding"}
    page.search(" AND ".join(f"tags.{name} = '{value}'" for name, value in wanted.items()))
    prefix = f"{args.direction} · {args.model} · "
    try:
        page.wait(lambda _: plainest_of_each(page.names(), prefix), "nothing found")
    except TimeoutException:
        raise InputError(f"no such runs: {wanted}.", args.results, advice="See: alignlens track list.") from None
    page.compare(plainest_of_each(page.names(), prefix))
    page.fold("Visualizations")
    for section in ("Parameters", "Metrics"):
        page.show_differences(section)
    return page.picture(last_section="Metrics")


def plainest_of_each(names: list[str], prefix: str) -> list[str]:
    """Returns the run of each method that sets the least, of these the one with the most noisy copies.

    None are returned while runs that the filter drops are on the screen.
    """
    if not all(name.startswith(prefix) for name in names):
        return []
    runs = {method: [name for name in names if re.search(rf" · {method}[, ]", name)] for method in METHODS}
    return [min(found, key=lambda name: (name.count(","), -copies_in(name))) for found in runs.values() if found]


def copies_in(name: str) -> int:
    """Returns the number of noisy copies that the name of a run tells."""
    told = re.search(r",n=(\d+)", name)
    return int(told[1]) if told else 0


if __name__ == "__main__":
    with exit_on_error("screenshot"):
        main()
