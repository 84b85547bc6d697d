"""Whose links are worth a look: the best method of each architecture, the best aligners, and where they disagree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignlens.report.tables import labels_of
from alignlens.results.paths import FORCED
from alignlens.results.protocol import ARCHITECTURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from alignlens.alignment.links import Alignment
    from alignlens.report.attributed import Asked
    from alignlens.report.collect import TestSet
    from alignlens.results.scores import AlignerId, Score, ScoredAligner

PANELS = 4
_READABLE = range(6, 17)


@dataclass(frozen=True)
class System:
    """Links of words of the test text, and what they are called."""

    title: str
    links: Alignment
    asked: Asked | None = None
    method: str = ""

    def scores(self, sentence: int) -> NDArray[np.float64] | None:
        """Returns the scores behind the links (target word, source word), the largest 1; None of an aligner."""
        if self.asked is None:
            return None
        scores = self.asked.scores_of_words(self.method, sentence).clip(min=0)
        largest = scores.max(initial=0.0)
        return scores / largest if largest > 0 else scores


def best_method(asked: Asked) -> tuple[str, str, Score] | None:
    """Returns the method and extraction of a model with the lowest error rate in its direction, the first of equals."""
    stored = set(asked.methods)
    rows = [
        (method, extraction, score)
        for (method, extraction, links), scores in asked.run.scores.items()
        for score in scores[:1]
        if links == asked.direction and method in stored and not math.isnan(score.aer)
    ]
    return min(rows, key=lambda row: row[2].aer, default=None)


def best_models(asked: Sequence[Asked]) -> list[System]:
    """Returns the best method of each architecture, given the reference in the direction of the dataset."""
    best: dict[str, tuple[float, System]] = {}
    for each in asked:
        if each.reverse or each.text.decoding != FORCED or (choice := best_method(each)) is None:
            continue
        method, extraction, score = choice
        architecture = each.run.architecture
        if architecture not in best or score.aer < best[architecture][0]:
            title = f"{ARCHITECTURES.get(architecture, each.run.model)}\n{method}"
            best[architecture] = score.aer, System(title, each.links(method, extraction), each, method)
    return [system for _, system in sorted(best.values(), key=lambda choice: choice[0])]


def best_aligners(test_set: TestSet, scored: Sequence[ScoredAligner]) -> list[tuple[AlignerId, str]]:
    """Returns the best links of the best run of each aligner, best aligner first."""
    ranked = sorted(
        (row.aer, item.id, row.links)
        for item in scored
        for row in item.rows
        if (item.id, row.links) in test_set.systems and row.aer == row.aer
    )
    chosen: dict[str, tuple[AlignerId, str]] = {}
    for _, run, links in ranked:
        chosen.setdefault(run.aligner, (run, links))
    return list(chosen.values())


def best_systems(test_set: TestSet, scored: Sequence[ScoredAligner], asked: Sequence[Asked]) -> list[System]:
    """Returns what heatmaps show: models first, at least one aligner if there is any, at most ``PANELS`` in all."""
    labels = labels_of(test_set.dataset, scored)
    aligners = [
        System(f"{labels[run]}\n{links}", test_set.systems[run, links])
        for run, links in best_aligners(test_set, scored)
    ]
    models = best_models(asked)[: PANELS - bool(aligners)]
    return [*models, *aligners[: PANELS - len(models)]]


def instructive(test_set: TestSet, systems: Sequence[Alignment]) -> list[int]:
    """Returns all sentences, those with gold links on which systems disagree most first."""
    gold = test_set.gold.sure
    apart = disagreements(systems, len(gold))
    return sorted(range(len(gold)), key=lambda k: (not gold[k], -apart[k], k))


def readable(test_set: TestSet, sentences: Sequence[int], count: int) -> list[int]:
    """Returns the first sentences of a readable length, or the shortest ones if there are none."""
    filled = [k for k in sentences if test_set.gold.sure[k]] or [
        k for k in sentences if test_set.source[k] and test_set.target[k]
    ]
    lengths = {k: (len(test_set.source[k]), len(test_set.target[k])) for k in filled}
    fitting = [k for k in filled if all(length in _READABLE for length in lengths[k])]
    return (fitting or sorted(filled, key=lambda k: sum(lengths[k])))[:count]


def disagreements(systems: Sequence[Alignment], sentences: int) -> list[float]:
    """Returns, by sentence, one minus the mean share of systems that have a link, over all that any of them has."""
    if not systems:
        return [0.0] * sentences
    union = systems[0]
    for other in systems[1:]:
        union = union | other
    any_of = union.counts()
    total = np.sum([system.counts() for system in systems], axis=0)
    shares = np.divide(total, len(systems) * any_of, out=np.ones(sentences), where=any_of > 0)
    return (1 - shares).tolist()  # type: ignore[no-any-return]
