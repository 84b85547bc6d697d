"""Speed and memory of relevance propagation, against Grad on the same sentences and the oracle of the tests.

All methods take turns on one thread; what is reported is the median over rounds of the ratio of their times. The oracle
goes through one step and one module at a time with automatic Jacobians; it is asked about the last step of a sentence,
and its time per step compared with ours, numbers included.

python benchmarks/relevance.py [--sentences 16] [--rounds 5] [--pieces 20] [--memory]
python benchmarks/relevance.py --model DIR --source F --target F

Without a model, weights are random, with about 5 million of them; Grad goes faster through a trained Transformer, whose
feed-forward units are mostly closed.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/unit"))
import relevance_oracle
import relevance_oracle_recurrent
from relevance_oracle import Oracle

from alignlens.attribution.corpus import attribute
from alignlens.attribution.registry import parse
from alignlens.attribution.relevance.alpha_beta import AlphaBetaSettings
from alignlens.corpora.symbols import BEGIN_ID, END_ID
from alignlens.decoding.translate import TrainedModel
from alignlens.io.text import read_parallel
from alignlens.models.contract import Seq2Seq, parameter_count
from alignlens.models.registry import build
from alignlens.models.settings import FconvSettings, LstmSettings, ModelSpec, TransformerSettings

VOCABULARY = 4000
SIZES = {
    "transformer": TransformerSettings(dim=256, ffn=512, heads=4, embeddings="shared_tied"),
    "lstm": LstmSettings(dim=256, hidden=256, bidirectional=True, embeddings="shared"),
    "fconv": FconvSettings(dim=256, hidden=256, encoder_layers=4, decoder_layers=3, embeddings="shared"),
}
ORACLES = {
    "transformer": relevance_oracle.transformer,
    "lstm": relevance_oracle_recurrent.lstm,
    "fconv": relevance_oracle_recurrent.fconv,
}
_GRADS = ("ding_grad", "li_grad")  # the first is what others are compared with
METHODS = (*_GRADS, "lrp", "lrp,alpha=0.5", "lrp,bias=printed", "lrp,attention=constant", "lrp_epsilon")
Text = tuple[list[list[int]], list[list[int]]]


def random_text(sentences: int, pieces: int) -> Text:
    """Returns sentence pairs of about so many pieces."""
    generator = np.random.default_rng(1)
    lengths = generator.integers(max(1, pieces - 5), pieces + 6, sentences)
    sides = [[generator.integers(4, VOCABULARY, length).tolist() for length in lengths] for _ in range(2)]
    return sides[0], sides[1]


def seconds(work: Callable[[], object]) -> float:
    """Returns the processor time of some work: others use this machine, too."""
    started = time.process_time()
    work()
    return time.process_time() - started


def attributed(model: Seq2Seq, text: Text, name: str) -> None:
    """Runs one method on a model."""
    for _ in attribute(model, *text, [parse(name)], workers=1):
        pass


def compare(model: Seq2Seq, text: Text, rounds: int) -> dict[str, float]:
    """Returns the median ratio to Grad of every method, and seconds of Grad per sentence under its name."""
    works = {name: partial(attributed, model, text, name) for name in METHODS}
    for work in works.values():
        work()
    taken = [{name: seconds(work) for name, work in works.items()} for _ in range(rounds)]
    grad = METHODS[0]
    found = {name: median(one[name] / one[grad] for one in taken) for name in METHODS}
    return {**found, grad: median(one[grad] for one in taken) / len(text[0])}


def against_oracle(name: str, model: Seq2Seq, text: Text) -> float:
    """Returns how many times as long the oracle takes for a step, after a look at its numbers."""
    source, target = text[0][0], text[1][0]
    attention = "constant" if name == "lstm" else "taylor"
    oracle = Oracle(AlphaBetaSettings(attention=attention))
    exact = model.double()
    vectors = exact.embed_source(torch.tensor([[*source, END_ID]]))[0].detach()
    prefix = exact.embed_target(torch.tensor([[BEGIN_ID, *target]]))[0].detach()
    started = time.process_time()
    found = ORACLES[name](exact, oracle, vectors, prefix, END_ID)
    slow = time.process_time() - started
    model.float()
    method = parse("lrp")
    ((_, matrices),) = attribute(model, [source], [target], [method], workers=1)
    expected = torch.as_tensor(found[0]).abs().sum(-1).numpy()
    np.testing.assert_allclose(matrices["lrp"][-1], expected, atol=2e-4)
    quick = seconds(lambda: list(attribute(model, [source] * 8, [target] * 8, [method], workers=1)))
    return slow / (quick / 8 / (len(target) + 1))


def tell_memory() -> None:
    """Prints the peak memory of runs over more and more sentences, each in a process of its own."""
    for sentences in (100, 1000, 4000):
        command = [sys.executable, __file__, "--peak-of", str(sentences)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        print(f"peak memory, {sentences} sentences: {done.stdout.strip()} MB")


def made(name: str) -> Seq2Seq:
    """Returns an untrained model."""
    return build(ModelSpec(name, SIZES[name], VOCABULARY, VOCABULARY), seed=1).eval().requires_grad_(False)


def main() -> None:
    """Prints all ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pieces", type=int, default=20)
    parser.add_argument("--model")
    parser.add_argument("--source")
    parser.add_argument("--target")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--peak-of", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.peak_of:
        small = TransformerSettings(dim=64, ffn=128, heads=4, encoder_layers=2, decoder_layers=2)
        model = build(ModelSpec("transformer", small, VOCABULARY, VOCABULARY), seed=1).eval().requires_grad_(False)
        for _ in attribute(model, *random_text(arguments.peak_of, arguments.pieces), [parse("lrp")], workers=1):
            pass
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
        return
    if arguments.model:
        trained = TrainedModel.load(arguments.model)
        lines = read_parallel([arguments.source, arguments.target])
        sides = [
            [list(segmenter.segment(line).ids) for line in side[: arguments.sentences]]
            for segmenter, side in zip((trained.source, trained.target), lines, strict=True)
        ]
        tell(
            trained.spec.architecture,
            trained.model.requires_grad_(False),
            (sides[0], sides[1]),
            arguments.rounds,
            False,
        )
        return
    text = random_text(arguments.sentences, arguments.pieces)
    for name in SIZES:
        tell(name, made(name), text, arguments.rounds, True)
    if arguments.memory:
        tell_memory()


def tell(name: str, model: Seq2Seq, text: Text, rounds: int, oracle: bool) -> None:
    """Prints the ratios of one model."""
    pieces = sum(map(len, text[1])) / len(text[1])
    print(f"{name}, {parameter_count(model) or sum(p.numel() for p in model.parameters()):,} weights,", end=" ")
    print(f"{len(text[0])} sentences of {pieces:.1f} pieces")
    for method, found in compare(model, text, rounds).items():
        unit = "ms a sentence" if method == METHODS[0] else "x Grad"
        print(f"  {method:<24}{1000 * found if method == METHODS[0] else found:8.2f} {unit}")
    if oracle:
        print(f"  {'oracle':<24}{against_oracle(name, model, text):8.0f} x lrp, per step")


if __name__ == "__main__":
    main()
