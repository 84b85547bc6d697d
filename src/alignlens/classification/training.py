"""Training a classifier, from the first update to the last; it can stop anywhere and continue with the same numbers.

An epoch is a shuffled order of all texts, cut into batches as it comes: texts of all lengths stand in one batch, and
none of their padding is computed (``recurrence``). There is no dropout: nothing random is left after the start.
"""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from alignlens.classification.examples import batches_of, in_order, shuffled
from alignlens.corpora.batches import Position
from alignlens.models.checkpoint import save_tensors, weights_of
from alignlens.training.interrupt import Interrupt
from alignlens.training.loop import TrainingError
from alignlens.training.state import Progress, Sums

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from alignlens.classification.examples import Batch, Examples
    from alignlens.classification.model import Classifier
    from alignlens.classification.settings import ClassifierTraining
    from alignlens.training.loop import Watcher
    from alignlens.training.state import WorkFolder

_log = logging.getLogger(__name__)

CURVES = ("learning_rate", "train_loss", "dev_loss", "dev_accuracy")
_SAVE_EVERY_SECONDS = 60.0
_TOKENS = 4096


class ClassifierLoop:
    """One classifier being trained; ``run`` goes from wherever the work folder is to the end."""

    def __init__(
        self,
        model: Classifier,
        settings: ClassifierTraining,
        splits: Mapping[str, Examples],
        work: WorkFolder,
        seed: int,
    ) -> None:
        self.model, self.settings, self.splits, self.work, self.seed = model, settings, splits, work, seed
        self.epoch_batches = batches_of(splits["train"], settings.batch)
        if settings.learning_rate is None or (settings.updates is None) == (settings.epochs is None):
            raise ValueError("a training whose rate or length was not settled; see ClassifierTraining.of_kind")
        self.updates = settings.updates or self.epoch_batches * (settings.epochs or 0)
        #: The updates whose weights are kept, as far as the training goes.
        self.snapshots = _snapshots(settings, self.updates)
        self.optimizer = torch.optim.Adam(model.learning(), lr=settings.learning_rate, fused=True)
        with torch.no_grad():
            self.progress: Progress = work.resume({"weights": model}, self.optimizer)
        self.history = work.history(self.progress.update)

    def run(self, watcher: Watcher) -> Progress:
        """Trains to the last update; a signal stops it after a saved one."""
        for record in self.history:
            watcher.record(record)
        progress, saved = self.progress, time.monotonic()
        if progress.update == 0 and not self.history:
            self._measure(watcher)  # the untrained model is update 0
        with Interrupt() as interrupt:
            for batch, position in self._batches(progress.position):
                if progress.update >= self.updates:
                    break
                loss = self._update(batch)
                progress.position = position
                watcher.advance(self._note(loss))
                if self._is_measured(position):
                    self._measure(watcher)
                ended = progress.update >= self.updates
                if interrupt.asked is not None or ended or time.monotonic() - saved > _SAVE_EVERY_SECONDS:
                    self.work.save({"weights": self.model}, self.optimizer, progress, self.history)
                    saved = time.monotonic()
                if interrupt.asked is not None:
                    _log.info(
                        "stopped after update %d, which is saved; the same command continues from there",
                        progress.update,
                    )
                    interrupt.obey()
        return progress

    def _batches(self, position: Position) -> Iterator[tuple[Batch, Position]]:
        """Yields batches without end, each with where the next one is."""
        train, size = self.splits["train"], self.settings.batch
        epoch, first = position.epoch, position.batch
        while True:
            for number, batch in enumerate(shuffled(train, size, self.seed, epoch, first), start=first + 1):
                ended = number == self.epoch_batches
                yield batch, Position(epoch + ended, 0, 0 if ended else number)
            epoch, first = epoch + 1, 0

    def _update(self, batch: Batch) -> float:
        """Makes one update; returns its loss."""
        started = time.monotonic()
        labels = torch.from_numpy(batch.labels).float()
        loss = functional.binary_cross_entropy_with_logits(self.model.of(batch).score, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        number = float(loss.detach())
        self.progress.update += 1
        if not math.isfinite(number):
            raise TrainingError(
                f"update {self.progress.update}: the loss is {number} at learning rate {self.settings.learning_rate}. "
                "Lower training.learning_rate; the last saved state is kept."
            )
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.progress.sums.add(number, {})
        self.progress.count += 1
        self.progress.seconds += time.monotonic() - started
        return number

    def _is_measured(self, position: Position) -> bool:
        """Returns whether dev is measured now: at snapshots, at the end, and after epochs if they are what counts."""
        update = self.progress.update
        in_epochs = self.settings.epochs is not None and position.batch == 0
        return update in self.snapshots or update == self.updates or in_epochs

    def _measure(self, watcher: Watcher) -> None:
        progress = self.progress
        measures = measured(self.model, self.splits["dev"])
        if progress.best is None or measures["accuracy"] > progress.best["dev_accuracy"]:
            progress.best = {
                "update": float(progress.update),
                **{f"dev_{name}": each for name, each in measures.items()},
            }
            self._keep("best")
        if progress.update in self.snapshots:
            self._keep(f"snapshots/{progress.update:06d}")
        values: dict[str, Any] = {"learning_rate": self.settings.learning_rate}
        if progress.count:
            values.update(progress.sums.means(progress.count))
        values.update({f"dev_{name}": each for name, each in measures.items()})
        record = {"update": progress.update, "epoch": progress.position.epoch, "values": values}
        speed = {"updates_per_second": progress.count / progress.seconds} if progress.seconds else {}
        progress.sums, progress.count, progress.seconds = Sums(), 0, 0.0
        self.history.append(record)
        # The speed is only shown; what is saved must not depend on the machine.
        watcher.record({**record, "values": {**values, **speed}})

    def _keep(self, name: str) -> None:
        save_tensors(self.work.checkpoint(name), weights_of(self.model), {"update": self.progress.update})

    def _note(self, loss: float) -> str:
        best = self.progress.best
        return f"loss {loss:.3f}" + (f", best dev accuracy {best['dev_accuracy']:.3f}" if best else "")


def _snapshots(settings: ClassifierTraining, updates: int) -> list[int]:
    every = settings.snapshot_every
    regular = range(every, updates + 1, every) if every else ()
    return sorted({*regular, *(update for update in settings.snapshots or () if update <= updates)})


class Tally:
    """Accuracy and loss, added up over batches."""

    def __init__(self) -> None:
        self._right, self._loss, self._texts = 0, 0.0, 0

    def add(self, score: torch.Tensor, batch: Batch) -> None:
        """Adds the scores of a batch."""
        labels = torch.from_numpy(batch.labels)
        self._right += int(((score > 0) == labels).sum())
        loss = functional.binary_cross_entropy_with_logits(score.double(), labels.double(), reduction="sum")
        self._loss += float(loss)
        self._texts += len(labels)

    def performance(self) -> dict[str, float]:
        """Returns accuracy (a share) and mean loss (nats)."""
        return {"accuracy": self._right / self._texts, "loss": self._loss / self._texts}


def measured(model: Classifier, examples: Examples) -> dict[str, float]:
    """Returns accuracy and loss on all texts."""
    tally = Tally()
    with torch.inference_mode():
        for batch in in_order(examples, _TOKENS):
            tally.add(model.of(batch).score, batch)
    return tally.performance()
