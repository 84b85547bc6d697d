"""How text is cut into pieces; plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from alignlens.errors import ConfigError
from alignlens.io.limits import VOCABULARY
from alignlens.io.typed import setting

Kind = Literal["joint", "separate"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class BpeSettings:
    """What decides a segmentation.

    ``vocab`` counts everything: pieces, 256 byte pieces and the four control symbols. With ``dummy_prefix``
    off, the first piece of a line carries no word-start mark. ``limit`` trains on that many lines, evenly
    spaced, instead of all. ``coverage`` is the share of running characters that get a piece of their own; the
    rest are spelled in bytes. A configuration sets neither of the last two.
    """

    kind: Kind = setting(
        "joint", "`joint`: one vocabulary for both sides; `separate`: one per side, as in Ding et al. (2019)."
    )
    vocab: int = setting(
        8000,
        "Number of pieces (per side if separate).",
        VOCABULARY,
        "the output layer of a model has one row per piece",
    )
    dummy_prefix: bool = setting(
        True, "Whether the first word of a line carries the word-start mark; `false` as in Ding et al. (2019)."
    )
    coverage: float = 1.0
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"subwords.kind: {self.kind!r} is not one of {', '.join(KINDS)}.")
        if not 0.9 <= self.coverage <= 1.0:
            raise ConfigError(f"subwords.coverage: {self.coverage} must lie between 0.9 and 1.")
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"subwords.limit: {self.limit} must be at least 1, or left out for all lines.")
