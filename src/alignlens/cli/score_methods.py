"""``alignlens score-methods``: the links of all methods of one model against gold links, in one table."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from alignlens.alignment.gold import read_gold
from alignlens.alignment.pharaoh import read_links
from alignlens.attribution.registry import method as method_of
from alignlens.attribution.registry import parse
from alignlens.cli.about import about_of, add_about, occasion, run_name
from alignlens.cli.links_folder import ENTROPY, LinksName, links_files, read_lengths, sentence_entropies
from alignlens.cli.model_run import model_run
from alignlens.cli.paths import Outputs
from alignlens.cli.score_parts import PART, gathered, part_facts, part_of
from alignlens.cli.score_rows import add_interval, add_sentences, cause_columns, interval_of, score_rows
from alignlens.cli.shards import add_shards, check_gathering, shard_of
from alignlens.errors import ConfigError, InputError, unknown_name
from alignlens.io.atomic import write_json
from alignlens.io.documents import read_json
from alignlens.io.text import check_equal_counts
from alignlens.metrics.aer import count_hits
from alignlens.metrics.causes import count_causes, read_causes
from alignlens.metrics.sentences import Sentences, row_name
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse

    import numpy as np
    from numpy.typing import NDArray

    from alignlens.alignment.gold import Gold
    from alignlens.cli.links_folder import Lengths
    from alignlens.metrics.aer import Counts
    from alignlens.metrics.causes import Causes

OUTPUTS = Outputs(files=("out", "sentences"))
_log = logging.getLogger("score-methods")
_AGAINST_GOLD = ("aer", "aer_low", "aer_high", "precision", "recall", "f1", "links_count")
_METRICS = (*_AGAINST_GOLD, "entropy", "score_mean", "cause_hits", "cause_low", "cause_high", "cause_chance")
_USUAL = "grow-diag-final-lilt"  # the combination of the published tables: its scores stand for both directions
_IDENTITY = ("preset", "dataset", "model", "seed", "weights", "split", "decoding")
_TAGS = ("dataset", "pair", "model", "architecture", "seed", "weights", "split", "decoding", "study")


class Cell(NamedTuple):
    """A folder of links, what to call links of one direction in it, and the gold links that score it."""

    name: str
    folder: Path
    gold: Path

    @classmethod
    def of(cls, text: str) -> Cell:
        """Returns the cell that ``NAME=DIR=GOLD`` names."""
        return cls(*_named_paths("--cell", text, "NAME=DIR=GOLD"))


def _named_paths(option: str, text: str, expected: str) -> tuple[str, Path, Path]:
    """Returns a name and two paths; the first path may have the sign in it, too."""
    name, _, rest = text.partition("=")
    first, _, second = rest.rpartition("=")
    if not (name and first and second):
        raise ConfigError(f"{option} {text!r}: expected {expected}")
    return name, Path(first), Path(second)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "--cell",
        nargs="+",
        action="extend",
        metavar="NAME=DIR=GOLD",
        help="a direction, its folder of links (as alignlens extract or symmetrize writes it) and its gold links",
    )
    parser.add_argument(
        "--causes",
        metavar="NAME=CAUSES=SOURCE",
        help="a direction that explains the target side, the true causes of its words, and the source text",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result as JSON to this file")
    add_sentences(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    group = add_shards(parser, "files", "FILE")
    told = "their --sentences, if --sentences is wanted of the whole"
    group.add_argument("--gather-sentences", nargs="+", type=Path, metavar="FILE", help=told)
    add_interval(parser)
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens score-methods --cell de-en=de-en/links=test.gold en-de=en-de/links=test.gold \\\n"
        "      bidir=bidir/links=test.gold --out metrics.json\n\n"
        "Symmetrised links are called as their symmetrisation, whatever the name of the folder.\n"
        "Gold links are those that alignlens wrote: i-j sure, ipj possible, words counted from 0.\n"
        "Causes are those of generated text: a field per target word, source words with commas between them, or -."
    )


def run(args: argparse.Namespace) -> None:
    """Scores every file of every folder, or puts parts of that together; prints, writes and records the result."""
    about = about_of(args)
    check_gathering(args, ("cell",))
    shard = shard_of(args.shard)
    with Journal(args.journal) as journal:
        result, sentences = gathered(args) if args.gather else _scored(args, about, shard)
        if args.out:
            write_json(args.out, result)
        if sentences is not None:
            sentences.write(args.sentences)
        if PART in result:
            _record_part(journal, about, result["rows"])
        else:
            _record(journal, about, result["rows"])
    if args.json:
        print(json.dumps(result, indent=2, ensure_ascii=False))
    elif not args.out:
        _print(result["rows"])


def _scored(
    args: argparse.Namespace, about: dict[str, Any], shard: tuple[int, int]
) -> tuple[dict[str, Any], Sentences | None]:
    """Returns the table of all links files of all folders, or of a part of them, and its sentences if wanted."""
    interval = interval_of(args)
    cells = [Cell.of(text) for text in args.cell]
    golds = {path: read_gold(path, base=0) for path in dict.fromkeys(cell.gold for cell in cells)}
    check_equal_counts(list(golds), list(map(len, golds.values())))
    causes = _causes(args.causes, cells, about)
    files = [(cell, path) for cell in cells for path in links_files(cell.folder)]
    _check_once(files)
    chosen = part_of(files, shard)
    rows: list[dict[str, Any]] = []
    systems: list[Counts] = []
    entropies: list[NDArray[np.float32] | None] = []
    for cell in cells:
        paths = [path for owner, path in chosen if owner is cell]
        mine, counted = _rows(cell, paths, golds[cell.gold], causes.get(cell.name), interval)
        rows, systems = rows + mine, systems + counted
        methods = [row["method"] if row["kind"] == "direction" else None for row in mine]
        entropies += sentence_entropies(cell.folder, methods) if args.sentences else []
    sentences = len(next(iter(golds.values())))
    result = {
        **{key: value for key, value in about.items() if key != "shard"},
        **({"seed": int(about["seed"])} if str(about.get("seed")).isdecimal() else {}),
        **part_facts(shard),
        "sentences": sentences,
        "interval": interval,
        "rows": rows,
    }
    if args.sentences is None:
        return result, None
    return result, Sentences.of(list(map(row_name, rows)), systems, entropies, sentences)


def _causes(text: str | None, cells: list[Cell], about: dict[str, Any]) -> dict[str, Causes]:
    """Returns the causes by the name of the cell that they belong to; nothing if there are none."""
    if text is None:
        return {}
    name, path, source = _named_paths("--causes", text, "NAME=CAUSES=SOURCE")
    if name not in [cell.name for cell in cells]:
        raise ConfigError(f"--causes: {unknown_name('cell', name, [cell.name for cell in cells])}")
    if about.get("decoding") == "free":
        raise ConfigError("--causes: causes are of the words of the reference, not of a model's own translation")
    return {name: read_causes(path, source)}


def _rows(
    cell: Cell, paths: list[Path], gold: Gold, causes: Causes | None, interval: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[Counts]]:
    """Returns one row per links file, some or all of a folder, and what was counted in it."""
    lengths = _lengths(cell, causes)
    files = [(path, LinksName.of(path)) for path in paths]
    entropies = _entropies(cell.folder) if any(name.symmetrization is None for _, name in files) else {}
    described, systems = [], []
    for path, name in files:
        method, symmetrised = parse(name.method), name.symmetrization is not None
        if not symmetrised and name.method not in entropies:
            raise InputError(f"says nothing about {name.method}.", cell.folder / ENTROPY, advice="Extract again.")
        links = read_links(path, 0, *(lengths or (None, None)))
        check_equal_counts([cell.gold, path], [len(gold), len(links)])
        systems.append(count_hits(links, gold))
        entropy = {} if symmetrised else entropies[name.method]
        described.append(
            {
                "method": method.text,
                "name": method.name,
                "parameters": dict(method.parameters),
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


def _check_once(files: list[tuple[Cell, Path]]) -> None:
    """Raises if two folders hold the links of the same name: one would hide the other."""
    seen = set()
    for cell, path in files:
        name = LinksName.of(path)
        links = name.symmetrization or cell.name
        if (which := (parse(name.method).text, name.extraction, links)) in seen:
            raise ConfigError(f"--cell: two folders have links {links!r} of {which[0]}; name them apart")
        seen.add(which)


def _lengths(cell: Cell, causes: Causes | None) -> Lengths | None:
    """Returns how many words the sentences have, which no link may leave."""
    if causes is not None:
        return causes.source_lengths.tolist(), causes.target_lengths.tolist()
    found = read_lengths(cell.folder)
    if found is None:
        _log.warning("%s: does not say how long the sentences are; no link is checked against them", cell.folder)
    return found


def _entropies(folder: Path) -> dict[str, dict[str, float | None]]:
    """Returns what ``alignlens extract`` wrote about the scores of every method."""
    path = folder / ENTROPY
    found = read_json(path, "Make the folder again with: alignlens extract.")
    if not all(isinstance(entry, dict) for entry in found.values()):
        raise InputError("not what alignlens extract writes.", path, advice="Extract again.")
    return found


def _record_part(journal: Journal, about: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Records that a part was scored; what was found is recorded when all parts are together."""
    common = model_run(about, "score-part")
    name = run_name(common["name"], occasion(about), f"part {about['shard']}" if "shard" in about else None)
    journal.run(**{**common, "name": name}).metric("rows", len(rows))


