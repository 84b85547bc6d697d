"""The rows and columns of the published tables: architectures, methods, aligners, and what they are here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alignlens.attribution.registry import parse

ARCHITECTURES = {"fconv": "FConv", "lstm": "LSTM", "transformer": "Transformer"}
METHODS = {
    "attention": "attention",
    "smoothed_attention": "smoothed attention",
    "li_grad": "Li et al., Grad",
    "li_smoothgrad": "Li et al., SmoothGrad",
    "ding_grad": "Ding et al., Grad",
    "ding_smoothgrad": "Ding et al., SmoothGrad",
}
NOISY = ("smoothed_attention", "li_smoothgrad", "ding_smoothgrad")
SIGMAS = (0.0, 0.05, 0.15, 0.3)
FORCED, FREE = "forced", "free"
BIDIR = "bidir"
GROW_DIAG, GROW_DIAG_FINAL = "grow-diag-lilt", "grow-diag-final-lilt"
DING, KOBAYASHI = "ding", "kobayashi"

# Where the published numbers were measured: a dataset is comparable if its test set is this one.
TEST_SETS = {
    frozenset({"de", "en"}): ("de<>en", 508),
    frozenset({"fr", "en"}): ("fr<>en", 447),
    frozenset({"ro", "en"}): ("ro<>en", 248),
}
ENTROPY_PAIR, ENTROPY_DIRECTION = "de<>en", "de-en"


@dataclass(frozen=True)
class AlignerLine:
    """A row of an aligner: its published name, our run, and how both directions become one."""

    published: str
    label: str
    aligner: str = ""
    text: str = "offline"
    symmetrization: str = GROW_DIAG
    only_bidir: bool = False

    @property
    def in_paper(self) -> bool:
        """Whether the paper's table has this row."""
        return bool(self.published) and not self.only_bidir


# What the paper quotes is symmetrised without the final step, what its authors ran themselves with it.
ALIGNERS = (
    AlignerLine("fast_align_offline", "fast_align, offline", "fast_align"),
    AlignerLine(
        "fast_align_offline_final", "fast_align, offline, with final", "fast_align", "offline", GROW_DIAG_FINAL, True
    ),
    AlignerLine("fast_align_online", "fast_align, online", "fast_align", "online", GROW_DIAG_FINAL),
    AlignerLine("", "fast_align, online, without final", "fast_align", "online", GROW_DIAG, True),
    AlignerLine("giza", "GIZA++ (ours: IBM4)", "ibm4"),
    AlignerLine("giza_final", "GIZA++ (IBM4), with final", "ibm4", "offline", GROW_DIAG_FINAL, True),
    AlignerLine("zenkel2019", "Zenkel et al. 2019"),
    AlignerLine("", "eflomal", "eflomal", "offline", GROW_DIAG_FINAL),
    AlignerLine("", "eflomal, without final", "eflomal", "offline", GROW_DIAG, True),
)


@dataclass(frozen=True)
class Protocol:
    """Noise level and number of noisy copies wherever a table does not vary them."""

    sigma: float = 0.15
    samples: int = 30

    def method(self, name: str, **changes: Any) -> str:
        """Returns the canonical method of that name with this noise, or with other parameters."""
        noise = {"sigma": self.sigma, "n": self.samples} if name in NOISY else {}
        parameters = ",".join(f"{key}={_written(value)}" for key, value in {**noise, **changes}.items())
        return parse(f"{name},{parameters}" if parameters else name).text

    def at_sigma(self, sigma: float) -> str:
        """Returns signed saliency at a noise level; without noise one copy is enough."""
        return self.method("ding_smoothgrad", sigma=sigma) if sigma > 0 else self.method("ding_grad")


def _written(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def published_pair(pair: tuple[str, str], sentences: int) -> str | None:
    """Returns the published language pair with the test set of a dataset, or None if the paper has none."""
    name, size = TEST_SETS.get(frozenset(pair), ("", 0))
    return name if name and sentences == size else None
