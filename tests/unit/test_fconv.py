"""FConv against a slow version that loops over positions, and its two peculiarities: length and gradient scaling."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from alignlens.errors import ConfigError
from alignlens.models.contract import length_mask, parameter_count
from alignlens.models.fconv import Fconv, scale_gradient
from alignlens.models.settings import FconvSettings

VOCAB = 13
PLAIN = FconvSettings(dim=5, hidden=7, encoder_layers=2, decoder_layers=3, max_positions=11)
VARIANTS = {
    "plain": PLAIN,
    "even_width": replace(PLAIN, width=2),
    "wide": replace(PLAIN, width=5, decoder_layers=1),
    "one_token_wide": replace(PLAIN, width=1),
    "shared_tied": replace(PLAIN, embeddings="shared_tied"),
}

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS.keys())
def model(request: pytest.FixtureRequest) -> Fconv:
    return fconv(request.param)


def fconv(settings: FconvSettings) -> Fconv:
    """Returns a model in double precision, with biases and with attention that is far from uniform."""
    torch.manual_seed(1)
    model = Fconv(settings, VOCAB, VOCAB).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.3)
            if name.endswith("original0"):
                parameter.mul_(torch.rand_like(parameter) + 0.5)
        model.source_positions.mul_(5)
        model.target_positions.mul_(5)
    return model


def sentences(lengths: tuple[int, ...] = (5, 7, 3), dim: int = 5) -> tuple[Tensor, Tensor]:
    """Returns token vectors with large numbers at padding, and the mask."""
    vectors = torch.randn(len(lengths), max(lengths), dim, dtype=torch.float64, generator=torch.manual_seed(2))
    mask = length_mask(torch.tensor(lengths), max(lengths))
    return torch.where(mask[..., None], vectors, 100.0), mask


def prefixes(rows: int = 3, length: int = 4, dim: int = 5) -> Tensor:
    return torch.randn(rows, length, dim, dtype=torch.float64, generator=torch.manual_seed(3))


def matrix(linear: nn.Linear) -> Tensor:
    """Returns the weight: each output's direction, times its length."""
    lengths, directions = (getattr(linear.parametrizations.weight, name) for name in ("original0", "original1"))
    rows = zip(lengths, directions, strict=True)
    return torch.stack([length * direction / direction.square().sum().sqrt() for length, direction in rows])


def apply(linear: nn.Linear, vector: Tensor) -> Tensor:
    return matrix(linear) @ vector + linear.bias


def convolve(linear: nn.Linear, vectors: list[Tensor], first: int, width: int) -> Tensor:
    """Returns content times gate of the window that starts at ``first``; outside the sentence there is nothing."""
    hidden = len(vectors[0])
    total = linear.bias
    for offset in range(width):
        if 0 <= first + offset < len(vectors):
            total = total + matrix(linear)[:, offset * hidden : (offset + 1) * hidden] @ vectors[first + offset]
    return total[:hidden] / (1 + torch.exp(-total[hidden:]))


