"""Training, from the first update to the last, in one sitting.

An update is ``accumulation`` micro-batches of an endless deterministic stream; each seeds its own generator from
(seed, update, place). So neither stopping nor the number of processes changes what is computed. The objective decides
what is computed of a micro-batch (``objectives.contract``).
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

from alignlens.errors import AlignlensError, ConfigError
from alignlens.models.checkpoint import save_tensors, weights_of
from alignlens.training.interrupt import Interrupt
from alignlens.training.objectives.contract import Moment
from alignlens.training.schedule import learning_rate
from alignlens.training.state import Progress, Sums
from alignlens.training.validation import Validation, validate

if TYPE_CHECKING:
    from collections.abc import Callable

    from alignlens.corpora.batches import Batch, TrainingBatches
    from alignlens.models.contract import Seq2Seq
    from alignlens.training.objectives.contract import Objective, Outcome, Player
    from alignlens.training.processes import Processes
    from alignlens.training.settings import TrainingSettings
    from alignlens.training.state import WorkFolder
    from alignlens.training.validation import DevText

_log = logging.getLogger(__name__)

_RECORD_EVERY_UPDATES = 50
_SAVE_EVERY_SECONDS = 60.0


class TrainingError(AlignlensError):
    """The training has diverged: a loss or gradient is NaN or infinite."""


@dataclass(frozen=True)
class Watcher:
    """Callbacks of a training: ``record`` for each history record, ``advance`` after each update."""

    record: Callable[[dict[str, Any]], None]
    advance: Callable[[str], None]


class Training:
    """One model being trained; ``run`` goes from wherever the work folder is to the end."""

    def __init__(
        self,
        model: Seq2Seq,
        objective: Objective,
        settings: TrainingSettings,
        batches: TrainingBatches,
        dev: DevText,
        work: WorkFolder,
        processes: Processes,
        seed: int,
    ) -> None:
        self.model, self.objective = model.to(processes.device), objective.to(processes.device)
        self.settings, self.batches, self.dev, self.work = settings, batches, dev, work
        self.processes, self.seed = processes, seed
        processes.check_share(settings.accumulation)
        if settings.precision == "float16" and processes.device.type == "cpu":
            raise ConfigError("training.precision: float16 needs a GPU; use float32 or bfloat16 on a CPU.")
        self.players = self.objective.players(self.model)
        self.optimizer = torch.optim.AdamW(
            [{"params": player.parameters, "rate": player.rate} for player in self.players.values()],
            lr=settings.learning_rate,
            betas=settings.betas,
            eps=settings.epsilon,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.scaler = torch.amp.GradScaler(processes.device.type, enabled=settings.precision == "float16")
        self.progress: Progress = work.resume(self._trained(), self.optimizer)
        if self.progress.scaler:
            self.scaler.load_state_dict(self.progress.scaler)
        self.history = work.history(self.progress.update)

    def run(self, watcher: Watcher) -> Progress:
        """Trains until a limit is reached; returns the final progress. A signal stops it after a saved update."""
        for record in self.history:
            watcher.record(record)
        self.model.train()
        stream = self.batches.at(self.progress.position)
        saved = time.monotonic()
        self._snapshot()  # the untrained model is update 0
        with Interrupt() as interrupt:
            while not self._finished():
                epoch_before = self.progress.position.epoch
                started = time.monotonic()
                micro_batches = list(islice(stream, self.settings.accumulation))
                loss, asked = self._update([batch.framed(self.model.frame) for batch, _ in micro_batches], interrupt)
                self.progress.position = micro_batches[-1][1]
                self.progress.seconds += time.monotonic() - started
                watcher.advance(self._note(loss))
                self._snapshot()
                due = self._validation_due(epoch_before)
                if due:
                    self._validate(watcher)
                elif self.progress.update % _RECORD_EVERY_UPDATES == 0:
                    self._record(watcher, {})
                if asked or due or time.monotonic() - saved > _SAVE_EVERY_SECONDS:
                    self._save()
                    saved = time.monotonic()
                if asked:
                    _log.info(
                        "stopped after update %d, which is saved; the same command continues from there",
                        self.progress.update,
                    )
                    interrupt.obey()
        return self.progress

    def _update(self, batches: list[Batch], interrupt: Interrupt) -> tuple[float, bool]:
        """Makes one update; returns its mean loss, and whether any process was asked to stop."""
        progress = self.progress
        progress.update += 1
        rate = learning_rate(self.settings, progress.update, progress.plateau_scale)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["rate"]
        self.model.at_update(progress.update)
        count = sum(map(self.objective.count, batches))
        own = Sums()
        for place in range(self.processes.rank, len(batches), self.processes.count):
            moment = Moment(self.seed, progress.update, place)
            torch.manual_seed(moment.torch_seed)
            outcome = self.objective(self.model, batches[place], moment)
            self._backward(outcome, count)
            own.add(float(outcome.losses[next(iter(self.players))].detach()), outcome.measured)
        numbers = [number for name in self.objective.metrics for number in own.measured[name]]
        loss, asked, *numbers = self.processes.total(own.loss, float(interrupt.asked is not None), *numbers)
        for player in self.players.values():
            self.processes.add_gradients(player.parameters)
        self.scaler.unscale_(self.optimizer)
        self._check(loss / count, [self._clip(player) for player in self.players.values()], rate)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        measured = zip(numbers[::2], numbers[1::2], strict=True)
        progress.sums.add(loss, dict(zip(self.objective.metrics, measured, strict=True)))
        progress.count += count
        progress.labels += sum(batch.target_tokens for batch in batches)
        return loss / count, asked > 0

    def _backward(self, outcome: Outcome, count: int) -> None:
        """Adds to the gradient of every player that of its own loss, a mean over the whole update."""
        for left, (name, player) in zip(reversed(range(len(self.players))), self.players.items(), strict=True):
            scaled: torch.Tensor = self.scaler.scale(outcome.losses[name] * (1 / count))
            torch.autograd.backward(scaled, inputs=player.parameters, retain_graph=left > 0)

    def _clip(self, player: Player) -> float:
        """Returns the norm of a player's gradient, which is shortened to ``clip`` if that is set."""
        gradients = [parameter.grad for parameter in player.parameters if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if self.settings.clip:
            torch.nn.utils.clip_grads_with_norm_(player.parameters, self.settings.clip, norm)
        return float(norm)

    def _check(self, loss: float, norms: list[float], rate: float) -> None:
        """Raises if the training has diverged; with half precision the scaler skips updates of infinite gradients."""
        if not math.isfinite(loss):
            what = f"loss is {loss}"
        elif not self.scaler.is_enabled() and not all(map(math.isfinite, norms)):
            what = f"gradient is {next(norm for norm in norms if not math.isfinite(norm))}"
        else:
            return
        raise TrainingError(
            f"update {self.progress.update}: the {what} at learning rate {rate:.2g}. Lower training.learning_rate, "
            "lengthen training.warmup or set training.clip; the last saved state is kept."
        )

    def _finished(self) -> bool:
        settings, progress = self.settings, self.progress
        return (
            (settings.max_updates is not None and progress.update >= settings.max_updates)
            or (settings.max_epochs is not None and progress.position.epoch >= settings.max_epochs)
            or (settings.patience is not None and progress.without_gain >= settings.patience)
        )

    def _validation_due(self, epoch_before: int) -> bool:
        if self._finished():
            return True
        if self.settings.validate_every is not None:
            return self.progress.update % self.settings.validate_every == 0
        return self.progress.position.epoch > epoch_before

    def _validate(self, watcher: Watcher) -> None:
        own = validate(self.model, self.dev, self.objective) if self.processes.leads else None
        validation: Validation = self.processes.from_leader(own)
        progress = self.progress
        measures = {"update": float(progress.update), **validation.measures()}
        if progress.best is None or _is_better(measures, progress.best, self.settings.best_by):
            progress.best, progress.without_gain = measures, 0
            self._keep("best")
        else:
            progress.without_gain += 1
            if self.settings.schedule == "plateau":
                progress.plateau_scale *= self.settings.plateau_factor
        self._keep(f"recent/{progress.update:06d}")
        progress.recent.append(progress.update)
        while len(progress.recent) > max(self.settings.average, 1):
            self.work.checkpoint(f"recent/{progress.recent.pop(0):06d}").unlink(missing_ok=True)
        self._record(watcher, validation.measures(), [list(pair) for pair in validation.samples])

    def _record(self, watcher: Watcher, values: dict[str, float], samples: list[list[str]] | None = None) -> None:
        """Records the training loss since the last record, the rate, and the other measures."""
        progress = self.progress
        measures = {
            "learning_rate": learning_rate(self.settings, progress.update, progress.plateau_scale),
            **progress.sums.means(progress.count),
            "target_tokens_per_second": progress.labels / max(progress.seconds, 1e-9),
            **values,
        }
        progress.sums, progress.count, progress.labels, progress.seconds = Sums(), 0, 0, 0.0
        record: dict[str, Any] = {"update": progress.update, "epoch": progress.position.epoch, "values": measures}
        if samples is not None:
            record["samples"] = samples
        self.history.append(record)
        watcher.record(record)

    def _snapshot(self) -> None:
        if self.progress.update in self.settings.snapshots:
            self._keep(f"snapshots/{self.progress.update:06d}")

    def _keep(self, name: str) -> None:
        if self.processes.leads:
            save_tensors(self.work.checkpoint(name), weights_of(self.model), {"update": self.progress.update})

    def _save(self) -> None:
        self.progress.scaler = self.scaler.state_dict()
        if self.processes.leads:
            self.work.save(self._trained(), self.optimizer, self.progress, self.history)

    def _trained(self) -> dict[str, torch.nn.Module]:
        """Returns the modules and the optimiser to save, by their names in the saved state."""
        return {"weights": self.model, "objective": self.objective}

    def _note(self, loss: float) -> str:
        best = self.progress.best
        return f"loss {loss:.3f}" + (f", best dev loss {best['dev_loss']:.3f}" if best else "")


def _is_better(measures: dict[str, float], best: dict[str, float], by: str) -> bool:
    key = f"dev_{by}"
    return measures[key] < best[key] if by == "loss" else measures[key] > best[key]
