"""Mask nets trained alone: losses by hand, who learns and who stays, resuming, what they find, and their folder."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_mask_game import MOMENT, SETTINGS, SOURCES, TARGETS, VOCABULARY, pairs, real, traced_masks, wider
from torch import Tensor, nn
from training_files import CopyTask
from trainings import PowerCut, training_of

from alignlens.cli.main import main
from alignlens.decoding.given import open_pair
from alignlens.decoding.sentences import SentencesInMemory
from alignlens.errors import ConfigError, InputError
from alignlens.io.checksum import sha256_of
from alignlens.models.calibrated import Calibrated
from alignlens.models.checkpoint import load_model, load_tensors, weights_of
from alignlens.models.settings import CalibratedSettings, ModelSpec
from alignlens.tracking.records import read_journal
from alignlens.training.loop import Watcher
from alignlens.training.masks import MaskTraining
from alignlens.training.objectives.contract import Material
from alignlens.training.objectives.cross_entropy import smoothed_cross_entropy
from alignlens.training.objectives.mask_game import penalty_by_length
from alignlens.training.objectives.mask_nets import MaskNets
from alignlens.training.objectives.registry import MaskNetOptions
from alignlens.training.processes import Processes
from alignlens.training.settings import MaskSettings, TrainingSettings

PLAIN = replace(SETTINGS, fusion="none")
#: Long enough to learn the task.
TRAINED = {"max_updates": 200, "validate_every": 200, "batch_tokens": 300, "accumulation": 1, "snapshots": [100]}
SHORT = {"updates": 24, "training": {"batch_tokens": 90, "validate_every": 8}}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> CopyTask:
    return CopyTask.write(tmp_path_factory.mktemp("copy"), pairs=400)


@pytest.fixture(scope="module")
def trained(task: CopyTask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Transformer that has learned to copy."""
    place = tmp_path_factory.mktemp("transformer")
    assert main(task.arguments(place, "transformer", **TRAINED, learning_rate=1e-2, warmup=40)) == 0
    return place / "model"


def objective_of(settings: CalibratedSettings = PLAIN, smoothing: float = 0.1, **options: Any) -> MaskNets:
    training = TrainingSettings.from_json({"max_updates": 1, "label_smoothing": smoothing})
    nothing = SentencesInMemory([])
    material = Material(ModelSpec("calibrated", settings, VOCABULARY, VOCABULARY), training, nothing, nothing)
    return MaskNets(MaskNetOptions(**options), material)


def model_of(**changes: Any) -> Calibrated:
    torch.manual_seed(3)
    model = Calibrated(replace(PLAIN, **changes), VOCABULARY, VOCABULARY).double().train()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def arguments(task: CopyTask, model: Path, place: Path, *more: str, settings: Any = None) -> list[str]:
    """The command on token stores."""
    text = ["--source", str(task.folder / "train"), "--target", str(task.folder / "train")]
    dev = ["--dev-source", str(task.folder / "dev"), "--dev-target", str(task.folder / "dev")]
    made = ["--work", str(place / "work"), "--out", str(place / "masks")]
    told = ["--settings", json.dumps(SHORT if settings is None else settings)]
    return ["masks", "--model", str(model), *text, *dev, *made, *told, *more]


# ---- losses and gradients


