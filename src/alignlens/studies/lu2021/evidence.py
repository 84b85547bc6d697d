"""What the claims are tested on: attention, masks and BLEU of models, as numbers that know how much they vary."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alignlens.metrics.bleu import bleu_of
from alignlens.metrics.sampled import Draws, Sampled, mean_of
from alignlens.studies.lu2021.readings import (
    Bitext,
    Run,
    read_calibrations,
    read_cards,
    read_comparisons,
    read_texts,
    read_translations,
)
from alignlens.studies.lu2021.runs import BASELINE, FUSIONS, GATE, alpha_of, calibrated, on_less, pairs_of
from alignlens.studies.tables import Estimate
from alignlens.studies.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alignlens.metrics.calibration import CalibrationSums
    from alignlens.results.scores import Results
    from alignlens.studies.lu2021.readings import BleuComparison, Card, Counts, Text

SYSTEMS = (BASELINE, *map(calibrated, FUSIONS))
"""The four systems of the paper's tables."""


class SweepPoint(NamedTuple):
    """The gate with one weight of the penalty: its mean mask, and its BLEU where it translated."""

    alpha: float
    mask: Sampled
    bleu: Sampled | None


@dataclass(frozen=True)
class Evidence:
    """Everything that was read, and how sentences and seeds are drawn again."""

    calibrations: Mapping[Run, Mapping[str, CalibrationSums]] = field(default_factory=dict)
    translations: Mapping[Run, Mapping[str, Counts]] = field(default_factory=dict)
    comparisons: Sequence[BleuComparison] = ()
    cards: Mapping[Run, Card] = field(default_factory=dict)
    texts: Mapping[str, Text] = field(default_factory=dict)
    draws: Draws = field(default_factory=Draws)

    @classmethod
    def of(cls, results: Results) -> Evidence:
        """Returns the evidence of a results folder; what is damaged is an InputError."""
        manifest = results.manifest
        texts = read_texts(manifest)
        return cls(
            read_calibrations(manifest),
            read_translations(manifest, texts),
            read_comparisons(manifest),
            read_cards(manifest),
            texts,
            Draws(**manifest.interval),
        )

    @property
    def empty(self) -> bool:
        """Whether nothing was found."""
        return not (self.calibrations or self.comparisons)

    @property
    def test_sets(self) -> list[Bitext]:
        """Everything that a model of all text translates or is analysed on, in the order of the files."""
        runs = [*self.calibrations, *self.translations]
        return list(dict.fromkeys(run.test_set for run in runs if run.model in SYSTEMS))

    def tally(self) -> Tally:
        """Returns an empty tally at the level of the intervals."""
        return Tally(self.draws.level)

    def layers(self, run: Run) -> int:
        """Returns how many decoder layers a model has; 0 if it was not analysed."""
        sums = next(iter(self.calibrations.get(run, {}).values()), None)
        return 0 if sums is None else int(sums.totals["entropy_original"].shape[1])

    def sentences(self, run: Run) -> int:
        """Returns on how many sentences a model was analysed."""
        return max((len(sums.sentences) for sums in self.calibrations.get(run, {}).values()), default=0)

    def measured(self, run: Run, quantity: str, *place: int, seed: str | None = None) -> Sampled | None:
        """Returns a quantity, the mean over seeds (or of one); None if it was not measured."""
        by_seed = [
            sums.sampled(self.draws, quantity, *place)
            for each, sums in self.calibrations.get(run, {}).items()
            if seed in (None, each) and quantity in sums.totals
        ]
        # Numbers of one model share the seeds that are drawn, so that their differences do.
        return self.draws.over_seeds(run.model, by_seed) if by_seed else None

    def by_layer(self, run: Run, quantity: str, seed: str | None = None) -> list[Sampled]:
        """Returns a quantity layer by layer, the lowest first; nothing if it was not measured."""
        layers = [self.measured(run, quantity, layer, seed=seed) for layer in range(self.layers(run))]
        return [each for each in layers if each is not None]

    def bleu(self, run: Run, seed: str | None = None) -> Sampled | None:
        """Returns BLEU, the mean over seeds (or of one), on the texts and for the seeds that comparisons draw."""
        by_seed = [
            Sampled(float(bleu_of(counts.sum(axis=0)[None])[0]), self._bleu_samples(counts))
            for each, counts in self.translations.get(run, {}).items()
            if seed in (None, each)
        ]
        drawn = "baseline" if run.model.startswith(BASELINE) else "system"
        return self.draws.over_seeds(drawn, by_seed) if by_seed else None

    def _bleu_samples(self, counts: Counts) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        if len(counts) < 2:
            return np.full(self.draws.samples, np.nan)
        return bleu_of(self.draws.totals(counts))

    def gain(self, test_set: Bitext, model: str, baseline: str = BASELINE) -> Sampled | None:
        """Returns BLEU of a model minus that of its baseline."""
        one, other = (self.bleu(test_set.run(name)) for name in (model, baseline))
        return None if one is None or other is None else one - other

    def gains_by_amount(self, dataset: str) -> dict[int, Sampled]:
        """Returns the gain of the gate by training pairs, rising, the mean over directions."""
        gate = calibrated(GATE)
        gains: dict[int, list[Sampled]] = {}
        for run in self.translations:
            pairs = pairs_of(run.model)
            if run.dataset != dataset or not run.model.startswith(gate):
                continue
            if pairs is not None:
                gain = self.gain(run.test_set, run.model, on_less(BASELINE, pairs))
            elif run.model == gate and dataset in self.texts:
                pairs, gain = self.texts[dataset].train, self.gain(run.test_set, gate)
            else:
                continue
            if gain is not None:
                gains.setdefault(pairs, []).append(gain)
        return {pairs: mean_of(gains[pairs]) for pairs in sorted(gains)}

    def sweep(self, test_set: Bitext) -> list[SweepPoint]:
        """Returns the gate by the weight of its penalty, rising, all with the seed of the sweep.

        The gate of the tables is part of it unless its alpha was trained in the way of the sweep, too.
        """
        points: dict[float, Run] = {}
        seed = None
        for run, seeds in self.calibrations.items():
            alpha = alpha_of(run.model)
            if run.test_set == test_set and alpha is not None:
                points[alpha], seed = run, next(iter(seeds))
        usual = test_set.run(calibrated(GATE))
        if points and usual in self.cards and seed in self.calibrations.get(usual, {}):
            alpha = self.cards[usual].alpha
            if alpha is not None:
                points.setdefault(alpha, usual)
        return [
            SweepPoint(alpha, mean_of(self.by_layer(points[alpha], "mask", seed)), self.bleu(points[alpha], seed))
            for alpha in sorted(points)
        ]

    def estimate(self, number: Sampled | None, seeds: int = 1, reason: str = "not run") -> Estimate:
        """Returns a number with its limits for a table; without one, ``reason``."""
        if number is None or math.isnan(number.value):
            return Estimate(reason=reason)
        low, high = number.interval(self.draws.level) or (math.nan, math.nan)
        limits = (low, high) if math.isfinite(low) and math.isfinite(high) else (math.nan, math.nan)
        return Estimate(number.value, *limits, seeds)
