"""Sentences worth a look: the data behind the sentence browser, and the choice for the printed heatmaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alignlens.report.tables import labels_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alignlens.report.collect import TestSet
    from alignlens.results.scores import AlignerId, ScoredAligner

    System = tuple[AlignerId, str]

MOST_SENTENCES = 1000
_READABLE = range(6, 17)


def browser_data(test_set: TestSet, scored: Sequence[ScoredAligner]) -> dict[str, Any]:
    """Returns what the page's script needs to draw any sentence of a test set under any system.

    ``cells`` of a sentence lists every link that any system has, flat (source, target, source, target ...); a
    system's links are then bits along that list, four to a hexadecimal digit, lowest bit first.
    """
    mine = {item.id: item for item in scored if item.id.dataset == test_set.dataset}
    labels = labels_of(test_set.dataset, scored)
    rows = {(item.id, row.links): row for item in mine.values() for row in item.rows}
    sentences = []
    for k in range(min(len(test_set.gold), MOST_SENTENCES)):
        links = [set(alignment[k]) for alignment in test_set.systems.values()]
        cells = sorted(set().union(*links))
        sentences.append(
            {
                "source": test_set.source[k],
                "target": test_set.target[k],
                "sure": _flat(test_set.gold.sure[k]),
                "possible": _flat(test_set.gold.possible[k]),
                "cells": _flat(cells),
                "has": [_bits([cell in found for cell in cells]) for found in links],
            }
        )
    return {
        "name": test_set.dataset,
        "languages": list(next(iter(mine.values())).pair) if mine else ["source", "target"],
        "total": len(test_set.gold),
        "systems": [
            {"run": labels[run], "links": links, "aer": round(rows[run, links].aer, 2)}
            for run, links in test_set.systems
        ],
        "shown": [list(test_set.systems).index(system) for system in best_systems(test_set, scored, 3)],
        "sentences": sentences,
    }


def best_systems(test_set: TestSet, scored: Sequence[ScoredAligner], count: int) -> list[System]:
    """Returns the best links of the best run of each aligner, best aligner first."""
    ranked = sorted(
        (row.aer, item.id, row.links)
        for item in scored
        for row in item.rows
        if (item.id, row.links) in test_set.systems and row.aer == row.aer
    )
    chosen: dict[str, System] = {}
    for _, run, links in ranked:
        chosen.setdefault(run.aligner, (run, links))
    return list(chosen.values())[:count]


def instructive(test_set: TestSet, systems: Sequence[System], count: int) -> list[int]:
    """Returns the sentences of a readable length on which the systems disagree most, worst first."""
    gold = test_set.gold.sure
    sentences = [k for k in range(len(gold)) if gold[k]]
    if not sentences:
        sentences = [k for k in range(len(gold)) if test_set.source[k] and test_set.target[k]]
    readable = [k for k in sentences if len(test_set.source[k]) in _READABLE and len(test_set.target[k]) in _READABLE]
    if not readable:
        readable = sorted(sentences, key=lambda k: len(test_set.source[k]) + len(test_set.target[k]))[:count]
    return sorted(readable, key=lambda k: (-disagreement(test_set, systems, k), k))[:count]


def disagreement(test_set: TestSet, systems: Sequence[System], sentence: int) -> float:
    """Returns one minus the mean share of systems that have a link, over all links that any of them has."""
    links = [set(test_set.systems[system][sentence]) for system in systems]
    union = set().union(*links)
    if not union:
        return 0.0
    return 1 - sum(len(found) for found in links) / (len(links) * len(union))


def _flat(links: Sequence[tuple[int, int]]) -> list[int]:
    return [index for link in links for index in link]


def _bits(flags: Sequence[bool]) -> str:
    digits = []
    for start in range(0, len(flags), 4):
        digits.append(sum(1 << k for k, flag in enumerate(flags[start : start + 4]) if flag))
    return "".join(f"{digit:x}" for digit in digits)
