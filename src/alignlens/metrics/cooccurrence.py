"""Which words of two languages occur together: the counts that IBM Model 1 starts from and a proxy learns first.

C of words i and o adds up 1/L for every position of a source sentence of length L that has i and every position of
its target that has o. A bag-of-words proxy predicts the target from the mean of the source vectors, with scores
theta(i, o) = W(o) . e(i). From random weights it moves first towards C(i, o) less its mean over o, and the more so the
wider it is (Snell et al. 2021, section 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from alignlens.corpora.tokens import TokenStore

    Numbers = NDArray[np.floating[Any]]
    Integers = NDArray[np.integer[Any]]

_PAIRS_AT_ONCE = 1 << 12


@dataclass(frozen=True, eq=False)
class Words:
    """The most frequent words of a side, by their ids; all others count as one more, if there are any."""

    ids: Integers
    places: Integers  # of every id among these words
    rest: bool

    @classmethod
    def of(cls, counts: Integers, most: int) -> Words:
        """Returns the most frequent words, given how often every id occurs; equal ones in the order of ids."""
        order = np.argsort(-counts, kind="stable")
        seen = int(np.count_nonzero(counts))
        chosen = order[: min(most, seen)]
        places = np.full(len(counts), len(chosen), np.int64)
        places[chosen] = np.arange(len(chosen))
        return cls(chosen, places, seen > len(chosen))

    @property
    def size(self) -> int:
        """How many there are, the one for all others included."""
        return len(self.ids) + self.rest


@dataclass(frozen=True, eq=False)
class Bags:
    """Sentence pairs as bags: the share of every word of the source, the number of every word of the target."""

    source: Numbers
    target: Numbers

    @classmethod
    def of(cls, source: TokenStore, target: TokenStore, words: tuple[Words, Words], pairs: Integers) -> Bags:
        """Returns some pairs of a text."""
        shares, numbers = (_numbers(store, each, pairs) for store, each in zip((source, target), words, strict=True))
        return cls(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1), numbers)

    def counts(self) -> Numbers:
        """Returns C, source words by target words."""
        counts: Numbers = self.source.T @ self.target
        return counts

    def pull(self, scores: Numbers) -> Numbers:
        """Returns G: how the log probability of all targets changes with theta, given the scores of every pair.

        Without the model's probabilities it would be C; they take from every pair as much as it has.
        """
        exponents = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities = exponents / exponents.sum(axis=1, keepdims=True)
        gradient: Numbers = self.source.T @ (self.target - self.target.sum(axis=1, keepdims=True) * probabilities)
        return gradient


def _numbers(store: TokenStore, words: Words, pairs: Integers) -> Numbers:
    ids, lengths = store.gather(pairs)
    rows = np.repeat(np.arange(len(pairs)), lengths)
    counted = np.bincount(rows * words.size + words.places[ids], minlength=len(pairs) * words.size)
    return counted.reshape(len(pairs), words.size).astype(np.float64)


def word_counts(store: TokenStore, pairs: int) -> Integers:
    """Returns how often every id occurs in the first sentences of a text."""
    counts = np.zeros(store.vocabulary_size, np.int64)
    for some in _portions(pairs):
        counts += np.bincount(store.gather(some)[0], minlength=store.vocabulary_size)
    return counts


def count_table(source: TokenStore, target: TokenStore, words: tuple[Words, Words], pairs: int) -> Numbers:
    """Returns C of the first pairs of a text; its last row and column are for all other words, if there are any."""
    table: Numbers = np.zeros((words[0].size, words[1].size))
    for some in _portions(pairs):
        table += Bags.of(source, target, words, some).counts()
    return table


def translation_table(counts: Numbers) -> Numbers:
    """Returns Trans(o | i): the counts of every source word as shares; of a word without any, zeros."""
    totals = counts.sum(axis=1, keepdims=True)
    shares: Numbers = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)
    return shares


def model_one_attention(translation: Numbers, source: Sequence[int], target: Sequence[int]) -> Numbers:
    """Returns alpha of IBM Model 1, target by source: Trans(y | x) as shares of every target word.

    A target word that no source word translates to gives all of them the same.
    """
    likelihoods = translation[np.asarray(source)[:, None], np.asarray(target)].T
    totals = likelihoods.sum(axis=1, keepdims=True)
    even = np.full_like(likelihoods, 1 / max(len(source), 1))
    shares: Numbers = np.divide(likelihoods, totals, out=even, where=totals > 0)
    return shares


def centred(counts: Numbers) -> Numbers:
    """Returns C(i, o) less its mean over o."""
    centred: Numbers = counts - counts.mean(axis=1, keepdims=True)
    return centred


def first_motion(bags: Bags, embeddings: Numbers, outputs: Numbers) -> Numbers:
    """Returns d theta / d tau of the proxy under gradient flow, in closed form.

    With e (words by width) and W, de = G W and dW = G' e, so that d theta = G W W' + e e' G.
    """
    pull = bags.pull((bags.source @ embeddings) @ outputs.T)
    motion: Numbers = (pull @ outputs) @ outputs.T + embeddings @ (embeddings.T @ pull)
    return motion


def first_correlation(bags: Bags, width: int, seed: int) -> float:
    """Returns Pearson's correlation of what a random proxy learns first with the centred counts.

    Weights have the variance 1/width. It is nan where all counts of a source word are the same.
    """
    generator = np.random.default_rng([seed, width])
    small = Bags(bags.source.astype(np.float32), bags.target.astype(np.float32))
    embeddings, outputs = (
        generator.standard_normal((words, width), np.float32) / np.float32(np.sqrt(width))
        for words in (bags.source.shape[1], bags.target.shape[1])
    )
    motion, counts = first_motion(small, embeddings, outputs), centred(bags.counts())
    return float(np.corrcoef(motion.ravel(), counts.ravel())[0, 1]) if counts.any() else math.nan


def _portions(pairs: int) -> Iterator[Integers]:
    for start in range(0, pairs, _PAIRS_AT_ONCE):
        yield np.arange(start, min(start + _PAIRS_AT_ONCE, pairs))
