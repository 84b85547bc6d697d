"""What all families share: names, configuration, weights and the order of pieces in a Hugging Face folder.

Control symbols may be anywhere in their vocabularies. Here they have the ids of ``corpora.symbols``, and all the rest
follows in their order; ``Vocabulary`` says which piece has which id. No code of a folder is run: a pickle is read with
torch's ``weights_only``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Self
from zipfile import BadZipFile

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from alignlens.errors import ConfigError, InputError
from alignlens.io.documents import read_json, taking
from alignlens.models.families.configuration import ADVICE, CONFIG
from alignlens.models.families.languages import Languages

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import Tensor

    from alignlens.models.contract import Seq2Seq
    from alignlens.models.settings import ModelSpec
    from alignlens.subwords.spans import Segmenter

UNKNOWN = "<unk>"
_MOST_UNNAMED = 1024  # rows without a piece: to make tables a round size, and to mark gaps in text (T5)


@dataclass(frozen=True)
class Vocabulary:
    """Pieces in the order of our ids, and the rows that they have in the tables of a checkpoint."""

    pieces: tuple[str, ...]
    rows: tuple[int, ...]

    @classmethod
    def filling(
        cls, piece_of: Mapping[int, str], control: tuple[int, int, int, int], size: int, subwords: Path
    ) -> Self:
        """Returns all rows of tables of so many: those that have no piece are predicted as any other.

        ``subwords`` is the file that the pieces come from.
        """
        needed = max(piece_of, default=-1) + 1
        if not needed <= size <= needed + _MOST_UNNAMED:
            problem = f"its pieces need {needed} rows, but the model has {size}: they belong to another model."
            raise InputError(problem, subwords, advice=ADVICE)
        return cls.ordered(piece_of, control, size)

    @classmethod
    def ordered(cls, piece_of: Mapping[int, str], control: tuple[int, int, int, int], size: int = 0) -> Self:
        """Returns the rows of unknown, begin, end and padding first, then all others; there may be more than pieces."""
        unnamed = {row: f"<unused{row}>" for row in range(size) if row not in piece_of}
        rest = sorted({*piece_of, *unnamed} - set(control))
        pieces = (UNKNOWN, "<s>", "</s>", "<pad>", *(piece_of.get(row) or unnamed[row] for row in rest))
        return cls(pieces, (*control, *rest))

    def number(self, row: int) -> int:
        """Returns our id of a row."""
        return self.rows.index(row)


@dataclass(frozen=True)
class Imported:
    """A model, what it is, the pieces of both sides, and what splits their text."""

    model: Seq2Seq
    spec: ModelSpec
    source: Vocabulary
    target: Vocabulary
    source_segmenter: Segmenter
    target_segmenter: Segmenter
    weights: Path  # the file that they come from


def read_config(folder: Path) -> tuple[dict[str, Any], Path]:
    """Returns the configuration of a model, and the file that it stands in."""
    path = folder / CONFIG
    return read_json(path, ADVICE), path


def read_beside(folder: Path, name: str) -> dict[str, Any]:
    """Returns the content of an optional file; empty if it does not exist."""
    path = folder / name
    return read_json(path, ADVICE) if path.is_file() else {}


def no_languages(languages: Languages, folder: Path, family: str) -> None:
    """Raises if languages are chosen of a model that has no codes for them."""
    if languages != Languages():
        raise ConfigError(f"{folder}: {family} models have no language codes. Leave out # and what follows it.")


def control_rows(config: Mapping[str, Any], path: Path, unknown: int, begin: str = "bos") -> tuple[int, int, int, int]:
    """Returns the rows of unknown, begin, end and padding."""
    with taking(path, ADVICE):
        first, end, padding = (int(config[f"{key}_token_id"]) for key in (begin, "eos", "pad"))
    return unknown, first, end, padding


def read_tensors(folder: Path) -> tuple[dict[str, Tensor], Path]:
    """Returns the weights of a folder by their names, and the file that they stand in, or the list of several."""
    safe, pickled = folder / "model.safetensors", folder / "pytorch_model.bin"
    several = safe.with_name(f"{safe.name}.index.json")
    path = next((each for each in (safe, several, pickled) if each.is_file()), None)
    if path is None:
        raise InputError("has no weights: neither model.safetensors nor pytorch_model.bin.", folder, advice=ADVICE)
    if path is several:
        with taking(path, ADVICE):
            names = sorted(set(read_json(path, ADVICE)["weight_map"].values()))
        tensors: dict[str, Tensor] = {}
        for name in names:
            tensors |= _tensors_of(folder / name)
    else:
        tensors = _tensors_of(path)
    return {str(name).removeprefix("model."): tensor for name, tensor in tensors.items()}, path


def _tensors_of(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        tensors: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
        return tensors
    except FileNotFoundError:
        raise InputError("no such file.", path, advice=ADVICE) from None
    except (SafetensorError, UnpicklingError, BadZipFile, RuntimeError, EOFError, ValueError) as error:
        why = " ".join(str(error).split())[:100]
        raise InputError(f"damaged, or not a file of weights ({why}).", path, advice=ADVICE) from None
