"""``alignlens model``: models from elsewhere as model folders, and models of ours for others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.cli.about import about_of, add_about
from alignlens.cli.actions import add_actions
from alignlens.cli.model_run import model_run
from alignlens.cli.paths import Outputs
from alignlens.cli.trained import add_model
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse

OUTPUTS = {"import": Outputs(folders=("out",)), "export": Outputs(folders=("out",))}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the two actions."""
    actions = {
        "import": (
            "Write a model folder of alignlens from a Marian, BART, mBART, M2M100, NLLB, T5 or mT5 model: its folder "
            "or its name on the hub, followed by # and its languages where needed, such as #en-fr. "
            "Verbs can also read such models directly; an imported folder is sealed and self-contained.",
            "alignlens model import --model opus-mt-en-fr --out models/en-fr",
        ),
        "export": (
            "Write a Marian folder from an alignlens Transformer. The library transformers can load it and translate "
            "with it.",
            "alignlens model export --model results/demo/models/demo/xa-xb/transformer/1/model --out xa-xb",
        ),
    }
    parser.epilog = f"example:\n  {actions['export'][1]}"
    parsers = add_actions(parser, actions)
    for action in parsers.values():
        add_model(action)
        action.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write")
    add_about(parsers["import"])


def run(args: argparse.Namespace) -> None:
    """Reads a model and writes it in the other form."""
    from alignlens.decoding.exchange import export_model
    from alignlens.decoding.translate import TrainedModel

    if args.action == "import":
        _import(args)
    else:
        export_model(TrainedModel.load(args.model, args.weights), args.out)


def _import(args: argparse.Namespace) -> None:
    """Writes the model folder, and records what it is."""
    about = about_of(args)
    from alignlens.decoding.exchange import import_model
    from alignlens.decoding.translate import TrainedModel
    from alignlens.models.contract import parameter_count

    with Journal(args.journal) as journal:
        trained = TrainedModel.load(args.model, args.weights)
        sizes = {**trained.spec.as_json()["settings"], "parameters": parameter_count(trained.model)}
        record = journal.run(**model_run(about, "import models"), params={"folder": str(args.model), **sizes})
        import_model(trained, args.out)
        record.artifact(args.out / "model.json")
