"""An encoder with its input: sequences of tokens, their kinds and frequency ranks."""

from __future__ import annotations

import hashlib
import platform
from collections import Counter
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.encoders.folders import folder_of, model_type
from alignlens.errors import ConfigError, InputError
from alignlens.io.checksum import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from alignlens.corpora.tokens import TokenStore
    from alignlens.decoding.given import Given
    from alignlens.decoding.translate import TrainedModel
    from alignlens.encoders.contract import Encoder
    from alignlens.encoders.sequences import TokenSequence
    from alignlens.encoders.tokens import HuggingFaceTokens

CLS, SEP, END, BEGIN, PUNCTUATION, OTHER = "[CLS]", "[SEP]", "END", "BEGIN", "punctuation", "other"
_SIGNS = (".", ",")
#: Model types with BERT's vocabulary, whose ids are in the order of frequency.
_ORDERED_BY_FREQUENCY = ("bert", "electra")


@dataclass(frozen=True)
class EncoderInput:
    """An encoder, its input, and the facts about both."""

    encoder: Encoder
    sequences: list[TokenSequence]
    categories: tuple[str, ...]
    ranks: NDArray[np.float64] | None
    facts: dict[str, Any] = field(default_factory=dict)


def huggingface_input(
    place: str, text: str | None, sequences: int, longest: int, threads: int | None = None
) -> EncoderInput:
    """Returns a Hugging Face encoder with sequences of two paragraphs each, at most ``longest`` tokens of both."""
    folder = folder_of(place)
    kind = model_type(folder)
    if text is not None and not Path(text).is_file():
        raise InputError("no such file.", text, advice="Check the path.")
    import torch

    from alignlens.corpora.frequency import ranks_by_id
    from alignlens.encoders.huggingface import HuggingFaceEncoder
    from alignlens.encoders.tokens import HuggingFaceTokens

    tokens = HuggingFaceTokens.load(folder)
    paragraphs, origin = _paragraphs(text)
    pairs = _paired(tokens, paragraphs, sequences, longest)
    if not pairs:
        problem = "fewer than two paragraphs, but each sequence needs two."
        raise InputError(problem, text or origin["name"], advice="Separate paragraphs by blank lines.")
    if threads is not None:
        torch.set_num_threads(threads)
    encoder = HuggingFaceEncoder.load(folder, tokens.padding).to("cuda" if torch.cuda.is_available() else "cpu")
    highest = max(int(sequence.ids.max()) for sequence in pairs)
    if highest >= encoder.vocabulary:
        problem = f"its tokenizer gives id {highest}, but its model knows {encoder.vocabulary} tokens."
        raise InputError(problem, folder, advice="Download the folder again.")
    if encoder.longest is not None and longest > encoder.longest:
        raise ConfigError(f"--tokens {longest}: this encoder has positions for at most {encoder.longest}")
    facts: dict[str, Any] = {
        "model_type": kind,
        "text": origin,
        "most_tokens": longest,
        "versions": {"transformers": version("transformers")},
    }
    if kind in _ORDERED_BY_FREQUENCY:
        ranks = ranks_by_id(tokens.texts, tokens.special, tokens.most_frequent)
        facts["frequency"] = "order of token ids; comma, period, [SEP] and [CLS] first; no single characters"
    else:
        ranks, facts["frequency"] = None, None
    return EncoderInput(encoder, pairs, (CLS, SEP, PUNCTUATION, OTHER), ranks, facts)


def _paragraphs(path: str | None) -> tuple[Iterable[str], dict[str, str]]:
    """Returns the paragraphs of a file, or else of Python's manual, with name and checksum of the text."""
    from alignlens.encoders.paragraphs import manual_paragraphs, read_paragraphs

    if path is not None:
        return read_paragraphs(path), {"name": Path(path).name, "sha256": sha256_of(path)}
    paragraphs = manual_paragraphs()
    checksum = hashlib.sha256("\n\n".join(paragraphs).encode()).hexdigest()
    return paragraphs, {"name": f"manual of Python {platform.python_version()}", "sha256": checksum}


