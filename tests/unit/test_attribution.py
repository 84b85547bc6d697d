"""Scores of whole texts: the methods against a slow loop, closed forms, and what results must not depend on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from attribution_cases import EVERYTHING, SETTINGS, VOCABULARY, model_of, scores, text
from attribution_oracle import oracle
from torch import Tensor, nn

from alignlens.attribution.corpus import attribute
from alignlens.attribution.registry import parse, parse_all
from alignlens.attribution.statistics import Statistics
from alignlens.corpora.symbols import END_ID
from alignlens.errors import ConfigError
from alignlens.models.contract import Attention, Decoded, Memory, Seq2Seq, State
from alignlens.models.settings import TransformerSettings
from alignlens.models.transformer import Transformer


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_method_equals_the_slow_loop(name: str) -> None:
    model = model_of(name)
    sources, targets = text()
    found = scores(model, EVERYTHING, tokens=100)
    assert sorted(found) == list(range(len(sources)))
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        for method in EVERYTHING:
            expected = oracle(model, source, target, number, method)
            assert found[number][method.text].shape == (len(target) + 1, len(source) + 1)
            np.testing.assert_allclose(found[number][method.text], expected, atol=1e-5, err_msg=method.text)


def test_true_gradient_of_fconv_equals_the_slow_loop_without_scaling() -> None:
    model = model_of("fconv")
    sources, targets = text()
    methods = parse_all(["ding_grad", "ding_grad,gradient=true", "ding_smoothgrad,gradient=true,n=3"])
    found = scores(model, methods)
    assert model.scale_encoder_gradient
    assert max(np.abs(each["ding_grad"] - each["ding_grad,gradient=true"]).max() for each in found.values()) > 1e-3
    model.scale_encoder_gradient = False
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        for method in methods[1:]:
            expected = oracle(model, source, target, number, method)
            np.testing.assert_allclose(found[number][method.text], expected, atol=1e-5)


@pytest.mark.parametrize("name", ["transformer", "lstm"])
def test_true_gradient_is_the_usual_one_elsewhere(name: str) -> None:
    found = scores(model_of(name), parse_all(["ding_grad", "ding_grad,gradient=true"]))
    assert all(np.array_equal(each["ding_grad"], each["ding_grad,gradient=true"]) for each in found.values())


@pytest.mark.parametrize("name", SETTINGS)
def test_a_sentence_alone_has_the_scores_it_has_among_others(name: str) -> None:
    model = model_of(name)
    sources, targets = text()
    smoothed = ["smoothed_attention,n=3", "ding_smoothgrad,n=3", "li_smoothgrad,n=3"]
    methods = parse_all(["attention", *smoothed, "grad_input", "integrated_gradients,n=3", "occlusion", "probe"])
    together = scores(model, methods)
    for tokens in (8, 40, 4096):
        for number in (0, 3, 7):
            alone = attribute(model, [sources[number]], [targets[number]], methods, tokens=tokens, first=number)
            for text_, matrix in dict(alone)[0].items():
                np.testing.assert_allclose(matrix, together[number][text_], atol=5e-6)


def test_finite_differences_agree_with_the_gradient() -> None:
    """The raw score is how log p grows with a multiplier on one source embedding."""
    model = model_of("transformer").double()
    source, target, step = [4, 9, 5, 9], [7, 8], 1e-6
    embeddings = model.embed_source(torch.tensor([[*source, END_ID]])).detach()
    prefix = model.embed_target(torch.tensor([[1, *target]]))
    mask = torch.ones(1, len(source) + 1, dtype=torch.bool)

    def log_probs(vectors: Tensor) -> Tensor:
        states = model.decode(model.encode(vectors, mask), prefix).states
        return torch.log_softmax(model.logits(states), -1)[0, range(3), [*target, END_ID]]

    rows = []
    for place in range(len(source) + 1):
        more, less = embeddings.clone(), embeddings.clone()
        more[0, place] *= 1 + step
        less[0, place] *= 1 - step
        rows.append((log_probs(more) - log_probs(less)) / (2 * step))
    slopes = torch.stack(rows, 1).clamp(min=0)
    found = dict(attribute(model, [source], [target], [parse("ding_grad")]))[0]["ding_grad"]
    np.testing.assert_allclose(found, (slopes / slopes.sum(-1, keepdim=True)).detach().numpy(), atol=1e-6)


class Linear(Seq2Seq):
    """A model whose states are sums of its source vectors with known weights: every gradient is known."""

    def __init__(self, weights: Tensor, output: Tensor) -> None:
        super().__init__()
        vocabulary, dim = output.shape
        self.table = nn.Embedding(vocabulary, dim)
        self.weights = nn.Parameter(weights)  # (target, source)
        self.output = nn.Linear(dim, vocabulary, bias=False)
        self.output.weight = nn.Parameter(output)

    def embed_source(self, ids: Tensor) -> Tensor:
        return self.table(ids)

    embed_target = embed_source

    def encode(self, vectors: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        return Memory(vectors, mask, vectors)

    def decode(self, memory: Memory, vectors: Tensor, trace: bool = False) -> Decoded:
        weights = self.weights[: vectors.shape[1], : memory.states.shape[1]].expand(len(vectors), -1, -1)
        seen = Attention(weights[:, None], memory.states[:, None], torch.eye(memory.states.shape[-1])[None], None)
        return Decoded(weights @ memory.states, (seen,) if trace else ())

    def logits(self, states: Tensor) -> Tensor:
        return self.output(states)

    def begin(self, memory: Memory) -> State:
        raise NotImplementedError

    def step(self, state: State, vectors: Tensor) -> tuple[Decoded, State]:
        raise NotImplementedError


def test_closed_form_on_a_linear_model() -> None:
    torch.manual_seed(0)
    weights, output = torch.randn(3, 4), torch.randn(8, 5)
    model = Linear(weights, output).eval()
    source, target = [4, 6, 4], [5, 7]
    embeddings = model.table(torch.tensor([*source, END_ID])).detach()
    states = weights @ embeddings
    chosen = output[torch.tensor([*target, END_ID])]
    towards = chosen - torch.softmax(states @ output.T, -1) @ output  # d log p / d state
    signed = weights * (towards @ embeddings.T)
    methods = parse_all(["ding_grad", "li_grad", "li_grad,reading=abs_dot", "grad_input", "grad_input,score=p"])
    statistics = Statistics()
    found = dict(attribute(model, [source], [target], methods, statistics=statistics))[0]
    assert statistics.backward_passes == 3  # all methods share them
    np.testing.assert_allclose(found["grad_input"], signed, atol=1e-6)
    probabilities = torch.softmax(states @ output.T, -1)[range(3), [*target, END_ID]]
    np.testing.assert_allclose(found["grad_input,score=p"], signed * probabilities[:, None], atol=1e-6)
    assert found["grad_input"].min() < -0.1
    positive = signed.clamp(min=0)
    np.testing.assert_allclose(found["ding_grad"], positive / positive.sum(-1, keepdim=True), atol=1e-6)
    absolute = weights.abs() * towards.abs().mean(-1, keepdim=True)
    np.testing.assert_allclose(found["li_grad"], absolute / absolute.sum(-1, keepdim=True), atol=1e-6)
    dots = signed.abs()
    np.testing.assert_allclose(found["li_grad,reading=abs_dot"], dots / dots.sum(-1, keepdim=True), atol=1e-6)
    # The word that appears twice has two different scores.
    assert abs(found["ding_grad"][:, 0] - found["ding_grad"][:, 2]).max() > 1e-3


@pytest.mark.parametrize("name", SETTINGS)
def test_a_repeated_word_has_scores_of_its_own_at_each_place(name: str) -> None:
    model = model_of(name)
    found = dict(attribute(model, [[5, 7, 5, 8]], [[6, 9, 6]], EVERYTHING))[0]
    for method in EVERYTHING:
        assert np.abs(found[method.text][:, 0] - found[method.text][:, 2]).max() > 1e-5, method.text


@pytest.mark.parametrize("name", SETTINGS)
def test_p_and_log_p_have_the_same_highest_scores_without_noise(name: str) -> None:
    model = model_of(name)
    for number, (source, target) in enumerate(zip(*text(), strict=True)):
        for kind in ("ding_grad", "li_grad"):
            by_p, by_log_p = (
                oracle(model, source, target, number, parse(f"{kind},score={score}")) for score in ("p", "log_p")
            )
            found = dict(attribute(model, [source], [target], [parse(f"{kind},score=p")], first=number))[0]
            np.testing.assert_allclose(found[f"{kind},score=p"], by_log_p, atol=1e-5)
            np.testing.assert_allclose(by_p, by_log_p, atol=1e-5)


def test_noise_is_scaled_by_the_range_of_the_embeddings() -> None:
    """Ten times larger embeddings of a linear model get ten times larger noise, so relative scores stay."""
    torch.manual_seed(0)
    model = Linear(torch.rand(3, 4), torch.zeros(8, 5)).eval()  # no output weights: nothing saturates
    model.output.weight = nn.Parameter(torch.randn(8, 5) * 1e-4)
    method = parse("ding_smoothgrad,n=8")
    before = dict(attribute(model, [[4, 6, 4]], [[5, 7]], [method]))[0][method.text]
    with torch.no_grad():
        model.table.weight *= 10
    after = dict(attribute(model, [[4, 6, 4]], [[5, 7]], [method]))[0][method.text]
    np.testing.assert_allclose(after, before, atol=1e-3)


def test_rows_without_positive_scores_go_to_the_highest_and_are_counted() -> None:
    """Towards a label whose gradient opposes every embedding, no score is positive."""
    model = Linear(torch.tensor([[1.0, 2.0], [2.0, 1.0]]), torch.tensor([[0.0], [0.0], [1.0], [0.0], [-1.0]])).eval()
    with torch.no_grad():
        model.table.weight.fill_(1.0)
    statistics = Statistics()
    found = dict(attribute(model, [[3]], [[4]], [parse("ding_grad")], statistics=statistics))[0]["ding_grad"]
    assert found[0].tolist() == [1.0, 0.0]  # -1 beats -2
    assert statistics.rows_without_positive == 1
    assert statistics.rows == 2
    assert found[1] == pytest.approx([2 / 3, 1 / 3])


@pytest.mark.parametrize(("layers", "middle"), [(1, 0), (2, 0), (3, 1), (4, 1), (6, 2)])
def test_shifted_attention_is_that_of_the_middle_layer_one_step_later(layers: int, middle: int) -> None:
    torch.manual_seed(5)
    settings = TransformerSettings(dim=8, ffn=8, heads=2, encoder_layers=1, decoder_layers=layers)
    model = Transformer(settings, VOCABULARY, VOCABULARY).eval()
    found = scores(model, parse_all(["shifted_attention", f"attention,layer={middle}", "attention,layer=-1"]))
    for each in found.values():
        shifted, plain = each["shifted_attention"], each[f"attention,layer={middle}"]
        assert np.array_equal(shifted[:-1], plain[1:])
        assert np.array_equal(shifted[-1], plain[-1]), "nobody reads the end symbol"
    if layers > 1:
        assert (
            max(np.abs(each["shifted_attention"] - each["attention,layer=-1"]).max() for each in found.values()) > 0.01
        )


def test_a_layer_that_does_not_exist_is_named() -> None:
    with pytest.raises(ConfigError, match="no layer 7: it has 2"):
        scores(model_of("transformer"), [parse("attention,layer=7")])
