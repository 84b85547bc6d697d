"""Speed of alignments from two Marian models, against a plain forced pass and against the way of awesome-align.

All take turns on the same sentences; what is reported is the median over rounds of the ratio of their times.

python benchmarks/foreign.py --model A --reverse B --recipe R --source F --target F [--sentences 96] [--rounds 3]

awesome-align reads both sides of a pair with multilingual BERT, once each, and multiplies states of its eighth layer.
Here a BERT of that size with random weights reads as many tokens; its weights would change no time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from alignlens.attribution.settings import AttributionSettings
from alignlens.decoding.forced import force_all
from alignlens.decoding.given import Given
from alignlens.decoding.translate import TrainedModel
from alignlens.io.text import read_parallel
from alignlens.recipes.asked import Asked, Pieces
from alignlens.recipes.links import recipe_links
from alignlens.recipes.recipe import read_recipe

BATCH = 16
LAYERS = 8  # of BERT, whose states awesome-align reads


def arguments() -> argparse.Namespace:
    """Returns the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "reverse", "recipe", "source", "target"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def multilingual_bert() -> Any:
    """Returns the first layers of an encoder of its size, with random weights."""
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(vocab_size=119547, num_hidden_layers=LAYERS), add_pooling_layer=False).eval()


@torch.no_grad()
def read_both(bert: Any, lengths: list[tuple[int, int]]) -> None:
    """Reads both sides of all pairs in batches of like length and multiplies their states."""
    order = sorted(range(len(lengths)), key=lambda place: lengths[place])
    for start in range(0, len(order), BATCH):
        some = [lengths[place] for place in order[start : start + BATCH]]
        states = []
        for side in (0, 1):
            longest = max(pair[side] for pair in some) + 2
            mask = torch.arange(longest) < torch.tensor([pair[side] + 2 for pair in some])[:, None]
            states.append(bert(torch.randint(1000, 100_000, mask.shape), attention_mask=mask.long()).last_hidden_state)
        (states[0] @ states[1].transpose(1, 2)).softmax(-1)


def seconds(function: Callable[[], object]) -> float:
    """Returns how long a call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main() -> None:
    """Prints ratios."""
    args = arguments()
    torch.set_num_threads(args.threads)
    source, target = (lines[: args.sentences] for lines in read_parallel(args.source, args.target))
    given = Given("source", source), Given("target", target)
    models = [TrainedModel.load(folder) for folder in (args.model, args.reverse)]
    recipe = read_recipe(args.recipe)
    asked = [Asked(each, AttributionSettings.batch_tokens, args.threads) for each in models]
    forward = Pieces.of(models[0], *given)
    pieces = [forward, forward.turned(models[1], *given)]
    lengths = [(len(forward.read[k]), len(forward.explained[k])) for k in range(len(source))]
    bert = multilingual_bert()

    def forced() -> None:
        for each, its in zip(models, pieces, strict=True):
            force_all(each.model, its.read, its.explained, vocabulary=each.spec.target_vocab)

    ways = {
        "alignlens, recipe, both directions": lambda: recipe_links(recipe, asked, pieces),
        "forced pass, both directions": forced,
        "awesome-align's way, mBERT-sized": partial(read_both, bert, lengths),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(args.rounds + 1):
        for name, way in ways.items():
            spent = seconds(way)
            if number:  # the first round warms up
                times[name].append(spent)
    ours = times["alignlens, recipe, both directions"]
    print(f"{len(source)} pairs, {args.threads} threads, {torch.__version__}")
    for name, found in times.items():
        ratio = median(other / own for other, own in zip(found, ours, strict=True))
        print(f"{name:<40} {len(source) / median(found):8.1f} pairs/s  {ratio:6.2f} x our time")


if __name__ == "__main__":
    main()
