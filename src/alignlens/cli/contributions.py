"""``alignlens contributions``: how much of a translation comes from the source, and how much from its own prefix."""

from __future__ import annotations

import json
import math
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from alignlens.attribution.registry import METHODS, check_architectures, parse
from alignlens.attribution.settings import AttributionSettings
from alignlens.cli.numbers import count
from alignlens.cli.pairs import (
    STANDARD,
    STANDARD_INPUT,
    add_translation,
    check_translation,
    count_pairs,
    explained_windows,
    opened,
    scores_of_window,
)
from alignlens.cli.paths import Outputs
from alignlens.cli.trained import SHARED, add_compute, add_model, add_source, check_compute, load
from alignlens.errors import ConfigError, InputError
from alignlens.io.limits import Limits
from alignlens.io.progress import Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from alignlens.attribution.registry import Method
    from alignlens.cli.pairs import Window
    from alignlens.decoding.translate import TrainedModel
    from alignlens.metrics.contributions import Steps, Suspicion

OUTPUTS = Outputs(files=("out", "sentences", "picture", "translation_out"))
_FORMATS = ("tsv", "json")
_SUFFIXES = (".svg", ".png")
_BEGIN, _END = "<begin>", "<end>"
_COLUMNS = (
    *("sentence", "step", "token", "source", "target", "start", "source_renormalised"),
    *("source_entropy", "target_entropy", "most_of_source", "most_of_target"),
)
_OF_SENTENCES = ("sentence", "steps", "source_renormalised", "source_entropy", "suspicious")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_model(parser)
    add_source(parser, more="; - for stdin")
    parser.add_argument(
        "--target", metavar="TEXT", help="its translation (text or token store); without it, the model translates"
    )
    parser.add_argument(
        "--method", default="lrp", metavar="M", help="a method that also explains the prefix (default lrp)"
    )
    parser.add_argument("--out", default=STANDARD, metavar="FILE", help="one line per step (default: stdout)")
    parser.add_argument("--format", choices=_FORMATS, default=_FORMATS[0], help="json: one line per sentence")
    parser.add_argument("--sentences", metavar="FILE", help="one line per sentence, suspicious ones marked")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the shares of all sentences (.svg or .png)")
    parser.add_argument(
        "--top",
        type=count(Limits(1, 100)),
        default=3,
        metavar="N",
        help="number of tokens to name at every step (default 3)",
    )
    add_translation(parser)
    add_compute(parser, AttributionSettings.batch_tokens, threads=SHARED)
    parser.epilog = (
        "example:\n  alignlens contributions --model model --source text.de --target text.en \\\n"
        "      --out steps.tsv --sentences sentences.tsv --picture shares.png\n\n"
        "Shares of source, target and start symbol sum to one; source_renormalised leaves the start symbol out.\n"
        "Entropies are in nats. A sentence is suspicious if its mean share of the source after the first step is\n"
        "more than three robust deviations (1.48 times the median absolute deviation) below the median of all: what\n"
        "it says may have little to do with its source."
    )


def run(args: argparse.Namespace) -> None:
    """Writes the contributions to every prediction, window by window, then the summary of all sentences."""
    from alignlens.metrics.contributions import Suspicion

    method = _check(args)
    source, target = (STANDARD_INPUT if name == STANDARD else name for name in (args.source, args.target))
    total = count_pairs(source, target)
    trained = load(args)
    check_architectures([method], [trained.spec.architecture])
    kept: list[_Kept] = []
    with ExitStack() as stack:
        progress = stack.enter_context(Progress("contributions", total))
        out = opened(stack, args.out)
        translation = opened(stack, args.translation_out) if args.translation_out else None
        if args.format == "tsv":
            out.write("\t".join(_COLUMNS) + "\n")
        for window in explained_windows(trained, source, target, args, translation):
            for sentence in _sentences(trained, window, method, args, progress):
                out.write(sentence.as_json() if args.format == "json" else sentence.as_tsv())
                kept.append(sentence.kept())
        if not kept:
            raise InputError("has no sentences.", source, advice="Give a text.")
        rule = Suspicion.of([each.share for each in kept])
        if args.sentences:
            opened(stack, args.sentences).writelines(_lines(kept, rule))
    if args.picture:
        _draw(args.picture, kept, rule, method)
    if args.json:
        print(json.dumps(_summary(kept, rule, method)))


