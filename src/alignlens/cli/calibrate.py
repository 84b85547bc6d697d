"""``alignlens calibrate``: which heads and methods of one or two models make the best alignment, as a recipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.attribution.registry import parse_all
from alignlens.attribution.settings import AttributionSettings
from alignlens.cli.gold_options import add_gold, gold_of
from alignlens.cli.numbers import count, real
from alignlens.cli.paths import Outputs
from alignlens.cli.trained import (
    SHARED,
    add_compute,
    add_masks,
    add_model,
    add_reverse,
    add_texts,
    check_compute,
    load,
    load_reverse,
    masks_beside,
    masks_for,
    workers,
)
from alignlens.errors import ConfigError
from alignlens.io.checksum import sha256_of
from alignlens.io.limits import PAIRS, THRESHOLD
from alignlens.io.progress import Progress
from alignlens.io.text import check_equal_counts
from alignlens.io.typed import written
from alignlens.recipes.recipe import DEFAULT_THRESHOLD, THRESHOLDS, Origin, Text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from alignlens.alignment.gold import Gold
    from alignlens.attribution.registry import Method
    from alignlens.decoding.given import Given
    from alignlens.decoding.translate import TrainedModel
    from alignlens.recipes.calibrate import Calibrated

OUTPUTS = Outputs(files=("out",), words=("reverse_weights",))
_PAIRS = 300


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_model(parser)
    add_reverse(parser, "; needed without --gold")
    add_masks(parser)
    add_texts(parser, "to calibrate on")
    parser.add_argument(
        "--pairs", type=count(PAIRS), default=_PAIRS, metavar="N", help=f"read the first N pairs (default {_PAIRS})"
    )
    add_gold(parser, required=False)
    parser.add_argument(
        "--methods",
        nargs="+",
        default=[],
        metavar="M",
        help="candidate methods besides all heads (alignlens align --list)",
    )
    grid = ", ".join(f"{each:g}" for each in THRESHOLDS)
    parser.add_argument(
        "--threshold",
        type=real(THRESHOLD),
        metavar="P",
        help=f"products of both directions above it are links (default {DEFAULT_THRESHOLD:g}; with gold, of {grid})",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the recipe (JSON)")
    add_compute(parser, AttributionSettings.batch_tokens, threads=SHARED)
    parser.epilog = (
        "example:\n  alignlens calibrate --model de-en/model --reverse en-de/model --source dev.de --target dev.en \\\n"
        "      --out recipe.json\n"
        "  alignlens align --model de-en/model --reverse en-de/model --recipe recipe.json \\\n"
        "      --source text.de --target text.en\n\n"
        "Every head of the attention to the source is a candidate, at the step that predicts a word and at the one\n"
        "that reads it. Without gold links those are chosen on which both directions agree (docs/calibrate.md)."
    )


def run(args: argparse.Namespace) -> None:
    """Scores all candidates, searches, writes the recipe and prints the steps that led to it."""
    check_compute(args)
    more = parse_all(args.methods)
    if args.reverse is None and args.gold is None:
        raise ConfigError(
            "--reverse and --gold missing: one model only agrees with itself. Give the model of the other direction "
            "(--reverse), or gold links (--gold)."
        )
    for option in ("source", "target", "gold"):
        _check_again(f"--{option}", getattr(args, option))
    from alignlens.decoding.given import open_pair

    source, target = open_pair(args.source, args.target)
    trained = [load(args), *([load_reverse(args)] if args.reverse is not None else [])]
    gold = _gold(args, trained[0], source, target)
    calibrated = _calibrated(args, trained, (source, target), gold, more)
    calibrated.recipe.write(args.out)
    print(json.dumps(_as_json(calibrated)) if args.json else _table(calibrated))


def _check_again(option: str, name: str | None) -> None:
    """Raises for a pipe, which can be read only once; a recipe has the checksums of its texts."""
    if name is not None and Path(name).exists() and not (Path(name).is_file() or Path(name).is_dir()):
        raise ConfigError(f"{option} {name}: is a stream, but the recipe needs the checksum of a file. Give a file.")


def _gold(args: argparse.Namespace, trained: TrainedModel, source: Given, target: Given) -> Gold | None:
    """Returns the gold links, if any were named, checked against the words of the text."""
    if args.gold is None:
        return None
    from alignlens.alignment.written import Lengths
    from alignlens.recipes.asked import Pieces

    pieces = Pieces.of(trained, source, target)
    gold, _ = gold_of("calibrate", args, Lengths(pieces.source_counts, pieces.target_counts))
    check_equal_counts([args.source, args.gold], [len(source), len(gold)])
    return gold


def _calibrated(
    args: argparse.Namespace,
    trained: Sequence[TrainedModel],
    texts: tuple[Given, Given],
    gold: Gold | None,
    more: Sequence[Method],
) -> Calibrated:
    from alignlens.recipes.asked import Asked
    from alignlens.recipes.calibrate import Calibration, candidates_of, text_of

    methods = [candidates_of(each, more) for each in trained]
    masks = [masks_for(args, trained[0], more), *(masks_beside(each, more) for each in trained[1:])]
    models = [Asked(each, args.batch_tokens, workers(args), nets) for each, nets in zip(trained, masks, strict=True)]
    pairs = min(args.pairs, len(texts[0]))
    gold_text = None if args.gold is None else Text(Path(args.gold).name, sha256_of(args.gold))
    origin = Origin(text_of(texts[0]), text_of(texts[1]), pairs, gold_text)
    thresholds = THRESHOLDS if gold is not None else (DEFAULT_THRESHOLD,)
    if args.threshold is not None:
        thresholds = (args.threshold,)
    calibration = Calibration(models, texts[0].first_of(pairs), texts[1].first_of(pairs))
    with Progress("calibrate", pairs * len(models), _unit(len(models))) as progress:
        return calibration.run(methods, origin, gold, thresholds, progress.advance)


def _unit(directions: int) -> str:
    return "sentences" if directions == 1 else "sentences of both directions"


def _as_json(calibrated: Calibrated) -> dict[str, object]:
    return {"recipe": written(calibrated.recipe), "taken": [each._asdict() for each in calibrated.taken]}


def _table(calibrated: Calibrated) -> str:
    """Returns the components in the order they were chosen, with their results."""
    recipe, origin = calibrated.recipe, calibrated.recipe.calibrated
    width = max(len(each.method) for each in calibrated.taken)
    lines = [f"{'direction':<9}  {'component':<{width}}   alone  together     AER"]
    for each in calibrated.taken:
        cells = (_cell(each.alone, "6.4f", 6), _cell(each.agreement, "8.4f", 8), _cell(each.aer, "6.2f", 6))
        lines.append(f"{each.side:<9}  {each.method:<{width}}  {'  '.join(cells)}".rstrip())
    how = recipe.combination if recipe.threshold is None else f"{recipe.combination} above {recipe.threshold:g}"
    asked = " and ".join(f"{count:,}" for count in calibrated.candidates)
    lines.append(
        f"{how}; {asked} candidates on {origin.pairs:,} pairs, {'with' if origin.gold else 'without'} gold links"
    )
    return "\n".join(lines)


def _cell(value: float | None, form: str, width: int) -> str:
    return "-".rjust(width) if value is None else format(value, form)
