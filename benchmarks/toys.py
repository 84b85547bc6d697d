"""Seeds of a toy task trained side by side, against the same seeds one after the other.

The other side is the plain model (``Lstm`` with ``nn.LSTM``, Adam fused) with all threads for one seed at a time. Both
start from the same weights and get the same samples (checked: the same losses), and take turns in one run; what is
reported is the median over rounds of the ratio of their times.

The limit is what matrix products alone would allow: those that are left in our update, at the rate of the largest
products that this machine does in as many threads.

On a machine that does something else as well, the threads of one seed wait for each other, and the ratio is too good:
the load is printed for that reason. With --threads 1 nobody waits, and times are those of the processor.

python benchmarks/toys.py [--size paper|demo] [--threads 2] [--rounds 5] [--seeds N] [--updates N]
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import torch
from machine import processor
from torch.nn import functional

from alignlens.models.lstm import Lstm
from alignlens.toys.copying import Copiers, Copies, CopyLesson, initial_weights, model_settings
from alignlens.toys.samples import FIRST_WORD, CopyTask
from alignlens.toys.settings import ToySettings, toy_settings

SIZES = {
    "paper": ({}, 4, 1),
    "demo": ({"words": 12, "hidden": 32, "dim": 32, "batch": 32}, 20, 10),
}
_SIDE, _REPEATS = 1024, 8


class OneByOne:
    """Plain models, each trained by itself."""

    name = "one after another"

    def __init__(self, settings: ToySettings, seeds: list[int], threads: int) -> None:
        self.threads, self.models = threads, []
        kind, words = model_settings(settings), FIRST_WORD + settings.vocabulary
        for seed in seeds:
            torch.manual_seed(seed)
            self.models.append(Lstm(kind, words, words))
        self.optimizers = [torch.optim.Adam(model.parameters(), lr=1e-3, fused=True) for model in self.models]

    def train(self, batches: list[Copies]) -> list[float]:
        """Makes an update of every seed for every batch; returns the last losses."""
        torch.set_num_threads(self.threads)
        return [self._seed(place, batches) for place in range(len(self.models))]

    def _seed(self, place: int, batches: list[Copies]) -> float:
        model, optimizer = self.models[place], self.optimizers[place]
        for batch in batches:
            source, prefix, labels = (ids[place].t() for ids in (batch.source, batch.prefix, batch.labels))
            logits = model(source, torch.ones_like(source, dtype=torch.bool), prefix)
            loss = functional.cross_entropy(logits.flatten(0, 1), labels.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()


class SideBySide:
    """Groups of seeds as batched models, in threads of one core each."""

    name = "side by side"

    def __init__(self, settings: ToySettings, seeds: list[int], threads: int) -> None:
        self.size, kind = settings.group_size(len(seeds)), model_settings(settings)
        self.groups = [
            Copiers(
                kind, [initial_weights(kind, settings.vocabulary, seed) for seed in seeds[first : first + self.size]]
            )
            for first in range(0, len(seeds), self.size)
        ]
        self.optimizers = [torch.optim.Adam(group.weights.values(), lr=1e-3, fused=True) for group in self.groups]
        self.pool = ThreadPoolExecutor(threads)

    def train(self, batches: list[Copies]) -> list[float]:
        """Makes an update of every seed for every batch; returns the last losses."""
        torch.set_num_threads(1)
        found = self.pool.map(lambda place: self._group(place, batches), range(len(self.groups)))
        return [loss for losses in found for loss in losses]

    def _group(self, place: int, batches: list[Copies]) -> list[float]:
        group, optimizer = self.groups[place], self.optimizers[place]
        own = slice(place * self.size, (place + 1) * self.size)
        for batch in batches:
            losses = group.losses(Copies(batch.source[own], batch.prefix[own], batch.labels[own]))
            optimizer.zero_grad()
            losses.sum().backward()
            optimizer.step()
        return losses.tolist()


def now(threads: int) -> float:
    """Returns seconds on the clock; of one thread, those that it had the processor."""
    return time.process_time() if threads == 1 else time.perf_counter()


def product_rate(threads: int) -> float:
    """Returns the multiplications and additions per second of large products in so many threads."""
    torch.set_num_threads(1)
    pairs = [[torch.ones(_SIDE, _SIDE) for _ in range(3)] for _ in range(threads)]

    def multiply(tensors: list[torch.Tensor]) -> None:
        for _ in range(_REPEATS):
            torch.mm(tensors[0], tensors[1], out=tensors[2])

    with ThreadPoolExecutor(threads) as pool:
        seconds = []
        for _ in range(6):
            started = now(threads)
            list(pool.map(multiply, pairs))
            seconds.append(now(threads) - started)
    return threads * _REPEATS * 2 * _SIDE**3 / min(seconds)


def operations(settings: ToySettings) -> tuple[float, float]:
    """Returns multiplications and additions of an update and seed: of the plain model, and of those that are left.

    Backwards takes twice as many as forwards. The plain model has products with the inputs and one more for the
    contexts; the batched one has neither.
    """
    width, rows, words = settings.hidden, settings.batch, settings.words
    source, target = words + 1, words
    recurrent = 2 * rows * 4 * width * width * (source + target)
    square = 2 * rows * width * width
    attention = 2 * 2 * rows * source * target * width
    output = 2 * rows * target * width * (FIRST_WORD + settings.vocabulary)
    plain = 2 * recurrent + square * (2 * source + 2 * target) + attention + output
    ours = recurrent + square * 3 * target + attention + output
    return 3.0 * plain, 3.0 * ours


def compare(size: str, threads: int, rounds: int, seeds: int | None, updates: int | None) -> None:
    """Prints times and ratio at one size."""
    changes, default_seeds, default_updates = SIZES[size]
    settings = toy_settings("permutation", changes, size)
    numbers = list(range(1, (seeds or default_seeds) + 1))
    lesson = CopyLesson(CopyTask("permutation", settings), model_settings(settings))
    batches = [lesson.batch(numbers, step, evaluation=False) for step in range(updates or default_updates)]
    sides = [OneByOne(settings, numbers, threads), SideBySide(settings, numbers, threads)]
    found = [torch.tensor(side.train(batches)) for side in sides]  # the first round is not timed
    if not torch.allclose(*found, rtol=1e-4):
        raise SystemExit(
            f"the two sides do not learn the same: losses differ by {(found[0] - found[1]).abs().max():.2g}"
        )
    seconds: list[list[float]] = [[], []]
    rate = product_rate(threads)
    for _ in range(rounds):
        for side, times in zip(sides, seconds, strict=True):
            started = now(threads)
            side.train(batches)
            times.append((now(threads) - started) / len(batches) / len(numbers))
        rate = max(rate, product_rate(threads))
    ratio = median(one / other for one, other in zip(*seconds, strict=True))
    plain, ours = operations(settings)
    rate = product_rate(threads)
    print(
        f"{size}: hidden {settings.hidden}, batch {settings.batch}, {settings.words} words, {len(numbers)} seeds,",
        end=" ",
    )
    print(f"{sides[1].size} to a group; {threads} threads")
    for side, times, work in zip(sides, seconds, (plain, ours), strict=True):
        each = median(times)
        line = f"{1e3 * each:8.2f} ms per update and seed, {work / each / 1e9:6.1f} GFLOP/s of {rate / 1e9:.0f}"
        print(f"  {side.name:<18} {line}")
    print(f"  ratio {ratio:.2f}; products alone would allow {median(seconds[0]) * rate / ours:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, help="default: both")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--updates", type=int, help="per round")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{processor()}, {os.cpu_count()} cores, load {load:.1f} before the run, torch {torch.__version__}")
    for size in (args.size,) if args.size else SIZES:
        compare(size, args.threads, args.rounds, args.seeds, args.updates)


if __name__ == "__main__":
    main()
