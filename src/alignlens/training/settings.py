"""How a model is trained; plain data."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from alignlens.errors import ConfigError, unknown_name
from alignlens.io.limits import BATCH_TOKENS, THREADS, Limits
from alignlens.io.schema import check
from alignlens.io.typed import read, schema_of, setting, written
from alignlens.training.objectives.registry import ChosenObjective, MaskNetOptions

if TYPE_CHECKING:
    from alignlens.models.base_settings import ArchitectureSettings

_IN_MEMORY = BATCH_TOKENS, "a whole batch must fit in memory"
_RATE = Limits(0, 1000), "training diverges long before that"
_TOO_LONG = "no training is that long"
_UPDATES = Limits(1, 10_000_000), _TOO_LONG
_EPOCHS = Limits(1, 1_000_000), _TOO_LONG
_ALL_ONE = "all masks are one long before that"
#: Small batches and a high rate, since only a few projections have to learn; labels not smoothed, since the point
#: is what happens to their probability. The dev loss is that of the model, so the last weights are as good as any.
_MASK_TRAINING = {
    "batch_tokens": 1000,
    "learning_rate": 0.005,
    "schedule": "constant",
    "warmup": 20,
    "clip": 1.0,
    "label_smoothing": 0.0,
    "validate_every": 200,
    "average": 1,
    "keep": "last",
}


@dataclass(frozen=True)
class TrainingSettings:
    """How a model is trained: an update is ``accumulation`` micro-batches, however many processes share them."""

    objective: ChosenObjective = setting(
        ChosenObjective(),
        "What is minimised, by name; options of the objective follow the name.",
    )
    batch_tokens: int = setting(
        4000, "Largest number of tokens in a micro-batch, padding included, on its longer side.", *_IN_MEMORY
    )
    batch_sentences: int | None = setting(
        None, "Largest number of pairs in a micro-batch; null for no limit.", *_IN_MEMORY
    )
    accumulation: int = setting(
        1,
        "Micro-batches per update, however many processes share them.",
        Limits(1, 10_000),
        "each has random numbers of its own",
    )
    longest: int = setting(
        256,
        "Pairs with a longer side, in pieces with the end symbol, are left out.",
        Limits(2, 100_000),
        "memory grows with the square of the length",
    )
    learning_rate: float = setting(1e-3, "The peak of the learning rate.", _RATE[0]._replace(above=True), _RATE[1])
    schedule: Literal["inverse_sqrt", "plateau", "linear", "constant"] = setting(
        "inverse_sqrt",
        "After the warm-up: a fall with the square root of the updates, a cut whenever the dev loss stops falling, "
        "a straight line to zero, or nothing.",
    )
    warmup: int = setting(4000, "Updates from warmup_start to the peak.", Limits(0, 10_000_000), _TOO_LONG)
    warmup_start: float = setting(1e-7, "Learning rate before the first update.", *_RATE)
    plateau_factor: float = setting(
        0.5,
        "Factor of the learning rate when the dev loss does not fall (schedule plateau).",
        Limits(0, 1, above=True),
    )
    betas: tuple[float, float] = setting((0.9, 0.98), "Decay rates of Adam's two averages.", Limits(0, 1, below=True))
    epsilon: float = setting(1e-8, "Adam's epsilon.", Limits(0, 1, above=True), "larger values switch Adam off")
    weight_decay: float = setting(0.0, "Weight decay.", Limits(0, 1000), "larger values leave nothing of the weights")
    label_smoothing: float = setting(
        0.1, "Share of probability spread over all pieces in the training loss.", Limits(0, 1, below=True)
    )
    clip: float = setting(
        0.0,
        "Largest norm of the gradient; 0 for no clipping.",
        Limits(0, 1_000_000),
        "larger values clip nothing; 0 says so",
    )
    max_updates: int | None = setting(None, "Stop after this many updates; null for no limit.", *_UPDATES)
    max_epochs: int | None = setting(
        None, "Stop after this many passes over the training text; null for no limit.", *_EPOCHS
    )
    patience: int | None = setting(
        None, "Stop after this many validations without improvement; null for no limit.", *_EPOCHS
    )
    validate_every: int | None = setting(None, "Updates between validations; null for one per epoch.", *_UPDATES)
    validate_sentences: int = setting(
        200,
        "Number of dev sentences, from the first, translated for BLEU at every validation; 0 for none.",
        Limits(0, 100_000),
        "they are translated at every validation",
    )
    best_by: Literal["loss", "accuracy", "bleu"] = setting(
        "loss", "Criterion for the best checkpoint, measured on the dev text."
    )
    keep: Literal["best", "last", "averaged"] = setting("best", "The checkpoint that the pipeline uses.")
    average: int = setting(
        5,
        "How many of the last checkpoints are averaged, one per validation.",
        Limits(1, 1000),
        "all of them are kept on disk",
    )
    snapshots: tuple[int, ...] = setting(
        (),
        "Updates whose weights are also kept.",
        Limits(0, 10_000_000),
        _TOO_LONG,
        maxItems=10_000,
        uniqueItems=True,
    )
    precision: Literal["float32", "bfloat16", "float16"] = setting(
        "float32", "Number format of the forward and backward pass; formats other than float32 are for GPUs."
    )
    threads: int = setting(1, "Cores of a training job.", THREADS, "no machine has more")

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
        return read(cls, values)

    def as_json(self) -> dict[str, Any]:
        """Returns plain data that ``from_json`` reads back."""
        return written(self)


@dataclass(frozen=True)
class MaskSettings:
    """How mask nets are trained on a model that stays as it is (objective ``mask_nets``).

    The defaults are those that worked on the embedded corpus: see docs/models.md.
    """

    updates: int = setting(400, "Updates to train for.", *_UPDATES)
    alpha: float = setting(
        MaskNetOptions.alpha,
        "Weight of the penalty for masks below one: the larger, the fewer source positions are open. Lower it if "
        "masks end up at one.",
        Limits(0, 1000),
        _ALL_ONE,
    )
    mask_input: Literal["released", "printed"] = setting(
        "released",
        "Input of the masks: `released` as in the code of Lu et al. (2021), `printed` as in the paper.",
    )
    training: dict[str, Any] = setting(
        {}, "Further changes to the training: `{learning_rate: 0.001, batch_tokens: 4000}`."
    )

    def trained(self, where: str = "masks") -> TrainingSettings:
        """Returns the training settings; raises for unknown changes, and for those that have their own key."""
        for key, own in {"max_updates": "updates", "objective": "alpha"}.items():
            if key in self.training:
                raise ConfigError(f"{where}.training.{key}: set {where}.{own} instead.")
        check(self.training, schema_of(TrainingSettings), f"{where}.training")
        fixed = {"objective": {"name": "mask_nets", "alpha": self.alpha}, "max_updates": self.updates}
        try:
            return TrainingSettings.from_json({**_MASK_TRAINING, **self.training, **fixed})
        except ConfigError as error:
            raise ConfigError(f"{where}.{error}") from None


def check_together(architecture: str, model: ArchitectureSettings, training: TrainingSettings) -> None:
    """Raises if sentences may exceed the model's positions, or if the objective does not fit the architecture."""
    training.objective.check_architecture(architecture)
    if model.positions is not None and training.longest > model.positions:
        raise ConfigError(
            f"training.longest: {training.longest} pieces, but the model has {model.positions} positions. "
            "Lower it, or raise model.max_positions."
        )
