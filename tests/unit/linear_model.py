"""A translation model whose states are sums of its inputs: every contribution is known in closed form."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from alignlens.models.contract import Attention, Decoded, Memory, Seq2Seq, State

LONGEST, DIM, VOCABULARY = 8, 5, 9


class LinearModel(Seq2Seq):
    """State j is ``sum over i of a[j,i] source_i + sum over k <= j of b[j,k] prefix_k``."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.of_source = torch.randn(LONGEST, LONGEST, generator=generator)
        self.of_prefix = torch.randn(LONGEST, LONGEST, generator=generator).tril()
        self.table = nn.Embedding.from_pretrained(torch.randn(VOCABULARY, DIM, generator=generator))
        self.output = nn.Linear(DIM, VOCABULARY, bias=False)
        self.output.weight = nn.Parameter(torch.randn(VOCABULARY, DIM, generator=generator))
        self.eval()

    def embed_source(self, ids: Tensor) -> Tensor:
        return self.table(ids)

    embed_target = embed_source

    def encode(self, vectors: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        return Memory(vectors, mask, vectors * mask[..., None])

    def decode(self, memory: Memory, vectors: Tensor, trace: bool = False) -> Decoded:
        rows, columns = vectors.shape[1], memory.states.shape[1]
        weights = self.of_source[:rows, :columns].expand(len(vectors), -1, -1)
        seen = Attention(weights[:, None], memory.states[:, None], torch.eye(DIM)[None], None)
        states = weights @ memory.states + self.of_prefix[:rows, :rows] @ vectors
        return Decoded(states, (seen,) if trace else ())

    def logits(self, states: Tensor) -> Tensor:
        return self.output(states)

    def begin(self, memory: Memory) -> State:
        raise NotImplementedError

    def step(self, state: State, vectors: Tensor) -> tuple[Decoded, State]:
        raise NotImplementedError
