"""The architectures: their settings, names, and where their models are.

Plain data, so that reading a configuration loads no tensor library. One entry of ``ARCHITECTURES`` is an architecture:
the schema of its settings, training and decoding know it from there. Counted work stands in
``workflow.costs.arithmetic``, and gradients faster than autograd's in ``attribution.gradients.choice``, since a
training must not depend on either.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from alignlens.corpora.symbols import PLAIN, Frame
from alignlens.errors import ConfigError, unknown_name
from alignlens.io.limits import Limits
from alignlens.io.typed import setting
from alignlens.models.base_settings import DEPTH, SHARE, WIDTH, ArchitectureSettings, Sharing
from alignlens.models.t5_settings import T5Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from alignlens.models.contract import Seq2Seq


@dataclass(frozen=True)
class TransformerSettings(ArchitectureSettings):
    """Vaswani et al. 2017; ``norm`` says where layer norms stand."""

    dim: int = setting(256, "Width of token vectors and layers; even.", Limits(2, 16384), WIDTH[1])
    ffn: int = setting(
        1024, "Width inside the feed-forward layers.", Limits(1, 65536), "the number of weights grows with it"
    )
    heads: int = setting(
        4, "Attention heads; they must divide dim evenly.", Limits(1, 1024), "each takes a part of dim"
    )
    encoder_layers: int = setting(3, "Layers of the encoder.", *DEPTH)
    decoder_layers: int = setting(3, "Layers of the decoder.", *DEPTH)
    norm: Literal["post", "pre"] = setting(
        "post", "Layer norms after each residual sum (post), or before each layer and after the last (pre)."
    )
    activation: Literal["relu", "swish", "gelu", "gelu_tanh"] = setting(
        "relu", "Activation inside the feed-forward layers."
    )
    sinusoids: Literal["interleaved", "halves", "fairseq"] = setting(
        "interleaved",
        "Positions: sines and cosines alternate (interleaved), or all sines come first (halves; fairseq, which "
        "also counts from 2 and has other wavelengths).",
    )
    max_positions: int | None = setting(
        None,
        "Longest sentence, in pieces with its symbols, that has learned positions; null for sinusoids, which "
        "have no limit.",
        Limits(2, 100000),
        "a table has one row per position",
    )
    scale_embeddings: bool = setting(True, "Whether token vectors are multiplied by the square root of dim.")
    norm_embeddings: bool = setting(False, "Whether a layer norm follows the sum of token vectors and positions.")
    dropout: float = setting(0.1, "Dropout on embeddings and on every layer's output.", SHARE)
    attention_dropout: float = setting(0.0, "Dropout on attention weights.", SHARE)
    activation_dropout: float = setting(0.0, "Dropout inside the feed-forward layers.", SHARE)
    output_bias: bool = setting(False, "Whether the output layer has a bias.")

    def __post_init__(self) -> None:
        if self.dim % self.heads:
            raise ConfigError(f"model.heads: {self.heads} heads do not divide dim {self.dim} evenly.")
        if self.dim % 2:
            raise ConfigError(f"model.dim: sinusoidal positions need an even number, not {self.dim}.")

    @property
    def positions(self) -> int | None:
        """Those that were learned; sinusoids have no end."""
        return self.max_positions


@dataclass(frozen=True)
class CalibratedSettings(TransformerSettings):
    """The Transformer of Lu et al. 2021, whose attention to the source is calibrated by learned masks.

    Where paper and released code differ, the defaults are the code's.
    """

    fusion: Literal["fixed", "anneal", "gate", "none"] = setting(
        "gate",
        "Share of the calibrated weights: fixed_weight (fixed), rising during training (anneal), decided by a learned "
        "gate (gate), or zero, so that masks only tell what matters (none).",
    )
    fixed_weight: float = setting(
        0.1,
        "Factor of the calibrated weights (fusion fixed).",
        Limits(0, 1000),
        "beyond that, the original weights are lost",
    )
    anneal_updates: int = setting(
        100_000,
        "Updates after which the share of the original weights has fallen to 1/e (fusion anneal).",
        Limits(1, 100_000_000),
        "no training is that long",
    )
    inference_updates: int | None = setting(
        None,
        "Number of updates that sets this share outside of training (fusion anneal); null for those the model was "
        "trained for. The released code has 150000, whatever the training.",
        Limits(0, 100_000_000),
        "no training is that long",
    )
    rows: Literal["raw", "renorm"] = setting(
        "raw", "Mixed weights as they are, which sum to more than one (raw, as released), or divided by their sum."
    )
    mask_input: Literal["released", "printed"] = setting(
        "released",
        "Masks are computed from the input of the attention layer and the encoder output (released), or from queries "
        "and keys of each head, projected once more (printed).",
    )
    gate: Literal["released", "printed"] = setting(
        "released",
        "One gate for all heads of a layer, from the scaled query (released), or one per head, from its plain query "
        "(printed); with fusion gate.",
    )


def with_masks(settings: TransformerSettings, mask_input: Literal["released", "printed"]) -> CalibratedSettings:
    """Returns a Transformer that computes the same and has mask nets besides."""
    return CalibratedSettings(**asdict(settings), fusion="none", mask_input=mask_input)


@dataclass(frozen=True)
class LstmSettings(ArchitectureSettings):
    """Recurrent encoder and decoder with bilinear attention.

    ``output: luong`` is tanh(W [context; state]) then the output layer, as in Ding et al. 2019;
    ``output: two_layer`` is W2 relu(W1 [state; P context]) as in Snell et al. 2021, and
    ``output: linear`` is W (state + P context) as in appendix A.1 of the same.
    """

    hidden: int = setting(256, "Width of the recurrent states, per direction.", *WIDTH)
    cell: Literal["lstm", "gru"] = setting("lstm", "Recurrent cells of encoder and decoder.")
    bidirectional: bool = setting(False, "Whether the encoder also reads backwards.")
    input_feeding: bool = setting(True, "Whether the decoder also reads its last attentional output.")
    output: Literal["luong", "two_layer", "linear"] = setting(
        "luong",
        "One tanh layer over context and state (luong), a hidden layer as in Snell et al. (two_layer), "
        "or the sum of both without a layer (linear).",
    )
    activation: Literal["relu", "tanh"] = setting("relu", "Activation of the hidden layer (output two_layer).")
    attention: Literal["bilinear", "uniform"] = setting(
        "bilinear", "Learned weights (bilinear), or the same weight at every source position, frozen (uniform)."
    )
    heads: int = setting(1, "Attention heads, each as wide as the states.", Limits(1, 1024), "each has its own weights")
    head_contexts: Literal["sum", "mean"] = setting("sum", "How the contexts of several heads are combined.")
    head_projection: Literal["shared", "own"] = setting(
        "shared", "Contexts are concatenated and projected (shared), or each has its own projection (own)."
    )
    layer_dropout: float = setting(0.0, "Dropout between recurrent layers.", SHARE)
    output_dropout: float = setting(0.1, "Dropout on the input of the output layer.", SHARE)

    def __post_init__(self) -> None:
        if self.output == "linear" and self.dim != self.hidden:
            raise ConfigError(
                f"model.output: linear adds context and state, so hidden must be dim; here it is {self.hidden}, and "
                f"dim is {self.dim}. Make them equal."
            )
        if self.activation != "relu" and self.output != "two_layer":
            raise ConfigError(
                f"model.activation: output {self.output} has no hidden layer to choose {self.activation} for. Leave it "
                "out, or set output to two_layer."
            )


@dataclass(frozen=True)
class FconvSettings(ArchitectureSettings):
    """Gehring et al. 2017: gated convolutions, weight norm, learned positions, attention in every decoder layer."""

    hidden: int = setting(256, "Width of the convolutions.", *WIDTH)
    encoder_layers: int = setting(4, "Layers of the encoder.", *DEPTH)
    decoder_layers: int = setting(3, "Layers of the decoder.", *DEPTH)
    width: int = setting(3, "Positions that a convolution sees.", Limits(1, 100), "the number of weights grows with it")
    dropout: float = setting(0.1, "Dropout on embeddings and before every convolution.", SHARE)
    max_positions: int = setting(
        1024,
        "Longest sentence, in pieces with the end symbol, that has learned positions.",
        Limits(2, 100000),
        "a table has one row per position",
    )
    scale_encoder_gradient: bool = setting(
        True, "Divide the encoder's gradient by twice the number of attention layers, as the original does."
    )

    @property
    def positions(self) -> int | None:
        """Those that were learned."""
        return self.max_positions


@dataclass(frozen=True)
class BagOfWordsSettings(ArchitectureSettings):
    """The proxy of Snell et al. 2021: the mean of the source vectors, and an output layer."""

    # No settings of its own: it has no layers, and no vectors of target tokens.
    encoder_layers: int = 1
    decoder_layers: int = 1
    embeddings: Sharing = "separate"


@dataclass(frozen=True)
class Architecture:
    """One kind of model. ``model`` imports its class, which takes the settings and both vocabulary sizes."""

    label: str  # for people
    settings: type[ArchitectureSettings]
    model: Callable[[], Callable[[Any, int, int], Seq2Seq]]
    extends: str | None = None  # another architecture whose settings and weights it extends
    has_masks: bool = False  # of its attention to the source


def _transformer() -> Callable[[Any, int, int], Seq2Seq]:
    from alignlens.models.transformer import Transformer

    return Transformer


def _calibrated() -> Callable[[Any, int, int], Seq2Seq]:
    from alignlens.models.calibrated import Calibrated

    return Calibrated


def _lstm() -> Callable[[Any, int, int], Seq2Seq]:
    from alignlens.models.lstm import Lstm

    return Lstm


def _fconv() -> Callable[[Any, int, int], Seq2Seq]:
    from alignlens.models.fconv import Fconv

    return Fconv


def _bag_of_words() -> Callable[[Any, int, int], Seq2Seq]:
    from alignlens.models.bag_of_words import BagOfWords

    return BagOfWords


def _t5() -> Callable[[Any, int, int], Seq2Seq]:
    from alignlens.models.t5 import T5

    return T5


ARCHITECTURES: dict[str, Architecture] = {
    "transformer": Architecture("Transformer", TransformerSettings, _transformer),
    "calibrated": Architecture(
        "Calibrated Transformer", CalibratedSettings, _calibrated, "transformer", has_masks=True
    ),
    "lstm": Architecture("LSTM", LstmSettings, _lstm),
    "fconv": Architecture("FConv", FconvSettings, _fconv),
    "bag_of_words": Architecture("Bag of words", BagOfWordsSettings, _bag_of_words),
}


#: Architectures of models from elsewhere, which are not trained here.
IMPORTED = {"t5": Architecture("T5", T5Settings, _t5)}


def architecture_of(name: str) -> Architecture:
    """Returns an architecture by its name."""
    known = ARCHITECTURES | IMPORTED
    if name not in known:
        raise ConfigError(f"architecture: {unknown_name('architecture', name, ARCHITECTURES)}")
    return known[name]


def architecture_settings(architecture: str, values: dict[str, Any]) -> ArchitectureSettings:
    """Returns the settings of an architecture; what ``values`` leaves out has its default."""
    kind = architecture_of(architecture).settings
    known = [field.name for field in fields(kind)]
    for key in values:
        if key not in known:
            raise ConfigError(f"model.{key}: {unknown_name(f'key of {architecture}', key, known)}")
    return kind(**values)


@dataclass(frozen=True)
class ModelSpec:
    """Everything that decides the shape of a model's weights and what it reads."""

    architecture: str
    settings: ArchitectureSettings
    source_vocab: int
    target_vocab: int
    source_begin: bool = False  # whether source sentences start with BEGIN (Snell et al.); they always end with END
    frame: Frame = PLAIN  # what is read in the places of BEGIN

    def as_json(self) -> dict[str, Any]:
        """Returns plain data that ``from_json`` reads back."""
        content = asdict(self)
        if self.frame == PLAIN:  # Folders of models that were trained here have never had it.
            del content["frame"]
        return content

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> ModelSpec:
        """Returns the spec of plain data."""
        settings = architecture_settings(content["architecture"], content["settings"])
        frame = content.get("frame")
        framed = {} if frame is None else {"frame": Frame(**{**frame, "target": tuple(frame["target"])})}
        return cls(**{**content, "settings": settings, **framed})