def _check(args: argparse.Namespace) -> Method:
    """Returns the method, after checking the options before anything is read."""
    check_compute(args)
    check_translation(args)
    if args.source == args.target == STANDARD:
        raise ConfigError("only one of --source and --target can be standard input")
    if [args.out, args.sentences, args.translation_out].count(STANDARD) > 1:
        raise ConfigError("only one of --out, --sentences and --translation-out can be standard output")
    if args.json and STANDARD in (args.out, args.sentences, args.translation_out):
        raise ConfigError("--json needs --out: otherwise the steps would go to standard output, too")
    if args.picture is not None and args.picture.suffix not in _SUFFIXES:
        raise ConfigError(f"--picture {args.picture}: must end in {' or '.join(_SUFFIXES)}")
    method = parse(args.method)
    if not method.spec.prefix:
        able = " or ".join(name for name, spec in METHODS.items() if spec.prefix)
        raise ConfigError(f"method {method.name} does not explain the target prefix; give {able}")
    return method


class _Kept(NamedTuple):
    """The values of a sentence that are kept until all are known."""

    number: int
    shares: NDArray[np.float64]  # of the source at every step, renormalised
    share: float
    entropy: float


class _Sentence(NamedTuple):
    """One sentence with its steps, and the names of its columns and rows."""

    number: int
    steps: Steps
    matrices: tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]  # of source and prefix
    source: list[str]
    target: list[str]  # the start symbol, the pieces, the end symbol
    top: int

    def kept(self) -> _Kept:
        return _Kept(
            self.number, self.steps.renormalised, self.steps.mean_share(), float(self.steps.source_entropy.mean())
        )

    def as_tsv(self) -> str:
        lines = []
        for place, step in enumerate(self._steps()):
            numbers = ("" if value is None else f"{value:.4f}" for value in list(step.values())[2:-2])
            named = (" ".join(f"{token}:{share:.3f}" for token, share in step[key]) for key in _COLUMNS[-2:])
            lines.append("\t".join((str(self.number), str(place), step["token"], *numbers, *named)) + "\n")
        return "".join(lines)

    def as_json(self) -> str:
        return json.dumps({"sentence": self.number, "steps": list(self._steps())}, ensure_ascii=False) + "\n"

    def _steps(self) -> Iterator[dict[str, Any]]:
        steps, (source, prefix) = self.steps, self.matrices
        columns = (
            *(steps.source, steps.target, steps.start, steps.renormalised),
            *(steps.source_entropy, steps.target_entropy),
        )
        for place, numbers in enumerate(zip(*columns, strict=True)):
            total = float(source[place].sum() + prefix[place].sum())
            yield {
                "step": place,
                "token": self.target[place + 1],
                **dict(zip(_COLUMNS[3:9], (_known(float(value)) for value in numbers), strict=True)),
                _COLUMNS[9]: _most(source[place] / total, self.source, self.top),
                _COLUMNS[10]: _most(prefix[place, 1 : place + 1] / total, self.target[1:], self.top),
            }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)


def _most(shares: NDArray[np.floating[Any]], names: Sequence[str], top: int) -> list[tuple[str, float]]:
    """Returns the tokens with the greatest shares, the first of equals first."""
    order = (-shares).argsort(kind="stable")[:top]
    return [(names[place], round(float(shares[place]), 6)) for place in order.tolist()]


def _sentences(
    trained: TrainedModel,
    window: Window,
    method: Method,
    args: argparse.Namespace,
    progress: Progress,
) -> Iterator[_Sentence]:
    """Yields the sentences of a window in their order."""
    from alignlens.metrics.contributions import Steps

    begin = trained.spec.source_begin
    scores = scores_of_window(trained, window, method, args, progress)
    for place, matrices in sorted(scores, key=lambda each: each[0]):
        source, prefix = (matrices[name] for name in method.matrices)
        yield _Sentence(
            window.first + place,
            Steps.of(source, prefix),
            (source, prefix),
            [*[_BEGIN] * begin, *trained.source.pieces_of(window.read[place]), _END],
            [_BEGIN, *trained.target.pieces_of(window.explained[place]), _END],
            args.top,
        )


def _lines(kept: Sequence[_Kept], rule: Suspicion) -> Iterator[str]:
    yield "\t".join(_OF_SENTENCES) + "\n"
    for each in kept:
        marked = "yes" if rule.holds(each.share) else "no"
        yield f"{each.number}\t{len(each.shares)}\t{each.share:.4f}\t{each.entropy:.4f}\t{marked}\n"


def _summary(kept: Sequence[_Kept], rule: Suspicion, method: Method) -> dict[str, Any]:
    return {
        "method": method.text,
        "sentences": len(kept),
        "steps": sum(len(each.shares) for each in kept),
        "median_source": _known(rule.median),
        "bound": _known(rule.bound),
        "suspicious": [each.number for each in kept if rule.holds(each.share)],
    }


def _draw(path: Path, kept: Sequence[_Kept], rule: Suspicion, method: Method) -> None:
    from alignlens.display.contributions import draw_shares
    from alignlens.display.heatmap import save

    caption = f"What {len(kept):,} translations are made of ({method.text})"
    save(draw_shares([each.shares for each in kept], [each.share for each in kept], rule.bound, caption), path)