def slow_encode(model: Fconv, sentence: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Returns the encoder output and the attention values, before length scaling, of one sentence (source, dim)."""
    width, half = model.settings.width, math.sqrt(0.5)
    inputs = [vector + position for vector, position in zip(sentence, model.source_positions, strict=False)]
    x = [apply(model.encoder_in, vector) for vector in inputs]
    for layer in model.encoder:
        first = [position - (width - 1) // 2 for position in range(len(x))]
        x = [(convolve(layer, x, first[i], width) + x[i]) * half for i in range(len(x))]
    outputs = [apply(model.encoder_out, vector) for vector in x]
    return outputs, [(output + given) * half for output, given in zip(outputs, inputs, strict=True)]


def slow_decode(model: Fconv, sentence: Tensor, prefix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns states (target, dim), weights (layer, target, source), attention outputs (layer, target, hidden)."""
    width, half = model.settings.width, math.sqrt(0.5)
    keys, values = slow_encode(model, sentence)
    inputs = [vector + position for vector, position in zip(prefix, model.target_positions, strict=False)]
    x = [apply(model.decoder_in, vector) for vector in inputs]
    weights, outputs = [], []
    for layer in model.decoder:
        following = []
        for position, given in enumerate(inputs):
            convolved = convolve(layer.convolution, x[: position + 1], position - width + 1, width)
            query = (apply(layer.query, convolved) + given) * half
            scores = torch.stack([torch.exp(query @ key) for key in keys])
            weights.append(scores / scores.sum())
            mean = sum((weight * value for weight, value in zip(weights[-1], values, strict=True)), torch.zeros(()))
            outputs.append(apply(layer.attended, mean * len(values) * math.sqrt(1 / len(values))))
            following.append(((convolved + outputs[-1]) * half + x[position]) * half)
        x = following
    states = torch.stack([apply(model.decoder_out, vector) for vector in x])
    by_layer = (len(model.decoder), len(prefix))
    return states, torch.stack(weights).unflatten(0, by_layer), torch.stack(outputs).unflatten(0, by_layer)


def test_a_batch_equals_the_slow_formulas_of_each_sentence_alone(model: Fconv) -> None:
    vectors, mask = sentences()
    prefix = prefixes()
    memory = model.encode(vectors, mask)
    decoded = model.decode(memory, prefix, trace=True)
    assert len(decoded.cross) == model.settings.decoder_layers
    for row, length in enumerate(mask.sum(1)):
        states, weights, outputs = slow_decode(model, vectors[row, :length], prefix[row])
        torch.testing.assert_close(decoded.states[row], states)
        assert weights.max() - weights.min() > 0.1, "uniform attention would test nothing"
        for number, layer in enumerate(decoded.cross):
            torch.testing.assert_close(layer.weights[row, 0, :, :length], weights[number])
            assert layer.weights[row, 0, :, length:].abs().sum() == 0
            named = torch.einsum("hqk,hkv,hvd->qd", layer.weights[row], layer.values[row], layer.projection)
            torch.testing.assert_close(named + layer.bias, outputs[number])


def test_values_grow_with_the_square_root_of_the_real_length() -> None:
    model = fconv(PLAIN)
    vectors, mask = sentences()
    memory = model.encode(vectors, mask)
    for row, length in enumerate((5, 7, 3)):
        _, values = slow_encode(model, vectors[row, :length])
        torch.testing.assert_close(memory.values[row, :length], torch.stack(values) * math.sqrt(length))


def test_the_output_layer_is_weight_normed_unless_it_is_the_token_table() -> None:
    states = prefixes()
    plain, tied = fconv(PLAIN), fconv(replace(PLAIN, embeddings="tied"))
    torch.testing.assert_close(plain.logits(states)[1, 2], apply(plain.output, states[1, 2]))
    torch.testing.assert_close(tied.logits(states), states @ tied.target_table.weight.t() + tied.output.bias)
    assert tied.source_table is not tied.target_table


def test_the_number_of_parameters_is_that_of_the_formulas() -> None:
    vocab, dim, hidden, positions = 1000, 256, 256, 1024

    def linear(inputs: int, outputs: int) -> int:
        return inputs * outputs + outputs + outputs  # directions, lengths, bias

    tables = 2 * vocab * dim + 2 * positions * dim
    convolutions = 7 * linear(3 * hidden, 2 * hidden)
    attention = 3 * (linear(hidden, dim) + linear(dim, hidden))
    ends = 2 * (linear(dim, hidden) + linear(hidden, dim)) + linear(dim, vocab)
    assert parameter_count(Fconv(FconvSettings(), vocab, vocab)) == tables + convolutions + attention + ends


def test_initial_weights_have_the_deviations_of_the_paper() -> None:
    torch.manual_seed(7)
    model = Fconv(FconvSettings(dim=101, hidden=103, dropout=0.2, max_positions=307), 211, 223)
    layer = model.decoder[0]
    expected = {
        model.encoder[1]: math.sqrt(4 * 0.8 / (3 * 103)),
        layer.convolution: math.sqrt(4 * 0.8 / (3 * 103)),
        model.encoder_in: math.sqrt(0.8 / 101),
        model.decoder_out: math.sqrt(1 / 103),
        layer.query: math.sqrt(1 / 103),
        layer.attended: math.sqrt(1 / 101),
        model.output: math.sqrt(0.8 / 101),
    }
    for linear, std in expected.items():
        torch.testing.assert_close(linear.weight.std().item(), std, rtol=0.03, atol=0)
        assert linear.bias.abs().max() == 0
    for table in (model.source_table.weight, model.target_table.weight, model.source_positions, model.target_positions):
        torch.testing.assert_close(table.std().item(), 0.1, rtol=0.03, atol=0)
    assert model.embed_source(torch.tensor([[3]])).abs().max() == 0


def score(model: Fconv, source: Tensor, mask: Tensor) -> Tensor:
    states = model.decode(model.encode(source, mask), prefixes()).states
    return model.logits(states).log_softmax(-1)[..., 2].sum()


def gradient(model: Fconv, vectors: Tensor, mask: Tensor) -> Tensor:
    source = vectors.clone().requires_grad_()
    return torch.autograd.grad(score(model, source, mask), source)[0]


def test_without_scaling_gradients_are_those_of_finite_differences(model: Fconv) -> None:
    model.scale_encoder_gradient = False
    vectors, mask = sentences()
    exact = gradient(model, vectors, mask)
    numeric = torch.zeros_like(vectors)
    with torch.no_grad():
        for index in mask.nonzero():
            for axis in range(vectors.shape[-1]):
                shift = torch.zeros_like(vectors)
                shift[(*index, axis)] = 1e-6
                numeric[(*index, axis)] = (
                    score(model, vectors + shift, mask) - score(model, vectors - shift, mask)
                ) / 2e-6
    torch.testing.assert_close(exact, numeric, rtol=1e-5, atol=1e-7)
    assert exact[~mask].abs().sum() == 0


def test_scaling_multiplies_the_gradient_through_convolutions_only_and_no_number(model: Fconv) -> None:
    vectors, mask = sentences()
    source = vectors.clone().requires_grad_()
    memory = model.encode(source, mask)
    blocked = memory.states.detach()
    direct_values = (blocked + source + model.source_positions[:7]) * (mask.sum(1).double() / 2).sqrt()[:, None, None]
    states = model.decode(replace(memory, states=blocked, values=direct_values), prefixes()).states
    (direct,) = torch.autograd.grad(model.logits(states).log_softmax(-1)[..., 2].sum(), source)

    assert model.scale_encoder_gradient, "the default of the released model"
    scaled, with_scaling = gradient(model, vectors, mask), score(model, vectors, mask)
    model.scale_encoder_gradient = False
    true, without = gradient(model, vectors, mask), score(model, vectors, mask)
    assert torch.equal(with_scaling, without)
    torch.testing.assert_close(scaled - direct, (true - direct) / (2 * model.settings.decoder_layers))
    assert (true - direct)[mask].abs().max() > 1e-3, "both paths must matter"
    assert direct[mask].abs().max() > 1e-3


def test_a_scaled_gradient_leaves_numbers_exactly_as_they_are() -> None:
    numbers = torch.tensor([1e-30, -3.3333333, 1e30, 0.1], requires_grad=True)
    scaled = scale_gradient(numbers, 1 / 6)
    assert torch.equal(scaled, numbers)
    scaled.sum().backward()
    torch.testing.assert_close(numbers.grad, torch.full((4,), 1 / 6))


def test_the_setting_is_what_the_switch_starts_with() -> None:
    assert Fconv(replace(PLAIN, scale_encoder_gradient=False), VOCAB, VOCAB).scale_encoder_gradient is False


def test_steps_equal_decoding_at_once_also_after_rows_were_reordered(model: Fconv) -> None:
    vectors, mask = sentences()
    prefix = prefixes()
    prefix[1] = prefix[0]
    memory = model.encode(vectors, mask).select(torch.tensor([2, 2, 0]))
    expected = model.decode(memory, prefix).states
    state = model.begin(memory)
    for position in range(prefix.shape[1]):
        decoded, state = model.step(state, prefix[:, position : position + 1])
        torch.testing.assert_close(decoded.states, expected[:, position : position + 1])
        state = state.follow(torch.tensor([1, 0, 2]))  # the first two have read the same prefix of the same sentence
    state = state.select(torch.tensor([2, 0]))
    following = prefixes(length=1)[[2, 0]]
    decoded, _ = model.step(state, following)
    longer = model.decode(memory.select(torch.tensor([2, 0])), torch.cat((prefix[[2, 0]], following), 1)).states
    torch.testing.assert_close(decoded.states, longer[:, -1:])


def test_a_sentence_beyond_the_last_position_is_an_error_that_says_what_to_do() -> None:
    model = fconv(PLAIN)
    assert model.longest == 11
    fits, too_long = prefixes(length=11), prefixes(length=12)
    memory = model.encode(fits, torch.ones(3, 11, dtype=torch.bool))
    model.decode(memory, fits)
    with pytest.raises(ConfigError, match=r"11 learned positions, but a source sentence has 12 .* train with more"):
        model.encode(too_long, torch.ones(3, 12, dtype=torch.bool))
    with pytest.raises(ConfigError, match="a target sentence has 12 pieces"):
        model.decode(memory, too_long)
    state = model.begin(memory)
    for _ in range(11):
        _, state = model.step(state, prefixes(length=1))
    with pytest.raises(ConfigError, match="a target sentence has 12 pieces"):
        model.step(state, prefixes(length=1))


def test_dropout_acts_in_training_only_and_drops_the_same_inputs_on_both_paths() -> None:
    vectors, mask = sentences((7,) * 31)
    prefix = prefixes(rows=31)
    model = fconv(replace(PLAIN, dropout=0.5, encoder_layers=0))
    plain = model.decode(model.encode(vectors, mask), prefix).states
    torch.testing.assert_close(plain, model.decode(model.encode(vectors, mask), prefix).states, rtol=0, atol=0)
    model.train()
    memory = model.encode(vectors, mask)
    # Without layers the encoder is two linear maps of the very inputs that are added to its output.
    inputs = memory.values / math.sqrt(7 / 2) - memory.states
    assert 0.3 < float((inputs.abs() < 1e-9).double().mean()) < 0.7
    torch.testing.assert_close(memory.states, model.encoder_out(model.encoder_in(inputs)))
    states = model.decode(memory, prefix).states
    assert 0.3 < float((states == 0).double().mean()) < 0.7
    without = fconv(replace(PLAIN, dropout=0.0))
    expected = without.decode(without.encode(vectors, mask), prefix).states
    without.train()
    torch.testing.assert_close(without.decode(without.encode(vectors, mask), prefix).states, expected)
