"""What attention and masks of models say of texts, and how models translate against a baseline, as paths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from alignlens.results.paths import (
    BLEU,
    CALIBRATION,
    CALIBRATION_SENTENCES,
    COMPARISON,
    PREPARED,
    SPLITS,
    TEST,
    TEXT,
    TRAINED,
    TRANSLATION,
)
from alignlens.studies.requests import common_seeds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alignlens.results.paths import PathPattern
    from alignlens.studies.requests import CalibrationRequest, ComparisonRequest
    from alignlens.workflow.plan import Plan


class CalibratedText(NamedTuple):
    """One training of a model, and a text that it is given."""

    dataset: str
    direction: str
    model: str
    seed: int
    split: str


class ComparedModels(NamedTuple):
    """Models that translate in one direction, by the name of their comparison."""

    dataset: str
    direction: str
    comparison: str


@dataclass(frozen=True)
class CalibrationPlan:
    """Everything of that kind that studies ask for, equal requests once."""

    plan: Plan

    @cached_property
    def calibrations(self) -> list[CalibratedText]:
        """The models that are measured, and the texts."""
        asked = (one for requests in self.plan.requested.of.values() for one in requests.calibrations)
        return list(dict.fromkeys(text for one in asked for text in self._texts(one)))

    def _texts(self, asked: CalibrationRequest) -> list[CalibratedText]:
        seeds = self.plan.planned(asked.model).seeds if asked.seeds is None else asked.seeds
        return [
            CalibratedText(asked.dataset, direction, asked.model, seed, asked.split)
            for direction in self.plan.trained_directions(asked.dataset, asked.model)
            for seed in seeds
        ]

    @cached_property
    def comparisons(self) -> dict[ComparedModels, ComparisonRequest]:
        """What is compared, in every direction."""
        asked = (one for requests in self.plan.requested.of.values() for one in requests.comparisons)
        return {compared: one for one in asked for compared in self._directions(one)}

    def _directions(self, asked: ComparisonRequest) -> list[ComparedModels]:
        """Returns the directions that all models of a comparison are trained in."""
        return [
            ComparedModels(asked.dataset, direction, asked.name)
            for direction in self.plan.directions(asked.dataset)
            if all(direction in self.plan.trained_directions(asked.dataset, model) for model in asked.systems())
        ]

    def translations(self, compared: ComparedModels) -> dict[str, list[str]]:
        """Returns the translations of the models of a comparison, by seed, the baseline last."""
        return self._of_systems(compared, TRANSLATION)

    def _of_systems(self, compared: ComparedModels, pattern: PathPattern) -> dict[str, list[str]]:
        baseline, *others = self.comparisons[compared].systems()
        seeds = common_seeds(self.plan.planned(model).seeds for model in (baseline, *others))
        names = {"dataset": compared.dataset, "direction": compared.direction}
        return {
            model: [self.plan.path(pattern, model=model, seed=seed, **names) for seed in seeds]
            for model in (*others, baseline)
        }

    def selections(self) -> list[tuple[str, str]]:
        """Returns the texts besides train, dev and test that are measured: dataset and name."""
        return list(dict.fromkeys((run.dataset, run.split) for run in self.calibrations if run.split not in SPLITS))

    def of_study(self, name: str) -> list[str]:
        """Returns what a study reads of all this."""
        return list(dict.fromkeys(self._of_study(name)))

    def _of_study(self, name: str) -> Iterator[str]:
        asked, path = self.plan.requested.of[name], self.plan.path
        for text in (text for one in asked.calibrations for text in self._texts(one)):
            for pattern in (CALIBRATION, CALIBRATION_SENTENCES):
                yield path(pattern, **text._asdict())
        for compared in (each for one in asked.comparisons for each in self._directions(one)):
            yield path(COMPARISON, **compared._asdict())
            # Claims draw sentences of several translations again; models say what they are made of.
            for pattern in (BLEU, TRANSLATION, TRAINED):
                for files in self._of_systems(compared, pattern).values():
                    yield from files
            for side in ("source", "target"):
                yield path(TEXT, dataset=compared.dataset, split=TEST, side=side)
        datasets = (*(one.dataset for one in asked.calibrations), *(one.dataset for one in asked.comparisons))
        yield from (path(PREPARED, dataset=dataset) for dataset in datasets)

    def compared(self) -> list[str]:
        """Returns the files of all comparisons."""
        active = {name: self.plan.requested.of[name] for name in self.plan.studies.active()}
        asked = (one for requests in active.values() for one in requests.comparisons)
        paths = (self.plan.path(COMPARISON, **each._asdict()) for one in asked for each in self._directions(one))
        return list(dict.fromkeys(paths))

    def targets(self) -> list[str]:
        """Returns the final files of all studies."""
        read = (file for name in self.plan.studies.active() for file in self.of_study(name))
        return list(dict.fromkeys(read))
