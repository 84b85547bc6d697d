"""Explicit backward passes of LSTM and FConv against automatic differentiation and against finite differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from alignlens.attribution.gradients import fconv_blocks, lstm_blocks
from alignlens.attribution.gradients.autograd import AutogradGradients
from alignlens.attribution.gradients.choice import source_gradients
from alignlens.attribution.gradients.contract import Gradients, SourceGradients
from alignlens.attribution.gradients.fconv import FconvGradients
from alignlens.attribution.gradients.lstm import LstmGradients
from alignlens.errors import ConfigError
from alignlens.models.contract import Seq2Seq, length_mask
from alignlens.models.fconv import Fconv
from alignlens.models.lstm import Lstm
from alignlens.models.settings import FconvSettings, LstmSettings

VOCAB, DIM, TARGET = 11, 6, 5
LENGTHS = (5, 7, 1, 3)
LSTM = LstmSettings(dim=DIM, hidden=5)
BOTH_WAYS = replace(LSTM, bidirectional=True, input_feeding=False, output="two_layer")
FCONV = FconvSettings(dim=DIM, hidden=4, encoder_layers=2, decoder_layers=3, max_positions=9)
VARIANTS: dict[str, LstmSettings | FconvSettings] = {
    "lstm": LSTM,
    "lstm_without_feeding": replace(LSTM, input_feeding=False),
    "lstm_two_layer": replace(LSTM, output="two_layer"),
    "lstm_both_ways": replace(LSTM, bidirectional=True),
    "lstm_snell": BOTH_WAYS,
    "lstm_deep": replace(LSTM, encoder_layers=2, decoder_layers=2),
    "lstm_deep_encoder": replace(LSTM, encoder_layers=3, decoder_layers=2, bidirectional=True),
    "lstm_deep_decoder": replace(LSTM, decoder_layers=3, output="two_layer", bidirectional=True),
    "lstm_snell_deep": replace(BOTH_WAYS, encoder_layers=2, decoder_layers=3, embeddings="shared_tied"),
    "lstm_uniform": replace(BOTH_WAYS, attention="uniform"),
    "lstm_uniform_feeding": replace(LSTM, attention="uniform", decoder_layers=2),
    "lstm_linear": replace(BOTH_WAYS, output="linear", hidden=DIM, encoder_layers=2, decoder_layers=2),
    "lstm_linear_feeding": replace(LSTM, output="linear", hidden=DIM),
    "lstm_tanh": replace(BOTH_WAYS, activation="tanh"),
    "lstm_tanh_feeding": replace(LSTM, output="two_layer", activation="tanh"),
    "fconv": FCONV,
    "fconv_true_gradient": replace(FCONV, scale_encoder_gradient=False),
    "fconv_width_1": replace(FCONV, width=1),
    "fconv_width_2": replace(FCONV, width=2, encoder_layers=3),
    "fconv_width_5": replace(FCONV, width=5, hidden=DIM),
    "fconv_width_9": replace(FCONV, width=9, decoder_layers=2),
    "fconv_one_layer": replace(FCONV, encoder_layers=1, decoder_layers=1, embeddings="shared_tied"),
}

Batch = tuple[Tensor, Tensor, Tensor]  # source vectors, mask, prefix vectors


def build(settings: LstmSettings | FconvSettings) -> Lstm | Fconv:
    """Returns a model in double precision with attention that is far from uniform."""
    torch.manual_seed(1)
    model = Lstm(settings, VOCAB, VOCAB) if isinstance(settings, LstmSettings) else Fconv(settings, VOCAB, VOCAB)
    model.double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name:
                parameter.normal_(std=0.3)
            elif "table" not in name and "original" not in name:
                parameter.mul_(2)
    return model


def explicit(model: Lstm | Fconv) -> SourceGradients[Any]:
    return LstmGradients(model) if isinstance(model, Lstm) else FconvGradients(model)


def batch(lengths: tuple[int, ...] = LENGTHS, target: int = TARGET, dtype: torch.dtype = torch.float64) -> Batch:
    """Returns source vectors with large numbers at padding, the mask, and prefix vectors."""
    torch.manual_seed(2)
    mask = length_mask(torch.tensor(lengths), max(lengths))
    vectors = torch.randn(*mask.shape, DIM, dtype=torch.float64).where(mask[..., None], 50.0)
    return vectors.to(dtype), mask, torch.randn(len(lengths), target, DIM, dtype=torch.float64).to(dtype)


def cotangents_of(prefix: Tensor) -> Tensor:
    return torch.randn(prefix.shape, dtype=torch.float64, generator=torch.manual_seed(3)).to(prefix.dtype)


def ragged(rows: int = len(LENGTHS), target: int = TARGET) -> Tensor:
    """Returns wanted positions with gaps: not as many in each row, and none in the last."""
    wanted = torch.rand(rows, target, generator=torch.manual_seed(4)) < 0.6
    wanted[0], wanted[-1] = True, False
    assert len(set(wanted.sum(1).tolist())) > 2
    return wanted


def gradients(passes: SourceGradients[Any], data: Batch, cotangents: Tensor, wanted: Tensor) -> Tensor:
    """Returns (row, target, source, dim), not a number where no gradient was given."""
    with torch.inference_mode():
        found = torch.full((*wanted.shape, *data[0].shape[1:]), torch.nan, dtype=data[0].dtype)
        for piece in passes.backward(passes.forward(*data), cotangents, wanted):
            row, start = (piece.positions >= 0).nonzero(as_tuple=True)
            pairs = piece.rows[row], piece.positions[row, start]
            assert found[pairs].isnan().all(), "a pair came twice"
            found[pairs] = piece.vectors[row, start]
    assert torch.equal(~found.isnan().any(-1).any(-1), wanted)
    return found


def by_autograd(model: Seq2Seq, data: Batch, cotangents: Tensor) -> Tensor:
    """Returns (row, target, source, dim)."""
    vectors = data[0].clone().requires_grad_()
    states = model.decode(model.encode(vectors, data[1]), data[2]).states
    found = []
    for position in range(states.shape[1]):
        scalar = (cotangents[:, position] * states[:, position]).sum()  # rows do not depend on each other
        found.append(torch.autograd.grad(scalar, vectors, retain_graph=True)[0])
    return torch.stack(found, 1)


@pytest.fixture(params=VARIANTS.values(), ids=list(VARIANTS))
def model(request: pytest.FixtureRequest) -> Lstm | Fconv:
    return build(request.param)


def test_the_forward_pass_is_the_model(model: Lstm | Fconv) -> None:
    data = batch()
    with torch.inference_mode():
        found = explicit(model).forward(*data)
        decoded = model.decode(model.encode(*data[:2]), data[2], trace=True)
    torch.testing.assert_close(found.states, decoded.states, rtol=0, atol=1e-11)
    assert len(found.cross) == len(decoded.cross)
    for weights, attention in zip((layer.weights for layer in found.cross), decoded.cross, strict=True):
        torch.testing.assert_close(weights, attention.weights, rtol=0, atol=1e-11)
        assert not weights.masked_select(~data[1][:, None, None]).any()


@pytest.mark.parametrize("lengths", [LENGTHS, (6, 6, 6, 6)], ids=["padded", "equal"])
def test_all_positions_as_by_automatic_differentiation(model: Lstm | Fconv, lengths: tuple[int, ...]) -> None:
    data = batch(lengths)
    cotangents = cotangents_of(data[2])
    found = gradients(explicit(model), data, cotangents, torch.ones(len(lengths), TARGET, dtype=torch.bool))
    expected = by_autograd(model, data, cotangents)
    assert expected.abs().amax() > 1e-3
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    assert not found.transpose(0, 1)[:, ~data[1]].any()


def test_some_positions_as_by_automatic_differentiation(model: Lstm | Fconv, monkeypatch: pytest.MonkeyPatch) -> None:
    data, wanted = batch(), ragged()
    cotangents, passes = cotangents_of(data[2]), explicit(model)
    expected = by_autograd(model, data, cotangents)
    cotangents[~wanted] = torch.nan  # nobody reads them
    whole = gradients(passes, data, cotangents, wanted)
    torch.testing.assert_close(whole[wanted], expected[wanted], rtol=0, atol=1e-9)
    monkeypatch.setattr(lstm_blocks, "_PAIRS", 6)
    monkeypatch.setattr(fconv_blocks, "_PAIRS", 6)
    torch.testing.assert_close(gradients(passes, data, cotangents, wanted)[wanted], whole[wanted], rtol=0, atol=1e-12)


def times(passes: SourceGradients[Any], data: Batch, cotangents: Tensor, wanted: Tensor, along: Tensor) -> Tensor:
    """Returns products (row, target, source), not a number where none was given."""
    with torch.inference_mode():
        found = torch.full((*wanted.shape, data[0].shape[1]), torch.nan, dtype=data[0].dtype)
        for piece in passes.products(passes.forward(*data), cotangents, wanted, along):
            row, start = (piece.positions >= 0).nonzero(as_tuple=True)
            pairs = piece.rows[row], piece.positions[row, start]
            assert found[pairs].isnan().all(), "a pair came twice"
            found[pairs] = piece.values[row, start]
    assert torch.equal(~found.isnan().any(-1), wanted)
    return found


@pytest.mark.parametrize("starts", [1, 2, 3, TARGET, 0], ids=["one", "two", "three", "all", "ragged"])
def test_products_as_by_automatic_differentiation(model: Lstm | Fconv, starts: int) -> None:
    """How many layers are gone through forwards depends on the number of starts."""
    data = batch()
    cotangents, along = cotangents_of(data[2]), torch.randn(data[0].shape, dtype=torch.float64)
    along[1] = along[0]  # as copies of a sentence have it
    wanted = ragged() if not starts else torch.arange(TARGET).expand(len(LENGTHS), -1) >= TARGET - starts
    expected = (by_autograd(model, data, cotangents) * along[:, None]).sum(-1)
    cotangents[~wanted] = torch.nan
    found = times(explicit(model), data, cotangents, wanted, along)
    torch.testing.assert_close(found[wanted], expected[wanted], rtol=0, atol=1e-9)
    assert not found.transpose(1, 2)[~data[1]].nan_to_num().any()


@pytest.mark.parametrize("name", ["lstm", "lstm_snell_deep", "fconv"])
def test_single_precision(name: str) -> None:
    model, data = build(VARIANTS[name]).float(), batch(dtype=torch.float32)
    cotangents = cotangents_of(data[2])
    found = gradients(explicit(model), data, cotangents, torch.ones(len(LENGTHS), TARGET, dtype=torch.bool))
    torch.testing.assert_close(found, by_autograd(model, data, cotangents), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["lstm", "lstm_snell", "fconv"])
def test_padding_changes_nothing(name: str) -> None:
    passes, data = explicit(build(VARIANTS[name])), batch()
    cotangents, wanted = cotangents_of(data[2]), ragged()
    together = gradients(passes, data, cotangents, wanted)
    for row, length in enumerate(LENGTHS[:-1]):
        only = slice(row, row + 1)
        alone = (data[0][only, :length], data[1][only, :length], data[2][only])
        found = gradients(passes, alone, cotangents[only], wanted[only])
        kept = wanted[row]
        torch.testing.assert_close(found[0, kept], together[row, kept, :length], rtol=0, atol=1e-12)


@pytest.mark.parametrize("changes", [{"heads": 2}, {"cell": "gru"}], ids=["heads", "gru"])
def test_what_the_explicit_passes_do_not_know_is_differentiated_automatically(changes: dict[str, Any]) -> None:
    model, data = build(replace(BOTH_WAYS, **changes)), batch()
    passes, cotangents = source_gradients(model), cotangents_of(data[2])
    assert isinstance(passes, AutogradGradients)
    wanted = torch.ones(len(LENGTHS), TARGET, dtype=torch.bool)
    found = torch.zeros(*wanted.shape, *data[0].shape[1:], dtype=torch.float64)
    for piece in passes.backward(passes.forward(*data), cotangents, wanted):
        found[piece.rows, piece.positions[:, 0]] = piece.vectors[:, 0]
    torch.testing.assert_close(found, by_autograd(model, data, cotangents), rtol=0, atol=1e-12)
    assert isinstance(source_gradients(build(BOTH_WAYS)), LstmGradients)


@pytest.mark.parametrize("name", ["lstm", "lstm_snell_deep", "fconv_true_gradient"])
def test_finite_differences(name: str) -> None:
    model, (vectors, mask, prefix) = build(VARIANTS[name]), batch((4, 2), target=3)
    cotangents, step = cotangents_of(prefix), 1e-6
    found = gradients(explicit(model), (vectors, mask, prefix), cotangents, torch.ones(2, 3, dtype=torch.bool))
    with torch.inference_mode():
        for place in range(4):
            for number in range(DIM):
                change = torch.zeros_like(vectors)
                change[:, place, number] = step
                after, before = (
                    model.decode(model.encode(vectors + sign * change, mask), prefix).states for sign in (1, -1)
                )
                slope = ((after - before) * cotangents).sum(-1) / (2 * step)
                torch.testing.assert_close(found[:, :, place, number], slope, rtol=0, atol=1e-7)


def test_the_gradient_that_fconv_is_trained_with_is_another() -> None:
    model, data = build(FCONV), batch()
    cotangents, wanted = cotangents_of(data[2]), torch.ones(len(LENGTHS), TARGET, dtype=torch.bool)
    assert isinstance(model, Fconv)
    trained = FconvGradients(model)
    model.scale_encoder_gradient = False
    true = FconvGradients(model)
    model.scale_encoder_gradient = True  # what was built before does not change
    found = gradients(true, data, cotangents, wanted)
    assert (found - gradients(trained, data, cotangents, wanted)).abs().amax() > 1e-3
    model.scale_encoder_gradient = False
    torch.testing.assert_close(found, by_autograd(model, data, cotangents), rtol=0, atol=1e-9)


def test_fconv_names_a_sentence_that_is_too_long() -> None:
    passes, (vectors, mask, prefix) = explicit(build(FCONV)), batch((10,))
    with pytest.raises(ConfigError, match="source sentence has 10"):
        passes.forward(vectors, mask, prefix)
    with pytest.raises(ConfigError, match="target sentence has 10"):
        passes.forward(vectors[:, :3], mask[:, :3], prefix[:, :1].expand(-1, 10, -1))


@pytest.mark.parametrize("name", ["lstm", "lstm_snell", "fconv"])
def test_nothing_wanted_gives_nothing(name: str) -> None:
    passes, data = explicit(build(VARIANTS[name])), batch()
    with torch.inference_mode():
        forward = passes.forward(*data)
        found: list[Gradients] = list(
            passes.backward(forward, data[2], torch.zeros(len(LENGTHS), TARGET, dtype=torch.bool))
        )
    assert found == []
