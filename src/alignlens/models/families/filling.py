"""Checkpoints of encoder-decoder Transformers as our ``Transformer``: BART's names of tensors, which kin share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from alignlens.io.documents import taking
from alignlens.models.families.configuration import ADVICE
from alignlens.models.families.folder import Imported, Vocabulary, read_tensors
from alignlens.models.positions import Sinusoids
from alignlens.models.registry import build
from alignlens.models.transformer import Transformer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torch import Tensor, nn

    from alignlens.models.settings import ModelSpec
    from alignlens.subwords.spans import Segmenter

_FIRST_POSITION = 2  # its row in a stored table of fairseq's, learned or not
#: Our modules that only some families have, and their names.
_OPTIONAL = {
    "source_entry.norm": "encoder.layernorm_embedding",
    "target_entry.norm": "decoder.layernorm_embedding",
    "encoder_norm": "encoder.layer_norm",
    "decoder_norm": "decoder.layer_norm",
}


class Filling:
    """The tensors of a model of ours, each of which gets its numbers once."""

    def __init__(self, model: nn.Module) -> None:
        self.own = dict(model.named_parameters())
        self._filled: set[str] = set()

    def put(self, name: str, *parts: Tensor) -> None:
        """Copies the parts of a tensor, one below the other."""
        value = torch.cat(parts).float()
        if self.own[name].shape != value.shape:
            raise ValueError(f"{name} is {tuple(value.shape)}, expected {tuple(self.own[name].shape)}")
        self.own[name].copy_(value)
        self._filled.add(name)

    def check(self) -> None:
        """Raises if a tensor was not filled."""
        if missing := sorted(self.own.keys() - self._filled):
            raise ValueError(f"it has no weights for {', '.join(missing)}")


def filled_transformer(
    folder: Path,
    spec: ModelSpec,
    source: Vocabulary,
    target: Vocabulary,
    segmenters: tuple[Segmenter, Segmenter],
) -> Imported:
    """Returns the model of a folder, in evaluation mode."""
    tensors, path = read_tensors(folder)
    model = build(spec)
    assert isinstance(model, Transformer)
    with torch.no_grad(), taking(path, ADVICE):
        _fill(model, tensors, source, target)
    return Imported(model.eval(), spec, source, target, *segmenters, path)


def _fill(model: Transformer, tensors: Mapping[str, Tensor], source: Vocabulary, target: Vocabulary) -> None:
    """Copies weights into a model."""
    filling = Filling(model)
    own, put = filling.own, filling.put
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
    if "output.bias" in own:
        put("output.bias", tensors["final_logits_bias"].flatten()[list(target.rows)])
        _never(own["output.bias"], target)
    for side, entry in (("encoder", "source_entry"), ("decoder", "target_entry")):
        if (table_name := f"{entry}.positions.table") in own:
            put(table_name, tensors[f"{side}.embed_positions.weight"][_FIRST_POSITION:])
    for name, theirs in _OPTIONAL.items():
        for kind in ("weight", "bias"):
            if f"{name}.{kind}" in own:
                put(f"{name}.{kind}", tensors[f"{theirs}.{kind}"])
    for side, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for number in range(len(layers)):
            for name, made_of in layer_names(side):
                for kind in ("weight", "bias"):
                    parts = (tensors[f"{side}.layers.{number}.{part}.{kind}"] for part in made_of)
                    put(f"{side}.{number}.{name}.{kind}", *parts)
    filling.check()
    _check_nothing_is_left(model, tensors)


def _never(bias: Tensor, vocabulary: Vocabulary) -> None:
    """Keeps two symbols that are one row of theirs from sharing its probability: the first of them gets none."""
    begin, padding = vocabulary.rows[1], vocabulary.rows[3]
    if begin == padding:
        bias[1] = -1e9


def layer_names(side: str) -> list[tuple[str, Sequence[str]]]:
    """Returns the names of a layer's tensors, ours and the parts that they are made of in a checkpoint."""
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


def _check_nothing_is_left(model: Transformer, tensors: Mapping[str, Tensor]) -> None:
    """Raises if a checkpoint has other positions, norms or layers than the model, which would compute without them."""
    for side, entry in (("encoder", model.source_entry), ("decoder", model.target_entry)):
        stored, waves = tensors.get(f"{side}.embed_positions.weight"), entry.positions
        if stored is not None and isinstance(waves, Sinusoids) and not _are_waves(stored, waves):
            raise ValueError(f"{side}.embed_positions are not sinusoids")
        layers = len(model.encoder if side == "encoder" else model.decoder)
        if any(name.startswith(f"{side}.layers.{layers}.") for name in tensors):
            raise ValueError(f"{side}.layers.{layers} is beyond the layers of the configuration")
    own = {name for name, _ in model.named_parameters()}
    for name, theirs in _OPTIONAL.items():
        if f"{theirs}.weight" in tensors and f"{name}.weight" not in own:
            raise ValueError(f"{theirs} is not part of such a model")


def _are_waves(stored: Tensor, waves: Sinusoids) -> bool:
    stored = stored.float()[_FIRST_POSITION if waves.layout == "fairseq" else 0 :]
    return torch.allclose(stored, waves(0, len(stored)), atol=1e-4)
