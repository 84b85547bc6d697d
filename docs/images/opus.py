"""The first picture of the README: one sentence, what toolkits return as its alignment, and what alignlens finds.

python docs/images/opus.py MODEL REVERSE RECIPE     # OPUS-MT en-fr, fr-en and what alignlens calibrate made of them

The sentence was made up for this page, its translation is the model's, and its gold links are ours.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import alignlens
from alignlens.display.heatmap import System, draw, save

SOURCE = "I have not yet received the answer that the committee promised us ."
TARGET = "Je n' ai pas encore reçu la réponse que le comité nous avait promise ."
SURE = "0-0 1-2 2-3 3-4 4-5 5-6 6-7 7-8 8-9 9-10 10-13 11-11 12-14"
POSSIBLE = "2-1 10-12"
LAST_LAYER = "attention,layer=5"


def pairs(text: str) -> list[tuple[int, int]]:
    """Returns links of their Pharaoh format."""
    return [(int(source), int(target)) for source, _, target in (link.partition("-") for link in text.split())]


def main(model: str, reverse: str, recipe: str) -> None:
    """Writes the picture beside this file."""
    forward, backward = alignlens.load(model), alignlens.load(reverse)
    (usual,) = forward.align([SOURCE], [TARGET], LAST_LAYER)
    (shares,) = forward.attribute([SOURCE], [TARGET], LAST_LAYER)
    (ours,) = forward.align([SOURCE], [TARGET], reverse=backward, recipe=recipe)
    products = np.zeros(shares.to_words().shape)
    for link in ours:
        products[link.target, link.source] = link.score
    systems = [
        System(
            "What toolkits return\nlast layer, mean of heads",
            [(link.source, link.target) for link in usual],
            shares.to_words().to_numpy(),
        ),
        System("alignlens\ntwo models, heads without gold", [(link.source, link.target) for link in ours], products),
    ]
    drawing = draw(SOURCE.split(), TARGET.split(), pairs(SURE), pairs(POSSIBLE), systems)
    save(drawing, Path(__file__).with_suffix(".png"))


if __name__ == "__main__":
    main(*sys.argv[1:])
