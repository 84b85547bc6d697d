"""How a model is trained; plain data. Defaults are those of the schema (a test compares them)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from alignlens.errors import ConfigError, unknown_name
from alignlens.models.presets import check_model
from alignlens.models.settings import ArchitectureSettings, architecture_settings
from alignlens.training.objectives.registry import ChosenObjective


@dataclass(frozen=True)
class TrainingSettings:
    """One training run: an update is ``accumulation`` micro-batches, however many processes share them."""

    objective: ChosenObjective = field(default_factory=ChosenObjective)  # what is minimised
    batch_tokens: int = 4000  # most padded tokens of a micro-batch, counted on its longer side
    batch_sentences: int | None = None  # most pairs of a micro-batch
    accumulation: int = 1
    longest: int = 256  # pairs with a longer side, in pieces with the end symbol, are left out
    learning_rate: float = 1e-3  # the peak
    schedule: Literal["inverse_sqrt", "plateau", "linear", "constant"] = "inverse_sqrt"
    warmup: int = 4000  # updates from warmup_start to the peak
    warmup_start: float = 1e-7
    plateau_factor: float = 0.5
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    label_smoothing: float = 0.1
    clip: float = 0.0  # largest gradient norm; 0 for no clipping
    max_updates: int | None = None
    max_epochs: int | None = None
    patience: int | None = None  # validations without improvement before stopping
    validate_every: int | None = None  # updates; null for every epoch
    validate_sentences: int = 200  # first sentences of the dev text that are translated for BLEU; 0 for none
    best_by: Literal["loss", "accuracy", "bleu"] = "loss"
    keep: Literal["best", "last", "averaged"] = "best"  # which checkpoint the pipeline goes on with
    average: int = 5  # last checkpoints that are averaged, one per validation
    snapshots: tuple[int, ...] = ()  # updates whose weights are kept
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    threads: int = 1

    def __post_init__(self) -> None:
        if self.max_updates is None and self.max_epochs is None and self.patience is None:
            raise ConfigError("training: set max_updates, max_epochs or patience, or it would never stop.")
        if self.schedule == "linear" and self.max_updates is None:
            raise ConfigError("training.schedule: linear falls to zero at max_updates; set max_updates.")
        if self.best_by == "bleu" and not self.validate_sentences:
            raise ConfigError("training.best_by: bleu needs validate_sentences above 0.")
        if self.keep == "averaged" and self.average < 1:
            raise ConfigError("training.average: averaging needs at least 1 checkpoint.")

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> TrainingSettings:
        """Returns the settings of plain data; what it leaves out has its default."""
        known = [each.name for each in fields(cls)]
        for key in values:
            if key not in known:
                raise ConfigError(f"training.{key}: {unknown_name('key', key, known)}")
        typed: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
        }
        if "objective" in values:
            typed["objective"] = ChosenObjective.from_json(values["objective"])
        return cls(**typed)

    def as_json(self) -> dict[str, Any]:
        """Returns plain data that ``from_json`` reads back."""
        values = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
        return {**values, "objective": self.objective.as_json()}


def check_longest(model: ArchitectureSettings, training: TrainingSettings) -> None:
    """Raises if a model would be trained on sentences that it has no positions for."""
    if model.positions is not None and training.longest > model.positions:
        raise ConfigError(
            f"training.longest: {training.longest} pieces, but the model has {model.positions} positions. "
            "Lower it, or raise model.max_positions."
        )


def check_training(content: dict[str, Any], label: str) -> None:
    """Raises for the first thing wrong with a model and its training, as a configuration would have it told."""
    check_model(content, label)
    try:
        model = architecture_settings(content["architecture"], content["model"])
        check_longest(model, TrainingSettings.from_json(content["training"]))
    except ConfigError as error:
        raise ConfigError(f"{label}.{error}") from None
