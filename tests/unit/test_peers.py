"""Published aligner outputs, scored by us, give the published figures; their directions, combined by us, theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from alignlens.alignment.gold import Gold, read_gold
from alignlens.alignment.links import Alignment
from alignlens.alignment.pharaoh import read_links
from alignlens.alignment.symmetrize import symmetrize
from alignlens.io.text import read_parallel, words
from alignlens.metrics.aer import count_hits

pytestmark = pytest.mark.mirror
SETS = {"deen": ("europarl-deen", "de", "en"), "enfr": ("hansards-enfr", "en", "fr"), "roen": ("wpt-roen", "ro", "en")}
# The result table of lilt/alignment-scripts: direction, reverse direction, grow-diag, grow-diag-final.
PUBLISHED = {
    ("fastalign", "deen"): {"src2tgt": 28.4, "tgt2src": 32.0, "grow-diag": 27.0, "grow-diag-final": 27.7},
    ("fastalign", "enfr"): {"src2tgt": 16.4, "tgt2src": 15.9, "grow-diag": 10.5, "grow-diag-final": 12.1},
    ("fastalign", "roen"): {"src2tgt": 33.8, "tgt2src": 35.5, "grow-diag": 32.1, "grow-diag-final": 32.2},
    ("giza", "deen"): {"src2tgt": 21.0, "tgt2src": 23.1, "grow-diag": 21.4, "grow-diag-final": 20.6},
    ("giza", "enfr"): {"src2tgt": 8.0, "tgt2src": 9.8, "grow-diag": 5.9, "grow-diag-final": 6.2},
    ("giza", "roen"): {"src2tgt": 28.7, "tgt2src": 32.2, "grow-diag": 27.9, "grow-diag-final": 26.4},
}


def load(mirror: Path, aligner: str, pair: str, name: str) -> tuple[Alignment, Gold]:
    folder, source, target = SETS[pair]
    text = read_parallel(mirror / folder / f"test.{source}", mirror / folder / f"test.{target}")
    lengths = [[len(words(line)) for line in lines] for lines in text]
    links = read_links(mirror / "peers" / aligner / f"{pair}.{name}.talp", 0, *lengths)
    return links, read_gold(mirror / folder / "test.gold", 0, "pharaoh", *lengths)


@pytest.mark.parametrize(("aligner", "pair"), PUBLISHED)
def test_scores_are_the_published_ones(mirror: Path, aligner: str, pair: str) -> None:
    for name, published in PUBLISHED[aligner, pair].items():
        links, gold = load(mirror, aligner, pair, name)
        assert count_hits(links, gold).scores().aer == pytest.approx(published, abs=0.15), name


@pytest.mark.parametrize(("aligner", "pair"), PUBLISHED)
def test_our_symmetrisation_reproduces_theirs(mirror: Path, aligner: str, pair: str) -> None:
    forward, gold = load(mirror, aligner, pair, "src2tgt")
    reverse, _ = load(mirror, aligner, pair, "tgt2src")
    for name in ("intersection", "union", "grow-diag", "grow-diag-final"):
        theirs, _ = load(mirror, aligner, pair, name)
        ours = symmetrize(forward, reverse, name if "grow" not in name else f"{name}-lilt")
        expected = count_hits(theirs, gold).scores().aer
        assert count_hits(ours, gold).scores().aer == pytest.approx(expected, abs=0.1), name
        if "grow" not in name:
            assert ours == theirs
