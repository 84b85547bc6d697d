"""Small Transformers and texts for tests of methods that follow how layers mix positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from alignlens.attribution.corpus import attribute
from alignlens.attribution.registry import Method
from alignlens.corpora.symbols import BEGIN_ID, END_ID
from alignlens.models.base_settings import ArchitectureSettings
from alignlens.models.contract import Decoded, Memory
from alignlens.models.registry import build
from alignlens.models.settings import CalibratedSettings, ModelSpec, TransformerSettings
from alignlens.models.transformer import Transformer

VOCABULARY = 13
SMALL: dict[str, Any] = {"dim": 16, "ffn": 24, "heads": 4, "encoder_layers": 2, "decoder_layers": 3}
SETTINGS: dict[str, tuple[str, ArchitectureSettings]] = {
    "post": ("transformer", TransformerSettings(**SMALL)),
    "pre": ("transformer", TransformerSettings(**SMALL, norm="pre")),
    "calibrated": ("calibrated", CalibratedSettings(**SMALL)),
    "one_layer": ("transformer", TransformerSettings(**{**SMALL, "encoder_layers": 1, "decoder_layers": 1})),
}


def model_of(name: str) -> Transformer:
    """Returns a model with biases and norms that do something, and attention that is not the same everywhere."""
    architecture, settings = SETTINGS[name]
    model = build(ModelSpec(architecture, settings, VOCABULARY, VOCABULARY), seed=3).eval()
    assert isinstance(model, Transformer)
    generator = torch.manual_seed(4)
    for label, parameter in model.named_parameters():
        if parameter.ndim == 1 and "mask_net" not in label and "fusion" not in label:
            parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
        elif "query" in label or "project" in label:
            parameter.data *= 2
    return model


def text(sentences: int = 9) -> tuple[list[list[int]], list[list[int]]]:
    rng = np.random.default_rng(1)
    sides = [[rng.integers(4, VOCABULARY, rng.integers(0, 7)).tolist() for _ in range(sentences)] for _ in "st"]
    return sides[0], sides[1]


@torch.no_grad()
def traced(model: Transformer, source: list[int], target: list[int]) -> tuple[Memory, Decoded]:
    """Returns what a model computes for one sentence pair by itself."""
    ids = torch.tensor([[*source, END_ID]])
    memory = model.encode(model.embed_source(ids), torch.ones_like(ids, dtype=torch.bool), trace=True)
    return memory, model.decode(memory, model.embed_target(torch.tensor([[BEGIN_ID, *target]])), trace=True)


def rolled_out(encoder: list[Tensor], decoder: list[tuple[Tensor, Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Returns shares of source and prefix of one sentence, number by number.

    Matrices are (position, position) of encoder layers, and of decoder layers (target, target), (target, source) and
    (target): what is made of the prefix, of the source, and kept of what was there before.
    """
    length, steps = len(encoder[0]), len(decoder[0][0])
    inside = torch.eye(length)
    for layer in encoder:
        inside = torch.tensor(
            [[sum(layer[i, k] * inside[k, j] for k in range(length)) for j in range(length)] for i in range(length)]
        )
    source, prefix = torch.zeros(steps, length), torch.eye(steps)
    for own, cross, kept in decoder:
        before = source.clone(), prefix.clone()
        for step in range(steps):
            for j in range(length):
                source[step, j] = sum(cross[step, i] * inside[i, j] for i in range(length))
                source[step, j] += kept[step] * sum(own[step, k] * before[0][k, j] for k in range(steps))
            for j in range(steps):
                prefix[step, j] = kept[step] * sum(own[step, k] * before[1][k, j] for k in range(steps))
    return source, prefix


def assert_the_same_however_computed(name: str, methods: list[Method], atol: float = 1e-6) -> None:
    """Asserts that neither padding nor batches nor threads change rows, which sum to one and tell something."""
    model, (sources, targets) = model_of(name), text(20)
    together = dict(attribute(model, sources, targets, methods))
    assert max(np.ptp(each[methods[0].text], axis=1).max() for each in together.values()) > 0.05
    threads = dict(attribute(model, sources, targets, methods, workers=3))
    few = dict(attribute(model, sources, targets, methods, tokens=20))
    for number, each in together.items():
        ((_, alone),) = attribute(model, [sources[number]], [targets[number]], methods)
        for method, matrix in each.items():
            assert np.array_equal(threads[number][method], matrix)
            np.testing.assert_allclose(few[number][method], matrix, atol=atol)
            np.testing.assert_allclose(alone[method], matrix, atol=atol)
            np.testing.assert_allclose(matrix.sum(1), 1, atol=1e-5)
