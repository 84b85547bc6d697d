"""The rates of models in config/rates.yaml, measured on this machine with one thread.

Every architecture trains, translates and is attributed at the size of the demo and of small real data. Seconds of the
processor are fitted by work / multiply_adds + operations * wait, the form that alignlens plan uses, with the counts of
alignlens.workflow.costs.arithmetic.

python benchmarks/rates.py [--rounds 3]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np
import torch
from training import Pairs, batches

from alignlens.attribution.corpus import attribute
from alignlens.attribution.registry import parse
from alignlens.corpora.symbols import PADDING_ID
from alignlens.decoding.beam import beam_search
from alignlens.decoding.settings import BeamSettings
from alignlens.models.base_settings import ArchitectureSettings
from alignlens.models.contract import Seq2Seq
from alignlens.models.registry import build
from alignlens.models.settings import ARCHITECTURES, ModelSpec, architecture_settings
from alignlens.training.objectives.cross_entropy import smoothed_cross_entropy
from alignlens.training.presets import Presets
from alignlens.workflow.costs.arithmetic import passes

VOCABULARY = {"demo": 800, "small": 8000}
TOKENS = {"demo": 500, "small": 2000}
BEAM, SENTENCES, COPIES = 5, 4, 10
#: By size, of architectures that are not called by it.
PRESETS = {"bag_of_words": {"demo": "demo_snell_proxy", "small": "demo_snell_proxy"}}

#: Multiply-adds, operations that wait, seconds.
Point = tuple[float, float, float]


def seconds(work: Callable[[], object], rounds: int) -> float:
    """Returns the median of the processor's seconds, after one round that does not count."""
    work()
    found = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return median(found)


def training_points(model: Seq2Seq, settings: ArchitectureSettings, size: str, rounds: int) -> list[Point]:
    """Returns updates on batches of short, middle and long sentences."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0, fused=True)

    def update(pairs: Pairs) -> None:
        labels = pairs.labels[pairs.keep]
        logits = model.train()(pairs.source, pairs.mask, pairs.prefix, pairs.keep)
        (smoothed_cross_entropy(logits, labels, 0.1) / len(labels)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    points = []
    for pairs in batches(VOCABULARY[size], TOKENS[size], 3):
        rows, source = pairs.source.shape
        found = passes(settings, VOCABULARY[size], source, pairs.prefix.shape[1])
        points.append((3 * rows * found.forward, found.steps, seconds(lambda pairs=pairs: update(pairs), rounds)))
    return points


def decoding_points(model: Seq2Seq, settings: ArchitectureSettings, size: str, rounds: int) -> list[Point]:
    """Returns beam searches that end at their limit: control symbols never win."""
    never = torch.zeros(VOCABULARY[size])
    never[: PADDING_ID + 1] = -1e9
    points = []
    with torch.no_grad(), model.eval().output.register_forward_hook(lambda _, __, scores: scores + never):
        for pairs in batches(VOCABULARY[size], 16 * TOKENS["demo"] // BEAM, 3):
            rows, length = pairs.source.shape
            limit = BeamSettings(BEAM, max_ratio=0, max_offset=length)
            found = passes(settings, VOCABULARY[size], length, length)
            work = rows * (found.encoder + BEAM * (found.decoder + found.output))
            spent = seconds(lambda p=pairs, to=limit: beam_search(model, p.source, p.mask, to), rounds)
            points.append((work, length * settings.decoder_layers, spent))
    return points


def attribution_points(model: Seq2Seq, settings: ArchitectureSettings, size: str, rounds: int) -> list[Point]:
    """Returns SmoothGrad of a few sentences.

    Random weights leave half of a Transformer's units open, trained ones a few: for them the rate is a lower bound.
    """
    method, generator = parse(f"ding_smoothgrad,n={COPIES}"), np.random.default_rng(1)
    points = []
    for length in (10, 20, 40):
        texts = generator.integers(PADDING_ID + 1, VOCABULARY[size], (2, SENTENCES, length - 1)).tolist()
        found = passes(settings, VOCABULARY[size], length, length)
        work = SENTENCES * COPIES * (found.forward + found.output + length * found.start)
        spent = seconds(lambda texts=texts: list(attribute(model.eval(), *texts, [method])), rounds)
        points.append((work, SENTENCES * COPIES * length, spent))
    return points


def fitted(points: Sequence[Point]) -> tuple[float, float]:
    """Returns multiply-adds per second and seconds of waiting, of least relative error and neither below zero."""
    table = np.array(points)
    (per_work, wait), *_ = np.linalg.lstsq(table[:, :2] / table[:, 2:], np.ones(len(table)), rcond=None)
    if wait < 0:
        return float(1 / np.mean(table[:, 2] / table[:, 0])), 0.0
    return float(1 / per_work), float(wait)


def main() -> None:
    """Prints a part of config/rates.yaml."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    presets = Presets.load(Path(__file__).parents[1] / "config" / "models.yaml")
    works = {"training": training_points, "decoding": decoding_points, "attribution": attribution_points}
    for name, work in works.items():
        print(f"{name}:", flush=True)
        for architecture in ARCHITECTURES:
            points: list[Point] = []
            for size in VOCABULARY:
                preset = PRESETS.get(architecture, {}).get(size, f"{size}_{architecture}")
                settings = architecture_settings(architecture, presets.get(preset, size).model)
                model = build(ModelSpec(architecture, settings, VOCABULARY[size], VOCABULARY[size]), 1)
                points += work(model, settings, size, args.rounds)
            speed, wait = fitted(points)
            print(f"  {architecture}: {{multiply_adds: {speed / 1e9:.1f}e+9, wait: {wait:.2g}}}", flush=True)


if __name__ == "__main__":
    main()
