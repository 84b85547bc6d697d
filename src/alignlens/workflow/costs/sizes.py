"""How much text a configuration has: measured where it was prepared, declared or assumed before that.

Prepared text is measured by ``data/{dataset}/preparation.json`` (pairs, words) and, once it was segmented, by
``tokens/{dataset}/{split}.{side}/store.json`` (pieces). Otherwise ``sizes`` and ``words`` of the dataset count.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from alignlens.corpora.registry import PartOfTrain
from alignlens.io import values
from alignlens.io.documents import read_json, taking
from alignlens.results.paths import SPLITS
from alignlens.workflow.plan import SIDES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from alignlens.corpora.registry import Dataset
    from alignlens.workflow.plan import Plan

_PREPARE_AGAIN = "Delete it and recreate it with: alignlens data prepare, or run the pipeline again."
_SEGMENT_AGAIN = "Delete its folder and recreate it with: alignlens subwords segment, or run the pipeline again."
#: For text that is neither declared nor prepared: sentence pairs, words of a sentence, pieces of a word.
ASSUMED_PAIRS = {"train": 1_000_000, "dev": 1_000, "test": 500}
ASSUMED_WORDS = 25.0
ASSUMED_PIECES_PER_WORD = 1.2
#: Mean lengths of the five fifths of a text, shortest sentences first, as multiples of its mean: between those of the
#: training and test texts of hansards, deen and roen. What is not linear in the length is averaged over them.
FIFTHS = (0.4, 0.7, 0.95, 1.25, 1.7)


@dataclass(frozen=True)
class Text:
    """One split of a dataset: its pairs, and the mean length of a sentence by side; pieces count the end symbol."""

    pairs: float
    words: tuple[float, float]
    pieces: tuple[float, float]

    def scaled(self, pairs: float = 1.0, length: float = 1.0) -> Text:
        """Returns a text of that many times the pairs, of that many times the length."""
        words, pieces = (tuple(length * mean for mean in means) for means in (self.words, self.pieces))
        return Text(pairs * self.pairs, (words[0], words[1]), (pieces[0], pieces[1]))

    def millions_of_words(self) -> float:
        """Returns the words of both sides."""
        return self.pairs * sum(self.words) / 1e6

    def sentences(self, turned: bool) -> Iterator[tuple[float, float]]:
        """Yields read and written pieces of five sentences that stand for all; ``turned`` reads the target side."""
        read, written = self.pieces[::-1] if turned else self.pieces
        return ((share * read, share * written) for share in FIFTHS)

    def moment(self, power: float) -> float:
        """Returns the mean over sentences of a power of their length in words (mean of both sides)."""
        mean: float = (self.words[0] * self.words[1]) ** 0.5
        return float(mean**power * sum(share**power for share in FIFTHS) / len(FIFTHS))


@dataclass(frozen=True)
class Sizes:
    """The texts of a configuration, and what of them is assumed, in words."""

    texts: Mapping[tuple[str, str], Text]
    assumed: tuple[str, ...] = field(default=())

    def of(self, dataset: str, split: str) -> Text:
        """Returns one split of a dataset."""
        return self.texts[dataset, split]

    def scaled(self, train: float = 1.0, test: float = 1.0, length: float = 1.0) -> Sizes:
        """Returns as many times the training pairs and the test pairs, of as many times the length."""
        factors = {"train": train, "dev": 1.0, "test": test}
        texts = {(name, split): text.scaled(factors[split], length) for (name, split), text in self.texts.items()}
        return replace(self, texts=texts)


def sizes_of(plan: Plan) -> Sizes:
    """Returns the texts of a plan."""
    texts: dict[tuple[str, str], Text] = {}
    assumed = []
    for dataset in plan.settings.datasets:
        report = _read_prepared(plan.root / "data" / dataset.name / "preparation.json")
        declared = {split: _declared(plan, dataset, split) for split in SPLITS}
        if report is None:
            assumed.append(f"{dataset.name}, not prepared yet: {'; '.join(map(str, declared.values()))}")
        segmented = True
        for split in SPLITS:
            counted = declared[split].counted() if report is None else report[split]
            pieces = [_pieces(plan, dataset.name, split, side) for side in SIDES]
            segmented = segmented and None not in pieces
            texts[dataset.name, split] = _text(counted, pieces)
        if not segmented:
            assumed.append(f"{dataset.name}: {ASSUMED_PIECES_PER_WORD} pieces per word assumed")
    return Sizes(texts, tuple(assumed))


class _Counted(NamedTuple):
    """Pairs of a split, and the mean words of a sentence by side."""

    pairs: float
    words: tuple[float, float]


class _Declared(NamedTuple):
    """What is known of a split before it is prepared; None is not declared."""

    split: str
    pairs: int | None
    words: float | None
    most_pairs: int | None

    def counted(self) -> _Counted:
        """Returns it with what is assumed where nothing is declared."""
        words = float(ASSUMED_WORDS if self.words is None else self.words)
        pairs = ASSUMED_PAIRS[self.split] if self.pairs is None else self.pairs
        return _Counted(float(min(pairs, self.most_pairs or pairs)), (words, words))

    def __str__(self) -> str:
        pairs, (words, _) = self.counted()
        return (
            f"{self.split} {pairs:,.0f} pairs {'assumed' if self.pairs is None else 'at most'} "
            f"of {words:g} words{' assumed' if self.words is None else ''}"
        )


def _declared(plan: Plan, dataset: Dataset, split: str) -> _Declared:
    """Returns what the declaration of a dataset tells of a split."""
    part = {"dev": dataset.dev, "test": dataset.test}.get(split)
    generated = dataset.settings.size(split) if dataset.settings else None
    pairs = dataset.sizes.get(split, generated)
    if pairs is None and isinstance(part, PartOfTrain):
        pairs = part.last
    most = plan.settings.max_train_pairs if split == "train" else None
    return _Declared(split, pairs, dataset.words.get(split), most)


def _read_prepared(path: Path) -> dict[str, _Counted] | None:
    """Returns what preparation counted by split, or None if it has not been."""
    if not path.is_file():
        return None
    content = read_json(path, _PREPARE_AGAIN)
    with taking(path, _PREPARE_AGAIN):
        splits = values.mapping(content, "splits")
        return {split: _counted(values.mapping(splits, split)) for split in SPLITS}


def _counted(split: Mapping[str, Any]) -> _Counted:
    """Returns what preparation counted."""
    pairs, words = values.whole(split, "pairs"), values.mapping(split, "words")
    read, written = (values.whole(words, side) / max(1, pairs) for side in SIDES)
    return _Counted(float(pairs), (read, written))


def _text(counted: _Counted, pieces: Sequence[float | None]) -> Text:
    read, written = (
        ASSUMED_PIECES_PER_WORD * words + 1 if measured is None else measured
        for words, measured in zip(counted.words, pieces, strict=True)
    )
    return Text(counted.pairs, counted.words, (read, written))


def _pieces(plan: Plan, dataset: str, split: str, side: str) -> float | None:
    """Returns the mean pieces of a segmented sentence with its end."""
    path = plan.root / "tokens" / dataset / f"{split}.{side}" / "store.json"
    if not path.is_file():
        return None
    store = read_json(path, _SEGMENT_AGAIN)
    with taking(path, _SEGMENT_AGAIN):
        return values.whole(store, "tokens") / max(1, values.whole(store, "sentences")) + 1
