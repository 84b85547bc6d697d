"""The LSTM against slow versions of its formulas, printed sizes, and itself padded, batched or step by step."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from training_files import TRAINING, CopyTask

from alignlens.cli.main import main
from alignlens.errors import ConfigError
from alignlens.models.checkpoint import load_model
from alignlens.models.contract import length_mask, parameter_count
from alignlens.models.lstm import Lstm
from alignlens.models.registry import build
from alignlens.models.settings import LstmSettings

VOCAB = 13
DING = LstmSettings(dim=5, hidden=7)
DEEP = replace(DING, encoder_layers=2, decoder_layers=2, bidirectional=True)
SNELL = replace(DEEP, input_feeding=False, output="two_layer", output_dropout=0.0, embeddings="shared")
VARIANTS = {
    "ding": DING,
    "deep_feeding": DEEP,
    "no_feeding": replace(DEEP, input_feeding=False),
    "two_layer_feeding": replace(SNELL, input_feeding=True),
    "snell": SNELL,
    "snell_forward": replace(SNELL, bidirectional=False),
    "more_decoder_layers": replace(DING, decoder_layers=3),
    "uniform": replace(SNELL, attention="uniform"),
    "uniform_feeding": replace(DEEP, attention="uniform"),
    "linear": replace(SNELL, output="linear", hidden=5),
    "linear_feeding": replace(DEEP, output="linear", hidden=5),
    "tanh": replace(SNELL, activation="tanh"),
    "heads": replace(SNELL, heads=3),
    "heads_luong_feeding": replace(DEEP, heads=3, head_contexts="mean"),
    "heads_own": replace(SNELL, heads=3, head_projection="own", output="linear", hidden=5),
    "heads_own_mean": replace(SNELL, heads=2, head_projection="own", head_contexts="mean", activation="tanh"),
    "heads_uniform": replace(SNELL, heads=2, attention="uniform"),
    "gru": replace(SNELL, cell="gru", heads=2, head_projection="own", head_contexts="mean", activation="tanh"),
    "gru_feeding": replace(DEEP, cell="gru"),
}

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS.keys())
def model(request: pytest.FixtureRequest) -> Lstm:
    return lstm(request.param)


def lstm(settings: LstmSettings, seed: int = 1) -> Lstm:
    """Returns a model in double precision with weights large enough for attention to be far from uniform."""
    torch.manual_seed(seed)
    model = Lstm(settings, VOCAB, VOCAB).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.6)
        model.bilinear.weight.mul_(5)
    return model


def sentences(lengths: tuple[int, ...] = (5, 7, 3), dim: int = 5) -> tuple[Tensor, Tensor]:
    """Returns token vectors with large numbers at padding, and the mask."""
    vectors = torch.randn(len(lengths), max(lengths), dim, dtype=torch.float64, generator=torch.manual_seed(2))
    mask = length_mask(torch.tensor(lengths), max(lengths))
    return torch.where(mask[..., None], vectors, 100.0), mask


def prefixes(rows: int = 3, length: int = 4, dim: int = 5) -> Tensor:
    return torch.randn(rows, length, dim, dtype=torch.float64, generator=torch.manual_seed(3))


def test_the_variant_of_snell_has_exactly_the_published_number_of_parameters() -> None:
    settings = LstmSettings(
        encoder_layers=2,
        decoder_layers=2,
        bidirectional=True,
        input_feeding=False,
        output="two_layer",
        layer_dropout=0.5,
        output_dropout=0.0,
        embeddings="shared",
    )
    model = Lstm(settings, 8000, 8000)
    assert parameter_count(model) == 8_180_544
    assert parameter_count(model) - parameter_count(model.source_table) == 6_132_544
    assert model.source_table is model.target_table
    assert model.output.weight is not model.target_table.weight


def test_the_variant_of_ding_has_the_parameters_of_its_formulas() -> None:
    dim, hidden, vocab = 256, 256, 1000
    encoder = 4 * hidden * (dim + hidden + 2)
    decoder = 4 * hidden * (2 * dim + hidden + 2)
    attention = hidden * hidden + dim * (hidden + hidden)
    output = vocab * (dim + 1)
    assert (
        parameter_count(Lstm(LstmSettings(), vocab, vocab)) == 2 * vocab * dim + encoder + decoder + attention + output
    )


def test_tied_embeddings_are_one_table_and_padding_starts_at_zero() -> None:
    model = Lstm(replace(DING, embeddings="shared_tied"), VOCAB, VOCAB)
    assert model.output.weight is model.source_table.weight
    assert model.embed_source(torch.tensor([[3]])).abs().max() == 0
    assert model.embed_source(torch.tensor([[4]])).abs().max() > 0


def test_one_unit_attends_as_computed_by_hand() -> None:
    model = lstm(LstmSettings(dim=1, hidden=1))
    values = {"bilinear": 2.0, "from_context": 0.5, "inner": -0.3}
    with torch.no_grad():
        for name, value in values.items():
            model.get_submodule(name).weight.fill_(value)
        for part in (model.encoder, model.decoder):
            for parameter in part.parameters():
                parameter.fill_(0.7)

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    def advance(read: float, hidden: float, cell: float) -> tuple[float, float]:
        gate = 0.7 * read + 0.7 * hidden + 1.4  # all four gates have the same weights
        cell = sigmoid(gate) * cell + sigmoid(gate) * math.tanh(gate)
        return sigmoid(gate) * math.tanh(cell), cell

    hidden = cell = feed = 0.0
    encoded, expected, weights = [], [], []
    for token in (0.4, -1.5, 0.9):
        hidden, cell = advance(token, hidden, cell)
        encoded.append(hidden)
    for token in (-0.2, 1.1):
        hidden, cell = advance(token + feed, hidden, cell)  # the feed has the same weight as the token
        scores = [math.exp(hidden * 2.0 * state) for state in encoded]
        weights.append([score / sum(scores) for score in scores])
        context = sum(weight * state for weight, state in zip(weights[-1], encoded, strict=True))
        feed = math.tanh(0.5 * context - 0.3 * hidden)
        expected.append(feed)

    source = torch.tensor([[[0.4], [-1.5], [0.9]]], dtype=torch.float64)
    memory = model.encode(source, torch.ones(1, 3, dtype=torch.bool))
    decoded = model.decode(memory, torch.tensor([[[-0.2], [1.1]]], dtype=torch.float64), trace=True)
    torch.testing.assert_close(decoded.states[0, :, 0].tolist(), expected)
    torch.testing.assert_close(decoded.cross[0].weights[0, 0].tolist(), weights)


class GruCell(nn.GRUCell):
    """A cell that hands a second state on as it is."""

    def forward(self, read: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return super().forward(read, state[0]), state[1]


def cells(recurrent: nn.LSTM | nn.GRU, suffix: str = "") -> list[nn.LSTMCell | GruCell]:
    """Returns one cell for each layer of one direction, with the layer's weights."""
    found = []
    for layer in range(recurrent.num_layers):
        weight = getattr(recurrent, f"weight_ih_l{layer}{suffix}")
        kind = nn.LSTMCell if isinstance(recurrent, nn.LSTM) else GruCell
        cell = kind(weight.shape[1], recurrent.hidden_size).double()
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            setattr(cell, name, getattr(recurrent, f"{name}_l{layer}{suffix}"))
        found.append(cell)
    return found


