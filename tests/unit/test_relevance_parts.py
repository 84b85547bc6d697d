"""Compiled products of relevance: the same numbers as torch in double precision, for any sign and processor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from alignlens.attribution import native
from alignlens.attribution.relevance import parts
from alignlens.attribution.relevance.parts import LinearParts, NormParts, Parts
from alignlens.attribution.relevance.rules import Reach

POSITIONS, ROWS, STEPS, WIDTH = 7, 3, 7, 48


@pytest.fixture(params=native.levels(), ids=lambda level: level or "any processor")
def processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The steps for every instruction set of this processor: only those for the best one would ever run otherwise."""
    monkeypatch.setattr(native, "levels", lambda: (request.param,))
    native.native.cache_clear()
    library = parts.library()
    assert library is not None, "there is a C compiler: make install builds them"
    assert Path(library._name).name.startswith(f"_kernels{request.param}.")
    yield
    monkeypatch.undo()
    native.native.cache_clear()


def both(kind: str, outputs: int, added: bool) -> tuple[Parts, Parts]:
    """Returns compiled parts, and those of torch in double precision."""
    torch.manual_seed(outputs)
    read, weight, bias = torch.randn(POSITIONS, ROWS, WIDTH), torch.randn(outputs, WIDTH), torch.randn(outputs) / 10

    def made(dtype: torch.dtype) -> Parts:
        given = bias.to(dtype) if added else None
        if kind == "linear":
            return LinearParts(read.to(dtype), weight.to(dtype), given)
        norm = nn.LayerNorm(WIDTH).to(dtype).requires_grad_(requires_grad=False)
        norm.weight.copy_(weight[0].to(dtype))
        return NormParts(read.to(dtype), norm, given)

    compiled, plain = made(torch.float32), made(torch.float64)
    assert compiled.library is not None
    assert plain.library is None
    return compiled, plain


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found.double(), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("reach", list(Reach))
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("kind", "outputs", "added"), [("linear", 5, True), ("linear", 64, False), ("norm", WIDTH, True)]
)
def test_compiled_products_are_those_of_torch(
    processor: None, kind: str, outputs: int, added: bool, sign: int, reach: Reach
) -> None:
    compiled, plain = both(kind, outputs, added)
    close(compiled.totals(sign), plain.totals(sign))
    given = (
        *(torch.rand(POSITIONS, ROWS, STEPS, outputs), torch.rand(POSITIONS, ROWS, outputs)),
        torch.rand(POSITIONS, ROWS, STEPS),
    )
    expected = plain.gather(sign, *(each.double() for each in given), reach)
    close(compiled.gather(sign, *given, reach), expected)


@pytest.mark.parametrize("reach", list(Reach))
@pytest.mark.parametrize("outputs", [5, 64])
def test_compiled_sums_are_those_of_torch(processor: None, outputs: int, reach: Reach) -> None:
    compiled, plain = both("linear", outputs, added=True)
    relevance, kept = torch.zeros(POSITIONS, ROWS, STEPS, outputs), torch.rand(POSITIONS, ROWS, outputs)
    for place in range(POSITIONS):
        steps = relevance[place, :, reach.steps(place, STEPS)]
        steps.copy_(torch.rand(steps.shape))
    for ours, expected in zip(
        compiled.sums(relevance, kept, reach), plain.sums(relevance.double(), kept.double(), reach), strict=True
    ):
        close(ours, expected)


def test_odd_widths_stay_with_torch() -> None:
    assert LinearParts(torch.randn(2, 1, 10), torch.randn(4, 10), None).library is None
