"""The training loop: what it keeps, when it stops, and that stopping changes nothing."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from training_files import MODELS, TRAINING, CopyTask

from alignlens.errors import ConfigError, InputError
from alignlens.models.checkpoint import load_model, load_tensors
from alignlens.training.assembly import assemble, write_model
from alignlens.training.interrupt import Interrupt
from alignlens.training.loop import Training, TrainingError, Watcher
from alignlens.training.objectives.contract import Moment
from alignlens.training.processes import Processes
from alignlens.training.settings import TrainingSettings
from alignlens.training.state import Progress

ALONE = Processes(0, 1, torch.device("cpu"))
SILENT = Watcher(lambda record: None, lambda note: None)


@pytest.fixture(scope="session")
def task(tmp_path_factory: pytest.TempPathFactory) -> CopyTask:
    return CopyTask.write(tmp_path_factory.mktemp("copy"))


def training_of(task: CopyTask, work: Path, architecture: str = "transformer", **changes: Any) -> Training:
    torch.set_num_threads(1)
    settings = TrainingSettings.from_json({**TRAINING, **changes})
    model = {"embeddings": "shared_tied", **MODELS[architecture]}
    return assemble(task.files, architecture, model, False, settings, 5, work, ALONE)[0]


def finished(task: CopyTask, work: Path, architecture: str = "transformer", **changes: Any) -> Progress:
    return training_of(task, work, architecture, **changes).run(SILENT)


def weights(work: Path, name: str = "state") -> dict[str, torch.Tensor]:
    return load_tensors(work / f"{name}.safetensors")[0]


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


class PowerCut(BaseException):
    """Nothing is saved when this strikes."""


def cut_after(updates: int) -> Watcher:
    left = updates

    def count(note: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise PowerCut

    return Watcher(lambda record: None, count)


@pytest.mark.parametrize("architecture", sorted(MODELS))
def test_a_run_cut_at_any_update_ends_with_the_same_bytes(task: CopyTask, tmp_path: Path, architecture: str) -> None:
    whole = training_of(task, tmp_path / "whole", architecture)
    whole.run(SILENT)
    for update in (1, 7, 8, 9, 13, 16, 23, 24):
        work = tmp_path / str(update)
        with pytest.raises(PowerCut):
            training_of(task, work, architecture).run(cut_after(update))
        resumed = training_of(task, work, architecture)
        assert resumed.progress.update == 8 * ((update - 1) // 8)
        resumed.run(SILENT)
        for name in (
            "state",
            "best",
            "snapshots/000000",
            "snapshots/000005",
            "snapshots/000016",
            "recent/000016",
            "recent/000024",
        ):
            assert same(weights(tmp_path / "whole", name), weights(work, name)), (update, name)
        assert [record["update"] for record in resumed.history] == [record["update"] for record in whole.history]
        assert told(resumed.history) == told(whole.history)


def told(history: list[dict[str, Any]]) -> list[Any]:
    """What a history says, apart from the time it took."""
    untimed = [
        {**record["values"], "target_tokens_per_second": 0.0, "samples": record.get("samples")} for record in history
    ]
    return json.loads(json.dumps(untimed))


def test_stopping_limits_are_kept(task: CopyTask, tmp_path: Path) -> None:
    assert finished(task, tmp_path / "updates", max_updates=3).update == 3
    epochs = finished(task, tmp_path / "epochs", max_updates=None, max_epochs=2, validate_every=None, accumulation=1)
    assert epochs.position.epoch == 2
    assert epochs.position.batch == epochs.position.window == 0
    patience = finished(
        task, tmp_path / "patience", max_updates=400, patience=2, validate_every=2, learning_rate=1e-12, warmup_start=0
    )
    assert patience.without_gain == 2
    assert patience.update < 400


def test_the_dev_loss_decides_what_is_best_and_a_plateau_lowers_the_rate(task: CopyTask, tmp_path: Path) -> None:
    training = training_of(
        task, tmp_path, schedule="plateau", warmup=0, learning_rate=0.3, plateau_factor=0.1, max_updates=40
    )
    progress = training.run(SILENT)
    losses = {record["update"]: record["values"]["dev_loss"] for record in training.history if "samples" in record}
    assert progress.best is not None
    assert progress.best["update"] == min(losses, key=lambda update: losses[update])
    falls = sum(loss >= min(list(losses.values())[:place]) for place, loss in enumerate(losses.values()) if place)
    assert falls > 0
    assert progress.plateau_scale == pytest.approx(0.1**falls)


def test_accumulated_micro_batches_weigh_every_label_equally(task: CopyTask, tmp_path: Path) -> None:
    """The gradient of an update is that of the mean over all its labels, however they are cut into micro-batches."""
    training = training_of(task, tmp_path, accumulation=3, clip=0.0)
    training.model.eval()  # no dropout: the order of the generator's numbers is not what is tested
    stream = training.batches.at(training.progress.position)
    batches = [next(stream)[0] for _ in range(3)]
    labels = sum(batch.target_tokens for batch in batches)
    assert len({batch.target_tokens for batch in batches}) > 1
    moment = Moment(1, 1, 0)
    mean = sum(training.objective(training.model, batch, moment).losses["model"] for batch in batches) / labels
    mean.backward()
    expected = [parameter.grad.clone() for parameter in training.model.parameters()]
    training.optimizer.zero_grad()
    for batch in batches:
        training._backward(training.objective(training.model, batch, moment), labels)
    for parameter, gradient in zip(training.model.parameters(), expected, strict=True):
        assert torch.allclose(parameter.grad, gradient, atol=1e-6)


def test_the_model_folder_has_every_checkpoint_and_needs_nothing_else(task: CopyTask, tmp_path: Path) -> None:
    training = training_of(task, tmp_path / "work", keep="averaged")
    training.run(SILENT)
    spec = assemble(
        task.files, "transformer", {"embeddings": "shared_tied", **MODELS["transformer"]}, False,
        training.settings, 5, tmp_path / "work", ALONE,
    )[1]  # fmt: skip
    folder = tmp_path / "model"
    write_model(folder, training, spec, task.files)
    card = json.loads((folder / "model.json").read_text())
    assert (card["updates"], card["kept"], card["averaged"]) == (24, "averaged", [16, 24])
    for name in ("weights", "best", "last", "averaged", "snapshots/000000", "snapshots/000005", "snapshots/000016"):
        load_model(folder, name)
    mean = {
        name: (tensor.double() + weights(tmp_path / "work", "recent/000024")[name].double()) / 2
        for name, tensor in weights(tmp_path / "work", "recent/000016").items()
    }
    kept = load_tensors(folder / "weights.safetensors")[0]
    assert all(torch.equal(tensor, mean[name].float()) for name, tensor in kept.items())
    rows = list(csv.DictReader((folder / "curves.csv").open()))
    assert [row["update"] for row in rows if row["dev_loss"]] == ["8", "16", "24"]
    assert (folder / "samples.txt").read_text().count("reference") == 9


def test_a_stopped_training_of_other_settings_is_named(task: CopyTask, tmp_path: Path) -> None:
    with pytest.raises(PowerCut):
        training_of(task, tmp_path).run(cut_after(10))
    with pytest.raises(InputError, match=r"training\.label_smoothing = 0\.1, but now .* = 0\.2"):
        training_of(task, tmp_path, label_smoothing=0.2)
    training_of(task, tmp_path, max_updates=99, threads=2)  # says only where to stop and how fast


def test_a_damaged_state_is_one_line(task: CopyTask, tmp_path: Path) -> None:
    with pytest.raises(PowerCut):
        training_of(task, tmp_path).run(cut_after(10))
    state = tmp_path / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-3])
    with pytest.raises(InputError, match="damaged"):
        training_of(task, tmp_path)


def test_a_loss_that_is_no_number_stops_with_advice_and_keeps_what_was_saved(task: CopyTask, tmp_path: Path) -> None:
    training = training_of(task, tmp_path, learning_rate=1e30, warmup=12, warmup_start=1e-3, clip=0.0)
    with pytest.raises(TrainingError, match=r"update \d+: the (loss|gradient) is (nan|inf) at learning rate"):
        training.run(SILENT)
    # Norms keep a Transformer's numbers small at any rate that a command takes; nothing does in an FConv.
    done = task.train(tmp_path / "command", "fconv", learning_rate=1e3, warmup=1, clip=0.0)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("alignlens train: update ")


@pytest.mark.parametrize("precision", ["bfloat16"])
def test_mixed_precision_learns_too(task: CopyTask, tmp_path: Path, precision: str) -> None:
    training = training_of(task, tmp_path, precision=precision)
    training.run(SILENT)
    losses = [record["values"]["dev_loss"] for record in training.history if "samples" in record]
    assert losses[-1] < losses[0]
    assert {tensor.dtype for tensor in weights(tmp_path, "best").values()} == {torch.float32}


def started(task: CopyTask, place: Path, **changes: Any) -> subprocess.Popen[str]:
    """A training command in its second phase: something is saved, and more is to come."""
    command = [sys.executable, "-m", "alignlens", *task.arguments(place, **changes)]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=hear_interrupts
    )
    waiting_since = time.monotonic()
    while not (place / "work" / "state.safetensors").exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() - waiting_since < 120
        time.sleep(0.01)
    return process


def hear_interrupts() -> None:
    """A shell that runs the tests in the background makes its children deaf to Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


