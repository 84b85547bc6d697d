"""Names in tables: architectures, links, test sets; and the noise of the tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignlens.attribution.registry import METHODS, parse, written
from alignlens.io import values
from alignlens.io.limits import RESAMPLES

if TYPE_CHECKING:
    from collections.abc import Mapping

ARCHITECTURES = {"fconv": "FConv", "lstm": "LSTM", "transformer": "Transformer"}
BIDIR = "bidir"
GROW_DIAG, GROW_DIAG_FINAL = "grow-diag-lilt", "grow-diag-final-lilt"
DING, KOBAYASHI = "ding", "kobayashi"

# Where the published numbers were measured: a dataset is comparable if its test set is this one.
TEST_SETS = {
    frozenset({"de", "en"}): ("de<>en", 508),
    frozenset({"fr", "en"}): ("fr<>en", 447),
    frozenset({"ro", "en"}): ("ro<>en", 248),
}


@dataclass(frozen=True)
class Protocol:
    """Noise level and number of noisy copies wherever a table does not vary them."""

    sigma: float = 0.15
    samples: int = 30

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Protocol:
        """Returns the protocol of plain data; raises ValueError, KeyError or TypeError for anything else."""
        return cls(float(values.number(content, "sigma", 0)), values.whole(content, "samples", least=1))

    def method(self, name: str, **changes: Any) -> str:
        """Returns the canonical method of that name with this noise if it draws any, or with other parameters."""
        noise = {"sigma": self.sigma, "n": self.samples} if "sigma" in METHODS[name].parameters else {}
        parameters = ",".join(f"{key}={written(value)}" for key, value in {**noise, **changes}.items())
        return parse(f"{name},{parameters}" if parameters else name).text

    def at_sigma(self, sigma: float) -> str:
        """Returns signed saliency at a noise level; without noise one copy is enough."""
        return self.method("ding_smoothgrad", sigma=sigma) if sigma > 0 else self.method("ding_grad")


def published_pair(pair: tuple[str, str], sentences: int) -> str | None:
    """Returns the published language pair with the test set of a dataset, or None if the paper has none."""
    name, size = TEST_SETS.get(frozenset(pair), ("", 0))
    return name if name and sentences == size else None


def interval_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns level, samples and seed of the interval in a file; empty if one of them is missing."""
    interval = values.mapping(content, "interval") if "interval" in content else {}
    if not {"level", "samples", "seed"} <= interval.keys():
        return {}
    level = float(values.number(interval, "level", 0, 100))
    samples = values.whole(interval, "samples", least=1, most=int(RESAMPLES.most))
    return {"level": level, "samples": samples, "seed": values.whole(interval, "seed")}
