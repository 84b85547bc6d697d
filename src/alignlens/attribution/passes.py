"""Which passes methods need, and which methods share them; plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from alignlens.attribution.smoothing import ORDER, averages_raw
from alignlens.attribution.spec import NOISE, GradientPasses, Passes

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
        sigma = method.parameters["sigma"] if method.spec.noisy else 0.0
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


class Kind(NamedTuple):
    """What decides a row of one copy: equal for methods that differ in the number of copies only."""

    passes: Passes
    settings: tuple[tuple[str, Any], ...]
    averages_raw: bool = False  # rows of gradients are normalised after all copies, not one by one

    @property
    def values(self) -> dict[str, Any]:
        """The parameters by name."""
        return dict(self.settings)

    @classmethod
    def of(cls, method: Method, scaled: bool) -> Kind:
        """Returns the kind of a method, for a model whose backward passes training scales, or not."""
        passes, settings = method.spec.passes, dict(method.parameters)
        if method.spec.noisy:
            settings = {key: value for key, value in settings.items() if key not in NOISE}
        if not isinstance(passes, GradientPasses):
            return cls(passes, tuple(settings.items()))
        settings.pop(ORDER, None)
        if not scaled:
            settings["gradient"] = "train"  # the same backward pass
        late = averages_raw(method.parameters)
        if not late and passes.normalised:
            settings["score"] = "log_p"  # a factor that is the same for a whole row goes when the row is normalised
        return cls(passes, tuple(settings.items()), late)
