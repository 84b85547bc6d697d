"""Which rows stand for languages, and which of them a model uses: by its name, or by the files in its folder."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from alignlens.errors import ConfigError
from alignlens.io.documents import taking
from alignlens.models.families.configuration import ADVICE, CONFIG
from alignlens.models.families.folder import read_beside
from alignlens.models.families.languages import Languages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_SHOWN = 8
_TOKENIZER = "tokenizer_config.json"
_FIRST = 4  # <s>, <pad>, </s>, <unk>: rows before the pieces of a SentencePiece model
_OWN = 3  # of its own pieces that these stand for


def fairseq_pieces(pieces: Sequence[str], codes: Sequence[str]) -> dict[int, str]:
    """Returns the piece of every row: control symbols, SentencePiece's own pieces, languages, and the mask."""
    listed = ["<s>", "<pad>", "</s>", "<unk>", *pieces[_OWN:], *codes, "<mask>"]
    return dict(enumerate(listed))


def with_added(piece_of: Mapping[int, str], folder: Path) -> dict[int, str]:
    """Returns pieces with what the folder says was added to them."""
    added = {int(row): str(piece) for piece, row in read_beside(folder, "added_tokens.json").items()}
    with taking(folder / _TOKENIZER, ADVICE):
        for row, entry in read_beside(folder, _TOKENIZER).get("added_tokens_decoder", {}).items():
            added[int(row)] = str(entry["content"])
    return {**piece_of, **{row: piece for row, piece in added.items() if row >= _FIRST}}


def tokenizer_class(folder: Path) -> str:
    """Returns the folder's name for its tokenizer."""
    return str(read_beside(folder, _TOKENIZER).get("tokenizer_class", ""))


def says(folder: Path, key: str) -> object:
    """Returns a value of the tokenizer's configuration."""
    return read_beside(folder, _TOKENIZER).get(key)


def rows_of_languages(
    folder: Path, languages: Languages, row_of: Mapping[str, int], target_key: str = "forced_bos_token_id"
) -> tuple[int, int]:
    """Returns the rows of the source's and the target's language.

    ``row_of`` has the rows of all codes. Where the name of the model says nothing, the folder does: ``target_key`` of
    its configurations is the row of the target's language.
    """
    source = languages.source or says(folder, "src_lang")
    target = languages.target or says(folder, "tgt_lang")
    if target is None:
        code_of = {row: code for code, row in row_of.items()}
        for name in ("generation_config.json", CONFIG):
            row = read_beside(folder, name).get(target_key)
            if isinstance(row, int) and row in code_of:
                target = code_of[row]
                break
    return _row(source, "source", row_of, folder), _row(target, "target", row_of, folder)


def _row(code: object, side: str, row_of: Mapping[str, int], folder: Path) -> int:
    names = sorted(row_of)
    if code is None:
        shown = f"{', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}"
        raise ConfigError(
            f"{folder}: the language of the {side} is not known. Add both to the name of the model, as "
            f"#SOURCE-TARGET; it knows {len(names)} languages: {shown}"
        )
    name = str(code)
    if name not in row_of:
        same = [each for each in names if each.lower().startswith(name.lower())]
        near = list(dict.fromkeys([*same, *get_close_matches(name, names, _SHOWN, 0.3)]))[:_SHOWN] or names[:_SHOWN]
        raise ConfigError(
            f"{folder}: no language {name[:40]!r} for the {side}; the closest of its {len(names)} codes: "
            f"{', '.join(near)}"
        )
    return row_of[name]
