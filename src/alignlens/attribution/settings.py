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
        "`forced`: the reference translation is attributed; `free`: the model's own, scored against fast_align "
        "(online, trained for it if `aligners` has none).",
        choices=DECODINGS,
        **_CHOSEN,
    )
    extractions: tuple[str, ...] = setting(
        EXTRACTIONS, "How scores of pieces become links of words (docs/conventions.md).", choices=EXTRACTIONS, **_CHOSEN
    )
    methods: tuple[str, ...] = setting(
        (),
        "Methods besides those that the studies need: `attention,layer=0,head=2`, `ding_smoothgrad,n=100`. "
        "`alignlens align --list` shows all names and parameters. On a dataset without gold links only these run, "
        "and they end in links.",
        maxItems=1000,
    )
    leave_out: tuple[str, ...] = setting(
        (),
        "Methods to leave out of the comparison of all methods because they take too long: "
        "`[integrated_gradients]`. This does not affect methods that a study asks for or that "
        "`attribution.methods` names, so you can list `integrated_gradients,n=4` there instead.",
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
        "Noisy copies of the smoothed methods; time grows with them.",
        COPIES._replace(most=COPIES.most // 2),  # the plan asks what twice as many would cost
        "the error of their mean only falls with the square root of their number",
    )
    adaptive: float | None = setting(
        None,
        "A risk such as `0.01`: a target word draws no more copies once its link is settled up to this risk. "
        "Faster; entropies and scores then come from fewer copies.",
        ADAPTIVE,
    )
    batch_tokens: int = setting(
        2048,
        "Most padded tokens of a batch, noisy copies included; lower it if memory runs out.",
        BATCH_TOKENS,
        "a whole batch must fit in memory",
    )
    shards: int = setting(
        1,
        "Number of jobs among which the sentences of an attribution are divided, for a cluster. Results are the "
        "same bytes.",
        Limits(1, 1000),
        "each is a separate job",
    )
    cost_sentences: int = setting(
        100,
        "Number of evenly spaced test sentences on which every method is timed separately, for seconds and passes "
        "in `report/methods.*`. A method stops after 20 seconds, however many sentences it has done.",
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
    names: list[str] = []
    for place, text in enumerate(methods):
        try:
            method = parse(text)
        except ConfigError as error:
            raise ConfigError(f"{where}[{place}]: {error}") from None
        if method.text in names:
            raise ConfigError(f"{where}[{place}]: {text!r} appears twice")
        names.append(method.text)
    return tuple(names)
