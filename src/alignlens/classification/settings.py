"""Settings of a classifier and of its training; plain data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

from alignlens.errors import ConfigError
from alignlens.io.limits import Limits
from alignlens.io.schema import check
from alignlens.io.typed import group, read, schema_of, setting, written

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What a trained classifier can be asked about every position of a text; ``explain`` defines them.
QUANTITIES = ("attention", "probe", "grad_input")
_WIDTH = Limits(1, 8192)
_UPDATES = Limits(1, 100_000_000)
#: Defaults by kind of model.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "lstm": {
        "embedding": 300,
        "updates": 4000,
        "learning_rate": 1e-3,
        "early": (0, 10, 50, 100, 150, 200),
        "each": 250,
    },
    "bag_of_words": {"embedding": 256, "epochs": 60, "learning_rate": 1.5e-4, "early": (0,), "each": None},
}


@dataclass(frozen=True)
class ClassifierSettings:
    """The kind and size of a classifier."""

    kind: Literal["lstm", "bag_of_words"] = setting(
        "lstm", "lstm: a recurrent network with attention; bag_of_words: the mean of a score per word."
    )
    embedding: int | None = setting(None, "Width of word vectors; null for 300, or 256 for a bag of words.", _WIDTH)
    hidden: int = setting(256, "Width of each direction of the network, and of the attention's hidden layer.", _WIDTH)
    bidirectional: bool = setting(True, "Read the text from both ends.")
    attention: Literal["learned", "uniform"] = setting("learned", "uniform: all words of a text count the same.")
    trained: Literal["all", "attention"] = setting("all", "attention: all other weights keep their initial values.")
    vectors: bool = setting(False, "Start from the word vectors of the prepared texts.")

    def __post_init__(self) -> None:
        if self.trained == "attention" and (self.kind != "lstm" or self.attention != "learned"):
            raise ConfigError("model.trained: attention needs kind lstm with learned attention")

    @property
    def width(self) -> int:
        """The width of word vectors."""
        return int(_DEFAULTS[self.kind]["embedding"]) if self.embedding is None else self.embedding


@dataclass(frozen=True)
class ClassifierTraining:
    """How a classifier is trained: Adam at a constant rate, binary cross entropy."""

    updates: int | None = setting(None, "Number of updates; null for 4000, or as epochs says.", _UPDATES)
    epochs: int | None = setting(
        None, "Number of passes over the texts instead; null for 60 for a bag of words.", Limits(1, 1_000_000)
    )
    batch: int = setting(32, "Texts per update.", Limits(1, 100_000))
    learning_rate: float | None = setting(
        None, "Learning rate; null for 0.001, or 0.00015 for a bag of words.", Limits(0, 10, above=True)
    )
    snapshots: tuple[int, ...] | None = setting(
        None,
        "Updates after which the weights are kept and measured; null for 0, 10, 50, 100, 150, 200, or 0 for a bag of "
        "words.",
        Limits(0, 100_000_000),
        maxItems=10_000,
        uniqueItems=True,
    )
    snapshot_every: int | None = setting(
        None,
        "Also keep and measure every this many updates; null for 250, or 0 for a bag of words; 0 for never.",
        Limits(0, 100_000_000),
    )

    def __post_init__(self) -> None:
        if self.updates is not None and self.epochs is not None:
            raise ConfigError("training.epochs: give updates or epochs, not both")

    def of_kind(self, kind: str) -> ClassifierTraining:
        """Returns the training of a kind of model, with a value for every setting."""
        known = _DEFAULTS[kind]
        unlimited = self.updates is None and self.epochs is None
        return replace(
            self,
            updates=known.get("updates") if unlimited else self.updates,
            epochs=known.get("epochs") if unlimited else self.epochs,
            learning_rate=known["learning_rate"] if self.learning_rate is None else self.learning_rate,
            snapshots=known["early"] if self.snapshots is None else self.snapshots,
            snapshot_every=known["each"] if self.snapshot_every is None else self.snapshot_every,
        )


@dataclass(frozen=True)
class ClassifierRecipe:
    """A classifier and its training."""

    model: ClassifierSettings = group(ClassifierSettings, "Its kind and size.")
    training: ClassifierTraining = group(ClassifierTraining, "How it is trained.")

    @classmethod
    def from_json(cls, content: Mapping[str, Any], label: str) -> Self:
        """Returns the recipe of plain data, checked as in a configuration; what it leaves out has its default."""
        check(dict(content), schema_of(cls), label)
        try:
            recipe = read(cls, content)
        except ConfigError as error:
            raise ConfigError(f"{label}.{error}") from None
        return replace(recipe, training=recipe.training.of_kind(recipe.model.kind))

    def as_json(self) -> dict[str, Any]:
        """Returns plain data that ``from_json`` reads back."""
        return written(self)
