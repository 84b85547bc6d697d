"""A recipe: which scores of which models are added up, and how they become links; plain data and its file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from alignlens.alignment.symmetrizations import PRODUCT
from alignlens.attribution.registry import parse
from alignlens.errors import ConfigError, InputError
from alignlens.io.atomic import write_json
from alignlens.io.documents import read_json, taking
from alignlens.io.limits import PAIRS, THRESHOLD, Limits
from alignlens.io.schema import check
from alignlens.io.typed import ONE_LINE, REQUIRED, read, schema_of, setting, written

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.attribution.registry import Method

FORMAT: Literal[1] = 1
#: One direction alone: the best source word of every target word.
BEST = "argmax"
DEFAULT_THRESHOLD = 0.15
#: Thresholds that are tried if there are gold links.
THRESHOLDS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
_MOST_COMPONENTS = 1000
_AGAIN = "Make a recipe: alignlens calibrate."
_SHA256: dict[str, Any] = {"pattern": "^[0-9a-f]{64}$"}
_SHARE = Limits(0, 1)


@dataclass(frozen=True)
class Component:
    """One method with its weight in the sum."""

    method: str = setting(
        REQUIRED, "The method as alignlens align takes it: attention,layer=3,head=1,step=in.", **ONE_LINE
    )
    weight: float = setting(REQUIRED, "Its weight.", Limits(0, 1e6, above=True), "only their ratio counts")


@dataclass(frozen=True)
class Part:
    """The methods of the model of one direction."""

    model: str = setting(REQUIRED, "SHA-256 of its weights and subwords.", **_SHA256)
    components: tuple[Component, ...] = setting(
        REQUIRED, "Methods whose shares are added up.", minItems=1, maxItems=_MOST_COMPONENTS
    )

    @property
    def methods(self) -> list[Method]:
        """The methods of the components, in their order."""
        return [parse(each.method) for each in self.components]

    @property
    def weights(self) -> list[float]:
        """The weights of the components."""
        return [each.weight for each in self.components]


@dataclass(frozen=True)
class Text:
    """A text by its name and the checksum of its bytes."""

    name: str = setting(REQUIRED, "The name of the file.", **ONE_LINE)
    sha256: str = setting(REQUIRED, "Its SHA-256.", **_SHA256)


@dataclass(frozen=True)
class Origin:
    """What a recipe was calibrated on, and how well it did there."""

    source: Text = setting(REQUIRED, "The source text.")
    target: Text = setting(REQUIRED, "Its translation.")
    pairs: int = setting(REQUIRED, "How many pairs were read, from the first.", PAIRS)
    gold: Text | None = setting(None, "The gold links; null without any.")
    agreement: float | None = setting(
        None, "F1 of the best words of one direction against those of the other; null for one model.", _SHARE
    )
    aer: float | None = setting(None, "AER of the links on these pairs, in percent; null without gold.", Limits(0, 100))


@dataclass(frozen=True)
class AlignmentRecipe:
    """How the scores of one or two models become links."""

    format: Literal[1] = setting(REQUIRED, "Version of this format.")
    forward: Part = setting(REQUIRED, "The model that reads the source.")
    combination: str = setting(REQUIRED, "product of both directions, or argmax of one.", choices=(PRODUCT, BEST))
    calibrated: Origin = setting(REQUIRED, "Where it comes from.")
    reverse: Part | None = setting(None, "The model that reads the target; null for one direction.")
    threshold: float | None = setting(None, "Threshold that a product must exceed; null for argmax.", THRESHOLD)

    def check(self) -> None:
        """Raises for methods that are unknown, and for values that do not go together."""
        for part in (self.forward, self.reverse):
            methods = [] if part is None else [method.text for method in part.methods]
            if twice := [text for text in methods if methods.count(text) > 1]:
                raise ConfigError(f"the component {twice[0]} appears twice.")
        two = self.combination == PRODUCT
        if two != (self.reverse is not None) or two != (self.threshold is not None):
            raise ConfigError(f"{PRODUCT} needs a reverse part and a threshold, and {BEST} has neither.")

    def write(self, path: Path | str) -> None:
        """Writes the recipe as JSON; equal recipes are equal bytes."""
        write_json(path, written(self))


def read_recipe(path: Path | str) -> AlignmentRecipe:
    """Returns the recipe of a file, checked."""
    content = read_json(path, _AGAIN)
    if content.get("format") != FORMAT:
        raise InputError("not a recipe of this version of alignlens.", path, advice=_AGAIN)
    with taking(path, _AGAIN):
        check(content, schema_of(AlignmentRecipe), "recipe")
        recipe = read(AlignmentRecipe, content)
        recipe.check()
    return recipe
