"""The objectives by name, with their options; plain data, so that a configuration loads no tensor library."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from alignlens.errors import ConfigError, unknown_name
from alignlens.io.limits import DRAWS, MAX_OFFSET, MAX_RATIO, TEMPERATURE, Limits
from alignlens.io.schema import check
from alignlens.io.typed import schema_of, setting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from alignlens.training.objectives.contract import Material, Objective

_KEY = "training.objective"


@dataclass(frozen=True)
class NoOptions:
    """No options besides the settings of every training."""


@dataclass(frozen=True)
class PaddedCrossEntropyOptions:
    """Snell et al. 2021, the bag of words as released: start symbol and padding count in its loss."""

    sentences: int = setting(
        64,
        "A target is padded to the longest of this many: itself and others drawn from the training text.",
        Limits(1, 10_000),
        "lengths are drawn for every target of an update",
    )


@dataclass(frozen=True)
class WordDropoutOptions:
    """Voita et al. 2021, section 5: tokens that the model reads are replaced, those that it predicts are not."""

    share: float = setting(0.1, "Probability that a token is replaced.", Limits(0, 1))
    by: Literal["random", "unknown"] = setting(
        "random", "Replacement: a piece of the training text, each equally likely, or the unknown symbol."
    )


@dataclass(frozen=True)
class MinimumRiskOptions:
    """Shen et al. 2016 and Voita et al. 2021, appendix B.2: the expected BLEU of translations that the model draws."""

    samples: int = setting(50, "Translations drawn for every pair.", DRAWS, "each is read and scored")
    sharpness: float = setting(
        0.005,
        "Factor of the log probabilities in the softmax over candidates; 0 for equal weights.",
        Limits(0, 1000),
        "the most probable candidate has all the weight long before that",
    )
    temperature: float = setting(
        1.0,
        "Divisor of the logits when drawing; 1 is the model itself.",
        TEMPERATURE,
        "a float cannot hold the results beyond that",
    )
    bleu: Literal["sacrebleu", "nltk1"] = setting(
        "sacrebleu",
        "Smoothing of the BLEU of a sentence, on pieces: as sacreBLEU does, or by nltk's method 1 as in the "
        "released code.",
    )
    log_p: Literal["model", "smoothed"] = setting(
        "model",
        "Log probability of a candidate, or the loss with smoothed labels (label_smoothing) as in the released code.",
    )
    length_ratio: float = setting(
        1.4,
        "A drawn translation has at most length_ratio times as many pieces as the reference with its end symbol, "
        "plus length_extra.",
        MAX_RATIO,
        "no language needs a larger ratio",
    )
    length_extra: int = setting(
        3, "See length_ratio.", MAX_OFFSET, "a translation that never ends takes that many steps"
    )


@dataclass(frozen=True)
class MaskGameOptions:
    """Lu et al. 2021: mask nets learn to hurt the translation with few perturbations, and the model translates."""

    alpha: float = setting(
        0.03,
        "Factor of the penalty for masks below one.",
        Limits(0, 1000),
        "all masks are one long before that",
    )
    penalty: Literal["length", "released"] = setting(
        "length",
        "A mean over the source, its root summed over the labels (length), or one norm over a whole batch with its "
        "padding, divided by the padded source length (released).",
    )


@dataclass(frozen=True)
class MaskNetOptions(MaskGameOptions):
    """The same for the mask nets of a trained model, which perturbing hurts more: its penalty has to be larger."""

    alpha: float = setting(
        3.0,
        "Factor of the penalty for masks below one.",
        Limits(0, 1000),
        "all masks are one long before that",
    )


def _no_draws(options: Any) -> int:
    return 0


@dataclass(frozen=True)
class ObjectiveSpec:
    """One objective. ``load`` imports its class, which is made from its options and the ``Material`` of a training."""

    summary: str
    options: type
    load: Callable[[], Callable[[Any, Material], Objective]]
    needs_start: bool = False  # whether it starts from a trained model
    draws: Callable[[Any], int] = _no_draws  # translations of a pair that are drawn, and scored beside the reference
    only: tuple[str, ...] = ()  # the architectures that it can train; none for all
    more_decoder_passes: int = 0  # than the three of a training step: one forward, two backward
    encoder_passes: int = 3  # of a training step
    moves_model: bool = True  # otherwise translating the dev text would show nothing new


def _cross_entropy() -> Callable[[Any, Material], Objective]:
    from alignlens.training.objectives.cross_entropy import CrossEntropy

    return CrossEntropy


def _padded_cross_entropy() -> Callable[[Any, Material], Objective]:
    from alignlens.training.objectives.padded_cross_entropy import PaddedCrossEntropy

    return PaddedCrossEntropy


def _source_word_dropout() -> Callable[[Any, Material], Objective]:
    from alignlens.training.objectives.word_dropout import SourceWordDropout

    return SourceWordDropout


def _target_word_dropout() -> Callable[[Any, Material], Objective]:
    from alignlens.training.objectives.word_dropout import TargetWordDropout

    return TargetWordDropout


def _minimum_risk() -> Callable[[Any, Material], Objective]:
    from alignlens.training.objectives.minimum_risk import MinimumRisk

    return MinimumRisk


def _mask_game() -> Callable[[Any, Material], Objective]:
    from alignlens.training.objectives.mask_game import MaskGame

    return MaskGame


def _mask_nets() -> Callable[[Any, Material], Objective]:
    from alignlens.training.objectives.mask_nets import MaskNets

    return MaskNets


OBJECTIVES: dict[str, ObjectiveSpec] = {
    "cross_entropy": ObjectiveSpec("cross entropy with smoothed labels", NoOptions, _cross_entropy),
    "padded_cross_entropy": ObjectiveSpec(
        "cross entropy of labels, start symbols and padding",
        PaddedCrossEntropyOptions,
        _padded_cross_entropy,
        only=("bag_of_words",),
    ),
    "source_word_dropout": ObjectiveSpec(
        "cross entropy, some source tokens replaced", WordDropoutOptions, _source_word_dropout
    ),
    "target_word_dropout": ObjectiveSpec(
        "cross entropy, some tokens of the prefix replaced", WordDropoutOptions, _target_word_dropout
    ),
    "minimum_risk": ObjectiveSpec(
        "minus the expected BLEU of translations that the model draws",
        MinimumRiskOptions,
        _minimum_risk,
        needs_start=True,
        draws=lambda options: int(options.samples),
    ),
    "mask_game": ObjectiveSpec(
        "cross entropy, and masks of attention that learn to raise it",
        MaskGameOptions,
        _mask_game,
        only=("calibrated",),
        more_decoder_passes=3,
    ),
    "mask_nets": ObjectiveSpec(
        "masks of attention that learn to raise the cross entropy of a trained model, which stays as it is",
        MaskNetOptions,
        _mask_nets,
        needs_start=True,
        only=("calibrated",),
        encoder_passes=1,
        moves_model=False,
    ),
}


@dataclass(frozen=True)
class ChosenObjective:
    """An objective of the registry with its options."""

    name: str = "cross_entropy"
    options: Any = field(default_factory=NoOptions)

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """Returns the rules for ``{name: ..., option: ...}``; those for the options depend on the name."""
        return {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ChosenObjective:
        """Returns the choice that ``{name: ..., option: ...}`` makes; what it leaves out has its default."""
        name = values["name"]
        if name not in OBJECTIVES:
            raise ConfigError(f"{_KEY}.name: {unknown_name('objective', name, OBJECTIVES)}")
        given = {key: value for key, value in values.items() if key != "name"}
        kind = OBJECTIVES[name].options
        check(given, schema_of(kind), _KEY)
        return cls(name, kind(**given))

    def as_json(self) -> dict[str, Any]:
        """Returns plain data that ``from_json`` reads back."""
        return {"name": self.name, **asdict(self.options)}

    def check_architecture(self, architecture: str) -> None:
        """Raises if it cannot train models of an architecture."""
        only = self.spec.only
        if only and architecture not in only:
            raise ConfigError(
                f"{_KEY}.name: {self.name} only trains models of architecture {' or '.join(only)}, not {architecture}. "
                "Choose another preset or another objective."
            )

    @property
    def spec(self) -> ObjectiveSpec:
        """Returns the entry of the registry."""
        return OBJECTIVES[self.name]