def by_hand(model: Calibrated, alpha: float) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The loss of the masks, the perturbed loss and the masks, of two passes that keep every gradient."""
    batch = pairs()
    source, mask, prefix = (torch.from_numpy(each) for each in (batch.source, batch.source_mask, batch.prefix))
    keep, labels = torch.from_numpy(batch.labels_mask), torch.from_numpy(batch.labels)
    masks = traced_masks(model, batch)
    with model.perturbed(masks):
        perturbed = smoothed_cross_entropy(model(source, mask, prefix, keep), labels[keep], 0.1)
    return alpha * penalty_by_length(masks, *real(batch)) - perturbed, perturbed, masks


def test_the_loss_and_its_gradient_are_those_of_two_passes_by_hand() -> None:
    model, objective = model_of(dropout=0.3, attention_dropout=0.2), objective_of(alpha=0.7)
    slow = model_of().eval()
    loss, perturbed, masks = by_hand(slow, 0.7)
    expected = torch.autograd.grad(loss, slow.mask_parameters())
    (player,) = objective.players(model).values()
    outcome = objective(model, pairs(), MOMENT)
    assert model.training
    assert outcome.losses["mask"].item() == pytest.approx(loss.item())
    assert outcome.measured["perturbed_loss"] == pytest.approx((perturbed.item(), pairs().target_tokens))
    lengths = [(len(target) + 1, len(source) + 1) for source, target in zip(SOURCES, TARGETS, strict=True)]
    valid = [mask[row, :, :rows, :columns] for mask in masks for row, (rows, columns) in enumerate(lengths)]
    total, number = outcome.measured["mask"]
    assert total / number == pytest.approx(torch.cat([each.flatten() for each in valid]).mean().item())
    found = torch.autograd.grad(outcome.losses["mask"], player.parameters)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
        assert one.any()


def test_nothing_but_the_mask_nets_gets_a_gradient() -> None:
    model, objective = model_of(), objective_of()
    assert list(objective.players(model)) == ["mask"]
    objective(model, pairs(), MOMENT).losses["mask"].backward()
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad == ("mask_net" in name)
        assert (parameter.grad is not None) == ("mask_net" in name)


def test_neither_padding_nor_the_batch_changes_a_loss() -> None:
    model, objective = model_of(), objective_of(alpha=2.0)
    objective.players(model)
    together = objective(model, pairs(), MOMENT)
    padded = objective(model, wider(pairs()), MOMENT)
    alone = [objective(model, pairs([row]), MOMENT) for row in range(4)]
    loss = together.losses["mask"].item()
    assert padded.losses["mask"].item() == pytest.approx(loss, rel=1e-10)
    assert sum(each.losses["mask"].item() for each in alone) == pytest.approx(loss, rel=1e-10)
    for name, measured in together.measured.items():
        assert padded.measured[name] == pytest.approx(measured)
        assert np.sum([each.measured[name] for each in alone], axis=0) == pytest.approx(measured)


def test_on_the_dev_text_the_masks_of_the_clean_pass_perturb() -> None:
    model, objective = model_of().eval(), objective_of(smoothing=0.0)
    for parameter in model.parameters():
        parameter.data *= 2.5  # so that the layers above notice
    _, _, masks = by_hand(model, 0.0)
    found = objective.validation(model, [pairs()])
    batch = pairs()
    source, mask, prefix = (torch.from_numpy(each) for each in (batch.source, batch.source_mask, batch.prefix))
    keep, labels = torch.from_numpy(batch.labels_mask), torch.from_numpy(batch.labels)
    with model.perturbed(masks):
        perturbed = smoothed_cross_entropy(model(source, mask, prefix, keep), labels[keep], 0.0)
    assert found["perturbed_loss"] == pytest.approx(perturbed.item() / batch.target_tokens)
    with model.perturbed():
        other = smoothed_cross_entropy(model(source, mask, prefix, keep), labels[keep], 0.0)
    assert found["perturbed_loss"] != pytest.approx(other.item() / batch.target_tokens, rel=1e-4)


def test_masks_begin_where_nearly_everything_is_perturbed() -> None:
    torch.manual_seed(1)
    model = Calibrated(CalibratedSettings(dim=64, heads=4, decoder_layers=2, fusion="none"), VOCABULARY, VOCABULARY)
    masks = torch.cat([mask.detach()[0].flatten() for mask in traced_masks(model.eval(), pairs([2]))])
    assert 0.02 < masks.mean() < 0.3


def test_a_fusion_that_would_change_the_model_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"model\.fusion: .* with fusion gate masks change .* Set it to none\."):
        objective_of(SETTINGS)


# ---- trainings


def test_the_model_stays_bit_for_bit_and_the_folder_knows_whose_masks_they_are(
    task: CopyTask, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(task, trained, tmp_path, "--journal", str(tmp_path / "j.jsonl"), "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    model, spec = load_model(tmp_path / "masks")
    assert isinstance(model, Calibrated)
    assert (spec.architecture, spec.settings.fusion) == ("calibrated", "none")
    plain, found = load_tensors(trained / "weights.safetensors")[0], weights_of(model)
    assert all(torch.equal(found[name], tensor) for name, tensor in plain.items())
    assert {name for name in found if name not in plain} == {name for name in found if "mask_net" in name}
    card = json.loads((tmp_path / "masks/model.json").read_text())
    assert card["masks_of"] == sha256_of(trained / "weights.safetensors")
    assert card["parameters"] == sum(each.numel() for each in model.mask_parameters())
    assert not (tmp_path / "work").exists()
    rows = list(csv.DictReader((tmp_path / "masks/curves.csv").open()))
    # Measured three times; the model is what it was.
    assert len({row["dev_clean_loss"] for row in rows}) == len({row["dev_loss"] for row in rows}) == 1
    assert len({row["dev_mask"] for row in rows}) == 3
    assert told["dev_mask"] == pytest.approx(float(rows[-1]["dev_mask"]))
    (record,) = read_journal(tmp_path / "j.jsonl")
    assert record.experiment == "train masks"
    assert record.latest["dev_perturbed_loss"] == pytest.approx(told["dev_perturbed_loss"])


def test_a_killed_training_goes_on_to_the_same_bytes(task: CopyTask, trained: Path, tmp_path: Path) -> None:
    assert main(arguments(task, trained, tmp_path / "whole")) == 0
    stores = [open_pair(task.folder / split, task.folder / split) for split in ("train", "dev")]
    for update in (3, 13):
        place = tmp_path / str(update)
        asked = MaskTraining(trained, "weights", *stores, place / "work")
        settings = MaskSettings(updates=24, training=SHORT["training"])
        training, _ = asked.assembled(settings, 1, Processes(0, 1, torch.device("cpu")))

        def cut(note: str, training: Any = training, update: int = update) -> None:
            if training.progress.update == update:
                raise PowerCut

        (place / "work").mkdir(parents=True)
        (place / "work/training").write_text("as its process has marked it")
        with pytest.raises(PowerCut):
            training.run(Watcher(lambda record: None, cut))
        assert (place / "work/state.safetensors").is_file() == (update > 8)
        assert main(arguments(task, trained, place)) == 0
        for name in ("weights.safetensors", "curves.csv", "model.json"):
            assert (place / "masks" / name).read_bytes() == (tmp_path / "whole/masks" / name).read_bytes(), name


def test_perturbing_hurts_and_hurts_less_in_random_order(
    task: CopyTask, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On held-out sentences; a model of this size, which is not sure of anything, needs less of a penalty."""
    assert main(arguments(task, trained, tmp_path, "--json", settings={"updates": 250, "alpha": 2.0})) == 0
    told = json.loads(capsys.readouterr().out)
    assert 0.4 < told["dev_mask"] < 0.98
    assert told["dev_perturbed_loss"] > told["dev_clean_loss"] + 0.3
    assert told["dev_perturbed_loss"] > told["dev_shuffled_loss"] + 0.1


