"""Pairs of sentences on the command line: files, stores or standard input, with a given translation or the model's."""

from __future__ import annotations

import sys
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple, TextIO

from alignlens.cli.numbers import count, real
from alignlens.cli.trained import workers
from alignlens.decoding.settings import BeamSettings
from alignlens.errors import ConfigError, InputError
from alignlens.io.atomic import atomic_path
from alignlens.io.limits import BEAM, LENGTH_PENALTY, MAX_OFFSET, MAX_RATIO
from alignlens.io.text import check_equal_counts

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from contextlib import ExitStack

    from alignlens.attribution.corpus import Matrices
    from alignlens.attribution.registry import Method
    from alignlens.corpora.tokens import TokenStore
    from alignlens.decoding.given import Given
    from alignlens.decoding.translate import TrainedModel
    from alignlens.io.progress import Progress
    from alignlens.models.contract import Seq2Seq

STANDARD = "-"
STANDARD_INPUT = "/dev/stdin"
# Sentences in memory at once: enough for batches of like length, the same memory for any text.
_WINDOW = 1000


class Window(NamedTuple):
    """Some sentences of a text: the number of the first, the pieces to read and to explain, and what they are of."""

    first: int
    read: TokenStore
    explained: TokenStore
    source: Given
    target: Given  # as given, or the text of the model's translation


def add_translation(parser: argparse.ArgumentParser, written: bool = True) -> None:
    """Adds the options of a translation by the model, which may be ``written`` to a file."""
    beam = BeamSettings()
    translation = parser.add_argument_group("translation by the model, without --target")
    if written:
        translation.add_argument("--translation-out", metavar="FILE", help="write the translation there; - for stdout")
    translation.add_argument("--beam", type=count(BEAM), default=beam.beam, metavar="N", help=f"default {beam.beam}")
    translation.add_argument(
        "--length-penalty",
        type=real(LENGTH_PENALTY),
        default=beam.length_penalty,
        metavar="A",
        help=f"default {beam.length_penalty:g}",
    )
    translation.add_argument(
        "--max-ratio", type=real(MAX_RATIO), default=beam.max_ratio, metavar="R", help=f"default {beam.max_ratio:g}"
    )
    translation.add_argument(
        "--max-offset", type=count(MAX_OFFSET), default=beam.max_offset, metavar="N", help=f"default {beam.max_offset}"
    )


def check_translation(args: argparse.Namespace) -> None:
    """Raises for options that do not go with a given translation."""
    if args.target is not None and args.translation_out is not None:
        raise ConfigError("--translation-out needs a translation by the model; leave out --target")


def beam_of(args: argparse.Namespace) -> BeamSettings:
    """Returns the search that the options ask for."""
    return BeamSettings(args.beam, args.length_penalty, args.max_ratio, args.max_offset)


def count_pairs(source: str, target: str | None) -> int | None:
    """Returns the number of sentences, if it can be known in advance; raises if the texts differ in it."""
    from alignlens.decoding.given import count_of

    names = [name for name in (source, target) if name is not None]
    counts = [count for count in map(count_of, names) if count is not None]
    if len(counts) < len(names):
        return None
    check_equal_counts(list(names), counts)
    return counts[0]


def explained_windows(
    trained: TrainedModel,
    source: str,
    target: str | None,
    args: argparse.Namespace,
    translation: TextIO | None,
    taken: Callable[[Given], Given] = lambda given: given,
) -> Iterator[Window]:
    """Yields the sentences of a text window by window.

    What the model translates by itself is written to ``translation``, if there is one. ``taken`` makes of the source
    what the model reads.
    """
    from alignlens.decoding.given import Given

    first = 0
    for whole, reference in _windows(source, target):
        given = taken(whole)
        read = trained.source_ids(given)
        if reference is None:
            explained = translated(trained, read, beam_of(args), args.batch_tokens)
            lines = [trained.text(explained[k]) for k in range(len(explained))]
            yield Window(first, read, explained, given, Given("the translation", lines, given.first))
        else:
            lines = []
            yield Window(first, read, trained.target_ids(reference), given, reference)
        if translation is not None:
            translation.writelines(f"{line}\n" for line in lines)
        first += len(given)


def scores_of_window(
    trained: TrainedModel,
    window: Window,
    method: Method,
    args: argparse.Namespace,
    progress: Progress,
    adaptive: float | None = None,
    masks: Seq2Seq | None = None,
) -> Iterator[tuple[int, Matrices]]:
    """Yields the scores of sentences by their place in the window, in the order they are computed in."""
    from alignlens.attribution.corpus import attribute

    return attribute(
        trained.model,
        window.read,
        window.explained,
        [method],
        tokens=args.batch_tokens,
        source_begin=trained.spec.source_begin,
        adaptive=adaptive,
        first=window.first,
        workers=workers(args),
        advance=progress.advance,
        masks=masks,
    )


def _windows(source: str, target: str | None) -> Iterator[tuple[Given, Given | None]]:
    """Yields some sentences of the source and those of the target that belong to them."""
    from alignlens.decoding.given import windows

    if target is None:
        yield from ((given, None) for given in windows(source, _WINDOW))
        return
    done = 0
    for given, reference in zip_longest(windows(source, _WINDOW), windows(target, _WINDOW)):
        lengths = [0 if side is None else len(side) for side in (given, reference)]
        if lengths[0] != lengths[1]:
            shorter, longer = (source, target) if lengths[0] < lengths[1] else (target, source)
            end = done + min(lengths)
            problem = f"ends after {end} lines, but {longer} has more."
            raise InputError(problem, shorter, end, "Line n of both files must belong together.")
        yield given, reference
        done += lengths[0]


def translated(trained: TrainedModel, source_ids: TokenStore, beam: BeamSettings, tokens: int) -> TokenStore:
    """Returns the pieces that the model writes: these are explained, not the text that they spell."""
    from alignlens.decoding.sentences import stored
    from alignlens.decoding.translate import translate

    hypotheses = translate(trained.model, source_ids, beam, tokens=tokens, source_begin=trained.spec.source_begin)
    return stored([hypothesis.ids for hypothesis in hypotheses])


def opened(stack: ExitStack, name: str) -> TextIO:
    """Returns standard output, or a file that appears under its name when the stack ends without an error."""
    if name == STANDARD:
        return sys.stdout
    temporary = stack.enter_context(atomic_path(name))
    return stack.enter_context(temporary.open("w", encoding="utf-8", newline="\n"))
