"""The declaration of a method: everything that the engine, the command line and the plan know about it.

A method is one file in ``methods/`` with a ``SPEC``. Its ``passes`` say what it needs of a model and carry its
functions. The engine groups methods by them and never asks for a name. This module and all specs are plain data: a
function may import a tensor library, a module of a method may not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from alignlens.io.limits import COPIES, PLACE, SEED, SIGMA, Limits

if TYPE_CHECKING:
    from torch import Tensor

    from alignlens.attribution.gradients.contract import Forward
    from alignlens.attribution.inputs import Inputs
    from alignlens.models.contract import Attention

Values = Mapping[str, Any]
"""A value for every parameter of a method, but for those of its noise."""


@dataclass(frozen=True)
class Parameter:
    """One setting of a method: its default, what it accepts in words, how its text is read, and what it is about."""

    default: Any
    accepts: str
    read: Callable[[str], Any]  # raises ValueError for text that it does not accept
    about: str = ""


class Contributions(NamedTuple):
    """Contributions to every target position: of the source, and of the prefix where a method explains it too."""

    source: Tensor  # (row, target, source)
    prefix: Tensor | None = None  # (row, target, target): the first column is the start symbol


@dataclass(frozen=True)
class TracedAttention:
    """One forward pass, shared; the attention to the source is read off it layer by layer."""

    of_layer: Callable[[Attention, str | int], Tensor]  # (row, target, source) of a layer and ``head``
    needs: ClassVar[tuple[str, ...]] = ("layer", "head", "step")


@dataclass(frozen=True)
class TracedMasks:
    """One forward pass, shared, of the model with its mask nets; masks are read off it layer by layer.

    Of a model that has masks itself it is the pass that all methods share.
    """

    of_layer: Callable[[Attention, str | int], Tensor]  # (row, target, source) of a layer and ``head``
    needs: ClassVar[tuple[str, ...]] = ("layer", "head", "step")


@dataclass(frozen=True)
class ForwardPass:
    """One forward pass, shared; a method reads decoder states and attention."""

    score: Callable[[Inputs, Forward, Values], Contributions]
    needs: ClassVar[tuple[str, ...]] = ()


class Reading(NamedTuple):
    """How a method reads the gradients of source embeddings."""

    #: (..., source) of gradients and embeddings (..., source, dim); None is their product, which has a faster way.
    of_vectors: Callable[[Tensor, Tensor], Tensor] | None = None
    raw: Callable[[Tensor], Tensor] = lambda read: read  # what noisy copies are averaged of
    row: Callable[[Tensor], Tensor] = lambda raw: raw  # what is normalised, nothing of it negative


@dataclass(frozen=True)
class GradientPasses:
    """One forward pass and one backward pass from every target position, all shared."""

    reading: Callable[[Values], Reading]
    normalised: bool = True  # whether rows are divided by their sums; else they are what ``Reading.row`` gives
    path: bool = False  # whether raw scores are means over points of the path from a baseline; parameters ``PATH``
    needs: ClassVar[tuple[str, ...]] = ("gradient", "score", "label")


@dataclass(frozen=True)
class OwnPasses:
    """Passes of the method's own; it counts them in ``inputs.statistics``."""

    score: Callable[[Inputs, Values], Contributions]
    # For the plan: passes per sentence, back from each of its target positions, and for each of its source positions,
    # whole ones and those of the decoder; and how often the output layer is asked besides.
    forward: float = 1.0
    backward: float = 0.0
    forward_by_source: float = 0.0
    decoder_by_source: float = 0.0
    output: float = 0.0
    needs: ClassVar[tuple[str, ...]] = ()


Passes = TracedAttention | TracedMasks | ForwardPass | GradientPasses | OwnPasses


