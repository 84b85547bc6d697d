"""How the time of attribution grows: with the number of sentences, their length, noisy copies, and threads.

Ours at every point, Captum where it is cheap. Model and sentences are random (5M weights, 12 pieces a sentence unless
the panel says otherwise). A point is the median over rounds, in which all points of a panel take turns. It is CPU time
of one thread, which other work on the machine disturbs little, but in the panel of threads, which needs idle cores and
is left out with ``--threads 1``.

python benchmarks/scaling.py [--size 5m|demo] [--threads 1 2] [--rounds 3] [--out docs/images/scaling]

Writes OUT.csv and OUT.png. One core, 5m: about four minutes.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import attribution
import matplotlib as mpl
import numpy as np
import torch
from attribution import GRAD, SIZES, SMOOTH, Captum, Text, ours
from machine import processor
from matplotlib.ticker import FuncFormatter

from alignlens.attribution.registry import parse
from alignlens.display.charts import chart_settings
from alignlens.display.heatmap import save
from alignlens.display.lines import Line, Panel, draw_panels
from alignlens.models.contract import parameter_count
from alignlens.models.transformer import Transformer

ATTENTION = parse("attention")
METHODS = {"attention": ATTENTION, "Grad": GRAD, "SmoothGrad": SMOOTH}
LENGTH = 12


class Point(NamedTuple):
    """What is done at one place of a panel, and how many sentences it does."""

    panel: str
    name: str
    place: int
    sentences: int
    work: Callable[[], object]


class Measured(NamedTuple):
    """A line of the table."""

    panel: str
    method: str
    place: int
    ms_per_sentence: float


def of_length(vocabulary: int, sentences: int, length: int) -> Text:
    """Returns random sentences of exactly this length."""
    rng = np.random.default_rng(1)
    sides = [rng.integers(4, vocabulary, (sentences, length)).tolist() for _ in range(2)]
    words = [[list(range(length))] * sentences] * 2
    return Text(*sides, *words)


class Points:
    """All points of the figure, for one model."""

    def __init__(self, model: Transformer, vocabulary: int, threads: Sequence[int]) -> None:
        self._model, self._vocabulary, self._threads = model, vocabulary, threads
        self._captum = Captum(model)

    def __iter__(self) -> Iterator[Point]:
        """Yields the points, those of a panel after each other."""
        for count in (1, 4, 16, 64, 256):
            yield from self._ours("sentences", count, self._text(count), most_smooth=64)
        for count in (1, 4):
            yield self._peer("sentences", count, self._text(count))
        for length in (5, 10, 20, 40, 80):
            text = self._text(max(2, 80 // length // 2), length)
            yield from self._ours("length", length, text)
            if length <= 40:
                yield self._peer("length", length, self._text(1, length))
        for copies in (1, 3, 10, 30, 100):
            text = self._text(4)
            smooth = SMOOTH.with_parameters(n=copies)
            yield Point("copies", "SmoothGrad", copies, 4, partial(ours, self._model, text, [smooth]))
            if copies <= 30:
                yield Point("copies", "Captum SmoothGrad", copies, 1, partial(self._peer_copies, copies))
        for threads in self._threads if len(self._threads) > 1 else ():
            # As many sentences as make several jobs.
            for count, name in zip((256, 64, 16), METHODS, strict=True):
                work = partial(ours, self._model, self._text(count), [METHODS[name]])
                yield Point("threads", name, threads, count, partial(_on, threads, work))
            peer = self._peer("threads", threads, self._text(1))
            yield peer._replace(work=partial(_on, threads, peer.work))

    def _text(self, sentences: int, length: int = LENGTH) -> Text:
        return of_length(self._vocabulary, sentences, length)

    def _ours(self, panel: str, place: int, text: Text, most_smooth: int = 10**9) -> Iterator[Point]:
        sentences = len(text.sources)
        for name, method in METHODS.items():
            if method is not SMOOTH or sentences <= most_smooth:
                yield Point(panel, name, place, sentences, partial(ours, self._model, text, [method]))

    def _peer(self, panel: str, place: int, text: Text) -> Point:
        return Point(panel, "Captum Grad", place, len(text.sources), partial(self._captum.grad, text))

    def _peer_copies(self, copies: int) -> None:
        usual = attribution.COPIES
        attribution.COPIES = copies
        try:
            self._captum.smoothgrad(self._text(1))
        finally:
            attribution.COPIES = usual


def _on(threads: int, work: Callable[[], object]) -> None:
    usual = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        work()
    finally:
        torch.set_num_threads(usual)


def measured(points: Sequence[Point], rounds: int) -> Iterator[Measured]:
    """Yields the medians of points that take turns."""
    seconds: list[list[float]] = [[] for _ in points]
    for _ in range(rounds):
        for point, times in zip(points, seconds, strict=True):
            clock = time.perf_counter if point.panel == "threads" else time.process_time
            started = clock()
            point.work()
            times.append(clock() - started)
    for point, times in zip(points, seconds, strict=True):
        yield Measured(point.panel, point.name, point.place, 1000 * median(times) / point.sentences)


ACROSS = {
    "sentences": f"sentences of {LENGTH} pieces",
    "length": "pieces of source and target",
    "copies": f"noisy copies ({LENGTH} pieces)",
    "threads": f"threads ({LENGTH} pieces)",
}


def draw(table: Sequence[Measured], caption: str, out: Path) -> None:
    """Writes the figure."""
    names = [*METHODS, "Captum Grad", "Captum SmoothGrad"]
    panels = []
    for panel, across in ACROSS.items():
        rows = {name: [row for row in table if row.panel == panel and row.method == name] for name in names}
        lines = [
            Line(name, np.array([float(row.place) for row in own]), np.array([row.ms_per_sentence for row in own]))
            for name, own in rows.items()
            if own
        ]
        if any(rows.values()):
            panels.append(Panel(f"Time over {panel}", across, lines, logarithmic=True))
    drawing = draw_panels(panels, caption)
    with mpl.rc_context(chart_settings()):
        figure = drawing.figure
        figure.set_layout_engine("constrained")
        for axes in figure.axes:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(FuncFormatter(lambda ms, _: f"{ms:,g}"))
            axes.set_ylabel("ms per sentence")
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    save(drawing, out)


def main() -> None:
    """Runs the measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="5m")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="of the panel of threads")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("docs/images/scaling"), help="without ending")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    settings, vocabulary = SIZES[arguments.size]
    model = Transformer(settings, vocabulary, vocabulary).eval()
    weights = parameter_count(model)
    model.requires_grad_(False)
    started = time.perf_counter()
    points = list(Points(model, vocabulary, arguments.threads))
    for point in points[:3]:  # the first pass builds and warms what all others find
        point.work()
    table: list[Measured] = []
    for panel in ACROSS:
        for row in measured([point for point in points if point.panel == panel], arguments.rounds):
            table.append(row)
            print(f"{row.panel:<10} {row.place:>4} {row.method:<18} {row.ms_per_sentence:>9.2f} ms per sentence")
    with arguments.out.with_suffix(".csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Measured._fields)
        writer.writerows(row._replace(ms_per_sentence=float(f"{row.ms_per_sentence:.4g}")) for row in table)
    caption = f"Attribution, Transformer of {weights / 1e6:.1f}M weights, {processor()}"
    draw(table, caption, arguments.out.with_suffix(".png"))
    print(f"{processor()}, torch {torch.__version__}, {time.perf_counter() - started:.0f} s in all")


if __name__ == "__main__":
    main()
