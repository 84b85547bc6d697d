"""The study of Voita, Sennrich and Titov (2020) as the rest of alignlens sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignlens.errors import ConfigError
from alignlens.io.limits import LENGTH, PAIRS, SEED, SENTENCES, Limits
from alignlens.io.typed import ONE_LINE, setting
from alignlens.studies.contract import Study, tables
from alignlens.studies.voita2020.runs import requests

if TYPE_CHECKING:
    from collections.abc import Sequence

_LISTED: dict[str, Any] = {"minItems": 1, "maxItems": 100, "uniqueItems": True}
_UPDATES = Limits(0, 10_000_000)
#: Dense at the beginning, where most happens; 57,000 updates in all. What was never trained has no part in a timeline.
UPDATES = (100, 250, 500, 1000, 2000, 3000, 4000, 6000, 8000, 10_000, 12_000, 16_000, 20_000, 30_000, 40_000, 50_000)
_OBJECTIVE = (
    "Changes to the training of the model with this objective, with its options under `objective`; `null` for no such "
    "model."
)


@dataclass(frozen=True)
class Voita2020Settings:
    """What is trained, and which sentences are looked at."""

    preset: str = setting("voita2020_transformer", "Preset (`models.yaml`) of all its models.", **ONE_LINE)
    model: dict[str, Any] = setting({}, "Changes to the model.")
    training: dict[str, Any] = setting({}, "Changes to the training.")
    pairs: tuple[int, ...] = setting(
        (1_000_000,),
        "Amounts of training text, in ascending order; each takes the first pairs. The sentences that are "
        "analysed come after the last.",
        PAIRS,
        "a model is trained on each",
        **_LISTED,
    )
    base: int | None = setting(
        None,
        "The amount for the first model, and for those with other objectives; the last, if `null`.",
        PAIRS,
        "it is one of the amounts",
    )
    trainings: dict[str, Any] = setting(
        {}, 'Changes to the training on some of the amounts: `{"20000": {max_updates: 5000}}`.'
    )
    sentences: int = setting(
        1000, "Maximum number of pairs of one length that are analysed.", SENTENCES, "all are explained"
    )
    lengths: tuple[int, ...] = setting(
        (),
        "Number of source and target pieces of these pairs; the lengths that most pairs have, if empty.",
        LENGTH,
        "relevance of a sentence grows with its square",
        maxItems=2,
    )
    snapshots: tuple[int, ...] = setting(
        UPDATES,
        "Updates after which the first model is analysed; dense at first.",
        _UPDATES,
        "a snapshot of the weights is kept for each",
        **_LISTED,
    )
    alphas: tuple[float, ...] = setting(
        (1.0, 0.5), "Shares of positive parts in relevance; the claims use the first.", Limits(0, 1), **_LISTED
    )
    source_word_dropout: dict[str, Any] | None = setting({}, _OBJECTIVE)
    target_word_dropout: dict[str, Any] | None = setting({}, _OBJECTIVE)
    minimum_risk: dict[str, Any] | None = setting({}, f"{_OBJECTIVE} It starts from the first model.")
    seed: int = setting(1, "Seed of its models.", SEED, "what every random generator takes")

    @property
    def base_pairs(self) -> int:
        """The training pairs of the first model."""
        return self.pairs[-1] if self.base is None else self.base

    @property
    def length(self) -> tuple[int, int] | str:
        """The lengths of sentences, as a request has them."""
        return (self.lengths[0], self.lengths[1]) if self.lengths else "common"


def check(settings: Voita2020Settings, datasets: Sequence[str], where: str) -> None:
    """Raises for amounts and updates that do not rise, and for one length without the other."""
    for key in ("pairs", "snapshots"):
        numbers = getattr(settings, key)
        if list(numbers) != sorted(numbers):
            raise ConfigError(f"{where}.{key}: numbers must be in ascending order.")
    if settings.base_pairs not in settings.pairs:
        raise ConfigError(f"{where}.base: {settings.base} is not one of the amounts in {where}.pairs. Add it there.")
    for amount, changes in settings.trainings.items():
        if amount not in map(str, settings.pairs) or not isinstance(changes, dict):
            raise ConfigError(
                f"{where}.trainings: {amount!r} must have training settings and be listed in {where}.pairs."
            )
    if len(settings.lengths) == 1:
        raise ConfigError(f"{where}.lengths: give the lengths of source and target, or none.")


STUDY = Study(
    name="voita2020",
    about="Voita et al. 2020, who contributes: source or target",
    title="Voita, Sennrich and Titov 2020: source and target contributions",
    lead="Analyzing the source and target contributions to predictions in neural machine translation (2020), repeated: "
    "every figure with its bands, and a verdict on every claim.",
    files=(
        "index.html",
        "claims.csv",
        "comparisons.csv",
        "summary.json",
        "curves.csv",
        *tables("timeline", "losses"),
    ),
    settings=Voita2020Settings,
    requests=requests,
    front="Figure 1",
    check=check,
    needs_gold=False,
)
