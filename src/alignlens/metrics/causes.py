"""Links against the true causes of target words, which are known where the text was generated.

A cause is a source word that determined a target word: every gold link is one, but not every cause is a link that an
annotator would draw. Causes are of one direction: what determined the words of the target side. Links of the reverse
direction explain source words, about which they say nothing.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignlens.alignment.written import NUMBER, Lengths, Written, link_lines, shown
from alignlens.errors import InputError
from alignlens.io.text import check_equal_counts, read_lines, words

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from alignlens.alignment.links import Alignment

    Integers = NDArray[np.int64]

_FIELD = re.compile(rf"-|{NUMBER}(?:,{NUMBER})*")
_SAMPLES_AT_ONCE = 64


@dataclass(frozen=True)
class Causes:
    """Pairs (cause, target word) of every sentence pair, and how many words its sides have."""

    pairs: Alignment
    source_lengths: Integers
    target_lengths: Integers

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True)
class CauseScores:
    """Percentages over the ``words`` target words that have links; ``nan`` where no word has any."""

    hits: float
    """How much of a word's links are causes of it: all or nothing for one link, its share for several."""
    chance: float
    """The same for source words drawn uniformly from the sentence."""
    words: int


@dataclass(frozen=True)
class CauseCounts:
    """Per sentence pair: hits, hits expected by chance, target words that have links."""

    per_sentence: NDArray[np.float64]
    """Sentences x 3."""

    def scores(self) -> CauseScores:
        """Returns the scores of the corpus: ratios of sums over all sentences."""
        hits, chance, linked = (math.fsum(column) for column in self.per_sentence.T)
        if not linked:
            return CauseScores(math.nan, math.nan, 0)
        return CauseScores(100 * hits / linked, 100 * chance / linked, int(linked))

    def interval(self, level: float = 95, samples: int = 1000, seed: int = 1) -> tuple[float, float]:
        """Returns limits that hold the hits in ``level`` percent of resampled corpora; ``nan`` without links."""
        if not self.per_sentence[:, 2].any():
            return math.nan, math.nan
        generator, sentences = np.random.default_rng(seed), len(self.per_sentence)
        shares = []
        for done in range(0, samples, _SAMPLES_AT_ONCE):
            rows = min(_SAMPLES_AT_ONCE, samples - done)
            drawn = generator.multinomial(sentences, np.full(sentences, 1 / sentences), size=rows)
            totals = drawn @ self.per_sentence
            with np.errstate(invalid="ignore"):  # a resampled corpus without any links
                shares.append(100 * totals[:, 0] / totals[:, 2])
        low, high = np.nanpercentile(np.concatenate(shares), [(100 - level) / 2, (100 + level) / 2]).tolist()
        return low, high


def read_causes(path: Path | str, source: Path | str) -> Causes:
    """Returns the causes of a file with one field per target word: source positions and commas, or ``-`` for none.

    ``source`` is the source text, whose words the positions count from 0.
    """
    lines, texts = link_lines(path, "one line of causes per sentence pair"), read_lines(source)
    check_equal_counts([path, source], [len(lines), len(texts)])
    rows: list[tuple[int, int, int]] = []
    target_lengths = []
    for number, line in enumerate(lines):
        fields = words(line)
        target_lengths.append(len(fields))
        for target, field in enumerate(fields):
            if not _FIELD.fullmatch(field):
                advice = "Expected one field per target word: positions with commas between them, or -."
                raise InputError(f"{shown(field)} does not list causes.", path, number + 1, advice)
            rows += [(number, int(cause), target) for cause in field.split(",") if cause != "-"]
    source_lengths = [len(words(text)) for text in texts]
    lengths = Lengths(np.array(source_lengths, dtype=np.int64), np.array(target_lengths, dtype=np.int64))
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    written = Written(path, table[:, 0] + 1, table[:, 0], table[:, 1], table[:, 2], len(lines))
    return Causes(written.alignment(0, lengths), lengths.source, lengths.target)


def count_causes(links: Alignment, causes: Causes) -> CauseCounts:
    """Returns how the links of each sentence pair meet the causes of its target words.

    A word with several links counts for the share of them that are causes: were one hit enough, a method would gain
    by linking more, and could not be compared with chance.
    """
    if len(links) != len(causes):
        raise ValueError(f"links of {len(links)} and causes of {len(causes)} sentence pairs")
    if (links.source >= causes.source_lengths[links.sentence]).any() or (
        links.target >= causes.target_lengths[links.sentence]
    ).any():
        raise ValueError("a link outside its sentence pair")
    begin = np.cumsum(causes.target_lengths) - causes.target_lengths
    size = int(causes.target_lengths.sum())
    word_of_link = begin[links.sentence] + links.target
    linked = np.bincount(word_of_link, minlength=size)
    hits = np.bincount(word_of_link, weights=causes.pairs.contains(links), minlength=size)
    caused = np.bincount(begin[causes.pairs.sentence] + causes.pairs.target, minlength=size)
    sentence = np.repeat(np.arange(len(causes)), causes.target_lengths)
    lengths = causes.source_lengths[sentence]
    has_links = linked > 0
    columns = (hits[has_links] / linked[has_links], caused[has_links] / lengths[has_links], None)
    per_sentence = [np.bincount(sentence[has_links], weights=column, minlength=len(causes)) for column in columns]
    return CauseCounts(np.stack(per_sentence, axis=1).astype(np.float64))
