"""The ids of the control symbols: the same in every vocabulary that ``alignlens subwords train`` makes.

Models from elsewhere read other symbols around a sentence, a language code for example. Their vocabularies have these
ids too, and a ``Frame`` says what stands in the places of BEGIN when the model reads; everywhere else a sentence is
[BEGIN and] its pieces and END.
"""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN_ID, BEGIN_ID, END_ID, PADDING_ID = 0, 1, 2, 3


@dataclass(frozen=True)
class Frame:
    """What a model reads, as ids, where our sentences have BEGIN."""

    source: int = BEGIN_ID  # of sources that have it
    source_last: bool = False  # whether that stands behind END
    target: tuple[int, ...] = (BEGIN_ID,)  # what the decoder reads first; none of it is ever predicted or explained

    @property
    def lead(self) -> int:
        """Returns how many positions the decoder has before the one that predicts the first piece."""
        return len(self.target) - 1


PLAIN = Frame()
