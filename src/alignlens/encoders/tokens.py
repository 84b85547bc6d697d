"""The tokenizer of a Hugging Face folder: ids of text, and what is known about every id."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Self

from alignlens.errors import ConfigError, InputError

if TYPE_CHECKING:
    from pathlib import Path

_WORD_STARTS = ("Ġ", "▁")
_PUNCTUATION = (".", ",")
# What their libraries raise for files that they cannot use: some of Python's errors, their own, and, from native code,
# nothing more special than Exception.
_UNUSABLE = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    RuntimeError,
    ImportError,
    ArithmeticError,
    EOFError,
    UnpicklingError,
)
_LIBRARIES = ("huggingface_hub", "safetensors", "safetensors_rust", "tokenizers", "transformers")


def is_unusable(error: Exception) -> bool:
    """Returns whether an error says that a Hugging Face folder cannot be used; any other is a bug."""
    library = type(error).__module__.partition(".")[0]
    return isinstance(error, _UNUSABLE) or type(error) is Exception or library in _LIBRARIES


@dataclass(frozen=True)
class HuggingFaceTokens:
    """A tokenizer; ``texts`` are its tokens by id, as it writes them."""

    tokenizer: Any
    texts: tuple[str, ...]
    begin: int
    separator: int
    padding: int
    special: frozenset[int]

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Returns the tokenizer of a folder; nothing is fetched."""
        try:
            from transformers import AutoTokenizer
        except ImportError:
            raise ConfigError(
                "Hugging Face encoders need the package transformers. Run: pip install transformers"
            ) from None
        # Texts are truncated here, so its advice to truncate them is of no use.
        logging.getLogger("transformers.tokenization_utils_base").setLevel(logging.ERROR)
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
            needed = {name: getattr(tokenizer, f"{name}_token_id") for name in ("cls", "sep", "pad")}
            texts = tuple(map(str, tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))))
        except Exception as error:
            if not is_unusable(error):
                raise
            problem = f"its tokenizer cannot be loaded ({' '.join(str(error).split())[:200]})."
            raise InputError(problem, folder, advice="It needs tokenizer.json, or vocab.txt.") from None
        missing = [name for name, number in needed.items() if number is None]
        if missing:
            problem = f"its tokenizer has no {', '.join(missing)} token."
            raise InputError(problem, folder, advice="Use an encoder of the BERT family.")
        special = frozenset(tokenizer.all_special_ids)
        return cls(tokenizer, texts, needed["cls"], needed["sep"], needed["pad"], special)

    def ids_of(self, text: str) -> list[int]:
        """Returns the ids of a text, without special tokens."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    @property
    def punctuation(self) -> list[int]:
        """Returns the ids of periods and commas, at the start of a word or after one."""
        forms = {mark + sign for sign in _PUNCTUATION for mark in ("", *_WORD_STARTS)}
        return [number for number, text in enumerate(self.texts) if text in forms]

    @property
    def most_frequent(self) -> list[int]:
        """Returns comma, period and the two special tokens of every sequence: frequent, but not listed first."""
        signs = [self.texts.index(sign) for sign in (",", ".") if sign in self.texts]
        return [*signs, self.separator, self.begin]
