"""Segmentation into pieces with exact word spans, against SentencePiece on whole lines (which gives no spans).

python benchmarks/segment.py [--lines 20000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from alignlens.corpora.synthetic import SyntheticSettings, generate
from alignlens.subwords.sentencepiece_bpe import train_pair
from alignlens.subwords.settings import BpeSettings
from alignlens.subwords.spans import Segmenter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=20_000)
    args = parser.parse_args()
    sentences = list(generate(SyntheticSettings(train=args.lines), "train"))
    # Two sentences a line, for the usual twenty words.
    source = [" ".join((*a.source, *b.source)) for a, b in pairwise(sentences)]
    target = [" ".join((*a.target, *b.target)) for a, b in pairwise(sentences)]
    with tempfile.TemporaryDirectory() as folder:
        train_pair(source, target, BpeSettings("joint", 800), Path(folder) / "bpe")
        path = Path(folder) / "bpe" / "target.model"
        segmenter, whole = Segmenter.load(path), SentencePieceProcessor(model_file=str(path))
        times = {}
        for name, work in (
            ("SentencePiece, whole lines, no spans", lambda: [whole.encode(line) for line in target]),
            ("ours, first time", lambda: [segmenter.segment(line) for line in target]),
            ("ours, words known", lambda: [segmenter.segment(line) for line in target]),
        ):
            started = time.perf_counter()
            work()
            times[name] = time.perf_counter() - started
        assert all(whole.encode(line) == segmenter.segment(line).ids for line in target)
    reference = next(iter(times.values()))
    mean = sum(len(line.split()) for line in target) / len(target)
    print(f"{len(target):,} lines of {mean:.1f} words, same ids")
    for name, seconds in times.items():
        print(f"{name:<38} {len(target) / seconds:>9,.0f} lines/s   {reference / seconds:>5.2f} x SentencePiece")


if __name__ == "__main__":
    main()
