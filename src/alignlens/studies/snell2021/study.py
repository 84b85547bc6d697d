"""The study of Snell, Zhong, Klein and Steinhardt (2021) as the rest of alignlens sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignlens.classification.settings import ClassifierRecipe
from alignlens.errors import ConfigError, unknown_name
from alignlens.io.limits import PAIRS, SEED, SENTENCES, Limits
from alignlens.io.names import check_free
from alignlens.io.typed import ONE_LINE, group, setting
from alignlens.studies.contract import Study, tables
from alignlens.studies.snell2021.runs import requests
from alignlens.toys.settings import TASKS, toy_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The checkpoints of the paper; ξ is read off them.
UPDATES = (0, 50, 100, 500, 1000, 1500, *range(2000, 20_001, 2000), *range(24_000, 36_001, 4000))
CLASSIFIER_UPDATES = (0, 10, 50, 100, 150, 200, *range(250, 4001, 250))
_LISTED: dict[str, Any] = {"minItems": 1, "maxItems": 100, "uniqueItems": True}
_UPDATES = Limits(0, 10_000_000)
_KEPT = "a snapshot of the weights is kept for each"


@dataclass(frozen=True)
class PresetSettings:
    """The presets of the models it trains, by what each is for."""

    attention: str = setting(
        "snell2021_lstm", "The model with attention; the one with uniform attention is otherwise the same.", **ONE_LINE
    )
    proxy: str = setting("snell2021_proxy", "The bag of words.", **ONE_LINE)
    linear: str | None = setting(
        "snell2021_linear", "The variant whose output is linear in the context; `null` for none.", **ONE_LINE
    )


@dataclass(frozen=True)
class Snell2021Settings:
    """What is trained to see how attention is learned."""

    classification: tuple[str, ...] = setting(
        (),
        "Sets of labelled texts to train classifiers on: `sst`, `agnews`, `20news`, `imdb-small` and others of "
        "`datasets.yaml` (docs/classification.md).",
        items={"type": "string", "format": "preset-name"},
        maxItems=100,
        uniqueItems=True,
    )
    classifier_seeds: tuple[int, ...] = setting(
        (1, 2, 3, 4, 5, 6),
        "Seeds of classifiers: the first is run A, the others are compared with it.",
        SEED,
        "what every random generator takes",
        **_LISTED,
    )
    translation: bool = setting(True, "Whether to train its translation models on the datasets of the configuration.")
    seeds: tuple[int, ...] = setting(
        (1, 2),
        "Seeds of translation models: the first is run A, the others are compared with it.",
        SEED,
        "what every random generator takes",
        **_LISTED,
    )
    checkpoints: tuple[int, ...] = setting(
        UPDATES,
        "Updates after which translation models are analysed, by default the paper's. ξ is read off them.",
        _UPDATES,
        _KEPT,
        **_LISTED,
    )
    classifier_checkpoints: tuple[int, ...] = setting(
        CLASSIFIER_UPDATES,
        "Updates after which classifiers are analysed, by default the paper's.",
        _UPDATES,
        _KEPT,
        **_LISTED,
    )
    train_items: int = setting(1000, "Number of training texts for Tables 7 and 8.", PAIRS, "all of them are explained")
    dev_items: int = setting(
        4000, "Maximum number of dev texts of classification.", SENTENCES, "all of them are explained"
    )
    bleu: bool = setting(True, "Whether to translate at every checkpoint, for Tables 4, 6 and 8.")
    presets: PresetSettings = group(PresetSettings, "Presets of its translation models.")
    training: dict[str, Any] = setting(
        {}, "Changes to the training of its translation models, such as `{max_epochs: 10}`."
    )
    classifier: dict[str, Any] = setting({}, "Changes to the classifiers: `{model: {...}, training: {...}}`.")
    proxy: dict[str, Any] = setting({}, "Changes to the classifiers that are bags of words, in the same form.")
    toys: dict[str, dict[str, Any] | None] = setting(
        {},
        "Settings of the generated tasks that differ from the paper's; `null` leaves a task out (docs/toys.md).",
        maxProperties=100,
    )

    @property
    def wanted_toys(self) -> dict[str, dict[str, Any]]:
        """The generated tasks that are not left out, with what is set for each."""
        named = {task: self.toys.get(task, {}) for task in TASKS}
        return {task: settings for task, settings in named.items() if settings is not None}


def check(settings: Snell2021Settings, datasets: Sequence[str], where: str) -> None:
    """Raises for checkpoints out of order, names that datasets have, and unknown settings."""
    for key in ("checkpoints", "classifier_checkpoints"):
        numbers = getattr(settings, key)
        if list(numbers) != sorted(numbers):
            raise ConfigError(f"{where}.{key}: updates must be in ascending order.")
    for key in ("seeds", "classifier_seeds"):
        if len(getattr(settings, key)) == 1:
            raise ConfigError(f"{where}.{key}: one seed has nothing to be compared with. Give at least two.")
    for task in settings.toys:
        if task not in TASKS:
            raise ConfigError(f"{where}.toys: {unknown_name('task', task, TASKS)}")
    for number, name in enumerate(settings.classification):
        check_free(name, datasets, f"{where}.classification.{number}", "agreement/ has a folder for each dataset, too")
    for key in ("classifier", "proxy"):
        ClassifierRecipe.from_json(getattr(settings, key), f"{where}.{key}")
    for task, content in settings.wanted_toys.items():
        toy_settings(task, content, f"{where}.toys.{task}")


STUDY = Study(
    name="snell2021",
    about="Snell et al. 2021, how single-head attention learns",
    title="Snell, Zhong, Klein and Steinhardt 2021: how attention is learned",
    lead="Approximating how single head attention learns (2021), repeated: printed numbers, ours, and a verdict on "
    "every claim.",
    files=(
        "index.html",
        "claims.csv",
        "comparisons.csv",
        "summary.json",
        "optimal.csv",
        "toys.csv",
        *tables(*(f"table{number}" for number in range(2, 12))),
    ),
    settings=Snell2021Settings,
    requests=requests,
    front="Figure 2",
    check=check,
    needs_gold=False,
)
