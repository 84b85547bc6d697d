"""Calibration: every head of the attention of one or two models is a candidate, and the best few make a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from alignlens.alignment.symmetrizations import PRODUCT
from alignlens.attribution.registry import check_architectures, method
from alignlens.corpora.symbols import BEGIN_ID, END_ID
from alignlens.errors import InputError
from alignlens.recipes.asked import Pieces
from alignlens.recipes.grid import Grid
from alignlens.recipes.recipe import BEST, FORMAT, AlignmentRecipe, Component, Origin, Part, Text
from alignlens.recipes.search import Agreement, Candidates, ErrorRate, search

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alignlens.alignment.gold import Gold
    from alignlens.attribution.registry import Method
    from alignlens.decoding.given import Given
    from alignlens.decoding.translate import TrainedModel
    from alignlens.recipes.asked import Asked
    from alignlens.recipes.grid import Values
    from alignlens.recipes.search import Step

SIDES = ("forward", "reverse")


class Taken(NamedTuple):
    """A chosen component, and how good the components so far are together."""

    side: str
    method: str
    alone: float | None  # its best agreement with a candidate of the other side
    agreement: float | None
    aer: float | None  # in percent


@dataclass(frozen=True)
class Calibrated:
    """A recipe, and the steps that led to it."""

    recipe: AlignmentRecipe
    taken: list[Taken]
    candidates: list[int]  # of each side


def candidates_of(trained: TrainedModel, more: Sequence[Method] = ()) -> list[Method]:
    """Returns the candidates of a model: every layer and head of attention, at both steps, and further methods."""
    check_architectures(more, [trained.spec.architecture])
    heads = [
        method("attention", {"layer": layer, "head": head, "step": step})
        for layer, count in enumerate(heads_of(trained))
        for head in range(count)
        for step in ("out", "in")
    ]
    return list(dict.fromkeys([*heads, *more]))


@torch.no_grad()
def heads_of(trained: TrainedModel) -> list[int]:
    """Returns how many heads every layer of attention to the source has."""
    model = trained.model
    device = next(model.parameters()).device
    source, prefix = (torch.tensor([[symbol]], device=device) for symbol in (END_ID, BEGIN_ID))
    memory = model.encode(model.embed_source(source), torch.ones_like(source, dtype=torch.bool))
    return [layer.weights.shape[1] for layer in model.decode(memory, model.embed_target(prefix), trace=True).cross]


@dataclass(frozen=True)
class Calibration:
    """Models of one or two directions and the text that they are calibrated on."""

    models: Sequence[Asked]
    source: Given
    target: Given

    def pieces(self) -> list[Pieces]:
        """Returns what each model reads and explains."""
        forward = Pieces.of(self.models[0].trained, self.source, self.target)
        return [forward, *(forward.turned(each.trained, self.source, self.target) for each in self.models[1:])]

    def run(
        self,
        methods: Sequence[Sequence[Method]],
        origin: Origin,
        gold: Gold | None,
        thresholds: Sequence[float],
        advance: Callable[[int], None] | None = None,
    ) -> Calibrated:
        """Returns the best recipe from the methods of every model.

        Without ``gold`` two models must agree; with it the AER of the links counts, at the best of the thresholds.
        """
        pieces = self.pieces()
        grid = Grid.of(pieces[0].target_counts, pieces[0].source_counts)
        if not grid.cells:
            raise InputError(
                "no pair has words on both sides.", self.source.name, advice="Give a text to calibrate on."
            )
        grids = [grid, grid.turned]
        sides = [_candidates(*each, advance) for each in zip(self.models, pieces, methods, grids, strict=False)]
        agreement = Agreement(*sides) if len(sides) == 2 else None
        errors = None if gold is None else _error_rate(sides, gold, thresholds, origin)
        steps = search(sides, errors or _known(agreement))
        return _calibrated(self.models, methods, origin, steps, _Judged(sides, agreement, errors, thresholds))


def _known(agreement: Agreement | None) -> Agreement:
    if agreement is None:
        raise ValueError("one model without gold links")
    return agreement


def _candidates(
    asked: Asked, pieces: Pieces, methods: Sequence[Method], grid: Grid, advance: Callable[[int], None] | None
) -> Candidates:
    """Returns the shares by all methods of a model, in one sweep."""
    values = np.zeros((len(methods), grid.cells), dtype=np.float32)
    for place, shares in asked.shares(pieces, methods, advance):
        low, high = grid.offsets[place : place + 2]
        if high > low:
            values[:, low:high] = shares.reshape(len(methods), -1)
    return Candidates(grid, values)


def _error_rate(sides: Sequence[Candidates], gold: Gold, thresholds: Sequence[float], origin: Origin) -> ErrorRate:
    sure, possible = (sides[0].grid.links(links) for links in (gold.sure, gold.possible))
    if not sure.any() and origin.gold is not None:
        problem = f"no sure link in the first {origin.pairs} pairs."
        raise InputError(problem, origin.gold.name, advice="Give more --pairs, or leave out --gold.")
    return ErrorRate(sides, sure, possible, thresholds)


class _Judged(NamedTuple):
    """All measures of shares, whichever of them the search uses."""

    sides: Sequence[Candidates]
    agreement: Agreement | None
    errors: ErrorRate | None
    thresholds: Sequence[float]

    def of(self, sums: Sequence[Values]) -> tuple[float | None, float | None, float | None]:
        """Returns agreement, AER in percent, and threshold."""
        agreement = None if self.agreement is None else self.agreement.score(sums)
        if self.errors is None:
            return agreement, None, self.thresholds[0]
        score, threshold = self.errors.best(sums)
        return agreement, -100 * score, threshold


def _calibrated(
    models: Sequence[Asked],
    methods: Sequence[Sequence[Method]],
    origin: Origin,
    steps: Sequence[Step],
    judged: _Judged,
) -> Calibrated:
    sides = judged.sides
    alone = None if judged.agreement is None else judged.agreement.table()
    sums = [np.zeros(side.grid.cells, np.float32) for side in sides]
    taken: list[Taken] = []
    for place, step in enumerate(steps, start=1):
        sums[step.side] = sums[step.side] + sides[step.side].values[step.candidate]
        # The first components of all directions come together.
        agreement, aer, threshold = judged.of(sums) if place >= len(sides) else (None, None, None)
        own = None if alone is None else float(alone.take(step.candidate, axis=step.side).max())
        taken.append(Taken(SIDES[step.side], methods[step.side][step.candidate].text, own, agreement, aer))
    parts = [
        Part(each.trained.checksum, tuple(Component(one.method, 1.0) for one in taken if one.side == side))
        for each, side in zip(models, SIDES, strict=False)
    ]
    two = len(parts) == 2
    calibrated = Origin(origin.source, origin.target, origin.pairs, origin.gold, agreement, aer)
    recipe = AlignmentRecipe(
        FORMAT, parts[0], PRODUCT if two else BEST, calibrated, parts[1] if two else None, threshold if two else None
    )
    return Calibrated(recipe, taken, [len(each) for each in methods])


def text_of(given: Given) -> Text:
    """Returns name and checksum of a text."""
    return Text(**given.facts())
