"""Minimum risk training: closed forms, gradients against a slow loop, candidates, memory, whole trainings."""

from __future__ import annotations

import csv
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from table_model import TableModel, batch_of
from training_files import CopyTask
from trainings import curve, cut_at, finished, same, state, training_of

from alignlens.cli.main import main
from alignlens.corpora.batches import Batch, make_batch
from alignlens.corpora.symbols import BEGIN_ID, END_ID
from alignlens.decoding.sampling import sample
from alignlens.decoding.sentences import SentencesInMemory
from alignlens.decoding.settings import SamplingSettings
from alignlens.metrics.sentence_bleu import SentenceBleu
from alignlens.models.contract import Seq2Seq
from alignlens.models.registry import build
from alignlens.models.settings import ModelSpec, architecture_settings
from alignlens.training.objectives import minimum_risk
from alignlens.training.objectives.contract import Material, Moment
from alignlens.training.objectives.minimum_risk import Candidates, MinimumRisk, label_scores
from alignlens.training.objectives.registry import MinimumRiskOptions
from alignlens.training.settings import TrainingSettings

VOCABULARY = 9
SMALL: dict[str, dict[str, Any]] = {
    "transformer": {"dim": 8, "ffn": 12, "heads": 2, "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.0},
    "lstm": {"dim": 6, "hidden": 6, "output_dropout": 0.0},
    "fconv": {"dim": 6, "hidden": 6, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0},
}
SOURCES = [[4, 5], [6], [5, 4, 6, 7, 8], [7, 7, 4]]
TARGETS = [[5, 4, 8], [6, 6], [4, 5, 6, 7, 8, 4], [7, 4]]
NUMBERS = np.array([17, 3, 101, 5])
MOMENT = Moment(5, 1, 0)
SEED = int(MOMENT.generator("samples").integers(2**31))


def objective_of(tokens: int = 10_000, precision: str = "float32", **options: Any) -> MinimumRisk:
    training = TrainingSettings.from_json({"max_updates": 1, "batch_tokens": tokens, "precision": precision})
    spec = ModelSpec("lstm", architecture_settings("lstm", {}), VOCABULARY, VOCABULARY)
    nothing = SentencesInMemory([])
    return MinimumRisk(MinimumRiskOptions(**options), Material(spec, training, nothing, nothing))


def model_of(architecture: str, **changes: Any) -> Seq2Seq:
    settings = architecture_settings(architecture, {**SMALL[architecture], **changes})
    return build(ModelSpec(architecture, settings, VOCABULARY, VOCABULARY), 3)


def pairs(rows: Sequence[int] = range(4)) -> Batch:
    """Returns some of the pairs, under their numbers in a corpus."""
    sources, targets = ([side[row] for row in rows] for side in (SOURCES, TARGETS))
    batch = make_batch(SentencesInMemory(sources), SentencesInMemory(targets), np.arange(len(rows)))
    return Batch(NUMBERS[list(rows)], batch.source, batch.source_mask, batch.prefix, batch.labels)


def gradients(model: Seq2Seq, loss: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return [torch.zeros_like(each) if each.grad is None else each.grad.clone() for each in model.parameters()]


# ---- the risk


def test_risk_and_gradient_of_two_candidates_in_closed_form() -> None:
    reference, other = (4, 5, 6, 7), (4, 5, 6, 8)
    candidates = Candidates.of([reference, (9,)], [[other, other], [(9,)]], "nltk1")
    worth = (3 / 4 * 2 / 3 * 1 / 2 * 0.1) ** 0.25
    alone = 0.1**0.75
    assert candidates.bleu == pytest.approx([1.0, worth, alone])
    # Probabilities of one half and one eighth, to the power of one half: weights of two thirds and one third.
    log_p = torch.tensor([math.log(1 / 2), math.log(1 / 8), -3.0], dtype=torch.float64, requires_grad=True)
    risks = candidates.risks(log_p, sharpness=0.5)
    assert risks.tolist() == pytest.approx([-(2 / 3 + worth / 3), -alone])
    risks.sum().backward()
    # Of a weight by its log probability: sharpness * w * (1 - w), and minus as much of the other's.
    slope = 0.5 * (2 / 3) * (1 / 3) * (1 - worth)
    assert log_p.grad is not None
    assert log_p.grad.tolist() == pytest.approx([-slope, slope, 0.0])
    equal = candidates.risks(log_p, sharpness=0.0).tolist()
    assert equal == pytest.approx([-(1 + worth) / 2, -alone])


def slow_loss(model: Seq2Seq, options: MinimumRiskOptions, smoothing: float) -> torch.Tensor:
    """The risk of all pairs, a sentence and a candidate at a time, through plain autograd."""
    total = torch.zeros((), dtype=torch.float64)
    settings = SamplingSettings(options.samples, options.temperature, SEED, options.length_ratio, options.length_extra)
    for source, target, number in zip(SOURCES, TARGETS, NUMBERS.tolist(), strict=True):
        given = batch_of(source)
        model.eval()
        (draws,) = sample(model, *given, settings, [number], np.array([len(target) + 1]))
        model.train()
        distinct = dict.fromkeys([tuple(target), *(draw.ids for draw in draws)])
        assert len(distinct) > 2
        scores, worth = [], []
        for ids in distinct:
            log_p = model(*given, torch.tensor([[BEGIN_ID, *ids]]))[0].log_softmax(-1)
            score = torch.zeros((), dtype=torch.float64)
            for position, label in enumerate((*ids, END_ID)):
                wanted = torch.full((VOCABULARY,), smoothing / (VOCABULARY - 1), dtype=torch.float64)
                wanted[label] = 1 - smoothing
                score = score - (torch.special.xlogy(wanted, wanted) - wanted * log_p[position]).sum()
            scores.append(options.sharpness * score)
            worth.append(SentenceBleu(target, options.bleu)(ids))
        weights = torch.stack(scores).softmax(0)
        total = total - (weights * torch.tensor(worth, dtype=torch.float64)).sum()
    return total


@pytest.mark.parametrize("architecture", SMALL)
@pytest.mark.parametrize("tokens", [10_000, 30])
@pytest.mark.parametrize(
    ("options", "smoothing"),
    [({"bleu": "sacrebleu", "log_p": "model"}, 0.0), ({"bleu": "nltk1", "log_p": "smoothed", "temperature": 0.7}, 0.1)],
)
def test_risk_and_gradient_are_those_of_a_slow_loop_in_one_part_or_many(
    architecture: str, tokens: int, options: dict[str, Any], smoothing: float
) -> None:
    model = model_of(architecture).double().train()
    objective = objective_of(tokens, samples=12, sharpness=0.3, **options)
    outcome = objective(model, pairs(), MOMENT)
    assert model.training
    found = gradients(model, outcome.losses["model"])
    expected = slow_loss(model, objective.options, smoothing)
    assert outcome.losses["model"].item() == pytest.approx(expected.item(), abs=1e-12)
    slow = gradients(model, expected)
    assert max(float(each.abs().max()) for each in slow) > 1e-3
    for one, other in zip(found, slow, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)
    parts = list(objective._parts(pairs(), objective.candidates(model, pairs(), SEED)))
    assert (len(parts) > 4) == (tokens == 30)
    assert all(part.sentences * max(6, part.labels.shape[1]) <= tokens for part in parts)


def test_scores_of_labels_are_log_probabilities_or_divergences_from_smoothed_labels() -> None:
    logits = torch.randn(5, VOCABULARY, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([4, 0, 8, 4, 2])
    plain = logits.log_softmax(-1)[range(5), labels]
    torch.testing.assert_close(label_scores(logits, labels, 0.0), plain)
    smoothed = torch.full((5, VOCABULARY), 0.2 / (VOCABULARY - 1), dtype=torch.float64)
    smoothed[range(5), labels] = 0.8
    torch.testing.assert_close(label_scores(smoothed.log(), labels, 0.2), torch.zeros(5, dtype=torch.float64))
    assert (label_scores(logits, labels, 0.2) < 0).all()
    torch.testing.assert_close(label_scores(logits, labels, 1e-9), plain, rtol=0, atol=1e-6)


# ---- candidates


def test_the_reference_is_always_a_candidate_and_none_is_one_twice() -> None:
    references = [(4, 5), (6,), (4, 5)]
    drawn = [[(4,), (4, 5), (4,)], [(6,), (6,), (6,)], [(), (5,), (4,)]]
    found = Candidates.of(references, drawn, "sacrebleu")
    assert found.ids == [(4, 5), (4,), (6,), (4, 5), (), (5,), (4,)]
    assert found.sentence.tolist() == [0, 0, 1, 2, 2, 2, 2]
    assert found.place.tolist() == [0, 1, 0, 0, 1, 2, 3]
    assert found.drawn.tolist() == [1, 2, 3, 0, 1, 1, 1]
    half = math.exp(-1)  # one right piece of two
    assert found.bleu == pytest.approx([1, half, 1, 1, 0, half, half])


def test_candidates_of_a_pair_do_not_depend_on_the_other_pairs_of_the_batch() -> None:
    model = TableModel(2, spread=0.5, vocabulary=VOCABULARY)
    objective = objective_of(samples=20)
    together = objective.candidates(model, pairs(), SEED)
    assert together.drawn.sum() == 4 * 20
    for tokens, rows in ((10_000, [2, 0]), (10_000, [1]), (1, range(4)), (300, [3, 2, 1, 0])):
        some = objective_of(tokens, samples=20).candidates(model, pairs(rows), SEED)
        for place, row in enumerate(rows):
            mine, theirs = np.flatnonzero(some.sentence == place), np.flatnonzero(together.sentence == row)
            assert [some.ids[each] for each in mine] == [together.ids[each] for each in theirs]
            assert some.drawn[mine].tolist() == together.drawn[theirs].tolist()
    other = objective.candidates(model, pairs(), SEED + 1)
    assert other.ids != together.ids


def test_draws_are_as_long_as_the_reference_allows() -> None:
    model = TableModel(1, spread=0.1, vocabulary=VOCABULARY)
    with torch.no_grad():
        model.table[:, END_ID] = -9.0  # it would go on and on
    for ratio, extra in ((1.4, 3), (1.0, 0), (0.0, 2), (0.0, 1)):
        found = objective_of(samples=9, length_ratio=ratio, length_extra=extra).candidates(model, pairs(), SEED)
        for row, target in enumerate(TARGETS):
            drawn = [len(found.ids[each]) for each in np.flatnonzero((found.sentence == row) & (found.drawn > 0))]
            assert set(drawn) == {math.floor(ratio * (len(target) + 1)) + extra}


# ---- dropout, memory, precision


@pytest.mark.parametrize("architecture", SMALL)
def test_the_backward_pass_sees_the_dropout_of_the_forward_pass(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropout = "output_dropout" if architecture == "lstm" else "dropout"
    model = model_of(architecture, **{dropout: 0.4}).train()
    objective = objective_of(tokens=30, samples=12, sharpness=0.3)

    def found() -> tuple[float, list[torch.Tensor]]:
        torch.manual_seed(4)
        loss = objective(model, pairs(), MOMENT).losses["model"]
        return loss.item(), gradients(model, loss)

    (risk, recomputed), (again, same_again) = found(), found()
    monkeypatch.setattr(minimum_risk, "checkpoint", lambda function, *asked, use_reentrant: function(*asked))
    kept_risk, kept = found()
    assert risk == again == kept_risk
    assert all(map(torch.equal, recomputed, same_again))
    assert all(map(torch.equal, recomputed, kept))
    torch.manual_seed(5)
    assert objective(model, pairs(), MOMENT).losses["model"].item() != risk


def kept_bytes(objective: MinimumRisk, model: Seq2Seq) -> int:
    """How much is kept between the forward and the backward pass."""
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = objective(model, pairs(), MOMENT).losses["model"]
    total = sum(kept.values())
    loss.backward()
    return total


def test_memory_does_not_grow_with_the_samples_unless_all_of_them_fit() -> None:
    model = model_of("transformer").train()
    few, many = (kept_bytes(objective_of(100, samples=samples), model) for samples in (15, 150))
    at_once = kept_bytes(objective_of(samples=150), model)
    assert many - few < 4 * (150 - 15) * 64, "a few numbers of every candidate"
    assert at_once > 10 * many


def test_half_precision_gives_the_risk_of_single_precision_roughly() -> None:
    model = model_of("transformer").train()
    risks = [
        objective_of(60, precision, samples=8)(model, pairs(), MOMENT).losses["model"].item()
        for precision in ("float32", "bfloat16")
    ]
    assert risks[0] != risks[1]
    assert risks[0] == pytest.approx(risks[1], rel=1e-3)


# ---- what is measured


def test_measures_are_means_in_percent_and_of_the_dev_text_always_the_same() -> None:
    model = model_of("lstm").train()
    objective = objective_of(samples=12)
    outcome = objective(model, pairs(), MOMENT)
    found = objective.candidates(model, pairs(), SEED)
    risk = outcome.losses["model"].item()
    assert outcome.measured == {
        "expected_bleu": (pytest.approx(-100 * risk), 4),
        "sampled_bleu": (pytest.approx(100 * float((found.drawn * found.bleu).sum())), 48),
        "candidates": (len(found.ids), 4),
    }
    model.eval()
    before = torch.get_rng_state()
    dev = objective.validation(model, [pairs([0, 1]), pairs([2, 3])])
    assert dev.keys() == set(objective.dev_metrics) == set(objective.metrics)
    assert dev == pytest.approx(objective.validation(model, [pairs()]))
    assert dev["candidates"] > 2
    assert torch.equal(torch.get_rng_state(), before)
    assert not model.training
    assert objective.validation(model, []) == {}


# ---- whole trainings


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> CopyTask:
    return CopyTask.write(tmp_path_factory.mktemp("copy"))


@pytest.fixture(scope="module")
def trained(task: CopyTask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has begun to copy."""
    place = tmp_path_factory.mktemp("trained")
    assert main(task.arguments(place, max_updates=140, validate_every=70, snapshots=[])) == 0
    return place / "model"


def tuned(samples: int = 6, **changes: Any) -> dict[str, Any]:
    objective = {"name": "minimum_risk", "samples": samples}
    rate = {"schedule": "constant", "warmup": 0, "learning_rate": 1e-3}
    return {"objective": objective, "snapshots": [], **rate, "max_updates": 6, "validate_every": 3, **changes}


def columns(folder: Path) -> Iterator[dict[str, str]]:
    return csv.DictReader((folder / "curves.csv").open())


def test_it_needs_a_trained_model(task: CopyTask, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(task.arguments(tmp_path, **tuned())) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "alignlens train: training.objective: minimum_risk starts from a trained model; name it with --start-from."
    )


def test_it_raises_the_bleu_of_what_the_model_draws(task: CopyTask, trained: Path, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    changes = tuned(16, max_updates=24, validate_every=8, validate_sentences=11, learning_rate=3e-3)
    assert main([*task.arguments(tmp_path, **changes), "--start-from", str(trained)]) == 0
    rows = list(columns(tmp_path / "model"))
    assert len(rows) == 3
    first, last = ({name: float(value) for name, value in row.items()} for row in (rows[0], rows[-1]))
    for text in ("train", "dev"):
        assert last[f"{text}_sampled_bleu"] > first[f"{text}_sampled_bleu"] + 4
        assert last[f"{text}_expected_bleu"] > first[f"{text}_expected_bleu"] + 1
        assert 2 < last[f"{text}_candidates"] < 17
    assert last["train_loss"] < 0
    card = json.loads((tmp_path / "model/model.json").read_text())
    assert card["training"]["objective"]["samples"] == 16


def test_without_dev_sentences_to_translate_the_dev_text_is_not_drawn_from(
    task: CopyTask, trained: Path, tmp_path: Path
) -> None:
    changes = tuned(max_updates=2, validate_every=2, validate_sentences=0)
    assert main([*task.arguments(tmp_path, **changes), "--start-from", str(trained)]) == 0
    (row,) = columns(tmp_path / "model")
    assert row["dev_sampled_bleu"] == row["dev_bleu"] == ""
    assert float(row["train_sampled_bleu"]) > 0


def test_it_goes_on_bit_for_bit(task: CopyTask, trained: Path, tmp_path: Path) -> None:
    changes = tuned(start_from=trained)
    whole = finished(task, tmp_path / "whole", **changes)
    for update in (1, 4):
        cut_at(task, tmp_path / str(update), update, **changes)
        resumed = finished(task, tmp_path / str(update), **changes)
        assert same(state(whole), state(resumed)), update
        for name in ("train_loss", "train_candidates", "dev_expected_bleu", "dev_sampled_bleu"):
            assert curve(resumed.history, name) == curve(whole.history, name)


def test_two_processes_compute_what_one_does(task: CopyTask, trained: Path, tmp_path: Path) -> None:
    changes = tuned(max_updates=3)
    start = ["--start-from", str(trained)]
    assert main([*task.arguments(tmp_path / "one", **changes), *start]) == 0
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "alignlens",
    ]
    command += [*task.arguments(tmp_path / "two", **changes), *start]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    both = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert both.returncode == 0, both.stderr
    (one,), (two,) = (list(columns(tmp_path / name / "model")) for name in ("one", "two"))
    for name in ("train_loss", "train_sampled_bleu", "dev_sampled_bleu", "dev_candidates"):
        assert float(one[name]) == pytest.approx(float(two[name]), rel=1e-2), name


def test_draws_change_with_the_update_and_the_place(task: CopyTask, trained: Path, tmp_path: Path) -> None:
    training = training_of(task, tmp_path, start_from=trained, **tuned())
    batch = next(training.batches.at(training.progress.position))[0]
    training.model.eval()  # without dropout they differ by what was drawn alone

    def risk(moment: Moment) -> float:
        return training.objective(training.model, batch, moment).losses["model"].item()

    moments = (Moment(5, 1, 0), Moment(5, 1, 1), Moment(5, 2, 0), Moment(6, 1, 0))
    assert len(set(map(risk, moments))) == 4
    assert risk(moments[0]) == risk(moments[0])
