"""``alignlens extract``: scores of pieces into links of words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.alignment.extraction import links_of
from alignlens.alignment.extractions import EXTRACTIONS
from alignlens.alignment.links import Alignment
from alignlens.alignment.pharaoh import write_links
from alignlens.attribution.registry import parse
from alignlens.cli.about import about_of, add_about, occasion, run_name
from alignlens.cli.model_run import model_run
from alignlens.cli.paths import Outputs
from alignlens.errors import InputError
from alignlens.io.atomic import atomic_directory, check_replaceable
from alignlens.io.matrices import Matrices
from alignlens.io.progress import Progress
from alignlens.io.text import read_parallel, words
from alignlens.metrics.entropy import corpus_entropy
from alignlens.metrics.links_folder import ENTROPY, KIND, LinksName, write_entropies, write_lengths
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse

    from numpy.typing import NDArray

    from alignlens.metrics.entropy import Entropy

    Owners = list[NDArray[np.int64]]


OUTPUTS = Outputs(folders=("out_dir",))


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "--matrices", type=Path, required=True, metavar="DIR", help="scores written by alignlens attribute"
    )
    parser.add_argument("--source-pieces", required=True, metavar="FILE", help="pieces that the model read")
    parser.add_argument("--target-pieces", required=True, metavar="FILE", help="pieces that the scores explain")
    parser.add_argument(
        "--extraction", nargs="+", choices=EXTRACTIONS, default=list(EXTRACTIONS), metavar="E", help="ding, kobayashi"
    )
    parser.add_argument("--transpose", action="store_true", help="write target-source links (for a reverse model)")
    parser.add_argument("--with-scores", action="store_true", help="write i-j:score instead of i-j")
    parser.add_argument(
        "--out-dir",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder for METHOD.EXTRACTION.pharaoh and entropies; replaced as a whole",
    )
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens extract --matrices scored --source-pieces de.bpe --target-pieces en.bpe --out-dir links"
        "\n\nding: every target piece takes its best source piece, END left out. kobayashi: scores are summed over\n"
        "the pieces of a source word and averaged over those of a target word; a word whose best is END has no link\n"
        "(docs/conventions.md)."
    )


def run(args: argparse.Namespace) -> None:
    """Writes the links of every method by every procedure, and the entropy of each method's scores."""
    about = about_of(args)
    check_replaceable(args.out_dir, KIND)
    scores = Matrices.open(args.matrices)
    begin = bool(scores.facts.get("source_begin", False))
    source, target = (_owners(lines) for lines in read_parallel(args.source_pieces, args.target_pieces))
    _check_shapes(scores, source, target, begin, args)
    with Journal(args.journal) as journal:
        record = journal.run(**_run_of(about), params={"extractions": " ".join(args.extraction)})
        with (
            atomic_directory(args.out_dir, KIND) as folder,
            Progress("extract", len(scores.names), "methods") as progress,
        ):
            entropies = {}
            for method in scores.names:
                entropies[method] = _entropy(scores, method)
                for extraction in args.extraction:
                    links = links_of(_matrices(scores, method), source, target, extraction, begin=begin)
                    if args.transpose:
                        links = links.transposed()
                    if not args.with_scores:
                        links = Alignment(links.keys, links.sentences)
                    write_links(folder / LinksName(method, extraction).file, links)
                progress.advance()
            write_entropies(folder, entropies)
            sides = (target, source) if args.transpose else (source, target)
            write_lengths(folder, *(_word_counts(side) for side in sides))
        record.metrics({"sentences": len(scores), "methods": len(scores.names)})
        record.artifact(args.out_dir / ENTROPY, folder="links")


def _run_of(about: dict[str, Any]) -> dict[str, Any]:
    run = model_run(about, "extract")
    return {**run, "name": run_name(run["name"], occasion(about))}


def _owners(lines: list[str]) -> Owners:
    """Returns which word each piece of every line belongs to; -1 where the pieces of a line spell no word."""
    # Only now: asking for help should not load the subword library.
    from alignlens.subwords.spans import word_of_piece

    return [np.array(word_of_piece(words(line)), dtype=np.int64) for line in lines]


def _word_counts(owners: Owners) -> list[int]:
    """Returns how many words every line has; the last piece belongs to the last word."""
    return [int(words_of[-1]) + 1 if len(words_of) else 0 for words_of in owners]


def _matrices(scores: Matrices, method: str) -> Any:
    return (scores.matrix(method, number) for number in range(len(scores)))


def _entropy(scores: Matrices, method: str) -> Entropy:
    spec = parse(method).spec
    try:
        return corpus_entropy(_matrices(scores, method), spec.distribution, spec.signed)
    except ValueError as error:
        raise InputError(f"{method}, {error}.", scores.folder, advice="Recreate the scores.") from None


def _check_shapes(scores: Matrices, source: Owners, target: Owners, begin: bool, args: argparse.Namespace) -> None:
    """Raises unless there is a matrix for every line, with a row and a column for every piece and END."""
    if not np.array_equal(scores.numbers, np.arange(len(scores))):
        raise InputError(
            "not all sentences: this is one shard of several.", scores.folder, advice="Gather all shards first."
        )
    if len(scores) != len(source):
        raise InputError(
            f"scores of {len(scores)} sentences, but {args.source_pieces} has {len(source)} lines.",
            scores.folder,
            advice="Give the pieces that were attributed.",
        )
    pairs = zip(target, source, strict=True)
    expected = np.array([(len(rows) + 1, len(columns) + 1 + begin) for rows, columns in pairs])
    wrong = (scores.shapes != expected).any(axis=1)
    if wrong.any():
        number = int(np.flatnonzero(wrong)[0])
        (rows, columns), (found_rows, found_columns) = expected[number].tolist(), scores.shape(number)
        side = args.source_pieces if found_rows == rows else args.target_pieces
        raise InputError(
            f"the pieces need scores of {rows} x {columns}, but {scores.folder} has {found_rows} x {found_columns}.",
            side,
            number + 1,
            "Give the pieces that were attributed.",
        )
