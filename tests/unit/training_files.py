"""A copying task on disk, small enough to train on in a second, and the command that trains on it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignlens.corpora.tokens import TokenWriter
from alignlens.io.text import read_lines
from alignlens.subwords.sentencepiece_bpe import train_pair
from alignlens.subwords.settings import BpeSettings
from alignlens.subwords.spans import Segmenter
from alignlens.training.assembly import Files

MODELS = {
    "transformer": {"dim": 16, "ffn": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1},
    "calibrated": {"dim": 16, "ffn": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1},
    "lstm": {"dim": 16, "hidden": 16},
    "fconv": {"dim": 16, "hidden": 16, "encoder_layers": 2, "decoder_layers": 2},
}
TRAINING = {
    "batch_tokens": 90,
    "accumulation": 2,
    "warmup": 5,
    "learning_rate": 5e-3,
    "clip": 1.0,
    "max_updates": 24,
    "validate_every": 8,
    "validate_sentences": 3,
    "average": 2,
    "snapshots": [0, 5, 16],
}


@dataclass(frozen=True)
class CopyTask:
    """Token stores and subword models of a corpus whose target is its source."""

    folder: Path

    @classmethod
    def write(cls, folder: Path, pairs: int = 120) -> CopyTask:
        """Returns the task after writing it."""
        draw = random.Random(7)
        words = ["ba", "du", "ge", "ki", "lo", "mu", "ne"]
        lines = [" ".join(draw.choices(words, k=draw.randint(1, 7))) for _ in range(pairs)]
        train_pair(lines, lines, BpeSettings("joint", 290), folder / "bpe")
        segmenter = Segmenter.load(folder / "bpe" / "source.model")
        for split, text in {"train": lines[11:], "dev": lines[:11]}.items():
            (folder / f"{split}.txt").write_text("\n".join(text) + "\n")
            with TokenWriter(folder / split, len(segmenter), segmenter.checksum) as store:
                for line in read_lines(folder / f"{split}.txt"):
                    store.append(segmenter.segment(line).ids)
        return cls(folder)

    @property
    def files(self) -> Files:
        """The files in the order of ``alignlens train``."""
        train, dev, bpe = self.folder / "train", self.folder / "dev", self.folder / "bpe"
        return Files(train, train, dev, dev, self.folder / "dev.txt", bpe / "source.model", bpe / "target.model")

    def arguments(self, place: Path, architecture: str = "transformer", **changes: Any) -> list[str]:
        """The arguments of ``alignlens train`` for a run that works and ends below ``place``."""
        training = {**TRAINING, **changes}
        settings = {"architecture": architecture, "model": MODELS[architecture], "training": training}
        named = [text for key, path in vars(self.files).items() for text in (f"--{key.replace('_', '-')}", str(path))]
        made = ["--work", str(place / "work"), "--out", str(place / "model"), "--journal", str(place / "journal.jsonl")]
        return ["train", "--settings", json.dumps(settings), *named, *made]

    def train(self, place: Path, architecture: str = "transformer", **changes: Any) -> subprocess.CompletedProcess[str]:
        """Runs the command to its end."""
        command = [sys.executable, "-m", "alignlens", *self.arguments(place, architecture, **changes)]
        return subprocess.run(command, capture_output=True, text=True, check=False)