def _paired(tokens: HuggingFaceTokens, paragraphs: Iterable[str], sequences: int, longest: int) -> list[TokenSequence]:
    import numpy as np

    from alignlens.encoders.paragraphs import paragraph_pairs
    from alignlens.encoders.sequences import TokenSequence

    category_of = np.full(len(tokens.texts), 3, np.int8)
    for place, numbers in enumerate(([tokens.begin], [tokens.separator], tokens.punctuation)):
        category_of[numbers] = place
    pairs = paragraph_pairs(paragraphs, tokens.ids_of, tokens.begin, tokens.separator, longest)
    return [
        TokenSequence(np.array(ids, np.int32), np.array(segments, np.int8), category_of[ids])
        for ids, segments in islice(pairs, sequences)
    ]


def model_input(
    trained: TrainedModel, given: Given, sequences: int, counts: Path | None = None, weights: str = "weights"
) -> EncoderInput:
    """Returns the encoder of a trained Transformer with one sequence per sentence of its source.

    ``counts`` is the token store of its training source, by which tokens are frequent or rare.
    """
    from alignlens.encoders.contract import TransformerEncoder

    begin = trained.spec.source_begin
    categories = (*((BEGIN,) if begin else ()), END, PUNCTUATION, OTHER)
    read = _sentences(trained, trained.source_ids(given), categories, sequences)
    if not read:
        raise InputError("no line with words.", given.name, advice="Expected tokenised sentences, one per line.")
    ranks, source = _counted(counts, trained)
    encoder = TransformerEncoder(trained.model)  # type: ignore[arg-type]
    facts = {
        "model_type": trained.spec.architecture,
        "weights": weights,
        "text": given.facts(),
        "frequency": source,
    }
    return EncoderInput(encoder, read, categories, ranks, facts)


def _sentences(
    trained: TrainedModel, sources: TokenStore, categories: tuple[str, ...], sequences: int
) -> list[TokenSequence]:
    import numpy as np

    from alignlens.corpora.symbols import END_ID
    from alignlens.encoders.sequences import TokenSequence
    from alignlens.io.text import words
    from alignlens.subwords.spans import join, word_of_piece

    end, punctuation, other = (categories.index(name) for name in (END, PUNCTUATION, OTHER))
    frame = trained.spec.frame
    begin = [(frame.source, categories.index(BEGIN))] if BEGIN in categories else []
    before, after = ([], begin) if frame.source_last else (begin, [])
    chosen: list[TokenSequence] = []
    for number in np.flatnonzero(sources.lengths(np.arange(len(sources))))[:sequences].tolist():
        read = sources[number].tolist()
        pieces = trained.source.pieces_of(read)
        spelled, owner = words(join(pieces)), word_of_piece(pieces)
        pieces_of_word = Counter(owner)
        kinds = [
            # A sign in a longer word, such as that of an abbreviation, is no punctuation.
            punctuation if word >= 0 and spelled[word] in _SIGNS and pieces_of_word[word] == 1 else other
            for word in owner
        ]
        ids, labels = zip(*before, *zip(read, kinds, strict=True), (END_ID, end), *after, strict=True)
        chosen.append(TokenSequence(np.array(ids, np.int32), np.zeros(len(ids), np.int8), np.array(labels, np.int8)))
    return chosen


def _counted(folder: Path | None, trained: TrainedModel) -> tuple[NDArray[np.float64] | None, str | None]:
    """Returns frequency ranks by the counts of a token store, and what was counted."""
    if folder is None:
        return None, None
    from alignlens.corpora.frequency import counts_of, ranks_by_count
    from alignlens.corpora.tokens import TokenStore
    from alignlens.subwords.stores import check_subwords

    store = TokenStore.open(folder)
    check_subwords(store, trained.source)
    counts = counts_of(store, trained.spec.source_begin, trained.spec.frame.source)
    return ranks_by_count(counts), f"counts of {len(store)} training sentences"
