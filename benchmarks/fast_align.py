"""Links of sil-thot's fast_align beside those of the original program (systran-align), on the Hansards of the mirror.

Both align the first pairs of the training text together with the 447 test pairs. The original symmetrises by itself,
nearly as grow-diag-final-and does, by which our two directions are combined.

ALIGNLENS_MIRROR=FOLDER python benchmarks/fast_align.py [--pairs 2000 20000]
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import systran_align

from alignlens.aligners.thot_models import StoredAligner, train
from alignlens.alignment.gold import Gold, read_gold
from alignlens.alignment.links import Alignment
from alignlens.alignment.symmetrize import symmetrize
from alignlens.io.text import read_parallel
from alignlens.metrics.aer import count_hits

Sentences = list[list[str]]
LONGEST = 60


def original(source: Sentences, target: Sentences, folder: Path) -> Alignment:
    """The links of the original, with the options that its authors recommend, which are ours."""
    joint = folder / "joint"
    joint.write_text("".join(f"{' '.join(s)} ||| {' '.join(t)}\n" for s, t in zip(source, target, strict=True)))
    options = {"favor_diagonal": True, "optimize_tension": True, "variational_bayes": True}
    forward, reverse = str(folder / "forward"), str(folder / "reverse")
    systran_align.generate_alignment_probabilities(str(joint), forward, reverse, **options)
    aligner = systran_align.Aligner(forward, reverse)
    pairs = zip(source, target, strict=True)
    return Alignment.from_pairs([[tuple(link) for link in aligner.align(s, t)["alignments"]] for s, t in pairs])


def ours(source: Sentences, target: Sentences, folder: Path) -> Alignment:
    """The links of both directions, symmetrised."""
    train("fast_align", source, target, folder / "there")
    train("fast_align", target, source, folder / "back")
    forward = StoredAligner.load(folder / "there").align(source, target)
    reverse = StoredAligner.load(folder / "back").align(target, source).transposed()
    return symmetrize(forward, reverse, "grow-diag-final-and")


def last(links: Alignment, count: int) -> Alignment:
    """The links of the last sentences."""
    return Alignment.from_pairs(list(links)[-count:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, nargs="+", default=[2000, 20000])
    args = parser.parse_args()
    data = Path(os.environ["ALIGNLENS_MIRROR"]) / "hansards-enfr"
    text = read_parallel(data / "train.tok.en.gz", data / "train.tok.fr.gz")
    test = read_parallel(data / "test.lc-ascii.en", data / "test.lc-ascii.fr")
    gold = read_gold(data / "test.gold", base=0)
    usable = [
        (s, t)
        for s, t in zip(*([line.lower().split() for line in side] for side in text), strict=True)
        if 0 < len(s) <= LONGEST and 0 < len(t) <= LONGEST
    ]
    for count in args.pairs:
        pairs = usable[:count] + list(zip(*([line.split() for line in side] for side in test), strict=True))
        source, target = [s for s, _ in pairs], [t for _, t in pairs]
        with tempfile.TemporaryDirectory() as folder:
            theirs, found = original(source, target, Path(folder)), ours(source, target, Path(folder))
        agreement = count_hits(found, Gold(theirs, theirs)).scores()
        aers = [count_hits(last(links, len(gold.sure)), gold).scores().aer for links in (found, theirs)]
        print(
            f"{count} pairs: F1 of the links of one against those of the other {agreement.f1:.1f}; "
            f"AER {aers[0]:.1f} (sil-thot), {aers[1]:.1f} (original)"
        )


if __name__ == "__main__":
    main()
