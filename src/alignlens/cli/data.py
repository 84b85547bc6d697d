"""``alignlens data``: list, fetch, check and prepare datasets."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.alignment.gold import FORMATS, read_gold, write_gold
from alignlens.classification.reading import read_split
from alignlens.cli.paths import Outputs
from alignlens.corpora.cleaning import check_separator
from alignlens.corpora.fetch import DEFAULT_CACHE, Places, Verified, fetch, read_manifest, where
from alignlens.corpora.prepare import REPORT, SIDES, prepare, staged, write_report
from alignlens.corpora.registry import DEFAULT_PATH, Registry
from alignlens.corpora.settings import PrepareSettings
from alignlens.errors import AlignlensError, ConfigError
from alignlens.io.atomic import write_json
from alignlens.io.documents import read_json_option
from alignlens.io.text import check_equal_counts, read_lines, read_parallel, words
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alignlens.alignment.gold import Gold
    from alignlens.corpora.registry import Dataset, LabelledSet


OUTPUTS = {"fetch": Outputs(files=("out",)), "prepare": Outputs(places=("out", "cache"))}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.epilog = "example:\n  alignlens data prepare hansards --mirror ~/corpora --out data/hansards"
    tasks = parser.add_subparsers(dest="task", required=True, metavar="TASK")

    def task(name: str, text: str, example: str) -> argparse.ArgumentParser:
        added = tasks.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        added.formatter_class = argparse.RawDescriptionHelpFormatter
        added.epilog = f"example:\n  alignlens data {name} {example}"
        return added

    listing = task("list", "list every dataset: languages or labels, size, terms, and where its files are", "--json")
    listing.add_argument("--json", action="store_true", help="print JSON")
    getting = task("fetch", "find or download the files, verify them, write a manifest", "multi30k --out m.json")
    getting.add_argument("name", metavar="NAME", help="dataset")
    getting.add_argument("--out", metavar="FILE", help="manifest to write (default: print it)")
    checking = task(
        "check",
        "check a dataset, or two files of your own and their gold links",
        "--source a.de --target a.en --gold a.gold --base 0",
    )
    checking.add_argument("name", metavar="NAME", nargs="?", help="dataset")
    checking.add_argument("--source", metavar="FILE", help="your source text")
    checking.add_argument("--target", metavar="FILE", help="your target text")
    checking.add_argument("--gold", metavar="FILE", help="your gold links")
    checking.add_argument("--base", type=int, choices=(0, 1), help="number of a sentence's first word in them")
    checking.add_argument("--format", choices=FORMATS, default="pharaoh", help="their format (%(default)s)")
    preparing = task("prepare", "clean and split the text, convert the gold links", "demo --out data/demo")
    preparing.add_argument("name", metavar="NAME", help="dataset")
    preparing.add_argument("--out", metavar="DIR", required=True, help="directory to write")
    preparing.add_argument("--settings", metavar="JSON", default="{}", help="JSON with cleaning {...}, max_train_pairs")
    # The entry itself instead of the one on file: the pipeline passes custom datasets this way.
    preparing.add_argument("--definition", help=argparse.SUPPRESS)
    preparing.add_argument("--manifest", metavar="FILE", help="manifest of fetch (default: fetch now)")
    preparing.add_argument("--journal", metavar="FILE", help="journal to write")
    preparing.add_argument("--preset", metavar="NAME", default="", help="preset to name in the journal")
    for added in (listing, getting, checking, preparing):
        added.add_argument("--mirror", metavar="DIR", help="directory with a copy of the files")
        added.add_argument("--cache", metavar="DIR", help=f"where downloads are kept ({DEFAULT_CACHE})")
        added.add_argument(
            "--datasets",
            metavar="FILE",
            action="append",
            help=f"datasets, repeatable ({DEFAULT_PATH})",
        )


def run(args: argparse.Namespace) -> None:
    """Runs one task."""
    places = Places.of(args.mirror, args.cache)
    if args.task == "check" and args.name is None:
        _check_files(args)
        return
    registry = Registry.load_all(args.datasets or [DEFAULT_PATH])
    if args.task == "list":
        _list(registry, places, args.json)
    elif args.task == "fetch":
        manifest = fetch(registry.get_any(args.name), places)
        if args.out:
            write_json(args.out, manifest)
        else:
            print(json.dumps(manifest, indent=2, ensure_ascii=False))
    elif args.task == "check":
        if args.source or args.target or args.gold:
            raise ConfigError("check: give a dataset name, or --source and --target, not both")
        if args.name in registry.labelled:
            _check_labelled(registry.labelled[args.name], places)
        else:
            _check_dataset(registry.get(args.name), places)
    else:
        if args.definition:
            registry = registry.merged({args.name: read_json_option("--definition", args.definition)}, "--definition")
        if args.name in registry.labelled:
            raise ConfigError(
                f"{args.name} has labelled texts; prepare them with: alignlens classify prepare {args.name}"
            )
        _prepare(registry.get(args.name), places, args)


def _list(registry: Registry, places: Places, as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    for dataset in registry:
        has_gold = dataset.kind == "synthetic" or dataset.gold is not None
        rows.append({**_row(dataset, places), "pair": "-".join(dataset.pair), "gold": has_gold, "task": "translation"})
    for texts in registry.labelled.values():
        rows.append({**_row(texts, places), "pair": None, "gold": False, "task": texts.task})
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    table = [("name", "pair", "kind", "train", "dev", "test", "gold", "where", "licence")]
    for row in rows:
        sizes = [f"{row['sizes'][split]:,}" if split in row["sizes"] else "" for split in ("train", "dev", "test")]
        gold = "yes" if row["gold"] else "no"
        table.append((row["name"], row["pair"] or "labels", row["kind"], *sizes, gold, row["where"], row["licence"]))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        padded = (
            f"{cell:>{width}}" if 3 <= number <= 5 else f"{cell:<{width}}"
            for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        print("  ".join(padded).rstrip())


def _row(dataset: Dataset | LabelledSet, places: Places) -> dict[str, Any]:
    """Returns the facts that are listed for bitexts and labelled texts alike."""
    places_of_files = {where(file, places) for file in dataset.files().values()} or {"built in"}
    return {
        "name": dataset.name,
        "kind": dataset.kind,
        "sizes": dict(dataset.sizes),
        "where": "missing" if "missing" in places_of_files else "+".join(sorted(places_of_files)),
        "licence": dataset.licence,
        "description": dataset.description,
    }


def _check_files(args: argparse.Namespace) -> None:
    """Checks two files of the user's, and their gold links."""
    if not args.source or not args.target:
        raise ConfigError("check: give a dataset name, or --source and --target")
    if args.gold and args.base is None:
        raise ConfigError("check: --gold needs --base 0 or --base 1 (the number of a sentence's first word)")
    source, target = read_parallel(args.source, args.target)
    for path, lines in ((args.source, source), (args.target, target)):
        for number, line in enumerate(lines, start=1):
            check_separator(line, path, number)
        _say("ok", path, _text_counts(lines))
    if args.gold:
        gold = read_gold(args.gold, args.base, args.format, _lengths(source), _lengths(target))
        _say("ok", args.gold, _gold_counts(gold))


