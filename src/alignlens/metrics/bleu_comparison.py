"""BLEU of several systems on one reference, and whether they differ from a baseline.

All systems are scored on the same resampled texts. Where a system was trained with several seeds its BLEU is the mean
over them, and seeds are drawn again together with the sentences, as for error rates. Two single translations are also
tested as sacreBLEU does, with the same random numbers for the same seed: by its paired bootstrap (Koehn 2004) and by
approximate randomisation (Riezler and Maxwell 2005). There a drawn difference that equals the observed one counts;
sacreBLEU leaves it out, so that a system would differ from itself (p = 1 / (samples + 1)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from alignlens.metrics.bleu import COUNTS, bleu_of, sentence_counts, signature
from alignlens.metrics.bootstrap import Interval, resamples, two_sided_p
from alignlens.metrics.sampled import Sampled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from alignlens.metrics.sampled import Draws

    Counts = NDArray[np.int64]
    Translation = Sequence[str]

TRIALS = 10_000
"""Exchanges of approximate randomisation, the default of sacreBLEU."""

# A multiple of 32, so that parts use the random bits that one large draw would: it takes them by 32.
_TRIALS_AT_ONCE = 256
# Equal scores may differ in the last digits.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Difference:
    """BLEU of a system minus that of the baseline; None is what a text of one sentence cannot tell.

    ``p_value`` belongs to the interval and is two-sided. The other two are sacreBLEU's, of two single translations:
    None where one side is a mean over seeds.
    """

    difference: float
    low: float | None
    high: float | None
    p_value: float | None
    p_bootstrap: float | None = None
    p_randomisation: float | None = None


@dataclass(frozen=True)
class Scored:
    """BLEU in percent with its interval, of one translation or the mean over seeds, and against the baseline."""

    bleu: float
    low: float | None
    high: float | None
    versus: Difference | None = None


@dataclass(frozen=True)
class System:
    """A system, and each of its seeds by itself.

    A seed is compared with the baseline's seed of the same place, or with its only one; with none if there are
    several, but not as many.
    """

    name: str
    overall: Scored
    seeds: tuple[Scored, ...]


@dataclass(frozen=True)
class Comparison:
    """All systems in their order, and how everything was computed, in sacreBLEU's form."""

    systems: tuple[System, ...]
    baseline: str | None
    signature: str
    sentences: int


def bleu_interval(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    level: float = 95,
    samples: int = 1000,
    seed: int = 1,
) -> Interval:
    """Returns the interval that holds corpus BLEU in ``level`` percent of resampled corpora (Koehn 2004)."""
    counts = sentence_counts(hypotheses, references, tokenize)
    values = np.concatenate([bleu_of(weights @ counts) for weights in resamples(len(counts), samples, seed)])
    low, high = np.percentile(values, [(100 - level) / 2, (100 + level) / 2]).tolist()
    return Interval(low, high, level, samples, seed)


def compare_bleu(
    systems: Mapping[str, Sequence[Translation]],
    references: Translation,
    draws: Draws,
    baseline: str | None = None,
    tokenize: str = "13a",
    trials: int = TRIALS,
) -> Comparison:
    """Returns the BLEU of systems, each given by the translations of its seeds, and compares them with one of them.

    N-grams are counted once per translation.
    """
    if not all(systems.values()) or (baseline is not None and baseline not in systems):
        raise ValueError("a system without translations")
    runs = {
        name: [_Run.of(sentence_counts(each, references, tokenize), draws) for each in translations]
        for name, translations in systems.items()
    }
    means = {
        # The baseline's seeds are drawn by themselves, and those of all others alike.
        name: draws.over_seeds("baseline" if name == baseline else "system", [run.bleu for run in seed_runs])
        for name, seed_runs in runs.items()
    }
    against = None if baseline is None else _Baseline(runs[baseline], means[baseline])
    scored = tuple(
        _system(name, seed_runs, means[name], None if name == baseline else against, draws, trials)
        for name, seed_runs in runs.items()
    )
    tests = {} if baseline is None else {"ar": trials}
    described = signature(tokenize, seed=draws.seed, bs=draws.samples, **tests)
    return Comparison(scored, baseline, described, len(references))


class _Run(NamedTuple):
    """The translation of one trained model: the counts of its sentences, and what they come to."""

    counts: Counts
    bleu: Sampled

    @classmethod
    def of(cls, counts: Counts, draws: Draws) -> _Run:
        value = float(bleu_of(counts.sum(axis=0)[None])[0])
        # A text of one sentence cannot be resampled.
        unknown = np.full(draws.samples, np.nan)
        return cls(counts, Sampled(value, bleu_of(draws.totals(counts)) if len(counts) > 1 else unknown))


