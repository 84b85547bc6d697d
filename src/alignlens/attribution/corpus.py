"""Whole texts through the methods: batched by length, bounded in memory, in shards if wanted.

The corpus is cut into portions of sentences of like length. Portions depend on nothing but the corpus, and all that is
computed together belongs to one portion; so a shard, which takes every n-th portion, gives the numbers of a whole run.
"""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from alignlens.attribution.frames import of_prefix, of_source
from alignlens.attribution.inputs import PaddedSentences
from alignlens.attribution.passes import by_copies
from alignlens.attribution.settings import AttributionSettings
from alignlens.attribution.statistics import Statistics
from alignlens.attribution.sweep import Sweep
from alignlens.attribution.workers import side_by_side
from alignlens.corpora.batches import make_batch
from alignlens.decoding.forced import check_labels
from alignlens.decoding.hypothesis import check_ready
from alignlens.decoding.sentences import stored
from alignlens.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from alignlens.attribution.registry import Method
    from alignlens.corpora.tokens import TokenStore
    from alignlens.decoding.sentences import Pieces
    from alignlens.models.contract import Seq2Seq

    Numbers = NDArray[np.int64]
    Matrices = dict[str, NDArray[np.float32]]
    Found = tuple[int, Matrices]

_WINDOW = 4096  # sentences that are sorted by length together
PORTION = 64  # sentences of like length that are computed together
# Sentences that are enough work for a job, if there is more to do than forward passes. With several copies of each,
# their number counts. More sentences would have more padding.
_LONG, _LONG_COPIES = 8, 30
_FEWEST_TOKENS = 64


