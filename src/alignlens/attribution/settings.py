"""Settings of attribution; plain data, so that reading a configuration loads no tensor library."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from alignlens.alignment.extractions import EXTRACTIONS
from alignlens.attribution.registry import METHODS, check_architectures, parse
from alignlens.errors import ConfigError
from alignlens.io.limits import ADAPTIVE, BATCH_TOKENS, COPIES, SENTENCES, SIGMA, Limits
from alignlens.io.typed import group, setting
from alignlens.training.settings import MaskSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DECODINGS = ("forced", "free")
MEASURED_ARCHITECTURES = ("transformer", "calibrated")
"""Whose attention ``alignlens calibration`` can measure."""
_CHOSEN: dict[str, Any] = {"minItems": 1, "uniqueItems": True}


@dataclass(frozen=True)
class AttributionSettings:
    """Which targets are attributed, by which methods besides those of the studies, and how links are read off."""

    decodings: tuple[str, ...] = setting(
        DECODINGS,
        "Targets that are attributed; forced is the reference, free the model's own translation.",
        choices=DECODINGS,
        **_CHOSEN,
    )
    extractions: tuple[str, ...] = setting(
        EXTRACTIONS, "How scores of pieces become links of words.", choices=EXTRACTIONS, **_CHOSEN
    )
    methods: tuple[str, ...] = setting(
        (),
        "Methods besides those the studies need, as name or name,key=value (alignlens align --list).",
        maxItems=1000,
    )
    leave_out: tuple[str, ...] = setting(
        (),
        "Methods left out of the comparison of all methods to save time; those that are listed in methods "
        "or requested by a study stay in.",
        choices=tuple(METHODS),
        uniqueItems=True,
    )
    sigma: float = setting(
        0.15,
        "Noise of the smoothed methods, relative to the range of a sentence's vectors.",
        SIGMA._replace(above=True),
        "at that noise, nothing of the sentence is left",
    )
    samples: int = setting(
        30,
        "Noisy copies per sentence of the smoothed methods.",
        COPIES._replace(most=COPIES.most // 2),  # the plan asks what twice as many would cost
        "the error of their mean only falls with the square root of their number",
    )
    adaptive: float | None = setting(
        None, "Stop drawing copies for a target word whose link is settled up to this risk; null for never.", ADAPTIVE
    )
    batch_tokens: int = setting(
        2048,
        "Largest number of tokens in a batch, padding and noisy copies included.",
        BATCH_TOKENS,
        "a whole batch must fit in memory",
    )
    shards: int = setting(
        1, "Jobs among which the sentences of one attribution are divided.", Limits(1, 1000), "each is a separate job"
    )
    cost_sentences: int = setting(
        100,
        "Test sentences on which every method is timed by itself, for the table of methods.",
        SENTENCES,
        "each method stops after 20 seconds anyway",
    )

    masks: MaskSettings = group(
        MaskSettings, "How mask nets are trained for Transformers, where a method reads masks (alignlens masks)."
    )

    def canonical(self, where: str = "attribution") -> Self:
        """Returns the settings with methods in canonical form.

        Raises for a method that is unknown or given twice, and for impossible settings of mask training.
        """
        self.masks.trained(f"{where}.masks")
        return replace(self, methods=_canonical(self.methods, f"{where}.methods"))

    def check_models(self, architectures: Sequence[str], where: str = "attribution") -> None:
        """Raises for a method that works with none of the models of a configuration, if there are any."""
        for place, text in enumerate(self.methods if architectures else ()):
            try:
                check_architectures([parse(text)], architectures)
            except ConfigError as error:
                raise ConfigError(f"{where}.methods[{place}]: {error}") from None


def _canonical(methods: Iterable[str], where: str) -> tuple[str, ...]:
    """Returns the methods in canonical form; raises if one is given twice, however it is written."""
    found: list[str] = []
    for place, text in enumerate(methods):
        try:
            method = parse(text)
        except ConfigError as error:
            raise ConfigError(f"{where}[{place}]: {error}") from None
        if method.text in found:
            raise ConfigError(f"{where}[{place}]: {text!r} appears twice")
        found.append(method.text)
    return tuple(found)
