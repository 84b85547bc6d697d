"""The sentences of the report: everything that is shown of them, the most instructive first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.report.attributed import read_asked
from alignlens.report.browser import BrowserSet
from alignlens.report.collect import read_test_set
from alignlens.report.systems import best_systems, instructive

if TYPE_CHECKING:
    from alignlens.results.scores import Results


def read_sets(results: Results) -> list[BrowserSet]:
    """Returns the datasets with text, gold links, and a model or an aligner."""
    sets = []
    for dataset in results.datasets:
        scored = [run for run in results.aligners if run.id.dataset == dataset.name]
        test_set = read_test_set(results.manifest, dataset.name, scored)
        if test_set is None:
            continue
        asked = read_asked(results, dataset)
        systems = best_systems(test_set, scored, asked)
        if systems or asked:
            order = instructive(test_set, [system.links for system in systems])
            sets.append(BrowserSet(test_set, scored, asked, systems, order, dataset.pair))
    return sets
