"""``alignlens bleu``: corpus BLEU of translations, with its signature and interval, and against a baseline."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from alignlens.cli.about import about_of, add_about, run_name
from alignlens.cli.model_run import model_run
from alignlens.cli.named_files import check_once, row_names
from alignlens.cli.numbers import count, real, seed
from alignlens.cli.paths import Outputs
from alignlens.decoding.settings import Tokenizer
from alignlens.errors import ConfigError
from alignlens.io.atomic import atomic_path, write_json
from alignlens.io.limits import LEVEL, RESAMPLES
from alignlens.io.text import read_parallel
from alignlens.metrics.bleu import corpus_bleu
from alignlens.metrics.bleu_comparison import TRIALS, bleu_interval, compare_bleu
from alignlens.metrics.sampled import Draws
from alignlens.metrics.settings import IntervalSettings
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from alignlens.metrics.bleu_comparison import Comparison, Scored


OUTPUTS = Outputs(files=("out", "table"), words=("names",))
_SCORE = ("bleu", "low", "high")
_DIFFERENCE = ("difference", "difference_low", "difference_high", "p_value", "p_bootstrap", "p_randomisation")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "--hypothesis",
        required=True,
        action="append",
        nargs="+",
        metavar="FILE",
        help="translations, one per line; several files are seeds of one system; repeat it for another system",
    )
    parser.add_argument("--reference", required=True, metavar="FILE", help="reference translations")
    parser.add_argument(
        "--versus",
        nargs="+",
        metavar="FILE",
        help="translations of a baseline, one file per seed: test every system against it",
    )
    parser.add_argument(
        "--names", nargs="+", metavar="NAME", help="names of the systems, the baseline last (default: their files)"
    )
    parser.add_argument(
        "--tokenize",
        default="13a",
        choices=get_args(Tokenizer),
        help="13a (default) for plain text, none for text that is already tokenised",
    )
    usual = IntervalSettings()
    text = f"level of the interval in percent (default {usual.level:g})"
    parser.add_argument("--level", type=real(LEVEL), default=usual.level, help=text)
    parser.add_argument(
        "--samples",
        type=count(RESAMPLES._replace(least=0)),
        default=usual.samples,
        help=f"bootstrap samples (default {usual.samples}); 0 for no interval",
    )
    parser.add_argument(
        "--trials",
        type=count(RESAMPLES),
        default=TRIALS,
        help=f"trials of approximate randomisation (default {TRIALS})",
    )
    parser.add_argument("--seed", type=seed, default=usual.seed, help=f"seed of all draws (default {usual.seed})")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result as JSON to this file")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the rows of a comparison as TSV")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_about(parser)
    parser.epilog = (
        "examples:\n"
        "  alignlens bleu --hypothesis out.en --reference test.en\n"
        "  alignlens bleu --hypothesis new.1 new.2 new.3 --versus old.1 old.2 old.3 --reference test.en\n\n"
        "p is two-sided and belongs to the interval of the difference: sentences are resampled, and so are seeds if\n"
        "there are several. The other two are sacreBLEU's tests of two single translations: paired bootstrap and\n"
        "approximate randomisation."
    )


def run(args: argparse.Namespace) -> None:
    """Prints, writes and records BLEU with its interval and the sacreBLEU signature, or a comparison."""
    about = about_of(args)
    if args.versus or sum(map(len, args.hypothesis)) > 1:
        _compare(args, about)
        return
    if args.names or args.table:
        raise ConfigError("--names and --table need a comparison: give another --hypothesis, or --versus.")
    ((hypothesis,),) = args.hypothesis
    hypotheses, references = read_parallel(hypothesis, args.reference)
    with Journal(args.journal) as journal:
        result = corpus_bleu(hypotheses, references, args.tokenize)
        content: dict[str, Any] = {**asdict(result), "sentences": len(references)}
        if args.samples:
            interval = bleu_interval(hypotheses, references, args.tokenize, args.level, args.samples, args.seed)
            content["interval"] = asdict(interval)
        if args.out:
            write_json(args.out, {**about, **content})
        record = journal.run(
            **model_run(about, "bleu"), params={"tokenize": args.tokenize, "signature": result.signature}
        )
        record.metrics(_numbers(content))
        record.artifact(hypothesis, folder="translations")
    if args.json:
        print(json.dumps({**about, **content}))
    elif not args.out:
        limits = f" [{content['interval']['low']:.2f}, {content['interval']['high']:.2f}]" if args.samples else ""
        print(f"BLEU {result.bleu:.2f}{limits}  {result.signature}")


def _numbers(content: dict[str, Any]) -> dict[str, float]:
    """Returns the values of a result that can be drawn in a chart."""
    numbers = {key: content[key] for key in ("bleu", "brevity_penalty", "sentences")}
    numbers["length_ratio"] = content["hypothesis_words"] / max(content["reference_words"], 1)
    if "interval" in content:
        numbers |= {"bleu_low": content["interval"]["low"], "bleu_high": content["interval"]["high"]}
    return numbers


def _compare(args: argparse.Namespace, about: dict[str, Any]) -> None:
    if args.samples < RESAMPLES.least:
        raise ConfigError(f"--samples {args.samples}: a comparison needs at least {RESAMPLES.least:g}.")
    groups = [*args.hypothesis, *([args.versus] if args.versus else [])]
    paths = [path for group in groups for path in group]
    check_once("--hypothesis and --versus" if args.versus else "--hypothesis", paths)
    files = dict(zip(_names(args.names, groups), groups, strict=True))
    references, *translations = read_parallel(args.reference, *paths)
    lines = dict(zip(paths, translations, strict=True))
    interval = {"level": args.level, "samples": args.samples, "seed": args.seed}
    with Journal(args.journal) as journal:
        comparison = compare_bleu(
            {name: [lines[path] for path in group] for name, group in files.items()},
            references,
            Draws(**interval),
            list(files)[-1] if args.versus else None,
            args.tokenize,
            args.trials,
        )
        content = {**about, **_content(comparison, files), "interval": interval, "trials": args.trials}
        if args.table:
            _write_table(args.table, content["systems"])
        if args.out:
            write_json(args.out, content)
        _record(journal, about, content, args.tokenize)
    if args.json:
        print(json.dumps(content))
    elif not (args.out or args.table):
        _print(content)


def _names(given: list[str] | None, groups: list[list[str]]) -> list[str]:
    """Returns the names of the systems, by default those of their first files."""
    if given is None:
        return list(row_names([group[0] for group in groups]).values())
    if len(given) != len(groups) or len(set(given)) < len(given):
        raise ConfigError(f"--names: give {len(groups)} different names, one for every system, the baseline last.")
    return given


def _content(comparison: Comparison, files: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "sentences": comparison.sentences,
        "signature": comparison.signature,
        "baseline": comparison.baseline,
        "systems": [
            {
                "system": system.name,
                **_flat(system.overall),
                "seeds": [
                    {"translation": path, **_flat(scored)}
                    for path, scored in zip(files[system.name], system.seeds, strict=True)
                ],
            }
            for system in comparison.systems
        ],
    }


def _flat(scored: Scored) -> dict[str, float | None]:
    """Returns BLEU and difference as one row; None is what is not known."""
    versus = (None,) * len(_DIFFERENCE) if scored.versus is None else asdict(scored.versus).values()
    numbers = zip(_DIFFERENCE, versus, strict=True)
    return {"bleu": scored.bleu, "low": scored.low, "high": scored.high, **dict(numbers)}


def _rows(systems: list[dict[str, Any]]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields name, translation and numbers: of every system, and then of its seeds where there are several."""
    for system in systems:
        seeds = system["seeds"]
        several = len(seeds) > 1
        yield system["system"], f"mean of {len(seeds)}" if several else seeds[0]["translation"], system
        for row in seeds if several else ():
            yield system["system"], row["translation"], row


