"""Padded batches of sentence pairs: an endless shuffled stream for training, and every sentence once for measuring.

Memory is bounded by a window of pairs and one batch, however large the corpus: the shuffled order is computed
(``corpora.shuffle``), and pieces are read from the token stores when their batch is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from alignlens.corpora.shuffle import Shuffle
from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID, PLAIN
from alignlens.errors import ConfigError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alignlens.corpora.symbols import Frame
    from alignlens.corpora.tokens import TokenStore

Integers = npt.NDArray[np.int64]

WINDOW = 1 << 16
_COUNTED_AT_ONCE = 1 << 17


@dataclass(frozen=True)
class Batch:
    """Sentences padded on the right; row ``t`` of a decoder reads ``prefix[:, t]`` and predicts ``labels[:, t]``."""

    indices: Integers  # (batch): sentence numbers in the store
    source: Integers  # (batch, source): BEGIN if asked for, pieces, END
    source_mask: npt.NDArray[np.bool_]  # (batch, source): True at real positions
    prefix: Integers  # (batch, target): BEGIN, pieces
    labels: Integers  # (batch, target): pieces, END

    @property
    def sentences(self) -> int:
        """Returns the number of rows."""
        return len(self.indices)

    @property
    def labels_mask(self) -> npt.NDArray[np.bool_]:
        """Returns (batch, target), True where there is a label."""
        mask: npt.NDArray[np.bool_] = self.labels != PADDING_ID
        return mask

    @property
    def target_tokens(self) -> int:
        """Returns the number of labels, END included, padding not."""
        return int(np.count_nonzero(self.labels_mask))

    def framed(self, frame: Frame) -> Batch:
        """Returns what a model with such a frame reads; its first ``frame.lead`` labels are part of the frame."""
        if frame == PLAIN:
            return self
        source = self.source
        if frame.source_last:
            source = np.roll(source, -1, axis=1)
            source[:, -1] = PADDING_ID
            source[np.arange(len(source)), self.source_mask.sum(1) - 1] = BEGIN_ID
        source = np.where(source == BEGIN_ID, frame.source, source)
        first = np.tile(np.array(frame.target, np.int64), (len(source), 1))
        prefix = np.concatenate((first, self.prefix[:, 1:]), axis=1)
        labels = np.concatenate((first[:, 1:], self.labels), axis=1)
        return replace(self, source=source, prefix=prefix, labels=labels)


def make_batch(
    source: TokenStore,
    target: TokenStore | None,
    indices: npt.NDArray[np.integer[Any]],
    source_begin: bool = False,
) -> Batch:
    """Returns the given sentences as a batch; without ``target`` the prefix is BEGIN and there are no labels."""
    chosen = np.array(indices, np.int64)
    rows = np.arange(len(chosen))
    ids, lengths = source.gather(chosen)
    begin = int(source_begin)
    padded = _padding(len(rows), lengths, begin + 1)
    padded[:, :begin] = BEGIN_ID
    padded[_places(lengths, begin)] = ids
    padded[rows, begin + lengths] = END_ID
    mask = np.arange(padded.shape[1]) < (lengths + begin + 1)[:, None]
    if target is None:
        return Batch(chosen, padded, mask, np.full((len(rows), 1), BEGIN_ID), np.empty((len(rows), 0), np.int64))
    ids, lengths = target.gather(chosen)
    prefix, labels = _padding(len(rows), lengths, 1), _padding(len(rows), lengths, 1)
    places = _places(lengths, 0)
    labels[places] = ids
    labels[rows, lengths] = END_ID
    prefix[places[0], places[1] + 1] = ids
    prefix[:, 0] = BEGIN_ID
    return Batch(chosen, padded, mask, prefix, labels)


def _padding(rows: int, lengths: Integers, symbols: int) -> Integers:
    return np.full((rows, int(lengths.max(initial=0)) + symbols), PADDING_ID)


def _places(lengths: Integers, first: int) -> tuple[Integers, Integers]:
    """Returns row and column of every piece, where each row starts at column ``first``."""
    starts = np.cumsum(lengths) - lengths
    columns = np.arange(int(lengths.sum())) - np.repeat(starts - first, lengths)
    return np.repeat(np.arange(len(lengths)), lengths), columns


@dataclass(frozen=True, order=True)
class Position:
    """A place in the stream of ``TrainingBatches``: the batch that comes next. ``Position(**asdict(p)) == p``."""

    epoch: int = 0
    window: int = 0
    batch: int = 0


class TrainingBatches:
    """An endless stream of micro-batches, the same from any position as if it had never been interrupted.

    An epoch is a shuffled order of all pairs. Each window of that order is sorted by length and cut into batches
    of at most ``tokens`` padded tokens (rows times the longer side with its control symbols) and ``sentences``
    rows, which are then shuffled. Pairs with an empty side, or a side longer than ``longest`` with its control
    symbols, are left out; ``dropped`` counts them. A pair within ``longest`` but above ``tokens`` is a batch of
    its own: the one way a batch can exceed the budget.
    """

    def __init__(
        self,
        source: TokenStore,
        target: TokenStore,
        *,
        tokens: int,
        sentences: int | None = None,
        longest: int,
        seed: int,
        source_begin: bool = False,
        window: int = WINDOW,
    ) -> None:
        _check_sides(source, target)
        _check_budget(tokens, sentences, window)
        self._source, self._target = source, target
        self._tokens, self._sentences, self._longest = tokens, sentences, longest
        self._seed, self._source_begin, self._window = seed, source_begin, window
        self.dropped: int = self._count_dropped()
        if self.dropped == len(source):
            raise InputError(
                f"none of the {len(source)} pairs can be used: all have a side that is empty or over {longest} pieces.",
                source.folder,
                advice="Check the text, or raise training.longest.",
            )

    def __len__(self) -> int:
        """Returns the number of pairs of an epoch, those left out not counted."""
        return len(self._source) - self.dropped

    def at(self, position: Position) -> Iterator[tuple[Batch, Position]]:
        """Yields each batch from a position on, with the position after it: after an epoch's last, the next epoch."""
        for indices, after in self.indices_at(position):
            yield make_batch(self._source, self._target, indices, self._source_begin), after

    def indices_at(self, position: Position) -> Iterator[tuple[Integers, Position]]:
        """Yields what ``at`` does, but the sentence numbers only, so that skipping batches costs nothing."""
        position, batches = self._first(position)
        while True:
            # Found before a window's last batch is yielded: it decides whether that was the epoch's last.
            following: tuple[Position, list[Integers]] | None = None
            for number in range(position.batch, len(batches)):
                if number + 1 < len(batches):
                    yield batches[number], Position(position.epoch, position.window, number + 1)
                else:
                    following = self._following(position)
                    yield batches[number], following[0]
            position, batches = following or self._following(position)

    def _first(self, position: Position) -> tuple[Position, list[Integers]]:
        """Returns the position and the batches of its window."""
        if min(position.epoch, position.window, position.batch) < 0 or position.window >= self._windows():
            raise self._foreign(position)
        batches = self._batches_of(position.epoch, position.window)
        if position.batch > 0 and position.batch >= len(batches):
            raise self._foreign(position)
        return position, batches

    def _following(self, position: Position) -> tuple[Position, list[Integers]]:
        """Returns the start of the epoch's next window that has batches, or of the next epoch, and its batches."""
        for window in range(position.window + 1, self._windows()):
            if batches := self._batches_of(position.epoch, window):
                return Position(position.epoch, window), batches
        return Position(position.epoch + 1), self._batches_of(position.epoch + 1, 0)

    def _foreign(self, position: Position) -> InputError:
        return InputError(
            f"has no batch {position.batch} in window {position.window} of epoch {position.epoch}.",
            self._source.folder,
            advice="The saved position belongs to other data or settings; start the training from scratch.",
        )

    def _windows(self) -> int:
        return -(-len(self._source) // self._window)

    def _batches_of(self, epoch: int, window: int) -> list[Integers]:
        """Returns the sentence numbers of every batch of a window, in the order of the stream."""
        stop = min((window + 1) * self._window, len(self._source))
        pairs = Shuffle(len(self._source), self._seed, epoch)(np.arange(window * self._window, stop))
        kept, lengths = self._kept(self._source.lengths(pairs), self._target.lengths(pairs))
        batches = _cut(pairs[kept], lengths[:, kept], self._tokens, self._sentences)
        if not batches:
            return []
        order = Shuffle(len(batches), self._seed, epoch, window)(np.arange(len(batches)))
        return [batches[number] for number in order]

    def _kept(self, source: Integers, target: Integers) -> tuple[npt.NDArray[np.bool_], Integers]:
        """Returns which pairs to train on, and the lengths ``(side, pair)`` with control symbols."""
        lengths = _with_symbols(source, target, self._source_begin)
        return (source > 0) & (target > 0) & (lengths.max(0) <= self._longest), lengths

    def _count_dropped(self) -> int:
        dropped = 0
        for start in range(0, len(self._source), _COUNTED_AT_ONCE):
            stop = min(start + _COUNTED_AT_ONCE, len(self._source))
            sides = (store.lengths_between(start, stop) for store in (self._source, self._target))
            dropped += int(np.count_nonzero(~self._kept(*sides)[0]))
        return dropped


def ordered_batches(
    source: TokenStore,
    target: TokenStore | None,
    *,
    tokens: int,
    sentences: int | None = None,
    source_begin: bool = False,
    indices: npt.NDArray[np.integer[Any]] | None = None,
    window: int = WINDOW,
) -> Iterator[Batch]:
    """Yields every sentence (of ``indices``, or all) exactly once, empty ones too, longest first in each window.

    A batch has at most ``tokens`` padded tokens, as in ``TrainingBatches``; what alone has more is a batch of its
    own. ``Batch.indices`` says which sentences these are.
    """
    if target is not None:
        _check_sides(source, target)
    _check_budget(tokens, sentences, window)
    for start in range(0, len(source) if indices is None else len(indices), window):
        stop = start + window
        some = (
            np.arange(start, min(stop, len(source))) if indices is None else np.asarray(indices[start:stop], np.int64)
        )
        target_lengths = np.zeros_like(some) if target is None else target.lengths(some)
        lengths = _with_symbols(source.lengths(some), target_lengths, source_begin)
        for batch in reversed(_cut(some, lengths, tokens, sentences)):
            yield make_batch(source, target, batch[::-1], source_begin)


def _with_symbols(source: Integers, target: Integers, source_begin: bool) -> Integers:
    """Returns the lengths ``(side, pair)`` of what a model reads: END on both sides, BEGIN on the source if asked."""
    return np.stack([source + 1 + source_begin, target + 1])


def _cut(pairs: Integers, lengths: Integers, tokens: int, sentences: int | None) -> list[Integers]:
    """Returns the pairs, sorted by length, in groups as large as the budgets allow, shortest first.

    Pairs of equal lengths keep the order in which they are given, so that shuffled pairs meet new neighbours.
    """
    longer = lengths.max(0)
    order = np.lexsort((lengths[0], lengths[1], longer))
    sizes = longer[order]
    groups: list[Integers] = []
    start = 0
    while start < len(order):
        # Sizes only grow, so the number of padded tokens grows with every row and can be searched.
        most = max(1, tokens // int(sizes[start]))
        most = most if sentences is None else min(most, sentences)
        block = sizes[start : start + most]
        rows = max(1, int(np.searchsorted(block * np.arange(1, len(block) + 1), tokens, side="right")))
        groups.append(pairs[order[start : start + rows]])
        start += rows
    return groups


def _check_sides(source: TokenStore, target: TokenStore) -> None:
    if len(source) != len(target):
        raise InputError(
            f"{len(target)} sentences, but {source.folder} has {len(source)}.",
            target.folder,
            advice="Sentence n of both sides must belong together; segment both sides of the same split.",
        )


def _check_budget(tokens: int, sentences: int | None, window: int) -> None:
    for what, number in (("tokens", tokens), ("sentences", sentences), ("window", window)):
        if number is not None and number < 1:
            raise ConfigError(f"batches: {what} is {number}; it must be at least 1.")
