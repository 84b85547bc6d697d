"""The ``alignlens`` command: a table of verbs, one error format, honest exit codes.

A verb lives in ``alignlens.cli.<verb>`` (with ``_`` for ``-``), with ``configure(parser)`` and ``run(args)``; it is
imported only when it is called, so that a short step does not pay for libraries it does not use.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

from alignlens import __version__
from alignlens.cli.failures import drop_output, explained, limit_memory, one_line, open_standard_streams
from alignlens.cli.paths import Outputs, check_outputs
from alignlens.errors import AlignlensError, nearest
from alignlens.io.seals import made_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

    from _typeshed import SupportsWrite

_DEBUG = "--debug"
# Verbs whose process becomes or starts a server, which has limits of its own.
_SERVING = ("ui", "server")
VERBS = {
    "score": "score links against a gold alignment (AER, precision, recall, F1, interval)",
    "score-methods": "score the links of many attribution methods at once",
    "symmetrize": "combine forward and reverse links into one alignment",
    "aligner": "train a word aligner and align text with it",
    "reference": "make reference links for a model's own translations from two aligner directions",
    "bleu": "corpus BLEU of translations, with the sacreBLEU signature",
    "data": "list, fetch, check and prepare datasets",
    "select": "choose pairs of a text: of one length, at random, or with partners exchanged",
    "subwords": "train SentencePiece BPE and segment text with it",
    "train": "train a translation model, resumably",
    "masks": "train mask nets for a Transformer, for the method mask",
    "model": "import a model from elsewhere, or export one of ours to Marian",
    "classify": "prepare labelled texts, train classifiers, and ask what they look at",
    "translate": "translate text with a trained model",
    "force": "score given translations with a trained model (forced decoding)",
    "align": "align text and translation with a trained model and an attribution method",
    "calibrate": "find which heads and methods of one or two models make the best alignment, with or without gold",
    "contributions": "measure how much of a translation comes from the source, and how much from its own prefix",
    "attribute": "score how much each source piece mattered for every target piece, by any methods",
    "calibration": "measure what calibration does to attention, and whether attention points at what matters",
    "cost": "measure what every method costs on its own: seconds and passes",
    "extract": "turn the scores of attribution methods into word links",
    "trajectory": "ask a translation model what it looked at and how good it was at every checkpoint",
    "agreement": "compare attention, probes and saliency of several runs, checkpoint by checkpoint",
    "counts": "count which words occur together, and test whether a proxy learns that first",
    "encoder": "measure the attention weights and norms of an encoder over a text",
    "toy": "train small models on a generated task, many seeds at once",
    "study": "make the tables, figures and claims of a published study",
    "plan": "list what a configuration would run, and estimate what it costs",
    "report": "build the tables, figures and the HTML report of a preset",
    "track": "synchronise, rebuild or inspect the MLflow store",
    "server": "run an MLflow server of your own, with PostgreSQL",
    "ui": "open the MLflow UI on all runs",
    "doctor": "check this machine: Python, libraries, aligners, store, disk, Slurm",
}


def _usage() -> str:
    width = max(map(len, VERBS))
    rows = "\n".join(f"  {name:<{width}}  {text}" for name, text in VERBS.items())
    return (
        "usage: alignlens [-h] [--version] VERB ...\n\nFind out what a translation model looked at.\n\n"
        f"verbs:\n{rows}\n\n'alignlens VERB --help' explains a verb, with an example; --debug shows the traceback of an"
        " error.\n"
    )


class _Parser(argparse.ArgumentParser):
    """Reports what is wrong in one line, like every other error."""

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        with exit_on_error(self.prog.removeprefix("alignlens ")):
            # argparse itself ignores an error in writing this.
            (sys.stdout if file is None else file).write(self.format_help())
            sys.stdout.flush()

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {one_line(message)}; see {self.prog} --help\n")


@contextmanager
def exit_on_error(what: str, debug: bool = False) -> Iterator[None]:
    """Turns an error that is not a bug into one line on stderr and exit code 2; ``debug`` shows its traceback."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"alignlens {what}: stopped; run the same command again to continue", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        raise
    except (AlignlensError, OSError, MemoryError, RuntimeError) as error:
        line = explained(error)
        if line is None or debug:
            raise
        print(f"alignlens {what}: {line}", file=sys.stderr)
        sys.exit(2)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb; returns 0, 2 for what the user can fix; a bug keeps its traceback and exits with 1."""
    open_standard_streams()
    try:
        return _dispatched(list(sys.argv[1:] if argv is None else argv))
    except BrokenPipeError:
        # The reader of our output has gone (head, less); that is not an error.
        drop_output()
        return 0
    finally:
        _flush()


def _dispatched(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "--version"):
        with exit_on_error("--help"):
            print(f"alignlens {__version__}\n" if arguments == ["--version"] else _usage(), end="")
            sys.stdout.flush()
        return 0 if arguments else 2
    verb = arguments.pop(0)
    if verb not in VERBS:
        line = one_line(f"unknown verb {verb!r}{nearest(verb, VERBS)}; see alignlens --help")
        print(f"alignlens: {line}", file=sys.stderr)
        return 2
    debug = _DEBUG in arguments
    arguments = [argument for argument in arguments if argument != _DEBUG]
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.INFO, stream=sys.stderr)
    module = _module_of(verb)
    if (option := _empty_value(arguments)) is not None:
        print(f"alignlens {verb}: {one_line(option)}: is empty. Give it a value.", file=sys.stderr)
        return 2
    args = parser_of(verb).parse_args(arguments)
    try:
        with exit_on_error(verb, debug):
            status = _run(verb, module, args)
            sys.stdout.flush()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    return status or 0


def _module_of(verb: str) -> ModuleType:
    return importlib.import_module(f"alignlens.cli.{verb.replace('-', '_')}")


def parser_of(verb: str) -> argparse.ArgumentParser:
    """Returns the parser of a verb, whose module is imported for that."""
    parser = _Parser(
        prog=f"alignlens {verb}",
        description=VERBS[verb][0].upper() + VERBS[verb][1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(_DEBUG, action="store_true", help="show the traceback of an error")
    _module_of(verb).configure(parser)
    return parser


def _empty_value(arguments: Sequence[str]) -> str | None:
    """Returns the option that was given an empty value, usually from an unset shell variable."""
    for before, given in pairwise(["", *arguments]):
        if given == "" or (given.startswith("--") and given.endswith("=")):
            return given.rstrip("=") or before
    return None


def _run(verb: str, module: ModuleType, args: argparse.Namespace) -> int | None:
    action = getattr(args, "action", None) or getattr(args, "task", None)
    outputs: Outputs | dict[str, Outputs] = getattr(module, "OUTPUTS", Outputs())
    check_outputs(args, outputs if isinstance(outputs, Outputs) else outputs.get(str(action), Outputs()))
    made_by(f"{verb} {action}" if action else verb, step=getattr(args, "journal", None) is not None)
    if verb not in _SERVING:
        limit_memory()
    status: int | None = module.run(args)
    return status


def _flush() -> None:
    """Flushes standard output after an error; a failure has been reported already, or there is no reader."""
    try:
        sys.stdout.flush()
    except OSError:
        drop_output()


if __name__ == "__main__":
    sys.exit(main())
