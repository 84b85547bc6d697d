"""The study of Lu, Zeng, Zhang, Wu and Li (2021) as the rest of alignlens sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from alignlens.errors import ConfigError
from alignlens.io.limits import PAIRS, SEED, SENTENCES, Limits
from alignlens.io.typed import ONE_LINE, group, setting
from alignlens.results.paths import TEST
from alignlens.studies.contract import Study, tables
from alignlens.studies.lu2021.runs import FUSIONS, requests

if TYPE_CHECKING:
    from collections.abc import Sequence

_LISTED: dict[str, Any] = {"minItems": 1, "maxItems": 100, "uniqueItems": True}
_ALPHA = Limits(0, 1000)
_ANNEAL = Limits(1, 100_000_000)
#: The paper prints none; 0.03 is that of the released command.
ALPHAS = (0.003, 0.01, 0.03, 0.1, 0.3)


@dataclass(frozen=True)
class PresetSettings:
    """The presets of its models: the same Transformer, plain and calibrated."""

    baseline: str = setting("lu2021_transformer", "The plain Transformer.", **ONE_LINE)
    calibrated: str = setting("lu2021_calibrated", "The same with calibrated attention.", **ONE_LINE)


@dataclass(frozen=True)
class Lu2021Settings:
    """What is trained, and which text is looked at."""

    presets: PresetSettings = group(PresetSettings, "Presets of its models.")
    model: dict[str, Any] = setting({}, "Changes to both models.")
    calibration: dict[str, Any] = setting({}, "Changes to the calibrated model only, such as `{rows: renorm}`.")
    training: dict[str, Any] = setting({}, "Changes to the training of all its models.")
    fusions: tuple[str, ...] = setting(
        FUSIONS, "Ways to mix in calibrated weights; a model is trained for each.", choices=FUSIONS, **_LISTED
    )
    alpha: float = setting(
        0.03,
        "Weight of the penalty for masks, for all models except those of the sweep.",
        _ALPHA,
        "all masks are one long before",
    )
    penalty: Literal["released", "length"] = setting(
        "released", "`released`: as in the released code; `length`: depends on neither batch nor padding."
    )
    anneal_updates: int | None = setting(
        None,
        "Updates after which the share of the original weights has fallen to 1/e, with fusion `anneal`. If "
        "`null`, two thirds of `max_updates` as in print (100,000 of 150,000), where `training` has that key; "
        "otherwise as the preset says.",
        _ANNEAL,
        "no training is as long",
    )
    seeds: tuple[int, ...] = setting((1,), "Seeds of its models.", SEED, "what every random generator takes", **_LISTED)
    directions: Literal["both", "forward"] = setting(
        "both", "Directions of its models, except those of the sweep; or `forward`."
    )
    alphas: tuple[float, ...] = setting(
        ALPHAS,
        "Weights of the penalty with which the gate is trained, in ascending order, in the first direction with "
        "the first seed. The one of `alpha` is not trained twice; empty for no sweep.",
        _ALPHA,
        "all masks are one long before",
        maxItems=100,
        uniqueItems=True,
    )
    sweep_training: dict[str, Any] = setting(
        {}, "Further changes to the training of these. If there are any, `alpha` is also trained this way."
    )
    pairs: tuple[int, ...] = setting(
        (),
        "Smaller amounts of training text for the baseline and the gate, in ascending order; each takes the first "
        "pairs.",
        PAIRS,
        "two models are trained on each",
        maxItems=100,
        uniqueItems=True,
    )
    trainings: dict[str, Any] = setting(
        {}, 'Further changes to the training on some of these amounts: `{"6000": {max_updates: 1000}}`.'
    )
    split: Literal["test", "dev"] = setting(TEST, "The text on which attention and masks are analysed; or `dev`.")
    sentences: int | None = setting(
        None,
        "Maximum number of its pairs that are analysed; `null` for all.",
        SENTENCES,
        "each is a pass and its gradients",
    )

    @property
    def annealed(self) -> int | None:
        """The updates of fusion anneal that the preset does not know; None to leave them to it."""
        updates: int | None = self.training.get("max_updates")
        if self.anneal_updates is not None or not isinstance(updates, int):
            return self.anneal_updates
        return max(1, round(updates / 1.5))

    @property
    def swept(self) -> tuple[float, ...]:
        """The penalties of the sweep that have a model of their own."""
        if not self.alphas:
            return ()
        if self.sweep_training:
            return tuple(sorted({*self.alphas, self.alpha}))
        return tuple(alpha for alpha in self.alphas if alpha != self.alpha)


def check(settings: Lu2021Settings, datasets: Sequence[str], where: str) -> None:
    """Raises for numbers that do not rise, and for settings that have a key of their own or nothing to act on."""
    for key in ("alphas", "pairs"):
        numbers = getattr(settings, key)
        if list(numbers) != sorted(numbers):
            raise ConfigError(f"{where}.{key}: numbers must be in ascending order.")
    for amount, changes in settings.trainings.items():
        if amount not in map(str, settings.pairs) or not isinstance(changes, dict):
            raise ConfigError(
                f"{where}.trainings: {amount!r} must have training settings and be listed in {where}.pairs."
            )
    changed = {"training": settings.training, "sweep_training": settings.sweep_training}
    changed |= {f"trainings.{amount}": changes for amount, changes in settings.trainings.items()}
    for key, changes in changed.items():
        if "objective" in changes:
            raise ConfigError(f"{where}.{key}.objective: is set by alpha and penalty. Set these in {where} instead.")
    for part in ("model", "calibration"):
        if "fusion" in getattr(settings, part):
            raise ConfigError(f"{where}.{part}.fusion: name all that are to be trained in {where}.fusions.")
    if "gate" not in settings.fusions:
        for key in ("alphas", "pairs"):
            if getattr(settings, key):
                raise ConfigError(f"{where}.{key}: are for the gate. Add it to {where}.fusions, or empty this list.")


STUDY = Study(
    name="lu2021",
    about="Lu et al. 2021, attention calibrated by masks",
    title="Lu, Zeng, Zhang, Wu and Li 2021: attention calibration",
    lead="Attention calibration for Transformer in neural machine translation (2021), repeated: printed numbers, ours, "
    "and a verdict on every claim.",
    files=(
        "index.html",
        "claims.csv",
        "comparisons.csv",
        "summary.json",
        "calibration.csv",
        *tables("table1", "table2", "table3", "table4", "table5", "bleu", "models", "layers", "bins", "masks"),
    ),
    settings=Lu2021Settings,
    requests=requests,
    front="Figure 6",
    check=check,
    needs_gold=False,
)
