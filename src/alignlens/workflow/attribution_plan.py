"""Attribution of trained models, as paths: the union of what studies and the configuration request.

Links are in the orientation of the dataset, those of free decoding in that of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from alignlens.attribution.registry import in_order, parse, plain, reads_masks, supported
from alignlens.models.settings import architecture_of, with_masks
from alignlens.results.paths import (
    ALIGNER_MODEL,
    DEV,
    FINAL,
    FORCED,
    FREE,
    FREE_GOLD,
    MASKS,
    METHOD_COST,
    METHOD_LINKS,
    METHOD_METRICS,
    SPLITS,
    TEST,
    TEXT,
)
from alignlens.results.protocol import BIDIR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alignlens.models.settings import TransformerSettings
    from alignlens.workflow.plan import Plan
    from alignlens.workflow.settings import ModelRun

ONLINE_ALIGNER = "fast_align"


class Attribution(NamedTuple):
    """All directions of one trained model and seed, on one text."""

    dataset: str
    model: str
    seed: int
    weights: str
    split: str
    decoding: str


class LinksFolder(NamedTuple):
    """One folder of links and the gold links that score it."""

    direction: str
    links: str
    gold: str

    def __str__(self) -> str:
        return "=".join(self)


@dataclass(frozen=True)
class AttributionPlan:
    """The attributions, as paths below the project's root."""

    plan: Plan

    def methods(self, run: Attribution) -> list[str]:
        """Returns the methods to run on a model, canonical, each once; empty if there are none."""
        return self._asked.get(run, [])

    @cached_property
    def _asked(self) -> dict[Attribution, list[str]]:
        """What every model is asked with: what studies need, and what the configuration compares and names."""
        methods_of: dict[Attribution, list[str]] = {}
        for study in self.plan.requested.of:
            for run, methods in self._of_study(study):
                methods_of.setdefault(run, []).extend(methods)
        for run, others in self._of_configuration():
            methods_of.setdefault(run, []).extend(others)
        datasets = [dataset.name for dataset in self.plan.settings.datasets]
        models = [model.name for model in self.plan.requested.models]
        occasions = list(dict.fromkeys((run.split, run.decoding) for run in methods_of))

        def place(run: Attribution) -> tuple[object, ...]:
            occasion = occasions.index((run.split, run.decoding))
            return datasets.index(run.dataset), models.index(run.model), run.seed, run.weights, occasion

        return {run: list(dict.fromkeys(methods_of[run])) for run in sorted(methods_of, key=place) if methods_of[run]}

    def _of_study(self, study: str) -> Iterator[tuple[Attribution, tuple[str, ...]]]:
        for asked in self.plan.requested.of[study].attributions:
            seeds = self.plan.planned(asked.model).seeds if asked.seeds is None else asked.seeds
            for seed in seeds:
                run = Attribution(asked.dataset, asked.model, seed, asked.weights, asked.split, asked.decoding)
                yield run, asked.methods

    def _of_configuration(self) -> Iterator[tuple[Attribution, list[str]]]:
        """Yields, of what works with a model, all plain methods if a study compares any, and those that are named."""
        settings = self.plan.settings
        for dataset in settings.datasets:
            studied = settings.studies and self.plan.has_gold(dataset.name)
            for model in settings.models:
                for seed in self.plan.planned(model.name).seeds:
                    for decoding in settings.attribution.decodings:
                        compared = self._plain() if studied and decoding == FORCED else []
                        methods = supported([*compared, *settings.attribution.methods], model.architecture)
                        yield Attribution(dataset.name, model.name, seed, FINAL, TEST, decoding), methods

    def compared(self, dataset: str, model: str) -> list[str]:
        """Returns the rows of the table that compares methods across studies, in the order of the registry.

        Of all that a model is asked with, these are the plain methods, each once, and those that the configuration
        names; layers, heads and other variants of a study are not.
        """
        rows = {*self._plain(), *self.plan.settings.attribution.methods}
        run = Attribution(dataset, model, self.plan.settings.seeds[0], FINAL, TEST, FORCED)
        return in_order(method for method in self.methods(run) if method in rows)

    def _plain(self) -> list[str]:
        """Returns every method of the registry with the noise of the tables, but for those that are left out."""
        protocol, left_out = self.plan.protocol, self.plan.settings.attribution.leave_out
        return [text for text in plain(protocol.sigma, protocol.samples) if parse(text).name not in left_out]

    def asked_by(self, study: str) -> list[Attribution]:
        """Returns the runs that a study asks for methods."""
        return list(dict.fromkeys(run for run, methods in self._of_study(study) if methods))

    def studies_of(self, run: Attribution) -> list[str]:
        """Returns the studies that request a run."""
        return [study for study in self.plan.requested.of if run in self.asked_by(study)]

    def runs(self) -> list[Attribution]:
        """Returns every model that is asked with any method, on every text."""
        return list(self._asked)

    def is_scored(self, run: Attribution) -> bool:
        """Returns whether there are gold links for its text."""
        return {TEST: self.plan.has_gold, DEV: self.plan.has_dev_gold}.get(run.split, lambda name: False)(run.dataset)

    def directions(self, run: Attribution) -> list[str]:
        """Returns the names of the folders of links: directions, and their combination where there is one.

        A model's own translations differ by direction, so that there is nothing to combine.
        """
        directions = self.plan.trained_directions(run.dataset, run.model)
        combined = run.decoding == FORCED and run.split != DEV and len(directions) > 1
        return [*directions, BIDIR] if combined else list(directions)

    def masks(self, run: Attribution, direction: str) -> list[str]:
        """Returns the folder of mask nets that a run reads: one if a method wants masks and the model has none."""
        return self._masks(run, direction) if reads_masks(self.methods(run)) else []

    def compared_masks(self, dataset: str, direction: str, model: str, seed: str) -> list[str]:
        """Returns the folder of mask nets that timing the compared methods of a model reads."""
        run = Attribution(dataset, model, int(seed), FINAL, TEST, FORCED)
        return self._masks(run, direction) if reads_masks(self.compared(dataset, model)) else []

    def _masks(self, run: Attribution, direction: str) -> list[str]:
        if architecture_of(self.plan.model(run.model).architecture).has_masks:
            return []
        return [self.plan.path(MASKS, direction=direction, **run._asdict())]

    def mask_run(self, model: str) -> ModelRun:
        """Returns how the mask nets of a model are trained."""
        run, settings = self.plan.model(model), self.plan.settings.attribution.masks
        calibrated = with_masks(cast("TransformerSettings", run.model), settings.mask_input)
        return replace(run, architecture="calibrated", model=calibrated, training=settings.trained())

    def mask_runs(self) -> list[tuple[Attribution, str]]:
        """Returns the models and directions that mask nets are trained for, each once."""
        folders = {
            masks[0]: (run, direction)
            for run in self.runs()
            for direction in self.plan.trained_directions(run.dataset, run.model)
            if (masks := self.masks(run, direction))
        }
        return list(folders.values())

    def cells(self, run: Attribution) -> list[LinksFolder]:
        """Returns the folders of links of a run, with what each is scored against."""
        return [
            LinksFolder(name, self.plan.path(METHOD_LINKS, direction=name, **run._asdict()), self._gold(run, name))
            for name in self.directions(run)
        ]

    def _gold(self, run: Attribution, direction: str) -> str:
        if run.decoding == FREE:
            return self.plan.path(FREE_GOLD, direction=direction, **run._asdict())
        return self.plan.path(TEXT, side="gold", **run._asdict())

    def is_turned(self, dataset: str, decoding: str, direction: str, **others: str) -> bool:
        """Returns whether links of a direction are turned round when written: the forced ones of the reverse model."""
        return decoding != FREE and self.plan.is_reverse(dataset, direction)

    def links(self) -> list[str]:
        """Returns the folders of links of all runs; what a study has selected is for its matrices."""
        return [cell.links for run in self.runs() if run.split in SPLITS for cell in self.cells(run)]

    def metrics(self) -> list[str]:
        """Returns the score files of all runs on text with gold links."""
        return [self.plan.path(METHOD_METRICS, **run._asdict()) for run in self.runs() if self.is_scored(run)]

    def shared_metrics(self) -> list[str]:
        """Returns those of models of the configuration: a model that a study asks for is for that study alone."""
        shared = {model.name for model in self.plan.settings.models}
        scored = (run for run in self.runs() if run.model in shared and self.is_scored(run))
        return [self.plan.path(METHOD_METRICS, **run._asdict()) for run in scored]

    def timed(self) -> list[Attribution]:
        """Returns the runs whose methods are timed by themselves: scored forced ones of the first seed of a model."""
        models, seed = {run.name for run in self.plan.settings.models}, self.plan.settings.seeds[:1]
        return [
            run
            for run in self.runs()
            if run.model in models
            and (run.seed,) == seed
            and (run.weights, run.split, run.decoding) == (FINAL, TEST, FORCED)
            and self.is_scored(run)
        ]

    def costs(self) -> list[str]:
        """Returns where the cost of compared methods goes."""
        return [
            self.plan.path(METHOD_COST, direction=direction, **run._asdict())
            for run in self.timed()
            for direction in self.plan.trained_directions(run.dataset, run.model)
        ]

    def aligner(self, dataset: str, direction: str, place: int) -> str:
        """Returns the stored aligner that explains the translation (``place`` 0) or the source (1) of a model."""
        directions = self.plan.directions(dataset)
        name = directions[place if direction == directions[0] else 1 - place]
        trained = {"aligner": ONLINE_ALIGNER, "text": "online", "size": self.aligner_size()}
        return self.plan.path(ALIGNER_MODEL, dataset=dataset, direction=name, **trained)

    def aligner_size(self) -> str:
        """Returns the size of that aligner: the one of the configuration that saw most text, or all for this alone."""
        runs = (run for run in self.plan.settings.aligners if (run.name, run.text) == (ONLINE_ALIGNER, "online"))
        sizes = sorted((run.max_pairs is None, run.max_pairs or 0, run.size) for run in runs)
        return sizes[-1][-1] if sizes else "all"

    def targets(self) -> list[str]:
        """Returns the final files of attributions."""
        return [*self.links(), *self.metrics(), *self.costs()]

    def summary(self) -> list[dict[str, Any]]:
        """Returns what is attributed, for people and for ``--json``: one entry per dataset, model and text."""
        settings = self.plan.settings
        seeds: dict[Attribution, list[int]] = {}
        for run in self.runs():
            seeds.setdefault(run._replace(seed=0), []).append(run.seed)
        return [
            {
                **{key: value for key, value in run._asdict().items() if key != "seed"},
                "directions": list(self.plan.trained_directions(run.dataset, run.model)),
                "seeds": seeds_of_run,
                "shards": settings.attribution.shards,
                "extractions": list(settings.attribution.extractions),
                "methods": self.methods(run._replace(seed=seeds_of_run[0])),
            }
            for run, seeds_of_run in seeds.items()
        ]
