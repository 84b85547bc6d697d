"""Settings of the toy tasks: one dataclass per task, whose defaults are the sizes of Snell et al. 2021.

Plain data, so that reading a configuration loads no tensor library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from alignlens.errors import ConfigError, unknown_name
from alignlens.io.limits import SEED, Limits
from alignlens.io.schema import check
from alignlens.io.typed import read, schema_of, setting

if TYPE_CHECKING:
    from collections.abc import Mapping

Variant = Literal["printed", "released"]

_WIDTH = Limits(1, 4096), "the number of weights grows with its square"
_WORDS = Limits(2, 2000), "gates are kept for every word"
_MEMORY = Limits(1, 10_000), "all models of a batch must fit in memory"
_SHARE = Limits(0, 1)
# Gates of one position that stay in the cache of a core: more models at once would wait for memory.
_GATES_AT_ONCE = 131_072
# A training with only one group would leave the second core idle.
_LEAST_GROUPS = 2


@dataclass(frozen=True)
class ToySettings:
    """Settings of every toy task."""

    words: int = setting(40, "Words of a sentence.", *_WORDS)
    dim: int = setting(256, "Width of word vectors.", *_WIDTH)
    hidden: int = setting(256, "Width of the recurrent states, per direction.", *_WIDTH)
    batch: int = setting(128, "Fresh samples of an update.", *_MEMORY)
    steps: int = setting(200, "Updates of a training.", Limits(1, 1_000_000), "each has fresh samples")
    evaluate_every: int = setting(10, "Updates between two evaluations.", Limits(1, 1_000_000))
    evaluate_samples: int = setting(50, "Fresh samples of an evaluation.", *_MEMORY)
    learning_rate: float = setting(1e-3, "Learning rate of Adam.", Limits(0, 10, above=True))
    side_by_side: int | None = setting(
        None, "Trainings in one batched model; null for as many as the cache of a core holds.", *_MEMORY
    )

    @property
    def vocabulary(self) -> int:
        """How many different words there are."""
        return self.words

    def check(self) -> None:
        """Raises for settings that contradict each other."""

    def evaluated(self) -> list[int]:
        """Returns the steps after which models are evaluated: before the first, regularly, and after the last."""
        return sorted({*range(0, self.steps, self.evaluate_every), self.steps})

    def group_size(self, trainings: int) -> int:
        """Returns how many trainings are one batched model."""
        if self.side_by_side is not None:
            return self.side_by_side
        fitting = max(1, _GATES_AT_ONCE // (self.batch * 4 * self.hidden))
        return min(fitting, max(1, -(-trainings // _LEAST_GROUPS)))


@dataclass(frozen=True)
class SeededSettings(ToySettings):
    """Tasks that several seeds learn."""

    seeds: int = setting(20, "The seeds are 1 to this number.", Limits(1, 10_000), "each is a training")


@dataclass(frozen=True)
class CopySettings(SeededSettings):
    """Tasks of copying a sentence."""

    count_samples: int = setting(
        1000, "Samples in which words are counted, source with target.", Limits(1, 1_000_000), "all are kept in memory"
    )


@dataclass(frozen=True)
class ControlSettings(CopySettings):
    """Copying distinct words of a larger set."""

    pool: int = setting(60, "Words from which a sentence is drawn, each at most once.", *_WORDS)

    @property
    def vocabulary(self) -> int:
        """The pool."""
        return self.pool

    def check(self) -> None:
        """Raises for a pool that is smaller than a sentence."""
        if self.pool < self.words:
            raise ConfigError(f"pool: {self.pool} words are too few for sentences of {self.words} distinct ones.")


@dataclass(frozen=True)
class MixtureSettings(CopySettings):
    """Copying a permutation of one of two disjoint sets."""

    @property
    def vocabulary(self) -> int:
        """Both sets."""
        return 2 * self.words


@dataclass(frozen=True)
class PermutedCopySettings(ControlSettings):
    """Copying in another order of positions, which is the same for all sentences of a seed."""

    steps: int = setting(300, "Updates of a training.", Limits(1, 1_000_000), "each has fresh samples")


@dataclass(frozen=True)
class KeywordSettings(SeededSettings):
    """Telling whether word 1 occurs, with uniform attention."""

    dim: int = setting(300, "Width of word vectors.", *_WIDTH)
    batch: int = setting(32, "Fresh samples of an update, half of them with the keyword.", *_MEMORY)
    evaluate_every: int = setting(5, "Updates between two evaluations.", Limits(1, 1_000_000))
    evaluate_samples: int = setting(160, "Fresh samples of an evaluation, half of them with the keyword.", *_MEMORY)
    near_end: int = setting(
        5, "Sentences with the keyword among this many last words do not count for the last position.", Limits(1, 2000)
    )

    def check(self) -> None:
        """Raises where nothing would be left to average."""
        if self.near_end >= self.words:
            raise ConfigError(f"near_end: {self.near_end} must be less than words, which is {self.words}.")
        if self.evaluate_samples < 2 * self.words:
            why = "so that the keyword occurs at every position"
            raise ConfigError(f"evaluate_samples: {self.evaluate_samples} must be at least {2 * self.words}, {why}.")


@dataclass(frozen=True)
class HeadsSettings(ToySettings):
    """Several heads that start from good and bad initialisations, on permutations of one set."""

    variant: Variant = setting(
        "printed",
        "LSTM, one projection, summed contexts (printed), or GRU, own projections, mean of contexts, two tables of "
        "word vectors (released).",
    )
    heads: int = setting(8, "Heads of a model of the scenarios.", Limits(1, 64), "each has its own attention")
    collect: int = setting(
        20, "Good heads to find, and as many bad ones.", Limits(1, 10_000), "each is three trainings"
    )
    most_heads: int = setting(
        300, "Largest number of single heads to try.", Limits(1, 100_000), "each is three trainings"
    )
    data_seeds: int = setting(3, "Trainings of a single head, on different samples.", Limits(1, 100))
    draws: int = setting(20, "Trainings of a scenario.", Limits(1, 10_000))
    random_pool: int = setting(30, "Fresh heads that the random scenario draws from.", Limits(1, 10_000))
    good_above: float = setting(0.95, "A head is good if the accuracy of all its trainings passes this.", _SHARE)
    bad_below: float = setting(0.6, "A head is bad if all its trainings end below this accuracy.", _SHARE)
    initial_seed: int = setting(0, "Seed of the initial weights that all trainings share, heads excepted.", SEED)

    def check(self) -> None:
        """Raises for scenarios that could not be drawn."""
        if self.random_pool < self.heads:
            raise ConfigError(f"random_pool: {self.random_pool} are too few to draw {self.heads} heads from.")
        if self.bad_below > self.good_above:
            raise ConfigError(f"bad_below: {self.bad_below} is above good_above, {self.good_above}.")


TASKS: dict[str, type[ToySettings]] = {
    "permutation": CopySettings,
    "control": ControlSettings,
    "mixture": MixtureSettings,
    "permuted_copy": PermutedCopySettings,
    "keyword": KeywordSettings,
    "heads": HeadsSettings,
}


def toy_settings(task: str, content: Mapping[str, Any], label: str) -> ToySettings:
    """Returns the settings of a task, or raises for what is wrong with them; ``label`` is where they stand."""
    if task not in TASKS:
        raise ConfigError(unknown_name("toy task", task, TASKS))
    check(content, schema_of(TASKS[task]), label)
    settings = read(TASKS[task], content)
    try:
        settings.check()
    except ConfigError as error:
        raise ConfigError(f"{label}.{error}") from None
    return settings
