"""What a model has to compute: its weights, and the multiply-adds of its passes, counted from its settings alone.

A sentence has ``source`` and ``target`` positions, pieces with the end symbol. Counted are matrix products; everything
else is in the measured rates (``rates``), which turn these counts into seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from alignlens.errors import ConfigError
from alignlens.models.settings import (
    BagOfWordsSettings,
    CalibratedSettings,
    FconvSettings,
    LstmSettings,
    TransformerSettings,
)
from alignlens.models.t5_settings import T5Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from alignlens.models.base_settings import ArchitectureSettings

#: Units of a feed-forward net with ReLU that backward passes of a trained Transformer go through (docs/performance.md).
_OPEN_UNITS = 0.06


class Passes(NamedTuple):
    """Multiply-adds of one sentence, and what they wait for."""

    encoder: float
    decoder: float
    output: float
    start: float  # one backward pass to the source, from a target position in the middle
    encoder_steps: int  # operations that wait for each other, whatever the number of sentences side by side
    decoder_steps: int

    @property
    def forward(self) -> float:
        """Of all positions, with their logits."""
        return self.encoder + self.decoder + self.output

    @property
    def steps(self) -> int:
        """Operations of a forward pass that wait for each other."""
        return self.encoder_steps + self.decoder_steps


class Formula(NamedTuple):
    """What is counted of an architecture, from its settings."""

    passes: Callable[[Any, int, float, float], Passes]  # settings, vocabulary, source and target positions
    layer_weights: Callable[[Any], int]  # without the tables of embeddings
    tables: int | None = None  # of embeddings, where ``embeddings`` does not say how many


def passes(settings: ArchitectureSettings, vocabulary: int, source: float, target: float) -> Passes:
    """Returns what a sentence of that many positions costs a model."""
    return _formula(settings).passes(settings, vocabulary, source, target)


def weights(settings: ArchitectureSettings, vocabulary: int) -> int:
    """Returns the number of weights; biases and norms, a hundredth of them, are left out."""
    formula = _formula(settings)
    tables = formula.tables or {"separate": 3, "shared": 2, "tied": 2, "shared_tied": 1}[settings.embeddings]
    return int(tables * vocabulary * settings.dim + formula.layer_weights(settings))


def _formula(settings: ArchitectureSettings) -> Formula:
    kind = type(settings)
    if kind not in FORMULAS:
        known = ", ".join(sorted(each.__name__ for each in FORMULAS))
        raise ConfigError(
            f"costs: nothing is counted for models of {kind.__name__}; known: {known}. "
            "Add a formula to FORMULAS of workflow/costs/arithmetic.py."
        )
    return FORMULAS[kind]


def _transformer_weights(settings: TransformerSettings) -> int:
    dim, feed = settings.dim, 2 * settings.dim * settings.ffn
    positions = 2 * (settings.max_positions or 0) * dim
    return settings.encoder_layers * (4 * dim**2 + feed) + settings.decoder_layers * (8 * dim**2 + feed) + positions


def _lstm_weights(settings: LstmSettings) -> int:
    heads, width = settings.heads, _lstm_width(settings)
    projections = heads if settings.head_projection == "own" else 1
    attention = width * (heads * settings.hidden + projections * settings.dim)
    return _lstm_encoder(settings) + _lstm_decoder(settings) + attention + _lstm_inner(settings)


def _fconv_weights(settings: FconvSettings) -> int:
    convolution = 2 * settings.width * settings.hidden**2
    layers = settings.encoder_layers + settings.decoder_layers
    between = 4 + 2 * settings.decoder_layers
    return layers * convolution + between * settings.dim * settings.hidden + 2 * settings.max_positions * settings.dim


def _transformer(settings: TransformerSettings, vocabulary: int, source: float, target: float) -> Passes:
    dim, ffn = settings.dim, settings.ffn
    encoder_layer = source * (4 * dim**2 + 2 * dim * ffn) + 2 * source**2 * dim
    decoder_layer = target * (6 * dim**2 + 2 * dim * ffn) + 2 * source * dim**2 + 2 * target * (source + target) * dim
    # Backwards, two of four projections are left, and the attention of a start is made from vectors made ready before.
    # Of other activations no slope is zero.
    feed = 2 * (_OPEN_UNITS if settings.activation == "relu" else 1.0) * dim * ffn
    before = target / 2  # positions that a start in the middle reaches below the top layer
    encoder_back = source * (2 * dim**2 + feed) + 4 * source**2 * dim
    decoder_back = before * (3 * dim**2 + feed) + source * dim**2 + 4 * before * (before + source) * dim
    return Passes(
        encoder=settings.encoder_layers * encoder_layer,
        decoder=settings.decoder_layers * decoder_layer,
        output=target * dim * vocabulary,
        start=settings.encoder_layers * encoder_back + (settings.decoder_layers - 1) * decoder_back + source * dim**2,
        encoder_steps=settings.encoder_layers,
        decoder_steps=settings.decoder_layers,
    )


def _calibrated_weights(settings: CalibratedSettings) -> int:
    return _transformer_weights(settings) + settings.decoder_layers * _mask_net(settings)


def _mask_net(settings: CalibratedSettings) -> int:
    """Returns the weights of the two projections of a mask net."""
    return 2 * settings.dim**2 // (settings.heads if settings.mask_input == "printed" else 1)


def _calibrated(settings: CalibratedSettings, vocabulary: int, source: float, target: float) -> Passes:
    plain = _transformer(settings, vocabulary, source, target)
    masks = settings.decoder_layers * ((source + target) * _mask_net(settings) / 2 + target * source * settings.dim)
    # Gradients are autograd's: a start goes back through all that was computed, however little of it matters.
    return plain._replace(decoder=plain.decoder + masks, start=plain.encoder + plain.decoder + masks)


def _t5_layer(settings: T5Settings, attentions: int) -> int:
    """Returns the weights of a layer with this many attention blocks."""
    nets = 3 if settings.gated else 2
    return settings.dim * (attentions * 4 * settings.heads * settings.head_dim + nets * settings.ffn)


def _t5_weights(settings: T5Settings) -> int:
    return settings.encoder_layers * _t5_layer(settings, 1) + settings.decoder_layers * _t5_layer(settings, 2)


def _t5(settings: T5Settings, vocabulary: int, source: float, target: float) -> Passes:
    width = settings.heads * settings.head_dim
    keys = 2 * settings.dim * width  # of the source, which is as long as it is
    encoder_layer = source * _t5_layer(settings, 1) + 2 * source**2 * width
    decoder_layer = target * (_t5_layer(settings, 2) - keys) + source * keys + 2 * target * (source + target) * width
    encoder, decoder = settings.encoder_layers * encoder_layer, settings.decoder_layers * decoder_layer
    return Passes(
        encoder=encoder,
        decoder=decoder,
        output=target * settings.dim * vocabulary,
        start=encoder + decoder,  # gradients are autograd's
        encoder_steps=settings.encoder_layers,
        decoder_steps=settings.decoder_layers,
    )


def _lstm_width(settings: LstmSettings) -> int:
    """Returns the width of an encoder state."""
    return settings.hidden * (2 if settings.bidirectional else 1)


def _lstm_inner(settings: LstmSettings) -> int:
    """Returns the weights between the recurrent states and the output layer, besides the context's."""
    dim, hidden = settings.dim, settings.hidden
    return {"luong": hidden * dim, "two_layer": (hidden + dim) * dim, "linear": 0}[settings.output]


