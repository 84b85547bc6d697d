"""The input of methods: sentences in noisy copies, padded, one row for each pair of a sentence and a copy."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.attribution.statistics import Statistics
    from alignlens.models.contract import Seq2Seq


@dataclass(frozen=True)
class PaddedSentences:
    """Padded sentences, longest targets first; ``numbers`` are their places in the corpus."""

    numbers: Sequence[int]
    source: Tensor  # (sentence, source)
    source_mask: Tensor
    prefix: Tensor  # (sentence, target): the start symbol, then the target
    labels: Tensor  # (sentence, target): the target, then the end symbol
    labels_mask: Tensor

    def select(self, chosen: Tensor) -> PaddedSentences:
        """Returns the sentences at some places."""
        tensors = (getattr(self, field.name)[chosen] for field in fields(self) if field.name != "numbers")
        return PaddedSentences([self.numbers[place] for place in chosen.tolist()], *tensors)


class Inputs:
    """Some sentences, each in the same number of copies: the rows that one pass through the model reads.

    Padding positions must get a score, which is ignored; so must target positions that are not
    ``wanted`` (any more), where a method may skip the work.
    """

    def __init__(
        self,
        model: Seq2Seq,
        sentences: PaddedSentences,
        vectors: Tensor,
        embeddings: Tensor,
        prefix_vectors: Tensor,
        wanted: Tensor,
        most_rows: int,
        statistics: Statistics,
    ) -> None:
        self.model, self.statistics = model, statistics
        self.most_rows = most_rows  # that a pass may have: more of this length would not fit the token budget
        self.sentences, self.copies = vectors.shape[:2]
        self.vectors = vectors.flatten(0, 1)  # (row, source, dim): of source pieces, with noise
        self.source = self._repeated(sentences.source)  # (row, source), as ids
        self.source_mask = self._repeated(sentences.source_mask)  # True at pieces and symbols
        self.prefix = self._repeated(sentences.prefix)  # (row, target): the start symbol and the target, as ids
        self.prefix_vectors = self._repeated(prefix_vectors)  # (row, target, dim)
        self.labels = self._repeated(sentences.labels)  # (row, target): the target and the end symbol, as ids
        self.labels_mask = self._repeated(sentences.labels_mask)
        self.wanted = self._repeated(wanted)  # (row, target)
        self._clean = embeddings

    @cached_property
    def embeddings(self) -> Tensor:
        """The vectors (row, source, dim) without noise."""
        return self._repeated(self._clean)

    def by_copy(self, rows: Tensor) -> Tensor:
        """Returns rows as (sentence, copy, ...)."""
        return rows.view(self.sentences, self.copies, *rows.shape[1:])

    def _repeated(self, tensor: Tensor) -> Tensor:
        return tensor.repeat_interleave(self.copies, 0) if self.copies > 1 else tensor
