"""Speed and memory of attribution, against Captum on the same model and sentences with the same threads.

Captum is used as its documentation shows it: InputXGradient, inside NoiseTunnel for SmoothGrad, one target position at
a time with the prefix cut there, once with a forward function that gives the model's logits and takes the last ones,
and once with one that spares the others. That both compute the same is checked first: Captum's gradients, at our noise,
give our scores within 1e-4. Then they take turns; what is reported is the median over rounds of the ratio of their
times: of processor time with one thread, since others may use the machine, of wall time with several. SmoothGrad is
also measured in passes of the same batches through torch, forward and backward (``batch_passes.py``).

python benchmarks/attribution.py [--architecture transformer|lstm|fconv] [--size 5m|demo] [--sentences 20] [--rounds 3]
    [--threads 2] [--profile] [--memory]
python benchmarks/attribution.py --model DIR --source F --target F [--gold F]

With a trained model and text, adaptive sampling is measured too: its time, the share of links that stay, and with gold
links its AER. Without, weights and sentences are random: half of the units of feed-forward nets are then open, of a
trained model far fewer, which we use and Captum does not; adaptive sampling would be meaningless.

Captum: pip install captum==0.9.0.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from batch_passes import batches_of, there_and_back
from captum.attr import InputXGradient, NoiseTunnel, Saliency
from machine import processor
from steps import tell_steps
from torch import Tensor

from alignlens.alignment.extraction import extract
from alignlens.alignment.gold import read_gold
from alignlens.alignment.links import Alignment
from alignlens.attribution.corpus import attribute
from alignlens.attribution.gradients.choice import source_gradients
from alignlens.attribution.gradients.transformer import TransformerGradients
from alignlens.attribution.noise import unit_noise
from alignlens.attribution.registry import Method, parse
from alignlens.attribution.statistics import Statistics
from alignlens.corpora.symbols import BEGIN_ID, END_ID
from alignlens.decoding.forced import force_all
from alignlens.decoding.translate import TrainedModel
from alignlens.io.text import read_parallel
from alignlens.metrics.aer import count_hits
from alignlens.models.base_settings import ArchitectureSettings
from alignlens.models.contract import Seq2Seq, parameter_count
from alignlens.models.registry import build
from alignlens.models.settings import FconvSettings, LstmSettings, ModelSpec, TransformerSettings

#: By architecture, settings and size of the vocabulary; those of demo size are the demo's.
SIZES: dict[str, dict[str, tuple[ArchitectureSettings, int]]] = {
    "transformer": {
        "5m": (TransformerSettings(dim=256, ffn=512, heads=4, embeddings="shared_tied"), 4000),
        "demo": (TransformerSettings(dim=64, ffn=128, heads=4, encoder_layers=2, decoder_layers=2), 800),
    },
    "lstm": {
        "5m": (LstmSettings(dim=256, hidden=256), 4000),
        "demo": (LstmSettings(dim=64, hidden=96, embeddings="tied"), 800),
    },
    "fconv": {
        "5m": (FconvSettings(dim=256, hidden=256, embeddings="shared_tied"), 4000),
        "demo": (FconvSettings(dim=64, hidden=64, decoder_layers=4, max_positions=128, embeddings="tied"), 800),
    },
}
SIGMA, COPIES = 0.15, 30
GRAD, SMOOTH = parse("ding_grad"), parse("ding_smoothgrad")


@dataclass(frozen=True)
class Text:
    """Sentence pairs as ids, and the words of their pieces where they are real."""

    sources: list[list[int]]
    targets: list[list[int]]
    source_words: list[list[int]]
    target_words: list[list[int]]

    def first(self, count: int) -> Text:
        """Returns sentence pairs spread evenly over all."""
        chosen = np.linspace(0, len(self.sources) - 1, min(count, len(self.sources))).astype(int)
        return Text(*([side[place] for place in chosen] for side in vars(self).values()))


class Captum:
    """Captum as its documentation uses it."""

    def __init__(self, model: Seq2Seq, last_only: bool = True) -> None:
        self._model, self._last_only = model, last_only

    def log_probs(self, vectors: Tensor, prefix: Tensor) -> Tensor:
        """Returns log probabilities (copy, vocabulary) of the token after the prefix."""
        mask = torch.ones(vectors.shape[:2], dtype=torch.bool)
        memory = self._model.encode(vectors, mask)
        states = self._model.decode(memory, self._model.embed_target(prefix)).states
        logits = self._model.logits(states[:, -1:] if self._last_only else states)
        return torch.log_softmax(logits, -1)[:, -1]

    def grad(self, text: Text) -> None:
        """Gradient times embedding of every target position."""
        method = InputXGradient(self.log_probs)
        for vectors, prefix, label in self._positions(text):
            method.attribute(vectors, target=label, additional_forward_args=prefix).sum(-1)

    def smoothgrad(self, text: Text) -> None:
        """The same, averaged over noisy copies."""
        method = NoiseTunnel(InputXGradient(self.log_probs))
        for vectors, prefix, label in self._positions(text):
            method.attribute(
                vectors,
                nt_type="smoothgrad",
                nt_samples=COPIES,
                stdevs=SIGMA * float(vectors.detach().max() - vectors.detach().min()),
                target=label,
                additional_forward_args=prefix,
            ).sum(-1)

    def scores(self, text: Text, number: int, method: Method) -> Tensor:
        """Returns our scores of one sentence from Captum's gradients: at our noise, clipped and normalised as ours."""
        saliency, rows = Saliency(self.log_probs), []
        for vectors, prefix, label in self._positions(Text(*([side[number]] for side in vars(text).values()))):
            clean = vectors.detach()
            noisy = clean
            if method is SMOOTH:
                noise = unit_noise(1, number, range(COPIES), *clean.shape[1:])
                noisy = clean + SIGMA * (clean.max() - clean.min()) * noise
            prefixes = prefix.expand(len(noisy), -1)
            gradient = saliency.attribute(
                noisy.requires_grad_(), target=label, abs=False, additional_forward_args=prefixes
            )
            kept = (gradient * clean).sum(-1).clamp(min=0)
            rows.append((kept / kept.sum(-1, keepdim=True)).mean(0))
        return torch.stack(rows)

    def _positions(self, text: Text) -> Any:
        for source, target in zip(text.sources, text.targets, strict=True):
            vectors = self._model.embed_source(torch.tensor([[*source, END_ID]])).detach().requires_grad_()
            prefix = torch.tensor([[BEGIN_ID, *target]])
            for position, label in enumerate([*target, END_ID]):
                yield vectors, prefix[:, : position + 1], label


