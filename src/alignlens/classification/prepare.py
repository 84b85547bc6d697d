"""From labelled texts to a folder of numbers: vocabulary, ids and labels of both splits, and a report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from alignlens.classification.examples import Examples
from alignlens.classification.keywords import Lexicon, generate
from alignlens.classification.reading import Text, read_split
from alignlens.classification.vectors import read_vectors
from alignlens.corpora.labelled import LABELLED_SPLITS, KeywordSettings
from alignlens.corpora.registry import PartOfTrain
from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID, UNKNOWN_ID
from alignlens.errors import InputError
from alignlens.io.arrays import read_arrays, write_arrays
from alignlens.io.atomic import atomic_directory, write_json, write_lines
from alignlens.io.checksum import sha256_of
from alignlens.io.documents import read_json
from alignlens.io.seals import Seal
from alignlens.io.text import read_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from alignlens.corpora.labelled import LabelledSet

KIND = "folder of labelled texts"
REPORT = "preparation.json"
SYMBOLS = ("<unknown>", "<begin>", "<end>", "<padding>")
_VOCABULARY, _VECTORS = "vocabulary.txt", "vectors.npz"
_AGAIN = "Recreate it with: alignlens classify prepare, or run the pipeline again."


class Vectors(NamedTuple):
    """A file of word vectors, and how many numbers each must have."""

    path: Path
    width: int


@dataclass(frozen=True)
class Prepared:
    """A folder of labelled texts."""

    folder: Path
    words: tuple[str, ...]  # by id, symbols first
    splits: Mapping[str, Examples]
    vectors: NDArray[np.float32] | None  # (words, width), nan where a word has none
    report: Mapping[str, Any]

    @classmethod
    def open(cls, folder: Path | str) -> Prepared:
        """Returns the content of a folder, after checking that it is unchanged."""
        folder = Path(folder)
        Seal.of(folder, KIND, _AGAIN).check_all()
        splits = {split: Examples.read(folder / f"{split}.npz") for split in LABELLED_SPLITS}
        path = folder / _VECTORS
        vectors = read_arrays(path, _AGAIN)["vectors"] if path.is_file() else None
        words = tuple(read_lines(folder / _VOCABULARY))
        return cls(folder, words, splits, vectors, read_json(folder / REPORT, _AGAIN))

    @property
    def fingerprint(self) -> dict[str, str]:
        """Checksums of the vocabulary and of the training texts."""
        return {name: sha256_of(self.folder / name) for name in (_VOCABULARY, "train.npz", "dev.npz")}

    @property
    def vocabulary_sha256(self) -> str:
        """The checksum of the words that a model must know to read these texts."""
        return self.fingerprint[_VOCABULARY]


def prepare(
    entry: LabelledSet, manifest: Mapping[str, str], folder: Path | str, rarest: int, vectors: Vectors | None = None
) -> dict[str, Any]:
    """Writes the folder; words seen fewer than ``rarest`` times in train become unknown. Returns the report."""
    texts, report = _texts(entry, manifest)
    counts = Counter(word for text in texts["train"] for word in text.words)
    kept = sorted((word for word, count in counts.items() if count >= rarest), key=lambda word: (-counts[word], word))
    words = [*SYMBOLS, *kept]
    places = {word: place for place, word in enumerate(words) if place >= len(SYMBOLS)}
    with atomic_directory(folder, KIND) as temporary:
        write_lines(temporary / _VOCABULARY, words)
        for split, some in texts.items():
            ids = [[BEGIN_ID, *(places.get(word, UNKNOWN_ID) for word in text.words), END_ID] for text in some]
            examples = Examples.of(ids, [text.positive for text in some])
            examples.write(temporary / f"{split}.npz")
            report["splits"][split].update(_counts(some, examples))
        report["vocabulary"] = {"words": len(words), "symbols": len(SYMBOLS), "rarest": rarest, "types": len(counts)}
        if vectors is not None:
            table, known = read_vectors(vectors.path, {word: place for place, word in enumerate(words)}, vectors.width)
            table[[BEGIN_ID, END_ID, PADDING_ID, UNKNOWN_ID]] = np.nan
            write_arrays(temporary / _VECTORS, {"vectors": table})
            about = {"name": vectors.path.name, "sha256": sha256_of(vectors.path), "width": vectors.width}
            report["vectors"] = {**about, "words": known}
        write_json(temporary / REPORT, report)
    return report


def _texts(entry: LabelledSet, manifest: Mapping[str, str]) -> tuple[dict[str, list[Text]], dict[str, Any]]:
    """Returns the texts of both splits, and the beginning of the report."""
    report: dict[str, Any] = {
        **{key: getattr(entry, key) for key in ("kind", "licence", "origin", "cite", "lowercase", "tokenise")},
        "dataset": entry.name,
        "inputs": {role: {"name": Path(path).name, "sha256": sha256_of(path)} for role, path in manifest.items()},
    }
    if entry.kind == "synthetic":
        settings = entry.settings or KeywordSettings()
        texts = {split: generate(settings, split) for split in LABELLED_SPLITS}
        return texts, {**report, "splits": {split: {} for split in texts}, "keywords": Lexicon.of(settings).facts()}
    texts, splits = {}, {}
    for split in LABELLED_SPLITS:
        parts = [(part, manifest[role]) for role, part in entry.parts().items() if role.startswith(f"{split}.")]
        if parts:
            reading = read_split(entry, parts)
            texts[split] = reading.texts
            splits[split] = {"read": reading.read, "left_out": reading.left_out}
    first = manifest["train.0"]
    if isinstance(entry.dev, PartOfTrain):
        texts["train"], texts["dev"] = _taken(texts["train"], entry.dev, first)
        splits["dev"] = {}
    for split, most in (("train", entry.max_train), ("dev", entry.max_dev)):
        texts[split] = _evenly(texts[split], most)
        _check_classes(entry, texts[split], split, manifest.get(f"{split}.0", first))
    return texts, {**report, "splits": splits}


def _check_classes(entry: LabelledSet, texts: Sequence[Text], split: str, path: str) -> None:
    for positive, name, labels in ((True, "positive", entry.positive), (False, "negative", entry.negative)):
        if not any(text.positive is positive for text in texts):
            raise InputError(
                f"none of the {len(texts)} texts in {split} is of the {name} class ({', '.join(labels)}).",
                path,
                advice=f"Give texts of both classes, or check {name} and how {split} is chosen.",
            )


def _taken(texts: list[Text], part: PartOfTrain, path: str) -> tuple[list[Text], list[Text]]:
    """Returns the texts that stay, and those taken out."""
    total = len(texts)
    taken = (
        range(max(total - part.last, 0), total)
        if part.last is not None
        else range(total)[(part.every or 1) - 1 :: part.every or 1]
    )
    if not 0 < len(taken) < total:
        raise InputError(
            f"{total} texts are too few to split off dev.", path, advice="Give more texts or a smaller dev."
        )
    chosen = set(taken)
    return [text for place, text in enumerate(texts) if place not in chosen], [texts[place] for place in taken]


def _evenly(texts: list[Text], most: int | None) -> list[Text]:
    """Returns at most this many texts, evenly spaced: files often have one class after the other."""
    if most is None or len(texts) <= most:
        return texts
    return [texts[number * len(texts) // most] for number in range(most)]


def _counts(texts: Sequence[Text], examples: Examples) -> dict[str, Any]:
    lengths = examples.lengths - 2
    total = int(lengths.sum())
    return {
        "texts": len(texts),
        "positive": int(examples.labels.sum()),
        "words": total,
        "median_words": float(np.median(lengths)),
        "longest": int(lengths.max()),
        "unknown_share": int((examples.ids == UNKNOWN_ID).sum()) / total,
    }
