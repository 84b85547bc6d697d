"""Options of the verbs that use a trained translation model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.cli.numbers import count
from alignlens.decoding.settings import TranslationSettings
from alignlens.errors import ConfigError
from alignlens.io.limits import BATCH_TOKENS, THREADS
from alignlens.models.settings import architecture_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from alignlens.attribution.registry import Method
    from alignlens.decoding.translate import TrainedModel
    from alignlens.models.contract import Seq2Seq

#: With fewer weights, threads wait for each other longer than they compute; on a busy machine, for minutes.
_WORTH_SEVERAL_THREADS = 1_000_000
_OF_PRODUCTS = "threads of matrix products (default: all cores, one for a small model)"
_TEXT = "tokenised text, plain or gzip, or the token store of one"
#: The meaning of ``--threads`` in the verbs that attribute.
SHARED = "threads that share the sentences (default: all cores)"


def add_model(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """Adds the options that name a trained model."""
    parser.add_argument(
        "--model",
        type=Path,
        required=required,
        metavar="DIR",
        help="folder that alignlens train wrote, or a model of the Hugging Face hub (OPUS-MT, NLLB, ...): its folder "
        "or name, followed by # and its languages where it has several, such as #en-fr",
    )
    parser.add_argument("--weights", default="weights", metavar="NAME", help="another of its checkpoints, e.g. best")


def add_reverse(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Adds the options that name the model of the other direction; ``purpose`` is when it is needed."""
    parser.add_argument("--reverse", type=Path, metavar="DIR", help=f"the model from target to source{purpose}")
    parser.add_argument(
        "--reverse-weights", default="weights", metavar="NAME", help="another checkpoint of the reverse model"
    )


def add_masks(parser: argparse.ArgumentParser) -> None:
    """Adds --masks."""
    parser.add_argument(
        "--masks",
        type=Path,
        metavar="DIR",
        help="folder that alignlens masks wrote, for the method mask (default: masks beside the model)",
    )


def add_source(parser: argparse.ArgumentParser, more: str = "", required: bool = True) -> None:
    """Adds --source, text or a token store; ``more`` is added to the help."""
    parser.add_argument("--source", required=required, metavar="TEXT", help=f"{_TEXT}{more}")


def add_texts(parser: argparse.ArgumentParser, purpose: str, required: bool = True) -> None:
    """Adds --source and --target; ``purpose`` says how the target is used."""
    add_source(parser, required=required)
    parser.add_argument(
        "--target", required=required, metavar="TEXT", help=f"its translation (text or token store), {purpose}"
    )


def add_compute(
    parser: argparse.ArgumentParser, batch_tokens: int = TranslationSettings.batch_tokens, threads: str = _OF_PRODUCTS
) -> None:
    """Adds the options that change speed and memory, not results."""
    group = parser.add_argument_group("speed")
    group.add_argument(
        "--batch-tokens",
        type=count(BATCH_TOKENS),
        default=batch_tokens,
        metavar="N",
        help=f"largest number of tokens in a batch, padding included (default {batch_tokens})",
    )
    group.add_argument("--threads", type=count(THREADS), metavar="N", help=threads)
    group.add_argument("--json", action="store_true", help="print a summary as one JSON object")


def check_compute(args: argparse.Namespace) -> None:
    """Raises for numbers below one."""
    for option in ("batch_tokens", "threads"):
        value = getattr(args, option)
        if value is not None and value < 1:
            raise ConfigError(f"--{option.replace('_', '-')} {value}: must be at least 1")


def workers(args: argparse.Namespace) -> int:
    """Returns how many threads share the sentences of an attribution; each computes alone, so size does not matter."""
    if args.threads is not None:
        return int(args.threads)
    # The cores that this process may use; on systems that cannot tell, all cores.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load(args: argparse.Namespace) -> TrainedModel:
    """Returns the model that the options name, on a GPU if there is one, else on as many threads as they say."""
    return _loaded(args, args.model, args.weights)


def load_reverse(args: argparse.Namespace) -> TrainedModel:
    """Returns the model of the other direction, likewise."""
    return _loaded(args, args.reverse, args.reverse_weights)


def _loaded(args: argparse.Namespace, folder: Path, weights: str) -> TrainedModel:
    # Only now: loading the library takes seconds, and a wrong option or file should be reported at once.
    import torch

    from alignlens.decoding.translate import TrainedModel
    from alignlens.models.contract import parameter_count

    trained = TrainedModel.load(folder, weights)
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    elif parameter_count(trained.model) < _WORTH_SEVERAL_THREADS:
        torch.set_num_threads(1)
    trained.model.to("cuda" if torch.cuda.is_available() else "cpu")
    return trained


def masks_for(args: argparse.Namespace, trained: TrainedModel, methods: Sequence[Method]) -> Seq2Seq | None:
    """Returns the model with its mask nets, if a method reads masks and the model has none itself."""
    return masks_beside(trained, methods, args.masks)


def masks_beside(trained: TrainedModel, methods: Sequence[Method], named: Path | None = None) -> Seq2Seq | None:
    """Returns the same of a folder that is named, or of that beside the model."""
    has_masks = architecture_of(trained.spec.architecture).has_masks
    if has_masks or not any(method.spec.needs_masks for method in methods):
        return None
    from alignlens.attribution.masks import load_masks

    beside = (trained.folder / "..").resolve() / "masks"
    return load_masks(named or beside, trained)
