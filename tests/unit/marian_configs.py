"""Folders of translation models from elsewhere, as far as a configuration looks into them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: Of models with BART's names of settings: small, and no two sizes alike that could be taken for each other.
SIZES: dict[str, Any] = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
}
MARIAN: dict[str, Any] = {
    "model_type": "marian",
    "vocab_size": 150,
    **SIZES,
    "activation_function": "swish",
    "scale_embedding": True,
}


def write_configs(root: Path, *directions: str, **changes: Any) -> str:
    """Writes a folder for each direction (``xa-xb``), and returns what a configuration calls them."""
    for direction in directions:
        folder = root / f"opus-mt-{direction}"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({**MARIAN, **changes}))
    return f"{root}/opus-mt-{{source}}-{{target}}"
