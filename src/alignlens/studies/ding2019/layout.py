"""The rows and columns of the published tables: methods, aligners, and what they are here."""

from __future__ import annotations

from dataclasses import dataclass

from alignlens.results.protocol import GROW_DIAG, GROW_DIAG_FINAL

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
