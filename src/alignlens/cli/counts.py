"""``alignlens counts``: which words of two languages occur together, and whether a proxy would learn that first."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from alignlens.cli.about import about_of, add_about, run_name
from alignlens.cli.numbers import count, seed
from alignlens.cli.paths import Outputs
from alignlens.errors import ConfigError, InputError
from alignlens.io.atomic import write_json
from alignlens.io.limits import PAIRS, Limits
from alignlens.io.text import words as words_of
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse

    from alignlens.corpora.tokens import TokenStore
    from alignlens.decoding.given import Given

OUTPUTS = Outputs(files=("out",))
_STEP = "counts"
_WIDTHS = (16, 64, 256, 1024, 4096)
_SEEDS = 3
# What a proxy learns first is compared on this many pairs and words, so that the widest takes seconds.
_GROWTH_PAIRS, _GROWTH_WORDS = 2000, 500
_SHOWN = Limits(1, 100)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    text = "tokenised text, plain or gzip, or the token store of one"
    for side, what in (("source", text), ("target", "its translation (text or token store)")):
        parser.add_argument(f"--{side}", required=True, metavar="TEXT", help=what)
    for side in ("source", "target"):
        text = f"SentencePiece model of the {side}: names the ids of a token store, or splits a text"
        parser.add_argument(f"--{side}-subwords", type=Path, metavar="FILE", help=text)
    parser.add_argument("--pairs", type=count(PAIRS), metavar="N", help="count only the first N (default: all)")
    parser.add_argument(
        "--words", type=count(_SHOWN), default=16, metavar="N", help="largest number of words of a side (default 16)"
    )
    parser.add_argument("--seed", type=seed, default=1, metavar="N", help="first seed of random proxies (default 1)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="write the tables as JSON")
    parser.add_argument("--json", action="store_true", help="print the tables as JSON")
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens counts --source train.de --target train.en --out counts.json\n\n"
        "A pair of words counts 1/L for each source position (of L) and each target position where it occurs.\n"
        f"Proxies of growing width are compared on {_GROWTH_PAIRS:,} pairs and {_GROWTH_WORDS} words of a side; all "
        "rarer ones count as one word."
    )


def run(args: argparse.Namespace) -> None:
    """Writes the counts of the most frequent words, and the growth of the correlation with the width."""
    about = about_of(args)
    from alignlens.decoding.given import open_pair

    given = open_pair(args.source, args.target)
    subwords = (args.source_subwords, args.target_subwords)
    with Journal(args.journal) as journal:
        record = journal.run(**_identity(about), params={"seed": args.seed, "seeds": _SEEDS})
        sides = [_Side.of(side, path) for side, path in zip(given, subwords, strict=True)]
        pairs = min(args.pairs or len(given[0]), len(given[0]))
        result = {**_tables(sides, pairs, args.words), **_growth(sides, pairs, args.seed, args.target)}
        write_json(args.out, result)
        record.artifact(args.out)
        record.metric("pairs", result["pairs"])
        for row in result["growth"]:
            names = {"pearson": "pearson", "least": "pearson_least", "greatest": "pearson_greatest"}
            record.metrics({names[key]: value for key, value in row.items() if key in names}, row["d"])
    if args.json:
        print(json.dumps(result))


@dataclass(frozen=True)
class _Side:
    """One side of a text: its words as numbers, and their names."""

    store: TokenStore
    names: list[str]

    @classmethod
    def of(cls, given: Given, subwords: Path | None) -> _Side:
        from alignlens.corpora.tokens import TokenStore
        from alignlens.decoding.sentences import SentencesInMemory

        if subwords is not None:
            from alignlens.subwords.spans import Segmenter

            segmenter = Segmenter.load(subwords)
            return cls(given.pieces(segmenter, 0, None), segmenter.vocabulary)
        if isinstance(given.content, TokenStore):
            raise ConfigError(f"{given.name}: is a token store; also give the subword model that it was made with")
        numbers: dict[str, int] = {}
        lines = [[numbers.setdefault(word, len(numbers)) for word in words_of(line)] for line in given.content]
        return cls(SentencesInMemory(lines, max(len(numbers), 1), str(given.name)), list(numbers))


def _tables(sides: list[_Side], pairs: int, most: int) -> dict[str, Any]:
    """Returns C and Trans of the most frequent words; shares are those of all words."""
    from alignlens.metrics.cooccurrence import Words, count_table, translation_table, word_counts

    stores = sides[0].store, sides[1].store
    source, target = (Words.of(word_counts(store, pairs), most) for store in stores)
    counts = count_table(*stores, (source, target), pairs)
    rows, columns = len(source.ids), len(target.ids)
    return {
        "pairs": pairs,
        "source_words": [sides[0].names[number] for number in source.ids],
        "target_words": [sides[1].names[number] for number in target.ids],
        "table": counts[:rows, :columns].tolist(),
        "translation": translation_table(counts)[:rows, :columns].tolist(),
    }


def _growth(sides: list[_Side], pairs: int, seed: int, name: str) -> dict[str, Any]:
    """Returns the correlation of the first motion of proxies with the counts, by their width, over several seeds."""
    import numpy as np

    from alignlens.metrics.cooccurrence import Bags, Words, first_correlation, word_counts

    some = min(pairs, _GROWTH_PAIRS)
    source, target = (Words.of(word_counts(side.store, some), _GROWTH_WORDS) for side in sides)
    bags = Bags.of(sides[0].store, sides[1].store, (source, target), np.arange(some))
    rows = []
    for width in _WIDTHS:
        correlations = [first_correlation(bags, width, seed + place) for place in range(_SEEDS)]
        if any(map(math.isnan, correlations)):
            raise InputError(
                "all its words occur together equally often, so there is nothing to learn.",
                name,
                advice="Give more text.",
            )
        rows.append(
            {"d": width, "pearson": fmean(correlations), "least": min(correlations), "greatest": max(correlations)}
        )
    return {
        "growth": rows,
        "growth_pairs": some,
        "growth_words": {"source": source.size, "target": target.size},
    }


def _identity(about: dict[str, Any]) -> dict[str, Any]:
    """Returns experiment, name (``demo · xa-xb · counts``), identity, tags and group."""
    return {
        "experiment": "counts",
        "name": run_name(about.get("dataset"), about.get("direction"), _STEP),
        "identity": about,
        "tags": {"step": _STEP, **{key: str(value) for key, value in about.items()}},
        "group": about.get("dataset"),
    }
