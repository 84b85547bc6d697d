"""A translation model that is a table: every probability is known, so that decoding can be checked by counting."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID
from alignlens.models.contract import Decoded, Memory, Seq2Seq, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

torch.set_num_threads(1)  # a second thread would only wait for matrices this small

VOCABULARY = 7  # four control symbols and three words
WORDS = range(4, VOCABULARY)
CLASSES = 3


class TableModel(Seq2Seq):
    """The next token depends on the sum of the source ids, and on the last two tokens."""

    def __init__(self, seed: int = 1, spread: float = 1.5, vocabulary: int = VOCABULARY) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        generator = torch.Generator().manual_seed(seed)
        rows = CLASSES * vocabulary * vocabulary
        self.table = torch.nn.Parameter(spread * torch.randn(rows, vocabulary, generator=generator))
        self.rows_read: list[int] = []  # by step
        self.encoded = 0  # sentences
        self.eval()

    def embed_source(self, ids: Tensor) -> Tensor:
        return functional.one_hot(ids, self.vocabulary).float()

    def embed_target(self, ids: Tensor) -> Tensor:
        return functional.one_hot(ids, self.vocabulary).float()

    def encode(self, vectors: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        self.encoded += len(vectors)
        return Memory(vectors, mask, vectors)

    def decode(self, memory: Memory, vectors: Tensor, trace: bool = False) -> Decoded:
        last = vectors.argmax(-1)
        before = functional.pad(last, (1, 0), value=PADDING_ID)[:, :-1]
        return Decoded(self._context(self._class(memory)[:, None], before, last))

    def logits(self, states: Tensor) -> Tensor:
        return self.table[states.argmax(-1)]

    def begin(self, memory: Memory) -> State:
        return State(0, memory, (self._class(memory),), (torch.full((len(memory.mask),), PADDING_ID),))

    def step(self, state: State, vectors: Tensor) -> tuple[Decoded, State]:
        last = vectors[:, 0].argmax(-1)
        self.rows_read.append(len(last))
        states = self._context(state.fixed[0], state.running[0], last)[:, None]
        return Decoded(states), replace(state, position=state.position + 1, running=(last,))

    def _class(self, memory: Memory) -> Tensor:
        return (memory.vectors.argmax(-1) * memory.mask).sum(1) % CLASSES

    def _context(self, kind: Tensor, before: Tensor, last: Tensor) -> Tensor:
        context = (kind * self.vocabulary + before) * self.vocabulary + last
        return functional.one_hot(context, len(self.table)).float()


def batch_of(*sentences: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Returns source ids (batch, source), each with END, and their mask."""
    longest = max(map(len, sentences)) + 1
    rows = [[*ids, END_ID] + [PADDING_ID] * (longest - len(ids) - 1) for ids in sentences]
    mask = [[True] * (len(ids) + 1) + [False] * (longest - len(ids) - 1) for ids in sentences]
    return torch.tensor(rows), torch.tensor(mask)


def log_prob_of(model: Seq2Seq, source: Sequence[int], target: Sequence[int]) -> float:
    """Returns log P of a whole translation with its END, computed from all prefix positions at once."""
    labels = torch.tensor([[*target, END_ID]])
    with torch.no_grad():
        logits = model(*batch_of(source), torch.tensor([[BEGIN_ID, *target]]))
    return float(torch.log_softmax(logits, -1).gather(2, labels[:, :, None]).sum())


def all_targets(longest: int) -> Iterator[tuple[int, ...]]:
    """Yields every translation of at most so many words."""
    for length in range(longest + 1):
        yield from itertools.product(WORDS, repeat=length)
