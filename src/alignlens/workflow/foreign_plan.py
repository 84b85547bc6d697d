"""Files made for models from elsewhere: imported model folders, and texts in their own pieces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from alignlens.models.foreign import folder_of
from alignlens.results.paths import DEV, MODEL_ENCODER, OWN_PIECES, OWN_TOKENS, PIECES, TEST, TOKENS, TRAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alignlens.results.paths import PathPattern
    from alignlens.workflow.plan import Plan

_PLACES = (0, 1)
_OWN = {PIECES: OWN_PIECES, TOKENS: OWN_TOKENS}


class OwnText(NamedTuple):
    """One side of a text in the pieces of one model."""

    dataset: str
    direction: str
    model: str
    seed: int
    split: str
    side: str


@dataclass(frozen=True)
class ForeignPlan:
    """The models of a configuration that are imported, as paths below the project's root."""

    plan: Plan

    def names(self) -> list[str]:
        """Returns their names."""
        return [model.name for model in self.plan.requested.models if model.settings.imported is not None]

    def name(self, direction: str, model: str, **others: str) -> str:
        """Returns the name of what a model comes from, for ``--model``."""
        imported = self.plan.model(model).imported
        assert imported is not None
        return imported.names[direction]

    def folder(self, direction: str, model: str, **others: str) -> str:
        """Returns the folder that a model comes from."""
        return folder_of(self.name(direction, model))

    def pattern(self, pattern: PathPattern, model: str) -> PathPattern:
        """Returns where a kind of text is for a model: in its own pieces, or in those of its dataset."""
        return _OWN.get(pattern, pattern) if model in self.names() else pattern

    def texts(self) -> list[OwnText]:
        """Returns all texts that are segmented for them, each once."""
        return list(dict.fromkeys(text for text in self._wanted() if text.model in self.names()))

    def _wanted(self) -> Iterator[OwnText]:
        """Yields what every model reads: the test text, and what masks, encoders and studies need."""
        plan = self.plan
        for dataset, direction, model, seed in plan.model_runs():
            yield from self._sides(dataset.name, direction, model.name, seed, TEST)
        for run in plan.attribution.runs():
            for direction in plan.trained_directions(run.dataset, run.model):
                yield from self._sides(run.dataset, direction, run.model, run.seed, run.split)
        for run, direction in plan.attribution.mask_runs():
            for split in (TRAIN, DEV):
                yield from self._sides(run.dataset, direction, run.model, run.seed, split)
        for asked in (*plan.learning.trajectories, *plan.calibration.calibrations):
            yield from self._sides(*asked)
        for folder in plan.studies.encoder_statistics() if plan.studies.active() else ():
            names = MODEL_ENCODER.names(Path(folder).relative_to(plan.root).as_posix())
            if names is not None:
                seed = int(names.pop("seed"))
                yield from self._sides(**names, seed=seed, split=TRAIN, places=_PLACES[:1])

    def _sides(
        self, dataset: str, direction: str, model: str, seed: int, split: str, places: tuple[int, ...] = _PLACES
    ) -> Iterator[OwnText]:
        for place in places:
            yield OwnText(dataset, direction, model, seed, split, self.plan.side(dataset, direction, place))
