"""The bag of words: its one formula, what it does not look at, its gradients, and its training."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from attribution_oracle import oracle
from torch import Tensor
from training_files import TRAINING, CopyTask

from alignlens.attribution.corpus import attribute
from alignlens.attribution.gradients.bag_of_words import BagOfWordsGradients
from alignlens.attribution.gradients.choice import source_gradients
from alignlens.attribution.registry import METHODS, parse_all
from alignlens.cli.main import main
from alignlens.corpora.symbols import PADDING_ID
from alignlens.models.bag_of_words import BagOfWords
from alignlens.models.checkpoint import load_model
from alignlens.models.contract import length_mask, parameter_count
from alignlens.models.settings import BagOfWordsSettings, ModelSpec
from alignlens.workflow.costs.arithmetic import passes, weights

SOURCE, TARGET, DIM = 11, 13, 6
LENGTHS = (5, 1, 3)


@pytest.fixture
def model() -> BagOfWords:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    found = BagOfWords(BagOfWordsSettings(dim=DIM), SOURCE, TARGET).eval()
    with torch.no_grad():
        found.output.bias.normal_()
    return found


def batch() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.manual_seed(2)
    mask = length_mask(torch.tensor(LENGTHS), max(LENGTHS))
    ids = torch.randint(PADDING_ID + 1, SOURCE, mask.shape, generator=generator)
    return ids, mask, torch.randint(PADDING_ID + 1, TARGET, (len(LENGTHS), 4), generator=generator)


def test_logits_are_the_mean_over_the_words_whatever_stands_in_the_prefix(model: BagOfWords) -> None:
    ids, mask, prefix = batch()
    logits = model(ids, mask, prefix)
    for row, length in enumerate(LENGTHS):
        by_word = [model.output.weight @ model.source_table.weight[word] for word in ids[row, :length]]
        expected = sum(by_word) / length + model.output.bias
        torch.testing.assert_close(logits[row], expected.expand(4, -1))
    assert torch.equal(logits, model(ids, mask, prefix.roll(1, 1)))
    keep = torch.tensor([[True, True, False, True], [False] * 4, [True, False, False, False]])
    assert torch.equal(model(ids, mask, prefix, keep), logits[keep])


def test_it_names_equal_weights_on_the_words_and_steps_as_it_decodes(model: BagOfWords) -> None:
    ids, mask, prefix = batch()
    vectors = torch.where(mask[..., None], model.embed_source(ids), 100.0)
    memory, read = model.encode(vectors, mask), model.embed_target(prefix)
    decoded = model.decode(memory, read, trace=True)
    (layer,) = decoded.cross
    assert layer.weights.shape == (3, 1, 4, 5)
    for row, length in enumerate(LENGTHS):
        expected = torch.tensor([1 / length] * length + [0.0] * (5 - length))
        torch.testing.assert_close(layer.weights[row, 0], expected.expand(4, -1))
    rebuilt = torch.einsum("bhqk,bhkv,hvd->bqd", layer.weights, layer.values, layer.projection)
    torch.testing.assert_close(rebuilt, decoded.states)
    state = model.begin(memory.select(torch.tensor([2, 0])))
    for position in range(4):
        found, state = model.step(state, read[[2, 0], position : position + 1])
        torch.testing.assert_close(found.states, decoded.states[[2, 0], position : position + 1])
    assert state.position == 4


@pytest.mark.parametrize("way", ["backward", "products"])
def test_gradients_are_those_of_automatic_differentiation(model: BagOfWords, way: str) -> None:
    ids, mask, prefix = batch()
    vectors, read = model.embed_source(ids).detach().requires_grad_(), model.embed_target(prefix)
    cotangents, wanted = torch.randn(3, 4, DIM), torch.rand(3, 4) < 0.7
    states = model.decode(model.encode(vectors, mask), read).states
    explicit = source_gradients(model)
    assert isinstance(explicit, BagOfWordsGradients)
    forward = explicit.forward(vectors.detach(), mask, read)
    torch.testing.assert_close(forward.states, states)
    along = torch.randn(vectors.shape)
    found = {}
    pieces = (
        explicit.backward(forward, cotangents, wanted)
        if way == "backward"
        else explicit.products(forward, cotangents, wanted, along)
    )
    for piece in pieces:
        for row, start in (piece.positions >= 0).nonzero().tolist():
            values = piece.vectors if way == "backward" else piece.values  # type: ignore[union-attr]
            found[int(piece.rows[row]), int(piece.positions[row, start])] = values[row, start]
    assert set(found) == {(row, place) for row, place in wanted.nonzero().tolist()}
    for (row, place), value in found.items():
        output = (cotangents[row, place] * states[row, place]).sum()
        (expected,) = torch.autograd.grad(output, vectors, retain_graph=True)
        torch.testing.assert_close(value, expected[row] if way == "backward" else (expected[row] * along[row]).sum(-1))


def test_every_method_for_it_equals_the_slow_loop(model: BagOfWords) -> None:
    methods = parse_all(name for name, spec in METHODS.items() if spec.supports("bag_of_words"))
    methods = [each.with_parameters(n=3) if each.spec.noisy else each for each in methods]
    sources, targets = [[5, 7, 5], [], [9]], [[4, 12], [8], []]
    found = dict(attribute(model, sources, targets, methods))
    assert len(methods) > 6
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        for method in methods:
            expected = oracle(model, source, target, number, method)
            np.testing.assert_allclose(found[number][method.text], expected, atol=1e-5, err_msg=method.text)


def test_it_trains_by_the_ordinary_loop_and_its_loss_falls(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    task = CopyTask.write(tmp_path)
    training = {**TRAINING, "max_updates": 60, "validate_every": 30, "learning_rate": 0.05, "label_smoothing": 0.0}
    settings = {"architecture": "bag_of_words", "model": {"dim": 16}, "training": training}
    assert main([*task.arguments(tmp_path / "run"), "--settings", json.dumps(settings)]) == 0
    trained, spec = load_model(tmp_path / "run" / "model")
    assert isinstance(trained, BagOfWords)
    assert spec == ModelSpec.from_json(spec.as_json())
    first, *_, last = (tmp_path / "run" / "model" / "curves.csv").read_text().splitlines()
    column = first.split(",").index("dev_loss")
    uniform = np.log(spec.target_vocab)
    assert float(last.split(",")[column]) < uniform / 2


def test_its_settings_are_its_width_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = CopyTask.write(tmp_path)
    for key in ("encoder_layers", "embeddings"):
        settings = {"architecture": "bag_of_words", "model": {key: 1}, "training": {**TRAINING}}
        assert main([*task.arguments(tmp_path / "run"), "--settings", json.dumps(settings)]) == 2
        assert f"--settings.model.{key}: unknown key '{key}'; known: dim" in capsys.readouterr().err


def test_its_work_is_counted() -> None:
    settings = BagOfWordsSettings(dim=DIM)
    torch.manual_seed(1)
    model = BagOfWords(settings, TARGET, TARGET)
    assert weights(settings, TARGET) == parameter_count(model) - TARGET
    assert passes(settings, TARGET, 5, 4).output == 4 * DIM * TARGET
