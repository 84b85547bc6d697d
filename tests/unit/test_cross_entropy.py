"""The training objective against its closed form, torch's own, and finite differences."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from alignlens.training.objectives.cross_entropy import smoothed_cross_entropy

SMOOTHINGS = [0.0, 0.1, 0.7]


def random_rows(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (5, 7) that want a gradient, and labels; one label occurs twice."""
    torch.manual_seed(2)
    return torch.randn(5, 7, dtype=dtype, requires_grad=True), torch.tensor([6, 0, 3, 3, 5])


def test_equal_logits_cost_the_log_of_the_vocabulary_whatever_the_smoothing() -> None:
    for smoothing in SMOOTHINGS:
        loss = smoothed_cross_entropy(torch.full((3, 7), 11.0), torch.tensor([0, 4, 6]), smoothing)
        assert loss.item() == pytest.approx(3 * math.log(7))


def test_two_pieces_have_the_closed_form() -> None:
    odds, smoothing = 3.0, 0.2
    logits = torch.tensor([[math.log(odds), 0.0]])
    right, wrong = -math.log(odds / (1 + odds)), -math.log(1 / (1 + odds))
    expected = (1 - smoothing) * right + smoothing * (right + wrong) / 2
    assert smoothed_cross_entropy(logits, torch.tensor([0]), smoothing).item() == pytest.approx(expected)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_loss_and_gradient_are_those_of_torch(smoothing: float) -> None:
    logits, labels = random_rows()
    ours = smoothed_cross_entropy(logits, labels, smoothing)
    theirs = functional.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(ours, theirs)
    # Weighted, as the loop divides by the labels of an update.
    gradients = [torch.autograd.grad(loss * 0.3, logits)[0] for loss in (ours, theirs)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_the_gradient_agrees_with_finite_differences(smoothing: float) -> None:
    logits, labels = random_rows(torch.float64)
    (0.3 * smoothed_cross_entropy(logits, labels, smoothing)).backward()
    assert logits.grad is not None
    for place in torch.eye(35, dtype=torch.float64).view(35, 5, 7):  # gradcheck goes back twice, which is refused
        above, below = (
            0.3 * smoothed_cross_entropy(logits.detach() + side * place, labels, smoothing) for side in (1e-6, -1e-6)
        )
        torch.testing.assert_close((above - below) / 2e-6, (logits.grad * place).sum(), rtol=0, atol=1e-8)


def test_the_logits_are_left_as_they_are() -> None:
    logits, labels = random_rows()
    before = logits.detach().clone()
    smoothed_cross_entropy(logits, labels, 0.1).backward()
    assert torch.equal(logits.detach(), before)


def test_without_gradients_the_loss_is_the_same() -> None:
    logits, labels = random_rows()
    with torch.no_grad():
        alone = smoothed_cross_entropy(logits, labels, 0.1)
    torch.testing.assert_close(alone, smoothed_cross_entropy(logits, labels, 0.1).detach())


def test_a_second_backward_pass_is_refused() -> None:
    logits, labels = random_rows()
    loss = smoothed_cross_entropy(logits, labels, 0.1)
    (loss * 0.5).backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        (loss * 0.5).backward()


def test_half_precision_is_summed_in_single_precision() -> None:
    logits, labels = random_rows()
    half = logits.detach().bfloat16().requires_grad_()
    loss = smoothed_cross_entropy(half, labels, 0.1)
    loss.backward()
    assert loss.dtype == torch.float32
    assert half.grad is not None
    assert half.grad.dtype == torch.bfloat16
    torch.testing.assert_close(loss, smoothed_cross_entropy(half.detach().float(), labels, 0.1))
