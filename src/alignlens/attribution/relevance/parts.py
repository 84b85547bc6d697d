"""What inputs add to outputs, z_ij, of linear layers and layer norms: sums by sign, and products with them.

They are made position by position where they are needed and never kept: for a layer of a million weights and a thousand
tokens they would be a billion numbers. ``kernels/shares.c`` makes them in registers; where it was not built, for other
precisions and for odd widths torch makes them in memory.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from alignlens.attribution.native import native
from alignlens.attribution.relevance.rules import Reach, part

PANEL = 16  # numbers that lie together in packed weights; inputs must be a multiple of it
_REACH = {Reach.EVERY: 0, Reach.LATER: 1, Reach.OWN: 2}


def library() -> ctypes.CDLL | None:
    """Returns the compiled products for this processor; None, with a warning, if they were not built."""
    return native(Path(__file__).parent, "relevance takes")


class Parts(ABC):
    """The z_ij of vectors (position, row, input) that a layer has read."""

    def __init__(self, read: Tensor, outputs: int) -> None:
        self.read, self.outputs, self.width = read, outputs, read.shape[-1]
        plain = read.dtype == torch.float32 and read.device.type == "cpu" and self.width % PANEL == 0
        self.library = library() if plain else None  # asked last, since it logs a warning if there is none

    def totals(self, sign: int) -> Tensor:
        """Returns (position, row, output): the sum over inputs of all z of one sign."""
        if self.library is None:
            return torch.stack([part(self.z(place), sign, in_place=True).sum(-1) for place in range(len(self.read))])
        sums = self.read.new_empty(*self.read.shape[:2], self.outputs)
        self.compiled_totals(self.library, sign, sums)
        return sums if sign > 0 else sums.neg_()

    def sums(self, relevance: Tensor, kept: Tensor, reach: Reach) -> tuple[Tensor, Tensor]:
        """Returns (position, row, step): sums over outputs of relevance, and of it times ``kept``.

        They are (position, row, step, output), with zeros beyond ``reach``, and (position, row, output).
        """
        if self.library is None:
            arrived, passed = (relevance @ torch.stack((torch.ones_like(kept), kept), -1)).unbind(-1)
            return arrived, passed
        arrived, passed = relevance.new_empty(2, *relevance.shape[:3])
        sizes = *relevance.shape[:3], _REACH[reach], relevance.shape[3]
        _call(self.library.sums, sizes, (relevance.contiguous(), kept.contiguous(), arrived, passed))
        return arrived, passed

    def gather(self, sign: int, relevance: Tensor, scale: Tensor, factor: Tensor, reach: Reach) -> Tensor:
        """Returns (position, row, step, input): the sum over outputs of z of one sign times what stands there.

        That is relevance (position, row, step, output) times ``scale`` (position, row, output) times ``factor``
        (position, row, step).
        """
        gathered = relevance.new_empty(*relevance.shape[:3], self.width)
        if self.library is None:
            gathered.zero_()
            for place in range(len(self.read)):
                steps = reach.steps(place, relevance.shape[2])
                ratio = relevance[place, :, steps] * scale[place, :, None] * factor[place, :, steps, None]
                gathered[place, :, steps] = ratio @ part(self.z(place), sign, in_place=True)
            return gathered
        # Compiled, the positive parts of negated z stand in the place of negative ones.
        given = relevance.contiguous(), (sign * scale).contiguous(), factor.contiguous()
        if not self.compiled_gather(self.library, sign, given, reach, gathered):
            raise MemoryError
        return gathered

    @abstractmethod
    def z(self, position: int) -> Tensor:
        """Returns (row, output, input) of one position, to be written over."""

    @abstractmethod
    def compiled_totals(self, library: ctypes.CDLL, sign: int, sums: Tensor) -> None:
        """Writes the sums of the positive parts of z, or of negated z."""

    @abstractmethod
    def compiled_gather(
        self, library: ctypes.CDLL, sign: int, given: tuple[Tensor, ...], reach: Reach, gathered: Tensor
    ) -> bool:
        """Writes the products with the positive parts of z, or of negated z; returns whether memory sufficed."""


class LinearParts(Parts):
    """z_ij = x_i w_ji, plus a number for each output that is the same for all inputs."""

    def __init__(self, read: Tensor, weight: Tensor, added: Tensor | None) -> None:
        super().__init__(read, len(weight))
        self._weight, self._added = weight, added

    def z(self, position: int) -> Tensor:
        """Returns (row, output, input) of one position, to be written over."""
        vectors = self.read[position][:, None]
        if self._added is None:
            return vectors * self._weight
        return torch.addcmul(self._added[:, None], vectors, self._weight)

    def compiled_totals(self, library: ctypes.CDLL, sign: int, sums: Tensor) -> None:
        """Writes the sums of the positive parts of z, or of negated z."""
        positions, rows, outputs = sums.shape
        tensors = self._weight.contiguous(), *self._signed(sign), sums
        _call(library.linear_totals, (positions * rows, outputs, self.width), tensors)

    def compiled_gather(
        self, library: ctypes.CDLL, sign: int, given: tuple[Tensor, ...], reach: Reach, gathered: Tensor
    ) -> bool:
        """Writes the products with the positive parts of z, or of negated z; returns whether memory sufficed."""
        panels = self._weight.reshape(self.outputs, self.width // PANEL, PANEL).transpose(0, 1).contiguous()
        sizes = *gathered.shape[:3], _REACH[reach], self.outputs, self.width
        return _call(library.linear_shares, sizes, (panels, *self._signed(sign), *given, gathered))

    def _signed(self, sign: int) -> tuple[Tensor, Tensor]:
        """Returns what is added, and what was read, both negated for the negative sign."""
        added = self.read.new_zeros(self.outputs) if self._added is None else self._added
        return (sign * added).contiguous(), (sign * self.read).contiguous()


class NormParts(Parts):
    """z_ij = x_i d F_j / d x_i of a layer norm F, whose mean and deviation depend on x too, plus a number by output."""

    def __init__(self, read: Tensor, norm: nn.LayerNorm, added: Tensor | None) -> None:
        super().__init__(read, read.shape[-1])
        centred = read - read.mean(-1, keepdim=True)
        deviation = (centred.square().mean(-1, keepdim=True) + norm.eps).sqrt()
        normed, gain = centred / deviation, norm.weight / deviation
        self._added = torch.zeros_like(norm.weight) if added is None else added
        # d F_j / d x_i = gain_j ([i = j] - 1 / width - normed_i normed_j / width)
        self._across, self._along = -gain / self.width, -gain * normed / self.width
        self._diagonal, self._turned = gain * read, normed * read

    def z(self, position: int) -> Tensor:
        """Returns (row, output, input) of one position, to be written over."""
        products = torch.addcmul(
            self._added[:, None], self._across[position][..., None], self.read[position][:, None]
        ).addcmul_(self._along[position][..., None], self._turned[position][:, None])
        products.diagonal(dim1=1, dim2=2).add_(self._diagonal[position])
        return products

    def compiled_totals(self, library: ctypes.CDLL, sign: int, sums: Tensor) -> None:
        """Writes the sums of the positive parts of z, or of negated z."""
        _call(library.norm_totals, (sums.shape[0] * sums.shape[1], self.width), (*self._signed(sign), sums))

    def compiled_gather(
        self, library: ctypes.CDLL, sign: int, given: tuple[Tensor, ...], reach: Reach, gathered: Tensor
    ) -> bool:
        """Writes the products with the positive parts of z, or of negated z; returns whether memory sufficed."""
        sizes = *gathered.shape[:3], _REACH[reach], self.width
        return _call(library.norm_shares, sizes, (*self._signed(sign), *given, gathered))

    def _signed(self, sign: int) -> tuple[Tensor, Tensor]:
        """Returns what is added, and all vectors that z is made of; negated z has factors of the other sign."""
        factors = (sign * each for each in (self._across, self._along, self._diagonal))
        return sign * self._added, torch.stack((*factors, self.read, self._turned))


def _call(function: Any, sizes: tuple[int, ...], tensors: tuple[Tensor, ...]) -> bool:
    """Calls a compiled function and returns what it does, as a truth; the tensors live at least as long."""
    return bool(function(*map(ctypes.c_long, sizes), *(ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors)))
