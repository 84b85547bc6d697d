"""Occlusion: a source vector less, in closed form on models that add, and how many sentences are read at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from linear_model import LONGEST, VOCABULARY, LinearModel
from torch import Tensor

from alignlens.attribution.corpus import attribute
from alignlens.attribution.registry import parse_all
from alignlens.attribution.statistics import Statistics
from alignlens.corpora.symbols import BEGIN_ID, END_ID
from alignlens.models.contract import Memory
from alignlens.models.registry import build
from alignlens.models.settings import BagOfWordsSettings, ModelSpec

METHODS = parse_all(["occlusion", "occlusion,score=p"])


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def text(sentences: int = 9) -> tuple[list[list[int]], list[list[int]]]:
    rng = np.random.default_rng(2)
    sides = [[rng.integers(4, VOCABULARY, rng.integers(0, LONGEST)).tolist() for _ in range(sentences)] for _ in "st"]
    return sides[0], sides[1]


def test_a_linear_model_loses_what_the_position_has_added() -> None:
    model, (sources, targets) = LinearModel(), text()
    found = dict(attribute(model, sources, targets, METHODS))
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        read, labels = model.table(torch.tensor([*source, END_ID])), torch.tensor([*target, END_ID])
        rows = len(labels)
        of_source = model.of_source[:rows, : len(read)]
        prefix = model.of_prefix[:rows, :rows] @ model.table(torch.tensor([BEGIN_ID, *target]))
        states = (of_source @ read + prefix)[:, None]
        without = states - of_source[..., None] * read  # (target, source, dim)
        logs = [(each @ model.output.weight.T).log_softmax(-1).detach() for each in (states, without)]
        chosen = [each[torch.arange(rows), :, labels] for each in logs]
        np.testing.assert_allclose(found[number]["occlusion"], chosen[0] - chosen[1], atol=1e-5)
        np.testing.assert_allclose(found[number]["occlusion,score=p"], chosen[0].exp() - chosen[1].exp(), atol=1e-6)
    assert min(each["occlusion"].min() for each in found.values()) < -0.1, "some positions speak against the piece"


def test_a_bag_of_words_has_one_word_less_and_the_same_length() -> None:
    model = build(ModelSpec("bag_of_words", BagOfWordsSettings(dim=10), VOCABULARY, VOCABULARY), seed=3).eval()
    ((_, found),) = attribute(model, [[5, 7, 5]], [[6]], METHODS)
    read = model.embed_source(torch.tensor([5, 7, 5, END_ID])).detach()
    whole = model.logits(read.mean(0)).log_softmax(-1)
    without = model.logits((read.sum(0) - read) / 4).log_softmax(-1)
    expected = (whole - without)[:, [6, END_ID]].T.detach()
    np.testing.assert_allclose(found["occlusion"], expected, atol=1e-6)
    assert np.array_equal(found["occlusion"][:, 0], found["occlusion"][:, 2])


class Counting(LinearModel):
    """Keeps how many padded tokens were encoded at once."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def encode(self, vectors: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        self.sizes.append(vectors.shape[0] * (vectors.shape[1] + 1))
        return super().encode(vectors, mask, trace)


@pytest.mark.parametrize("tokens", [1, 30, 100, 4096])
def test_sentences_with_a_gap_are_read_together_as_far_as_the_budget_goes(tokens: int) -> None:
    model, (sources, targets) = Counting(), text()
    expected = dict(attribute(LinearModel(), sources, targets, METHODS))
    statistics = Statistics()
    found = dict(attribute(model, sources, targets, METHODS[:1], tokens=tokens, statistics=statistics))
    assert max(model.sizes) <= max(tokens, LONGEST + 1)
    for number, each in found.items():
        np.testing.assert_allclose(each["occlusion"], expected[number]["occlusion"], atol=1e-5)
    assert statistics.forward_passes == len(sources) + sum(len(source) + 1 for source in sources)
    assert statistics.backward_passes == 0
    if tokens == 4096:  # all sentences are one batch, but for eight at a time; then all gaps of it
        assert len(model.sizes) == 2 * 2
