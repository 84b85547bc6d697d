"""Attention rollout through encoder and decoder: a slow loop, closed forms, and what it must not depend on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from mixing_cases import SETTINGS, assert_the_same_however_computed, model_of, rolled_out, text, traced
from torch import Tensor

from alignlens.attribution.corpus import attribute
from alignlens.attribution.registry import METHODS, parse, parse_all
from alignlens.attribution.statistics import Statistics
from alignlens.errors import ConfigError

TRIED = parse_all(["rollout", "rollout,residual=0.2", "rollout,residual=0"])


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_sentence_equals_the_slow_loop(name: str) -> None:
    model, (sources, targets) = model_of(name), text()
    found = dict(attribute(model, sources, targets, TRIED))
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        memory, decoded = traced(model, source, target)
        for method in TRIED:
            residual = method.parameters["residual"]

            def mixed(weights: Tensor, residual: float = residual) -> Tensor:
                return residual * torch.eye(weights.shape[-1]) + (1 - residual) * weights[0].mean(0)

            decoder = []
            for own, cross in zip(decoded.own, decoded.cross, strict=True):
                weights = cross.weights[0] / cross.weights[0].sum(-1, keepdim=True)
                kept = torch.full((len(target) + 1,), residual)
                decoder.append((mixed(own.weights), (1 - residual) * weights.mean(0), kept))
            expected, prefix = rolled_out([mixed(layer.weights) for layer in memory.attention], decoder)
            np.testing.assert_allclose((expected.sum(1) + prefix.sum(1)).numpy(), 1, atol=1e-5)
            share = 1 - residual ** len(decoder)
            np.testing.assert_allclose(expected.sum(1).numpy(), share, atol=1e-5)
            np.testing.assert_allclose(found[number][method.text], expected / share, atol=1e-5)


def test_without_residuals_it_is_a_product_of_attention() -> None:
    model = model_of("one_layer")
    source, target = [5, 9, 4, 9], [7, 4, 11]
    ((_, found),) = attribute(model, [source], [target], parse_all(["rollout,residual=0"]))
    memory, decoded = traced(model, source, target)
    expected = decoded.cross[0].weights[0].mean(0) @ memory.attention[0].weights[0].mean(0)
    np.testing.assert_allclose(found["rollout,residual=0"], expected, atol=1e-6)


def test_with_residuals_alone_it_is_the_mean_of_all_layers() -> None:
    """What attention passes on is next to nothing, so that no layer's share goes through another one."""
    model = model_of("post")
    ((_, found),) = attribute(
        model, [[5, 9, 4]], [[7, 4]], parse_all(["rollout,residual=0.9999", "attention,layer=mean"])
    )
    np.testing.assert_allclose(found["rollout,residual=0.9999"], found["attention,layer=mean"], atol=1e-3)


def test_equal_weights_everywhere_are_equal_shares() -> None:
    model = model_of("post")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "query" in name:  # attention to the source
                parameter.zero_()
            elif "own.project" in name:  # queries stand first
                parameter[: len(parameter) // 3] = 0
    ((_, found),) = attribute(model, [[5, 9, 4]], [[7, 4]], [parse("rollout")])
    np.testing.assert_allclose(found["rollout"], 0.25, atol=1e-6)


@pytest.mark.parametrize("name", SETTINGS)
def test_neither_padding_nor_batches_nor_threads_change_it(name: str) -> None:
    assert_the_same_however_computed(name, TRIED)


def test_it_is_one_pass_and_for_transformers_only() -> None:
    sources, targets = text()
    statistics = Statistics()
    list(attribute(model_of("post"), sources, targets, TRIED[:1], statistics=statistics))
    assert (statistics.forward_passes, statistics.backward_passes) == (len(sources), 0)
    assert [name for name in ("transformer", "calibrated", "lstm", "fconv") if METHODS["rollout"].supports(name)] == [
        "transformer",
        "calibrated",
    ]
    with pytest.raises(ConfigError, match="residual=1: must be a number at least 0 and less than 1"):
        parse("rollout,residual=1")
