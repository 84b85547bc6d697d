"""Byte-level BPE, the pieces of GPT-2 and BART: any text is spelled exactly, without normalisation.

Its pieces are bytes and may end within a character. As pieces of ours they begin with the mark where theirs begin with
a space, and anything that is not text, or is ambiguous, is written as bytes (``<0xE6><0xBC>``).
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Self

from alignlens.errors import InputError
from alignlens.io.atomic import write_json
from alignlens.io.documents import read_json, taking
from alignlens.subwords.spans import MARK, Segmenter, Spelling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_ADVICE = "Fetch the folder of the model again."
_MISSING = "the package tokenizers, which splits text for this model, is not installed."
_INSTALL = "Install it with: pip install 'alignlens[encoders]'."


class ByteLevelSegmenter(Segmenter):
    """Splits lines like ``Segmenter``; the first word has no space before it. Ids are places in ``tokens``."""

    def __init__(self, tokens: Sequence[str], merges: Iterable[Sequence[str]], path: Path) -> None:
        self.path = path
        self.dummy_prefix = False
        self._tokens, self._merges = list(tokens), [(str(left), str(right)) for left, right in merges]
        self._vocabulary = [_spelled(token) for token in self._tokens]
        self._encoder = _encoder(self._tokens, self._merges, path)
        listed = json.dumps([self._tokens, self._merges])
        self.checksum = hashlib.sha256(listed.encode()).hexdigest()
        self._marked: dict[str, Spelling] = {}
        self._unmarked: dict[str, Spelling] = {}

    @classmethod
    def read(cls, path: Path) -> Self:
        """Returns the segmenter saved by ``save``."""
        content = read_json(path, _ADVICE)
        with taking(path, _ADVICE):
            return cls([str(token) for token in content["tokens"]], content["merges"], path)

    def save(self, path: Path) -> None:
        """Writes all that ``read`` needs."""
        write_json(path, {"tokens": self._tokens, "merges": self._merges})

    def _spell(self, word: str, cache: dict[str, Spelling]) -> Spelling:
        """Returns the pieces of one word, and remembers them."""
        ids = self._encoder.encode(" " + word if cache is self._marked else word, add_special_tokens=False).ids
        return self._remember(word, Spelling(tuple(self.pieces_of(ids)), tuple(ids)), cache)


def read_merges(folder: Path) -> tuple[dict[str, int], list[Sequence[str]], Path]:
    """Returns the numbers of all tokens of a folder, the merges, best first, and the file that they come from."""
    path, merges = folder / "vocab.json", folder / "merges.txt"
    if path.is_file() and merges.is_file():
        row_of = read_json(path, _ADVICE)
        lines = [line for line in merges.read_text(encoding="utf-8").split("\n") if line.strip()]
        pairs: list[Sequence[str]] = [line.split(" ") for line in lines if not line.startswith("#version")]
        added: list[dict[str, Any]] = []
    else:
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise InputError("has no tokenizer: neither vocab.json with merges.txt nor tokenizer.json.", folder)
        content = read_json(path, _ADVICE)
        with taking(path, _ADVICE):
            if content["model"].get("type", "BPE") != "BPE":
                raise ValueError(f"pieces of type {content['model']['type']}, not BPE")
            row_of, added = content["model"]["vocab"], content.get("added_tokens", [])
            pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in content["model"]["merges"]]
    with taking(path, _ADVICE):
        tokens = {str(token): int(row) for token, row in row_of.items()}
        tokens |= {str(each["content"]): int(each["id"]) for each in added}
    return tokens, pairs, path


def _encoder(tokens: Sequence[str], merges: Sequence[tuple[str, str]], path: Path) -> Any:
    try:
        from tokenizers import Tokenizer, models, pre_tokenizers
    except ImportError:
        raise InputError(_MISSING, path, advice=_INSTALL) from None
    try:
        # Without the control symbols: text that looks like one is text.
        encoder = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, list(merges)))
    except Exception as error:  # the library raises nothing narrower
        why = " ".join(str(error).split())[:100]
        raise InputError(f"damaged, or not byte-level BPE ({why}).", path, advice=_ADVICE) from None
    encoder.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return encoder


def _characters() -> dict[str, int]:
    """Returns the character that stands for each byte: itself if it can be seen, else one of the next that can."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    unseen = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {chr(256 + place): byte for place, byte in enumerate(unseen)}


_BYTE_OF = _characters()


def _spelled(token: str) -> str:
    """Returns a piece as ours are written."""
    if any(character not in _BYTE_OF for character in token):
        return token
    content = bytes(_BYTE_OF[character] for character in token)
    mark = MARK if content.startswith(b" ") else ""
    content = content[len(mark) :]
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = MARK
    if text.isprintable() and MARK not in text and "<0x" not in text and " " not in text:
        return mark + text
    return mark + "".join(f"<0x{byte:02X}>" for byte in content)