def _lstm_gates(settings: LstmSettings) -> int:
    """Returns how many gates a recurrent unit has."""
    return 4 if settings.cell == "lstm" else 3


def _lstm_encoder(settings: LstmSettings) -> int:
    """Returns the weights that an encoder position goes through."""
    width, hidden = _lstm_width(settings), settings.hidden
    read = settings.dim + hidden + (settings.encoder_layers - 1) * (width + hidden)
    return _lstm_gates(settings) * width * read


def _lstm_decoder(settings: LstmSettings) -> int:
    """Returns the recurrent weights that a decoder position goes through."""
    hidden, read = settings.hidden, settings.dim * (2 if settings.input_feeding else 1)
    return _lstm_gates(settings) * hidden * (read + hidden + (settings.decoder_layers - 1) * 2 * hidden)


def _lstm(settings: LstmSettings, vocabulary: int, source: float, target: float) -> Passes:
    dim, hidden, width = settings.dim, settings.hidden, _lstm_width(settings)
    looked_up = source * settings.heads * width * (hidden + dim)
    position = _lstm_decoder(settings) + _lstm_inner(settings) + source * settings.heads * (hidden + dim)
    back = target / 2 if settings.input_feeding else 1
    return Passes(
        encoder=source * _lstm_encoder(settings),
        decoder=looked_up + target * position,
        output=target * dim * vocabulary,
        start=source * _lstm_encoder(settings) + looked_up + back * position,
        encoder_steps=round(source) * settings.encoder_layers,
        decoder_steps=round(target) * settings.decoder_layers,
    )


def _fconv(settings: FconvSettings, vocabulary: int, source: float, target: float) -> Passes:
    dim, hidden = settings.dim, settings.hidden
    convolution, between = 2 * settings.width * hidden**2, dim * hidden
    encoder = source * (settings.encoder_layers * convolution + 2 * between)
    layer = convolution + 2 * between + 2 * source * dim
    # A start reaches the windows of the layers below it, and no further.
    seen = sum(min(target / 2, 1 + above * (settings.width - 1)) for above in range(settings.decoder_layers))
    return Passes(
        encoder=encoder,
        decoder=target * (settings.decoder_layers * layer + 2 * between),
        output=target * dim * vocabulary,
        start=encoder + seen * layer,
        encoder_steps=settings.encoder_layers,
        decoder_steps=settings.decoder_layers,
    )


def _bag_of_words_weights(settings: BagOfWordsSettings) -> int:
    return 0


def _bag_of_words(settings: BagOfWordsSettings, vocabulary: int, source: float, target: float) -> Passes:
    return Passes(
        encoder=0.0,
        decoder=source * settings.dim,
        output=target * settings.dim * vocabulary,
        start=source * settings.dim,
        encoder_steps=0,
        decoder_steps=1,
    )


#: By the settings of the architecture: one entry each.
FORMULAS: dict[type[ArchitectureSettings], Formula] = {
    TransformerSettings: Formula(_transformer, _transformer_weights),
    CalibratedSettings: Formula(_calibrated, _calibrated_weights),
    LstmSettings: Formula(_lstm, _lstm_weights),
    FconvSettings: Formula(_fconv, _fconv_weights),
    T5Settings: Formula(_t5, _t5_weights),
    BagOfWordsSettings: Formula(_bag_of_words, _bag_of_words_weights, tables=2),  # of the source, and the output layer
}
