"""How models learn to attend, as paths: trajectories, classifiers, their agreement, toys and counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from alignlens.classification.settings import QUANTITIES
from alignlens.results.paths import (
    AGREEMENT,
    AGREEMENT_SENTENCES,
    CLASSES,
    CLASSES_PREPARED,
    CLASSIFIER,
    COUNTS,
    DEV,
    EXPLAINED,
    LOGISTIC,
    PIECES,
    SPLITS,
    SUBWORDS,
    TOY,
    TRAIN,
    TRAJECTORY,
)
from alignlens.studies.requests import TrainedRun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alignlens.results.paths import PathPattern
    from alignlens.studies.requests import AgreementRequest, ClassifierRequest, ToyRequest, TrajectoryRequest
    from alignlens.workflow.plan import Plan


class AskedModel(NamedTuple):
    """One training of a translation model, asked on one text at all its checkpoints."""

    dataset: str
    direction: str
    model: str
    seed: int
    split: str


class Question(NamedTuple):
    """What it is asked."""

    methods: tuple[str, ...]
    bleu: bool
    snapshots: bool


class AskedClassifier(NamedTuple):
    """One training of a classifier, asked on one text at all its checkpoints."""

    corpus: str
    classifier: str
    seed: int
    split: str


@dataclass(frozen=True)
class LearningPlan:
    """All requests of that kind by studies, equal ones merged."""

    plan: Plan

    @cached_property
    def trajectories(self) -> dict[AskedModel, Question]:
        """The translation models that are asked at their checkpoints, in the first direction, and with what."""
        questions: dict[AskedModel, Question] = {}
        for requests in self.plan.requested.of.values():
            for asked in requests.trajectories:
                for model in self._models(asked):
                    known = questions.get(model, Question((), bleu=False, snapshots=False))
                    methods = tuple(dict.fromkeys((*known.methods, *asked.methods)))
                    questions[model] = Question(methods, known.bleu or asked.bleu, known.snapshots or asked.snapshots)
        return questions

    def _models(self, asked: TrajectoryRequest) -> list[AskedModel]:
        """Returns the trainings that a request is about, all of the first direction."""
        direction = self.plan.directions(asked.dataset)[0]
        seeds = self.plan.planned(asked.model).seeds if asked.seeds is None else asked.seeds
        return [AskedModel(asked.dataset, direction, asked.model, seed, asked.split) for seed in seeds]

    @cached_property
    def classifiers(self) -> dict[tuple[str, str], ClassifierRequest]:
        """The classifiers by labelled texts and name."""
        return {
            (asked.corpus, asked.name): asked
            for requests in self.plan.requested.of.values()
            for asked in requests.classifiers
        }

    def corpora(self) -> list[str]:
        """Returns the names of the labelled texts that classifiers are trained on."""
        return list(dict.fromkeys(corpus for corpus, _ in self.classifiers))

    def items(self, corpus: str, split: str) -> int:
        """Returns of how many texts of a split classifiers are asked: all of one set of the same."""
        return max(asked.items.get(split, 0) for (name, _), asked in self.classifiers.items() if name == corpus)

    def explained(self) -> list[AskedClassifier]:
        """Returns the classifiers that are asked, with their seeds and texts."""
        return [
            AskedClassifier(corpus, name, seed, split)
            for (corpus, name), asked in self.classifiers.items()
            for seed in asked.seeds
            for split in asked.items
        ]

    def quantities(self, run: AskedClassifier) -> list[str]:
        """Returns what a classifier is asked: what some agreement reads, or everything where none does."""
        asked, trained = self.agreements.get((run.corpus, run.split)), TrainedRun(run.classifier, run.seed)
        read = asked.reads(trained) if asked is not None and asked.classified else set()
        return [each for each in QUANTITIES if each in read] or list(QUANTITIES)

    @cached_property
    def agreements(self) -> dict[tuple[str, str], AgreementRequest]:
        """What is compared, by task and text."""
        return {
            (asked.task, asked.split): asked
            for requests in self.plan.requested.of.values()
            for asked in requests.agreements
        }

    def compared(self, task: str, split: str) -> dict[str, list[str]]:
        """Returns the folders that an agreement reads, by the option that names them."""
        asked = self.agreements[task, split]
        folders = {option: [self._folder(asked, run) for run in runs] for option, runs in asked.runs().items() if runs}
        if asked.logistic:
            folders["logistic"] = [self.plan.path(LOGISTIC, corpus=task, split=split)]
        return folders

    def _folder(self, asked: AgreementRequest, run: TrainedRun) -> str:
        names = {"seed": run.seed, "split": asked.split}
        if asked.classified:
            return self.plan.path(EXPLAINED, corpus=asked.task, classifier=run.model, **names)
        direction = self.plan.directions(asked.task)[0]
        return self.plan.path(TRAJECTORY, dataset=asked.task, direction=direction, model=run.model, **names)

    def logistic(self) -> list[tuple[str, str]]:
        """Returns the labelled texts, and splits of them, that a logistic regression is asked about."""
        return [key for key, asked in self.agreements.items() if asked.logistic]

    @cached_property
    def toys(self) -> dict[str, ToyRequest]:
        """The generated tasks by name."""
        return {toy.name: toy for requests in self.plan.requested.of.values() for toy in requests.toys}

    def counted(self) -> list[tuple[str, str]]:
        """Returns the datasets whose words are counted, with the direction."""
        names = dict.fromkeys(name for requests in self.plan.requested.of.values() for name in requests.counts)
        return [(name, self.plan.directions(name)[0]) for name in names]

    def selections(self) -> list[tuple[str, str]]:
        """Returns the texts besides train, dev and test that models are asked about: dataset and name."""
        return list(dict.fromkeys((run.dataset, run.split) for run in self.trajectories if run.split not in SPLITS))

    def of_study(self, name: str, folders: bool = False) -> list[str]:
        """Returns what a study reads of all this; with ``folders``, the folder instead of a file in it."""
        return list(self._of_study(name, CLASSES if folders else CLASSES_PREPARED))

    def _of_study(self, name: str, labelled: PathPattern) -> Iterator[str]:
        asked, path = self.plan.requested.of[name], self.plan.path
        for one in asked.trajectories:
            for model in self._models(one):
                yield path(TRAJECTORY, **model._asdict())
        for dataset in dict.fromkeys(one.dataset for one in asked.trajectories):
            yield path(SUBWORDS, dataset=dataset)
            for split in (TRAIN, DEV):
                for side in ("source", "target"):
                    yield path(PIECES, dataset=dataset, split=split, side=side)
        for corpus in dict.fromkeys(one.corpus for one in asked.classifiers):
            yield path(labelled, corpus=corpus)
        for wanted in asked.agreements:
            for pattern in (AGREEMENT, AGREEMENT_SENTENCES):
                yield path(pattern, task=wanted.task, split=wanted.split)
        for toy in asked.toys:
            yield path(TOY, toy=toy.name)
        for dataset in asked.counts:
            yield path(COUNTS, dataset=dataset, direction=self.plan.directions(dataset)[0])

    def targets(self) -> list[str]:
        """Returns the final files of all studies."""
        explained = [self.plan.path(EXPLAINED, **run._asdict()) for run in self.explained()]
        trained = [
            self.plan.path(CLASSIFIER, corpus=run.corpus, classifier=run.classifier, seed=run.seed)
            for run in self.explained()
        ]
        read = [file for name in self.plan.studies.active() for file in self.of_study(name, folders=True)]
        return list(dict.fromkeys((*trained, *explained, *read)))
