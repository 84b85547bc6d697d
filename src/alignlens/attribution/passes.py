"""Which passes methods need, and which methods share them; plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from alignlens.attribution.smoothing import ORDER, averages_raw
from alignlens.attribution.spec import NOISE, GradientPasses, Passes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alignlens.attribution.registry import Method


class Copying(NamedTuple):
    """How copies of a sentence differ, which distinguishes sweeps: by noise, or by their place on a path, or not."""

    sigma: float = 0.0
    seed: int = 0
    points: int = 0  # of a path from the baseline to the sentence

    @classmethod
    def of(cls, method: Method) -> Copying:
        """Returns the copies that a method needs; without noise and path there is one."""
        if method.spec.follows_path:
            return cls(points=method.parameters["n"])
        sigma = method.parameters["sigma"] if method.spec.noisy else 0.0
        return cls(sigma, method.parameters["seed"]) if sigma else cls()

    @property
    def is_single(self) -> bool:
        """Whether the only copy is the sentence itself."""
        return not (self.sigma or self.points)

    def share(self, copy: int) -> float:
        """Returns how far on the path a copy is: in the middle of its part of it."""
        return (copy + 0.5) / self.points


def copies_of(method: Method) -> int:
    """Returns how many copies a method averages over."""
    return 1 if Copying.of(method).is_single else int(method.parameters["n"])


def by_copies(methods: Iterable[Method]) -> dict[Copying, list[Method]]:
    """Returns the methods of every sweep: those whose copies are the same share its passes."""
    groups: dict[Copying, list[Method]] = {}
    for method in methods:
        groups.setdefault(Copying.of(method), []).append(method)
    return groups


class Kind(NamedTuple):
    """The key of a row of one copy: equal for methods that only differ in the number of copies."""

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
        late = passes.path or averages_raw(method.parameters)
        if not late and passes.normalised:
            settings["score"] = "log_p"  # a factor that is the same for a whole row cancels when the row is normalised
        return cls(passes, tuple(settings.items()), late)
