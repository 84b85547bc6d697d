"""Small encoders with random weights, and sequences for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from alignlens.encoders.contract import TransformerEncoder
from alignlens.encoders.sequences import TokenSequence
from alignlens.models.registry import build
from alignlens.models.settings import ModelSpec, TransformerSettings

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

VOCABULARY = 29
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "a", ".", ",", "the", "##s", "##ing", "red", "dog"]
WORDS += [f"word{number}" for number in range(VOCABULARY - len(WORDS))]


def shaken(model: nn.Module, seed: int = 5) -> nn.Module:
    """Returns the model with random weights and, above all, random biases."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator))
    return model


def our_encoder(norm: str = "post") -> TransformerEncoder:
    """Returns the encoder of a Transformer with 3 heads of width 4 in 2 layers."""
    settings = TransformerSettings(dim=12, ffn=7, heads=3, encoder_layers=2, decoder_layers=1, norm=norm)  # type: ignore[arg-type]
    spec = ModelSpec("transformer", settings, VOCABULARY, VOCABULARY)
    return TransformerEncoder(shaken(build(spec, 1)))  # type: ignore[arg-type]


def small_config(kind: str = "bert") -> Any:
    """Returns the configuration of a model with 3 heads of width 4 in 2 layers."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    sizes = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 7}
    more = {"embedding_size": 6} if kind == "electra" else {}
    places = {"vocab_size": VOCABULARY, "max_position_embeddings": 40, "pad_token_id": 0, "type_vocab_size": 2}
    return transformers.AutoConfig.for_model(kind, **sizes, **places, **more)


def small_model(kind: str = "bert") -> Any:
    """Returns such a model as transformers builds it, with eager attention."""
    import transformers

    config = small_config(kind)
    model = transformers.AutoModel.from_config(config, attn_implementation="eager")
    return shaken(model).eval()


def write_bert(folder: Path) -> Path:
    """Returns a folder with a small BERT and a tokenizer for ``WORDS``."""
    small_model().save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def sequence(*ids: int, kinds: int = 3) -> TokenSequence:
    """Returns ids whose category is their remainder."""
    numbers = np.array(ids, np.int32)
    second = np.arange(len(ids)) > len(ids) // 2
    return TokenSequence(numbers, second.astype(np.int8), (numbers % kinds).astype(np.int8))


def sequences(count: int = 9, kinds: int = 3) -> list[TokenSequence]:
    """Returns sequences of 2 to 11 tokens."""
    draw = np.random.default_rng(11)
    return [sequence(*draw.integers(4, VOCABULARY, draw.integers(2, 12)).tolist(), kinds=kinds) for _ in range(count)]
