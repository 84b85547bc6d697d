"""What the studies call things: architectures, decodings, links, test sets, and the noise of the tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alignlens.attribution.registry import parse, written

ARCHITECTURES = {"fconv": "FConv", "lstm": "LSTM", "transformer": "Transformer"}
NOISY = ("smoothed_attention", "li_smoothgrad", "ding_smoothgrad")
FORCED, FREE = "forced", "free"
DEV = "dev"  # forced decoding of the dev text, on which settings are chosen
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

    def method(self, name: str, **changes: Any) -> str:
        """Returns the canonical method of that name with this noise, or with other parameters."""
        noise = {"sigma": self.sigma, "n": self.samples} if name in NOISY else {}
        parameters = ",".join(f"{key}={written(value)}" for key, value in {**noise, **changes}.items())
        return parse(f"{name},{parameters}" if parameters else name).text

    def at_sigma(self, sigma: float) -> str:
        """Returns signed saliency at a noise level; without noise one copy is enough."""
        return self.method("ding_smoothgrad", sigma=sigma) if sigma > 0 else self.method("ding_grad")


def published_pair(pair: tuple[str, str], sentences: int) -> str | None:
    """Returns the published language pair with the test set of a dataset, or None if the paper has none."""
    name, size = TEST_SETS.get(frozenset(pair), ("", 0))
    return name if name and sentences == size else None
