"""Hugging Face folders of families of translation models: random weights, real tokenizers, as published folders are."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import sentencepiece
import torch
from marian_configs import SIZES
from marian_folder import spoken
from safetensors.torch import load_file, save_file
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MBartConfig,
    MBartForConditionalGeneration,
    MT5Config,
    MT5ForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
)

from alignlens.models.families.languages import M2M100, MBART, MBART_50, NLLB

_SIZES: dict[str, Any] = {
    **SIZES,
    "max_position_embeddings": 64,
    "init_std": 0.3,
}
_BART_IDS = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}


class Written(NamedTuple):
    """A model, and what ``transformers`` reads of a source and a target around their pieces."""

    model: Any
    before: list[int]
    after: list[int]
    start: list[int]  # of the decoder
    name: str  # what follows the folder in the name of the model


def subwords(path: Path, kind: str = "bpe", lines: list[str] | None = None, **options: Any) -> int:
    """Returns how many pieces there are after writing a SentencePiece model."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(spoken(1) if lines is None else lines),
        model_writer=written,
        model_type=kind,
        vocab_size=160,
        hard_vocab_limit=False,
        character_coverage=0.98,
        minloglevel=2,
        **options,
    )
    path.write_bytes(written.getvalue())
    return int(sentencepiece.SentencePieceProcessor(model_proto=written.getvalue()).get_piece_size())


def saved(folder: Path, model: Any) -> Any:
    """Returns a model after writing it with biases and norms that matter."""
    torch.manual_seed(8)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias += 0.2 * torch.randn_like(model.final_logits_bias)
    model.eval().save_pretrained(folder)
    return model


def _tokenizer(folder: Path, **told: Any) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps(told))


def bart(folder: Path, **changes: Any) -> Written:
    """Writes a BART folder with ``vocab.json`` and ``merges.txt``."""
    trainer = ByteLevelBPETokenizer()
    control = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer.train_from_iterator(spoken(1), vocab_size=340, special_tokens=[*control, "<mask>"], show_progress=False)
    trainer.save_model(str(folder))
    _tokenizer(folder, tokenizer_class="BartTokenizer")
    torch.manual_seed(5)
    config = BartConfig(**{**_SIZES, **_BART_IDS, "vocab_size": 344, "activation_function": "gelu", **changes})
    return Written(saved(folder, BartForConditionalGeneration(config)), [0], [2], [2, 0], "")


def m2m100(folder: Path, **changes: Any) -> Written:
    """Writes an M2M100 folder; eight rows behind its codes belong to no piece."""
    pieces = subwords(folder / "sentencepiece.bpe.model")
    processor = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    listed = ["<s>", "<pad>", "</s>", "<unk>", *(processor.id_to_piece(number) for number in range(3, pieces))]
    (folder / "vocab.json").write_text(json.dumps({piece: row for row, piece in enumerate(listed)}))
    _tokenizer(folder, tokenizer_class="M2M100Tokenizer")
    torch.manual_seed(5)
    size = len(listed) + len(M2M100) + 8
    config = M2M100Config(**{**_SIZES, **_BART_IDS, "vocab_size": size, "scale_embedding": True, **changes})
    source, target = (len(listed) + M2M100.index(code) for code in ("de", "fr"))
    return Written(saved(folder, M2M100ForConditionalGeneration(config)), [source], [2], [2, target], "#de-fr")


def nllb(folder: Path, legacy: bool = False, **changes: Any) -> Written:
    """Writes an NLLB folder."""
    pieces = subwords(folder / "sentencepiece.bpe.model")
    _tokenizer(folder, tokenizer_class="NllbTokenizer", **({"legacy_behaviour": True} if legacy else {}))
    torch.manual_seed(5)
    size = pieces + 1 + len(NLLB) + 1 + 2
    config = M2M100Config(**{**_SIZES, **_BART_IDS, "vocab_size": size, "scale_embedding": True, **changes})
    source, target = (pieces + 1 + NLLB.index(code) for code in ("eng_Latn", "fra_Latn"))
    before, after = ([], [2, source]) if legacy else ([source], [2])
    name = "#eng_Latn-fra_Latn"
    return Written(saved(folder, M2M100ForConditionalGeneration(config)), before, after, [2, target], name)


