"""Beam search against what can be counted: all translations of a tiny vocabulary, greedy search, forced scores."""

from __future__ import annotations

import math

import pytest
import torch
from table_model import VOCABULARY, TableModel, all_targets, batch_of, log_prob_of
from tiny_folder import SMALL

from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID, UNKNOWN_ID
from alignlens.decoding.beam import _best, beam_search
from alignlens.decoding.hypothesis import Hypothesis
from alignlens.decoding.settings import BeamSettings
from alignlens.errors import ConfigError, ToolError
from alignlens.models.contract import Seq2Seq
from alignlens.models.registry import build
from alignlens.models.settings import ModelSpec, architecture_settings

SOURCES = [[4], [5, 4, 6], [6, 6], [4, 5, 6, 4, 5], [5]]


def small(architecture: str) -> Seq2Seq:
    """Returns an untrained model, its output sharpened so that no two candidates are nearly equal."""
    settings = architecture_settings(architecture, SMALL[architecture])
    model = build(ModelSpec(architecture, settings, 11, 13), seed=3).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return model


def greedy(model: Seq2Seq, source: list[int], limit: int) -> tuple[int, ...]:
    """Returns the translation by the most probable token at every step, from whole prefixes and without a cache."""
    prefix = [BEGIN_ID]
    while len(prefix) <= limit:
        with torch.no_grad():
            logits = model(*batch_of(source), torch.tensor([prefix]))[0, -1]
        logits[[UNKNOWN_ID, BEGIN_ID, PADDING_ID]] = -math.inf
        token = int(logits.argmax())
        if token == END_ID:
            break
        prefix.append(token)
    return tuple(prefix[1:])


def ids_of(found: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[hypothesis.ids for hypothesis in hypotheses] for hypotheses in found]


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_beam_as_large_as_the_space_finds_the_true_best(seed: int, length_penalty: float) -> None:
    model = TableModel(seed)
    everything = list(all_targets(4))
    settings = BeamSettings(len(everything), length_penalty, max_ratio=0, max_offset=4, n_best=5)
    found = beam_search(model, *batch_of(*SOURCES), settings)
    for source, hypotheses in zip(SOURCES, found, strict=True):
        scores = {ids: log_prob_of(model, source, ids) / (len(ids) + 1) ** length_penalty for ids in everything}
        assert [hypothesis.ids for hypothesis in hypotheses] == sorted(scores, key=lambda ids: -scores[ids])[:5]
        for hypothesis in hypotheses:
            assert hypothesis.score == pytest.approx(scores[hypothesis.ids], abs=1e-5)
            assert hypothesis.finished == (len(hypothesis.ids) < 4)


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_beam_one_is_greedy_search(seed: int) -> None:
    model = TableModel(seed, spread=0.7)
    found = beam_search(model, *batch_of(*SOURCES), BeamSettings(1, max_ratio=0, max_offset=13))
    assert ids_of(found) == [[greedy(model, source, 13)] for source in SOURCES]


@pytest.mark.parametrize("architecture", SMALL)
def test_every_architecture_alone_or_in_a_batch_with_true_probabilities(architecture: str) -> None:
    model = small(architecture)
    sources = [[4, 7, 9], [10], [5, 6, 7, 8, 9, 10, 4], [8, 8, 4, 5, 6], [9, 5]]
    settings = BeamSettings(3, 1.0, max_ratio=1, max_offset=5, n_best=3)
    together = beam_search(model, *batch_of(*sources), settings)
    for source, hypotheses in zip(sources, together, strict=True):
        alone = beam_search(model, *batch_of(source), settings)[0]
        assert ids_of([alone]) == ids_of([hypotheses])
        for hypothesis, same in zip(hypotheses, alone, strict=True):
            assert hypothesis.log_prob == pytest.approx(same.log_prob, abs=1e-4)
            assert hypothesis.log_prob == pytest.approx(log_prob_of(model, source, hypothesis.ids), abs=1e-4)
            assert hypothesis.score == pytest.approx(hypothesis.log_prob / (len(hypothesis.ids) + 1))
            assert len(hypothesis.ids) <= len(source) + 1 + 5
            assert not {UNKNOWN_ID, BEGIN_ID, END_ID, PADDING_ID} & set(hypothesis.ids)
        assert greedy(model, source, 17) == beam_search(model, *batch_of(source), BeamSettings(1, 0, 0, 17))[0][0].ids


