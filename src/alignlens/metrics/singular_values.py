"""How unevenly a head can stretch what it reads: singular values of its affine map (Kobayashi et al., appendix A)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Stretch:
    """The largest and the smallest non-zero singular value of a head's map, and its rank."""

    largest: float
    smallest: float
    rank: int

    @property
    def ratio(self) -> float:
        """How many times more one direction is stretched than another."""
        return self.largest / self.smallest


def augmented_singular_values(value: Matrix, value_bias: Matrix, output: Matrix) -> Matrix:
    """Returns the singular values that need not be zero, largest first, of the map [x 1] -> [f(x) 1].

    ``value`` is (dim, head_dim), ``value_bias`` (head_dim), ``output`` (head_dim, dim). The matrix of the map is
    (dim + 1, dim + 1) and the product of two thin ones; with orthogonal factors taken out of both, what is left to
    decompose is of the size of the head.
    """
    dim, head_dim = value.shape
    into, out_of = np.zeros((dim + 1, head_dim + 1)), np.zeros((head_dim + 1, dim + 1))
    into[:dim, :head_dim], into[dim, :head_dim], into[dim, head_dim] = value, value_bias, 1.0
    out_of[:head_dim, :dim], out_of[head_dim, dim] = output, 1.0
    left, right = np.linalg.qr(into).R, np.linalg.qr(out_of.T).R
    singular: Matrix = np.linalg.svd(left @ right.T, compute_uv=False)
    return singular


def stretch(value: Matrix, value_bias: Matrix, output: Matrix) -> Stretch:
    """Returns the extreme singular values of a head; those lost in rounding count as zero."""
    singular = augmented_singular_values(value, value_bias, output)
    nothing = singular[0] * (len(value) + 1) * np.finfo(np.float64).eps
    rank = int((singular > nothing).sum())
    return Stretch(float(singular[0]), float(singular[rank - 1]), rank)