def _record(journal: Journal, about: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Records one run per cell of a table: a direction, or both directions combined in every way.

    Single heads of a layer are metrics of the layer's run, where it has one: ``head_aer`` by number.
    """
    pair = "-".join(about.get("pair", []))
    known = {key: str(about[key]) for key in _TAGS if key in about} | ({"pair": pair} if pair else {})
    seed = f"s{about['seed']}" if "seed" in about else None
    cells: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    heads: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    methods = {row["method"] for row in rows}
    for row in rows:
        links = row["links"] if row["kind"] == "direction" else "bidir"
        layer = _layer_of(row)
        if layer is not None and layer in methods:
            heads.setdefault((layer, row["extraction"], links), []).append(row)
        else:
            cells.setdefault((row["method"], row["extraction"], links), []).append(row)
    for (method, extraction, links), combined in cells.items():
        row = next((row for row in combined if row["links"] == _USUAL), combined[0])
        shown = links if row["kind"] == "direction" else " ".join(filter(None, (pair, links)))
        which = {"method": method, "extraction": extraction, "links": links}
        record = journal.run(
            experiment="attribution",
            name=run_name(
                shown,
                about.get("model"),
                seed,
                method,
                occasion(about),
                None if extraction == "ding" else extraction,
            ),
            identity={**{key: str(about[key]) for key in _IDENTITY if key in about}, **which},
            tags={
                **known,
                "direction": links,
                "links": row["links"],
                "method": method,
                "method_name": row["name"],
                "extraction": extraction,
                "kind": row["kind"],
            },
            params={**_axes(about, row, links), **row["parameters"]},
            group=about.get("dataset"),
        )
        record.metrics({key: row[key] for key in _METRICS if row[key] is not None})
        if row["kind"] != "direction":
            record.metrics({f"aer {each['links']}": each["aer"] for each in combined if each["aer"] is not None})
        for each in heads.get((method, extraction, links), []):
            if each["links"] == row["links"] and each["aer"] is not None:
                record.metric("head_aer", each["aer"], each["parameters"]["head"])


def _axes(about: dict[str, Any], row: dict[str, Any], links: str) -> dict[str, str]:
    """Returns what MLflow's charts can draw a metric over: they know parameters, not tags."""
    known: dict[str, str] = {key: str(about[key]) for key in ("model", "decoding") if key in about}
    return {**known, "direction": links, "extraction": row["extraction"], "method": row["name"]}


def _layer_of(row: dict[str, Any]) -> str | None:
    """Returns the method that takes all heads together, if a row is about one of them."""
    if not isinstance(row["parameters"].get("head"), int):
        return None
    whole = {key: value for key, value in row["parameters"].items() if key != "head"}
    return method_of(row["name"], whole).text


def _print(rows: list[dict[str, Any]]) -> None:
    names = [f"{row['method']}.{row['extraction']}  {row['links']}" for row in rows]
    width = max(map(len, names))
    caused = any(row["cause_hits"] is not None for row in rows)
    print(f"{'method':<{width}}    AER  precision  recall   links  entropy{'  causes  chance' if caused else ''}")
    for name, row in zip(names, rows, strict=True):
        scores = " ".join(_shown(row[key], size) for key, size in (("aer", 6), ("precision", 10), ("recall", 7)))
        causes = "".join(_shown(row[key], 8) for key in ("cause_hits", "cause_chance")) if caused else ""
        print(f"{name:<{width}} {scores} {row['links_count']:>7}  {_shown(row['entropy'], 7, 3)}{causes}")


def _shown(value: float | None, size: int, digits: int = 2) -> str:
    return f"{'-' if value is None else format(value, f'.{digits}f'):>{size}}"
