"""``alignlens calibration``: what calibration does to attention, and whether attention points at what matters."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from alignlens.attribution.settings import MEASURED_ARCHITECTURES, AttributionSettings
from alignlens.cli.about import about_of, add_about, occasion, run_name
from alignlens.cli.model_run import model_run
from alignlens.cli.paths import Outputs
from alignlens.cli.score_options import add_interval, interval_of
from alignlens.cli.trained import add_compute, add_model, add_texts, check_compute, load
from alignlens.errors import ConfigError
from alignlens.io.atomic import write_json
from alignlens.io.progress import Progress
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from alignlens.decoding.given import Given
    from alignlens.decoding.translate import TrainedModel
    from alignlens.metrics.calibration import CalibrationSums

OUTPUTS = Outputs(files=("out", "sentences"))
_STEP = "calibration"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_model(parser)
    add_texts(parser, "which the model reads as its prefix")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="write all quantities as JSON")
    parser.add_argument("--sentences", type=Path, metavar="FILE", help="write the sums of every sentence (.npz)")
    add_interval(parser)
    add_compute(parser, AttributionSettings.batch_tokens)
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens calibration --model model --source test.de --target test.en \\\n"
        "      --out calibration.json --sentences calibration.npz\n\n"
        "By layer of the decoder: entropy of attention, and Kendall's tau with the gradient of log p(label) for the\n"
        "encoder states (tau_...). Of a calibrated model also the Jensen-Shannon divergence of original and combined\n"
        "attention (jsd), the change of its entropy, the mean mask, and the loss in nats per label as it is\n"
        "(loss_clean), perturbed by the masks, and by the same masks in random order. docs/methods.md has them all."
    )


def run(args: argparse.Namespace) -> None:
    """Measures every pair, and writes and records the result."""
    check_compute(args)
    interval = interval_of(args)
    about = about_of(args)
    from alignlens.decoding.given import open_pair

    source, target = open_pair(args.source, args.target)
    from alignlens.metrics.sampled import Draws

    with Journal(args.journal) as journal:
        record = journal.run(**_identity(about), params={"weights": args.weights, **interval})
        trained = load(args)
        _check(trained)
        sums = _measured(trained, source, target, args)
        content = {**about, **_sizes(trained, sums), "interval": interval, **_quantities(sums, Draws(**interval))}
        if args.sentences:
            sums.save(args.sentences)
            record.artifact(args.sentences, folder=_STEP)
        write_json(args.out, content)
        record.artifact(args.out, folder=_STEP)
        numbers = dict(_numbers(content["quantities"]))
        record.metrics({**numbers, "sentences": content["sentences"], "steps": content["steps"]})
    print(json.dumps(content) if args.json else _table(content))


def _identity(about: dict[str, Any]) -> dict[str, Any]:
    """Returns experiment, name (``demo · xa-xb · lu_gate · s1 · calibration``), identity, tags and group."""
    common = model_run(about, "calibration")
    return {**common, "name": run_name(common["name"], occasion(about))}


def _check(trained: TrainedModel) -> None:
    if trained.spec.architecture not in MEASURED_ARCHITECTURES:
        raise ConfigError(
            f"--model {trained.folder}: calibration needs the attention of a Transformer, but this is a model of "
            f"architecture {trained.spec.architecture}. Give one of {' or '.join(MEASURED_ARCHITECTURES)}."
        )


def _measured(trained: TrainedModel, source: Given, target: Given, args: argparse.Namespace) -> CalibrationSums:
    from alignlens.attribution.calibration import calibration_of
    from alignlens.models.transformer import Transformer

    sources, targets = trained.source_ids(source), trained.target_ids(target)
    with Progress(_STEP, len(sources)) as progress:
        return calibration_of(
            cast("Transformer", trained.model),
            sources,
            targets,
            tokens=args.batch_tokens,
            source_begin=trained.spec.source_begin,
            advance=progress.advance,
        )


def _sizes(trained: TrainedModel, sums: CalibrationSums) -> dict[str, int]:
    from alignlens.models.settings import TransformerSettings

    settings = cast("TransformerSettings", trained.spec.settings)
    sizes = {"layers": settings.decoder_layers, "heads": settings.heads, "sentences": len(sums.sentences)}
    return {**sizes, "steps": int(sums.counts["loss_clean"].sum())}


def _quantities(sums: CalibrationSums, draws: Any) -> dict[str, Any]:
    """Returns means and their limits as plain data; None where unknown."""
    limits = sums.intervals(draws)
    return {
        "quantities": {
            name: {
                "mean": _plain(mean.tolist()),
                "low": _plain(limits[name][..., 0].tolist()),
                "high": _plain(limits[name][..., 1].tolist()),
            }
            for name, mean in sums.means().items()
        }
    }


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value if math.isfinite(value) else None


def _numbers(quantities: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yields all means that are known under names that MLflow takes; layers and bins are counted from 1."""
    for name, content in quantities.items():
        yield from _named(name, content["mean"], ("layer", "bin"))


def _named(name: str, value: Any, places: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    if isinstance(value, list):
        for number, each in enumerate(value, start=1):
            yield from _named(f"{name}/{places[0]} {number}", each, places[1:])
    elif value is not None:
        yield name, value


def _table(content: dict[str, Any]) -> str:
    """Returns the means as text, a line for every quantity; by layer, where it has layers."""
    lines = [f"{content['sentences']:,} sentences, {content['steps']:,} target positions"]
    for name, quantity in content["quantities"].items():
        mean = quantity["mean"] if isinstance(quantity["mean"], list) else [quantity["mean"]]
        if not any(isinstance(each, list) for each in mean):
            numbers = ("-" if each is None else f"{each:.4f}" for each in mean)
            lines.append(f"  {name:<28}" + " ".join(number.rjust(8) for number in numbers))
    return "\n".join(lines)
