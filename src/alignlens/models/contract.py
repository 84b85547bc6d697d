"""What every translation model offers: it takes token vectors, not ids, and names what it computed.

Axes are written in words: ``(batch, source, dim)``. Sentences are padded on the right; ``mask`` is True at real
positions. The source ends with END; the decoder reads BEGIN and the target so far, and predicts the target and
END. Row ``t`` of a decoder output has *read* prefix token ``t`` and *predicts* label ``t``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from alignlens.corpora.symbols import PLAIN, Frame


@dataclass(frozen=True)
class Attention:
    """One attention layer by name.

    The layer's output is ``sum over heads h and keys j of weights[h, q, j] * (values[h, j] @ projection[h])``,
    plus ``bias``: ``values`` include the value bias, ``bias`` is the output projection's own. Rows of ``weights`` sum
    to one, unless the layer has changed them (``original``).
    """

    weights: Tensor  # (batch, head, query, key): what really mixes the values; zero at padding
    values: Tensor  # (batch, head, key, head_dim)
    projection: Tensor  # (head, head_dim, dim)
    bias: Tensor | None  # (dim), or None where the layer has none
    inputs: Tensor | None = None  # (batch, key, dim): what values were made of, for layers that look at themselves
    output: Tensor | None = None  # (batch, query, dim): what the layer gave, where it is not kept elsewhere
    stream: Tensor | None = None  # (batch, query, dim): the states that its output is added to, in a Transformer
    original: Tensor | None = None  # like ``weights``: the softmax that the layer has made them of, if it changes it
    mask: Tensor | None = None  # like ``weights``: by what it changed them, near 0 where the source matters

    @property
    def shares(self) -> Tensor:
        """Returns weights whose rows sum to one: where the layer has changed them, divided by their sum."""
        if self.original is None:
            return self.weights
        return to_one(self.weights)


@dataclass(frozen=True)
class _Rows:
    """Tensors that share their first axis, one row per sentence or hypothesis."""

    def select(self, rows: Tensor) -> Self:
        """Returns the given rows (repeated, reordered or fewer) of every tensor."""
        return replace(self, **{field.name: _rows_of(getattr(self, field.name), rows) for field in fields(self)})


def _rows_of(value: Any, rows: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value.index_select(0, rows)
    if isinstance(value, _Rows):
        return value.select(rows)
    if isinstance(value, tuple):
        return tuple(_rows_of(item, rows) for item in value)
    return value


@dataclass(frozen=True)
class Memory(_Rows):
    """What the decoder sees of the source. An architecture may subclass it with fields of its own."""

    vectors: Tensor  # (batch, source, dim): token vectors before positions, as given to ``encode``
    mask: Tensor  # (batch, source), True at real positions
    states: Tensor  # (batch, source, dim): encoder output
    attention: tuple[Attention, ...] = ()  # encoder self-attention by layer, when traced

    #: Fields with a second axis for source positions; the others are about the whole sentence.
    BY_POSITION: ClassVar[tuple[str, ...]] = ("vectors", "mask", "states")

    def select(self, rows: Tensor) -> Self:
        """Returns the given rows; traces of attention are not carried along."""
        return super(Memory, replace(self, attention=())).select(rows)

    def single_positions(self) -> Self:
        """Returns a row for every sentence and source position: all that can be seen there is that position.

        Rows are in the order of sentences. What stands at padding can be seen, too, since a row must see something.
        """
        rows = self.row_of_position()
        alone: dict[str, Any] = {"attention": ()}
        for each in fields(self):
            if each.name in self.BY_POSITION:
                alone[each.name] = getattr(self, each.name).flatten(0, 1)[:, None]
            elif each.name not in alone:
                alone[each.name] = _rows_of(getattr(self, each.name), rows)
        return replace(self, **alone | {"mask": torch.ones_like(alone["mask"])})

    def row_of_position(self) -> Tensor:
        """Returns (batch * source): which row each row of ``single_positions`` was made from."""
        batch, source = self.mask.shape
        return torch.arange(batch, device=self.mask.device).repeat_interleave(source)


@dataclass(frozen=True)
class Decoded:
    """What the decoder computed for every prefix position."""

    states: Tensor  # (batch, target, dim): what ``logits`` reads
    cross: tuple[Attention, ...] = ()  # attention to the source by layer, when traced
    own: tuple[Attention, ...] = ()  # decoder self-attention by layer, when traced (Transformer)


@dataclass(frozen=True)
class State(_Rows):
    """What a decoder keeps between steps, one row per hypothesis."""

    position: int  # how many tokens were read
    memory: Memory
    fixed: tuple[Tensor, ...]  # made from the memory: equal for all hypotheses of a sentence
    running: tuple[Tensor, ...]  # changes with every token read

    def follow(self, rows: Tensor) -> Self:
        """Returns the state after each row took over the prefix of another row *of the same sentence*."""
        return replace(self, running=tuple(tensor.index_select(0, rows) for tensor in self.running))


class Seq2Seq(nn.Module, ABC):
    """An encoder and a decoder over token vectors.

    ``trace=True`` fills the attention fields; it changes no number beyond rounding. All methods work in training
    and evaluation mode; dropout is active in training mode only.
    """

    #: Longest source or target sentence, with its end symbol, that positions exist for; None for no limit.
    longest: int | None = None
    #: What it reads in the places of BEGIN.
    frame: Frame = PLAIN
    #: Which attention layers the papers read as an alignment: the ``last``, or the ``mean`` of all.
    paper_attention: str = "last"
    #: Whether backward passes in training scale what reaches the encoder, so that they are not the derivative.
    scale_encoder_gradient: bool = False
    #: The last layer: logits are what it makes of decoder states.
    output: nn.Linear

    @property
    def longest_target(self) -> int | None:
        """Longest target sentence with its end symbol: what the frame's symbols leave of ``longest``."""
        return None if self.longest is None else self.longest - self.frame.lead

    @abstractmethod
    def embed_source(self, ids: Tensor) -> Tensor:
        """Returns token vectors (batch, source, dim) of ids (batch, source): scaled, before positions and dropout."""

    @abstractmethod
    def embed_target(self, ids: Tensor) -> Tensor:
        """Returns token vectors (batch, target, dim) of prefix ids: scaled, before positions and dropout."""

    @abstractmethod
    def encode(self, vectors: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        """Returns the memory of source token vectors (batch, source, dim)."""

    @abstractmethod
    def decode(self, memory: Memory, vectors: Tensor, trace: bool = False) -> Decoded:
        """Returns all decoder positions at once for prefix token vectors (batch, target, dim); causal."""

    @abstractmethod
    def logits(self, states: Tensor) -> Tensor:
        """Returns scores (..., vocabulary) of decoder states (..., dim)."""

    @abstractmethod
    def begin(self, memory: Memory) -> State:
        """Returns the state before the first token, for step-by-step decoding."""

    @abstractmethod
    def step(self, state: State, vectors: Tensor) -> tuple[Decoded, State]:
        """Reads one more token per row (rows, 1, dim); returns its position of ``decode``, and the next state."""

    def at_update(self, update: int) -> None:
        """Takes the number of every training update before it is made.

        A model that changes along its training keeps it in a parameter without gradient, so that it is saved.
        """

    def focused(self, memory: Memory, vectors: Tensor) -> Tensor:
        """Returns states (batch, target, source, dim): what ``decode`` gives if all attention sits on one position.

        At the step in question every head of every attention layer sees that source position only; the steps before
        are as they were. This is one step for all sentences and positions side by side, after each step of the
        prefix. An architecture may know a shorter way, and one that reads no prefix has one target position for all.
        """
        rows = memory.row_of_position()
        state, alone = self.begin(memory), self.begin(memory.single_positions())
        states = []
        for read in vectors.unbind(1):
            running = tuple(tensor.index_select(0, rows) for tensor in state.running)
            there = replace(alone, position=state.position, running=running)
            decoded, _ = self.step(there, read[rows, None])
            states.append(decoded.states.view(*memory.mask.shape, -1))
            _, state = self.step(state, read[:, None])
        return torch.stack(states, 1)

    @contextmanager
    def scaled(self, wanted: bool) -> Iterator[None]:
        """Within the block gradients are the derivative unless scaling is ``wanted``; one without it has none."""
        before = self.scale_encoder_gradient
        self.scale_encoder_gradient = before and wanted
        try:
            yield
        finally:
            self.scale_encoder_gradient = before

    def forward(self, source: Tensor, mask: Tensor, prefix: Tensor, keep: Tensor | None = None) -> Tensor:
        """Returns logits (batch, target, vocabulary), or (kept, vocabulary) of the positions where ``keep``."""
        memory = self.encode(self.embed_source(source), mask)
        states = self.decode(memory, self.embed_target(prefix)).states
        return self.logits(states if keep is None else states[keep])


def parameter_count(model: nn.Module) -> int:
    """Returns the number of trained numbers, a shared table counted once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def to_one(rows: Tensor) -> Tensor:
    """Returns rows, none of them negative, divided by their sums; those of zeros stay."""
    return rows / rows.sum(-1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny)


def length_mask(lengths: Tensor, longest: int) -> Tensor:
    """Returns (batch, longest), True below each length."""
    return torch.arange(longest, device=lengths.device) < lengths[:, None]
