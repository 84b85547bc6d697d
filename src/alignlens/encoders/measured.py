"""Measurements of an encoder over a text, with the facts needed to reproduce them."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import torch

from alignlens import __version__
from alignlens.encoders.observation import observe, singular_values
from alignlens.encoders.statistics import EncoderStatistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from alignlens.encoders.inputs import EncoderInput


def measured(
    name: str, given: EncoderInput, triples: int, batch_tokens: int, advance: Callable[[int], None]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Returns the statistics, and the samples for figures; ``advance`` takes how many more sequences are done."""
    encoder, sequences = given.encoder, given.sequences
    statistics = EncoderStatistics(
        sequences, given.categories, encoder.layers, encoder.heads, given.ranks, triples=triples
    )
    for number, seen in observe(encoder, sequences, batch_tokens, advance):
        statistics.add(number, seen)
    tokens = sum(map(len, sequences))
    versions = {"alignlens": __version__, "python": platform.python_version(), "torch": str(torch.__version__)}
    facts = {
        **given.facts,
        "encoder": name,
        "layers": encoder.layers,
        "heads": encoder.heads,
        "dim": encoder.dim,
        "sequences": len(sequences),
        "tokens": tokens,
        "mean_tokens": tokens / len(sequences),
        "triples_budget": triples,
        "versions": {**versions, **given.facts.get("versions", {})},
    }
    return {**statistics.result(), "singular_values": singular_values(encoder), "facts": facts}, statistics.points()
