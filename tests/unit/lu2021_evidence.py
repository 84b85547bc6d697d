"""Made evidence for the study of Lu et al. 2021: attention, masks and translations with numbers that are chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from alignlens.metrics.calibration import CalibrationSums
from alignlens.metrics.sampled import Draws
from alignlens.studies.lu2021.evidence import Evidence
from alignlens.studies.lu2021.readings import Card, Run, Text

DATASET, DIRECTION = "made", "xa-xb"
SENTENCES, LAYERS, ROWS, BINS = 60, 3, 12, 5
BY_LAYER = (
    "entropy_original", "entropy_combined", "entropy_change", "jsd", "mask", "jsd_entropy_rank",
    "tau_original", "tau_original_without_end", "tau_mask", "tau_mask_without_end",
)  # fmt: skip
OVERALL = ("entropy_change_of_rows", "entropy_change_of_mean", "loss_clean", "loss_perturbed", "loss_shuffled")
Numbers = NDArray[np.float64]


def sums(noise: float = 0.02, seed: int = 1, layers: int = LAYERS, **means: float | Sequence[float]) -> CalibrationSums:
    """Returns sums with these means, by layer or one for all layers; everything else is 0.5.

    ``bins`` are the means of divergence by bin of entropy, the same in all layers; nan leaves a bin empty.
    """
    generator = np.random.default_rng(seed)
    totals, counts = {}, {}
    for name in (*BY_LAYER, *OVERALL):
        shape = (layers,) if name in BY_LAYER else ()
        mean = np.broadcast_to(np.asarray(means.get(name, 0.5), float), shape)
        totals[name] = ROWS * (mean + noise * generator.standard_normal((SENTENCES, *shape)))
        counts[name] = np.full((SENTENCES, *shape), float(ROWS))
    bins = np.tile(np.asarray(means.get("bins", [0.1] * BINS), float), (layers, 1))
    there = ~np.isnan(bins)
    drawn = bins + noise * generator.standard_normal((SENTENCES, layers, BINS))
    totals["jsd_by_entropy"] = ROWS * np.where(there, drawn, 0.0)
    counts["jsd_by_entropy"] = np.broadcast_to(ROWS * there.astype(float), (SENTENCES, layers, BINS)).copy()
    return CalibrationSums(tuple(range(SENTENCES)), totals, counts)


def plain(seed: int = 1, **means: float | Sequence[float]) -> CalibrationSums:
    """Returns the sums of a model without masks."""
    made = sums(seed=seed, **means)  # type: ignore[arg-type]
    names = [name for name in made.totals if name.startswith(("entropy_original", "tau_original", "loss_clean"))]
    return CalibrationSums(
        made.sentences, *({name: side[name] for name in names} for side in (made.totals, made.counts))
    )


def translation(quality: float, seed: int = 1) -> NDArray[np.int64]:
    """Returns what BLEU counts in sentences of 20 words, of whose n-grams this share is right."""
    generator = np.random.default_rng(seed)
    totals = np.array([20, 19, 18, 17])
    right = generator.binomial(totals, quality, size=(300, 4))
    lengths = np.full((300, 2), 20)
    return np.concatenate([right, np.broadcast_to(totals, (300, 4)), lengths], axis=1).astype(np.int64)


def run(model: str, direction: str = DIRECTION, dataset: str = DATASET) -> Run:
    """Returns a model on the usual dataset."""
    return Run(dataset, direction, model)


def looked(found: Mapping[str, CalibrationSums], cards: Mapping[str, Card] | None = None) -> Evidence:
    """Returns evidence of models that were analysed, one seed each."""
    named = {run(model): card for model, card in (cards or {}).items()}
    calibrations = {run(model): {"1": each} for model, each in found.items()}
    return Evidence(calibrations, cards=named, draws=Draws(samples=200))


def translated(
    found: Mapping[str, Mapping[str, float]], seeds: Mapping[str, int] | None = None, train: int = 9000
) -> Evidence:
    """Returns evidence of models that translate with a quality, by direction and model; one seed each.

    ``seeds`` of the generator, by model, are 1 unless given: so all models are right in similar sentences.
    """
    given = seeds or {}
    return Evidence(
        translations={
            run(model, direction): {"1": translation(quality, given.get(model, 1))}
            for direction, models in found.items()
            for model, quality in models.items()
        },
        texts={DATASET: Text(("xa", "xb"), train, 100, 300)},
        draws=Draws(samples=200),
    )
