"""Declarations of texts that have one of two labels each: what a classifier is trained and measured on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from alignlens.corpora.data_files import DataFile, PartOfTrain
from alignlens.errors import ConfigError
from alignlens.io.limits import PAIRS, Limits
from alignlens.io.typed import REQUIRED, setting

#: The splits of prepared labelled texts; ``dev`` is what models are measured on.
LABELLED_SPLITS = ("train", "dev")
_COLUMN = Limits(1, 1000)
_TYPES = Limits(1, 10_000)
_CHANCE = Limits(0, 1)


@dataclass(frozen=True)
class KeywordSettings:
    """Sizes and difficulty of the generated texts, each of which has keywords of one class, mostly."""

    seed: int = setting(1, "Which words and which texts.", Limits(0, 2**63 - 1))
    train: int = setting(1600, "Texts to train on.", Limits(2, 10_000_000))
    dev: int = setting(400, "Texts to measure on.", Limits(2, 100_000))
    neutral: int = setting(120, "Words that say nothing about the class.", _TYPES)
    keywords: int = setting(12, "Words of each class.", _TYPES)
    ambiguous: int = setting(6, "Words that are keywords of both classes.", Limits(0, 10_000))
    min_words: int = setting(8, "Shortest text.", Limits(2, 10_000))
    max_words: int = setting(20, "Longest text.", Limits(2, 10_000))
    max_keywords: int = setting(
        3, "Largest number of keywords of its own class in a text; it has at least one.", _TYPES
    )
    noise: float = setting(
        0.15, "Chance that a text also has a keyword of the other class, if it has two of its own.", _CHANCE
    )
    ambiguity: float = setting(0.3, "Chance that a text has an ambiguous word.", _CHANCE)

    def __post_init__(self) -> None:
        if self.min_words > self.max_words:
            raise ConfigError(
                f"settings.min_words: {self.min_words} must be at most max_words, which is {self.max_words}"
            )
        if self.max_keywords + 2 > self.min_words:
            raise ConfigError(
                f"settings.max_keywords: {self.max_keywords} must be at most min_words - 2, which is "
                f"{self.min_words - 2}: a text may have two more words that are not neutral"
            )


@dataclass(frozen=True)
class LabelledFile:
    """A table of labels and texts; or, with a label, one text per line, all with that label."""

    file: DataFile = setting(REQUIRED, "The file.")
    label: str | None = setting(None, "Label of every line of the file, which then holds texts only.", minLength=1)


@dataclass(frozen=True)
class LabelledSet:
    """Texts of two classes with their splits, terms and origin."""

    name: str
    task: Literal["classification"] = setting(REQUIRED, "What sets these entries apart from bitexts.")
    kind: Literal["synthetic", "download", "files"] = setting(
        REQUIRED, "synthetic: generated from settings; download: from a mirror or public urls; files: your own files."
    )
    description: str = setting("", "The texts, described in one sentence.")
    licence: str = setting("unknown", "Terms of use, short enough for a table.")
    origin: str = setting("", "Public origin of the data.")
    cite: str = setting("", "What to cite.")
    available: str = setting(
        "", "How to get a file that cannot be downloaded (registration, form) and where to put it."
    )
    sizes: dict[str, int] = setting(
        {}, "Texts per split as prepared, if known.", Limits(1, 10**12), keys=LABELLED_SPLITS
    )
    words: dict[str, float] = setting(
        {},
        "Words of a typical text per split, if known; only alignlens plan reads it.",
        Limits(0, 1_000_000, above=True),
        keys=LABELLED_SPLITS,
    )
    positive: tuple[str, ...] = setting((), "Labels of the positive class.")
    negative: tuple[str, ...] = setting((), "Labels of the negative class.")
    left_out: tuple[str, ...] = setting((), "Labels of texts to leave out; any other label is an error.")
    format: Literal["tsv", "csv"] = setting(
        "tsv",
        "tsv: tabs between columns, quotes are text; csv: commas and quotes, and backslash n is read as a blank.",
    )
    header: bool = setting(True, "Whether the first line has the names of the columns.")
    label_column: str | int = setting("label", "Column of the label, by name or counted from 1.", _COLUMN)
    text_column: str | int | tuple[str | int, ...] = setting(
        "text", "Column of the text, likewise; several columns make up the text together.", _COLUMN
    )
    leave_out_empty: bool = setting(False, "Leave out texts without words, which are an error otherwise.")
    lowercase: bool = setting(True, "Lower-case the texts.")
    tokenise: bool = setting(False, "Split punctuation off words in raw text.")
    max_words: int | None = setting(None, "Leave out texts with more words than this; null for no limit.", PAIRS)
    max_train: int | None = setting(
        None, "Use only this many training texts, evenly spaced over all of them; null for all.", PAIRS
    )
    max_dev: int = setting(4000, "Use at most this many dev texts, likewise.", PAIRS)
    settings: KeywordSettings | None = setting(None, "Settings of generated texts (kind synthetic only).")
    train: tuple[LabelledFile, ...] = setting((), "Parts of the training text, concatenated in this order.")
    dev: tuple[LabelledFile, ...] | PartOfTrain | None = setting(
        None,
        "Text to measure models on, usually the published test text; or the part of train to use for it.",
    )
    declared: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The entry as it stands in the file."""

    def parts(self) -> dict[str, LabelledFile]:
        """Returns every part that has a file, by its role: ``train.0``, ``dev.0``, ..."""
        held_out = self.dev if isinstance(self.dev, tuple) else ()
        splits = {"train": self.train, "dev": held_out}
        return {f"{split}.{n}": part for split, parts in splits.items() for n, part in enumerate(parts)}

    def files(self) -> dict[str, DataFile]:
        """Returns every file by its role."""
        return {role: part.file for role, part in self.parts().items()}

    @property
    def text_columns(self) -> tuple[str | int, ...]:
        """The columns of the text."""
        return self.text_column if isinstance(self.text_column, tuple) else (self.text_column,)


def check_labelled(entry: LabelledSet, where: str) -> None:
    """Raises if keys of the entry contradict each other."""
    if entry.kind == "synthetic":
        if entry.files() or entry.dev or entry.positive or entry.negative:
            raise ConfigError(
                f"{where}: kind synthetic generates its own texts; remove train, dev, positive and negative"
            )
        return
    if entry.settings is not None:
        raise ConfigError(f"{where}.settings: only kind synthetic has settings")
    if not entry.train or not entry.dev:
        raise ConfigError(f"{where}: kind {entry.kind} needs train and dev (dev may be {{every: 5}})")
    labels = [*entry.positive, *entry.negative, *entry.left_out]
    if not entry.positive or not entry.negative:
        raise ConfigError(f"{where}: give the labels of both classes, positive and negative")
    for label in labels:
        if labels.count(label) > 1:
            raise ConfigError(f"{where}: the label {label!r} appears twice; it can mean one thing only")
    columns = [entry.label_column, *entry.text_columns]
    if not entry.header and any(isinstance(column, str) for column in columns):
        raise ConfigError(f"{where}: without a header, label_column and text_column must be numbers")
    for role, part in entry.parts().items():
        if part.label is not None and part.label not in labels:
            raise ConfigError(f"{where}.{role}.label: {part.label!r} is neither positive, negative nor left_out")
