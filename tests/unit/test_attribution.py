"""Scores of whole texts: the methods against a slow loop, closed forms, and what results must not depend on."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
import torch
from attribution_oracle import oracle
from torch import Tensor, nn

from alignlens.attribution import corpus
from alignlens.attribution.corpus import attribute
from alignlens.attribution.registry import parse, parse_all
from alignlens.attribution.statistics import Statistics
from alignlens.corpora.symbols import END_ID
from alignlens.errors import ConfigError, ToolError
from alignlens.models.contract import Attention, Decoded, Memory, Seq2Seq, State
from alignlens.models.fconv import Fconv
from alignlens.models.lstm import Lstm
from alignlens.models.settings import FconvSettings, LstmSettings, TransformerSettings
from alignlens.models.transformer import Transformer

VOCABULARY = 13
SETTINGS = {
    "transformer": (Transformer, TransformerSettings(dim=16, ffn=24, heads=4, encoder_layers=2, decoder_layers=2)),
    "lstm": (Lstm, LstmSettings(dim=12, hidden=10, bidirectional=True)),
    "fconv": (Fconv, FconvSettings(dim=12, hidden=10, encoder_layers=2, decoder_layers=2, max_positions=32)),
}
EVERYTHING = parse_all(
    [
        "attention",
        "attention,layer=0,head=0,step=in",
        "attention,label=runner_up",
        "shifted_attention",
        "shifted_attention,layer=mean",
        "smoothed_attention,n=4",
        "norms",
        "norms,layer=0,step=in",
        "norms,layer=-1,head=0",
        "li_grad",
        "li_grad,reading=abs_dot",
        "ding_grad",
        "ding_grad,score=p",
        "ding_grad,label=runner_up",
        "ding_smoothgrad,n=4",
        "ding_smoothgrad,n=2",
        "ding_smoothgrad,n=3,sigma=0.3,seed=5",
        "ding_smoothgrad,n=4,order=mean_then_clip",
        "ding_smoothgrad,n=4,order=mean_then_clip,score=p",
        "li_smoothgrad,n=4",
        "li_smoothgrad,n=4,reading=abs_dot",
        "li_smoothgrad,n=4,reading=abs_dot,order=mean_then_normalise",
        "grad_input",
        "grad_input,score=p",
        "grad_input,label=runner_up",
        "integrated_gradients,n=4",
        "integrated_gradients,n=3,reading=positive,score=p",
        "integrated_gradients,n=3,reading=absolute,gradient=train",
        "occlusion",
        "occlusion,score=p",
        "probe",
        "probe,scale=log_p",
        "probe,bias=dropped",
    ]
)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def model_of(name: str) -> Seq2Seq:
    torch.manual_seed(3)
    kind, settings = SETTINGS[name]
    return kind(settings, VOCABULARY, VOCABULARY).eval()


def text(sentences: int = 12, seed: int = 0) -> tuple[list[list[int]], list[list[int]]]:
    rng = np.random.default_rng(seed)
    sides = [[rng.integers(4, VOCABULARY, rng.integers(0, 7)).tolist() for _ in range(sentences)] for _ in range(2)]
    return sides[0], sides[1]


def scores(model: Seq2Seq, methods: list, sentences: int = 12, **options: object) -> dict[int, dict[str, np.ndarray]]:
    return dict(attribute(model, *text(sentences), methods, **options))


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


def test_shards_give_the_very_numbers_of_one_run() -> None:
    model, methods = (
        model_of("transformer"),
        parse_all(["attention", "ding_smoothgrad,n=3", "integrated_gradients,n=2"]),
    )
    whole = scores(model, methods, sentences=300)
    parts = [scores(model, methods, sentences=300, shard=(which, 3)) for which in range(3)]
    assert sorted(number for part in parts for number in part) == list(range(300))
    assert all(part for part in parts)
    for part in parts:
        for number, found in part.items():
            assert all(np.array_equal(matrix, whole[number][name]) for name, matrix in found.items())


def test_the_number_of_threads_changes_no_link() -> None:
    model, methods = model_of("transformer"), parse_all(["ding_grad", "ding_smoothgrad,n=5"])
    one = scores(model, methods)
    torch.set_num_threads(2)
    two = scores(model, methods)
    torch.set_num_threads(1)
    for number, found in one.items():
        for name, matrix in found.items():
            np.testing.assert_allclose(two[number][name], matrix, atol=1e-5)
            assert np.array_equal(two[number][name].argmax(-1), matrix.argmax(-1))


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
    # The word that stands there twice has two different scores.
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


@pytest.mark.parametrize("name", SETTINGS)
def test_adaptive_sampling_with_no_risk_to_speak_of_takes_all_copies(name: str) -> None:
    model, method = model_of(name), parse("ding_smoothgrad,n=9")
    statistics = Statistics()
    every = scores(model, [method])
    some = scores(model, [method], adaptive=1e-12, statistics=statistics)
    assert statistics.copies[method.text] > 0
    changed = [np.abs(every[number][method.text] - some[number][method.text]).max() for number in every]
    assert np.median(changed) < 1e-6


def test_adaptive_sampling_saves_copies_and_keeps_nearly_all_links() -> None:
    model, method = model_of("transformer"), parse("ding_smoothgrad,n=30")
    sources, targets = text(60)
    statistics = Statistics()
    every = scores(model, [method], 60)
    some = scores(model, [method], 60, adaptive=0.02, statistics=statistics)
    positions = sum(len(target) + 1 for target in targets)
    assert statistics.copies[method.text] < 30 * positions
    same = total = 0
    for number, source in enumerate(sources):
        if source:
            links = [found[number][method.text][:, :-1].argmax(-1) for found in (every, some)]
            same += int((links[0] == links[1]).sum())
            total += len(links[0])
    assert same / total > 0.95


def test_memory_that_does_not_suffice_halves_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    model, method = model_of("transformer"), parse("ding_smoothgrad,n=3")
    expected = scores(model, [method])
    run, sizes = corpus.Sweep.run, []

    def fails_when_large(self, sentences, rows, statistics):  # type: ignore[no-untyped-def]
        sizes.append(rows)
        if rows > 30:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate much")
        return run(self, sentences, rows, statistics)

    monkeypatch.setattr(corpus.Sweep, "run", fails_when_large)
    statistics = Statistics()
    found = scores(model, [method], tokens=4096, statistics=statistics)
    assert statistics.halvings > 0
    assert min(sizes) <= 30
    for number, matrices in found.items():
        np.testing.assert_allclose(matrices[method.text], expected[number][method.text], atol=1e-5)


def test_another_error_is_not_taken_for_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self, sentences, rows, statistics):  # type: ignore[no-untyped-def]
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(corpus.Sweep, "run", fails)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        scores(model_of("transformer"), [parse("ding_grad")])


@pytest.mark.parametrize("adaptive", [None, 0.1])
def test_workers_give_the_very_numbers_of_one(adaptive: float | None) -> None:
    model, methods = (
        model_of("transformer"),
        parse_all(["attention", "ding_smoothgrad,n=12", "li_grad", "integrated_gradients,n=3", "occlusion"]),
    )
    threads, counted = torch.get_num_threads(), [Statistics(), Statistics()]
    one = scores(model, methods, sentences=60, adaptive=adaptive, statistics=counted[0])
    three = scores(model, methods, sentences=60, adaptive=adaptive, statistics=counted[1], workers=3)
    assert list(one) == list(three)
    assert all(np.array_equal(three[number][name], one[number][name]) for number in one for name in one[number])
    assert counted[0] == counted[1]
    assert torch.get_num_threads() == threads


def test_an_error_of_a_worker_is_told_and_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    run, numbers, begun = corpus.Sweep.run, itertools.count(1), []

    def fails_at_the_second(self, sentences, rows, statistics):  # type: ignore[no-untyped-def]
        number = next(numbers)  # each thread gets another one
        begun.append(number)
        if number == 2:
            raise RuntimeError("shapes do not match")
        return run(self, sentences, rows, statistics)

    monkeypatch.setattr(corpus.Sweep, "run", fails_at_the_second)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        scores(model_of("transformer"), [parse("ding_grad")], sentences=400, workers=2)
    assert len(begun) < 20


def test_whoever_stops_early_leaves_no_work_behind() -> None:
    before = threading.active_count()
    found = attribute(model_of("transformer"), *text(200), [parse("ding_grad")], workers=2)
    next(found)
    assert threading.active_count() > before
    found.close()
    assert threading.active_count() == before


def test_gradients_outside_stay_switched_on() -> None:
    leaf = torch.ones(1, requires_grad=True)
    for _ in attribute(model_of("transformer"), *text(), [parse("attention")]):
        assert (leaf * 2).requires_grad


def test_a_damaged_model_is_an_error_not_a_link() -> None:
    model = model_of("transformer")
    with torch.no_grad():
        model.output.weight[5] = float("nan")
    for name in ("ding_grad", "grad_input", "integrated_gradients,n=2", "occlusion", "probe"):
        with pytest.raises(ToolError, match="not finite"):
            scores(model, [parse(name)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": 0}, "at least 1"),
        ({"workers": 0}, "at least 1"),
        ({"adaptive": 0.7}, "between 0 and 0.5"),
        ({"shard": (2, 2)}, "counted from 0"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scores(model_of("transformer"), [parse("attention")], **options)


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
    with pytest.raises(ConfigError, match="no layer 7; it has 2"):
        scores(model_of("transformer"), [parse("attention,layer=7")])
