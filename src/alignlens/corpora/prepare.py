"""From fetched files to the files every later step reads: cleaned, normalised, split, counted."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.corpora.cleaning import clean_pairs, normalise, normalise_held_out, tokenise
from alignlens.corpora.registry import PartOfTrain, TextPair
from alignlens.errors import InputError
from alignlens.io.atomic import atomic_directory, move_file, write_json, write_lines
from alignlens.io.checksum import sha256_of
from alignlens.io.locks import held
from alignlens.io.seals import SEAL, sidecar
from alignlens.io.text import read_lines, read_parallel, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from alignlens.corpora.registry import Dataset
    from alignlens.corpora.settings import PrepareSettings

REPORT = "preparation.json"
SIDES = ("source", "target")
_NAMES = (
    *(f"{split}.{side}" for split in ("train", "dev", "test") for side in SIDES),
    *(f"{split}.{kind}" for split in ("dev", "test") for kind in ("gold", "causes")),
)
_STAGE = ".prepared"
_KIND = "prepared text"

Pairs = tuple[list[str], list[str]]


@contextmanager
def staged(directory: Path | str, read: Iterable[Path | str] = ()) -> Iterator[Path]:
    """Yields a directory for the files of one preparation; they move to ``directory`` together at the end.

    The report moves last, and an old one goes first: where there is a report, the files beside it are complete
    and belong together. Other files of the directory (logs, journals) stay. Files that were not prepared here, or that
    are ``read``, are not replaced. A second process that prepares the same directory waits.
    """
    directory = Path(directory)
    _check_place(directory, read)
    real = Path(os.path.realpath(directory))
    with held(real.with_name(f".{real.name}.lock"), "prepares text here"):
        _check_place(directory, read)
        stage = directory / _STAGE
        with atomic_directory(stage, _KIND) as temporary:
            yield temporary
        _move(stage, directory)


def _move(stage: Path, directory: Path) -> None:
    (directory / REPORT).unlink(missing_ok=True)
    for name in _NAMES:
        if (stage / name).is_file():
            move_file(stage / name, directory / name)
        else:
            (directory / name).unlink(missing_ok=True)
            sidecar(directory / name).unlink(missing_ok=True)
    move_file(stage / REPORT, directory / REPORT)
    (stage / SEAL).unlink()
    stage.rmdir()


def _check_place(directory: Path, read: Iterable[Path | str]) -> None:
    there = [directory / name for name in (*_NAMES, REPORT) if (directory / name).exists()]
    for path in there:
        if any(path.samefile(given) for given in read):
            raise InputError("is an input and would be overwritten.", path, advice="Choose another folder with --out.")
    # A preparation that was killed while its files moved has left its stage, or their checksums.
    ours = (directory / REPORT).is_file() or (directory / _STAGE).is_dir() or all(sidecar(p).is_file() for p in there)
    if there and not ours:
        raise InputError(
            f"exists, and {REPORT} is not beside it: alignlens did not prepare it, and it would be replaced.",
            there[0],
            advice="Choose another folder with --out.",
        )


def prepare(
    dataset: Dataset, manifest: Mapping[str, str], directory: Path, settings: PrepareSettings
) -> dict[str, Any]:
    """Writes the text of every split to ``directory``; returns the report on it, still without gold and checksums."""
    if dataset.kind == "synthetic":
        splits, train_report = _prepare_synthetic(dataset, directory, settings)
    else:
        splits, train_report = _prepare_text(dataset, manifest, settings)
        for split, pairs in splits.items():
            for side, lines in zip(SIDES, pairs, strict=True):
                write_lines(directory / f"{split}.{side}", lines)
    report: dict[str, Any] = {
        "dataset": dataset.name,
        "kind": dataset.kind,
        "pair": list(dataset.pair),
        "licence": dataset.licence,
        "origin": dataset.origin,
        "cite": dataset.cite,
        "lowercase": dataset.lowercase,
        "strip_accents": dataset.strip_accents,
        "tokenise": dataset.tokenise,
        "settings": asdict(settings),
        "inputs": {
            role: {"name": Path(path).name, "sha256": sha256_of(path)} for role, path in sorted(manifest.items())
        },
        "splits": {split: _counts(pairs) for split, pairs in splits.items()},
    }
    report["splits"]["train"].update(train_report)
    return report


def write_report(directory: Path, report: dict[str, Any]) -> None:
    """Writes the report, with the checksum of every other file of the directory."""
    files = sorted(path for path in directory.iterdir() if path.name in _NAMES)
    write_json(directory / REPORT, {**report, "files": {path.name: sha256_of(path) for path in files}})


def _counts(pairs: Pairs) -> dict[str, Any]:
    counts = {side: sum(len(words(line)) for line in lines) for side, lines in zip(SIDES, pairs, strict=True)}
    return {"pairs": len(pairs[0]), "words": counts}


def _prepare_text(
    dataset: Dataset, manifest: Mapping[str, str], settings: PrepareSettings
) -> tuple[dict[str, Pairs], dict[str, Any]]:
    first = manifest["train.0.source"]
    raw = _read_train(dataset, manifest)
    source, target = (
        [
            normalise(_tokenised(line, language, dataset.tokenise), dataset.lowercase, dataset.strip_accents)
            for line in lines
        ]
        for lines, language in zip(raw, dataset.pair, strict=True)
    )
    splits: dict[str, Pairs] = {}
    if isinstance(dataset.test, TextPair):
        splits["test"] = _held_out(dataset, "test", manifest)
    cleaned = clean_pairs(source, target, settings.cleaning, _zipped(splits.get("test")))
    if not cleaned.source:
        raise InputError(
            f"none of {len(source)} pairs is left after cleaning ({cleaned.dropped}).",
            first,
            advice="Check the text, or loosen the cleaning settings.",
        )
    dropped = cleaned.dropped
    if isinstance(dataset.test, PartOfTrain):
        rest, splits["test"] = _take((cleaned.source, cleaned.target), dataset.test, first, "test")
        cleaned = clean_pairs(*rest, settings.cleaning, _zipped(splits["test"]))
        dropped = {reason: count + cleaned.dropped[reason] for reason, count in dropped.items()}
    splits["train"] = (cleaned.source, cleaned.target)
    if isinstance(dataset.dev, PartOfTrain):
        splits["train"], splits["dev"] = _take(splits["train"], dataset.dev, first, "dev")
    elif isinstance(dataset.dev, TextPair):
        splits["dev"] = _held_out(dataset, "dev", manifest)
    usable = len(splits["train"][0])
    splits["train"] = _first(splits["train"], settings.max_train_pairs)
    return splits, {"read": len(source), "dropped": dropped, "not_used": usable - len(splits["train"][0])}


def _zipped(pairs: Pairs | None) -> Iterable[tuple[str, str]]:
    return () if pairs is None else zip(*pairs, strict=True)


def _read_train(dataset: Dataset, manifest: Mapping[str, str]) -> Pairs:
    train: Pairs = ([], [])
    for number in range(len(dataset.train)):
        part = read_parallel(*(manifest[f"train.{number}.{side}"] for side in SIDES))
        for lines, more in zip(train, part, strict=True):
            lines.extend(more)
    return train


def _held_out(dataset: Dataset, split: str, manifest: Mapping[str, str]) -> Pairs:
    """Returns a split that has files of its own: normalised, nothing dropped."""
    paths = (manifest[f"{split}.source"], manifest[f"{split}.target"])
    # Gold links count words as they stand in the file, so text that has gold keeps its tokenisation.
    split_words = dataset.tokenise and dataset.gold_of(split) is None
    source, target = (
        normalise_held_out(
            [_tokenised(line, language, split_words) for line in lines],
            path,
            dataset.lowercase,
            dataset.strip_accents,
        )
        for lines, language, path in zip(read_parallel(*paths), dataset.pair, paths, strict=True)
    )
    return source, target


def _tokenised(line: str, language: str, wanted: bool) -> str:
    return tokenise(line, language) if wanted else line


def _take(pairs: Pairs, part: PartOfTrain, path: str, split: str) -> tuple[Pairs, Pairs]:
    """Returns the pairs that stay and the pairs taken out."""
    total = len(pairs[0])
    if part.last is not None:
        taken = range(max(total - part.last, 0), total)
    else:
        step = part.every or 1
        taken = range(step - 1, total, step)
    if len(taken) == 0 or len(taken) >= total:
        raise InputError(
            f"{total} pairs are too few to split off {split}.", path, advice=f"Give more text or a smaller {split}."
        )
    chosen = set(taken)
    stay = [number for number in range(total) if number not in chosen]
    source, target = pairs
    return ([source[n] for n in stay], [target[n] for n in stay]), (
        [source[n] for n in taken],
        [target[n] for n in taken],
    )


def _first(pairs: Pairs, count: int | None) -> Pairs:
    return pairs[0][:count], pairs[1][:count]


def _prepare_synthetic(
    dataset: Dataset, directory: Path, settings: PrepareSettings
) -> tuple[dict[str, Pairs], dict[str, Any]]:
    """Generates the synthetic bitext; it is clean by construction, so only ``max_train_pairs`` applies."""
    from alignlens.corpora.synthetic import SyntheticSettings, write_corpus

    write_corpus(dataset.settings or SyntheticSettings(), directory)
    splits: dict[str, Pairs] = {}
    for split in ("train", "dev", "test"):
        source, target = (read_lines(directory / f"{split}.{side}") for side in SIDES)
        splits[split] = (source, target)
    total = len(splits["train"][0])
    splits["train"] = _first(splits["train"], settings.max_train_pairs)
    for side, lines in zip(SIDES, splits["train"], strict=True):
        write_lines(directory / f"train.{side}", lines)
    return splits, {"read": total, "dropped": {}, "not_used": total - len(splits["train"][0])}
