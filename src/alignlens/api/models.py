"""A translation model in Python: translate, align, attribute, and calibrate two models of a language pair."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alignlens.alignment.extraction import extract
from alignlens.alignment.extractions import EXTRACTIONS
from alignlens.api.scores import BEGIN, END, Scores
from alignlens.attribution.corpus import attribute
from alignlens.attribution.registry import check_architectures, parse, parse_all
from alignlens.attribution.settings import AttributionSettings
from alignlens.decoding.given import Given
from alignlens.decoding.settings import BeamSettings
from alignlens.decoding.translate import TrainedModel, translate
from alignlens.errors import ConfigError
from alignlens.io.text import check_equal_counts, words
from alignlens.recipes.asked import Asked, Pieces
from alignlens.recipes.calibrate import Calibration, candidates_of
from alignlens.recipes.links import check_models, recipe_links
from alignlens.recipes.recipe import DEFAULT_THRESHOLD, AlignmentRecipe, Origin, Text, read_recipe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alignlens.api.scores import Matrix
    from alignlens.attribution.registry import Method

_TOKENS = AttributionSettings.batch_tokens


class Link(NamedTuple):
    """Words that belong together, counted from 0, and how sure that is."""

    source: int
    target: int
    score: float


def load(path: Path | str, weights: str = "weights") -> Model:
    """Returns the model of a folder: one that ``alignlens train`` wrote, or one of the hub (``name#en-fr``)."""
    return Model(TrainedModel.load(path, weights))


@dataclass(frozen=True)
class Model:
    """A translation model. Lines are tokenised text: words are what stands between spaces."""

    trained: TrainedModel

    def __repr__(self) -> str:
        return f"<alignlens model {self.trained.folder}: {self.trained.spec.architecture}>"

    def translate(self, lines: Sequence[str], beam: int = BeamSettings.beam) -> list[str]:
        """Returns the translation of every line."""
        read = self.trained.source_ids(_given("source", lines))
        begin = self.trained.spec.source_begin
        hypotheses = translate(self.trained.model, read, BeamSettings(beam=beam), source_begin=begin)
        return [self.trained.text(hypothesis.ids) for hypothesis in hypotheses]

    def attribute(self, source: Sequence[str], target: Sequence[str], method: str = "attention") -> list[Scores]:
        """Returns the scores of every sentence pair by a method, such as ``attention,layer=2,step=in``."""
        wanted = self._method(method)
        pieces = self._pieces(source, target)
        by_place: dict[int, Scores] = {}
        for place, matrices in self._attributed(pieces, wanted):
            read = self.trained.source.pieces_of(pieces.read[place])
            written = self.trained.target.pieces_of(pieces.explained[place])
            first = [BEGIN] if self.trained.spec.source_begin else []
            names = (*first, *read, END), (*written, END)
            by_place[place] = Scores(
                wanted.text, matrices, *names, tuple(words(source[place])), tuple(words(target[place]))
            )
        return [by_place[place] for place in range(len(source))]

    def align(
        self,
        source: Sequence[str],
        target: Sequence[str],
        method: str | None = None,
        *,
        extraction: str = EXTRACTIONS[0],
        reverse: Model | None = None,
        recipe: AlignmentRecipe | Path | str | None = None,
    ) -> list[list[Link]]:
        """Returns the links of every sentence pair: by a method, or by a recipe with the model of the other direction.

        ``extraction`` says how pieces become words with a method; ``docs/conventions.md`` has the procedures.
        """
        if (method is None) == (recipe is None):
            raise ConfigError("align: give a method or a recipe, not both.")
        if recipe is not None:
            return self._by_recipe(source, target, reverse, recipe)
        wanted = self._method(method or "")
        pieces = self._pieces(source, target)
        links_of: list[list[Link]] = [[] for _ in source]
        for place, matrix in self._attributed(pieces, wanted):
            owners = pieces.source_words[place], pieces.target_words[place]
            links = extract(matrix, *owners, extraction, begin=self.trained.spec.source_begin)
            links_of[place] = [Link(*link) for link in links]
        return links_of

    def _by_recipe(
        self,
        source: Sequence[str],
        target: Sequence[str],
        reverse: Model | None,
        recipe: AlignmentRecipe | Path | str,
    ) -> list[list[Link]]:
        name = "given" if isinstance(recipe, AlignmentRecipe) else str(recipe)
        chosen = recipe if isinstance(recipe, AlignmentRecipe) else read_recipe(recipe)
        if (chosen.reverse is None) != (reverse is None):
            wanted = "one model" if chosen.reverse is None else "two models; give the other one as reverse"
            raise ConfigError(f"align: this recipe is for {wanted}.")
        models = [Asked(each.trained, _TOKENS) for each in (self, reverse) if each is not None]
        check_models(chosen, models, name)
        given = _pair(source, target)
        forward = Pieces.of(self.trained, *given)
        pieces = [forward, *(forward.turned(each.trained, *given) for each in models[1:])]
        if not source:
            return []
        links = recipe_links(chosen, models, pieces)
        if links.scores is None:
            raise ValueError("links without scores")
        by_sentence = np.split(links.scores, links.offsets()[1:-1])
        return [
            [Link(*pair, float(score)) for pair, score in zip(pairs, scores, strict=True)]
            for pairs, scores in zip(links, by_sentence, strict=True)
        ]

    def _method(self, text: str) -> Method:
        wanted = parse(text)
        check_architectures([wanted], [self.trained.spec.architecture])
        return wanted

    def _pieces(self, source: Sequence[str], target: Sequence[str]) -> Pieces:
        return Pieces.of(self.trained, *_pair(source, target))

    def _attributed(self, pieces: Pieces, method: Method) -> Iterator[tuple[int, Matrix]]:
        begin = self.trained.spec.source_begin
        scores = attribute(self.trained.model, pieces.read, pieces.explained, [method], source_begin=begin)
        return ((place, matrices[method.text]) for place, matrices in scores)


def calibrate(
    model: Model,
    reverse: Model,
    source: Sequence[str],
    target: Sequence[str],
    methods: Sequence[str] = (),
    threshold: float = DEFAULT_THRESHOLD,
) -> AlignmentRecipe:
    """Returns the recipe whose components agree best between both directions, on lines that need no gold links.

    Candidates are all heads of attention, and the ``methods`` besides. Use it with ``Model.align``, or ``write`` it.
    """
    given = _pair(source, target)
    models = [Asked(each.trained, _TOKENS) for each in (model, reverse)]
    candidates = [candidates_of(each.trained, parse_all(list(methods))) for each in models]
    origin = Origin(_text("source", source), _text("target", target), len(source))
    return Calibration(models, *given).run(candidates, origin, None, (threshold,)).recipe


def _text(name: str, lines: Sequence[str]) -> Text:
    """Returns a name for lines that stand in no file, and the checksum that a file of them would have."""
    return Text(name, hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest())


def _pair(source: Sequence[str], target: Sequence[str]) -> tuple[Given, Given]:
    given = _given("source", source), _given("target", target)
    check_equal_counts(["source", "target"], [len(source), len(target)])
    return given


def _given(name: str, lines: Sequence[str]) -> Given:
    if isinstance(lines, str):
        raise ConfigError(f"{name}: expected a list of lines, not a single text. Write [{name}].")
    return Given(name, list(lines))
