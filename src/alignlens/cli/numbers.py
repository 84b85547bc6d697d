"""Numbers on the command line: types for ``argparse`` whose errors give the value and what is allowed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, TypeVar

from alignlens.io.documents import shown
from alignlens.io.limits import SEED, Limits

if TYPE_CHECKING:
    from collections.abc import Callable

Number = TypeVar("Number", int, float)


def count(limits: Limits) -> Callable[[str], int]:
    """Returns the type of a whole number within limits."""
    return _checked(limits.whole)


def real(limits: Limits) -> Callable[[str], float]:
    """Returns the type of a number within limits."""
    return _checked(limits.real)


def _checked(read: Callable[[str], Number]) -> Callable[[str], Number]:
    def checked(text: str) -> Number:
        try:
            return read(text)
        except ValueError as error:
            # argparse puts the name of the option before it.
            raise argparse.ArgumentTypeError(f"{shown(text)} must be {error}") from None

    return checked


#: A seed of whatever draws random numbers.
seed = count(SEED)
