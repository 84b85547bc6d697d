"""What a method declares about itself, and the parameters that several methods share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from alignlens.io.limits import COPIES, PLACE, SEED, SIGMA, Limits


@dataclass(frozen=True)
class Parameter:
    """One setting of a method: its default, what it accepts in words, and how its text is read."""

    default: Any
    accepts: str
    read: Callable[[str], Any]  # raises ValueError for text that it does not accept


@dataclass(frozen=True)
class MethodSpec:
    """A method, for people and for the registry."""

    name: str
    summary: str
    paper: str
    equation: str
    cost: str  # passes per sentence with J target positions
    parameters: Mapping[str, Parameter]
    distribution: bool = True  # whether the scores of a target piece sum to one


def one_of(*choices: str) -> Parameter:
    """Returns a parameter with named values, the first of them its default."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return Parameter(choices[0], " or ".join(choices), read)


def number(default: float, limits: Limits) -> Parameter:
    """Returns a parameter that is a number within limits."""
    return Parameter(default, f"a number {limits}", limits.real)


def whole(default: int, limits: Limits) -> Parameter:
    """Returns a parameter that is a whole number within limits."""
    return Parameter(default, f"a number {limits}", limits.whole)


def place(*names: str) -> Parameter:
    """Returns a parameter that is a name or the number of a layer or head; negative numbers count from the last."""

    def read(text: str) -> str | int:
        return text if text in names else PLACE.whole(text)

    return Parameter(names[0], f"{', '.join(names)} or a number from 0 to {PLACE.most}", read)


#: Which token's probability is explained: the one that stands there, or the most probable other one.
LABEL = {"label": one_of("reference", "runner_up")}

#: ``train`` keeps a backward pass as it was in training (FConv scales its encoder's); ``true`` is the derivative.
GRADIENT = {"gradient": one_of("train", "true"), "score": one_of("log_p", "p"), **LABEL}

#: Noise: its standard deviation as a share of the sentence's range of embedding entries, copies, and seed.
NOISE = {
    "sigma": number(0.15, SIGMA),
    "n": whole(30, COPIES),
    "seed": whole(1, SEED),
}
