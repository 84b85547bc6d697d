"""``alignlens masks``: train mask nets for a Transformer that stays as it is; the method ``mask`` reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.cli.about import about_of, add_about
from alignlens.cli.numbers import count, seed
from alignlens.cli.paths import Outputs
from alignlens.cli.train import Task, carry_out
from alignlens.cli.trained import add_model, add_texts
from alignlens.errors import ConfigError
from alignlens.io.documents import read_json_option
from alignlens.io.limits import THREADS
from alignlens.io.schema import check
from alignlens.io.typed import read, schema_of
from alignlens.training.settings import MaskSettings

if TYPE_CHECKING:
    import argparse

    from alignlens.models.settings import ModelSpec
    from alignlens.training.loop import Training
    from alignlens.training.masks import MaskTraining
    from alignlens.training.processes import Processes

OUTPUTS = Outputs(folders=("out", "work"))
_REPORTED = ("dev_mask", "dev_clean_loss", "dev_perturbed_loss", "dev_shuffled_loss")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_model(parser)
    add_texts(parser, "to learn from")
    dev = parser.add_argument_group(
        "text to measure on (default: the last tenth of the pairs, at most 500, which is held out)"
    )
    dev.add_argument("--dev-source", metavar="TEXT", help="tokenised text, plain or gzip, or the token store of one")
    dev.add_argument("--dev-target", metavar="TEXT", help="its translation")
    parser.add_argument(
        "--settings",
        default="{}",
        metavar="JSON",
        help="JSON with alpha, updates, mask_input, training (docs/models.md)",
    )
    parser.add_argument("--seed", type=seed, default=1, help="seed of weights and order (default 1)")
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="resumable state; removed at the end")
    parser.add_argument("--threads", type=count(THREADS), help="CPU threads of a process (default: training.threads)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the masks")
    parser.add_argument("--json", action="store_true", help="print the measurements as one JSON object")
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens masks --model transformer/model --source train.de --target train.en \\\n"
        "      --work transformer/masks.work --out transformer/masks\n"
        "  alignlens align --model transformer/model --method mask --source text.de --target text.en\n\n"
        "A folder named masks beside the model is used without --masks.\n"
        "Ctrl-C and SIGTERM finish the update, save and exit. The same command continues, even after kill -9."
    )


def run(args: argparse.Namespace) -> None:
    """Trains mask nets from wherever the work folder is to the end, then writes their folder."""
    settings = _settings(args)
    about = about_of(args)
    if (args.dev_source is None) != (args.dev_target is None):
        raise ConfigError("--dev-source and --dev-target go together; give both or neither")
    asked = _asked(args)
    asked.check()
    measured: dict[str, Any] = {}

    def assembled(processes: Processes) -> tuple[Training, ModelSpec]:
        return asked.assembled(settings, args.seed, processes)

    def written(training: Training, spec: ModelSpec) -> None:
        asked.finish(args.out, training, spec)
        values = training.history[-1]["values"]
        measured.update({"updates": training.progress.update, **{name: values[name] for name in _REPORTED}})

    task = Task(
        assembled,
        written,
        experiment="train masks",
        before=asked.write_text,
        after=asked.remove_text,
        step="masks",
    )
    carry_out(args, about, args.threads or settings.trained().threads, task)
    if args.json and measured:
        print(json.dumps(measured))


def _settings(args: argparse.Namespace) -> MaskSettings:
    content = read_json_option("--settings", args.settings)
    check(content, schema_of(MaskSettings), "--settings")
    settings = read(MaskSettings, content)
    settings.trained("--settings")
    return settings


def _asked(args: argparse.Namespace) -> MaskTraining:
    from alignlens.decoding.given import open_pair
    from alignlens.training.masks import MaskTraining

    texts = open_pair(args.source, args.target)
    dev = None if args.dev_source is None else open_pair(args.dev_source, args.dev_target)
    return MaskTraining(args.model, args.weights, texts, dev, args.work)