def slow_encode(model: Lstm, sentence: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Returns states (source, width) of one sentence (source, dim), and the decoder's start for each layer."""
    suffixes = ("", "_reverse") if model.settings.bidirectional else ("",)
    below, start = sentence, []
    for layer in range(model.settings.encoder_layers):
        outputs, finals = [], []
        for suffix in suffixes:
            cell = cells(model.encoder, suffix)[layer]
            state = (torch.zeros(1, cell.hidden_size).double(),) * 2
            states = {}
            for position in range(len(sentence)) if not suffix else reversed(range(len(sentence))):
                state = cell(below[position : position + 1], state)
                states[position] = state[0][0]
            outputs.append(torch.stack([states[position] for position in range(len(sentence))]))
            finals.append(state)
        below = torch.cat(outputs, -1)
        start.append((sum(final[0] for final in finals) / len(finals), sum(final[1] for final in finals) / len(finals)))
    return below, start


def slow_decode(model: Lstm, sentence: Tensor, prefix: Tensor) -> tuple[Tensor, Tensor]:
    """Returns what the output layer reads (target, dim) and the weights (target, head, source) for one sentence."""
    encoded, layers = slow_encode(model, sentence)
    decoder = cells(model.decoder)
    layers = [layers[0]] * (len(decoder) - len(layers)) + layers
    feed = torch.zeros(model.settings.dim).double()
    outputs, weights = [], []
    for token in prefix:
        below = torch.cat((token, feed)) if model.settings.input_feeding else token
        for number, cell in enumerate(decoder):
            layers[number] = cell(below[None], layers[number])
            below = layers[number][0][0]
        heads = []
        for query in model.bilinear(below).chunk(model.settings.heads):
            scores = torch.stack([query @ state for state in encoded])
            if model.settings.attention == "uniform":
                scores = torch.ones(len(encoded)).double()
            heads.append(scores.exp() / scores.exp().sum())
        weights.append(torch.stack(heads))
        context = slow_context(model, [torch.einsum("s,sw->w", head, encoded) for head in heads])
        if model.settings.output == "luong":
            feed = torch.tanh(model.inner.weight @ below + context)
        elif model.settings.output == "linear":
            feed = below + context
        else:
            feed = model.inner(torch.cat((below, context)))
            feed = feed.tanh() if model.settings.activation == "tanh" else feed.clamp(min=0)
        outputs.append(feed)
    return torch.stack(outputs), torch.stack(weights)


def slow_context(model: Lstm, contexts: list[Tensor]) -> Tensor:
    """Returns what the contexts of the heads become: c_t, or what luong adds."""
    weight, bias = model.from_context.weight, model.from_context.bias
    share = 1 / len(contexts) if model.settings.head_contexts == "mean" else 1.0
    if model.settings.head_projection == "shared":
        return functional.linear(share * sum(contexts, torch.zeros(())), weight, bias)
    own = zip(contexts, weight.chunk(len(contexts)), bias.chunk(len(contexts)), strict=True)
    return share * sum((functional.linear(*each) for each in own), torch.zeros(()))


def test_a_batch_equals_the_slow_formulas_of_each_sentence_alone(model: Lstm) -> None:
    vectors, mask = sentences()
    prefix = prefixes()
    memory = model.encode(vectors, mask)
    decoded = model.decode(memory, prefix, trace=True)
    for row, length in enumerate(mask.sum(1)):
        states, weights = slow_decode(model, vectors[row, :length], prefix[row])
        torch.testing.assert_close(decoded.states[row], states)
        torch.testing.assert_close(decoded.cross[0].weights[row, :, :, :length], weights.transpose(0, 1))
        assert decoded.cross[0].weights[row, :, :, length:].abs().sum() == 0
        if model.settings.attention == "uniform":
            torch.testing.assert_close(weights, torch.full_like(weights, 1 / int(length)))
        else:
            assert weights.max() - weights.min() > 0.1, "uniform attention would test nothing"
            assert len(weights.unique(dim=1)[0]) == model.settings.heads, "heads must differ"


def test_named_attention_and_recurrent_states_give_the_states_back(model: Lstm) -> None:
    vectors, mask = sentences()
    decoded = model.decode(model.encode(vectors, mask), prefixes(), trace=True)
    layer = decoded.cross[0]
    context = torch.einsum("bhqk,bhkv,hvd->bqd", layer.weights, layer.values, layer.projection)
    if layer.bias is not None:
        context = context + layer.bias
    torch.testing.assert_close(model.join(decoded.recurrent, context), decoded.states)
    assert (layer.bias is None) == (model.settings.output == "luong")


def test_of_several_heads_each_starts_as_a_head_by_itself_would() -> None:
    """Twice the width would halve the range that a head's projection is drawn from, if all lay on its input axis."""
    settings = replace(SNELL, dim=40, hidden=40)
    torch.manual_seed(1)
    alone = Lstm(settings, VOCAB, VOCAB)
    torch.manual_seed(1)
    several = Lstm(replace(settings, heads=8, head_projection="own"), VOCAB, VOCAB)
    for name in ("bilinear", "from_context"):
        one, all_heads = alone.get_submodule(name), several.get_submodule(name)
        assert all_heads.weight.shape == (8 * len(one.weight), one.weight.shape[1])
        bound = one.in_features**-0.5
        for part in (all_heads.weight, all_heads.bias):
            for head in part.detach().chunk(8):
                assert 0.9 * bound < head.abs().max() <= bound
        torch.testing.assert_close(all_heads.weight.std(), one.weight.std(), rtol=0.05, atol=0)


def test_one_head_is_the_same_model_however_heads_would_be_put_together() -> None:
    models = []
    for contexts, projection in (("sum", "shared"), ("mean", "own")):
        torch.manual_seed(1)
        models.append(Lstm(replace(SNELL, head_contexts=contexts, head_projection=projection), VOCAB, VOCAB).eval())
    first, second = (model.state_dict() for model in models)
    assert list(first) == list(second)
    assert all(torch.equal(first[name], second[name]) for name in first)
    vectors, mask = (tensor.float() if tensor.is_floating_point() else tensor for tensor in sentences())
    states = [model.decode(model.encode(vectors, mask), prefixes().float()).states for model in models]
    assert torch.equal(*states)


def test_uniform_attention_is_frozen_and_the_rest_is_trained(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    task = CopyTask.write(tmp_path)
    model = {"dim": 8, "hidden": 8, "output": "two_layer", "attention": "uniform", "input_feeding": False}
    settings = {"architecture": "lstm", "model": model, "training": {**TRAINING, "weight_decay": 0.1}}
    assert main([*task.arguments(tmp_path / "run"), "--settings", json.dumps(settings), "--seed", "3"]) == 0
    trained, spec = load_model(tmp_path / "run" / "model")
    start = build(spec, seed=3)
    changed = {
        name for name, weight in start.named_parameters() if not torch.equal(weight, trained.get_parameter(name))
    }
    assert changed == {name for name, _ in start.named_parameters() if not name.startswith("bilinear")}
    assert not any(weight.requires_grad for weight in trained.get_submodule("bilinear").parameters())
    assert parameter_count(trained) == sum(weight.numel() for weight in trained.parameters()) - 8 * 8 - 8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"output": "linear", "dim": 6},
            r"^model\.output: linear adds .* hidden must be dim; here it is 7, and dim is 6",
        ),
        ({"output": "luong", "activation": "tanh"}, r"^model\.activation: output luong has no hidden layer"),
        (
            {"output": "linear", "dim": 7, "activation": "tanh"},
            r"^model\.activation: output linear has no hidden layer",
        ),
    ],
)
def test_settings_that_do_not_go_together(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(SNELL, **changes)


def test_the_decoder_starts_from_the_mean_of_both_directions_at_the_ends_of_each_sentence() -> None:
    model = lstm(SNELL)
    vectors, mask = sentences()
    memory = model.encode(vectors, mask)
    for row, length in enumerate(mask.sum(1)):
        _, (hidden, cell) = model.encoder(vectors[row : row + 1, :length])
        for layer in range(2):
            torch.testing.assert_close(memory.hidden[row, layer], (hidden[2 * layer, 0] + hidden[2 * layer + 1, 0]) / 2)
            torch.testing.assert_close(memory.cell[row, layer], (cell[2 * layer, 0] + cell[2 * layer + 1, 0]) / 2)


def test_the_topmost_layers_belong_together_if_the_decoder_has_fewer() -> None:
    model = lstm(replace(DING, encoder_layers=3, decoder_layers=2))
    vectors, mask = sentences((5,))
    _, (hidden, cell) = model.encoder(vectors)
    memory = model.encode(vectors, mask)
    torch.testing.assert_close(memory.hidden[0], hidden[1:, 0])
    torch.testing.assert_close(memory.cell[0], cell[1:, 0])


def test_steps_equal_decoding_at_once_also_after_rows_were_reordered(model: Lstm) -> None:
    vectors, mask = sentences()
    prefix = prefixes()
    prefix[1] = prefix[0]
    memory = model.encode(vectors, mask).select(torch.tensor([2, 2, 0]))
    expected = model.decode(memory, prefix)
    state = model.begin(memory)
    for position in range(prefix.shape[1]):
        decoded, state = model.step(state, prefix[:, position : position + 1])
        torch.testing.assert_close(decoded.states, expected.states[:, position : position + 1])
        torch.testing.assert_close(decoded.recurrent, expected.recurrent[:, position : position + 1])
        state = state.follow(torch.tensor([1, 0, 2]))  # the first two have read the same prefix of the same sentence
    state = state.select(torch.tensor([2, 0]))
    following = prefixes(length=1)[[2, 0]]
    decoded, _ = model.step(state, following)
    longer = model.decode(memory.select(torch.tensor([2, 0])), torch.cat((prefix[[2, 0]], following), 1))
    torch.testing.assert_close(decoded.states, longer.states[:, -1:])


@pytest.mark.parametrize("lengths", [(5, 5), (5, 3)], ids=["unpadded", "padded"])
def test_gradients_for_source_vectors_are_those_of_finite_differences_in_evaluation_mode(
    model: Lstm, lengths: tuple[int, ...]
) -> None:
    vectors, mask = sentences(lengths)
    prefix = prefixes(rows=2)

    def score(source: Tensor) -> Tensor:
        return model.logits(model.decode(model.encode(source, mask), prefix).states).log_softmax(-1)[..., 2].sum()

    source = vectors.clone().requires_grad_()
    (exact,) = torch.autograd.grad(score(source), source)
    numeric = torch.zeros_like(vectors)
    with torch.no_grad():
        for index in mask.nonzero():
            for axis in range(vectors.shape[-1]):
                shift = torch.zeros_like(vectors)
                shift[(*index, axis)] = 1e-6
                numeric[(*index, axis)] = (score(vectors + shift) - score(vectors - shift)) / 2e-6
    torch.testing.assert_close(exact, numeric, rtol=1e-5, atol=1e-7)
    assert exact[~mask].abs().sum() == 0
    # Single precision runs on other kernels.
    model.float()
    prefix, source = prefix.float(), vectors.float().requires_grad_()
    (single,) = torch.autograd.grad(score(source), source)
    torch.testing.assert_close(single, numeric.float(), rtol=1e-3, atol=1e-4)


def test_layer_dropout_acts_between_layers_in_training_only() -> None:
    vectors, mask = sentences()
    prefix = prefixes()

    def states(settings: LstmSettings, training: bool) -> Tensor:
        torch.manual_seed(5)
        model = lstm(settings).train(training)
        return model.decode(model.encode(vectors, mask), prefix).states

    for feeding in (False, True):
        one = replace(DING, layer_dropout=0.5, output_dropout=0.0, input_feeding=feeding)
        torch.testing.assert_close(states(one, training=True), states(one, training=False))
        for layers in ({"encoder_layers": 2}, {"decoder_layers": 2}):
            two = replace(one, **layers)
            assert not torch.allclose(states(two, training=True), states(two, training=False))
            torch.testing.assert_close(states(two, False), states(replace(two, layer_dropout=0.0), True))


def test_output_dropout_reaches_the_output_layer_and_the_feed_in_training_only() -> None:
    vectors, mask = sentences((5,) * 31)
    model = lstm(replace(DING, output_dropout=0.5))
    prefix = prefixes(rows=31)
    plain = model.decode(model.encode(vectors, mask), prefix).states
    dropped = model.train().decode(model.encode(vectors, mask), prefix).states
    first = dropped[:, 0]
    assert 0.3 < float((first == 0).double().mean()) < 0.7
    torch.testing.assert_close(first[first != 0], (2 * plain[:, 0])[first != 0])
    assert not torch.allclose(dropped[:, 1][dropped[:, 1] != 0], (2 * plain[:, 1])[dropped[:, 1] != 0])
    without = lstm(replace(DING, output_dropout=0.0)).train()
    torch.testing.assert_close(without.decode(without.encode(vectors, mask), prefix).states, plain)


def test_modes_switch_dropout_but_leave_recurrent_parts_able_to_run_backwards_everywhere() -> None:
    model = Lstm(replace(DEEP, layer_dropout=0.5), VOCAB, VOCAB)
    assert model.training
    assert (model.encoder.dropout, model.decoder.dropout) == (0.5, 0.5)
    assert model.eval() is model
    assert not model.training
    assert not model.output_dropout.training
    assert (model.encoder.dropout, model.decoder.dropout) == (0.0, 0.0)
    assert model.encoder.training
    assert model.decoder.training
