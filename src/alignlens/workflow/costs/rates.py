"""What a machine does in a second: ``config/rates.yaml``. Every number must be there."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from alignlens.aligners.registry import ALIGNERS
from alignlens.errors import ConfigError
from alignlens.io.documents import read_yaml
from alignlens.io.limits import Limits
from alignlens.io.schema import check
from alignlens.io.typed import REQUIRED, read, schema_of, setting

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from alignlens.workflow.costs.sizes import Text

_POSITIVE = Limits(0, math.inf, above=True)
_NOT_NEGATIVE = Limits(0, math.inf)


@dataclass(frozen=True)
class Speed:
    """Multiply-adds per second, and seconds of every operation that has to wait for the one before it."""

    multiply_adds: float = setting(REQUIRED, "Multiply-adds per second.", _POSITIVE)
    wait: float = setting(REQUIRED, "Seconds of latency per operation that waits for the one before it.", _NOT_NEGATIVE)

    def seconds(self, multiply_adds: float, operations: float) -> float:
        """Returns how long that takes."""
        return multiply_adds / self.multiply_adds + operations * self.wait


@dataclass(frozen=True)
class AlignerRate:
    """How the time of a word aligner grows with the text, and what its stored model takes."""

    seconds: float = setting(REQUIRED, "Seconds for a pair of one word.", _POSITIVE)
    length: float = setting(REQUIRED, "Exponent of sentence length in the time.", Limits(1, math.inf))
    pairs: float = setting(REQUIRED, "Exponent of the number of pairs in the time.", _POSITIVE)
    bytes: float = setting(REQUIRED, "Bytes of the stored model per pair of words of a sentence pair.", _NOT_NEGATIVE)

    def seconds_for(self, text: Text) -> float:
        """Returns how long training takes."""
        return float(self.seconds * text.pairs**self.pairs * text.moment(self.length))

    def bytes_for(self, text: Text) -> float:
        """Returns how large the stored model is."""
        return self.bytes * text.pairs * text.moment(2)


@dataclass(frozen=True)
class StartRates:
    """Seconds before a job does anything."""

    short: float = setting(REQUIRED, "A job without models.", _POSITIVE)
    models: float = setting(REQUIRED, "A job that loads torch and a model.", _POSITIVE)


@dataclass(frozen=True)
class TextRates:
    """Seconds per million words."""

    prepare: float = setting(REQUIRED, "Reading and cleaning.", _POSITIVE)
    subwords: float = setting(REQUIRED, "Training BPE.", _POSITIVE)
    segment: float = setting(REQUIRED, "Segmenting text into pieces and ids.", _POSITIVE)


@dataclass(frozen=True)
class LinkRates:
    """Seconds per sentence, method and procedure."""

    extract: float = setting(REQUIRED, "Reading links off scores.", _POSITIVE)
    symmetrize: float = setting(REQUIRED, "Symmetrising both directions.", _POSITIVE)
    score: float = setting(REQUIRED, "Error rates with intervals of 1000 samples.", _POSITIVE)


@dataclass(frozen=True)
class Rates:
    """How fast one core is."""

    start: StartRates = setting(REQUIRED, "Seconds before a job does anything.")
    text: TextRates = setting(REQUIRED, "Seconds per million words.")
    training: dict[str, Speed] = setting(REQUIRED, "Forward and backward passes and the update, by architecture.")
    decoding: dict[str, Speed] = setting(REQUIRED, "Forced scores and beam search, by architecture.")
    attribution: dict[str, Speed] = setting(
        REQUIRED,
        "Forward passes of noisy copies, and backward passes to the source; wait is per backward pass.",
    )
    aligners: dict[str, AlignerRate] = setting(
        REQUIRED,
        "Word aligners by name, without the time of the aligner that one starts from.",
        keys=ALIGNERS,
        required=list(ALIGNERS),
    )
    links: LinkRates = setting(REQUIRED, "Seconds per sentence, method and procedure.")
    encoder: float = setting(REQUIRED, "Seconds per sequence of a pretrained encoder.", _POSITIVE)
    study: float = setting(REQUIRED, "Seconds of a study or of the report.", _POSITIVE)
    gpu: Speed = setting(REQUIRED, "Speed of a GPU in training; assumed.")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Returns the rates of a configuration folder."""
        path = folder / "rates.yaml"
        content = read_yaml(path)
        check(content, schema_of(cls), f"{path.name}:")
        return read(cls, content)

    def speed(self, work: str, architecture: str) -> Speed:
        """Returns how fast models of an architecture do some work: ``training``, ``decoding`` or ``attribution``."""
        measured: Mapping[str, Speed] = getattr(self, work)
        if architecture not in measured:
            raise ConfigError(
                f"rates.yaml: {work}.{architecture}: not measured; known: {', '.join(measured)}. "
                "Measure it with benchmarks/rates.py and add it."
            )
        return measured[architecture]

    def with_gpu(self, tflops: float) -> Self:
        """Returns the rates with a GPU that sustains this many TFLOPS."""
        return replace(self, gpu=replace(self.gpu, multiply_adds=tflops * 1e12 / 2))

    def gpu_tflops(self) -> float:
        """Returns what the GPU sustains; a multiply-add is two operations."""
        return 2 * self.gpu.multiply_adds / 1e12
