"""Marian models in a Hugging Face folder (OPUS-MT and kin), read as our ``Transformer``: the same numbers, our names.

Marian's decoder begins with padding, and its control symbols stand anywhere in the vocabulary. Here they have the ids
of ``corpora.symbols``, and everything else follows in Marian's order; ``Vocabulary`` says which piece has which
id. No code of the folder is run: a pickle is read with torch's ``weights_only``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from alignlens.errors import InputError
from alignlens.io.documents import read_json, taking
from alignlens.models.marian_settings import CONFIG, marian_settings
from alignlens.models.registry import build
from alignlens.models.settings import ModelSpec
from alignlens.models.transformer import Transformer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from alignlens.models.contract import Seq2Seq

_ADVICE = "Fetch the folder of the model again."
_UNKNOWN = "<unk>"


@dataclass(frozen=True)
class Vocabulary:
    """Pieces in the order of our ids, and the rows that they have in Marian's tables."""

    pieces: tuple[str, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Imported:
    """A model, what it is, and the pieces of both sides."""

    model: Seq2Seq
    spec: ModelSpec
    source: Vocabulary
    target: Vocabulary
    weights: Path  # the file that they come from


def load_marian(folder: Path) -> Imported:
    """Returns the model of a folder in evaluation mode."""
    path = folder / CONFIG
    config = read_json(path, _ADVICE)
    with taking(path, _ADVICE):
        settings = marian_settings(config, path)
    shared = bool(config.get("share_encoder_decoder_embeddings", True))
    source = _vocabulary(folder / "vocab.json", config)
    target = source if shared else _vocabulary(folder / "target_vocab.json", config)
    spec = ModelSpec("transformer", settings, len(source.pieces), len(target.pieces))
    tensors, weights_path = _tensors(folder)
    model = build(spec)
    assert isinstance(model, Transformer)
    with torch.no_grad(), taking(weights_path, _ADVICE):
        _fill(model, tensors, source, target)
    return Imported(model.eval(), spec, source, target, weights_path)


def _vocabulary(path: Path, config: Mapping[str, Any]) -> Vocabulary:
    """Returns the pieces of a vocabulary file, control symbols first."""
    row_of = read_json(path, _ADVICE)
    with taking(path, _ADVICE):
        piece_of = {int(row): piece for piece, row in row_of.items()}
        begin, end, padding = (int(config[f"{key}_token_id"]) for key in ("decoder_start", "eos", "pad"))
        control = (int(row_of[_UNKNOWN]), begin, end, padding)
    rest = sorted(set(piece_of) - set(control))
    pieces = (_UNKNOWN, "<s>", "</s>", "<pad>", *(piece_of[row] for row in rest))
    return Vocabulary(pieces, (*control, *rest))


def _tensors(folder: Path) -> tuple[dict[str, Tensor], Path]:
    """Returns the weights of a folder by Marian's names, and the file that they stand in."""
    safe, pickled = folder / "model.safetensors", folder / "pytorch_model.bin"
    path = safe if safe.is_file() else pickled
    if not path.is_file():
        raise InputError("no weights here: neither model.safetensors nor pytorch_model.bin.", folder, advice=_ADVICE)
    try:
        found = load_file(path) if path is safe else torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, UnpicklingError, BadZipFile, RuntimeError, EOFError, ValueError) as error:
        why = " ".join(str(error).split())[:100]
        raise InputError(f"not weights, or damaged ones ({why}).", path, advice=_ADVICE) from None
    return {str(name).removeprefix("model."): tensor for name, tensor in found.items()}, path


def _fill(model: Transformer, tensors: Mapping[str, Tensor], source: Vocabulary, target: Vocabulary) -> None:
    """Copies Marian's weights into a model."""
    own = dict(model.named_parameters())
    filled = set()

    def put(name: str, *parts: Tensor) -> None:
        value = torch.cat(parts).float()
        if own[name].shape != value.shape:
            raise ValueError(f"{name} is {tuple(value.shape)}, expected {tuple(own[name].shape)}")
        own[name].copy_(value)
        filled.add(name)

    shared = tensors.get("shared.weight")
    for name, theirs, vocabulary in (
        ("source_table", "encoder.embed_tokens", source),
        ("target_table", "decoder.embed_tokens", target),
        ("output", "lm_head", target),
    ):
        if f"{name}.weight" in own:
            table = tensors.get(f"{theirs}.weight", shared)
            if table is None:
                raise KeyError(f"{theirs}.weight")
            put(f"{name}.weight", table[list(vocabulary.rows)])
    put("output.bias", tensors["final_logits_bias"].flatten()[list(target.rows)])
    _never(own["output.bias"], target)
    for side, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for number in range(len(layers)):
            for name, made_of in layer_names(side):
                for kind in ("weight", "bias"):
                    parts = (tensors[f"{side}.layers.{number}.{part}.{kind}"] for part in made_of)
                    put(f"{side}.{number}.{name}.{kind}", *parts)
    if missing := sorted(own.keys() - filled):
        raise ValueError(f"nothing for {', '.join(missing)}")
    _check_positions(model, tensors)


def _never(bias: Tensor, vocabulary: Vocabulary) -> None:
    """Keeps the two symbols that are one in Marian from sharing its probability: the first of them gets none."""
    begin, padding = vocabulary.rows[1], vocabulary.rows[3]
    if begin == padding:
        bias[1] = -1e9


def layer_names(side: str) -> list[tuple[str, Sequence[str]]]:
    """Returns the names of a layer's tensors, ours and the parts that they are made of in Marian."""
    attention = [("own.project", "self_attn", "qkv")]
    names: list[tuple[str, Sequence[str]]] = [
        ("own.output", ["self_attn.out_proj"]),
        ("own_branch.norm", ["self_attn_layer_norm"]),
    ]
    if side == "decoder":
        attention += [("cross.query", "encoder_attn", "q"), ("cross.project", "encoder_attn", "kv")]
        names += [("cross.output", ["encoder_attn.out_proj"]), ("cross_branch.norm", ["encoder_attn_layer_norm"])]
    names += [(name, [f"{theirs}.{part}_proj" for part in parts]) for name, theirs, parts in attention]
    names += [("feed_forward.widen", ["fc1"]), ("feed_forward.narrow", ["fc2"])]
    return [*names, ("feed_forward_branch.norm", ["final_layer_norm"])]


def _check_positions(model: Transformer, tensors: Mapping[str, Tensor]) -> None:
    """Raises if a checkpoint has other positions than sinusoids."""
    for side in ("encoder", "decoder"):
        stored = tensors.get(f"{side}.embed_positions.weight")
        if stored is not None and not torch.allclose(stored.float(), model.positions(0, len(stored)), atol=1e-4):
            raise ValueError(f"{side}.embed_positions are no sinusoids")
