"""What decoding returns, and what all kinds of decoding share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from alignlens.corpora.symbols import BEGIN_ID, PADDING_ID, UNKNOWN_ID
from alignlens.errors import ToolError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from alignlens.decoding.settings import DecodingSettings
    from alignlens.models.contract import Seq2Seq, State

#: Never part of a translation. UNKNOWN is not needed: byte pieces can spell everything.
NEVER = (UNKNOWN_ID, BEGIN_ID, PADDING_ID)


@dataclass(frozen=True)
class Hypothesis:
    """One translation of one sentence."""

    ids: tuple[int, ...]  # pieces, without BEGIN and END
    log_prob: float  # natural log of the model's probability of all pieces and END
    score: float  # hypotheses are ranked by this
    finished: bool  # False if it is as long as it may be, so that END was its only continuation


#: The translation of a sentence without words.
NOTHING = Hypothesis((), 0.0, 0.0, True)


def most_pieces(
    mask: Tensor, settings: DecodingSettings, longest: int | None, lengths: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Returns how many pieces the translation of each source sentence (batch, source) may have.

    That is counted from its own length, or from ``lengths`` if they are given.
    """
    lengths = mask.sum(dim=1).cpu().numpy() if lengths is None else lengths
    limits = np.floor(settings.max_ratio * lengths).astype(np.int64) + settings.max_offset
    # Where positions are limited, there is room for one piece less: the end symbol needs a position, too.
    most: NDArray[np.int64] = np.minimum(limits, np.iinfo(np.int64).max if longest is None else longest - 1)
    return most


def read_frame(model: Seq2Seq, state: State, rows: int) -> tuple[State, int]:
    """Returns the state after all symbols that targets begin with but the last of them, and that one."""
    *before, last = model.frame.target
    for symbol in before:
        ids = torch.full((rows, 1), symbol, device=state.memory.mask.device)
        _, state = model.step(state, model.embed_target(ids))
    return state, last


def check_ready(model: Seq2Seq) -> None:
    """Raises if dropout is active."""
    if model.training:
        raise ValueError("the model is in training mode; call model.eval() before decoding")


def check_numbers(values: NDArray[np.floating]) -> None:
    """Raises if a model's scores are not numbers."""
    if np.isnan(values).any():
        raise ToolError("the model returns scores that are not numbers: its training diverged. Train it again.")
