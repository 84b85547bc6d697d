"""How much of a prediction comes from source and prefix: shares, entropies, influence (Voita et al. 2020, section 3).

At step t, with scores R_t(x_i) of source tokens and R_t(y_j) of the prefix, whose first column is the start symbol:

    source share       sum over i of R_t(x_i), of everything (raw) or of what is not the start symbol's (renormalised)
    source entropy     that of R_t(x_i) divided by their sum, in nats
    target entropy     likewise of R_t(y_j) without the start symbol; there is none at the first step, and 0 at the next
    influence of x_k   (source length / steps) * sum over t of R_t(x_k) / R_t(source), whose mean over k is 1
    divergence         KL(final || earlier) over all tokens but the start symbol, mean over steps; 1e-8 is added first
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Matrix = NDArray[np.floating]
    Numbers = NDArray[np.float64]

#: A sentence is suspicious if its share is this many deviations below the median.
DEVIATIONS = 3.0
# The median absolute deviation of normal numbers is this part of their standard deviation.
_NORMAL = 0.6745
_SMALL = 1e-8
# Shares of sentences that are all but equal have no spread to measure by.
_LEAST_SPREAD = 1e-3


@dataclass(frozen=True, eq=False)
class Steps:
    """The contributions to the predictions of one sentence: one number per step."""

    source: Numbers  # of everything
    target: Numbers
    start: Numbers
    source_entropy: Numbers
    target_entropy: Numbers  # nan at the first step

    @classmethod
    def of(cls, source: Matrix, prefix: Matrix) -> Steps:
        """Returns the steps of scores (step, source) and (step, step), none of them negative.

        Scores that do not sum to one are divided by their sum. Raises ``ValueError`` for a step without any.
        """
        both = np.concatenate((source, prefix), 1).astype(np.float64)
        total = both.sum(1, keepdims=True)
        if not (np.isfinite(both).all() and (both >= 0).all() and (total > 0).all()):
            raise ValueError("scores must be finite, none negative, with something at every step")
        shares = both / total
        of_source, of_prefix = np.split(shares, [source.shape[1]], axis=1)
        return cls(
            of_source.sum(1),
            of_prefix[:, 1:].sum(1),
            of_prefix[:, 0],
            entropy(of_source),
            np.where(np.arange(len(source)) > 0, entropy(of_prefix[:, 1:]), np.nan),
        )

    @property
    def renormalised(self) -> Numbers:
        """The source's share of what is not the start symbol's; nan where that is everything."""
        both = self.source + self.target
        return np.divide(self.source, both, out=np.full_like(both, np.nan), where=both > 0)

    def mean_share(self) -> float:
        """The mean renormalised share after the first step, where there is no prefix; of one step, that of it."""
        shares = self.renormalised[1:] if len(self.source) > 1 else self.renormalised
        known = shares[~np.isnan(shares)]
        return float(known.mean()) if len(known) else float("nan")


def entropy(scores: Numbers) -> Numbers:
    """Returns the entropy in nats of every row of scores, divided by its sum; 0 of a row without any."""
    total = scores.sum(1, keepdims=True)
    shares = np.divide(scores, total, out=np.zeros_like(scores), where=total > 0)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    entropies: Numbers = np.abs(-(shares * logs).sum(1))  # not -0.0
    return entropies


def influence(source: Matrix) -> Numbers:
    """Returns how much every source position matters to all steps of scores (step, source); the mean is 1."""
    scores = source.astype(np.float64)
    shares = scores / scores.sum(1, keepdims=True)
    influences: Numbers = shares.sum(0) * (source.shape[1] / len(source))
    return influences


def divergence(final: tuple[Matrix, Matrix], earlier: tuple[Matrix, Matrix]) -> float:
    """Returns KL(final || earlier) of source and prefix scores of one sentence, the mean over its steps."""
    first, second = (_distribution(*each) for each in (final, earlier))
    return float((first * np.log(first / second)).sum(1).mean())


def _distribution(source: Matrix, prefix: Matrix) -> Numbers:
    """Returns shares (step, source and prefix without start) where a position can matter, a little more than zero."""
    scores = np.concatenate((source, prefix[:, 1:]), 1).astype(np.float64)
    steps = np.arange(len(source))[:, None]
    possible = np.concatenate((np.ones(source.shape, bool), np.arange(1, prefix.shape[1]) <= steps), 1)
    total = scores.sum(1, keepdims=True)
    shares = np.divide(scores, total, out=np.zeros_like(scores), where=total > 0) + _SMALL
    shares /= np.where(possible, shares, 0).sum(1, keepdims=True)
    return np.where(possible, shares, 1.0)  # 1 log 1 adds nothing; what is impossible is so in both


@dataclass(frozen=True)
class Suspicion:
    """The rule by which sentences are suspicious: shares that are below ``bound``."""

    median: float
    deviation: float
    bound: float

    @classmethod
    def of(cls, shares: Sequence[float]) -> Suspicion:
        """Returns the rule for the mean shares of all sentences: the median minus three robust deviations."""
        known = np.array([share for share in shares if not np.isnan(share)])
        if not len(known):
            return cls(float("nan"), float("nan"), float("-inf"))
        median = float(np.median(known))
        deviation = max(float(np.median(np.abs(known - median))) / _NORMAL, _LEAST_SPREAD)
        return cls(median, deviation, median - DEVIATIONS * deviation)

    def holds(self, share: float) -> bool:
        """Returns whether a sentence with this mean share is suspicious."""
        return share < self.bound
