"""Which aligner is trained on which text; plain data."""

from __future__ import annotations

from dataclasses import dataclass

from alignlens.aligners.registry import ALIGNERS, TEXTS
from alignlens.io.limits import PAIRS
from alignlens.io.typed import REQUIRED, setting


@dataclass(frozen=True)
class AlignerRun:
    """One aligner trained on one text: a row group of the result table."""

    name: str = setting(REQUIRED, "The aligner.", choices=ALIGNERS)
    text: str = setting(
        "offline",
        "`offline` also trains on the test text, as word aligners usually do; `online` does not, and applies the "
        "stored model.",
        choices=TEXTS,
    )
    max_pairs: int | None = setting(
        None,
        "Train only on this many pairs (the first ones), for slow aligners on large text; the table says so. `null` "
        "for all.",
        PAIRS,
        "the largest corpora are smaller",
    )

    @property
    def size(self) -> str:
        """The training size as it stands in paths: ``all`` or a number."""
        return "all" if self.max_pairs is None else str(self.max_pairs)

    @property
    def names(self) -> dict[str, str]:
        """The names of its path."""
        return {"aligner": self.name, "text": self.text, "size": self.size}