def _check_dataset(dataset: Dataset, places: Places) -> None:
    """Prints one line per file; raises at the end if there was a problem."""
    verified = Verified(dataset, places, may_download=False)
    problems: list[AlignlensError] = []
    texts: dict[str, tuple[str, list[str]]] = {}
    for role, file in dataset.files().items():
        split, kind = role.rsplit(".", 1)
        try:
            path = str(verified.text(file))
            if kind == "gold":
                said = _gold_counts(_check_gold(dataset, split, path, texts))
            else:
                lines = read_lines(path)
                texts[role] = (path, lines)
                _check_text(role, texts)
                said = _text_counts(lines)
            _say("ok", role, f"{path}  {said}")
        except AlignlensError as error:
            problems.append(error)
            # Links cannot be checked against a text that is itself broken.
            for side in SIDES:
                texts.pop(f"{split}.{side}", None)
            _say("problem", role, str(error))
    _conclude(dataset, problems)


def _check_labelled(texts: LabelledSet, places: Places) -> None:
    """Prints one line per file; raises at the end if there was a problem."""
    verified = Verified(texts, places, may_download=False)
    problems: list[AlignlensError] = []
    for role, part in texts.parts().items():
        try:
            path = str(verified.text(part.file))
            split = read_split(texts, [(part, path)])
            positive = sum(text.positive for text in split.texts)
            left_out = sum(split.left_out.values())
            said = f"{len(split.texts):,} texts, {positive:,} of them positive" + (
                f", {left_out:,} left out" * (left_out > 0)
            )
            _say("ok", role, f"{path}  {said}")
        except AlignlensError as error:
            problems.append(error)
            _say("problem", role, str(error))
    _conclude(texts, problems)


