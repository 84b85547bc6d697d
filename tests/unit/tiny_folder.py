"""A model folder as training writes it, but untrained: for the verbs that only have to load one."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from alignlens.io.atomic import write_json
from alignlens.io.checksum import sha256_of
from alignlens.models.checkpoint import FORMAT, load_model, save_tensors, weights_of
from alignlens.models.registry import build
from alignlens.models.settings import ModelSpec, architecture_settings, with_masks
from alignlens.subwords.sentencepiece_bpe import train_pair
from alignlens.subwords.settings import BpeSettings
from alignlens.subwords.spans import Segmenter

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = ["der hund sieht die katze", "die katze schläft", "ein hund und eine katze", "der mann sieht einen hund"]
TARGET = ["the dog sees the cat", "the cat sleeps", "a dog and a cat", "the man sees a dog"]
SMALL: dict[str, dict[str, int]] = {
    "bag_of_words": {"dim": 8},
    "transformer": {"dim": 8, "ffn": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 2},
    "calibrated": {"dim": 8, "ffn": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 2},
    "lstm": {"dim": 8, "hidden": 8},
    "fconv": {"dim": 8, "hidden": 8, "encoder_layers": 2, "decoder_layers": 2, "max_positions": 32},
}


def write_masks(folder: Path, model: Path, weights: str = "weights") -> Path:
    """Returns ``folder`` with untrained mask nets for the Transformer of another."""
    trained, spec = load_model(model, weights)
    made = ModelSpec("calibrated", with_masks(spec.settings, "released"), spec.source_vocab, spec.target_vocab)
    tensors = {**weights_of(build(made, 7)), **weights_of(trained)}
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(folder / "weights.safetensors", tensors, {"update": 0})
    for side in ("source.model", "target.model"):
        shutil.copyfile(model / side, folder / side)
    belongs_to = sha256_of(model / f"{weights}.safetensors")
    write_json(folder / "model.json", {"format": FORMAT, "spec": made.as_json(), "masks_of": belongs_to})
    return folder


def write_folder(folder: Path, architecture: str = "transformer", vocab: int = 300) -> Path:
    """Returns ``folder`` with an untrained model, its subword models and a second checkpoint, ``best``."""
    train_pair(SOURCE, TARGET, BpeSettings("separate", vocab), folder)
    sizes = (len(Segmenter.load(folder / f"{side}.model")) for side in ("source", "target"))
    spec = ModelSpec(architecture, architecture_settings(architecture, SMALL[architecture]), *sizes)
    for name, seed in (("weights", 3), ("best", 5)):
        save_tensors(folder / f"{name}.safetensors", weights_of(build(spec, seed)), {"update": 0})
    write_json(folder / "model.json", {"format": FORMAT, "spec": spec.as_json()})
    return folder
