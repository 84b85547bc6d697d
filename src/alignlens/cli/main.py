"""The ``alignlens`` command: a table of verbs, one error format, honest exit codes.

A verb lives in ``alignlens.cli.<verb>`` (with ``_`` for ``-``), with ``configure(parser)`` and ``run(args)``; it is
imported only when it is called, so that a short step does not pay for libraries it does not use.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from alignlens import __version__
from alignlens.errors import AlignlensError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VERBS = {
    "score": "score links against a gold alignment (AER, precision, recall, F1, interval)",
    "score-methods": "score the links of many attribution methods at once",
    "symmetrize": "combine forward and reverse links into one alignment",
    "aligner": "train a word aligner and align text with it",
    "reference": "make reference links for a model's own translations from two aligner directions",
    "bleu": "corpus BLEU of translations, with the sacreBLEU signature",
    "data": "list, fetch, check and prepare datasets",
    "subwords": "train SentencePiece BPE and segment text with it",
    "train": "train a translation model, resumably",
    "translate": "translate text with a trained model",
    "force": "score given translations with a trained model (forced decoding)",
    "align": "align text and translation with a trained model and an attribution method",
    "attribute": "score which source pieces mattered for every target piece, by any methods",
    "cost": "measure what every method costs by itself: seconds and passes",
    "extract": "turn the scores of attribution methods into word links",
    "encoder": "measure the attention weights and norms of an encoder over a text",
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
        f"verbs:\n{rows}\n\n'alignlens VERB --help' explains a verb, with an example.\n"
    )


@contextmanager
def exit_on_error(what: str) -> Iterator[None]:
    """Turns an ``AlignlensError`` inside the block into one line on stderr and exit code 2; a bug stays a bug."""
    try:
        yield
    except AlignlensError as error:
        print(f"alignlens {what}: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print(f"alignlens {what}: stopped; the same command goes on from here", file=sys.stderr)
        sys.exit(130)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb; returns 0, 2 for what the user can fix; a bug keeps its traceback and exits with 1."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage(), end="")
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"alignlens {__version__}")
        return 0
    verb = arguments[0]
    if verb not in VERBS:
        print(f"alignlens: unknown verb {verb!r}{nearest(verb, VERBS)}; see alignlens --help", file=sys.stderr)
        return 2
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.INFO, stream=sys.stderr)
    module = importlib.import_module(f"alignlens.cli.{verb.replace('-', '_')}")
    parser = argparse.ArgumentParser(
        prog=f"alignlens {verb}",
        description=VERBS[verb][0].upper() + VERBS[verb][1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.configure(parser)
    args = parser.parse_args(arguments[1:])
    try:
        with exit_on_error(verb):
            status: int | None = module.run(args)
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone (head, less); that is no error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    return status or 0


if __name__ == "__main__":
    sys.exit(main())
