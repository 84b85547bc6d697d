"""What tests of relevance share: small models with weights that matter, padded batches, and settings of the rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import pytest
import torch
from relevance_oracle import Oracle
from torch import Tensor

from alignlens.attribution.relevance.alpha_beta import AlphaBeta, AlphaBetaSettings
from alignlens.attribution.relevance.contract import Found, Relevance, start
from alignlens.attribution.relevance.rules import Rules
from alignlens.models.contract import Seq2Seq, length_mask

VOCAB = 11
LENGTHS, TARGET = (4, 1, 3), 3

#: Every value of every setting, and most pairs of them.
SETTINGS = [
    AlphaBetaSettings(1.0, "spread", "taylor", rescale=True),
    AlphaBetaSettings(1.0, "spread", "taylor", rescale=False),
    AlphaBetaSettings(1.0, "printed", "softmax", rescale=False),
    AlphaBetaSettings(1.0, "printed", "constant", rescale=True),
    AlphaBetaSettings(0.5, "printed", "taylor", rescale=True),
    AlphaBetaSettings(0.5, "spread", "softmax", rescale=True),
    AlphaBetaSettings(0.5, "spread", "constant", rescale=False),
]

Model = TypeVar("Model", bound=Seq2Seq)
Slow = Callable[..., tuple[Tensor, Tensor, Tensor]]  # an oracle of one sentence and one step


class Batch(NamedTuple):
    """Some sentences of different lengths."""

    vectors: Tensor
    mask: Tensor
    prefix: Tensor

    def row(self, number: int) -> Batch:
        """Returns one sentence alone, without padding."""
        length = int(self.mask[number].sum())
        one = slice(number, number + 1)
        return Batch(self.vectors[one, :length], self.mask[one, :length], self.prefix[one])


def prepared(model: Model, seed: int = 0, bias: bool = True) -> Model:
    """Returns the model in double precision with larger weights, and biases that are not zero, or all zero."""
    generator = torch.manual_seed(seed)
    model = model.double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            if "bias" in name and not bias:
                parameter.zero_()
    return model


def batch(model: Seq2Seq, seed: int = 1) -> Batch:
    """Returns sentences with vectors at padding that would be noticed."""
    generator = torch.manual_seed(seed)
    mask = length_mask(torch.tensor(LENGTHS), max(LENGTHS))
    ids, prefix = (
        torch.randint(4, VOCAB, (len(LENGTHS), size), generator=generator) for size in (max(LENGTHS), TARGET)
    )
    with torch.no_grad():
        vectors = torch.where(mask[..., None], model.embed_source(ids), 100.0)
        return Batch(vectors, mask, model.embed_target(prefix))


def decoded(model: Seq2Seq, some: Batch) -> tuple[Tensor, Tensor]:
    """Returns the model's own states (row, target, dim), and the tokens that it gives the highest scores."""
    with torch.no_grad():
        states = model.decode(model.encode(some.vectors, some.mask), some.prefix).states
        return states, model.logits(states).argmax(-1)


def found_in(model: Seq2Seq, relevance: Relevance, some: Batch) -> Found:
    """Returns the relevance for the tokens that the model gives the highest scores."""
    _, tokens = decoded(model, some)
    with torch.no_grad():
        states = relevance.read(*some)
        wanted = torch.ones_like(tokens, dtype=torch.bool)
        return relevance.propagate(start(model, relevance.rules, states, tokens, wanted))


def difference(
    model: Seq2Seq, kind: Callable[[Seq2Seq, Rules], Relevance], slow: Slow, settings: AlphaBetaSettings
) -> float:
    """Returns the largest difference from an oracle that sees every sentence and step alone."""
    some = batch(model)
    found = found_in(model, kind(model, AlphaBeta(settings)), some)
    _, tokens = decoded(model, some)
    largest = 0.0
    for row, length in enumerate(LENGTHS):
        for step in range(TARGET):
            source, prefix = some.vectors[row, :length], some.prefix[row, : step + 1]
            of_source, of_prefix, _ = slow(model, Oracle(settings), source, prefix, int(tokens[row, step]))
            for fast, expected in (
                (found.source[:length, row, step], of_source),
                (found.prefix[: step + 1, row, step], of_prefix),
            ):
                assert bool(torch.isfinite(expected).all())
                largest = max(largest, float((fast - expected).abs().max()))
    return largest


def assert_conserved(found: Found) -> None:
    """Source and prefix have all relevance of every step, and none of it is negative."""
    total = found.source.sum((0, 3)) + found.prefix.sum((0, 3))
    torch.testing.assert_close(total, torch.ones(len(LENGTHS), TARGET).double(), rtol=0, atol=1e-9)
    assert float(found.source.min()) >= 0
    assert float(found.prefix.min()) >= 0


def assert_nothing_beyond(found: Found) -> None:
    """Tokens after a step and padding have exactly nothing, all others something."""
    for step in range(TARGET):
        assert not found.prefix[step + 1 :, :, step].any()
        assert found.prefix[step, :, step].any()
    for row, length in enumerate(LENGTHS):
        assert not found.source[length:, row].any()
        assert found.source[:length, row].sum(-1).all()


def assert_the_same_alone(model: Any, kind: type[Relevance]) -> None:
    """Rows of a batch are what they are alone, and lose as much."""
    some, together, alone = batch(model), AlphaBeta(SETTINGS[1]), AlphaBeta(SETTINGS[1])
    found = found_in(model, kind(model, together), some)
    for row, length in enumerate(LENGTHS):
        one = found_in(model, kind(model, alone), some.row(row))
        torch.testing.assert_close(found.source[:length, row], one.source[:, 0], rtol=0, atol=1e-12)
        torch.testing.assert_close(found.prefix[:, row], one.prefix[:, 0], rtol=0, atol=1e-12)
    assert together.losses.arrived == pytest.approx(alone.losses.arrived, rel=1e-9)
    assert together.losses.handed_on == pytest.approx(alone.losses.handed_on, rel=1e-9)


def assert_the_same_in_single_precision(model: Any, kind: type[Relevance]) -> None:
    """Compiled products find what torch finds in double precision."""
    some = batch(model)
    expected = found_in(model, kind(model, AlphaBeta(SETTINGS[5])), some)
    model = model.float()
    single = some._replace(vectors=some.vectors.float(), prefix=some.prefix.float())
    found = found_in(model, kind(model, AlphaBeta(SETTINGS[5])), single)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=1e-4)
