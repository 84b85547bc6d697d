"""``alignlens encoder``: attention weights, norms and singular values of an encoder over a text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.cli.about import about_of, add_about, run_name
from alignlens.cli.numbers import count
from alignlens.cli.paths import Outputs, check_outputs
from alignlens.cli.trained import add_compute, add_model, add_source, check_compute, load
from alignlens.encoders.files import KIND, STATISTICS, write_encoder_files
from alignlens.encoders.folders import PACKAGED
from alignlens.errors import ConfigError
from alignlens.io.atomic import check_replaceable
from alignlens.io.limits import SENTENCES, SEQUENCE_TOKENS, TRIPLES
from alignlens.io.progress import Progress
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse

    from alignlens.encoders.inputs import EncoderInput

OUTPUTS = Outputs(folders=("out",), words=("encoder",))
_TRIPLES = 20_000_000
_SMALLEST_SEQUENCE = 8


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    parser.add_argument(
        "--encoder", metavar="NAME", help=f"Hugging Face folder of the BERT family, or {', '.join(PACKAGED)}"
    )
    parser.add_argument(
        "--text", metavar="FILE", help="text with paragraphs separated by blank lines (default: Python's manual)"
    )
    add_model(parser, required=False)
    add_source(parser, more=", for --model", required=False)
    parser.add_argument("--counts", type=Path, metavar="DIR", help="token store of the model's training source")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for statistics and samples")
    parser.add_argument(
        "--sequences", type=count(SENTENCES), default=992, metavar="N", help="largest number of sequences (default 992)"
    )
    parser.add_argument(
        "--tokens",
        type=count(SEQUENCE_TOKENS),
        default=128,
        metavar="N",
        help="largest number of tokens in two paragraphs (128)",
    )
    parser.add_argument(
        "--triples",
        type=count(TRIPLES),
        default=_TRIPLES,
        metavar="N",
        help="largest number of (query, key, head) triples in a rank correlation; beyond it, sequences are "
        "sampled (20 million)",
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
    from alignlens.encoders.measured import measured

    _check(args)
    about = about_of(args)
    name = _name(args, about)
    with Journal(args.journal) as journal:
        record = journal.run(**_identity(about, name), params=_params(args))
        given = _given(args)
        with Progress("encoder", len(given.sequences), unit="sequences") as progress:
            result, points = measured(name, given, args.triples, args.batch_tokens, progress.advance)
        write_encoder_files(args.out, result, points)
        numbers = _numbers(result)
        record.metrics(numbers)
        record.artifact(args.out / STATISTICS)
    if args.json:
        print(json.dumps({**about, **numbers}))
    else:
        print("  ".join(f"{name} {value:.4g}" for name, value in numbers.items()))


def _given(args: argparse.Namespace) -> EncoderInput:
    from alignlens.encoders.inputs import huggingface_input, model_input

    if args.encoder:
        return huggingface_input(args.encoder, args.text, args.sequences, args.tokens, args.threads)
    from alignlens.decoding.given import Given

    given = Given.open(args.source)
    trained = load(args)
    if trained.spec.architecture != "transformer":
        raise ConfigError(
            f"--model {args.model}: this needs the self-attention of a Transformer; models of "
            f"architecture {trained.spec.architecture} are not supported, only transformer"
        )
    return model_input(trained, given, args.sequences, args.counts, args.weights)


def _check(args: argparse.Namespace) -> None:
    check_compute(args)
    if (args.encoder is None) == (args.model is None):
        raise ConfigError("give one encoder: --encoder NAME with --text FILE, or --model DIR with --source TEXT")
    foreign = ("source", "counts") if args.encoder else ("text",)
    for option in foreign:
        if getattr(args, option) is not None:
            raise ConfigError(f"--{option} does not go with --{'encoder' if args.encoder else 'model'}")
    if args.model and args.source is None:
        raise ConfigError("--source is missing: --model needs a tokenised text")
    for option, least in (("sequences", 1), ("tokens", _SMALLEST_SEQUENCE), ("triples", 1)):
        if getattr(args, option) < least:
            raise ConfigError(f"--{option} {getattr(args, option)}: must be at least {least}")
    if args.encoder not in PACKAGED:
        check_outputs(args, Outputs(folders=("out",)))
    check_replaceable(args.out, KIND)


def _name(args: argparse.Namespace, about: dict[str, Any]) -> str:
    """Returns the name of the encoder: as given by the job, its packaged name, or its folder."""
    if "encoder" in about:
        return str(about["encoder"])
    if args.encoder in PACKAGED:
        return str(args.encoder)
    if args.model and "model" in about:
        seed = f"s{about['seed']}" if "seed" in about else None
        parts = (about.get("dataset"), about.get("direction"), about["model"], seed)
        return " ".join(part for part in parts if part)
    return Path(args.encoder or args.model).resolve().name


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
    """Returns the statistics that can be drawn in a chart, without those that could not be computed."""
    spread, frequency = result["dispersion"], result["frequency"]
    metrics = {
        "sequences": result["facts"]["sequences"],
        "mean_cv_f": spread["transformed"]["average"]["cv"],
        "mean_cv_x": spread["inputs"]["average"]["cv"],
        **{f"spearman_{_plain_name(name)}": item["rho"] for name, item in result["correlations"].items()},
        "frequency_rho_weights": frequency["rho_weights"],
        "frequency_rho_norms": frequency["rho_norms"],
        "smallest_singular_ratio": result["singular_values"]["smallest_ratio"],
        "largest_identity_error": result["identity"]["largest_error"],
    }
    return {name: value for name, value in metrics.items() if value is not None}


def _plain_name(category: str) -> str:
    return category.strip("[]").lower()
