"""What classifiers and generated tasks compute; multiply-adds are those of the recurrent layers, which are most."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from alignlens.classification.settings import ClassifierRecipe
from alignlens.toys.settings import HeadsSettings, SeededSettings, toy_settings
from alignlens.workflow.learning_plan import AskedClassifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from alignlens.corpora.labelled import LabelledSet
    from alignlens.studies.requests import ClassifierRequest, ToyRequest
    from alignlens.workflow.learning_plan import LearningPlan

#: An update is a forward pass and twice that backwards.
_PASSES = 3
_BYTES = 4
#: What is assumed of labelled texts whose entry does not say.
_TEXTS, _WORDS, _VOCABULARY = 5000, 40.0, 12_000
#: Heads to be tried for every good or bad one that is wanted.
_TRIED_PER_HEAD = 2


class Work(NamedTuple):
    """One job: its rule, its name, and what it computes."""

    rule: str
    name: str
    models: bool
    multiply_adds: float = 0.0
    operations: float = 0.0
    """Those that wait for the one before them."""
    bytes: float = 0.0


def learning_work(learning: LearningPlan, labelled: Mapping[str, LabelledSet]) -> Iterator[Work]:
    """Yields the jobs of labelled texts, of agreement and of generated tasks."""
    for corpus in learning.corpora():
        yield Work("prepare_classes", corpus, models=False)
    for asked in learning.classifiers.values():
        for seed in asked.seeds:
            yield from _classifier(asked, seed, labelled[asked.corpus], learning)
    for corpus, split in learning.logistic():
        yield Work("logistic_regression", f"{corpus} {split}", models=False)
    for task, split in learning.agreements:
        yield Work("agreement", f"{task} {split}", models=False)
    for toy in learning.toys.values():
        yield _toy(toy)


def _classifier(asked: ClassifierRequest, seed: int, texts: LabelledSet, learning: LearningPlan) -> Iterator[Work]:
    recipe, name = ClassifierRecipe.from_json(asked.settings, asked.name), f"{asked.corpus} {asked.name} {seed}"
    model, training = recipe.model, recipe.training
    examples, words = texts.sizes.get("train", _TEXTS), texts.words.get("train", _WORDS) + 2
    updates = training.updates or (training.epochs or 1) * -(-examples // training.batch)
    recurrent = model.kind == "lstm"
    directions = 2 if model.bidirectional else 1
    a_word = directions * 4 * model.hidden * (model.width + model.hidden) if recurrent else model.width
    weights = _VOCABULARY * model.width + (a_word if recurrent else 0)
    kept = [update for update in training.snapshots or () if update <= updates]
    every = training.snapshot_every or 0
    checkpoints = len({*kept, *(range(every, updates + 1, every) if every else ())}) + 1
    yield Work(
        "train_classifier",
        name,
        models=True,
        multiply_adds=updates * (_PASSES * training.batch * words * a_word + weights),
        operations=updates * words * directions if recurrent else updates,
        bytes=_BYTES * weights * checkpoints,
    )
    for split in asked.items:
        items = min(learning.items(asked.corpus, split), texts.sizes.get(split, _TEXTS))
        length = texts.words.get(split, words) + 2
        quantities = learning.quantities(AskedClassifier(asked.corpus, asked.name, seed, split))
        passes = _PASSES if "grad_input" in quantities else 1
        yield Work(
            "explain_classifier",
            f"{name} {split}",
            models=True,
            multiply_adds=checkpoints * items * length * a_word * passes,
            bytes=_BYTES * checkpoints * len(quantities) * items * length,
        )


def _toy(toy: ToyRequest) -> Work:
    settings = toy_settings(toy.task, toy.settings, toy.name)
    if isinstance(settings, HeadsSettings):
        tried = min(settings.most_heads, 2 * _TRIED_PER_HEAD * settings.collect) * settings.data_seeds
        trainings, layers = tried + 3 * settings.draws, 2
    else:
        seeds = settings.seeds if isinstance(settings, SeededSettings) else 1
        # The keyword is looked for by a model of one direction and by one of two.
        trainings, layers = seeds, 3 if toy.task == "keyword" else 2
    positions = settings.batch * (settings.words + 1)
    an_update = _PASSES * positions * layers * 4 * settings.hidden**2
    updates = trainings * settings.steps
    return Work(
        "toy", toy.name, models=True, multiply_adds=updates * an_update, operations=updates * layers * settings.words
    )