class _Baseline(NamedTuple):
    """The system that others are compared with."""

    runs: Sequence[_Run]
    mean: Sampled

    def partners(self, runs: Sequence[_Run]) -> Sequence[_Run | None]:
        """Returns the run of the baseline that each of some runs is compared with."""
        if len(self.runs) == 1:
            return [self.runs[0]] * len(runs)
        return self.runs if len(self.runs) == len(runs) else [None] * len(runs)


def _system(
    name: str, runs: Sequence[_Run], mean: Sampled, baseline: _Baseline | None, draws: Draws, trials: int
) -> System:
    if baseline is None:
        return System(name, _scored(mean, draws), tuple(_scored(run.bleu, draws) for run in runs))
    pairs = list(zip(runs, baseline.partners(runs), strict=True))
    randomised = iter(
        randomisation_p([(run.counts, other.counts) for run, other in pairs if other], trials, draws.seed)
    )
    seeds = []
    for run, other in pairs:
        versus = None
        if other is not None:
            difference = run.bleu - other.bleu
            versus = _difference(difference, draws, bootstrap_p(difference), next(randomised))
        seeds.append(_scored(run.bleu, draws, versus))
    if len(runs) == len(baseline.runs) == 1:
        return System(name, seeds[0], tuple(seeds))
    return System(name, _scored(mean, draws, _difference(mean - baseline.mean, draws)), tuple(seeds))


def _scored(bleu: Sampled, draws: Draws, versus: Difference | None = None) -> Scored:
    low, high = _limits(bleu, draws)
    return Scored(bleu.value, low, high, versus)


def _difference(
    difference: Sampled, draws: Draws, bootstrap: float | None = None, randomised: float | None = None
) -> Difference:
    low, high = _limits(difference, draws)
    if low is None:
        return Difference(difference.value, None, None, None)
    return Difference(difference.value, low, high, _two_sided_p(difference), bootstrap, randomised)


def _limits(number: Sampled, draws: Draws) -> tuple[float, float] | tuple[None, None]:
    low, high = number.interval(draws.level) or (math.nan, math.nan)
    return (low, high) if math.isfinite(low) else (None, None)


def _two_sided_p(difference: Sampled) -> float:
    return 1.0 if abs(difference.value) < _ROUNDING else two_sided_p(_samples(difference))


def _samples(number: Sampled) -> NDArray[np.float64]:
    if number.samples is None:
        raise ValueError("a number without samples")
    return number.samples


def bootstrap_p(difference: Sampled) -> float:
    """Returns the p-value of sacreBLEU's paired bootstrap for the difference of two translations.

    It asks how often the size of a drawn difference exceeds the mean of these sizes by the observed one. Far from zero
    only one tail is left: it is about half of what a two-sided test says.
    """
    sizes = np.abs(_samples(difference))
    return _share_of(sizes - sizes.mean() >= abs(difference.value) - _ROUNDING)


def randomisation_p(pairs: Sequence[tuple[Counts, Counts]], trials: int, seed: int) -> list[float]:
    """Returns the two-sided p-values of approximate randomisation, of pairs of translations of the same text.

    A trial lets both systems exchange their translations of each sentence with probability one half.
    """
    if not pairs:
        return []
    moved = np.concatenate([first - second for first, second in pairs], axis=1).astype(np.float64)
    firsts, seconds = (np.concatenate([pair[side].sum(axis=0) for pair in pairs]) for side in (0, 1))
    observed = _distances(firsts[None], seconds[None])
    reached = [
        _distances(seconds + exchanged @ moved, firsts - exchanged @ moved) >= observed - _ROUNDING
        for exchanged in _exchanges(len(moved), trials, seed)
    ]
    return [_share_of(column) for column in np.concatenate(reached).T]


def _distances(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
    """Returns how far apart the scores of (row, counts of all pairs) are: (row, pair)."""
    left_scores, right_scores = (bleu_of(sums.reshape(-1, COUNTS)).reshape(len(sums), -1) for sums in (left, right))
    return np.abs(left_scores - right_scores)


def _exchanges(sentences: int, trials: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """Yields which sentences are exchanged in each trial, some trials at a time."""
    generator = np.random.default_rng(seed)
    for done in range(0, trials, _TRIALS_AT_ONCE):
        stays = generator.integers(2, size=(min(_TRIALS_AT_ONCE, trials - done), sentences), dtype=bool)
        yield (~stays).astype(np.float64)


def _share_of(reached: NDArray[np.bool_]) -> float:
    # The observed difference is one of all that are possible: no finite number of draws claims certainty.
    return (int(reached.sum()) + 1) / (len(reached) + 1)
