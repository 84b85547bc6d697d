"""Training, from the first update to the last, in one sitting.

An update is ``accumulation`` micro-batches of an endless deterministic stream; each seeds its own generator from
(seed, update, place). So neither stopping nor the number of processes changes what is computed.
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
from alignlens.training.objective import smoothed_cross_entropy
from alignlens.training.schedule import learning_rate
from alignlens.training.validation import Validation, validate

if TYPE_CHECKING:
    from collections.abc import Callable

    from alignlens.corpora.batches import Batch, TrainingBatches
    from alignlens.models.contract import Seq2Seq
    from alignlens.training.processes import Processes
    from alignlens.training.settings import TrainingSettings
    from alignlens.training.state import Progress, WorkFolder
    from alignlens.training.validation import DevText

_log = logging.getLogger(__name__)

_RECORD_EVERY_UPDATES = 50
_SAVE_EVERY_SECONDS = 60.0


class TrainingError(AlignlensError):
    """The training cannot go on: its numbers are no numbers any more."""


@dataclass(frozen=True)
class Watcher:
    """Who is told about the training: ``record`` for each history record, ``advance`` after each update."""

    record: Callable[[dict[str, Any]], None]
    advance: Callable[[str], None]


class Training:
    """One model being trained; ``run`` goes from wherever the work folder is to the end."""

    def __init__(
        self,
        model: Seq2Seq,
        settings: TrainingSettings,
        batches: TrainingBatches,
        dev: DevText,
        work: WorkFolder,
        processes: Processes,
        seed: int,
    ) -> None:
        self.model = model.to(processes.device)
        self.settings, self.batches, self.dev, self.work = settings, batches, dev, work
        self.processes, self.seed = processes, seed
        processes.check_share(settings.accumulation)
        if settings.precision == "float16" and processes.device.type == "cpu":
            raise ConfigError("training.precision: float16 needs a GPU; use float32 or bfloat16 on a CPU.")
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=settings.learning_rate,
            betas=settings.betas,
            eps=settings.epsilon,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.scaler = torch.amp.GradScaler(processes.device.type, enabled=settings.precision == "float16")
        self.progress: Progress = work.resume(self.model, self.optimizer)
        if self.progress.scaler:
            self.scaler.load_state_dict(self.progress.scaler)
        self.history = work.history(self.progress.update)

    def run(self, watcher: Watcher) -> Progress:
        """Trains until a limit is reached; returns the final progress. A signal stops it after a saved update."""
        for record in self.history:
            watcher.record(record)
        wrapped = self.processes.wrap(self.model)
        self.model.train()
        stream = self.batches.at(self.progress.position)
        saved = time.monotonic()
        self._snapshot()  # the untrained model is update 0
        with Interrupt() as interrupt:
            while not self._finished():
                epoch_before = self.progress.position.epoch
                started = time.monotonic()
                micro_batches = list(islice(stream, self.settings.accumulation))
                loss, labels, asked = self._update(wrapped, [batch for batch, _ in micro_batches], interrupt)
                self.progress.position = micro_batches[-1][1]
                self.progress.loss_sum += loss
                self.progress.labels += labels
                self.progress.seconds += time.monotonic() - started
                watcher.advance(self._note(loss / labels))
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
                    _log.info("stopped after update %d, which is saved; the same command goes on", self.progress.update)
                    interrupt.obey()
        return self.progress

    def _update(self, wrapped: torch.nn.Module, batches: list[Batch], interrupt: Interrupt) -> tuple[float, int, bool]:
        """Makes one update; returns its summed loss, its labels, and whether any process was asked to stop."""
        settings, progress = self.settings, self.progress
        progress.update += 1
        rate = learning_rate(settings, progress.update, progress.plateau_scale)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        labels = sum(batch.target_tokens for batch in batches)
        own = range(self.processes.rank, len(batches), self.processes.count)
        own_loss = 0.0
        for place in own:
            torch.manual_seed(_seed_of(self.seed, progress.update, place))
            with self.processes.exchange(wrapped, now=place == own[-1]):
                loss = self._loss(wrapped, batches[place])
                self._backward(loss, labels)
            own_loss += float(loss.detach())
        loss_sum, asked = self.processes.total(own_loss, float(interrupt.asked is not None))
        self.scaler.unscale_(self.optimizer)
        norm = self._clip()
        if not math.isfinite(loss_sum) or not (self.scaler.is_enabled() or math.isfinite(norm)):
            what = f"loss is {loss_sum / labels}" if not math.isfinite(loss_sum) else f"gradient is {norm}"
            raise TrainingError(
                f"update {progress.update}: the {what} at learning rate {rate:.2g}. Lower training.learning_rate, "
                "lengthen training.warmup or set training.clip; what was saved before is kept."
            )
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return loss_sum, labels, asked > 0

    def _loss(self, wrapped: torch.nn.Module, batch: Batch) -> torch.Tensor:
        device = self.processes.device
        keep = torch.from_numpy(batch.labels_mask).to(device)
        labels = torch.from_numpy(batch.labels).to(device)[keep]
        precision = getattr(torch, self.settings.precision)
        with torch.autocast(device.type, precision, enabled=self.settings.precision != "float32"):
            logits = wrapped(
                torch.from_numpy(batch.source).to(device),
                torch.from_numpy(batch.source_mask).to(device),
                torch.from_numpy(batch.prefix).to(device),
                keep,
            )
        return smoothed_cross_entropy(logits, labels, self.settings.label_smoothing)

    def _clip(self) -> float:
        """Returns the norm of the gradient, which is shortened to ``clip`` if that is set."""
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if self.settings.clip:
            torch.nn.utils.clip_grads_with_norm_(self.model.parameters(), self.settings.clip, norm)
        return float(norm)

    def _backward(self, loss: torch.Tensor, labels: int) -> None:
        # Mean over the labels of the whole update; DistributedDataParallel divides by the processes once more.
        scaled: torch.Tensor = self.scaler.scale(loss * (self.processes.count / labels))
        torch.autograd.backward(scaled)

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
        found: Validation = self.processes.from_leader(validate(self.model, self.dev) if self.processes.leads else None)
        progress = self.progress
        measures = {"update": float(progress.update), **found.measures()}
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
        self._record(watcher, found.measures(), [list(pair) for pair in found.samples])

    def _record(self, watcher: Watcher, values: dict[str, float], samples: list[list[str]] | None = None) -> None:
        """Tells the training loss since the last record, the rate, and what else was measured."""
        progress = self.progress
        told = {
            "learning_rate": learning_rate(self.settings, progress.update, progress.plateau_scale),
            "train_loss": progress.loss_sum / progress.labels,
            "target_tokens_per_second": progress.labels / max(progress.seconds, 1e-9),
            **values,
        }
        progress.loss_sum, progress.labels, progress.seconds = 0.0, 0, 0.0
        record: dict[str, Any] = {"update": progress.update, "epoch": progress.position.epoch, "values": told}
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
            self.work.save(self.model, self.optimizer, self.progress, self.history)

    def _note(self, loss: float) -> str:
        best = self.progress.best
        return f"loss {loss:.3f}" + (f", best dev loss {best['dev_loss']:.3f}" if best else "")


def _is_better(measures: dict[str, float], best: dict[str, float], by: str) -> bool:
    key = f"dev_{by}"
    return measures[key] < best[key] if by == "loss" else measures[key] > best[key]


def _seed_of(seed: int, update: int, place: int) -> int:
    """Returns the seed of one micro-batch's dropout: distinct for distinct arguments of any practical size."""
    # torch takes 64 bits; only seeds of ten digits have more.
    return ((seed * 1_000_003 + update) * 10_007 + place) % 2**64
