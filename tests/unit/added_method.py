"""A method as somebody else would write it: one file. It explains the source and the target prefix."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import alignlens.attribution.methods as package
from alignlens.attribution.registry import METHODS, discovered

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from alignlens.attribution.spec import MethodSpec

FILE = '''
"""Gradient of the label's logit times input, on both sides."""

from __future__ import annotations

from alignlens.attribution.spec import MethodSpec, OwnPasses, Contributions, one_of


def score(inputs, values):
    import torch

    model, sides, rows = inputs.model, [], []
    with torch.enable_grad():
        for side in (inputs.vectors, inputs.prefix_vectors):
            sides.append(side.detach().requires_grad_())
        states = model.decode(model.encode(sides[0], inputs.source_mask), sides[1]).states
        logits = model.logits(states).gather(-1, inputs.labels[..., None])[..., 0].sum(0)
        for position in range(len(logits)):
            gradients = torch.autograd.grad(logits[position], sides, retain_graph=True)
            rows.append([(gradient * side.detach()).sum(-1) for gradient, side in zip(gradients, sides)])
    inputs.statistics.forward_passes += len(states)
    inputs.statistics.backward_passes += int(inputs.labels_mask.sum())
    found = [torch.stack(side, 1) for side in zip(*rows)]
    return Contributions(*(side.abs() if values["sign"] == "dropped" else side for side in found))


SPEC = MethodSpec(
    name="toy",
    summary="gradient of the logit times input, of source and prefix",
    paper="nobody 2030",
    equation="e_i . d logit(t_j) / d e_i",
    cost="1 forward, J backward",
    passes=OwnPasses(score, forward=1, backward=1),
    parameters={"sign": one_of("dropped", "kept")},
    distribution=False,
    prefix=True,
)
'''


def add_method(folder: Path, monkeypatch: pytest.MonkeyPatch, content: str = FILE) -> MethodSpec:
    """Returns the method that the registry finds after one file was added, for the length of a test."""
    folder.mkdir(exist_ok=True)
    (folder / "toy.py").write_text(content)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    try:
        found = discovered()
    finally:  # the next test imports another file of that name
        sys.modules.pop(f"{package.__name__}.toy")
    assert found.keys() - METHODS.keys() == {"toy"}
    monkeypatch.setitem(METHODS, "toy", found["toy"])
    assert list(METHODS) == list(found)
    return found["toy"]
