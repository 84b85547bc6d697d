"""The cost of a single method: seconds and passes, measured on some sentences.

Methods that run together share their passes, so the time of a whole attribution says nothing about any one
of them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignlens.attribution.corpus import PORTION, attribute
from alignlens.attribution.statistics import Statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alignlens.attribution.registry import Method
    from alignlens.decoding.sentences import Pieces
    from alignlens.models.contract import Seq2Seq

_WARM_UP = 2  # sentences
_CHUNKS = 5  # that fit into the time of a method: it ends at most a chunk late
# A quick method is timed several times, since a single measurement on a busy machine says little.
_ROUNDS = 5
_LONG_ENOUGH = 1.0


@dataclass(frozen=True)
class Cost:
    """The cost of a method on some sentences, each done once in every round."""

    seconds: float
    cpu_seconds: float
    sentences: int
    rounds: int
    target_pieces: int
    statistics: Statistics

    def as_json(self) -> dict[str, float]:
        """Returns seconds per 100 sentences, passes per sentence, and what they were measured on."""
        done = self.sentences * self.rounds
        return {
            "seconds_per_100": round(100 * self.seconds / done, 4),
            "cpu_seconds_per_100": round(100 * self.cpu_seconds / done, 4),
            "forward_passes": round(self.statistics.forward_passes / done, 3),
            "backward_passes": round(self.statistics.backward_passes / done, 3),
            "sentences": self.sentences,
            "rounds": self.rounds,
            "target_pieces": self.target_pieces,
        }


def measure(
    model: Seq2Seq,
    sources: Sequence[Pieces],
    targets: Sequence[Pieces],
    method: Method,
    seconds: float,
    advance: Callable[[int], None] | None = None,
    **options: Any,
) -> Cost:
    """Returns the cost of a single method; after ``seconds`` it stops at the end of the current chunk of sentences.

    Each chunk has sentences from the whole text, so that the part done represents all of it. ``options`` are
    those of ``attribute``.
    """
    statistics = Statistics()

    def timed(numbers: Sequence[int], counted: Statistics) -> _Time:
        started = _Time.now()
        pair = [sources[k] for k in numbers], [targets[k] for k in numbers]
        for _ in attribute(model, *pair, [method], statistics=counted, **options):
            pass
        return _Time.now() - started

    few = range(min(_WARM_UP, len(sources)))
    _, warm = timed(few, Statistics()), timed(few, Statistics())
    chunks = _chunks(len(sources), int(seconds / _CHUNKS / (warm.wall / len(few))))
    spent = _Time(0.0, 0.0)
    finished: list[int] = []
    for chunk in chunks:
        spent += timed(chunk, statistics)
        finished += chunk
        if advance is not None:
            advance(len(chunk))
        if spent.wall >= seconds:
            break
    rounds = 1
    while rounds < _ROUNDS and spent.wall < min(_LONG_ENOUGH, seconds):
        for chunk in chunks:
            spent += timed(chunk, statistics)
        rounds += 1
    pieces = sum(len(targets[k]) + 1 for k in finished)
    return Cost(spent.wall, spent.cpu, len(finished), rounds, pieces, statistics)


@dataclass(frozen=True)
class _Time:
    """Seconds of the clock and of the processor."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> _Time:
        return cls(time.perf_counter(), time.process_time())

    def __add__(self, other: _Time) -> _Time:
        return _Time(self.wall + other.wall, self.cpu + other.cpu)

    def __sub__(self, other: _Time) -> _Time:
        return _Time(self.wall - other.wall, self.cpu - other.cpu)


def _chunks(sentences: int, size: int) -> list[range]:
    """Returns the numbers of all sentences in chunks of about that size, no larger than what is computed together."""
    count = -(-sentences // max(1, min(size, PORTION)))
    return [range(first, sentences, count) for first in range(count)]
