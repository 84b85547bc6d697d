"""Made evidence for the study of Voita et al. 2020: scores with shares and entropies that are chosen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alignlens.metrics.sampled import Draws
from alignlens.studies.voita2020.evidence import GIVEN, OTHERS, OWN, Curves, Evidence, Key, Snapshot
from alignlens.studies.voita2020.runs import MINIMUM_RISK, SOURCE_DROPOUT, TARGET_DROPOUT, trained_on

STEPS, SOURCES, SENTENCES = 16, 12, 40
DATASET, MOST = "made", 4000
Numbers = NDArray[np.float64]
Pair = tuple[Numbers, Numbers]


def pairs(
    share: Numbers | float = 0.6,
    width: Numbers | float = 0.5,
    early: float = 0.0,
    spread: Numbers | float = 1.0,
    seed: int = 1,
) -> list[Pair]:
    """Returns scores of source and prefix.

    ``share`` is what the source has of all but the start symbol, at every step; ``width``, from 0 to 1, how much of
    its part is spread evenly over the source, the rest is on one token; ``early`` moves weight to its beginning; and
    ``spread`` is how evenly the prefix shares its part.
    """
    generator = np.random.default_rng(seed)
    shares, widths, spreads = (np.broadcast_to(np.asarray(each, float), (STEPS,)) for each in (share, width, spread))
    made = []
    for _ in range(SENTENCES):
        source, prefix = np.zeros((STEPS, SOURCES)), np.zeros((STEPS, STEPS))
        slope = 1 + early * np.linspace(1, -1, SOURCES)
        for step in range(STEPS):
            noise = 0.002 * generator.standard_normal()
            mine = 1.0 if step == 0 else float(np.clip(shares[step] + noise, 0.01, 0.99))
            even = slope / slope.sum()
            source[step] = widths[step] * even
            source[step, step % SOURCES] += 1 - widths[step]
            source[step] *= 0.9 * mine
            if step:
                prefix[step, 1 : step + 1] = spreads[step] / step
                prefix[step, step] += 1 - spreads[step]
                prefix[step] *= 0.9 * (1 - mine)
            prefix[step, 0] = 0.1
        made.append((source, prefix))
    return made


def curves(**settings: Numbers | float) -> Curves:
    """Returns curves of such scores."""
    return Curves.of(pairs(**settings))  # type: ignore[arg-type]


def falling(first: float, last: float) -> Numbers:
    """Returns numbers for every step, from the first to the last."""
    return np.linspace(first, last, STEPS)


def peaked(at: float, low: float, high: float) -> Numbers:
    """Returns numbers that rise to a share ``at`` of the steps, and fall from there."""
    top = round(at * STEPS)
    return np.concatenate((np.linspace(low, high, top), np.linspace(high, low, STEPS - top + 1)[1:]))


def evidence(
    base: dict[str, Curves], alpha: float = 1.0, timeline: list[Snapshot] | None = None, **models: dict[str, Curves]
) -> Evidence:
    """Returns evidence of one dataset: of the first model by prefix, and of others by name and prefix."""
    found = {Key(DATASET, trained_on(MOST), prefix, alpha): each for prefix, each in base.items()}
    for name, by_prefix in models.items():
        found |= {Key(DATASET, name, prefix, alpha): each for prefix, each in by_prefix.items()}
    timelines = {(DATASET, alpha): timeline} if timeline else {}
    return Evidence(found, timelines, {DATASET: trained_on(MOST)}, Draws(samples=200))


def snapshots(shares: list[float], widths: list[float], divergences: list[float], early_right: bool) -> list[Snapshot]:
    """Returns a training with these numbers at rising updates."""
    right = np.tile(falling(0.9, 0.2) if early_right else falling(0.2, 0.9), (SENTENCES, 1))
    updates = [10, 50, 100, 210, 400, 1000][: len(shares)]
    return [
        Snapshot(
            update,
            curves(share=falling(share + 0.1, share - 0.1), width=width, spread=width),
            np.full(SENTENCES, far),
            (np.random.default_rng(1).random(right.shape) < right).astype(float),
        )
        for update, share, width, far in zip(updates, shares, widths, divergences, strict=True)
    ]


__all__ = ["GIVEN", "MINIMUM_RISK", "OTHERS", "OWN", "SOURCE_DROPOUT", "TARGET_DROPOUT"]
