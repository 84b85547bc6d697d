"""Links by a recipe: shares of one or two models, added up, multiplied, and cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alignlens.alignment.links import Alignment
from alignlens.alignment.soft import best_links, combined, links_above, product
from alignlens.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alignlens.alignment.soft import Shares
    from alignlens.recipes.asked import Asked, Pieces
    from alignlens.recipes.recipe import AlignmentRecipe, Part


def check_models(recipe: AlignmentRecipe, models: Sequence[Asked], name: str) -> None:
    """Raises unless a recipe, of a file of that name, was made for these models."""
    parts = (("forward", "--model", recipe.forward), ("reverse", "--reverse", recipe.reverse))
    for (side, option, part), asked in zip(parts, models, strict=False):
        if part is not None and part.model != asked.trained.checksum:
            raise ConfigError(
                f"--recipe {name}: its {side} model is not {option} {asked.trained.folder} (SHA-256 "
                f"{part.model[:12]}…, here {asked.trained.checksum[:12]}…). Make a recipe for these models: "
                "alignlens calibrate."
            )


def recipe_links(
    recipe: AlignmentRecipe,
    models: Sequence[Asked],
    pieces: Sequence[Pieces],
    advance: Callable[[int], None] | None = None,
) -> Alignment:
    """Returns the links of a text, with scores: products above the threshold, or best words with their shares.

    ``models`` and ``pieces`` are those of the forward direction and, if the recipe has it, of the reverse one.
    """
    parts = [part for part in (recipe.forward, recipe.reverse) if part is not None]
    sides = [_shares(*each, advance) for each in zip(parts, models, pieces, strict=True)]
    columns = []
    for number, shares in enumerate(zip(*sides, strict=True)):
        if recipe.threshold is None:
            source, target, scores = best_links(shares[0])
        else:
            source, target, scores = links_above(product(*shares), recipe.threshold)
        columns.append((np.full(source.size, number), source, target, scores))
    sentence, source, target, scores = (np.concatenate(column) for column in zip(*columns, strict=True))
    return Alignment.from_arrays(sentence, source, target, len(columns), scores)


def _shares(part: Part, asked: Asked, pieces: Pieces, advance: Callable[[int], None] | None) -> list[Shares]:
    """Returns the shares of every sentence by one part of a recipe."""
    shares_of = asked.shares(pieces, part.methods, advance)
    by_place = {place: combined(list(shares), part.weights) for place, shares in shares_of}
    return [by_place[place] for place in range(len(by_place))]
