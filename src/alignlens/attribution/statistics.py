"""Events of a run, counted over all its sentences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alignlens.attribution.relevance.rules import Losses

_ARRIVED = "arrived "
_MILLION = 1_000_000


@dataclass
class Statistics:
    """Events of a run over all its sentences; counters only, so that shards add up."""

    rows: int = 0  # that were normalised: target positions, once per noisy copy, or layer
    rows_without_positive: int = 0  # of these, rows of zeros: all of it went to the highest raw score
    forward_passes: int = 0  # one per sentence and noisy copy
    backward_passes: int = 0  # one per sentence, copy and target position
    sentences: int = 0
    halvings: int = 0  # how often memory ran out and batches were halved
    copies: dict[str, int] = field(default_factory=dict)  # by method with adaptive sampling: copies over all positions
    # By method and kind of layer: relevance that arrived there, and what of it was handed on before any rescaling; in
    # millionths, since whole numbers have the same sum in any order.
    arrived: dict[str, int] = field(default_factory=dict)
    handed_on: dict[str, int] = field(default_factory=dict)

    def add(self, other: Statistics) -> None:
        """Adds the counters of another part of the run."""
        for name, value in vars(other).items():
            own = getattr(self, name)
            setattr(self, name, _sums(own, value) if isinstance(value, dict) else own + value)

    def add_losses(self, method: str, losses: Losses) -> None:
        """Adds what the layers of a model did with the relevance of some sentences."""
        for own, new in ((self.arrived, losses.arrived), (self.handed_on, losses.handed_on)):
            for kind, amount in new.items():
                key = f"{method} {kind}"
                own[key] = own.get(key, 0) + round(_MILLION * amount)

    def as_json(self) -> dict[str, int]:
        """Returns the counters by name."""
        named = {key: value for key, value in vars(self).items() if not isinstance(value, dict)}
        single = {key: value for key, value in vars(self).items() if isinstance(value, dict)}
        return named | {f"{key} {what}": count for key, counts in single.items() for what, count in counts.items()}


def lost_shares(statistics: Mapping[str, int]) -> dict[tuple[str, str], float]:
    """Returns what share of relevance is lost before rescaling, by method and kind of layer, of counters by name."""
    arrived = {key.removeprefix(_ARRIVED): value for key, value in statistics.items() if key.startswith(_ARRIVED)}
    lost = {}
    for name, amount in arrived.items():
        method, _, kind = name.partition(" ")
        if amount:
            lost[method, kind] = 1 - statistics[f"handed_on {name}"] / amount
    return lost


def _sums(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    return {key: first.get(key, 0) + second.get(key, 0) for key in {**first, **second}}
