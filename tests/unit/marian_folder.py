"""A Hugging Face folder of a Marian model: random weights, a real tokenizer, as ``transformers`` writes them."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from marian_configs import SIZES
from transformers import MarianConfig, MarianMTModel

LINES = [
    "Le chat dort .",
    "the cat sleeps on the mat .",
    "We are here , Mr. Speaker !",
    "« l' été » 1 / 2 naïve façade",
    "ünïcödé straße Ωmega",
]


def spoken(seed: int, lines: int = 300) -> list[str]:
    """Returns lines of made up words, with those of ``LINES`` among them."""
    draw = random.Random(seed)
    syllables = ["ba", "du", "ge", "ki", "lo", "mu", "ne", "ri", "so", "ta"]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(120)]
    return [*LINES, *(" ".join(draw.choices(words, k=draw.randint(2, 9))) for _ in range(lines))]


def write_folder(
    folder: Path, pickled: bool = False, languages: tuple[str, ...] = (), seed: int = 5, **changes: Any
) -> MarianMTModel:
    """Returns the model after writing its folder; ``changes`` are of its configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces: list[str] = []
    for side, text_seed in (("source", 1), ("target", 2)):
        written = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(spoken(text_seed)),
            model_writer=written,
            vocab_size=150,
            hard_vocab_limit=False,
            character_coverage=0.98,
            minloglevel=2,
        )
        (folder / f"{side}.spm").write_bytes(written.getvalue())
        processor = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
        pieces += [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]
    vocabulary = ["</s>", "<unk>", *dict.fromkeys(pieces), *languages, "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: row for row, piece in enumerate(vocabulary)}))
    (folder / "tokenizer_config.json").write_text('{"source_lang": "xa", "target_lang": "xb"}')
    torch.manual_seed(seed)
    config: dict[str, Any] = {
        "vocab_size": len(vocabulary),
        **SIZES,
        "activation_function": "swish",
        "scale_embedding": True,
        "max_position_embeddings": 64,
        "pad_token_id": len(vocabulary) - 1,
        "decoder_start_token_id": len(vocabulary) - 1,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "init_std": 0.3,
    }
    model = MarianMTModel(MarianConfig(**{**config, **changes})).eval()
    model.final_logits_bias += 0.2 * torch.randn(1, model.config.vocab_size)
    model.save_pretrained(folder)
    if pickled:
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    return model


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Returns what the command line gave."""
    command = [sys.executable, "-m", "alignlens", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def without(name: str) -> Callable[[Path], object]:
    """Damages a folder: a file is gone."""
    return lambda place: (place / name).unlink()


def configured(**changes: Any) -> Callable[[Path], object]:
    """Damages a folder: its configuration says something else."""

    def change(place: Path) -> None:
        content = json.loads((place / "config.json").read_text())
        (place / "config.json").write_text(json.dumps({**content, **changes}))

    return change