def attribute(
    model: Seq2Seq,
    sources: TokenStore | Sequence[Pieces],
    targets: TokenStore | Sequence[Pieces],
    methods: Sequence[Method],
    *,
    tokens: int = AttributionSettings.batch_tokens,
    source_begin: bool = False,
    adaptive: float | None = None,
    shard: tuple[int, int] = (0, 1),
    first: int = 0,
    workers: int = 1,
    advance: Callable[[int], None] | None = None,
    statistics: Statistics | None = None,
    masks: Seq2Seq | None = None,
) -> Iterator[Found]:
    """Yields every sentence's number and its scores by the text of the method, in the order they are computed in.

    Scores are (target, source): pieces and END of the given target, by [BEGIN and] pieces and END of the source; rows
    sum to one where the method says so. A method that explains the prefix too gives a second matrix
    (``Method.matrices``), whose columns are BEGIN and the pieces of the target. ``tokens`` is the most padded tokens of
    all noisy copies that a worker has in memory; it is halved if memory runs out. ``adaptive`` is the risk of
    a settled link to be another one with all copies, per comparison; None is all copies. ``shard`` is (which, of how
    many). ``first`` is the number of the first sentence, where the texts are a part of something larger. ``workers``
    threads compute side by side on a processor, several with one thread each, so that results do not depend on their
    number. ``masks`` is the model with mask nets beside it, for methods that read them of a model without any.
    """
    check_ready(model)
    _check(methods, tokens, adaptive, shard, workers)
    statistics = Statistics() if statistics is None else statistics
    source_store, target_store = stored(sources), stored(targets)
    sweeps = [Sweep(model, copying, group, adaptive, masks) for copying, group in by_copies(methods).items()]
    stopped = Event()

    def work(job: _Job) -> tuple[_Job, dict[int, Matrices], Statistics]:
        budget, halvings = tokens, 0
        while True:
            counted = Statistics(halvings=halvings)
            try:
                arguments = (source_store, target_store, job.numbers, budget, source_begin, first, counted, stopped)
                return job, _scores(model, job.sweep, *arguments), counted
            except (MemoryError, RuntimeError) as error:
                if not _out_of_memory(error) or budget <= _FEWEST_TOKENS:
                    raise
                budget, halvings = budget // 2, halvings + 1

    jobs = _jobs(source_store, target_store, sweeps, tokens, shard)
    collected: dict[int, Matrices] = {}
    swept = 0  # sentences, once for each sweep
    with side_by_side(workers if next(model.parameters()).device.type == "cpu" else 1, stopped) as run:
        for job, scored, counted in run(work, jobs):
            statistics.add(counted)
            for number, matrices in scored.items():
                collected.setdefault(number, {}).update(matrices)
            # A portion of long sentences may take minutes: a sentence counts in parts, by its sweeps.
            before, swept = swept, swept + len(job.numbers)
            if advance is not None and (done := swept // len(sweeps) - before // len(sweeps)):
                advance(done)
            if job.ends_portion:
                statistics.sentences += len(collected)
                yield from sorted(collected.items())
                collected = {}


def numbers_of(
    sources: TokenStore | Sequence[Pieces], targets: TokenStore | Sequence[Pieces], shard: tuple[int, int]
) -> Numbers:
    """Returns the numbers of the sentences that a shard gets, in ascending order."""
    portions = _portions(stored(sources), stored(targets), shard)
    numbers: Numbers = np.sort(np.concatenate([np.empty(0, np.int64), *portions]))
    return numbers


class _Job(NamedTuple):
    """Some sentences of a portion, for the methods of one sweep."""

    sweep: Sweep
    numbers: Numbers
    ends_portion: bool


def _jobs(
    sources: TokenStore, targets: TokenStore, sweeps: Sequence[Sweep], tokens: int, shard: tuple[int, int]
) -> Iterator[_Job]:
    for portion in _portions(sources, targets, shard):
        of_portion = [
            (sweep, numbers) for sweep in sweeps for numbers, _ in _batches(sources, targets, portion, tokens, sweep)
        ]
        for place, (sweep, numbers) in enumerate(of_portion, start=1):
            yield _Job(sweep, numbers, place == len(of_portion))


@torch.no_grad()  # not around the generator: its consumer would lose gradients too
def _scores(
    model: Seq2Seq,
    sweep: Sweep,
    sources: TokenStore,
    targets: TokenStore,
    numbers: Numbers,
    tokens: int,
    source_begin: bool,
    first: int,
    statistics: Statistics,
    stopped: Event,
) -> dict[int, Matrices]:
    """Returns the scores of some sentences; not of all once ``stopped``."""
    by_sentence: dict[int, Matrices] = {int(number): {} for number in numbers}
    device = next(model.parameters()).device
    for some, fitting in _batches(sources, targets, numbers, tokens, sweep):
        if stopped.is_set():
            break
        batch = make_batch(sources, targets, some, source_begin=source_begin)
        check_labels(batch, targets, model.output.out_features)
        batch = batch.framed(model.frame)
        arrays = (batch.source, batch.source_mask, batch.prefix, batch.labels, batch.labels_mask)
        places = [first + number for number in batch.indices.tolist()]
        sentences = PaddedSentences(places, *(torch.from_numpy(array).to(device) for array in arrays))
        rows, columns = batch.labels_mask.sum(1), batch.source_mask.sum(1)
        for method, sides in sweep.run(sentences, fitting, statistics).items():
            # The prefix has as many columns as the labels have rows: the start symbol instead of the end symbol.
            for name, scores, widths, unframed in zip(
                method.matrices, sides, (columns, rows), (of_source, of_prefix), strict=False
            ):
                for number, matrix, height, width in zip(
                    batch.indices.tolist(), scores.cpu().numpy(), rows, widths, strict=True
                ):
                    by_sentence[number][name] = unframed(matrix[:height, :width], model.frame)
    return by_sentence


def _portions(sources: TokenStore, targets: TokenStore, shard: tuple[int, int]) -> Iterator[Numbers]:
    """Yields the sentence numbers of the shard's portions; within a portion the source gets longer."""
    which, of = shard
    place = 0
    for start in range(0, len(sources), _WINDOW):
        numbers = np.arange(start, min(start + _WINDOW, len(sources)))
        order = np.lexsort((targets.lengths(numbers), sources.lengths(numbers)))
        # The longest first, so that the last worker finishes with short ones.
        for portion in reversed(np.split(numbers[order], range(PORTION, len(numbers), PORTION))):
            if place % of == which:
                yield portion
            place += 1


def _batches(
    sources: TokenStore, targets: TokenStore, portion: Numbers, tokens: int, sweep: Sweep
) -> Iterator[tuple[Numbers, int]]:
    """Yields sentences whose copies fit the budget, longest targets first, and how many rows fit."""
    most = max(1, min(_LONG, _LONG_COPIES // sweep.copies_at_once)) if sweep.is_long else len(portion)
    lengths = np.maximum(sources.lengths(portion), targets.lengths(portion)) + 2
    start = 0
    while start < len(portion):
        longest = np.maximum.accumulate(lengths[start:])
        fitting = int(np.count_nonzero(longest * np.arange(1, len(longest) + 1) * sweep.copies_at_once <= tokens))
        stop = start + max(1, min(fitting, most))
        some = portion[start:stop]
        yield some[np.argsort(-targets.lengths(some), kind="stable")], max(1, tokens // int(longest[stop - start - 1]))
        start = stop


def _check(
    methods: Sequence[Method], tokens: int, adaptive: float | None, shard: tuple[int, int], workers: int
) -> None:
    if not methods:
        raise ConfigError("no methods were given")
    if tokens < 1:
        raise ConfigError(f"batches of {tokens} tokens; there must be at least 1")
    if workers < 1:
        raise ConfigError(f"{workers} workers; there must be at least 1")
    if adaptive is not None and not 0 < adaptive < 0.5:
        raise ConfigError(f"adaptive sampling with risk {adaptive}; it must be between 0 and 0.5")
    if not 0 <= shard[0] < shard[1]:
        raise ConfigError(f"shard {shard[0]} of {shard[1]}: shards are counted from 0 to below their number")


def _out_of_memory(error: BaseException) -> bool:
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)
