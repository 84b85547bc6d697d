"""``alignlens score``: links against gold links."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.alignment.bases import Base, warning_of
from alignlens.alignment.pharaoh import read_written
from alignlens.alignment.written import Lengths
from alignlens.cli.about import about_of, add_about, run_name
from alignlens.cli.gold_options import add_gold, gold_of, warn
from alignlens.cli.named_files import check_once, row_names
from alignlens.cli.paths import Outputs
from alignlens.cli.score_options import add_interval, add_sentences, interval_of
from alignlens.errors import ConfigError
from alignlens.io import values
from alignlens.io.atomic import atomic_path, write_json
from alignlens.io.documents import read_json, taking
from alignlens.io.text import check_equal_counts, read_parallel, words
from alignlens.metrics.aer import count_hits
from alignlens.metrics.bootstrap import paired_test
from alignlens.metrics.score_rows import score_rows
from alignlens.metrics.sentences import SentenceCounts, row_name
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse

    from alignlens.alignment.gold import Gold
    from alignlens.metrics.aer import Counts

OUTPUTS = Outputs(files=("out", "per_sentence", "sentences"))


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_gold(parser)
    parser.add_argument(
        "--links", required=True, nargs="+", help="links to score, in Pharaoh format counted from 0; one row per file"
    )
    parser.add_argument("--links-base", type=int, choices=(0, 1), help="number of the first word in them (default 0)")
    parser.add_argument("--source", help="source text; with --target, every link is checked against it")
    parser.add_argument("--target", help="target text")
    parser.add_argument("--versus", help="second links file: paired bootstrap test of the first against it")
    add_interval(parser)
    parser.add_argument("--per-sentence", type=Path, metavar="CSV", help="write the scores of every sentence pair")
    add_sentences(parser)
    parser.add_argument("--out", type=Path, help="write the result as JSON to this file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_about(parser)
    parser.add_argument("--trained-as", type=Path, metavar="DIR", help="stored aligner that made the links")
    parser.epilog = "example:\n  alignlens score --gold test.gold --base 1 --links fast_align.pharaoh --json"


def run(args: argparse.Namespace) -> None:
    """Scores every links file and prints, writes and records the result."""
    if (args.source is None) != (args.target is None):
        raise ConfigError("--source and --target go together")
    interval = interval_of(args)
    about = about_of(args)
    if args.trained_as:
        about["train_pairs"] = _train_pairs(args.trained_as)
    check_once("--links", args.links)
    lengths = None
    if args.source is not None:
        source, target = read_parallel(args.source, args.target)
        lengths = Lengths.of([len(words(line)) for line in source], [len(words(line)) for line in target])
    gold, base = gold_of("score", args, lengths)
    with Journal(args.journal) as journal:
        counted = {path: _count(path, args, gold, lengths) for path in args.links}
        names = row_names(args.links)
        scored = score_rows(list(counted.values()), gold, interval)
        rows = [{**_named(names[path], about), **row} for path, row in zip(counted, scored, strict=True)]
        result: dict[str, Any] = {
            **about,
            "sentences": len(gold),
            "interval": interval,
            "base": {"gold": base.number, "why": base.why, "links": args.links_base or 0},
        }
        if args.versus:
            other = _count(args.versus, args, gold, lengths)
            test = paired_test(counted[args.links[0]], other, args.level, args.samples, args.seed)
            result["versus"] = {"links": args.versus, **asdict(test)}
        if len(rows) == 1:
            limits = {"low": rows[0]["aer_low"], "high": rows[0]["aer_high"]}
            result = {**result, **rows[0], "interval": {**limits, **result["interval"]}}
        else:
            result["rows"] = rows
        if args.per_sentence:
            _write_sentences(args.per_sentence, {names[path]: counts for path, counts in counted.items()})
        if args.sentences:
            systems = list(counted.values())
            of_rows = SentenceCounts.of(list(map(row_name, rows)), systems, [None] * len(rows), len(gold))
            of_rows.write(args.sentences)
        if args.out:
            write_json(args.out, {**result, "rows": rows})
        _record(journal, about, rows, args)
    if args.json:
        print(json.dumps(result, indent=2, ensure_ascii=False))
    elif not args.out:
        _print(rows, result)


def _count(path: str, args: argparse.Namespace, gold: Gold, lengths: Lengths | None) -> Counts:
    written = read_written(path, lengths, "--links-base")
    links = written.alignment(args.links_base or 0, lengths)
    check_equal_counts([args.gold, path], [len(gold), len(links)])
    if args.links_base is None and written.without_zero():
        warn("score", warning_of(path, Base(0, "no link has word 0", known=False), "--links-base"))
    return count_hits(links, gold)


def _train_pairs(folder: Path) -> int:
    """Returns how many sentence pairs a stored aligner was trained on."""
    path, advice = folder / "training.json", "Give a folder made by: alignlens aligner --model."
    content = read_json(path, advice)
    with taking(path, advice):
        return values.whole(content, "pairs")


def _named(name: str, about: dict[str, Any]) -> dict[str, str]:
    return {"links": name, "kind": "direction" if name in about.get("directions", []) else "symmetrised"}


def _write_sentences(path: Path, counted: dict[str, Counts]) -> None:
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("links", "sentence", "aer", "precision", "recall", "f1", "links_count", "sure"))
        for links, counts in counted.items():
            pairs = zip(counts.sentence_scores(), counts.per_sentence.tolist(), strict=True)
            for number, (scores, (_, _, linked, sure)) in enumerate(pairs):
                values = (scores.aer, scores.precision, scores.recall, scores.f1)
                shown_values = ("" if math.isnan(value) else f"{value:.4f}" for value in values)
                writer.writerow((links, number, *shown_values, linked, sure))


def _record(journal: Journal, about: dict[str, Any], rows: list[dict[str, Any]], args: argparse.Namespace) -> None:
    """Records one run per row, nested under its dataset and aligner."""
    identity: dict[str, str] = {
        key: str(about[key]) for key in ("preset", "dataset", "aligner", "text", "size") if key in about
    }
    pair = "-".join(about.get("pair", []))
    size = "" if identity.get("size", "all") == "all" else f"{identity['size']} pairs"
    trained = " ".join(identity[key] for key in ("aligner", "text") if key in identity)
    system = run_name(identity.get("dataset"), trained, size)
    for path, row in zip(args.links, rows, strict=True):
        record = journal.run(
            experiment="score",
            name=run_name(system, row["links"]),
            identity={**identity, "links": row["links"]},
            tags={**identity, "pair": pair, "links": row["links"], "kind": row["kind"]},
            params={**identity, "links": row["links"], "train_pairs": about.get("train_pairs", "unknown")},
            group=system or None,
        )
        record.metrics({key: value for key, value in row.items() if isinstance(value, (int, float))})
        record.artifact(path, folder="links")


def _print(rows: list[dict[str, Any]], result: dict[str, Any]) -> None:
    width = max(len(row["links"]) for row in rows)
    level = f"{result['interval']['level']:g} %"
    print(f"{'links':<{width}}    AER  [{level:^13}]  precision  recall     F1   links")
    for row in rows:
        cells = [
            f"{'-' if row[key] is None else format(row[key], '.2f'):>{size}}"
            for key, size in (("aer", 6), ("aer_low", 7), ("aer_high", 7), ("precision", 10), ("recall", 7), ("f1", 6))
        ]
        print(f"{row['links']:<{width}} {' '.join(cells)} {row['links_count']:>7}")
    print(f"{result['sentences']} sentence pairs, {rows[0]['sure']} sure and {rows[0]['possible']} possible links")
    if "versus" in result:
        test = result["versus"]
        print(
            f"difference to {test['links']}: {test['difference']:+.2f} AER "
            f"[{test['low']:+.2f}, {test['high']:+.2f}], p = {test['p_value']:.4f} (paired bootstrap)"
        )
    print(f"gold counts words from {result['base']['gold']} ({result['base']['why']})")
