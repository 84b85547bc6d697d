"""What an encoder's attention weights and norms are like over a text, in one pass (Kobayashi et al. 2020, section 4).

Norms are those of ``f(x)``: value projection with its bias, then the head's rows of the output projection. What is kept
does not grow with the text, except for three numbers per token and the triples that a budget allows.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from alignlens.encoders.weight_norm_pairs import WeightNormPairs, choose
from alignlens.metrics.moments import Moments
from alignlens.metrics.rank_correlation import spearman

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.encoders.sequences import TokenSequence
    from alignlens.metrics.moments import Dispersion

Singles = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

TRIPLES = 20_000_000
_POINTS = 5_000


@dataclass(frozen=True)
class Observation:
    """What the layers of an encoder did with one sequence."""

    weights: Singles  # (layer, head, query, key)
    norms: Singles  # (layer, head, key): of f(x)
    input_norms: Singles  # (layer, key): of x
    errors: Doubles  # (layer): largest error of weights, f(x) and bias against what the layer gave


class EncoderStatistics:
    """Collects the statistics of sequences; each is added once, in any order."""

    def __init__(
        self,
        sequences: Sequence[TokenSequence],
        categories: Sequence[str],
        layers: int,
        heads: int,
        ranks: Doubles | None = None,
        triples: int = TRIPLES,
    ) -> None:
        """``ranks`` are the frequency ranks by id, if known; ``triples`` is the budget of a rank correlation."""
        self._sequences, self._categories, self._ranks = sequences, list(categories), ranks
        self._heads = heads
        lengths = np.array([len(sequence) for sequence in sequences], np.int64)
        kinds = range(len(categories))
        counts = np.array([np.bincount(sequence.categories, minlength=len(kinds)) for sequence in sequences], np.int64)
        self._tokens = counts.sum(0)
        self._pairs = [
            WeightNormPairs(
                choose(lengths, counts[:, kind], layers * heads, triples), layers, heads, lengths, counts[:, kind]
            )
            for kind in kinds
        ]
        self._norms, self._inputs = Moments((layers, heads)), Moments((layers,))
        self._weight_totals = np.zeros((layers, heads, len(kinds)))
        self._norm_totals = np.zeros((layers, heads, len(kinds)))
        self._norm_sums = np.zeros((layers, len(kinds)))
        self._token_shares = (counts / lengths[:, None]).mean(0)
        self._errors = np.zeros(layers)
        self._begins = np.cumsum(lengths) - lengths
        self._occurrences = np.empty((int(lengths.sum()), 2))

    def add(self, number: int, seen: Observation) -> None:
        """Adds what was observed of the sequence with this number."""
        kinds = self._sequences[number].categories
        member = np.equal.outer(kinds, np.arange(len(self._categories))).astype(np.float64)  # (key, category)
        # Summing over keys and averaging over queries may change places: everything but the pairs needs means only.
        weights = seen.weights.mean(axis=2, dtype=np.float64)  # (layer, head, key)
        norms = seen.norms.astype(np.float64)
        self._norms.add(norms)
        self._inputs.add(seen.input_norms)
        self._weight_totals += weights @ member
        self._norm_totals += (weights * norms) @ member
        self._norm_sums += (norms @ member).sum(1)
        self._errors = np.maximum(self._errors, seen.errors)
        begin = self._begins[number]
        here = slice(begin, begin + len(kinds))
        self._occurrences[here, 0], self._occurrences[here, 1] = weights.mean((0, 1)), norms.mean((0, 1))
        for kind, pairs in enumerate(self._pairs):
            pairs.add(number, seen.weights, seen.norms, np.flatnonzero(kinds == kind))

    def result(self) -> dict[str, Any]:
        """Returns all statistics by name, as plain data; None stands for what cannot be computed."""
        statistics: dict[str, Any] = plain(
            {
                "categories": self._categories,
                "tokens": dict(zip(self._categories, self._tokens.tolist(), strict=True)),
                "dispersion": {
                    "transformed": _spread(self._norms.dispersion()),
                    "inputs": _spread(self._inputs.dispersion()),
                },
                "shares": self._shares(),
                "means": self._means(),
                "correlations": self._correlations(),
                "frequency": self._frequency(),
                "identity": {"largest_error": self._errors.max(), "by_layer": self._errors},
            }
        )
        return statistics

    def points(self) -> dict[str, npt.NDArray[Any]]:
        """Returns bounded samples for figures: triples by layer, head and category, and token occurrences by rank."""
        samples = [pairs.sample(_POINTS, seed=kind) for kind, pairs in enumerate(self._pairs)]
        kinds = [np.full(len(sample.weight), kind, np.int64) for kind, sample in enumerate(samples)]
        names = ("layer", "head", "weight", "norm")
        columns = {name: np.concatenate([getattr(sample, name) for sample in samples]) for name in names}
        columns["category"] = np.concatenate(kinds)
        ranks, occurrences = self._ranked()
        chosen = np.arange(min(_POINTS, len(ranks))) * len(ranks) // max(1, min(_POINTS, len(ranks)))
        return {
            **columns,
            "frequency_rank": ranks[chosen],
            "frequency_weight": occurrences[chosen, 0],
            "frequency_norm": occurrences[chosen, 1],
        }

    def _shares(self) -> dict[str, Any]:
        """Returns per category its share of tokens, of weights and of norms.

        Totals are sums over the category's keys, averaged over queries and then over sequences. Those of weights add up
        to 1; those of norms are divided by their own total before they are called shares. A layer's totals are means
        over its heads.
        """
        count = len(self._sequences)
        weights, norms = self._weight_totals / count, self._norm_totals / count
        by_layer = {"weights": weights.mean(1), "norm_totals": norms.mean(1)}
        by_layer["norms"] = by_layer["norm_totals"] / by_layer["norm_totals"].sum(-1, keepdims=True)
        by_head = {"weights": weights, "norm_totals": norms, "norms": norms / norms.sum(-1, keepdims=True)}
        return {
            "tokens": self._by_category(self._token_shares),
            "by_layer": {name: self._by_category(values) for name, values in by_layer.items()},
            "by_head": {name: self._by_category(values) for name, values in by_head.items()},
        }

    def _means(self) -> dict[str, Any]:
        """Returns the mean weight and norm of a token of a category by layer; a token counts once for every head."""
        sums = self._weight_totals.sum(1), self._norm_sums
        with np.errstate(invalid="ignore", divide="ignore"):  # a category that does not occur
            weights, norms = (those / (self._tokens * self._heads) for those in sums)
        return {"weights": self._by_category(weights), "norms": self._by_category(norms)}

    def _by_category(self, values: Doubles) -> dict[str, Any]:
        return {name: values[..., kind].tolist() for kind, name in enumerate(self._categories)}

    def _correlations(self) -> dict[str, Any]:
        by_kind = {}
        for name, pairs in zip(self._categories, self._pairs, strict=True):
            choice = pairs.choice
            by_kind[name] = {
                "rho": pairs.correlation(),
                "by_layer": pairs.correlations_by_layer(),
                "triples": choice.triples,
                "used": choice.used,
                "sequences": choice.sequences,
                "sequences_used": len(choice.numbers),
                "exact": choice.exact,
            }
        return by_kind

    def _frequency(self) -> dict[str, Any]:
        """Returns the rank correlation of frequency rank with mean weight and norm over token occurrences."""
        if self._ranks is None:
            return {"rho_weights": None, "rho_norms": None, "occurrences": 0, "left_out": len(self._occurrences)}
        ranks, occurrences = self._ranked()
        return {
            "rho_weights": spearman(ranks, occurrences[:, 0]),
            "rho_norms": spearman(ranks, occurrences[:, 1]),
            "occurrences": len(ranks),
            "left_out": len(self._occurrences) - len(ranks),
        }

    def _ranked(self) -> tuple[Doubles, Doubles]:
        """Returns the ranks of all occurrences that have one, with their mean weight and norm."""
        if self._ranks is None:
            return np.empty(0), np.empty((0, 2))
        ranks = self._ranks[np.concatenate([sequence.ids for sequence in self._sequences])]
        known = ~np.isnan(ranks)
        return ranks[known], self._occurrences[known]


def _spread(dispersion: Dispersion) -> dict[str, Any]:
    values = asdict(dispersion)
    return {**values, "average": {name: values[name].mean() for name in ("mean", "deviation", "cv")}}


def plain(value: Any) -> Any:
    """Returns a value as JSON can hold it: arrays as lists, numbers that are not finite as None."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value
