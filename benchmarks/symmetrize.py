"""Symmetrise-and-score on one core: ours, the C++ matrices of sil-thot called from Python, and the textbook loop.

python benchmarks/symmetrize.py [--pairs 20000] [--words 20]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from thot.common import WordAlignmentMatrix

from alignlens.alignment.gold import Gold
from alignlens.alignment.links import Alignment
from alignlens.alignment.pharaoh import read_links, write_links
from alignlens.alignment.symmetrize import symmetrize
from alignlens.metrics.aer import count_hits

NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def noisy_diagonal(pairs: int, words: int, error: float, rng: np.random.Generator) -> Alignment:
    """One link per target word: the diagonal, or with probability ``error`` any source word."""
    sentence = np.repeat(np.arange(pairs), words)
    target = np.tile(np.arange(words), pairs)
    source = np.where(rng.random(pairs * words) < error, rng.integers(0, words, pairs * words), target)
    return Alignment.from_arrays(sentence, source, target, pairs)


def textbook(forward: set[tuple[int, int]], reverse: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """grow-diag-final-and of one sentence pair, with sets."""
    links, union = forward & reverse, forward | reverse
    sources, targets = {i for i, _ in links}, {j for _, j in links}

    def add(link: tuple[int, int]) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    growing = True
    while growing:
        growing = False
        for i, j in sorted(links):
            for di, dj in NEIGHBOURS:
                new = (i + di, j + dj)
                if new in union and new not in links and (new[0] not in sources or new[1] not in targets):
                    add(new)
                    growing = True
    for direction in (forward, reverse):
        for link in sorted(direction):
            if link[0] not in sources and link[1] not in targets:
                add(link)
    return links


def measure(work: Callable[[], object], repeat: int = 3) -> float:
    """Returns the best of a few runs, in seconds."""
    best = float("inf")
    for _ in range(repeat):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--words", type=int, default=20)
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    forward = noisy_diagonal(args.pairs, args.words, 0.3, rng)
    reverse = noisy_diagonal(args.pairs, args.words, 0.3, rng).transposed()
    sure = noisy_diagonal(args.pairs, args.words, 0.1, rng)
    gold = Gold(sure, sure)
    method = "grow-diag-final-and"

    def ours() -> None:
        count_hits(symmetrize(forward, reverse, method), gold).scores()

    sets = [({*f}, {*r}) for f, r in zip(forward, reverse, strict=True)]

    def python_loop() -> None:
        for f, r in sets:
            textbook(f, r)

    matrices = []
    for f, r in sets:
        both = []
        for links in (f, r):
            matrix = WordAlignmentMatrix(args.words, args.words)
            for i, j in links:
                matrix.set(i, j)
            both.append(matrix)
        matrices.append(both)

    def cpp() -> None:
        for f, r in matrices:
            f.grow_diag_final_and(r)

    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("forward", "reverse")]
        for path, links in zip(paths, (forward, reverse), strict=True):
            write_links(path, links)

        def from_files() -> None:
            f, r = map(read_links, paths)
            count_hits(symmetrize(f, r, method), gold).scores()

        rows = [
            ("ours: symmetrise and score", measure(ours)),
            ("ours: read both files, symmetrise and score", measure(from_files)),
            ("sil-thot (C++): symmetrise only, from ready matrices", measure(cpp)),
            ("textbook loop (Python sets): symmetrise only", measure(python_loop, 1)),
        ]
    print(f"{args.pairs:,} pairs of {args.words} words, {method}, one core")
    for name, seconds in rows:
        print(f"{name:<54} {args.pairs / seconds:>10,.0f} pairs/s   {seconds / rows[0][1]:>6.2f} x our time")


if __name__ == "__main__":
    main()