def _conclude(dataset: Dataset | LabelledSet, problems: list[AlignlensError]) -> None:
    """Raises the first of several problems; says so if there was nothing to check."""
    if not dataset.files():
        _say("ok", dataset.name, "generated, no files to check")
    if problems:
        count = f"{dataset.name}: {len(problems)} problems, the first: " if len(problems) > 1 else ""
        raise AlignlensError(f"{count}{problems[0]}")


def _check_text(role: str, texts: Mapping[str, tuple[str, list[str]]]) -> None:
    path, lines = texts[role]
    split, side = role.rsplit(".", 1)
    if not split.startswith("train"):
        for number, line in enumerate(lines, start=1):
            check_separator(line, path, number)
    if side == "target" and f"{split}.source" in texts:
        other, other_lines = texts[f"{split}.source"]
        check_equal_counts([other, path], [len(other_lines), len(lines)])


def _check_gold(dataset: Dataset, split: str, path: str, texts: Mapping[str, tuple[str, list[str]]]) -> Gold:
    both = all(f"{split}.{side}" in texts for side in SIDES)
    lengths = [_lengths(texts[f"{split}.{side}"][1]) if both else None for side in SIDES]
    return _read_gold(dataset, split, path, *lengths)


def _read_gold(dataset: Dataset, split: str, path: str, source: list[int] | None, target: list[int] | None) -> Gold:
    declared = dataset.gold_of(split)
    if declared is None:
        raise ConfigError(f"{dataset.name}: no gold links are declared for {split}")
    return read_gold(path, declared.base, declared.format, source, target, option="base:")


def _prepare(dataset: Dataset, places: Places, args: argparse.Namespace) -> None:
    settings = PrepareSettings.from_dict(read_json_option("--settings", args.settings), "--settings")
    out = Path(args.out)
    with Journal(Path(args.journal) if args.journal else None) as journal:
        values = _flat(asdict(settings))
        entry = journal.run(
            experiment="data",
            name=f"{'-'.join(dataset.pair)} · {dataset.name} · prepare",
            identity={"preset": args.preset, "step": "prepare", "dataset": dataset.name},
            tags={"preset": args.preset, "dataset": dataset.name, "pair": "-".join(dataset.pair), "step": "prepare"},
            params={"kind": dataset.kind, "licence": dataset.licence, "origin": dataset.origin, **values},
        )
        manifest = read_manifest(args.manifest, dataset) if args.manifest else fetch(dataset, places)
        with staged(out, manifest.values()) as stage:
            report = prepare(dataset, manifest, stage, settings)
            for split in ("dev", "test"):
                if dataset.gold_of(split) is not None:
                    lengths = (_lengths(read_lines(stage / f"{split}.{side}")) for side in SIDES)
                    write_gold(stage / f"{split}.gold", _read_gold(dataset, split, manifest[f"{split}.gold"], *lengths))
                if (stage / f"{split}.gold").is_file():
                    gold = read_gold(stage / f"{split}.gold", 0)
                    report["splits"][split]["links"] = {
                        "sure": len(gold.sure.source),
                        "possible": len(gold.possible.source),
                    }
            write_report(stage, report)
        entry.metrics(_metrics(report))
        entry.artifact(out / REPORT, folder="data")
    train = report["splits"]["train"]
    dropped = sum(train["dropped"].values())
    print(f"{out}: {train['pairs']:,} training pairs of {train['read']:,} ({dropped:,} dropped)")


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    flat = {f"cleaning.{key}": value for key, value in settings["cleaning"].items()}
    return {**flat, **{key: value for key, value in settings.items() if key != "cleaning"}}


def _metrics(report: Mapping[str, Any]) -> dict[str, float]:
    values: dict[str, float] = {"train_read": report["splits"]["train"]["read"]}
    for split, counts in report["splits"].items():
        values[f"{split}_pairs"] = counts["pairs"]
        for side, count in counts["words"].items():
            values[f"{split}_{side}_words"] = count
        for kind, count in counts.get("links", {}).items():
            values[f"{split}_{kind}_links"] = count
    for reason, count in report["splits"]["train"]["dropped"].items():
        values[f"dropped_{reason}"] = count
    return values


def _lengths(lines: list[str]) -> list[int]:
    return [len(words(line)) for line in lines]


def _text_counts(lines: list[str]) -> str:
    empty = sum(not words(line) for line in lines)
    return f"{len(lines):,} lines" + (f", {empty:,} of them empty" if empty else "")


def _gold_counts(gold: Gold) -> str:
    return (
        f"{len(gold):,} lines, {len(gold.sure.source):,} sure and {len(gold.possible.source):,} sure or possible links"
    )


def _say(state: str, what: str, text: str) -> None:
    print(f"{state:<7}  {what}  {text}")