def _write_table(path: Path, systems: list[dict[str, Any]]) -> None:
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(("system", "translation", *_SCORE, *_DIFFERENCE))
        for name, translation, row in _rows(systems):
            numbers = (row[key] for key in (*_SCORE, *_DIFFERENCE))
            writer.writerow((name, translation, *("" if number is None else f"{number:.6f}" for number in numbers)))


def _record(journal: Journal, about: dict[str, Any], content: dict[str, Any], tokenize: str) -> None:
    """Records one run per system."""
    for system in content["systems"]:
        identity = {**about, "system": system["system"]}
        facts = model_run(about, "bleu")
        facts["name"] = run_name(facts["name"], about.get("comparison"), system["system"])
        facts |= {"identity": identity, "tags": {**facts["tags"], "system": system["system"]}}
        params = {"tokenize": tokenize, "signature": content["signature"], "baseline": content["baseline"] or "none"}
        record = journal.run(**facts, params=params)
        named = {"low": "bleu_low", "high": "bleu_high"}
        numbers = {named.get(key, key): system[key] for key in (*_SCORE, *_DIFFERENCE) if system[key] is not None}
        record.metrics({**numbers, "sentences": content["sentences"], "seeds": len(system["seeds"])})
        for row in system["seeds"]:
            record.artifact(row["translation"], folder="translations")


def _print(content: dict[str, Any]) -> None:
    level = f"{content['interval']['level']:g} %"
    header = ("system", "BLEU", level, "difference", level, "p", "bootstrap", "randomisation")
    rows: list[tuple[str, ...]] = []
    for name, translation, row in _rows(content["systems"]):
        of_system = f"{name} ({translation})" if len(row.get("seeds", ())) > 1 else name
        label = of_system if "seeds" in row else f"  {translation}"
        shown = [f"{row['bleu']:.2f}", _limits(row["low"], row["high"], ".2f")]
        if row["difference"] is None:
            shown += [""] * 5
        else:
            shown += [f"{row['difference']:+.2f}", _limits(row["difference_low"], row["difference_high"], "+.2f")]
            shown += ["" if row[key] is None else f"{row[key]:.4f}" for key in _DIFFERENCE[-3:]]
        rows.append((label, *shown))
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for label, *shown in (header, *rows):
        cells = (text.rjust(width) for text, width in zip(shown, widths[1:], strict=True))
        print("  ".join((label.ljust(widths[0]), *cells)).rstrip())
    print(f"{content['sentences']} sentences  {content['signature']}")


def _limits(low: float | None, high: float | None, form: str) -> str:
    return "" if low is None or high is None else f"[{low:{form}}, {high:{form}}]"
