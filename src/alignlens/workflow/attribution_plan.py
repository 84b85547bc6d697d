"""The part of the path grammar that attributions add to ``results/<preset>/``.

    attributions/{dataset}/{model}/{seed}/{decoding}/{direction}/scores/   one matrix per method and sentence
    attributions/{dataset}/{model}/{seed}/{decoding}/{direction}/links/    {method}.{extraction}.pharaoh, entropy.json
    attributions/{dataset}/{model}/{seed}/forced/{direction}/cost.json     what methods cost by themselves; first seed
    attributions/{dataset}/{model}/{seed}/forced/bidir/links/              {method}.{extraction}.{combination}.pharaoh
    attributions/{dataset}/{model}/{seed}/{decoding}/metrics.json          all of that model; sentences.npz: by sentence
    free/{dataset}/{direction}/{model}/{seed}/                             what translations are scored against

A decoding is ``forced`` (the reference), ``free`` (the model's own translation) or ``dev``: the reference of the dev
text, where a study chooses a layer. Links are in the orientation of the dataset, free ones in that of the model.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from alignlens.attribution.registry import in_order, plain, supported
from alignlens.studies.contract import AskedModel
from alignlens.studies.protocol import DEV, FORCED, FREE, Protocol
from alignlens.studies.registry import study_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from alignlens.workflow.plan import Plan

ONLINE_ALIGNER = "fast_align"
SYMMETRISED = "bidir"


class Attribution(NamedTuple):
    """All directions of one trained model and seed, with the reference (forced) or its own translation (free)."""

    dataset: str
    model: str
    seed: int
    decoding: str


class Cell(NamedTuple):
    """One folder of links and the gold links that score it."""

    direction: str
    links: str
    gold: str

    def __str__(self) -> str:
        return "=".join(self)


@dataclass(frozen=True)
class AttributionPlan:
    """What is attributed, as paths below the project's root."""

    plan: Plan

    def methods(self, dataset: str, model: str, decoding: str) -> list[str]:
        """Returns the methods that a model is asked with, canonical, each once.

        Those are what studies need and, of those that work with the model, all plain ones to compare them and what the
        configuration names.
        """
        settings = self.plan.settings
        studies = settings.studies if self.plan.has_gold(dataset) else ()
        wanted = [method for study in studies for method in self._of_study(study, dataset, model, decoding)]
        compared = self._plain() if studies and decoding == FORCED else []
        named = settings.attribution.methods if decoding != DEV else ()
        others = supported([*compared, *named], self.plan.model(model).architecture)
        return list(dict.fromkeys([*wanted, *others]))

    def compared(self, dataset: str, model: str) -> list[str]:
        """Returns the rows of the table that compares methods across studies, in the order of the registry.

        Of all that a model is asked with, these are the plain methods, each once, and those that the configuration
        names; layers, heads and other variants of a study are not.
        """
        rows = {*self._plain(), *self.plan.settings.attribution.methods}
        return in_order(method for method in self.methods(dataset, model, FORCED) if method in rows)

    def _plain(self) -> list[str]:
        """Returns every method of the registry with the noise of the tables."""
        return plain(self.protocol.sigma, self.protocol.samples)

    def _of_study(self, study: str, dataset: str, model: str, decoding: str) -> Sequence[str]:
        asks = study_of(study)
        if decoding == DEV and not (asks.chooses_on_dev and self.plan.has_dev_gold(dataset)):
            return ()
        run = self.plan.model(model)
        asked = AskedModel(run.architecture, asdict(run.model))
        return asks.methods(asked, self.plan.settings.studies[study], self.protocol, decoding)

    @property
    def protocol(self) -> Protocol:
        """The noise of the tables."""
        attribution = self.plan.settings.attribution
        return Protocol(float(attribution.sigma), attribution.samples)

    def asked_by(self, study: str) -> list[Attribution]:
        """Returns the runs on datasets with gold links that a study asks for methods."""
        return [
            run
            for run in self.runs()
            if self.plan.has_gold(run.dataset) and self._of_study(study, run.dataset, run.model, run.decoding)
        ]

    def runs(self) -> Iterator[Attribution]:
        """Yields every model and seed of a dataset that is asked with any method, for each decoding."""
        settings = self.plan.settings
        return (
            Attribution(dataset.name, run.name, seed, decoding)
            for dataset in settings.datasets
            for run in settings.models
            for seed in settings.seeds
            for decoding in (*settings.attribution.decodings, DEV)
            if self.methods(dataset.name, run.name, decoding)
        )

    def folder(self, run: Attribution) -> Path:
        """Returns the folder of a run."""
        return self.plan.root / "attributions" / run.dataset / run.model / str(run.seed) / run.decoding

    def directions(self, run: Attribution) -> list[str]:
        """Returns the names of the folders of links: directions, and their combination where there is one.

        A model's own translations differ by direction, so that there is nothing to combine.
        """
        directions = self.plan.trained_directions(run.dataset)
        combined = run.decoding == FORCED and len(directions) > 1
        return [*directions, SYMMETRISED] if combined else list(directions)

    def cells(self, dataset: str, model: str, seed: int | str, decoding: str) -> list[Cell]:
        """Returns the folders of links of a run, with what each is scored against."""
        run = Attribution(dataset, model, int(seed), decoding)
        return [
            Cell(name, str(self.folder(run) / name / "links"), self._gold(run, name)) for name in self.directions(run)
        ]

    def _gold(self, run: Attribution, direction: str) -> str:
        if run.decoding != FREE:
            return str(self.plan.root / "data" / run.dataset / f"{self.split(run.decoding)}.gold")
        return str(self.plan.root / "free" / run.dataset / direction / run.model / str(run.seed) / "reference.gold")

    def split(self, decoding: str) -> str:
        """Returns the split of a dataset that is attributed."""
        return "dev" if decoding == DEV else "test"

    def is_turned(self, dataset: str, decoding: str, direction: str, **others: str) -> bool:
        """Returns whether links of a direction are turned round when written: the forced ones of the reverse model."""
        return decoding != FREE and self.plan.is_reverse(dataset, direction)

    def links(self) -> list[str]:
        """Returns the folders of links of all runs."""
        return [cell.links for run in self.runs() for cell in self.cells(*run)]

    def metrics(self) -> list[str]:
        """Returns the score files of all runs on datasets with gold links."""
        return [self.scores(run) for run in self.runs() if self.plan.has_gold(run.dataset)]

    def scores(self, run: Attribution) -> str:
        """Returns the score file of a run."""
        return str(self.folder(run) / "metrics.json")

    def costs(self) -> list[str]:
        """Returns where the cost of compared methods goes: of scored forced runs, the first seed of every model."""
        return [
            str(self.folder(run) / direction / "cost.json")
            for run in self.runs()
            if run.decoding == FORCED and run.seed == self.plan.settings.seeds[0] and self.plan.has_gold(run.dataset)
            for direction in self.plan.trained_directions(run.dataset)
        ]

    def aligner(self, dataset: str, direction: str, place: int) -> str:
        """Returns the stored aligner that explains the translation (``place`` 0) or the source (1) of a model."""
        directions = self.plan.directions(dataset)
        name = directions[place if direction == directions[0] else 1 - place]
        folder = self.plan.root / "aligners" / dataset / ONLINE_ALIGNER / "online" / self.aligner_size()
        return str(folder / name / "model")

    def aligner_size(self) -> str:
        """Returns the size of that aligner: the one of the configuration that saw most text, or all for this alone."""
        runs = (run for run in self.plan.settings.aligners if (run.name, run.text) == (ONLINE_ALIGNER, "online"))
        sizes = sorted((run.max_pairs is None, run.max_pairs or 0, run.size) for run in runs)
        return sizes[-1][-1] if sizes else "all"

    def scored_datasets(self) -> list[str]:
        """Returns the datasets that a study can say something about."""
        settings = self.plan.settings
        return [dataset.name for dataset in settings.datasets if settings.models and self.plan.has_gold(dataset.name)]

    def targets(self) -> list[str]:
        """Returns the final files of attributions."""
        return [*self.links(), *self.metrics(), *self.costs()]

    def summary(self) -> list[dict[str, Any]]:
        """Returns what is attributed, for people and for ``--json``: one entry per dataset, model and decoding."""
        settings = self.plan.settings
        runs = dict.fromkeys(run._replace(seed=0) for run in self.runs())
        return [
            {
                "dataset": run.dataset,
                "model": run.model,
                "decoding": run.decoding,
                "directions": list(self.plan.trained_directions(run.dataset)),
                "seeds": list(settings.seeds),
                "shards": settings.attribution.shards,
                "extractions": list(settings.attribution.extractions),
                "methods": self.methods(run.dataset, run.model, run.decoding),
            }
            for run in runs
        ]
