"""SentencePiece BPE models: training that loses nothing and repeats bit for bit."""

from __future__ import annotations

import io
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import sentencepiece

from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID, UNKNOWN_ID
from alignlens.errors import ConfigError, InputError, ToolError
from alignlens.io.atomic import atomic_directory, write_json
from alignlens.io.text import words
from alignlens.subwords.spans import Segmenter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from alignlens.subwords.settings import BpeSettings

KIND = "subword folder"

_ERRORS_ONLY = 2
_LONGEST_LINE_BYTES = 1 << 20


def train(lines: Sequence[str], settings: BpeSettings, what: str = "the text") -> bytes:
    """Returns a serialised model over tokenised lines; ``what`` names the text in errors."""
    text = [" ".join(line_words) for line in _evenly(lines, settings.limit) if (line_words := words(line))]
    if not text:
        raise ConfigError(f"subwords: {what} has no words; expected tokenised sentences, one per line.")
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text),
            model_writer=model,
            model_type="bpe",
            vocab_size=settings.vocab,
            character_coverage=settings.coverage,
            byte_fallback=True,
            normalization_rule_name="identity",
            add_dummy_prefix=settings.dummy_prefix,
            remove_extra_whitespaces=False,
            max_sentence_length=_LONGEST_LINE_BYTES,
            num_threads=1,
            unk_id=UNKNOWN_ID,
            bos_id=BEGIN_ID,
            eos_id=END_ID,
            pad_id=PADDING_ID,
            minloglevel=_ERRORS_ONLY,
        )
    except (RuntimeError, OSError) as error:
        raise _explained(error, settings.vocab, what) from None
    return model.getvalue()


def train_pair(
    source: Sequence[str],
    target: Sequence[str],
    settings: BpeSettings,
    folder: Path,
    names: tuple[Path | str, Path | str] = ("source", "target"),
) -> dict[str, Any]:
    """Writes ``folder`` with ``source.model``, ``target.model``, ``subwords.json``; returns the latter's content.

    The two models of a joint vocabulary are the same bytes, so that readers need not ask which kind it was.
    ``names`` are the files to name in errors.
    """
    for lines, name in zip((source, target), names, strict=True):
        _check_lengths(lines, name)
    if settings.kind == "joint":
        joint = train([*source, *target], settings, "the text of both sides")
        models = {"source": joint, "target": joint}
    else:
        models = {
            "source": train(source, settings, "the source text"),
            "target": train(target, settings, "the target text"),
        }
    statistics: dict[str, dict[str, float]] = {}
    with atomic_directory(folder, KIND) as temporary:
        for side, lines in (("source", source), ("target", target)):
            model = temporary / f"{side}.model"
            model.write_bytes(models[side])
            statistics[side] = Segmenter.load(model).statistics(lines)
        description = {
            "settings": asdict(settings),
            "special_ids": {"unknown": UNKNOWN_ID, "begin": BEGIN_ID, "end": END_ID, "padding": PADDING_ID},
            "sentencepiece": sentencepiece.__version__,
            "statistics": statistics,
        }
        write_json(temporary / "subwords.json", description)
    return description


def check_special_ids(segmenter: Segmenter, path: Path | str) -> None:
    """Raises unless the control symbols of a model have our ids, as they do in models that we train."""
    expected = {UNKNOWN_ID: "<unk>", BEGIN_ID: "<s>", END_ID: "</s>", PADDING_ID: "<pad>"}
    pieces = dict(enumerate(segmenter.vocabulary))
    for number, symbol in expected.items():
        if pieces.get(number) != symbol:
            raise InputError(
                f"piece {number} of this SentencePiece model is {pieces.get(number)!r}, not {symbol!r}.",
                path,
                advice="Token stores need a model made by: alignlens subwords train.",
            )


def _check_lengths(lines: Sequence[str], name: Path | str) -> None:
    """Raises for a line that SentencePiece would silently leave out of the training text."""
    for number, line in enumerate(lines, start=1):
        # No character has more than four bytes; only long lines are worth encoding.
        if 4 * len(line) > _LONGEST_LINE_BYTES and (size := len(line.encode())) > _LONGEST_LINE_BYTES:
            raise InputError(
                f"a line of {size:,} bytes; SentencePiece takes at most {_LONGEST_LINE_BYTES:,}.",
                name,
                number,
                "Split it into sentences, or remove it from both sides.",
            )


def _evenly(lines: Sequence[str], limit: int | None) -> Sequence[str]:
    """Returns all lines, or ``limit`` of them at equal distances: no seed, and no bias to the head of a file."""
    if limit is None or limit >= len(lines):
        return lines
    return [lines[k * len(lines) // limit] for k in range(limit)]


def _explained(error: Exception, vocab: int, what: str) -> ConfigError | ToolError:
    message = str(error)
    if most := re.search(r"value <= (\d+)", message):
        return ConfigError(
            f"subwords.vocab: {vocab} is too large for {what}; it has pieces for at most {most[1]}. "
            f"Set vocab to {most[1]} or less."
        )
    if least := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return ConfigError(
            f"subwords.vocab: {vocab} is too small for {what}; its characters, the 256 bytes and the control "
            f"symbols need {least[1]}. Set vocab to {least[1]} or more, or lower coverage."
        )
    return ToolError(f"SentencePiece could not train on {what}: {' '.join(message.split())}")
