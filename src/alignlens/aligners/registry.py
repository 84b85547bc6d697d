"""The word aligners by name. Loading this module loads no aligner library."""

from __future__ import annotations

from dataclasses import dataclass

from alignlens.errors import ConfigError, unknown_name

LIBRARY = "sil-thot"


@dataclass(frozen=True)
class AlignerSpec:
    """What the rest of the project needs to know about an aligner before it runs."""

    name: str
    title: str
    paper: str
    parent: str | None
    """The aligner whose trained model this one starts from."""


ALIGNERS = {
    spec.name: spec
    for spec in (
        AlignerSpec("fast_align", "fast_align", "Dyer, Chahuneau and Smith 2013", None),
        AlignerSpec("ibm1", "IBM model 1", "Brown et al. 1993", None),
        AlignerSpec("hmm", "HMM", "Vogel, Ney and Tillmann 1996", "ibm1"),
        AlignerSpec("ibm4", "IBM model 4 (GIZA++)", "Brown et al. 1993; Och and Ney 2003", "hmm"),
        AlignerSpec("eflomal", "eflomal", "Östling and Tiedemann 2016", None),
    )
}
TEXTS = ("offline", "online")
"""offline: the text to align is part of the training text; online: it is not."""


def spec_of(name: str) -> AlignerSpec:
    """Returns the aligner of that name."""
    if name not in ALIGNERS:
        raise ConfigError(unknown_name("aligner", name, ALIGNERS))
    return ALIGNERS[name]
