"""Encoders of the BERT family in a Hugging Face folder, through ``transformers`` and its public modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from alignlens.encoders.contract import HeadMaps, value_by_head
from alignlens.encoders.folders import model_type
from alignlens.encoders.tokens import is_unusable
from alignlens.errors import ConfigError, InputError
from alignlens.models.contract import Attention

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from torch import Tensor, nn

# Not read here, so that a checkpoint may lack it.
_POOLER = "pooler."


class HuggingFaceEncoder:
    """A post-norm encoder: what a layer's attention reads is what the layer below gave."""

    def __init__(self, model: Any, padding: int) -> None:
        self._model = model.eval()
        self._layers = list(self._model.encoder.layer)
        config = self._model.config
        self.layers, self.heads, self.dim = len(self._layers), config.num_attention_heads, config.hidden_size
        self.padding, self.vocabulary = padding, int(config.vocab_size)
        self.longest: int | None = _positions(config)
        self._has_segments = config.type_vocab_size > 1

    @classmethod
    def load(cls, folder: Path, padding: int) -> Self:
        """Returns the encoder of a folder; nothing is fetched."""
        model_type(folder)
        try:
            import transformers
        except ImportError:
            raise ConfigError(
                "Hugging Face encoders need the package transformers. Run: pip install transformers"
            ) from None
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        try:
            model, loading = transformers.AutoModel.from_pretrained(
                str(folder), local_files_only=True, attn_implementation="eager", output_loading_info=True
            )
            loaded = cls(model, padding)
        except Exception as error:
            if not is_unusable(error):
                raise
            problem = f"the model cannot be loaded ({' '.join(str(error).split())[:200]})."
            raise InputError(problem, folder, advice="It needs config.json and model.safetensors.") from None
        missing = sorted(name for name in loading["missing_keys"] if not name.startswith(_POOLER))
        if missing:
            problem = f"{len(missing)} weights of the model are missing, e.g. {missing[0]}."
            raise InputError(problem, folder, advice="Download the model again.")
        return loaded

    @property
    def device(self) -> torch.device:
        """Returns the device of the model."""
        device: torch.device = self._model.device
        return device

    def to(self, device: str) -> Self:
        """Moves the model; returns this encoder."""
        self._model.to(device)
        return self

    def attention(self, ids: Tensor, segments: Tensor, mask: Tensor) -> tuple[Attention, ...]:
        """Returns every layer; segments count where the model has an embedding for them."""
        given = {"token_type_ids": segments} if self._has_segments else {}
        seen = self._model(
            input_ids=ids, attention_mask=mask.long(), output_attentions=True, output_hidden_states=True, **given
        )
        hidden = ~mask[:, None, None, :]
        return tuple(
            self._by_name(layer, inputs, weights.masked_fill(hidden, 0.0))
            for layer, inputs, weights in zip(self._layers, seen.hidden_states, seen.attentions, strict=False)
        )

    def _by_name(self, layer: Any, inputs: Tensor, weights: Tensor) -> Attention:
        dense: nn.Linear = layer.attention.output.dense
        values = layer.attention.self.value(inputs).unflatten(2, (self.heads, -1)).transpose(1, 2)
        output = dense((weights @ values).transpose(1, 2).flatten(2))
        return Attention(weights, values, self._output(dense), dense.bias, inputs, output)

    def _output(self, dense: nn.Linear) -> Tensor:
        # The matrix is stored (output, input); the input axis is the concatenation of the heads.
        return dense.weight.t().view(self.heads, -1, dense.out_features)

    def maps(self) -> tuple[HeadMaps, ...]:
        """Returns the maps of every layer."""
        maps = []
        for layer in self._layers:
            value: nn.Linear = layer.attention.self.value
            weight, bias = value.weight.detach(), value.bias.detach()
            output = self._output(layer.attention.output.dense).detach()
            maps.append(HeadMaps(value_by_head(weight, self.heads), bias.view(self.heads, -1), output))
        return tuple(maps)


def _positions(config: Any) -> int:
    """Returns the longest sequence; the RoBERTa family counts positions from after the padding's own."""
    taken = 0 if config.model_type in ("bert", "electra") else config.pad_token_id + 1
    return int(config.max_position_embeddings - taken)
