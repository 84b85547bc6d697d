"""What the output of an attention block is made of, by how near its parts are to it (Ferrando et al. 2022, ALTI).

A block adds attention to the stream of states. Its sum has one part for every position that it looks at,
``sum over heads h of a[h,i,j] f[h](x_j)``, a part that is the stream itself, and a bias. A norm after the sum, its
deviation held as it is, is linear in them, so that its output y_i is a sum of parts T_i(x_j) too, and constants. The
nearer a part is to the whole, by the sum of absolute differences, the larger is its share:

    max(0, |y_i| - |y_i - T_i(x_j)|), divided by the sum over all parts of y_i

With norms before the branches y_i is the sum itself, and positions are those that attention reads, normed.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from alignlens.attribution.methods.norms import transformed
from alignlens.attribution.rows import check_finite, divided
from alignlens.models.contract import Attention
from alignlens.models.transformer import Branch


class _Parts(NamedTuple):
    """The parts of a block's outputs, those of positions not multiplied yet."""

    whole: Tensor  # (row, query, dim)
    stream: Tensor  # (row, query, dim)
    weights: Tensor  # (row, key, query, head)
    vectors: Tensor  # (row, key, head, dim)


def own_shares(branch: Branch, attention: Attention, visible: Tensor, at_once: int) -> Tensor:
    """Returns shares (row, position, position) of self-attention; the stream is a part of its own position.

    ``visible``, broadcast to (row, query, key), is True where a query may look. Parts of ``at_once`` keys exist at the
    same time.
    """
    near = _nearness(_parts(branch, attention), at_once, own=True)
    return _shares(near, visible)


def cross_shares(branch: Branch, attention: Attention, visible: Tensor, at_once: int) -> tuple[Tensor, Tensor]:
    """Returns shares (row, target, source) of attention to the source, and (row, target, 1) of the stream past it."""
    parts = _parts(branch, attention)
    near = torch.cat((_nearness(parts, at_once, own=False), _near(parts.whole, parts.stream)[..., None]), -1)
    stream = visible.new_ones(*visible.shape[:-1], 1)
    shares = _shares(near, torch.cat((visible, stream), -1))
    return shares[..., :-1], shares[..., -1:]


def _shares(near: Tensor, visible: Tensor) -> Tensor:
    """Returns what is near as shares; where nothing is, all is the nearest part's."""
    check_finite(near, "states")
    return divided(near.masked_fill(~visible, 0.0).clamp(min=0), near, visible)[0]


def _parts(branch: Branch, attention: Attention) -> _Parts:
    stream, output = attention.stream, attention.output
    if stream is None or output is None:
        raise ValueError("its attention does not expose its stream and output")
    weights = attention.weights.permute(0, 3, 2, 1)
    vectors = transformed(attention).transpose(1, 2)
    if branch.norm_first:
        return _Parts(stream + output, stream, weights, vectors)
    norm = branch.norm
    whole, _, scale = torch.native_layer_norm(stream + output, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
    return _Parts(
        whole, _centred(stream, norm.weight) * scale, weights * scale[:, None], _centred(vectors, norm.weight)
    )


def _centred(vectors: Tensor, weight: Tensor) -> Tensor:
    """Returns vectors (..., dim) as a norm has them before it divides by their deviation."""
    return (vectors - vectors.mean(-1, keepdim=True)) * weight


def _nearness(parts: _Parts, at_once: int, own: bool) -> Tensor:
    """Returns (row, query, key): how much nearer the part of a key is to the whole than nothing is.

    With ``own`` the stream belongs to the part of the same position.
    """
    parts_nearness = []
    for some in torch.split(torch.arange(parts.weights.shape[1], device=parts.weights.device), at_once):
        parts_of_keys = parts.weights[:, some] @ parts.vectors[:, some]  # (row, some, query, dim)
        if own:
            parts_of_keys[:, some - some[0], some] += parts.stream[:, some]
        parts_nearness.append(_near(parts.whole[:, None], parts_of_keys))
    return torch.cat(parts_nearness, 1).transpose(1, 2)


def _near(whole: Tensor, part: Tensor) -> Tensor:
    return whole.abs().sum(-1) - (whole - part).abs().sum(-1)
