"""How much goes through a step at once: on a processor what its caches hold, on a GPU more, since it has to be filled.

The token budget of a batch bounds memory on both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_ON_A_GPU = 16


def room(on_a_processor: int, like: Tensor) -> int:
    """Returns how much may go through a step at once on the device of a tensor."""
    return on_a_processor if like.device.type == "cpu" else _ON_A_GPU * on_a_processor
