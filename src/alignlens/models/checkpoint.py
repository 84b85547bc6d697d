"""Weights on disk: safetensors files that check themselves, and model folders that need nothing else.

A model folder holds ``model.json`` (what it is), ``weights.safetensors`` (the checkpoint the pipeline uses),
the other checkpoints of its training, and the two SentencePiece models. Nothing in it is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from alignlens.errors import InputError
from alignlens.io.atomic import atomic_path
from alignlens.io.documents import read_json, taking
from alignlens.io.seals import verify_member
from alignlens.models.registry import build
from alignlens.models.settings import ModelSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch import Tensor, nn

    from alignlens.models.contract import Seq2Seq

FORMAT = 2
KIND = "trained model"
_CARD = "model.json"
_SYSTEM_ERROR = re.compile(r"os error (\d+)")  # how the library reports a full disk
_AGAIN = "Train the model again: alignlens train, or run the pipeline again."
_METADATA_KEY = "alignlens"  # one key only: the order of several would change from write to write


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Returns every trained tensor once, under the first of its names, detached."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def put_weights(model: nn.Module, weights: Mapping[str, Tensor], path: Path | str) -> None:
    """Copies weights into a model of the same shape; ``path`` is where they came from, for the error."""
    own = weights_of(model)
    for name in sorted(own.keys() | weights.keys()):
        expected = tuple(own[name].shape) if name in own else None
        shape = tuple(weights[name].shape) if name in weights else None
        if expected != shape:
            raise InputError(
                f"the tensor {name} is {shape or 'absent'} here, but {expected or 'absent'} in this model.",
                path,
                advice="The file belongs to a model with other settings; give the folder it was trained in.",
            )
    for name, tensor in weights.items():
        own[name].copy_(tensor)


def save_tensors(path: Path | str, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Writes tensors and plain data to one file that appears complete and carries its own checksum."""
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content = {"format": FORMAT, "about": dict(about), "sha256": _digest(on_cpu, about)}
    with atomic_path(path, seal=False) as temporary:
        try:
            save_file(on_cpu, temporary, metadata={_METADATA_KEY: json.dumps(content, sort_keys=True)})
        except SafetensorError as error:
            if (number := _SYSTEM_ERROR.search(str(error))) is None:
                raise
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None


def load_tensors(path: Path | str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Returns the tensors and the plain data of a file; raises for a damaged or foreign file."""
    path = Path(path)
    try:
        with safe_open(path, framework="pt") as file:
            content = json.loads((file.metadata() or {}).get(_METADATA_KEY, "{}"))
            if not isinstance(content, dict):
                raise ValueError("its metadata is not a mapping")
            tensors = {name: file.get_tensor(name) for name in list(file.keys())}
    except FileNotFoundError:
        raise InputError("no such checkpoint.", path, advice="Train the model first: alignlens train.") from None
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from None
    if content.get("format") != FORMAT:
        raise InputError("not a checkpoint of this version of alignlens.", path, advice="Train the model again.")
    about = content.get("about")
    if not isinstance(about, dict) or content.get("sha256") != _digest(tensors, about):
        raise _damaged(path, "its content does not match its checksum")
    return tensors, about


def average(paths: Iterable[Path]) -> dict[str, Tensor]:
    """Returns the mean of several checkpoints, summed in double precision."""
    total: dict[str, Tensor] = {}
    count = 0
    for path in paths:
        count += 1
        for name, tensor in load_tensors(path)[0].items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / count).float() for name, tensor in total.items()}


def load_model(folder: Path | str, weights: str = "weights") -> tuple[Seq2Seq, ModelSpec]:
    """Returns the model of a folder in evaluation mode, and what it is.

    ``weights`` names a checkpoint of the folder without its ending: ``best``, ``snapshots/000100``.
    """
    folder = Path(folder)
    spec = read_spec(folder)
    with taking(folder / _CARD, _AGAIN):
        model = build(spec)
    path = folder / f"{weights}.safetensors"
    if not path.is_file():
        known = sorted(file.relative_to(folder).with_suffix("").as_posix() for file in folder.rglob("*.safetensors"))
        raise InputError("no such checkpoint.", path, advice=f"The folder has: {', '.join(known) or 'none'}.")
    verify_member(folder, f"{weights}.safetensors")  # Its own checksum does not say whose it is.
    put_weights(model, load_tensors(path)[0], path)
    return model.eval(), spec


def read_spec(folder: Path | str) -> ModelSpec:
    """Returns what the model of a folder is, without its weights."""
    card = read_card(folder)
    with taking(Path(folder) / _CARD, _AGAIN):
        return ModelSpec.from_json(card["spec"])


def read_card(folder: Path | str) -> dict[str, Any]:
    """Returns ``model.json`` of a model folder."""
    path = Path(folder) / _CARD
    if not path.is_file():
        raise InputError("not a model folder.", path, advice="Give the folder that alignlens train wrote.")
    card = read_json(path, _AGAIN)
    if card.get("format") != FORMAT:
        raise InputError("not a model of this version of alignlens.", path, advice="Train the model again.")
    return card


def _digest(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> str:
    """Returns a checksum of the plain data, and of names, shapes, types and bytes of the tensors."""
    digest = hashlib.sha256(json.dumps(dict(about), sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _damaged(path: Path, why: str) -> InputError:
    return InputError(f"damaged ({' '.join(why.split())}).", path, advice="Delete it and run the same command again.")