def ours(model: Seq2Seq, text: Text, methods: Sequence[Method], **options: Any) -> dict[int, dict[str, Any]]:
    """Returns the scores of all sentences."""
    options.setdefault("workers", torch.get_num_threads())
    return dict(attribute(model, text.sources, text.targets, methods, **options))


def check_same_numbers(model: Seq2Seq, text: Text) -> None:
    """Raises unless both give the same scores on the first sentences."""
    worst = 0.0
    for method in (GRAD, SMOOTH):
        found = ours(model, text, [method])
        for number in range(min(3, len(text.sources))):
            peer = Captum(model).scores(text, number, method)
            worst = max(worst, float((peer.detach() - torch.from_numpy(found[number][method.text])).abs().max()))
    if worst > 1e-4:
        raise SystemExit(f"scores differ by {worst:g}")
    print(f"same scores as from Captum's gradients: largest difference {worst:.1e}")


def ratios(title: str, works: dict[str, Callable[[], object]], rounds: int, sentences: int) -> None:
    """Lets the works take turns and prints their times and how often the last fits into the others."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    # One thread has CPU time of its own to be measured by, whatever else the machine does.
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    for _ in range(rounds):
        for name, work in works.items():
            started = clock()
            work()
            seconds[name].append(clock() - started)
    *others, last = works
    times_shown = ", ".join(f"{name} {1000 * median(times) / sentences:.1f} ms" for name, times in seconds.items())
    print(f"{title}: {times_shown} per sentence")
    for name in others:
        pairs = zip(seconds[name], seconds[last], strict=True)
        print(f"  {median(first / second for first, second in pairs):.2f}x {name}")


def links_of(text: Text, scores: dict[int, dict[str, Any]], method: Method) -> Alignment:
    """Returns word links by the procedure of Ding et al."""
    sides = zip(text.source_words, text.target_words, strict=True)
    return Alignment.from_pairs(
        [
            [(i, j) for i, j, _ in extract(scores[number][method.text], source, target, "ding")]
            for number, (source, target) in enumerate(sides)
        ]
    )


def compare_adaptive(model: Seq2Seq, text: Text, risk: float, gold: str | None) -> None:
    """Prints how adaptive sampling compares with all copies: links, AER, copies."""
    statistics = Statistics()
    every = links_of(text, ours(model, text, [SMOOTH]), SMOOTH)
    some = links_of(text, ours(model, text, [SMOOTH], adaptive=risk, statistics=statistics), SMOOTH)
    positions = sum(len(target) + 1 for target in text.targets)
    print(
        f"adaptive, risk {risk:g}: {statistics.copies[SMOOTH.text] / positions:.1f} of {COPIES} copies a position, "
        f"{100 * (every & some).keys.size / every.keys.size:.2f} % of {every.keys.size} links unchanged"
    )
    if gold:
        rates = [count_hits(links, read_gold(gold, 0)).scores().aer for links in (every, some)]
        print(f"  AER {rates[0]:.2f} with all copies, {rates[1]:.2f} adaptive")


def compare_forward(model: Seq2Seq, text: Text, rounds: int) -> None:
    """Prints how much more than a plain forced pass attention costs, and weights and norms of all layers."""
    vocabulary = model.output.out_features
    traced = model.decode(
        model.encode(model.embed_source(torch.tensor([[END_ID]])), torch.ones(1, 1, dtype=torch.bool)),
        model.embed_target(torch.tensor([[BEGIN_ID]])),
        trace=True,
    )
    layers = range(len(traced.cross))
    every = [parse(f"{kind},layer={layer}") for kind in ("attention", "norms") for layer in layers]
    ratios(
        "against one forced pass",
        {
            "attention": lambda: ours(model, text, [parse("attention")]),
            f"weights and norms of {len(layers)} layers": lambda: ours(model, text, every),
            "forced pass": lambda: force_all(model, text.sources, text.targets, vocabulary=vocabulary),
        },
        rounds,
        len(text.sources),
    )


def compare_passes(model: Seq2Seq, text: Text, rounds: int, **options: Any) -> None:
    """Prints in how many forward-and-backward passes of its batches through torch SmoothGrad fits."""

    def smoothgrad() -> object:
        return ours(model, text, [SMOOTH], **options)

    batches = batches_of(smoothgrad)
    ratios(
        f"SmoothGrad n={COPIES} against one forward-and-backward pass of {len(batches)} batches in torch",
        {"ours": smoothgrad, "passes": lambda: there_and_back(model, batches)},
        rounds,
        len(text.sources),
    )


def tell_memory(arguments: argparse.Namespace) -> None:
    """Prints the peak memory of runs over more and more sentences, each in a process of its own."""
    for sentences in (100, 1000, 10000):
        command = [sys.executable, __file__, "--architecture", arguments.architecture, "--size", "demo"]
        command += ["--peak-of", str(sentences)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        print(f"peak memory, {sentences} sentences: {done.stdout.strip()} MB")


def tell_profile(model: Seq2Seq, text: Text) -> None:
    """Prints where the time of every method goes, on one thread."""
    for method in (GRAD, SMOOTH):
        print(method.name, end=", ")
        tell_steps(partial(ours, model, text, [method], workers=1))


def tell_open_units(model: Seq2Seq, text: Text) -> None:
    """Prints the share of feed-forward units that noisy copies leave open, of the layers with fewest and most."""
    passes = source_gradients(model)
    if not isinstance(passes, TransformerGradients):
        return
    shares = []
    for number, (source, target) in enumerate(zip(text.sources, text.targets, strict=True)):
        clean = model.embed_source(torch.tensor([[*source, END_ID]]))
        noisy = clean + SIGMA * (clean.max() - clean.min()) * unit_noise(1, number, range(COPIES), *clean.shape[1:])
        prefix = model.embed_target(torch.tensor([[BEGIN_ID, *target]])).expand(COPIES, -1, -1)
        kept = passes.forward(noisy, torch.ones(noisy.shape[:2], dtype=torch.bool), prefix)
        shares.append([float((layer.feed.slopes != 0).float().mean()) for layer in (*kept.encoder, *kept.decoder)])
    layers = np.mean(shares, 0)
    print(f"open feed-forward units: {100 * layers.min():.0f} to {100 * layers.max():.0f} % of a layer")


def random_text(vocabulary: int, sentences: int, length: float = 12.0) -> Text:
    """Returns random sentences; lengths are spread as in real text, about 12 pieces."""
    rng = np.random.default_rng(1)
    sides = [
        [rng.integers(4, vocabulary, max(1, int(rng.normal(length, length / 3)))).tolist() for _ in range(sentences)]
        for _ in range(2)
    ]
    words = [[list(range(len(ids))) for ids in side] for side in sides]
    return Text(*sides, *words)


def real(arguments: argparse.Namespace) -> tuple[Seq2Seq, Text]:
    """Returns a trained model and the text it is shown."""
    trained = TrainedModel.load(arguments.model)
    lines = read_parallel(arguments.source, arguments.target)
    segmented = [
        [segmenter.segment(line) for line in side]
        for segmenter, side in zip((trained.source, trained.target), lines, strict=True)
    ]
    ids = ([line.ids for line in side] for side in segmented)
    words = ([line.word_of_piece for line in side] for side in segmented)
    return trained.model, Text(*ids, *words)


def main() -> None:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architecture", choices=SIZES, default="transformer")
    parser.add_argument("--size", choices=SIZES["transformer"], default="5m")
    parser.add_argument("--model", help="trained model folder, instead of random weights")
    parser.add_argument("--source")
    parser.add_argument("--target")
    parser.add_argument("--gold", help="gold links of the text, for the AER of adaptive sampling")
    parser.add_argument("--risk", type=float, default=0.02)
    parser.add_argument("--sentences", type=int, default=20, help="sentences that are timed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--forward", action="store_true", help="only what one forward pass gives: weights and norms")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--peak-of", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    settings, vocabulary = SIZES[arguments.architecture][arguments.size]
    model = build(ModelSpec(arguments.architecture, settings, vocabulary, vocabulary), seed=1)
    text = random_text(vocabulary, arguments.peak_of or 512)
    if arguments.model:
        model, text = real(arguments)
    parameters = parameter_count(model)
    model.eval().requires_grad_(False)
    if arguments.peak_of:
        for _ in attribute(model, text.sources, text.targets, [parse("ding_smoothgrad,n=2"), GRAD]):
            pass
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
        return
    options = {"tokens": arguments.tokens} if arguments.tokens else {}
    some = text.first(arguments.sentences)
    peers = {"Captum": Captum(model, last_only=False), "Captum, last logits only": Captum(model)}
    pieces = sum(map(len, some.targets)) / len(some.targets)
    print(f"{processor()}, {arguments.threads} threads, torch {torch.__version__}")
    print(f"{parameters} parameters, {len(some.sources)} sentences, {pieces:.1f} pieces")
    if arguments.forward:
        compare_forward(model, text, 2 * arguments.rounds + 1)
        return
    check_same_numbers(model, some)
    tell_open_units(model, some)
    count, rounds = len(some.sources), arguments.rounds
    works: dict[str, Callable[[], object]] = {name: partial(peer.grad, some) for name, peer in peers.items()}
    works["ours"] = lambda: ours(model, some, [GRAD], **options)
    ratios("Grad", works, rounds, count)
    works = {name: partial(peer.smoothgrad, some) for name, peer in peers.items()}
    works["ours"] = lambda: ours(model, some, [SMOOTH], **options)
    ratios(f"SmoothGrad n={COPIES}", works, rounds, count)
    compare_passes(model, some, 2 * rounds + 1, **options)
    if arguments.model:
        works["ours"] = lambda: ours(model, some, [SMOOTH], adaptive=arguments.risk, **options)
        ratios("SmoothGrad, adaptive", works, rounds, count)
        compare_adaptive(model, text, arguments.risk, arguments.gold)
    compare_forward(model, text, 2 * rounds + 1)
    if arguments.memory:
        tell_memory(arguments)
    if arguments.profile:
        tell_profile(model, some)


if __name__ == "__main__":
    main()
