"""The number of a sentence's first word in a file of links: stated, detected, or assumed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignlens.errors import ConfigError, InputError

if TYPE_CHECKING:
    from alignlens.alignment.written import Lengths, Written

_ENOUGH_LINES_TO_JUDGE = 20


@dataclass(frozen=True)
class Base:
    """The number of the first word, and how it is known."""

    number: int
    why: str
    known: bool = True
    """Whether it is certain; otherwise the user should hear of it."""

    @classmethod
    def stated(cls, number: int, by: str = "said so") -> Base:
        """Returns a base that the user gave; it still has to fit."""
        if number not in (0, 1):
            raise ConfigError(f"index base {number!r} is not one of 0, 1")
        return cls(number, by)


def base_of(written: Written, lengths: Lengths | None) -> Base:
    """Returns the base of links for which none was given.

    A link with word 0 settles it, and so does one beyond the last word when counted from 0. Otherwise it is
    unknown: 0 is assumed, unless there are so many lines that one of them would have word 0.
    """
    if not written.source.size:
        return Base(0, "there are no links")
    if not written.without_zero():
        return Base(0, "a link has word 0")
    if lengths is not None and written.sentences == lengths.source.size:
        if not written.fits(0, lengths) and written.fits(1, lengths):
            return Base(1, "no link has word 0, and one reaches the last word of its sentence when counted from 1")
        if not written.fits(0, lengths):
            return Base(0, "assumed")  # It fits neither way; the check of the links reports it.
        return Base(0, "assumed: no link has word 0, and all fit the text counted from 0 and from 1", known=False)
    filled = np.unique(written.sentence).size
    if filled >= _ENOUGH_LINES_TO_JUDGE:
        raise InputError(
            f"no link of {filled} lines is 0 on either side.",
            written.path,
            advice=f"It seems to count from 1: set {written.option} 1, or {written.option} 0 if it counts from 0.",
        )
    return Base(0, "assumed: no link has word 0", known=False)


def warning_of(written_in: str, base: Base, option: str) -> str:
    """Returns the line that tells a user that the base of a file was assumed."""
    why = base.why.removeprefix("assumed: ")
    return f"{written_in}: {why}; assuming that words are counted from {base.number}. Set {option} 0 or {option} 1."
