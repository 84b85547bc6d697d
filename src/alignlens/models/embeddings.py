"""Token tables: separate, shared between source and target, tied to the output, or both."""

from __future__ import annotations

from torch import nn

from alignlens.errors import ConfigError
from alignlens.models.base_settings import Sharing


def token_tables(
    sharing: Sharing, source_vocab: int, target_vocab: int, dim: int, padding: int, std: float
) -> tuple[nn.Embedding, nn.Embedding]:
    """Returns the source and target input tables; the same table if shared.

    Whether the output layer uses the target table (``is_tied``) is the model's to do: only it knows its output.
    """
    if sharing.startswith("shared") and source_vocab != target_vocab:
        raise ConfigError(
            f"model.embeddings: {sharing!r} needs one vocabulary for both sides, not {source_vocab} and {target_vocab} "
            "pieces. Set subwords.kind to joint, or embeddings to separate or tied."
        )
    target = _table(target_vocab, dim, padding, std)
    return (target if sharing.startswith("shared") else _table(source_vocab, dim, padding, std)), target


def is_tied(sharing: Sharing) -> bool:
    """Returns whether the output layer uses the target input table."""
    return sharing.endswith("tied")


def _table(vocab: int, dim: int, padding: int, std: float) -> nn.Embedding:
    table = nn.Embedding(vocab, dim, padding_idx=padding)
    nn.init.normal_(table.weight, std=std)
    nn.init.zeros_(table.weight[padding].detach())
    return table
