"""Which folder a model's name stands for: one on this machine, or a repository of the Hugging Face hub."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from alignlens.errors import ConfigError, InputError
from alignlens.io.documents import read_json
from alignlens.models.families.configuration import CONFIG
from alignlens.models.families.folder import Imported
from alignlens.models.families.languages import parted
from alignlens.models.families.registry import FAMILIES

#: The files that are read from a repository; never code.
_WANTED = ("*.json", "*.spm", "*.model", "merges.txt", "*.safetensors", "pytorch_model.bin")
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
_GIVE = "Give the folder that alignlens train wrote, a folder of the Hugging Face hub, or a name such as org/model."
#: Families of translation models that can be read, by their name in ``config.json``.
SUPPORTED = tuple(FAMILIES)


def is_foreign(folder: Path | str) -> bool:
    """Returns whether a name stands for a model from elsewhere, rather than for one of ours."""
    folder = parted(folder)[0]
    if folder.is_dir():
        return (folder / CONFIG).is_file() and not (folder / "model.json").exists()
    return not folder.exists() and _REPOSITORY.fullmatch(folder.as_posix()) is not None


def load_foreign(name: Path | str) -> tuple[Imported, Path]:
    """Returns the model that a name stands for, and its folder.

    The languages of source and target may follow the name, as ``#en-fr``, in the model's codes.
    """
    folder, languages = parted(name)
    folder = foreign_folder(folder)
    return FAMILIES[_family(folder)].load(folder, languages), folder


def foreign_folder(name: Path | str) -> Path:
    """Returns the folder of a model: as it is, from the cache of the hub, or fetched now."""
    folder = Path(name)
    if not folder.is_dir():
        folder = _fetched(folder.as_posix())
    return folder


def _family(folder: Path) -> str:
    path = folder / CONFIG
    family = read_json(path, _GIVE).get("model_type")
    if family not in SUPPORTED:
        kind = repr(family)[:60]
        raise ConfigError(f"{path}: models of type {kind} are not supported; supported are: {', '.join(SUPPORTED)}")
    return str(family)


def _fetched(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise InputError("no such folder, and huggingface_hub is not installed.", name, advice=_GIVE) from None
    wanted = list(_WANTED)
    try:
        # Once fetched, a model is read from the cache without asking the hub for updates.
        with suppress(LocalEntryNotFoundError):
            return Path(snapshot_download(name, allow_patterns=wanted, local_files_only=True))
        return Path(snapshot_download(name, allow_patterns=wanted))
    except (HfHubHTTPError, OSError, ValueError) as error:
        why = " ".join(str(error).split())[:100]
        raise InputError(
            f"no such folder here, and it could not be fetched from the hub ({why}).", name, advice=_GIVE
        ) from None
