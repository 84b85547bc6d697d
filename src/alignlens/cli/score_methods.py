"""``alignlens score-methods``: the links of all methods of one model against gold links, in one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.attribution.registry import parse
from alignlens.cli.about import about_of, add_about
from alignlens.cli.method_runs import record_methods, record_part
from alignlens.cli.paths import Outputs
from alignlens.cli.score_options import add_interval, add_sentences, interval_of
from alignlens.cli.shards import add_shards, check_gathering, shard_of
from alignlens.errors import ConfigError, unknown_name
from alignlens.io.atomic import write_json
from alignlens.metrics.causes import read_causes
from alignlens.metrics.method_scores import LinksToScore, score_cells
from alignlens.metrics.score_parts import PART, gathered_parts, part_facts
from alignlens.metrics.sentences import gathered_sentences, row_name
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse

    from alignlens.metrics.causes import Causes
    from alignlens.metrics.sentences import SentenceCounts

OUTPUTS = Outputs(files=("out", "sentences"))


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
    text = "their --sentences files, to write --sentences for all parts"
    group.add_argument("--gather-sentences", nargs="+", type=Path, metavar="FILE", help=text)
    add_interval(parser)
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens score-methods --cell de-en=de-en/links=test.gold en-de=en-de/links=test.gold \\\n"
        "      bidir=bidir/links=test.gold --out metrics.json\n\n"
        "Symmetrised links are named after their symmetrisation, whatever the folder is called.\n"
        "Gold links must be as alignlens writes them: i-j sure, ipj possible, words counted from 0.\n"
        "Causes are those of generated text: one field per target word, source words separated by commas, or -."
    )


def run(args: argparse.Namespace) -> None:
    """Scores every file of every folder, or puts parts of that together; prints, writes and records the result."""
    about = about_of(args)
    check_gathering(args, ("cell",))
    shard = shard_of(args.shard)
    with Journal(args.journal) as journal:
        result, sentences = _gathered(args) if args.gather else _scored(args, about, shard)
        if args.out:
            write_json(args.out, result)
        if sentences is not None:
            sentences.write(args.sentences)
        if PART in result:
            record_part(journal, about, result["rows"])
        else:
            record_methods(journal, about, result["rows"])
    if args.json:
        print(json.dumps(result, indent=2, ensure_ascii=False))
    elif not args.out:
        _print(result["rows"])


def _scored(
    args: argparse.Namespace, about: dict[str, Any], shard: tuple[int, int]
) -> tuple[dict[str, Any], SentenceCounts | None]:
    """Returns the table of all links files of all folders, or of a part of them, and its sentences if wanted."""
    interval = interval_of(args)
    cells = [LinksToScore(*_named_paths("--cell", text, "NAME=DIR=GOLD")) for text in args.cell]
    table = score_cells(cells, _causes(args.causes, cells, about), _described, interval, shard)
    result = {
        **{key: value for key, value in about.items() if key != "shard"},
        **({"seed": int(about["seed"])} if str(about.get("seed")).isdecimal() else {}),
        **part_facts(shard),
        "sentences": table.sentences,
        "interval": interval,
        "rows": table.rows,
    }
    return result, None if args.sentences is None else table.by_sentence()


def _gathered(args: argparse.Namespace) -> tuple[dict[str, Any], SentenceCounts | None]:
    """Returns the table of all parts, and the counts by sentence if requested."""
    if (args.sentences is None) != (args.gather_sentences is None):
        raise ConfigError("with --gather, --sentences and --gather-sentences go together")
    result = gathered_parts(args.gather)
    if args.sentences is None:
        return result, None
    return result, gathered_sentences(args.gather_sentences, list(map(row_name, result["rows"])))


def _described(text: str) -> dict[str, Any]:
    """Returns the facts about the method of a row."""
    method = parse(text)
    return {"method": method.text, "name": method.name, "parameters": dict(method.parameters)}


def _causes(text: str | None, cells: list[LinksToScore], about: dict[str, Any]) -> dict[str, Causes]:
    """Returns the causes by the name of the cell that they belong to; nothing if there are none."""
    if text is None:
        return {}
    name, path, source = _named_paths("--causes", text, "NAME=CAUSES=SOURCE")
    if name not in [cell.name for cell in cells]:
        raise ConfigError(f"--causes: {unknown_name('cell', name, [cell.name for cell in cells])}")
    if about.get("decoding") == "free":
        raise ConfigError(
            "--causes: causes are known for the words of the reference, not for a model's own translation"
        )
    return {name: read_causes(path, source)}


def _named_paths(option: str, text: str, expected: str) -> tuple[str, Path, Path]:
    """Returns a name and two paths; the first path may have the sign in it, too."""
    name, _, rest = text.partition("=")
    first, _, second = rest.rpartition("=")
    if not (name and first and second):
        raise ConfigError(f"{option} {text!r}: expected {expected}")
    return name, Path(first), Path(second)


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
