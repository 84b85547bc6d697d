"""``alignlens encoder``: attention weights, norms and singular values of an encoder over a text."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens import __version__
from alignlens.cli.about import about_of, add_about, run_name
from alignlens.cli.encoder_input import encoder_name, huggingface_input, model_input
from alignlens.cli.numbers import count
from alignlens.cli.paths import Outputs, check_outputs
from alignlens.cli.trained import add_compute, add_model, add_source, check_compute
from alignlens.encoders.files import KIND, POINTS, STATISTICS
from alignlens.encoders.folders import PACKAGED
from alignlens.errors import ConfigError
from alignlens.io.atomic import atomic_directory, check_replaceable, write_json
from alignlens.io.limits import SENTENCES, SEQUENCE_TOKENS, TRIPLES
from alignlens.io.progress import Progress
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse

    from numpy.typing import NDArray

    from alignlens.cli.encoder_input import EncoderInput

OUTPUTS = Outputs(folders=("out",), words=("encoder",))
_TRIPLES = 20_000_000
_SMALLEST_SEQUENCE = 8


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "--encoder", metavar="NAME", help=f"Hugging Face folder of the BERT family, or {', '.join(PACKAGED)}"
    )
    parser.add_argument("--text", metavar="FILE", help="paragraphs between blank lines (default: Python's manual)")
    add_model(parser, required=False)
    add_source(parser, more=", for --model", required=False)
    parser.add_argument("--counts", type=Path, metavar="DIR", help="token store of the model's training source")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for statistics and samples")
    parser.add_argument(
        "--sequences", type=count(SENTENCES), default=992, metavar="N", help="most sequences (default 992)"
    )
    parser.add_argument(
        "--tokens", type=count(SEQUENCE_TOKENS), default=128, metavar="N", help="most tokens of two paragraphs (128)"
    )
    parser.add_argument(
        "--triples",
        type=count(TRIPLES),
        default=_TRIPLES,
        metavar="N",
        help="most (query, key, head) triples of a rank correlation; more are sampled by sequence (20 million)",
    )
    add_compute(parser, batch_tokens=1024)
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens encoder --encoder minilm --out minilm\n"
        "  alignlens encoder --model model --source test.de --counts train.source --out encoder\n\n"
        "Sequences are two paragraphs each, [CLS] p1 [SEP] p2 [SEP], or one sentence for a translation model."
    )


def run(args: argparse.Namespace) -> None:
    """Writes the statistics of an encoder, and records them."""
    _check(args)
    about = about_of(args)
    name = encoder_name(args, about)
    with Journal(args.journal) as journal:
        record = journal.run(**_identity(about, name), params=_params(args))
        given = huggingface_input(args) if args.encoder else model_input(args)
        result, points = _measured(name, given, args)
        _write(args.out, result, points)
        numbers = _numbers(result)
        record.metrics(numbers)
        record.artifact(args.out / STATISTICS)
    if args.json:
        print(json.dumps({**about, **numbers}))
    else:
        print("  ".join(f"{name} {value:.4g}" for name, value in numbers.items()))


def _check(args: argparse.Namespace) -> None:
    check_compute(args)
    if (args.encoder is None) == (args.model is None):
        raise ConfigError("name one encoder: --encoder NAME with --text FILE, or --model DIR with --source TEXT")
    foreign = ("source", "counts") if args.encoder else ("text",)
    for option in foreign:
        if getattr(args, option) is not None:
            raise ConfigError(f"--{option} does not go with --{'encoder' if args.encoder else 'model'}")
    if args.model and args.source is None:
        raise ConfigError("--source missing; --model reads a tokenised text")
    for option, least in (("sequences", 1), ("tokens", _SMALLEST_SEQUENCE), ("triples", 1)):
        if getattr(args, option) < least:
            raise ConfigError(f"--{option} {getattr(args, option)}: must be at least {least}")
    if args.encoder not in PACKAGED:
        check_outputs(args, Outputs(folders=("out",)))
    check_replaceable(args.out, KIND)


def _measured(
    name: str, given: EncoderInput, args: argparse.Namespace
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Returns the statistics with the facts of their making, and the samples for figures."""
    import torch

    from alignlens.encoders.observation import observe, singular_values
    from alignlens.encoders.statistics import EncoderStatistics

    encoder, sequences = given.encoder, given.sequences
    statistics = EncoderStatistics(
        sequences, given.categories, encoder.layers, encoder.heads, given.ranks, triples=args.triples
    )
    with Progress("encoder", len(sequences), unit="sequences") as progress:
        for number, seen in observe(encoder, sequences, args.batch_tokens, progress.advance):
            statistics.add(number, seen)
    tokens = sum(map(len, sequences))
    versions = {"alignlens": __version__, "python": platform.python_version(), "torch": str(torch.__version__)}
    facts = {
        **given.facts,
        "encoder": name,
        "layers": encoder.layers,
        "heads": encoder.heads,
        "dim": encoder.dim,
        "sequences": len(sequences),
        "tokens": tokens,
        "mean_tokens": tokens / len(sequences),
        "triples_budget": args.triples,
        "versions": {**versions, **given.facts.get("versions", {})},
    }
    return {**statistics.result(), "singular_values": singular_values(encoder), "facts": facts}, statistics.points()


def _write(folder: Path, result: dict[str, Any], points: dict[str, NDArray[Any]]) -> None:
    import numpy as np

    with atomic_directory(folder, KIND) as temporary:
        write_json(temporary / STATISTICS, result)
        with (temporary / POINTS).open("wb") as file:
            np.savez(file, **points)  # type: ignore[arg-type]


def _identity(about: dict[str, Any], encoder: str) -> dict[str, Any]:
    """Returns experiment, name (``demo · minilm · norms``), identity, tags and group."""
    seed = f"s{about['seed']}" if "seed" in about else None
    identity = {**about, "encoder": about.get("encoder", encoder)}
    name = run_name(
        about.get("dataset"), about.get("direction"), about.get("model", identity["encoder"]), seed, "norms"
    )
    return {
        "experiment": "encoders",
        "name": name,
        "identity": identity,
        "tags": {"step": "encoder", **{key: str(value) for key, value in identity.items()}},
        "group": about.get("dataset"),
    }


def _params(args: argparse.Namespace) -> dict[str, Any]:
    names = ("sequences", "tokens", "triples", "batch_tokens")
    return {**{name: getattr(args, name) for name in names}, "text": str(args.text or args.source or "manual")}


def _numbers(result: dict[str, Any]) -> dict[str, float]:
    """Returns what of the statistics can be drawn in a chart, without what could not be computed."""
    spread, frequency = result["dispersion"], result["frequency"]
    found = {
        "sequences": result["facts"]["sequences"],
        "mean_cv_f": spread["transformed"]["average"]["cv"],
        "mean_cv_x": spread["inputs"]["average"]["cv"],
        **{f"spearman_{_plain_name(name)}": item["rho"] for name, item in result["correlations"].items()},
        "frequency_rho_weights": frequency["rho_weights"],
        "frequency_rho_norms": frequency["rho_norms"],
        "smallest_singular_ratio": result["singular_values"]["smallest_ratio"],
        "largest_identity_error": result["identity"]["largest_error"],
    }
    return {name: value for name, value in found.items() if value is not None}


def _plain_name(category: str) -> str:
    return category.strip("[]").lower()
