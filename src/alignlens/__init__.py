"""alignlens: find out what a translation model looked at.

``load``, ``calibrate``, ``score`` and ``symmetrize`` are what Python programs need (docs/python.md). Importing the
package loads none of it; their types stand in ``__init__.pyi``.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.2.0"
_HOMES = {"calibrate": "models", "load": "models", "score": "measured", "symmetrize": "measured"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'alignlens' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"alignlens.api.{_HOMES[name]}"), name)
