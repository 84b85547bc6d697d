"""The compiled steps backwards (``kernels/transformer.c``): where they are, and the structures they take."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from alignlens.attribution.native import native

STEPS = ("top_back", "feed_back", "attention_back", "norm_back", "changes", "dot_all", "dot_each")
LANES = 8  # of the processor: widths must be multiples of it
_PANEL = 2 * LANES

_long, _pointer = ctypes.c_long, ctypes.c_void_p


class Block(ctypes.Structure):
    """Rows that follow each other and want the same target positions."""

    _fields_ = (("row", _long), ("rows", _long), ("starts", _long), ("places", _pointer))


class Norm(ctypes.Structure):
    """A layer norm."""

    _fields_ = tuple((name, _pointer) for name in ("inputs", "mean", "scale", "weight"))


class Feed(ctypes.Structure):
    """A feed-forward branch."""

    _fields_ = (
        *((name, _long) for name in ("positions", "dim", "units", "triangle", "norm_first")),
        *((name, _pointer) for name in ("slopes", "widen", "narrow")),
        ("norm", Norm),
    )


class Attention(ctypes.Structure):
    """An attention branch."""

    _fields_ = (
        *((name, _long) for name in ("queries", "keys", "dim", "heads", "triangle", "norm_first")),
        *((name, _pointer) for name in ("weights", "query", "key", "value")),
        *((name, _pointer) for name in ("output", "to_value", "to_key", "to_query")),
        *((name, _pointer) for name in ("value_rows", "key_rows", "query_rows")),
        ("norm", Norm),
    )


class Lowest(ctypes.Structure):
    """Self-attention gone through forwards."""

    _fields_ = (
        *((name, _long) for name in ("positions", "dim", "heads")),
        *((name, _pointer) for name in ("weights", "query", "key", "value", "project", "output")),
    )


class Top(ctypes.Structure):
    """The decoder's output and its top layer."""

    _fields_ = (
        ("cotangents", _pointer),
        ("norm", Norm),
        ("feed", Feed),
        ("cross", Attention),
        ("own", Attention),
        ("alone", _long),
    )


def library() -> ctypes.CDLL | None:
    """Returns the compiled steps for this processor; None, with a warning, if they were not built."""
    return native(Path(__file__).parent, "attribution of Transformers takes")


def packed(weight: Tensor) -> Tensor:
    """Returns a matrix as products read it."""
    rows, columns = weight.shape
    found = torch.empty(-(-columns // _PANEL) * _PANEL * rows, dtype=torch.float32)
    weight = weight.contiguous()
    cast("ctypes.CDLL", library()).pack(
        _long(rows), _long(columns), _pointer(weight.data_ptr()), _pointer(found.data_ptr())
    )
    return found
