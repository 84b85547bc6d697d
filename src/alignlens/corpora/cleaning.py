"""Cleaning of text: what is normalised everywhere, what is dropped from training text, and a small tokeniser."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from alignlens.errors import InputError
from alignlens.io.text import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from alignlens.corpora.settings import CleaningSettings

SEPARATOR = "|||"
# In the order in which they are tried: a pair is counted under the first that holds.
REASONS = ("separator", "empty", "too_long", "ratio", "test_overlap", "duplicate")

# Tabs, and control characters that some programs take for the end of a word or a line. No-break and other
# Unicode spaces stay: gold alignments count them as part of a word.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass
class Cleaned:
    """The pairs that are kept, and how many were dropped for each reason."""

    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))

    def __len__(self) -> int:
        return len(self.source)


def normalise(line: str, lowercase: bool = False, strip_accents: bool = False) -> str:
    """Returns the words of a line with single spaces between them, lower-cased and without accents if asked."""
    if _CONTROL.search(line):
        line = _CONTROL.sub(" ", line)
    if strip_accents and not line.isascii():
        letters = (letter for letter in unicodedata.normalize("NFD", line) if unicodedata.category(letter) != "Mn")
        line = unicodedata.normalize("NFC", "".join(letters))
    line = " ".join(words(line))
    return line.lower() if lowercase else line


def overlap_key(source: str, target: str) -> tuple[str, str]:
    """Returns a key that is equal for the same sentences, whatever their case and tokenisation."""
    return source.lower().replace(" ", ""), target.lower().replace(" ", "")


def clean_pairs(
    source: Sequence[str],
    target: Sequence[str],
    settings: CleaningSettings,
    test_pairs: Iterable[tuple[str, str]] = (),
) -> Cleaned:
    """Returns the normalised pairs that pass, in order; each dropped pair is counted once."""
    held_out = {overlap_key(*pair) for pair in test_pairs} if settings.drop_test_overlap else set()
    seen: set[tuple[str, str]] = set()
    cleaned = Cleaned()
    for left, right in zip(source, target, strict=True):
        reason = _reason(left, right, settings, held_out, seen)
        if reason:
            cleaned.dropped[reason] += 1
        else:
            cleaned.source.append(left)
            cleaned.target.append(right)
    return cleaned


def _reason(
    source: str,
    target: str,
    settings: CleaningSettings,
    held_out: set[tuple[str, str]],
    seen: set[tuple[str, str]],
) -> str:
    if SEPARATOR in source or SEPARATOR in target:
        return "separator"
    if not source or not target:
        return "empty"
    short, long = sorted((source.count(" ") + 1, target.count(" ") + 1))
    if long > settings.max_words:
        return "too_long"
    if long > settings.max_ratio * short:
        return "ratio"
    if held_out and overlap_key(source, target) in held_out:
        return "test_overlap"
    if settings.drop_duplicates:
        if (source, target) in seen:
            return "duplicate"
        seen.add((source, target))
    return ""


def normalise_held_out(
    lines: Sequence[str], path: Path | str, lowercase: bool = False, strip_accents: bool = False
) -> list[str]:
    """Returns test lines normalised, with none dropped and every word in its place; raises if that is impossible."""
    result = []
    for number, line in enumerate(lines, start=1):
        check_separator(line, path, number)
        clean = normalise(line, lowercase, strip_accents)
        if len(words(clean)) != len(words(line)):
            raise InputError(
                "a control character or a lone accent would change the number of words.",
                path,
                number,
                "Remove it from the text.",
            )
        result.append(clean)
    return result


def check_separator(line: str, path: Path | str, number: int) -> None:
    """Raises if the line holds the mark that separates the sides of a pair in aligner input."""
    if SEPARATOR in line:
        raise InputError(
            f"{SEPARATOR!r} inside a sentence.", path, number, "Aligners read it as the end of a side; replace it."
        )


_LETTER = r"[^\W\d_]"
_DOTS = re.compile(r"\.{2,}")
# Everything but letters, digits, combining marks, blanks and the marks that have rules of their own below.
_PUNCTUATION = re.compile(r"([^\w\s\u0300-\u036f.,'’-])")
_COMMA = re.compile(r"(?<!\d),|,(?!\d)")
_APOSTROPHES = {
    "en": (re.compile(rf"(?<={_LETTER})['’](?={_LETTER})"), r" \g<0>"),
    "fr": (re.compile(rf"(?<={_LETTER})['’](?={_LETTER})"), r"\g<0> "),
    "it": (re.compile(rf"(?<={_LETTER})['’](?={_LETTER})"), r"\g<0> "),
}
_LONE_APOSTROPHE = re.compile(r"(?<!\w)['’]|['’](?!\w)")


def tokenise(line: str, language: str) -> str:
    """Returns raw text with punctuation split off its words; text that is tokenised already stays as it is.

    Rules, in the manner of common tokenisers but without their word lists: punctuation becomes a word,
    runs of full stops stay together; hyphens stay inside words; a comma stays between digits; an apostrophe
    between letters goes with what follows in English (``it 's``), with what precedes in French and Italian
    (``l' eau``), and stays elsewhere; a full stop is split off the last word of the line, off a word of two or
    three letters before a capital or punctuation, and off any longer word (so ``etc.`` and ``17.`` stay whole).
    """
    line = _PUNCTUATION.sub(r" \1 ", line)
    line = _COMMA.sub(" , ", line)
    if ".." in line:
        line = _DOTS.sub(r" \g<0> ", line)
    if language in _APOSTROPHES:
        pattern, replacement = _APOSTROPHES[language]
        line = pattern.sub(replacement, line)
    if "'" in line or "’" in line:
        line = _split_lone_apostrophes(line, language)
    tokens = line.split()
    return " ".join(_split_full_stops(tokens) if "." in line else tokens)


def _split_lone_apostrophes(line: str, language: str) -> str:
    """Returns the line with quoting apostrophes split off, but not those of ``'s`` (English) or ``l'`` (French)."""
    tokens = []
    for token in line.split():
        # A full stop at its end may still be split off.
        left = language == "en" and len(token) > 1 and token[0] in "'’" and token.rstrip(".")[-1:] not in "'’"
        right = language in ("fr", "it") and len(token) > 1 and token[-1] in "'’" and token[0] not in "'’"
        tokens.append(token if left or right else _LONE_APOSTROPHE.sub(r" \g<0> ", token))
    return " ".join(tokens)


def _split_full_stops(tokens: list[str]) -> list[str]:
    closing = len(tokens) - 1
    # Quotes and brackets may follow the full stop that ends a sentence.
    while closing >= 0 and not any(map(str.isalnum, tokens[closing])):
        closing -= 1
    result = []
    for number, token in enumerate(tokens):
        if token[-1:] == "." and _ends_sentence(token[:-1], tokens[number + 1 : number + 2], number == closing):
            result += [token[:-1], "."]
        else:
            result.append(token)
    return result


def _ends_sentence(stem: str, following: list[str], closing: bool) -> bool:
    if not stem or "." in stem or not any(map(str.isalnum, stem)):
        return False
    if closing or not stem.isalpha() or len(stem) == 1:
        return closing
    return len(stem) > 3 or not following[0][0].isalnum() or following[0][0].isupper()
