"""``alignlens cost``: seconds and passes of every attribution method by itself."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens import __version__
from alignlens.attribution.registry import check_architectures, parse_all
from alignlens.attribution.settings import AttributionSettings
from alignlens.cli.about import about_of, add_about
from alignlens.cli.attribute import add_adaptive, check_adaptive
from alignlens.cli.model_run import model_run
from alignlens.cli.numbers import count, real
from alignlens.cli.paths import Outputs
from alignlens.cli.trained import add_compute, add_masks, add_model, add_texts, check_compute, load, masks_for, workers
from alignlens.errors import ConfigError
from alignlens.io.atomic import write_json
from alignlens.io.limits import SECONDS, SENTENCES
from alignlens.io.progress import Progress
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse

    from alignlens.attribution.registry import Method
    from alignlens.corpora.tokens import TokenStore
    from alignlens.decoding.translate import TrainedModel
    from alignlens.models.contract import Seq2Seq

OUTPUTS = Outputs(files=("out",))
_SENTENCES = AttributionSettings.cost_sentences
_SECONDS = 20.0
_MEASURED = ("seconds_per_100", "forward_passes", "backward_passes", "sentences")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_model(parser)
    add_masks(parser)
    add_texts(parser, "which is explained")
    parser.add_argument(
        "--methods", nargs="+", required=True, metavar="M", help="name or name,key=value (alignlens align --list)"
    )
    parser.add_argument(
        "--sentences",
        type=count(SENTENCES),
        default=_SENTENCES,
        metavar="N",
        help=f"number of pairs, evenly spaced (default {_SENTENCES})",
    )
    parser.add_argument(
        "--seconds",
        type=real(SECONDS),
        default=_SECONDS,
        metavar="S",
        help=f"stop each method after this time, finishing its current sentences (default {_SECONDS:g})",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result as JSON to this file")
    add_adaptive(parser)
    add_compute(
        parser,
        AttributionSettings.batch_tokens,
        threads="threads that share the sentences (default: 1, so that results are comparable)",
    )
    parser.set_defaults(threads=1)
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens cost --model model --source test.de --target test.en --methods attention ding_grad\n\n"
        "Every method runs alone, after a warm-up; alignlens attribute shares passes between methods and so takes\n"
        "less than their sum. Keep the machine free of other work."
    )


def run(args: argparse.Namespace) -> None:
    """Measures the methods one after the other, and prints, writes and records the result."""
    check_compute(args)
    check_adaptive(args.adaptive)
    for option in ("sentences", "seconds"):
        if not getattr(args, option) > 0:
            raise ConfigError(f"--{option} {getattr(args, option):g}: must be more than 0")
    about = about_of(args)
    methods = parse_all(args.methods)
    from alignlens.decoding.given import open_pair

    source, target = open_pair(args.source, args.target)
    with Journal(args.journal) as journal:
        params = {"weights": args.weights, "methods": len(methods), "sentences": args.sentences}
        record = journal.run(**_identity(about), params=params)
        trained = load(args)
        check_architectures(methods, [trained.spec.architecture])
        masks = masks_for(args, trained, methods)
        texts = trained.source_ids(source), trained.target_ids(target)
        result = {**about, **_facts(args, trained), "methods": _measured(args, trained, masks, texts, methods)}
        if args.out:
            write_json(args.out, result)
            record.artifact(args.out)
        record.metrics(
            {f"{name} {_plain(row['method'])}": row[name] for row in result["methods"] for name in _MEASURED}
        )
    if args.json:
        print(json.dumps(result, ensure_ascii=False))
    elif not args.out:
        _print(result["methods"])


def _measured(
    args: argparse.Namespace,
    trained: TrainedModel,
    masks: Seq2Seq | None,
    texts: tuple[TokenStore, TokenStore],
    methods: list[Method],
) -> list[dict[str, Any]]:
    from alignlens.attribution.cost import measure

    count = min(args.sentences, len(texts[0]))
    source, target = ([text[k * len(text) // count] for k in range(count)] for text in texts)
    rows = []
    with Progress("cost", count * len(methods)) as progress:
        for method in methods:
            cost = measure(
                trained.model,
                source,
                target,
                method,
                args.seconds,
                advance=progress.advance,
                tokens=args.batch_tokens,
                source_begin=trained.spec.source_begin,
                adaptive=args.adaptive,
                workers=workers(args),
                masks=masks,
            ).as_json()
            rows.append({"method": method.text, "name": method.name, **cost})
            progress.advance(count - int(cost["sentences"]))  # passes it had no time for
    return rows


def _facts(args: argparse.Namespace, trained: TrainedModel) -> dict[str, Any]:
    """Returns the facts besides the model that the seconds depend on."""
    import torch

    from alignlens.attribution.gradients.compiled import library

    compiled = library()
    return {
        "weights": args.weights,
        "threads": args.threads,
        "device": next(trained.model.parameters()).device.type,
        "adaptive": args.adaptive,
        "batch_tokens": args.batch_tokens,
        "sentences": args.sentences,
        "seconds": args.seconds,
        "compiled_steps": None if compiled is None else Path(compiled._name).name.partition(".")[0],
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "versions": {"alignlens": __version__, "python": platform.python_version(), "torch": torch.__version__},
    }


def _identity(about: dict[str, Any]) -> dict[str, Any]:
    """Returns the run's name (``demo · xa-xb · transformer · s1 · cost``) among those of scored methods."""
    return {**model_run(about, "cost"), "experiment": "attribution", "identity": {**about, "step": "cost"}}


def _plain(method: str) -> str:
    """Returns a method spelled with characters that are allowed in metric names."""
    return method.replace(",", " ").replace("=", " ")


def _print(rows: list[dict[str, Any]]) -> None:
    width = max(len("method"), *(len(row["method"]) for row in rows))
    print(f"{'method':<{width}}  seconds per 100  forward  backward  sentences")
    for row in rows:
        print(
            f"{row['method']:<{width}}  {row['seconds_per_100']:>15.3f}  {row['forward_passes']:>7.1f}  "
            f"{row['backward_passes']:>8.1f}  {row['sentences']:>9}"
        )
