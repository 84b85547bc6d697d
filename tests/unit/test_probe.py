"""The lexical probe: all attention on one source position, against a slow loop that hides all others, and formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from attribution_oracle import forced_probabilities
from torch import Tensor

from alignlens.attribution import outputs
from alignlens.attribution.corpus import attribute
from alignlens.attribution.registry import parse, parse_all
from alignlens.attribution.statistics import Statistics
from alignlens.corpora.symbols import BEGIN_ID, END_ID
from alignlens.models.base_settings import ArchitectureSettings
from alignlens.models.contract import Memory, Seq2Seq, length_mask
from alignlens.models.lstm import Lstm
from alignlens.models.registry import build
from alignlens.models.settings import BagOfWordsSettings, FconvSettings, LstmSettings, ModelSpec, TransformerSettings

VOCABULARY = 13
SNELL = LstmSettings(dim=10, hidden=10, bidirectional=True, input_feeding=False, output="two_layer", encoder_layers=2)
TRANSFORMER = TransformerSettings(dim=16, ffn=24, heads=4, encoder_layers=2, decoder_layers=3, output_bias=True)
SETTINGS: dict[str, tuple[str, ArchitectureSettings]] = {
    "transformer": ("transformer", TRANSFORMER),
    "transformer_pre": ("transformer", replace(TRANSFORMER, norm="pre", output_bias=False)),
    "fconv": ("fconv", FconvSettings(dim=12, hidden=10, encoder_layers=2, decoder_layers=3, max_positions=32)),
    "lstm_feeding": ("lstm", LstmSettings(dim=12, hidden=10, bidirectional=True, decoder_layers=2)),
    "lstm_snell": ("lstm", SNELL),
    "lstm_uniform": ("lstm", replace(SNELL, attention="uniform")),
    "lstm_linear": ("lstm", replace(SNELL, output="linear")),
    "lstm_heads": ("lstm", replace(SNELL, heads=3, head_projection="own", activation="tanh")),
    "lstm_heads_mean": ("lstm", replace(SNELL, heads=3, head_contexts="mean", input_feeding=True)),
    "lstm_gru": ("lstm", replace(SNELL, cell="gru", heads=2)),
    "bag_of_words": ("bag_of_words", BagOfWordsSettings(dim=10)),
}
METHODS = parse_all(["probe", "probe,scale=log_p", "probe,bias=dropped"])


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(params=SETTINGS)
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    return model_of(request.param)


def model_of(name: str) -> Seq2Seq:
    """Returns a model with biases, and weights large enough for probabilities that differ."""
    architecture, settings = SETTINGS[name]
    model = build(ModelSpec(architecture, settings, VOCABULARY, VOCABULARY), seed=3).eval()
    with torch.no_grad():
        for parameter in model.parameters() if architecture == "lstm" else ():
            parameter.mul_(1.5)
        model.output.weight.mul_(3)
        if model.output.bias is not None:
            model.output.bias.normal_(std=1.5, generator=torch.manual_seed(4))
    return model


def text(sentences: int = 9) -> tuple[list[list[int]], list[list[int]]]:
    rng = np.random.default_rng(1)
    sides = [[rng.integers(4, VOCABULARY, rng.integers(0, 7)).tolist() for _ in range(sentences)] for _ in "st"]
    return sides[0], sides[1]


def test_every_position_as_if_all_others_were_hidden_at_that_step(model: Seq2Seq) -> None:
    sources, targets = text()
    found = dict(attribute(model, sources, targets, METHODS))
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        vectors = model.embed_source(torch.tensor([[*source, END_ID]]))
        with torch.no_grad():
            kept, dropped = (forced_probabilities(model, vectors, target, bias) for bias in (True, False))
        np.testing.assert_allclose(found[number]["probe"], kept, atol=1e-6)
        np.testing.assert_allclose(found[number]["probe,scale=log_p"], kept.log(), atol=1e-5)
        np.testing.assert_allclose(found[number]["probe,bias=dropped"], dropped, atol=1e-6)
    ranges = [float(np.ptp(each["probe"], axis=1).max()) for number, each in found.items() if sources[number]]
    assert max(ranges) > 0.02, "positions that do not differ would test nothing"
    if model.output.bias is not None:
        assert max(np.abs(each["probe"] - each["probe,bias=dropped"]).max() for each in found.values()) > 0.02


def memory_and_prefix(model: Seq2Seq, lengths: tuple[int, ...] = (6, 2, 4), target: int = 5) -> tuple[Memory, Tensor]:
    generator = torch.manual_seed(6)
    ids = torch.randint(4, VOCABULARY, (len(lengths), max(lengths)), generator=generator)
    prefix = torch.randint(4, VOCABULARY, (len(lengths), target), generator=generator)
    mask = length_mask(torch.tensor(lengths), max(lengths))
    return model.encode(model.embed_source(ids), mask), model.embed_target(prefix)


@pytest.mark.parametrize("name", [name for name in SETTINGS if name.startswith(("lstm", "bag"))])
def test_the_short_way_of_an_architecture_is_the_step_by_step_one(name: str) -> None:
    model = model_of(name).double()
    memory, prefix = memory_and_prefix(model)
    short, long = model.focused(memory, prefix), Seq2Seq.focused(model, memory, prefix)
    seen = memory.mask[:, None, :, None]
    torch.testing.assert_close((short * seen).expand_as(long), long * seen)
    assert long.shape[:3] == (3, 5, 6)


@pytest.mark.parametrize("name", ["lstm_snell", "lstm_uniform"])
def test_equation_4_of_the_paper_from_the_weights(name: str) -> None:
    model = model_of(name)
    assert isinstance(model, Lstm)
    source, target = [5, 9, 4, 9], [7, 4, 11]
    with torch.no_grad():
        memory = model.encode(model.embed_source(torch.tensor([[*source, END_ID]])), torch.ones(1, 5, dtype=torch.bool))
        decoded = model.decode(memory, model.embed_target(torch.tensor([[BEGIN_ID, *target]])))
        expected = np.zeros((4, 5))
        for row, label in enumerate([*target, END_ID]):
            for place in range(5):
                context = model.from_context.weight @ memory.states[0, place] + model.from_context.bias
                read = torch.cat((decoded.recurrent[0, row], context))
                hidden = (model.inner.weight @ read + model.inner.bias).clamp(min=0)
                logits = model.output.weight @ hidden + model.output.bias
                expected[row, place] = logits.softmax(-1)[label]
    found = dict(attribute(model, [source], [target], [parse("probe")]))[0]["probe"]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_proxy_of_equation_6_has_one_row_for_a_word_wherever_it_stands() -> None:
    model = model_of("bag_of_words")
    source, target = [5, 9, 5], [7, 4, 7]
    found = dict(attribute(model, [source], [target], [parse("probe,bias=dropped")]))[0]["probe,bias=dropped"]
    table = (model.get_parameter("source_table.weight") @ model.output.weight.t()).softmax(-1).detach()
    read, said = [*source, END_ID], [*target, END_ID]
    np.testing.assert_allclose(found, table[read][:, said].t(), atol=1e-6)
    assert np.array_equal(found[0], found[2])
    assert np.array_equal(found[:, 0], found[:, 2])


def test_neither_padding_nor_other_sentences_change_a_probe(model: Seq2Seq) -> None:
    sources, targets = text()
    methods = METHODS[:1]
    together = dict(attribute(model, sources, targets, methods))
    for tokens in (8, 4096):
        for number in range(len(sources)):
            alone = dict(attribute(model, [sources[number]], [targets[number]], methods, tokens=tokens))[0]
            np.testing.assert_allclose(alone["probe"], together[number]["probe"], atol=1e-6)


def test_vectors_at_padding_change_no_state_of_a_real_position(model: Seq2Seq) -> None:
    memory, prefix = memory_and_prefix(model)
    vectors = torch.where(memory.mask[..., None], memory.vectors, 50.0)
    other = model.encode(vectors, memory.mask)
    seen = memory.mask[:, None, :, None]
    for focused in (model.focused, lambda *given: Seq2Seq.focused(model, *given)):
        one, another = (focused(each, prefix) for each in (memory, other))
        torch.testing.assert_close(one * seen, another * seen, atol=1e-5, rtol=1e-4)


def test_few_probabilities_at_a_time_are_the_same(model: Seq2Seq, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = dict(attribute(model, *text(), METHODS))
    monkeypatch.setattr(outputs, "states_at_once", lambda model: 3)
    parts = dict(attribute(model, *text(), METHODS))
    for number, found in whole.items():
        for name, matrix in found.items():
            np.testing.assert_allclose(parts[number][name], matrix, atol=1e-6, rtol=1e-5)


def test_passes_are_counted_once_and_for_every_source_position() -> None:
    sources, targets = text()
    statistics = Statistics()
    list(attribute(model_of("transformer"), sources, targets, METHODS[:1], statistics=statistics))
    assert statistics.forward_passes == len(sources) + sum(len(source) + 1 for source in sources)
    assert statistics.backward_passes == 0


def test_a_probability_too_small_for_its_number_is_not_zero() -> None:
    model = model_of("bag_of_words")
    with torch.no_grad():
        model.output.bias[5] = -1000.0
    found = dict(attribute(model, [[6, 7]], [[5]], METHODS[:2]))[0]
    assert (found["probe"][0] > 0).all()
    assert (found["probe,scale=log_p"][0] < -900).all()
