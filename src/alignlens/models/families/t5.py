"""T5 and mT5: their own architecture; the decoder begins with padding, and a task is part of the text of the source."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from alignlens.corpora.symbols import Frame
from alignlens.errors import InputError
from alignlens.io.documents import taking
from alignlens.models.families.configuration import ADVICE, t5_settings
from alignlens.models.families.filling import Filling
from alignlens.models.families.folder import UNKNOWN, Imported, Vocabulary, no_languages, read_config, read_tensors
from alignlens.models.families.languages import Languages
from alignlens.models.families.multilingual import with_added
from alignlens.models.registry import build
from alignlens.models.settings import ModelSpec
from alignlens.subwords.vocabulary_segmenter import VocabularySegmenter, pieces_of_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from torch import Tensor

    from alignlens.models.t5_settings import T5Settings

SUBWORDS = "spiece.model"


def load(folder: Path, languages: Languages) -> Imported:
    """Returns the model of a folder."""
    no_languages(languages, folder, "T5")
    config, path = read_config(folder)
    tensors, weights = read_tensors(folder)
    with taking(path, ADVICE):
        # Whatever the configuration says, the output layer is the table of vectors where it has the same numbers.
        settings = replace(t5_settings(config, path), embeddings="shared_tied" if _is_tied(tensors) else "shared")
        vocabulary, start = _vocabulary(folder, config, path)
    count = len(vocabulary.pieces)
    spec = ModelSpec("t5", settings, count, count, frame=Frame(target=(start,)))
    segmenter = VocabularySegmenter.of(folder / SUBWORDS, vocabulary.pieces)
    model = build(spec)
    with torch.no_grad(), taking(weights, ADVICE):
        filling = Filling(model)
        rows = list(vocabulary.rows)
        for name, parts in _names(settings):
            tables = [tensors[part] for part in parts]
            filling.put(name, *([table[rows] for table in tables] if name in _TABLES else tables))
        filling.check()
        for side, layers in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
            if any(name.startswith(f"{side}.block.{layers}.") for name in tensors):
                raise ValueError(f"{side}.block.{layers} is beyond the layers of the configuration")
    return Imported(model.eval(), spec, vocabulary, vocabulary, segmenter, segmenter, weights)


_TABLES = ("source_table.weight", "output.weight")


def _is_tied(tensors: Mapping[str, Tensor]) -> bool:
    """Returns whether the output layer is the table of vectors."""
    output, shared = tensors.get("lm_head.weight"), tensors.get("shared.weight")
    return output is None or (shared is not None and torch.equal(output, shared))


def _vocabulary(folder: Path, config: Mapping[str, Any], path: Path) -> tuple[Vocabulary, int]:
    """Returns the pieces of all rows, and our id of what the decoder begins with."""
    pieces = pieces_of_model(folder / SUBWORDS)
    size, end, padding = (int(config[key]) for key in ("vocab_size", "eos_token_id", "pad_token_id"))
    if size <= len(pieces):
        problem = f"vocab_size {size}: the {len(pieces)} pieces of {SUBWORDS} leave no row free: not supported."
        raise InputError(problem, path)
    if UNKNOWN not in pieces:
        raise InputError(f"has no piece {UNKNOWN!r}, which is not supported.", folder / SUBWORDS)
    piece_of = with_added(dict(enumerate(pieces)), folder)
    # It has no symbol of its own for BEGIN, which is never read, and never predicted in a translation: as the last row.
    control = (pieces.index(UNKNOWN), size - 1, end, padding)
    vocabulary = Vocabulary.filling(piece_of, control, size, folder / SUBWORDS)
    return vocabulary, vocabulary.number(int(config.get("decoder_start_token_id", padding)))


def _names(settings: T5Settings) -> Iterator[tuple[str, list[str]]]:
    """Yields our names of tensors, and what they are made of."""
    yield "source_table.weight", ["shared.weight"]  # which is the target's, too
    if settings.embeddings == "shared":
        yield "output.weight", ["lm_head.weight"]
    for side, layers in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
        table = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        yield f"{side}_distances.table.weight", [table]
        yield f"{side}_norm.weight", [f"{side}.final_layer_norm.weight"]
        branches = [("own", "SelfAttention"), *([("cross", "EncDecAttention")] if side == "decoder" else [])]
        for number in range(layers):
            ours, theirs = f"{side}.{number}", f"{side}.block.{number}.layer"
            for place, (name, attention) in enumerate(branches):
                for part, made_of in (("query", "q"), ("project", "kv"), ("output", "o")):
                    parts = [f"{theirs}.{place}.{attention}.{each}.weight" for each in made_of]
                    yield f"{ours}.{name}.{part}.weight", parts
                yield f"{ours}.{name}_branch.norm.weight", [f"{theirs}.{place}.layer_norm.weight"]
            net = f"{theirs}.{len(branches)}.DenseReluDense"
            inner = {"widen": "wi_0", "gate": "wi_1"} if settings.gated else {"widen": "wi"}
            for part, tensor_name in (*inner.items(), ("narrow", "wo")):
                yield f"{ours}.feed_forward.{part}.weight", [f"{net}.{tensor_name}.weight"]
            yield f"{ours}.feed_forward_branch.norm.weight", [f"{theirs}.{len(branches)}.layer_norm.weight"]
