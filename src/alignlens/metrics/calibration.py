"""What calibration does to attention, and whether it points at what matters (Lu et al. 2021, section 5).

Sentence by sentence, from rows over source positions of true length: the original attention of every layer and head,
the attention combined with a mask, the mask itself, and the importance of source positions by gradients. Rows of
attention are divided by their sum first, since combined ones have any. Logarithms are natural, and 0 log 0 is 0.

    jsd                     Jensen-Shannon divergence of original and combined rows, at most ln 2; by layer
    jsd_by_entropy          the same by layer and entropy of the original row: below 0.8, 1.6, 2.4, 3.2, and above
    jsd_entropy_rank        Spearman's correlation of the entropy of the original row with its divergence over the rows
                            of a sentence, by layer
    entropy_original        entropy of original rows, by layer; entropy_combined likewise
    entropy_change          combined minus original: above 0 is more spread out; by layer
    entropy_change_of_rows  the same over all layers: their mean
    entropy_change_of_mean  change of the entropy of the attention that is averaged over layers and heads before
    mask                    mean of the mask, by layer
    tau_original            Kendall's tau-b of attention, the mean over heads, with importance, by layer;
                            tau_combined likewise, and tau_mask for 1 - mask, which is large where it matters
    tau_..._without_end     the same without END, the last source position
    loss_clean              nats per label with the attention that the model has; loss_perturbed with attention that the
                            mask perturbs, and loss_shuffled with its values at other source positions

Means are over all rows of all sentences, those of losses over labels, and that of ``jsd_entropy_rank`` is over
sentences. A row, or a sentence, in which a side is constant has no rank correlation and does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from alignlens.errors import InputError
from alignlens.io.arrays import read_arrays, write_arrays
from alignlens.metrics.agreement import Rows
from alignlens.metrics.comparisons import ItemSums
from alignlens.metrics.entropy import row_entropies
from alignlens.metrics.kendall import kendall_tau
from alignlens.metrics.rank_correlation import spearman
from alignlens.metrics.sampled import Sampled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from alignlens.metrics.sampled import Draws

    Numbers = NDArray[np.float64]
    Tensor = NDArray[np.floating[Any]]

ENTROPY_EDGES = (0.8, 1.6, 2.4, 3.2)
"""Lower edges of the bins of entropy; the first bin begins at 0."""
ORIGINAL, COMBINED, MASK = "original", "combined", "mask"
CLEAN, PERTURBED, SHUFFLED = LOSSES = "clean", "perturbed", "shuffled"
_SMALLEST_DIVERGENCE = 1e-12
"""Less is what rounding leaves of equal rows, or less than nothing; it must not have a rank."""
_ADVICE = "Delete it and recreate it with: alignlens calibration, or run the pipeline again."


class _Sum(NamedTuple):
    """Numbers of one sentence, added up by layer or bin, and how many they are."""

    total: Any
    count: Any


class Calibration:
    """Collects the sentences of a corpus in any order; of each only sums are kept."""

    def __init__(self) -> None:
        self._sentences: dict[int, dict[str, _Sum]] = {}

    def add(
        self,
        number: int,
        original: Tensor,
        importance: Tensor,
        combined: Tensor | None = None,
        mask: Tensor | None = None,
        losses: Mapping[str, float] | None = None,
    ) -> None:
        """Adds a sentence by its number in the corpus.

        Attention and mask are (layer, head, target, source), importance is (target, source). Losses, some of
        ``LOSSES``, are sums over its labels. A model that is not calibrated has neither ``combined`` nor ``mask``, and
        nothing is said of them.
        """
        if number in self._sentences:
            raise ValueError(f"sentence {number} is there already")
        try:
            _check(original, importance, combined, mask)
            sums = _sums(original, importance, combined, mask) | _losses(losses or {}, len(importance))
        except ValueError as error:
            raise ValueError(f"sentence {number}: {error}") from None
        if _shapes(sums) != _shapes(next(iter(self._sentences.values()), sums)):
            raise ValueError(f"sentence {number}: another number of layers, or other quantities, than before")
        self._sentences[number] = sums

    def sums(self) -> CalibrationSums:
        """Returns all sentences so far, in the order of their numbers; there must be one."""
        numbers = sorted(self._sentences)
        ordered = [self._sentences[number] for number in numbers]
        totals, counts = (
            {name: np.array([each[name][side] for each in ordered], np.float64) for name in ordered[0]}
            for side in (0, 1)
        )
        return CalibrationSums(tuple(numbers), totals, counts)


@dataclass(frozen=True, eq=False)
class CalibrationSums:
    """Sums and counts of every quantity: (sentence,), (sentence, layer), or (sentence, layer, bin)."""

    sentences: tuple[int, ...]
    totals: Mapping[str, Numbers]
    counts: Mapping[str, Numbers]

    @classmethod
    def joined(cls, parts: Iterable[CalibrationSums]) -> CalibrationSums:
        """Returns the sums of a corpus that was measured in parts."""
        given = list(parts)
        numbers = np.concatenate([part.sentences for part in given])
        order = np.argsort(numbers)
        alike = all(part.totals.keys() == given[0].totals.keys() for part in given)
        if not alike or len(np.unique(numbers)) < len(numbers):
            raise ValueError("not the parts of one corpus")
        totals, counts = (
            {name: np.concatenate([side[name] for side in sides])[order] for name in sides[0]}
            for sides in ([part.totals for part in given], [part.counts for part in given])
        )
        return cls(tuple(numbers[order].tolist()), totals, counts)

    @classmethod
    def load(cls, path: Path) -> CalibrationSums:
        """Reads what ``save`` wrote; raises ``InputError`` if anything is wrong with it."""
        arrays = read_arrays(path, _ADVICE)
        numbers = arrays.pop(_NUMBERS, np.empty(0))
        names = [key.removesuffix(_TOTAL) for key in arrays if key.endswith(_TOTAL)]
        if not names or arrays.keys() != {name + side for name in names for side in (_TOTAL, _COUNT)}:
            raise InputError("not the sums of sentences.", path, advice=_ADVICE)
        totals, counts = ({name: arrays[name + side] for name in names} for side in (_TOTAL, _COUNT))
        fit = numbers.ndim == 1 and numbers.dtype.kind == "i" and (np.diff(numbers) > 0).all()
        if not fit or not all(_fit(len(numbers), totals[name], counts[name]) for name in names):
            raise InputError("damaged: its arrays do not fit together.", path, advice=_ADVICE)
        return cls(tuple(numbers.tolist()), totals, counts)

    def save(self, path: Path) -> None:
        """Writes one file."""
        arrays: dict[str, NDArray[Any]] = {_NUMBERS: np.array(self.sentences, np.int64)}
        for name, totals in self.totals.items():
            arrays |= {name + _TOTAL: totals, name + _COUNT: self.counts[name]}
        write_arrays(path, arrays)

    def means(self) -> dict[str, Numbers]:
        """Returns the mean of every quantity, by layer and bin where it has them; nan where nothing counted."""
        with np.errstate(invalid="ignore"):
            return {name: self.totals[name].sum(axis=0) / self.counts[name].sum(axis=0) for name in self.totals}

    def sampled(self, draws: Draws, quantity: str, *place: int) -> Sampled:
        """Returns a mean with what it is on resampled sentences; ``place`` is the layer, or layer and bin."""
        of_place: Any = (slice(None), *place)
        above, below = (each[quantity][of_place] for each in (self.totals, self.counts))
        return Sampled(ItemSums(above, below).mean(), draws.ratio(above, below))

    def intervals(self, draws: Draws) -> dict[str, Numbers]:
        """Returns the limits of all means: (..., 2). They are infinite where nothing is known."""
        limits = {}
        for name, totals in self.totals.items():
            limits[name] = np.empty((*totals.shape[1:], 2))
            for place in np.ndindex(totals.shape[1:]):
                limits[name][place] = self.sampled(draws, name, *place).interval(draws.level)
        return limits


_NUMBERS, _TOTAL, _COUNT = "sentences", ".total", ".count"  # how arrays are called in a file


def _fit(sentences: int, totals: Numbers, counts: Numbers) -> bool:
    """Returns whether arrays can be sums and counts of sentences."""
    alike = totals.shape == counts.shape and totals.dtype == counts.dtype == np.float64
    return bool(alike and totals.shape[:1] == (sentences,) and np.isfinite(totals).all() and (counts >= 0).all())


def _shapes(sums: Mapping[str, _Sum]) -> dict[str, tuple[int, ...]]:
    return {name: np.shape(each.total) for name, each in sums.items()}


def _check(original: Tensor, importance: Tensor, combined: Tensor | None, mask: Tensor | None) -> None:
    if original.ndim != 4 or original.shape[2:] != importance.shape:
        raise ValueError(f"attention {original.shape} for importance {importance.shape}")
    for name, given in ((COMBINED, combined), (MASK, mask)):
        if given is not None and given.shape != original.shape:
            raise ValueError(f"{name} {given.shape} for attention {original.shape}")
    if not np.isfinite(importance).all():
        raise ValueError("importance must be finite")
    if mask is not None and not ((mask >= 0) & (mask <= 1)).all():
        raise ValueError("the mask must be between 0 and 1")


def _sums(original: Tensor, importance: Tensor, combined: Tensor | None, mask: Tensor | None) -> dict[str, _Sum]:
    entropies, shares = _entropies(original), _shares(original)
    sums = {"entropy_original": _by_layer(entropies)}
    explained = {ORIGINAL: shares.mean(axis=1)}
    if combined is not None:
        new_shares = _shares(combined)
        sums |= _changes(entropies, shares, _entropies(combined), new_shares)
        explained[COMBINED] = new_shares.mean(axis=1)
    if mask is not None:
        sums[MASK] = _by_layer(mask.astype(np.float64))
        explained[MASK] = 1 - mask.astype(np.float64).mean(axis=1)
    for suffix, width in (("", importance.shape[1]), ("_without_end", importance.shape[1] - 1)):
        for name, by_head in explained.items():
            taus = _taus(by_head[:, :, :width], importance[:, :width])
            sums[f"tau_{name}{suffix}"] = _Sum(np.nansum(taus, axis=1), np.count_nonzero(~np.isnan(taus), axis=1))
    return sums


def _losses(losses: Mapping[str, float], labels: int) -> dict[str, _Sum]:
    for name, loss in losses.items():
        if name not in LOSSES or not np.isfinite(loss):
            raise ValueError(f"loss {name!r} of {loss}")
    return {f"loss_{name}": _Sum(losses[name], labels) for name in LOSSES if name in losses}


def _changes(entropies: Numbers, shares: Numbers, new_entropies: Numbers, new_shares: Numbers) -> dict[str, _Sum]:
    """Returns what differs between original rows and new ones."""
    divergences = _entropies((shares + new_shares) / 2) - (entropies + new_entropies) / 2
    divergences[divergences < _SMALLEST_DIVERGENCE] = 0
    ranks = np.array([spearman(one.ravel(), other.ravel()) for one, other in zip(entropies, divergences, strict=True)])
    changes = new_entropies - entropies
    averaged = _entropies(new_shares.mean(axis=(0, 1))) - _entropies(shares.mean(axis=(0, 1)))
    return {
        "jsd": _by_layer(divergences),
        "jsd_by_entropy": _by_entropy(divergences, entropies),
        "jsd_entropy_rank": _Sum(np.nan_to_num(ranks), ~np.isnan(ranks)),
        "entropy_combined": _by_layer(new_entropies),
        "entropy_change": _by_layer(changes),
        "entropy_change_of_rows": _Sum(changes.sum(), changes.size),
        "entropy_change_of_mean": _Sum(averaged.sum(), averaged.size),
    }


def _entropies(rows: Tensor) -> Numbers:
    """Returns the entropy of every row, whose last axis it is."""
    return row_entropies(rows.reshape(-1, rows.shape[-1]), distribution=False).reshape(rows.shape[:-1])


def _shares(rows: Tensor) -> Numbers:
    numbers = rows.astype(np.float64)
    shares: Numbers = numbers / numbers.sum(axis=-1, keepdims=True)
    return shares


def _by_layer(numbers: Numbers) -> _Sum:
    by_layer = numbers.reshape(len(numbers), -1)
    return _Sum(by_layer.sum(axis=1), np.full(len(by_layer), by_layer.shape[1]))


def _by_entropy(numbers: Numbers, entropies: Numbers) -> _Sum:
    """Returns sums by (layer, bin)."""
    layers, size = len(numbers), len(ENTROPY_EDGES) + 1
    bins = np.digitize(entropies, ENTROPY_EDGES).reshape(layers, -1) + size * np.arange(layers)[:, None]
    totals, counts = (
        np.bincount(bins.ravel(), weights, layers * size).reshape(layers, size) for weights in (numbers.ravel(), None)
    )
    return _Sum(totals, counts)


def _taus(explained: Numbers, importance: Tensor) -> Numbers:
    """Returns tau-b of (layer, target, source) with importance: (layer, target); nan where there is none."""
    layers, targets, width = explained.shape
    if not width:
        return np.full((layers, targets), np.nan)
    left = Rows.of([each.astype(np.float32) for each in explained])
    right = Rows.of([importance.astype(np.float32)] * layers)
    return kendall_tau(left, right).reshape(layers, targets)
