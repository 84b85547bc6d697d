"""How training text is prepared; plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from alignlens.io.limits import PAIRS, Limits
from alignlens.io.schema import check
from alignlens.io.typed import group, read, schema_of, setting

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class CleaningSettings:
    """Limits for training pairs."""

    max_words: int = setting(
        100,
        "Longest sentence kept; HMM and IBM4 take 200 words at most.",
        Limits(1, 200),
        "HMM and IBM4 take no longer sentences",
    )
    max_ratio: float = setting(
        9.0, "Largest ratio of the two lengths.", Limits(1, 1000), "no sentence pair has a larger one"
    )
    drop_duplicates: bool = setting(True, "Keep only the first of identical pairs.")
    drop_test_overlap: bool = setting(True, "Drop training pairs that occur in the test or dev text.")


@dataclass(frozen=True)
class PrepareSettings:
    """How training text is cleaned, and how much of it is kept."""

    cleaning: CleaningSettings = group(
        CleaningSettings, "Which training pairs are dropped; test text is never touched."
    )
    max_train_pairs: int | None = setting(
        None,
        "Use only this many training pairs (the first ones), to try something quickly; `null` for all.",
        PAIRS,
        "the largest corpora are smaller",
    )

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any], label: str = "settings") -> Self:
        """Returns the settings of a mapping, checked as in a configuration; what it leaves out has its default."""
        check(mapping, schema_of(cls), label)
        return read(cls, mapping)
