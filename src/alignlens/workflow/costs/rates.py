"""What a machine does in a second: ``config/rates.yaml``, checked against a closed schema."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from alignlens.errors import ConfigError
from alignlens.io.documents import read_yaml
from alignlens.io.schema import check, read_schema

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from alignlens.workflow.costs.sizes import Text


@dataclass(frozen=True)
class Speed:
    """Multiply-adds per second, and seconds of every operation that has to wait for the one before it."""

    multiply_adds: float
    wait: float

    def seconds(self, multiply_adds: float, operations: float) -> float:
        """Returns how long that takes."""
        return multiply_adds / self.multiply_adds + operations * self.wait


@dataclass(frozen=True)
class AlignerRate:
    """How the time of a word aligner grows with the text, and what its stored model takes."""

    seconds: float  # of one pair of one word
    length: float  # powers
    pairs: float
    bytes: float  # per pair of words of a sentence pair

    def seconds_for(self, text: Text) -> float:
        """Returns how long training takes."""
        return float(self.seconds * text.pairs**self.pairs * text.moment(self.length))

    def bytes_for(self, text: Text) -> float:
        """Returns how large the stored model is."""
        return self.bytes * text.pairs * text.moment(2)


@dataclass(frozen=True)
class Rates:
    """The whole table; its schema says what each number is."""

    start: Mapping[str, float]
    text: Mapping[str, float]
    training: Mapping[str, Speed]
    decoding: Mapping[str, Speed]
    attribution: Mapping[str, Speed]
    aligners: Mapping[str, AlignerRate]
    links: Mapping[str, float]
    encoder: float
    study: float
    gpu: Speed

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Returns the rates of a configuration folder."""
        path = folder / "rates.yaml"
        content: dict[str, Any] = read_yaml(path)
        check(content, read_schema("rates", folder), f"{path.name}:")
        for work in ("training", "decoding", "attribution"):
            content[work] = {name: Speed(**speed) for name, speed in content[work].items()}
        content["aligners"] = {name: AlignerRate(**rate) for name, rate in content["aligners"].items()}
        return cls(**{**content, "gpu": Speed(**content["gpu"])})

    def speed(self, work: str, architecture: str) -> Speed:
        """Returns how fast models of an architecture do some work: ``training``, ``decoding`` or ``attribution``."""
        measured: Mapping[str, Speed] = getattr(self, work)
        if architecture not in measured:
            raise ConfigError(
                f"rates.yaml: {work}.{architecture}: not measured; known: {', '.join(measured)}. "
                "Add what benchmarks/rates.py finds."
            )
        return measured[architecture]

    def with_gpu(self, tflops: float) -> Self:
        """Returns the rates with a GPU that sustains so many tera floating point operations per second."""
        return replace(self, gpu=replace(self.gpu, multiply_adds=tflops * 1e12 / 2))

    def gpu_tflops(self) -> float:
        """Returns what the GPU sustains; a multiply-add is two operations."""
        return 2 * self.gpu.multiply_adds / 1e12
