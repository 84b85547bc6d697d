"""The rules of relevance by hand: signs, biases, what is lost and what rescaling gives back."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from alignlens.attribution.relevance.alpha_beta import AlphaBeta, AlphaBetaSettings
from alignlens.attribution.relevance.epsilon import Epsilon
from alignlens.attribution.relevance.rules import EPSILON, Reach

READ = torch.tensor([[[2.0, -1.0]]]).double()  # (position, row, width)
WEIGHT = torch.tensor([[1.0, 3.0], [-2.0, -4.0]]).double()  # z = [[2, -3], [-4, 4]]
GIVEN = torch.tensor([[[[0.6, 0.4]]]]).double()  # (position, row, step, width)


def linear(settings: AlphaBetaSettings, bias: Tensor | None = None) -> tuple[list[float], AlphaBeta]:
    """Returns the relevance of both inputs, and the rules that gave it."""
    rules = AlphaBeta(settings)
    return rules.linear("linear", READ, WEIGHT, bias, GIVEN, Reach.EVERY)[0, 0, 0].tolist(), rules


@pytest.mark.parametrize("rescale", [True, False])
def test_positive_parts_share_what_an_output_got(rescale: bool) -> None:
    # Output 0 has one positive part, of input 0; output 1 one of input 1.
    shares, rules = linear(AlphaBetaSettings(rescale=rescale))
    assert shares == pytest.approx([0.6, 0.4], abs=1e-5)
    assert rules.losses.handed_on["linear"] == pytest.approx(rules.losses.arrived["linear"], abs=1e-4)


def test_both_signs_get_half_each() -> None:
    # Negative parts: output 0 by input 1, output 1 by input 0.
    shares, _ = linear(AlphaBetaSettings(alpha=0.5))
    assert shares == pytest.approx([0.5, 0.5], abs=1e-5)


def test_where_everything_is_positive_half_is_lost_and_rescaling_gives_it_back() -> None:
    read, weight = torch.ones(1, 1, 3).double(), torch.ones(2, 3).double()
    given = torch.ones(1, 1, 1, 2).double()
    for rescale, total in ((False, 1.0), (True, 2.0)):
        rules = AlphaBeta(AlphaBetaSettings(alpha=0.5, rescale=rescale))
        assert float(rules.linear("linear", read, weight, None, given, Reach.EVERY).sum()) == pytest.approx(
            total, rel=1e-5
        )
        assert rules.losses.handed_on["linear"] == pytest.approx(1.0, rel=1e-5)


def test_a_bias_is_spread_before_signs_or_stands_in_the_denominator() -> None:
    bias = torch.tensor([8.0, -2.0]).double()
    # Spread: z = [[2 + 4, -3 + 4], [-4 - 1, 4 - 1]].
    shares, _ = linear(AlphaBetaSettings(rescale=False), bias)
    assert shares == pytest.approx([0.6 * 6 / 7, 0.6 / 7 + 0.4], abs=1e-5)
    # Printed: output 0 keeps 8 / (2 + 8) of its relevance, a negative bias takes nothing of the positive part.
    shares, rules = linear(AlphaBetaSettings(bias="printed", rescale=False), bias)
    assert shares == pytest.approx([0.6 * 0.2, 0.4], abs=1e-5)
    assert rules.losses.handed_on["linear"] == pytest.approx(0.52, abs=1e-4)


def test_a_sum_gives_to_those_who_share_its_sign_and_nothing_where_none_does() -> None:
    first, second = torch.tensor([[[1.0, -1.0, -2.0]]]).double(), torch.tensor([[[3.0, 2.0, -1.0]]]).double()
    given = torch.ones(1, 1, 1, 3).double()
    rules = AlphaBeta(AlphaBetaSettings(rescale=False))
    one, other = rules.summed("residual sum", first, second, given)
    assert one.flatten().tolist() == pytest.approx([0.25, 0.0, 0.0], abs=1e-5)
    assert other.flatten().tolist() == pytest.approx([0.75, 1.0, 0.0], abs=1e-5)
    rescaled = AlphaBeta(AlphaBetaSettings()).summed("residual sum", first, second, given)
    assert sum(float(side.sum()) for side in rescaled) == pytest.approx(3.0)


def test_a_position_hands_on_nothing_for_steps_that_it_cannot_matter_to() -> None:
    read, given = torch.rand(3, 2, 4).double(), torch.rand(3, 2, 3, 4).double()
    weight = torch.rand(4, 4).double()
    rules = AlphaBeta(AlphaBetaSettings())
    everything = rules.linear("linear", read, weight, None, given, Reach.EVERY)
    later = rules.linear("linear", read, weight, None, given, Reach.LATER)
    own = rules.linear("linear", read, weight, None, given, Reach.OWN)
    for position in range(3):
        for step in range(3):
            expected = everything[position, :, step]
            zero = torch.zeros_like(expected)
            torch.testing.assert_close(later[position, :, step], expected if step >= position else zero)
            torch.testing.assert_close(own[position, :, step], expected if step == position else zero)


def test_a_layer_norm_is_not_cut_short() -> None:
    """Its first-order parts sum to nothing, so that positive and negative ones are equally large."""
    torch.manual_seed(1)
    norm, read = nn.LayerNorm(6).double(), torch.randn(1, 1, 6).double()
    slopes = torch.autograd.functional.jacobian(norm, read[0, 0])
    z = slopes * read[0, 0]
    assert z.sum(1).abs().max() < 1e-4
    given = torch.rand(1, 1, 1, 6).double()
    expected = (given[0, 0, 0] / (z.clamp(min=0).sum(1) + EPSILON)) @ z.clamp(min=0)
    rules = AlphaBeta(AlphaBetaSettings(rescale=False))
    torch.testing.assert_close(rules.norm("layer norm", read, norm, given, Reach.EVERY)[0, 0, 0], expected)


def test_the_epsilon_rule_shares_by_value() -> None:
    found = Epsilon(1e-12).linear("linear", READ, WEIGHT, None, GIVEN[..., :1].expand(-1, -1, -1, 2), Reach.EVERY)
    # Output 0 is 2 - 3 = -1; output 1 is -4 + 4 = 0, which an epsilon keeps from being divided by.
    first = torch.tensor([2.0, -3.0]).double() / -1 * 0.6
    second = torch.tensor([-4.0, 4.0]).double() / 1e-12 * 0.6
    torch.testing.assert_close(found[0, 0, 0], first + second)
