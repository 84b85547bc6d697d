"""Transformers of which one head looks at the same place of the source, and all others anywhere; nothing is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from alignlens.corpora.symbols import END_ID
from alignlens.io.atomic import write_json
from alignlens.models.checkpoint import FORMAT, save_tensors, weights_of
from alignlens.models.registry import build
from alignlens.models.settings import ModelSpec, TransformerSettings
from alignlens.subwords.sentencepiece_bpe import train_pair
from alignlens.subwords.settings import BpeSettings
from alignlens.subwords.spans import Segmenter

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.models.transformer import Transformer

LAYER, HEAD = 1, 2
PLANTED = f"attention,layer={LAYER},head={HEAD}"
DIM, HEADS = 128, 4
POSITIONS = 30  # as many as a head of that size can tell apart
WORDS = ["der", "hund", "sieht", "die", "katze", "und", "ein", "mann", "schläft", "im", "garten"]


def lines(count: int = 30) -> list[str]:
    """Returns sentences of two to five words, no two of a sentence the same."""
    generator = torch.Generator().manual_seed(1)
    orders = [torch.randperm(len(WORDS), generator=generator).tolist() for _ in range(count)]
    return [" ".join(WORDS[place] for place in order[: 2 + k % 4]) for k, order in enumerate(orders)]


def write_planted(folder: Path, seed: int, vocab: int = 300) -> Path:
    """Returns ``folder`` with such a model, for a text and its copy."""
    train_pair(lines(), lines(), BpeSettings("separate", vocab), folder)
    sizes = (len(Segmenter.load(folder / f"{side}.model")) for side in ("source", "target"))
    settings = TransformerSettings(dim=DIM, ffn=16, heads=HEADS, encoder_layers=1, decoder_layers=2, dropout=0)
    spec = ModelSpec("transformer", settings, *sizes)
    model = build(spec, seed)
    _plant(model)  # type: ignore[arg-type]
    save_tensors(folder / "weights.safetensors", weights_of(model), {"update": 0})
    write_json(folder / "model.json", {"format": FORMAT, "spec": spec.as_json()})
    return folder


@torch.no_grad()
def _plant(model: Transformer) -> None:
    """Leaves nothing of a sentence but positions, and lets one head find equal ones."""
    for table in (model.source_table, model.target_table):
        table.weight.zero_()
    for layer in (*model.encoder, *model.decoder):
        for name, module in layer.named_modules():
            if name.endswith(("output", "narrow")):
                module.weight.zero_()  # type: ignore[operator]
                module.bias.zero_()  # type: ignore[operator]
    ids = torch.full((1, POSITIONS), END_ID)
    states = model.encode(model.embed_source(ids), torch.ones_like(ids, dtype=torch.bool)).states[0]
    _, sizes, directions = torch.linalg.svd(states - states.mean(0), full_matrices=False)
    known = int((sizes > 1e-3 * sizes[0]).sum())
    width = DIM // HEADS
    apart = torch.zeros(width, DIM)
    count = min(known, width)
    # Positions become vectors at right angles to each other, long enough for a sharp softmax.
    apart[:count] = 20 * directions[:count] / sizes[:count, None]
    cross = model.decoder[LAYER].cross  # type: ignore[union-attr]
    rows = slice(HEAD * width, (HEAD + 1) * width)
    for linear in (cross.query, cross.project):  # type: ignore[union-attr]
        linear.weight[rows] = apart  # type: ignore[index]
        linear.bias[rows] = -apart @ states.mean(0)  # type: ignore[index]
