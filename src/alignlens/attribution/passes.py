"""Which noisy copies methods need, and which methods share them; plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alignlens.attribution.registry import Method


class Noise(NamedTuple):
    """What distinguishes sweeps; without noise there is one copy."""

    sigma: float
    seed: int

    @classmethod
    def of(cls, method: Method) -> Noise:
        """Returns the noise of a method."""
        sigma = method.parameters.get("sigma", 0.0)
        return cls(sigma, method.parameters["seed"]) if sigma else cls(0.0, 0)


def copies_of(method: Method) -> int:
    """Returns how many copies a method averages over."""
    return int(method.parameters["n"]) if Noise.of(method).sigma else 1


def by_noise(methods: Iterable[Method]) -> dict[Noise, list[Method]]:
    """Returns the methods of every sweep: those that have the same noise share its passes."""
    groups: dict[Noise, list[Method]] = {}
    for method in methods:
        groups.setdefault(Noise.of(method), []).append(method)
    return groups