def test_text_does_as_well_as_stores_and_without_a_dev_text_some_of_it_is_held_out(
    task: CopyTask, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, dev = str(task.folder / "train.txt"), str(task.folder / "dev.txt")
    named = ["masks", "--model", str(trained), "--source", text, "--target", text, "--settings", json.dumps(SHORT)]
    told = ["--work", str(tmp_path / "work"), "--json", "--out"]
    assert main([*named, *told, str(tmp_path / "text"), "--dev-source", dev, "--dev-target", dev]) == 0
    assert main(arguments(task, trained, tmp_path / "stores", "--json")) == 0
    weights = [place / "weights.safetensors" for place in (tmp_path / "text", tmp_path / "stores/masks")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert main([*named, *told, str(tmp_path / "alone")]) == 0
    given, stored, alone = map(json.loads, capsys.readouterr().out.splitlines())
    assert given == stored
    assert alone["dev_clean_loss"] != given["dev_clean_loss"]
    assert not (tmp_path / "work").exists()
    lines = (task.folder / "train.txt").read_text().splitlines()
    training = MaskTraining(trained, "weights", open_pair(text, text), None, tmp_path / "work")
    training.write_text()
    files = training._files()
    assert [len(open_pair(files.train_source, files.train_target)[0]), training._pairs] == [len(lines), 351]
    assert len(open_pair(files.dev_source, files.dev_target)[0]) == len(lines) - 351 == 38


def test_masks_of_another_checkpoint(task: CopyTask, trained: Path, tmp_path: Path) -> None:
    name = "snapshots/000100"
    assert main(arguments(task, trained, tmp_path, "--weights", name)) == 0
    kept = trained / f"{name}.safetensors"
    assert json.loads((tmp_path / "masks/model.json").read_text())["masks_of"] == sha256_of(kept)
    found = weights_of(load_model(tmp_path / "masks")[0])
    assert all(torch.equal(found[name], tensor) for name, tensor in load_tensors(kept)[0].items())


# ---- what is refused


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"alpha": -1}, "--settings.alpha: -1"),
        ({"update": 3}, "--settings.update: unknown key"),
        ({"training": {"max_updates": 5}}, "--settings.training.max_updates: set --settings.updates instead."),
        ({"training": {"objective": {"name": "x"}}}, "--settings.training.objective: set --settings.alpha instead."),
        ({"training": {"learning_rates": 5}}, "--settings.training.learning_rates: unknown key"),
        ({"training": {"best_by": "bleu", "validate_sentences": 0}}, "--settings.training.best_by: bleu needs"),
    ],
)
def test_settings_that_cannot_be(
    task: CopyTask, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: Any, told: str
) -> None:
    assert main(arguments(task, trained, tmp_path, settings=settings)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def test_who_can_have_no_masks_is_told_in_one_line(
    task: CopyTask, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(task.arguments(tmp_path, "lstm", max_updates=2, validate_every=2)) == 0
    capsys.readouterr()
    assert main(arguments(task, tmp_path / "model", tmp_path)) == 2
    assert "is a model of architecture lstm; masks can only be trained for transformer." in capsys.readouterr().err
    few = tmp_path / "few"
    few.write_text("ba du\nge ki\n")
    named = ["masks", "--model", str(trained), "--source", str(few), "--target", str(few)]
    made = ["--work", str(tmp_path / "w"), "--out", str(tmp_path / "o")]
    assert main([*named, *made]) == 2
    assert "few: 2 pairs are too few to hold out some of them." in capsys.readouterr().err
    assert main([*named, *made, "--dev-source", str(few)]) == 2
    assert "--dev-source and --dev-target go together" in capsys.readouterr().err
    assert not (tmp_path / "w").exists()


def test_a_training_begins_with_a_transformer_of_the_same_settings_only(
    task: CopyTask, trained: Path, tmp_path: Path
) -> None:
    masks = {"architecture": "calibrated", "objective": {"name": "mask_nets"}}
    plain = {"dim": 16, "ffn": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "fusion": "none"}
    with pytest.raises(InputError, match=r"a model with settings\.ffn = 32, but here settings\.ffn = 64"):
        training_of(task, tmp_path / "a", trained, model={**plain, "ffn": 64}, **masks)
    with pytest.raises(ConfigError, match="mask_nets starts from a trained model; name it with --start-from"):
        training_of(task, tmp_path / "b", model=plain, **masks)
    training = training_of(task, tmp_path / "c", trained, model={**plain, "fusion": "gate"}, architecture="calibrated")
    own, theirs = weights_of(training.model), load_tensors(trained / "weights.safetensors")[0]
    assert all(torch.equal(own[name], tensor) for name, tensor in theirs.items())
