"""From settings to runs to paths: the path grammar of ``results/<preset>/``, and nothing else knows it.

    data/{dataset}/{split}.{side}                                  prepared text, gold, causes
    subwords/{dataset}/                                            BPE models
    pieces/{dataset}/{split}.{side}                                segmented text
    tokens/{dataset}/{split}.{side}/                               the same as numbers, for training
    models/{dataset}/{direction}/{model}/{seed}/model/             trained translation models
    translations/{dataset}/{direction}/{model}/{seed}/test.txt     with bleu.json; forced.json scores the reference
    aligners/{dataset}/{aligner}/{text}/{size}/{direction}/model/  stored aligners
    links/{dataset}/{aligner}/{text}/{size}/{links}.pharaoh        links: a direction or a symmetrisation
    scores/{dataset}/{aligner}/{text}/{size}/metrics.json          with sentences.npz: counts of every sentence
    attributions/, free/                                           see ``workflow.attribution_plan``
    encoders/, {study}/                                            see ``workflow.study_plan``
    report.html, report/                                           the page; its tables and figures

Every file has its log and its journal beside it (``.log``, ``.journal.jsonl``), and its runtime under benchmarks/.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.aligners.registry import spec_of
from alignlens.io.typed import written
from alignlens.workflow.attribution_plan import AttributionPlan
from alignlens.workflow.study_plan import StudyPlan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from alignlens.aligners.settings import AlignerRun
    from alignlens.corpora.registry import Dataset
    from alignlens.workflow.settings import ModelRun, Settings

SPLITS = ("train", "dev", "test")
SIDES = ("source", "target")
TRANSLATED = ("test.txt", "bleu.json", "forced.json")


@dataclass(frozen=True)
class Plan:
    """Everything a configuration runs, as paths below the project's root."""

    settings: Settings
    root: Path

    @classmethod
    def of(cls, settings: Settings, results: Path | str = "results") -> Plan:
        """Returns the plan of a configuration."""
        return cls(settings, Path(results) / settings.preset)

    def dataset(self, name: str) -> Dataset:
        """Returns a dataset of this configuration."""
        return next(dataset for dataset in self.settings.datasets if dataset.name == name)

    def directions(self, dataset: str) -> tuple[str, str]:
        """Returns the names of the two directions, the dataset's own first: ``de-en``, ``en-de``."""
        source, target = self.dataset(dataset).pair
        return f"{source}-{target}", f"{target}-{source}"

    def is_reverse(self, dataset: str, direction: str) -> bool:
        """Returns whether a direction translates from the dataset's target side."""
        return direction == self.directions(dataset)[1]

    def side(self, dataset: str, direction: str, place: int) -> str:
        """Returns the side of the dataset that a model of a direction reads (``place`` 0) or writes (1)."""
        return SIDES[1 - place if self.is_reverse(dataset, direction) else place]

    def has_gold(self, dataset: str) -> bool:
        """Returns whether links of the test text can be scored."""
        entry = self.dataset(dataset)
        return entry.kind == "synthetic" or entry.gold is not None

    def has_dev_gold(self, dataset: str) -> bool:
        """Returns whether links of the dev text can be scored, too."""
        entry = self.dataset(dataset)
        return self.has_gold(dataset) and (entry.kind == "synthetic" or entry.dev_gold is not None)

    def choice(self, files: str) -> str:
        """Returns a pattern of the datasets that have causes (``synthetic``), gold links, or text only.

        ``dev_gold`` are gold links of test and dev text, ``gold`` of the test text alone.
        """
        names = [dataset.name for dataset in self.settings.datasets if self.files_of(dataset) == files]
        return "|".join(names) or "(?!)"

    def files_of(self, dataset: Dataset) -> str:
        """Returns which files preparation makes of a dataset: one of the words that ``choice`` takes."""
        if dataset.kind == "synthetic":
            return "synthetic"
        if self.has_dev_gold(dataset.name):
            return "dev_gold"
        return "gold" if self.has_gold(dataset.name) else "text"

    def definition(self, dataset: str) -> Mapping[str, Any]:
        """Returns a dataset as it is declared, so that a changed declaration prepares it again."""
        return self.dataset(dataset).declared

    def prepared(self) -> list[str]:
        """Returns what says that a dataset is there, for every one: with these, no step needs a network."""
        return [str(self.root / "data" / dataset.name / "preparation.json") for dataset in self.settings.datasets]

    def pieces(self) -> list[str]:
        """Returns all segmented text."""
        return [
            str(self.root / "pieces" / dataset.name / f"{split}.{side}")
            for dataset in self.settings.datasets
            for split in SPLITS
            for side in SIDES
        ]

    def model(self, name: str) -> ModelRun:
        """Returns a model of this configuration."""
        return next(run for run in self.settings.models if run.name == name)

    def trained_directions(self, dataset: str) -> tuple[str, ...]:
        """Returns the directions that models are trained in."""
        return self.directions(dataset)[: 2 if self.settings.directions == "both" else 1]

    def model_runs(self) -> Iterator[tuple[Dataset, str, ModelRun, int]]:
        """Yields every dataset, direction, model and seed that is trained."""
        return (
            (dataset, direction, run, seed)
            for dataset in self.settings.datasets
            for direction in self.trained_directions(dataset.name)
            for run in self.settings.models
            for seed in self.settings.seeds
        )

    def models(self) -> list[str]:
        """Returns the folders of all trained models."""
        return [
            str(self.root / "models" / dataset.name / direction / run.name / str(seed) / "model")
            for dataset, direction, run, seed in self.model_runs()
        ]

    def translations(self) -> list[str]:
        """Returns the translations of the test text by every model, and what they and the reference score."""
        return [
            str(self.root / "translations" / dataset.name / direction / run.name / str(seed) / name)
            for dataset, direction, run, seed in self.model_runs()
            for name in TRANSLATED
        ]

    @property
    def attribution(self) -> AttributionPlan:
        """Returns the part of the plan that asks models what they looked at."""
        return AttributionPlan(self)

    @property
    def studies(self) -> StudyPlan:
        """Returns the part of the plan that ends in the tables of papers."""
        return StudyPlan(self)

    def run_folder(self, kind: str, dataset: str, run: AlignerRun) -> Path:
        """Returns the folder of an aligner run under ``aligners``, ``links`` or ``scores``."""
        return self.root / kind / dataset / run.name / run.text / run.size

    def aligner_runs(self) -> Iterator[tuple[Dataset, AlignerRun]]:
        """Yields every aligner run of every dataset."""
        return ((dataset, run) for dataset in self.settings.datasets for run in self.settings.aligners)

    def links_of(self, dataset: str) -> tuple[str, ...]:
        """Returns the names of the links of an aligner run: both directions, then every symmetrisation."""
        return (*self.directions(dataset), *self.settings.symmetrizations)

    def links(self) -> list[str]:
        """Returns all links: both directions and every symmetrisation of every aligner run."""
        return [
            str(self.run_folder("links", dataset.name, run) / f"{name}.pharaoh")
            for dataset, run in self.aligner_runs()
            for name in self.links_of(dataset.name)
        ]

    def metrics(self) -> list[str]:
        """Returns the score files of every aligner run on a dataset with gold links."""
        return [
            str(self.run_folder("scores", dataset.name, run) / "metrics.json")
            for dataset, run in self.aligner_runs()
            if self.has_gold(dataset.name)
        ]

    def parent_model(self, dataset: str, aligner: str, text: str, size: str, direction: str) -> list[str]:
        """Returns the stored model that an aligner starts from: none or one."""
        parent = spec_of(aligner).parent
        if parent is None:
            return []
        return [str(self.root / "aligners" / dataset / parent / text / size / direction / "model")]

    def report(self) -> list[str]:
        """Returns the files of the report."""
        names = ["aer.csv", "aer.md", "aer.tex", "aer.html", "runtime.csv", "runtime.md"]
        tables = (str(self.root / "report" / name) for name in names)
        figures = [*self.curves(), *self.heatmaps()]
        return [str(self.root / "report.html"), *tables, *self.model_tables(), *self.method_tables(), *figures]

    def model_tables(self) -> list[str]:
        """Returns the tables of trained models; none where none are trained."""
        names = [f"models.{kind}" for kind in ("html", "csv", "md", "tex")] if self.settings.models else []
        return [str(self.root / "report" / name) for name in names]

    def method_tables(self) -> list[str]:
        """Returns the tables that compare methods; none where no model was given the reference of scored text."""
        names = [f"methods.{kind}" for kind in ("html", "csv", "md", "tex")] if self.attribution.costs() else []
        return [str(self.root / "report" / name) for name in names]

    def curves(self) -> list[str]:
        """Returns the learning curves of every dataset that models are trained on."""
        return [
            str(self.root / "report" / f"curves-{dataset.name}.{kind}")
            for dataset in self.settings.datasets
            if self.settings.models
            for kind in ("svg", "png")
        ]

    def heatmaps(self) -> list[str]:
        """Returns the alignment heatmaps of every dataset with gold links."""
        return [
            str(self.root / "report" / f"heatmap-{dataset.name}.{kind}")
            for dataset in self.settings.datasets
            if self.has_gold(dataset.name)
            for kind in ("svg", "png")
        ]

    def targets(self) -> list[str]:
        """Returns the final files of the whole configuration."""
        models = [*self.models(), *self.translations()]
        links = [*self.links(), *self.metrics(), *self.attribution.targets(), *self.studies.targets()]
        return [*self.pieces(), *models, *links, *self.report()]

    def preparation_settings(self) -> dict[str, Any]:
        """Returns what ``alignlens data prepare`` needs to know of the configuration."""
        return {"cleaning": written(self.settings.cleaning), "max_train_pairs": self.settings.max_train_pairs}

    def summary(self) -> dict[str, Any]:
        """Returns what will run, for people and for ``--json``."""
        return {
            "preset": self.settings.preset,
            "results": str(self.root),
            "datasets": [
                {
                    "name": dataset.name,
                    "pair": list(dataset.pair),
                    "kind": dataset.kind,
                    "gold": self.has_gold(dataset.name),
                }
                for dataset in self.settings.datasets
            ],
            "subwords": written(self.settings.subwords),
            "models": [
                {
                    "name": run.name,
                    "preset": run.preset,
                    "architecture": run.architecture,
                    "directions": self.settings.directions,
                    "seeds": list(self.settings.seeds),
                }
                for run in self.settings.models
            ],
            "aligners": [{"name": run.name, "text": run.text, "size": run.size} for run in self.settings.aligners],
            "symmetrizations": list(self.settings.symmetrizations),
            "attributions": self.attribution.summary(),
            "encoders": self.studies.encoder_statistics(),
            "studies": [name for name in self.settings.studies if self.studies.files(name)],
            "targets": self.targets(),
            "missing": [target for target in self.targets() if not Path(target).exists()],
        }