def reference_search(model: TableModel, source: list[int], settings: BeamSettings) -> list[tuple[int, ...]]:
    """Returns what the module says it does, one sentence and one hypothesis at a time, and without stopping early."""
    running: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[tuple[float, tuple[int, ...]]] = []
    while running and len(finished) < settings.beam:
        candidates = []
        for log_prob, ids in running:
            with torch.no_grad():
                logits = model(*batch_of(source), torch.tensor([[BEGIN_ID, *ids]]))[0, -1]
            for token, more in enumerate(torch.log_softmax(logits, -1).tolist()):
                full = len(ids) == settings.max_offset
                if token not in (UNKNOWN_ID, BEGIN_ID, PADDING_ID) and (token == END_ID or not full):
                    candidates.append((log_prob + more, (*ids, token)))
        candidates.sort(key=lambda candidate: -candidate[0])
        for log_prob, ids in candidates[: settings.beam]:
            if ids[-1] == END_ID and len(finished) < settings.beam:
                finished.append((log_prob / len(ids) ** settings.length_penalty, ids[:-1]))
        running = [candidate for candidate in candidates if candidate[1][-1] != END_ID][: settings.beam]
    return [ids for _, ids in sorted(finished, key=lambda item: -item[0])[: settings.n_best]]


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 1.7])
@pytest.mark.parametrize(("beam", "n_best"), [(2, 1), (3, 2), (5, 5)])
def test_stopping_early_changes_no_result_of_the_full_search(beam: int, n_best: int, length_penalty: float) -> None:
    settings = BeamSettings(beam, length_penalty, max_ratio=0, max_offset=7, n_best=n_best)
    for seed in range(7):
        model = TableModel(seed)
        expected = [reference_search(model, source, settings) for source in SOURCES]
        assert ids_of(beam_search(model, *batch_of(*SOURCES), settings)) == expected


def test_the_encoder_runs_once_per_sentence_and_finished_sentences_leave_the_batch() -> None:
    model = TableModel(0)
    beam_search(model, *batch_of(*SOURCES), BeamSettings(3, 0.0, max_ratio=0, max_offset=11))
    assert model.encoded == len(SOURCES)
    assert model.rows_read[0] == len(SOURCES)
    assert model.rows_read[1] == 3 * len(SOURCES)
    assert model.rows_read == [model.rows_read[0], *sorted(model.rows_read[1:], reverse=True)]
    assert model.rows_read[-1] < model.rows_read[1]
    # Without a length penalty nothing can overtake a finished hypothesis that is more probable than all running ones.
    assert len(model.rows_read) < 11


def test_equal_candidates_are_taken_in_a_fixed_order() -> None:
    model = TableModel(vocabulary=VOCABULARY)
    with torch.no_grad():
        model.table.zero_()  # all tokens are equally probable everywhere
    settings = BeamSettings(4, 0.0, max_ratio=0, max_offset=3, n_best=4)
    # END is the lowest id allowed: it ends the first hypothesis of every step, and word 4 comes before word 5.
    assert ids_of(beam_search(model, *batch_of([4]), settings)) == [[(), (4,), (4, 4), (4, 4, 4)]]
    scores = torch.tensor([[1.0, 3, 3, 3, 2, 3, 0], [2.0, 0, 2, 1, 1, 2, 1]])
    values, places = _best(scores, 2)
    assert values.tolist() == [[3, 3], [2, 2]]
    assert places.tolist() == [[1, 2], [0, 2]]
    assert _best(scores, 5)[1].tolist() == [[1, 2, 3, 5, 4], [0, 2, 5, 3, 4]]


def test_the_longest_translation_depends_on_its_own_source_and_on_the_model() -> None:
    model = TableModel(1)
    with torch.no_grad():
        model.table[:, END_ID] = -30.0  # never ends by itself
    sources = [[4], [4, 5, 6, 4, 5]]
    settings = BeamSettings(2, max_ratio=1.5, max_offset=1)
    found = [hypotheses[0] for hypotheses in beam_search(model, *batch_of(*sources), settings)]
    assert [len(hypothesis.ids) for hypothesis in found] == [4, 10]
    assert not any(hypothesis.finished for hypothesis in found)
    for source, hypothesis in zip(sources, found, strict=True):
        assert hypothesis.log_prob == pytest.approx(log_prob_of(model, source, hypothesis.ids), abs=1e-4)
    model.longest = 6
    assert len(beam_search(model, *batch_of([4, 5, 6, 4, 5]), settings)[0][0].ids) == 5


def test_a_model_that_cannot_be_decoded_says_so() -> None:
    model = TableModel(1)
    with pytest.raises(ValueError, match="training mode"):
        beam_search(model.train(), *batch_of([4]), BeamSettings())
    with torch.no_grad():
        model.table.fill_(math.nan)
    with pytest.raises(ToolError, match="not numbers"):
        beam_search(model.eval(), *batch_of([4]), BeamSettings())
    with torch.no_grad():
        model.table.zero_()[:, END_ID] = -math.inf
    with pytest.raises(ToolError, match="no translation can end"):
        beam_search(model, *batch_of([4]), BeamSettings(max_ratio=0, max_offset=2))


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"beam": 0}, "beam"),
        ({"beam": 2, "n_best": 3}, "n_best"),
        ({"length_penalty": -1.0}, "length_penalty"),
        ({"max_ratio": 0.0, "max_offset": 0}, "max_offset"),
        ({"max_ratio": math.nan}, "max_ratio"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, float], key: str) -> None:
    with pytest.raises(ConfigError, match=rf"decoding\.{key}"):
        BeamSettings(**wrong)  # type: ignore[arg-type]
