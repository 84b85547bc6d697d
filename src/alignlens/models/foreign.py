"""Models from elsewhere in a configuration, known by their ``config.json`` alone, without a tensor library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from alignlens.errors import ConfigError
from alignlens.io import values
from alignlens.io.documents import read_json, taking
from alignlens.io.schema import check
from alignlens.io.typed import ONE_LINE, REQUIRED, schema_of, setting, written
from alignlens.models.families.configuration import (
    ADVICE,
    CONFIG,
    bart_settings,
    m2m100_settings,
    marian_settings,
    mbart_settings,
    t5_settings,
)
from alignlens.models.families.languages import parted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from alignlens.models.base_settings import ArchitectureSettings


@dataclass(frozen=True)
class ForeignModel:
    """A model from elsewhere, as a configuration has it."""

    huggingface: str | dict[str, str] = setting(
        REQUIRED,
        "Folder of a Marian (OPUS-MT), BART, mBART, M2M100, NLLB, T5 or mT5 model, which is used as it is "
        '(docs/models.md#in-the-pipeline): `"$ALIGNLENS_OPUS/opus-mt-{source}-{target}"`, where `{source}` and '
        "`{target}` are the languages of a direction and `$NAME` is an environment variable; or a folder for each "
        "direction, `{en-fr: FOLDER, fr-en: FOLDER}`. You can add languages: `FOLDER#eng_Latn-fra_Latn`.",
        **ONE_LINE,
    )


class Described(NamedTuple):
    """A model as described by its configuration, before its weights are read."""

    architecture: str
    settings: ArchitectureSettings
    source_begin: bool
    vocabulary: int  # pieces of the side that has more


class Family(NamedTuple):
    """A family: how ``config.json`` gives its settings, whether sources have BEGIN, the architecture it becomes."""

    settings_of: Callable[[Mapping[str, Any], Path], ArchitectureSettings]
    source_begin: bool
    architecture: str = "transformer"


#: By their name in ``config.json``.
FAMILIES = {
    "marian": Family(marian_settings, source_begin=False),
    "bart": Family(bart_settings, source_begin=True),
    "mbart": Family(mbart_settings, source_begin=True),
    "m2m_100": Family(m2m100_settings, source_begin=True),
    "t5": Family(t5_settings, source_begin=False, architecture="t5"),
    "mt5": Family(t5_settings, source_begin=False, architecture="t5"),
}


def folder_of(name: str) -> str:
    """Returns the folder of a model's name, without the languages behind it."""
    return str(parted(name)[0])


def described(folder: Path) -> Described:
    """Returns what the model of a folder on this machine is; raises if it cannot be used."""
    path = folder / CONFIG
    config = read_json(path, "Give a complete model folder of the Hugging Face hub.")
    family = config.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        kind = repr(family)[:60]
        raise ConfigError(
            f"{path}: models of type {kind} are not supported in a configuration; supported are: {', '.join(FAMILIES)}"
        )
    settings_of, source_begin, architecture = FAMILIES[family]
    with taking(path, ADVICE):
        settings = settings_of(config, path)
        sides = [key for key in ("vocab_size", "decoder_vocab_size") if config.get(key) is not None]
        vocabulary = max(values.whole(config, key, least=1) for key in sides or ["vocab_size"])
    check(written(settings), schema_of(type(settings)), f"{path}:")
    return Described(architecture, settings, source_begin, vocabulary)
