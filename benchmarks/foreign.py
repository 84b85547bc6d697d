"""Speed of alignments and gradients from Marian models, against a forced pass, awesome-align's way and Inseq.

All take turns on the same sentences; what is reported is the median over rounds of the ratio of their times.

python benchmarks/foreign.py --model A --reverse B --recipe R --source F --target F [--sentences 96] [--rounds 3]

awesome-align reads both sides of a pair with multilingual BERT, once each, and multiplies states of its eighth layer.
Here a BERT of that size with random weights reads as many tokens; its weights would change no time.

Inseq explains the probability of every target piece by gradient times input, in batches, on the sentences that it
splits into the pieces that we have; that both give the same numbers within 1e-4 is checked first. It hands the decoder
vectors that are scaled, and the Marian decoder of transformers 5 scales them again: without undoing that here, its
numbers would be those of another function from the second piece on. Its time is the same either way.

Inseq, left out where it is absent: pip install --no-deps inseq==0.7.1 captum==0.9.0 jaxtyping==0.3.11
typeguard==2.13.3 treescope==0.1.10 wadler-lindig==0.1.8
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from machine import processor

from alignlens.attribution.corpus import attribute
from alignlens.attribution.registry import parse
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
TOLERANCE = 1e-4
#: What Inseq computes by default.
GRADIENT = parse("grad_input,gradient=true,score=p")


def arguments() -> argparse.Namespace:
    """Returns the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "reverse", "recipe", "source", "target"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=96)
    parser.add_argument("--explained", type=int, default=12, help="of them, sentences whose gradients are compared")
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


class Inseq:
    """Inseq on a model and those sentences, spread evenly over all, that it splits as we do."""

    def __init__(self, trained: TrainedModel, source: list[str], target: list[str], count: int) -> None:
        import inseq

        self._peer = inseq.load_model(str(trained.folder), "input_x_gradient")
        forward, scale = self._peer.model.forward, self._peer.embed_scale

        def scaled_once(*values: Any, decoder_inputs_embeds: Any, **others: Any) -> Any:
            return forward(*values, decoder_inputs_embeds=decoder_inputs_embeds / scale, **others)

        self._peer.model.forward = scaled_once
        agreed = [pair for pair in zip(source, target, strict=True) if self._splits_alike(trained, *pair)]
        chosen = np.linspace(0, len(agreed) - 1, min(count, len(agreed))).astype(int)
        self.source, self.target = map(list, zip(*(agreed[place] for place in chosen), strict=True))
        self._trained = trained
        self._ids = (
            [trained.source.segment(line).ids for line in self.source],
            [trained.target.segment(line).ids for line in self.target],
        )

    def _splits_alike(self, trained: TrainedModel, source: str, target: str) -> bool:
        tokenizer = self._peer.tokenizer
        theirs = tokenizer(source).input_ids, tokenizer(text_target=target).input_ids
        ours = trained.source.segment(source).pieces, trained.target.segment(target).pieces
        return all(
            tokenizer.convert_ids_to_tokens(ids)[:-1] == list(pieces) for ids, pieces in zip(theirs, ours, strict=True)
        )

    def explain(self) -> list[Any]:
        """Returns its scores of every sentence, target pieces x source pieces."""
        found = self._peer.attribute(self.source, self.target, batch_size=BATCH, show_progress=False)
        return [each.source_attributions.sum(-1).T.numpy() for each in found.sequence_attributions]

    def ours(self) -> list[Any]:
        """Returns our scores of the same."""
        found = attribute(self._trained.model, *self._ids, [GRADIENT], workers=torch.get_num_threads())
        by_number = dict(found)
        return [by_number[number][GRADIENT.text] for number in range(len(self.source))]

    def check(self) -> None:
        """Ends the program if both give other numbers."""
        for number, (ours, theirs) in enumerate(zip(self.ours(), self.explain(), strict=True)):
            apart = float(np.abs(ours - theirs).max())
            if apart > TOLERANCE:
                raise SystemExit(f"sentence {number}: scores of Inseq and ours are {apart:.2g} apart")


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
    print(f"{processor()}, {args.threads} threads, torch {torch.__version__}")
    print(f"{len(source)} pairs")
    compare(ways, args.rounds, len(source))
    if importlib.util.find_spec("inseq") is None:
        print("Inseq is not installed; the comparison with it is left out")
        return
    peer = Inseq(models[0], source, target, args.explained)
    peer.check()
    print(f"gradient times input of {len(peer.source)} pairs, the same numbers within {TOLERANCE}")
    compare(
        {"alignlens, grad_input": peer.ours, "Inseq, input_x_gradient": peer.explain}, args.rounds, len(peer.source)
    )


def compare(ways: dict[str, Callable[[], object]], rounds: int, pairs: int) -> None:
    """Prints the speed of every way, and the ratio of its time to that of the first."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            spent = seconds(way)
            if number:  # the first round warms up
                times[name].append(spent)
    first = next(iter(times.values()))
    for name, found in times.items():
        ratio = median(other / own for other, own in zip(found, first, strict=True))
        print(f"  {name:<36} {pairs / median(found):8.2f} pairs/s  {ratio:6.2f} x the time of the first")


if __name__ == "__main__":
    main()