LONG = {"max_updates": 160, "validate_sentences": 0}


@pytest.fixture(scope="module")
def undisturbed(task: CopyTask, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The model folder of a run that nothing happened to."""
    place = tmp_path_factory.mktemp("undisturbed")
    done = task.train(place, **LONG)
    assert done.returncode == 0, done.stderr
    assert not (place / "work").exists()
    return contents(place / "model")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("number", "status", "code"),
    [(signal.SIGKILL, None, -9), (signal.SIGTERM, "KILLED", 143), (signal.SIGINT, "KILLED", 130)],
)
def test_a_signal_loses_nothing(
    task: CopyTask, tmp_path: Path, undisturbed: dict[str, bytes], number: int, status: str | None, code: int
) -> None:
    process = started(task, tmp_path, **LONG)
    os.kill(process.pid, number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == code, said
    assert not (tmp_path / "model").exists()
    if status is not None:
        assert "which is saved; the same command continues from there" in said
        assert "Traceback" not in said
        last = (tmp_path / "journal.jsonl").read_text().splitlines()[-1]
        assert json.loads(last)["status"] == status
    done = task.train(tmp_path, **LONG)
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "model") == undisturbed
    steps = curve(tmp_path / "journal.jsonl", "train_loss")
    assert steps == sorted(steps)
    assert set(range(8, 161, 8)) <= set(steps)


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupt() as interrupt:
            signal.raise_signal(signal.SIGINT)
            assert interrupt.asked is None
            signal.raise_signal(signal.SIGTERM)
            assert interrupt.asked == signal.SIGTERM
    finally:
        signal.signal(signal.SIGINT, before)


def curve(journal: Path, name: str) -> list[int]:
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    return [event["step"] for event in events if event["event"] == "metrics" and name in event["values"]]


def test_two_processes_compute_what_one_does(task: CopyTask, tmp_path: Path) -> None:
    changes = {"objective": {"name": "source_word_dropout", "share": 0.2}}  # cross entropy, and more that is random
    alone = task.train(tmp_path / "one", **changes)
    assert alone.returncode == 0, alone.stderr
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
    command += task.arguments(tmp_path / "two", **changes)
    both = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert both.returncode == 0, both.stderr
    one, two = (list(csv.DictReader((tmp_path / name / "model/curves.csv").open())) for name in ("one", "two"))
    assert len(one) == len(two) == 3
    for mine, other in zip(one, two, strict=True):
        assert float(mine["train_loss"]) == pytest.approx(float(other["train_loss"]), rel=1e-5)
        assert float(mine["dev_loss"]) == pytest.approx(float(other["dev_loss"]), rel=1e-5)
        assert float(mine["train_replaced"]) == float(other["train_replaced"]) > 0
    first, second = (load_tensors(tmp_path / name / "model/last.safetensors")[0] for name in ("one", "two"))
    assert all(torch.allclose(tensor, second[name], atol=1e-4) for name, tensor in first.items())


def test_processes_must_share_an_update_evenly(task: CopyTask, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="make it a multiple of 3"):
        Processes(0, 3, torch.device("cpu")).check_share(4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arguments: [*arguments, "--settings", "{"], "alignlens train: --settings: not JSON"),
        (lambda arguments: [*arguments, "--train-source", "nowhere"], "alignlens train: nowhere"),
        (lambda arguments: [*arguments, "--dev-text", os.devnull], "alignlens train: /dev/null"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    task: CopyTask, tmp_path: Path, change: Callable[[list[str]], list[str]], message: str
) -> None:
    command = [sys.executable, "-m", "alignlens", *change(task.arguments(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(message)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("killed", [False, True])
def test_a_second_training_in_the_same_place_waits_and_ends_with_the_same_bytes(
    task: CopyTask, tmp_path: Path, killed: bool
) -> None:
    changes = {"max_updates": 120, "validate_every": 40, "snapshots": []}
    assert task.train(tmp_path / "alone", **changes).returncode == 0
    place = tmp_path / "shared"
    command = [sys.executable, "-m", "alignlens", *task.arguments(place, **changes)]
    first = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    waited_for(lambda: (place / "work/state.safetensors").is_file(), first)
    first.send_signal(signal.SIGSTOP)  # so that it does not end before the other has begun
    second = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert second.stderr is not None
    told = next(line for line in second.stderr if "waiting" in line)
    assert f"process {first.pid} on " in told
    first.send_signal(signal.SIGKILL if killed else signal.SIGCONT)
    assert first.wait() == (-signal.SIGKILL if killed else 0)
    rest = second.stderr.read()
    assert second.wait() == 0, rest
    for path in (tmp_path / "alone/model").rglob("*.*"):
        assert path.read_bytes() == (place / "model" / path.relative_to(tmp_path / "alone/model")).read_bytes(), path
    assert sorted(path.name for path in place.iterdir()) == ["journal.jsonl", "model"]


def waited_for(condition: Callable[[], bool], process: subprocess.Popen[Any]) -> None:
    """Waits until something holds while a process runs."""
    while not condition():
        assert process.poll() is None
        time.sleep(0.02)


def test_a_damaged_history_is_not_gone_on_with(task: CopyTask, tmp_path: Path) -> None:
    training = training_of(task, tmp_path / "work")
    training.run(SILENT)
    path = tmp_path / "work/history.jsonl"
    path.write_text(path.read_text().replace('"update": 8', '"update": 7', 1))
    with pytest.raises(InputError, match=r"history\.jsonl: .*checksum"):
        training_of(task, tmp_path / "work")