class Only(NamedTuple):
    """The architectures that a method works with, and why it does not with others."""

    architectures: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class MethodSpec:
    """A method, for people, the registry and the engine."""

    name: str
    summary: str
    paper: str
    equation: str
    cost: str  # passes per sentence with J target positions
    passes: Passes
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    distribution: bool = True  # whether the scores of a target piece sum to one
    signed: bool = False  # whether scores may be negative; these are no shares, and have no entropy
    prefix: bool = False  # whether it gives a second matrix, of the target prefix
    only: Only | None = None  # None is any model behind the contract
    aliases: tuple[str, ...] = ()
    rank: int = 1000  # where it stands in lists and tables; equal ones are in the order of their names

    def __post_init__(self) -> None:
        missing = [key for key in self.passes.needs if key not in self.parameters]
        if "sigma" in self.parameters:
            missing += [key for key in NOISE if key not in self.parameters]
        if self.follows_path:
            missing += [key for key in PATH if key not in self.parameters]
        if missing:
            raise ValueError(f"method {self.name}: {type(self.passes).__name__} needs parameters {', '.join(missing)}")
        if self.signed and self.distribution:
            raise ValueError(f"method {self.name}: scores that may be negative are not a distribution")
        if self.follows_path and self.noisy:
            raise ValueError(f"method {self.name}: copies are on a path, or noisy")
        if self.prefix and not isinstance(self.passes, (ForwardPass, OwnPasses)):
            raise ValueError(f"method {self.name}: {type(self.passes).__name__} cannot explain the prefix")

    @property
    def noisy(self) -> bool:
        """Whether it averages over copies of the source with noise on its embeddings."""
        return "sigma" in self.parameters

    @property
    def follows_path(self) -> bool:
        """Whether it averages over points of a path from a baseline to the source."""
        return isinstance(self.passes, GradientPasses) and self.passes.path

    @property
    def needs_masks(self) -> bool:
        """Whether it reads masks: a model without any has to have mask nets beside it."""
        return isinstance(self.passes, TracedMasks)

    def supports(self, architecture: str) -> bool:
        """Returns whether it works with models of an architecture."""
        return self.only is None or architecture in self.only.architectures


def one_of(*choices: str, about: str = "") -> Parameter:
    """Returns a parameter with named values, the first of them its default."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return Parameter(choices[0], " or ".join(choices), read, about)


def number(default: float, limits: Limits, about: str = "") -> Parameter:
    """Returns a parameter that is a number within limits."""
    return Parameter(default, f"a number {limits}", limits.real, about)


def whole(default: int, limits: Limits, about: str = "") -> Parameter:
    """Returns a parameter that is a whole number within limits."""
    return Parameter(default, f"a number {limits}", limits.whole, about)


def place(*names: str, about: str = "") -> Parameter:
    """Returns a parameter that is a name or the number of a layer or head; negative numbers count from the last."""

    def read(text: str) -> str | int:
        return text if text in names else PLACE.whole(text)

    return Parameter(names[0], f"{', '.join(names)} or a number from 0 to {PLACE.most}", read, about)


_ONE = "a number picks one, from 0; negative numbers count from the last"
#: The mean over all layers or heads, or one of them.
LAYER = {"layer": place("mean", about=f"`mean` of all; {_ONE}")}
HEAD = {"head": place("mean", about=f"`mean` of all; {_ONE}")}

#: The decoder step that a row of attention is taken from.
STEP = {
    "step": one_of(
        "out",
        "in",
        about="`out`: row j is of the step that predicts piece j; `in`: of the step that reads it, one later",
    )
}

#: Which token's probability is explained.
LABEL = {
    "label": one_of(
        "reference",
        "runner_up",
        about="`reference`: the token in the target; `runner_up`: the most probable other token, to see what depends "
        "on the token",
    )
}

_GRADIENT = (
    "`train`: as in training; `true`: the derivative. They differ for FConv only, which scales the gradient at its "
    "encoder output by 1 / (2 · decoder layers)"
)
GRADIENT = {
    "gradient": one_of("train", "true", about=_GRADIENT),
    "score": one_of(
        "log_p",
        "p",
        about="whose gradient is taken; both give the same rows without noise, or where each copy is normalised",
    ),
    **LABEL,
}
#: The gradient of methods whose scores add up only if it is the derivative.
DERIVATIVE = {"gradient": one_of("true", "train", about=f"{_GRADIENT}, and then the scores do not add up")}

#: What stands for a source token that is not there.
BASELINE = {"baseline": one_of("zero", about="a vector of zeros, before positions, replaces a missing token")}

#: A straight path from the baseline of all source tokens.
PATH = {**BASELINE, "n": whole(20, COPIES, "points of the path")}

NOISE = {
    "sigma": number(0.15, SIGMA, "standard deviation of the noise, as a share of the range of a sentence's embeddings"),
    "n": whole(30, COPIES, "noisy copies"),
    "seed": whole(1, SEED, "seed of the noise"),
}