def mbart(folder: Path, **changes: Any) -> Written:
    """Writes an mBART folder."""
    pieces = subwords(folder / "sentencepiece.bpe.model", "unigram")
    _tokenizer(folder, tokenizer_class="MBartTokenizer")
    torch.manual_seed(5)
    size = pieces + 1 + len(MBART) + 1
    config = MBartConfig(**{**_SIZES, **_BART_IDS, "vocab_size": size, "scale_embedding": True, **changes})
    source, target = (pieces + 1 + MBART.index(code) for code in ("en_XX", "ro_RO"))
    return Written(saved(folder, MBartForConditionalGeneration(config)), [], [2, source], [target], "#en_XX-ro_RO")


def mbart_50(folder: Path, **changes: Any) -> Written:
    """Writes an mBART-50 folder."""
    pieces = subwords(folder / "sentencepiece.bpe.model", "unigram")
    _tokenizer(folder, tokenizer_class="MBart50Tokenizer")
    torch.manual_seed(5)
    size = pieces + 1 + len(MBART_50) + 1
    config = MBartConfig(**{**_SIZES, **_BART_IDS, "vocab_size": size, "scale_embedding": True, **changes})
    source, target = (pieces + 1 + MBART_50.index(code) for code in ("en_XX", "sv_SE"))
    return Written(saved(folder, MBartForConditionalGeneration(config)), [source], [2], [2, target], "#en_XX-sv_SE")


_T5_SIZES: dict[str, Any] = {
    "d_model": 16,
    "d_kv": 6,
    "d_ff": 24,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 2,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 6,
    "decoder_start_token_id": 0,
    "initializer_factor": 1.5,
}


def _t5_subwords(folder: Path) -> int:
    """Returns how many rows a table has: one for each piece, and a hundred for what was masked, and more."""
    pieces = subwords(folder / "spiece.model", "unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    _tokenizer(folder, tokenizer_class="T5Tokenizer")
    torch.manual_seed(5)
    return pieces + 100 + 7


def t5(folder: Path, **changes: Any) -> Written:
    """Writes a T5 folder."""
    config = T5Config(**{**_T5_SIZES, "vocab_size": _t5_subwords(folder), **changes})
    return Written(saved(folder, T5ForConditionalGeneration(config)), [], [1], [0], "")


def t5_gated(folder: Path, **changes: Any) -> Written:
    """Writes the folder of a later T5, whose output layer has weights of its own."""
    more = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    config = T5Config(**{**_T5_SIZES, **more, "vocab_size": _t5_subwords(folder), **changes})
    saved(folder, T5ForConditionalGeneration(config))
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"] = 0.3 * torch.randn_like(tensors["shared.weight"])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    content = json.loads((folder / "config.json").read_text())
    del content["scale_decoder_outputs"]
    (folder / "config.json").write_text(json.dumps({**content, "tie_word_embeddings": False}))
    return Written(T5ForConditionalGeneration.from_pretrained(folder).eval(), [], [1], [0], "")


def mt5(folder: Path, **changes: Any) -> Written:
    """Writes an mT5 folder."""
    # Its output is not scaled: larger weights would leave single precision nothing to compare.
    config = MT5Config(**{**_T5_SIZES, "initializer_factor": 0.4, "vocab_size": _t5_subwords(folder), **changes})
    return Written(saved(folder, MT5ForConditionalGeneration(config)), [], [1], [0], "")


WRITERS: dict[str, Callable[..., Written]] = {
    "bart": bart,
    "m2m100": m2m100,
    "nllb": nllb,
    "mbart": mbart,
    "mbart_50": mbart_50,
    "t5": t5,
    "t5_gated": t5_gated,
    "mt5": mt5,
}
