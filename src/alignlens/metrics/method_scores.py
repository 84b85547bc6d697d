"""The links of all methods of a model against gold links: one row per links file, of every folder."""

from __future__ import annotations

import logging
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from alignlens.alignment.gold import read_gold
from alignlens.alignment.pharaoh import read_links
from alignlens.errors import ConfigError, InputError
from alignlens.io.documents import read_json
from alignlens.io.text import check_equal_counts
from alignlens.metrics.aer import count_hits
from alignlens.metrics.causes import count_causes
from alignlens.metrics.links_folder import ENTROPY, LinksName, links_files, read_lengths, sentence_entropies
from alignlens.metrics.score_parts import part_of
from alignlens.metrics.score_rows import cause_columns, score_rows
from alignlens.metrics.sentences import SentenceCounts, row_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from alignlens.alignment.gold import Gold
    from alignlens.metrics.aer import Counts
    from alignlens.metrics.causes import Causes
    from alignlens.metrics.links_folder import Lengths

    #: What a row tells of a method that a file is named after; under ``method`` its one text for all ways to write it.
    Describe = Callable[[str], dict[str, Any]]

_log = logging.getLogger("score-methods")


class LinksToScore(NamedTuple):
    """A folder of links, what to call links of one direction in it, and the gold links that score it."""

    name: str
    folder: Path
    gold: Path


class MethodTable(NamedTuple):
    """The rows of some or all links files, and what was counted in each."""

    rows: list[dict[str, Any]]
    systems: list[Counts]
    methods: list[tuple[Path, list[str | None]]]  # of the rows of every folder; None for symmetrised links
    sentences: int

    def by_sentence(self) -> SentenceCounts:
        """Returns what was counted sentence by sentence, and the entropies that the folders have."""
        entropies = chain.from_iterable(sentence_entropies(folder, methods) for folder, methods in self.methods)
        return SentenceCounts.of(list(map(row_name, self.rows)), self.systems, list(entropies), self.sentences)


def score_cells(
    cells: Sequence[LinksToScore],
    causes: Mapping[str, Causes],
    describe: Describe,
    interval: Mapping[str, Any],
    shard: tuple[int, int] = (0, 1),
) -> MethodTable:
    """Returns the table of all links files of all folders, or of a part of them; causes are by the name of a cell."""
    golds = {path: read_gold(path, base=0) for path in dict.fromkeys(cell.gold for cell in cells)}
    check_equal_counts(list(golds), list(map(len, golds.values())))
    files = [(cell, path) for cell in cells for path in links_files(cell.folder)]
    _check_once(files, describe)
    chosen = part_of(files, shard)
    table = MethodTable([], [], [], len(next(iter(golds.values()))))
    for cell in cells:
        paths = [path for owner, path in chosen if owner is cell]
        rows, systems = _rows(cell, paths, golds[cell.gold], causes.get(cell.name), describe, interval)
        table.rows.extend(rows)
        table.systems.extend(systems)
        table.methods.append((cell.folder, [row["method"] if row["kind"] == "direction" else None for row in rows]))
    return table


def _rows(
    cell: LinksToScore,
    paths: Sequence[Path],
    gold: Gold,
    causes: Causes | None,
    describe: Describe,
    interval: Mapping[str, Any],
) -> tuple[list[dict[str, Any]], list[Counts]]:
    """Returns one row per links file, some or all of a folder, and what was counted in it."""
    lengths = _lengths(cell, causes)
    files = [(path, LinksName.of(path)) for path in paths]
    entropies = _entropies(cell.folder) if any(name.symmetrization is None for _, name in files) else {}
    described, systems = [], []
    for path, name in files:
        symmetrised = name.symmetrization is not None
        if not symmetrised and name.method not in entropies:
            raise InputError(f"says nothing about {name.method}.", cell.folder / ENTROPY, advice="Extract again.")
        links = read_links(path, 0, *(lengths or (None, None)))
        check_equal_counts([cell.gold, path], [len(gold), len(links)])
        systems.append(count_hits(links, gold))
        entropy = {} if symmetrised else entropies[name.method]
        described.append(
            {
                **describe(name.method),
                "extraction": name.extraction,
                "links": name.symmetrization or cell.name,
                "kind": "symmetrised" if symmetrised else "direction",
                "entropy": entropy.get("sentence_mean"),
                "entropy_rows": entropy.get("row_mean"),
                "score_mean": entropy.get("score_mean"),
                **cause_columns(None if causes is None or symmetrised else count_causes(links, causes), interval),
            }
        )
    scored = score_rows(systems, gold, interval)
    return [{**first, **second} for first, second in zip(described, scored, strict=True)], systems


def _check_once(files: Sequence[tuple[LinksToScore, Path]], describe: Describe) -> None:
    """Raises if two folders hold the links of the same name: one would hide the other."""
    seen = set()
    for cell, path in files:
        name = LinksName.of(path)
        links = name.symmetrization or cell.name
        if (which := (describe(name.method)["method"], name.extraction, links)) in seen:
            raise ConfigError(f"--cell: two folders have links {links!r} of {which[0]}; give them different names")
        seen.add(which)


def _lengths(cell: LinksToScore, causes: Causes | None) -> Lengths | None:
    """Returns how many words the sentences have, which no link may leave."""
    if causes is not None:
        return causes.source_lengths.tolist(), causes.target_lengths.tolist()
    lengths = read_lengths(cell.folder)
    if lengths is None:
        _log.warning("%s: does not give sentence lengths, so links are not checked against them", cell.folder)
    return lengths


def _entropies(folder: Path) -> dict[str, dict[str, float | None]]:
    """Returns what ``alignlens extract`` wrote about the scores of every method."""
    path = folder / ENTROPY
    facts = read_json(path, "Recreate the folder with: alignlens extract.")
    if not all(isinstance(entry, dict) for entry in facts.values()):
        raise InputError("not what alignlens extract writes.", path, advice="Extract again.")
    return facts
