"""Our ``Transformer`` as a Marian model of Hugging Face: its configuration and its tensors, by Marian's names.

Marian's positions are all sines, then all cosines; ours may be sine and cosine by turns. Nothing else in a Transformer
knows one place of a vector from another, so all weights that read or write such vectors have their places exchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors.torch import save_file

from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID
from alignlens.errors import ConfigError
from alignlens.models.families.filling import layer_names
from alignlens.models.settings import TransformerSettings
from alignlens.models.transformer import Transformer

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from alignlens.models.contract import Seq2Seq
    from alignlens.models.settings import ModelSpec

_POSITIONS = 1024
_NORMS = ("own_branch.norm", "cross_branch.norm", "feed_forward_branch.norm")
#: Tensors whose first axis is places of a vector; of all others it is the last.
_WRITING = ("own.output", "cross.output", "feed_forward.narrow", *_NORMS)


def exportable(model: Seq2Seq, spec: ModelSpec) -> Transformer:
    """Returns the model, if Marian's layers can compute it; raises if not."""
    if not isinstance(model, Transformer) or type(model) is not Transformer:
        raise ConfigError(f"only Transformers can be exported to Marian, not {spec.architecture}.")
    settings = cast("TransformerSettings", spec.settings)
    for differs, what in (
        (settings.norm != "post", "norms before the layers (norm: pre)"),
        (spec.source_begin, "a begin symbol before the source"),
        (settings.max_positions is not None, "learned positions"),
        (settings.sinusoids == "fairseq", "positions that count from 2"),
        (settings.norm_embeddings, "normalised embeddings"),
        (not settings.scale_embeddings, "unscaled embeddings"),
    ):
        if differs:
            raise ConfigError(f"this model has {what}, which Marian models cannot have. It cannot be exported.")
    return model


def marian_config(spec: ModelSpec) -> dict[str, Any]:
    """Returns ``config.json``."""
    settings = cast("TransformerSettings", spec.settings)
    shared = settings.embeddings == "shared_tied"
    sides = {
        f"{side}_{key}": value
        for side in ("encoder", "decoder")
        for key, value in (("attention_heads", settings.heads), ("ffn_dim", settings.ffn))
    }
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "d_model": settings.dim,
        "encoder_layers": settings.encoder_layers,
        "decoder_layers": settings.decoder_layers,
        "num_hidden_layers": settings.encoder_layers,
        **sides,
        "activation_function": "gelu_new" if settings.activation == "gelu_tanh" else settings.activation,
        "dropout": settings.dropout,
        "attention_dropout": settings.attention_dropout,
        "activation_dropout": settings.activation_dropout,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "max_position_embeddings": _POSITIONS,
        "share_encoder_decoder_embeddings": shared,
        "tie_word_embeddings": shared,
        "vocab_size": spec.source_vocab,
        "decoder_vocab_size": spec.target_vocab,
        "pad_token_id": PADDING_ID,
        "eos_token_id": END_ID,
        "bos_token_id": BEGIN_ID,
        "decoder_start_token_id": BEGIN_ID,
        "forced_eos_token_id": END_ID,
        "num_beams": 5,
        "max_length": 512,
        "bad_words_ids": [[PADDING_ID], [BEGIN_ID]],
    }


def write_marian_tensors(model: Transformer, spec: ModelSpec, path: Path) -> None:
    """Writes the weights by Marian's names."""
    save_file(_tensors(model, spec), path, metadata={"format": "pt"})


def _tensors(model: Transformer, spec: ModelSpec) -> dict[str, Tensor]:
    settings = cast("TransformerSettings", spec.settings)
    places = torch.arange(settings.dim)
    if settings.sinusoids == "interleaved":
        places = torch.cat((places[::2], places[1::2]))
    tables = {"encoder.embed_tokens": model.source_table, "decoder.embed_tokens": model.target_table}
    if settings.embeddings == "shared_tied":
        tables = {"shared": model.target_table}
    tensors = {f"model.{name}.weight": table.weight[:, places] for name, table in tables.items()}
    if settings.embeddings != "shared_tied":
        tensors["lm_head.weight"] = model.output.weight[:, places]
    bias = model.output.bias if settings.output_bias else torch.zeros(spec.target_vocab)
    tensors["final_logits_bias"] = bias[None]
    own: dict[str, Tensor] = dict(model.named_parameters())
    for side, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for number in range(len(layers)):
            for name, parts in layer_names(side):
                weight, offset = (own[f"{side}.{number}.{name}.{kind}"] for kind in ("weight", "bias"))
                if name in _WRITING:
                    weight, offset = weight[places], offset[places]
                else:
                    weight = weight[:, places]
                pieces = zip(parts, weight.chunk(len(parts)), offset.chunk(len(parts)), strict=True)
                for part, its_weight, its_bias in pieces:
                    tensors[f"model.{side}.layers.{number}.{part}.weight"] = its_weight
                    tensors[f"model.{side}.layers.{number}.{part}.bias"] = its_bias
    return {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
