"""``alignlens symmetrize``: two directions into one alignment."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.alignment.pharaoh import format_lines, read_links, write_links
from alignlens.alignment.stacking import stack, unstack
from alignlens.alignment.symmetrizations import SYMMETRIZATIONS
from alignlens.alignment.symmetrize import symmetrize
from alignlens.cli.about import about_of, add_about, occasion, run_name
from alignlens.cli.paths import Outputs, check_outputs, refuse_same
from alignlens.errors import ConfigError, InputError
from alignlens.io.atomic import atomic_directory
from alignlens.io.progress import Progress
from alignlens.io.text import check_equal_counts
from alignlens.metrics.links_folder import KIND, SUFFIX, links_files, read_lengths, write_lengths
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse

    from alignlens.alignment.links import Alignment
    from alignlens.metrics.links_folder import Lengths
    from alignlens.tracking.journal import Run

OUTPUTS = Outputs(files=("out",), places=("out_dir",))
_SENTENCES_AT_ONCE = 100_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument("--forward", metavar="FILE", help="links of the source-target model (i-j, i = source)")
    parser.add_argument(
        "--reverse", metavar="FILE", help="links of the target-source model, also written source-target"
    )
    parser.add_argument("--forward-dir", type=Path, metavar="DIR", help="folder of such links: every X.pharaoh in it")
    parser.add_argument(
        "--reverse-dir", type=Path, metavar="DIR", help="folder with the same files of the target-source model"
    )
    parser.add_argument("--flip-reverse", action="store_true", help="reverse links are target-source: turn them around")
    parser.add_argument(
        "--method", required=True, nargs="+", choices=SYMMETRIZATIONS, metavar="M", help=", ".join(SYMMETRIZATIONS)
    )
    parser.add_argument("--out", type=Path, help="file for the links of one method (default: standard output)")
    parser.add_argument(
        "--out-dir",
        type=Path,
        help="folder for METHOD.pharaoh of every method; with folders: for X.METHOD.pharaoh, replaced as a whole",
    )
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens symmetrize --forward de-en.pharaoh --reverse en-de.pharaoh --method grow-diag-final-and"
        "\n  alignlens symmetrize --forward-dir de-en --reverse-dir en-de --method grow-diag-lilt --out-dir bidir"
        "\n\nMethods ending in -lilt add a final link only if both words are free (see docs/conventions.md)."
    )


def run(args: argparse.Namespace) -> None:
    """Writes the combination of two links files, or of two folders of them, by one or several methods."""
    _check(args)
    about = about_of(args)
    with Journal(args.journal) as journal:
        # Errors in the files are reported before a run is recorded.
        pairs = _pairs(args.forward_dir, args.reverse_dir) if args.forward_dir else []
        both = None if args.forward_dir else _read(args.forward, args.reverse, args.flip_reverse)
        record = journal.run(**_run_of(about), params={"methods": " ".join(args.method)})
        if both is None:
            _write_folder(pairs, args, record)
        else:
            _write_file(*both, args, record)


def _run_of(about: dict[str, Any]) -> dict[str, Any]:
    seed = f"s{about['seed']}" if "seed" in about else None
    made_by = " ".join(filter(None, (about.get("aligner"), about.get("text"))))
    return {
        "experiment": "symmetrize",
        "name": run_name(about.get("dataset"), made_by, about.get("model"), seed, occasion(about)),
        "identity": about,
        "tags": {key: str(value) for key, value in about.items()},
        "group": about.get("dataset"),
    }


def _check(args: argparse.Namespace) -> None:
    files = [option is not None for option in (args.forward, args.reverse)]
    folders = [option is not None for option in (args.forward_dir, args.reverse_dir)]
    if (all(files), any(folders)) != (True, False) and (all(folders), any(files)) != (True, False):
        raise ConfigError("give --forward and --reverse, or --forward-dir and --reverse-dir")
    if args.out is not None and args.out_dir is not None:
        raise ConfigError("--out and --out-dir exclude each other")
    if len(args.method) > 1 and args.out_dir is None:
        raise ConfigError("several methods need --out-dir")
    if any(folders) and args.out_dir is None:
        raise ConfigError("folders of links need --out-dir")
    if any(folders):
        check_outputs(args, Outputs(folders=("out_dir",)))
    elif args.out_dir is not None:
        read = [(name, Path(getattr(args, name))) for name in ("forward", "reverse")]
        for method in args.method:
            refuse_same("--out-dir", args.out_dir / f"{method}{SUFFIX}", read)


def _read(
    forward: Path | str, reverse: Path | str, flip: bool, lengths: Lengths | None = None
) -> tuple[Alignment, Alignment]:
    source, target = lengths or (None, None)
    first = read_links(forward, 0, source, target)
    second = read_links(reverse, 0, *((target, source) if flip else (source, target)))
    check_equal_counts([forward, reverse], [len(first), len(second)])
    return first, second.transposed() if flip else second


def _write_file(forward: Alignment, reverse: Alignment, args: argparse.Namespace, record: Run) -> None:
    for method in args.method:
        links = symmetrize(forward, reverse, method)
        record.metric(f"links_{method}", links.keys.size)
        if args.out_dir is not None:
            write_links(args.out_dir / f"{method}{SUFFIX}", links)
        elif args.out is not None:
            write_links(args.out, links)
        else:
            sys.stdout.writelines(f"{line}\n" for line in format_lines(links))


def _pairs(forward: Path, reverse: Path) -> list[tuple[Path, Path]]:
    """Returns the files of the same name in two folders; raises if one of them lacks a file."""
    names = [{path.name for path in links_files(folder)} for folder in (forward, reverse)]
    if alone := sorted(names[0] ^ names[1]):
        missing = (reverse if alone[0] in names[0] else forward) / alone[0]
        raise InputError(
            "no such file, although the other direction has one.", missing, advice="Extract both with the same options."
        )
    return [(forward / name, reverse / name) for name in sorted(names[0])]


def _lengths(args: argparse.Namespace) -> Lengths | None:
    """Returns the lengths of the sentences, on which both folders must agree."""
    forward, reverse = read_lengths(args.forward_dir), read_lengths(args.reverse_dir)
    if reverse is not None and args.flip_reverse:
        reverse = (reverse[1], reverse[0])
    if forward is not None and reverse is not None and forward != reverse:
        raise InputError(
            f"has links for other sentences than {args.forward_dir}.",
            args.reverse_dir,
            advice="Extract both with the same options.",
        )
    return forward or reverse


def _write_folder(pairs: list[tuple[Path, Path]], args: argparse.Namespace, record: Run) -> None:
    lengths = _lengths(args)
    with atomic_directory(args.out_dir, KIND) as folder, Progress("symmetrize", len(pairs), "files") as progress:
        waiting: dict[str, tuple[Alignment, Alignment]] = {}
        for place, (forward, reverse) in enumerate(pairs, start=1):
            waiting[forward.name.removesuffix(SUFFIX)] = _read(forward, reverse, args.flip_reverse, lengths)
            # Many files at once take hardly longer than one.
            if place == len(pairs) or sum(len(both[0]) for both in waiting.values()) >= _SENTENCES_AT_ONCE:
                _write_symmetrised(folder, waiting, args.method)
                progress.advance(len(waiting))
                waiting = {}
        if lengths is not None:
            write_lengths(folder, *lengths)
    record.metrics({"files": len(pairs) * len(args.method)})


def _write_symmetrised(folder: Path, links: dict[str, tuple[Alignment, Alignment]], methods: list[str]) -> None:
    forward, reverse = (stack([both[side] for both in links.values()]) for side in (0, 1))
    sizes = [len(both[0]) for both in links.values()]
    for method in methods:
        for name, links_of_file in zip(links, unstack(symmetrize(forward, reverse, method), sizes), strict=True):
            write_links(folder / f"{name}.{method}{SUFFIX}", links_of_file)
