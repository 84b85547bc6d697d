"""The proxy of Snell et al. 2021 (equation 5): every target word from the same mean of source vectors.

    p = softmax(1/L sum_l W e_l + b)

It reads no prefix. What it learns is which words occur in the same sentence pairs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from alignlens.corpora.symbols import PADDING_ID
from alignlens.models.contract import Attention, Decoded, Memory, Seq2Seq, State

if TYPE_CHECKING:
    from alignlens.models.settings import BagOfWordsSettings


class BagOfWords(Seq2Seq):
    """Its one attention layer has equal weights, and passes on the source vectors as they are."""

    def __init__(self, settings: BagOfWordsSettings, source_vocab: int, target_vocab: int) -> None:
        super().__init__()
        self.settings = settings
        self.source_table = nn.Embedding(source_vocab, settings.dim, padding_idx=PADDING_ID)
        self.output = nn.Linear(settings.dim, target_vocab)
        # As in the theorem about its first steps: entries of variance 1 / dim on both sides.
        for weight in (self.source_table.weight, self.output.weight):
            nn.init.normal_(weight, std=settings.dim**-0.5)
        nn.init.zeros_(self.source_table.weight[PADDING_ID].detach())
        nn.init.zeros_(self.output.bias)

    def embed_source(self, ids: Tensor) -> Tensor:
        """Returns token vectors (batch, source, dim)."""
        return cast("Tensor", self.source_table(ids))

    def embed_target(self, ids: Tensor) -> Tensor:
        """Returns zeros (batch, target, dim): the prefix is not read."""
        return self.output.weight.new_zeros(*ids.shape, self.settings.dim)

    def encode(self, vectors: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        """Returns the source vectors (batch, source, dim) themselves, zero at padding."""
        return Memory(vectors, mask, vectors.masked_fill(~mask[..., None], 0.0))

    def decode(self, memory: Memory, vectors: Tensor, trace: bool = False) -> Decoded:
        """Returns the mean of the source vectors at every position of a prefix (batch, target, dim)."""
        target = vectors.shape[1]
        weights = uniform_weights(memory.mask, memory.states)
        states = (weights[:, None] @ memory.states).expand(-1, target, -1)
        if not trace:
            return Decoded(states)
        unchanged = torch.eye(self.settings.dim, dtype=states.dtype, device=states.device)[None]
        every = weights[:, None, None].expand(-1, -1, target, -1)
        return Decoded(states, (Attention(every, memory.states[:, None], unchanged, None),))

    def logits(self, states: Tensor) -> Tensor:
        """Returns scores (..., vocabulary) of decoder states (..., dim)."""
        return cast("Tensor", self.output(states))

    def forward(self, source: Tensor, mask: Tensor, prefix: Tensor, keep: Tensor | None = None) -> Tensor:
        """Returns logits (batch, target, vocabulary), or (kept, vocabulary); those of a sentence are computed once."""
        memory = self.encode(self.embed_source(source), mask)
        logits = self.logits(self.decode(memory, self.embed_target(prefix[:, :1])).states[:, 0])
        if keep is None:
            return logits[:, None].expand(-1, prefix.shape[1], -1)
        return logits.index_select(0, keep.nonzero()[:, 0])

    def begin(self, memory: Memory) -> State:
        """Returns the state before the first token; nothing of it ever changes."""
        return State(0, memory, (), ())

    def step(self, state: State, vectors: Tensor) -> tuple[Decoded, State]:
        """Returns the same mean again, and the next state."""
        return self.decode(state.memory, vectors), replace(state, position=state.position + 1)

    def focused(self, memory: Memory, vectors: Tensor) -> Tensor:
        """Returns the vector of each source position, once (batch, 1, source, dim): the target has no part in it."""
        return memory.states[:, None]


def uniform_weights(mask: Tensor, like: Tensor) -> Tensor:
    """Returns (batch, source): the same weight at every real position, zero at padding."""
    real = mask.to(like.dtype)
    return real / real.sum(1, keepdim=True)
