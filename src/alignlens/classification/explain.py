"""What a classifier looks at, at every checkpoint of its training: attention, probe and saliency of every position.

attention    how much of the score comes from there
probe        what the model would say if all attention sat there: log-odds, turned so that more speaks for the label.
             Only their order is looked at, and it is that of the probabilities.
grad_input   the gradient of the log-probability of the label, times the word vector; more speaks for the label
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional

from alignlens.classification.examples import in_order
from alignlens.classification.model import padded
from alignlens.classification.training import Tally
from alignlens.io.trajectories import write_trajectory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import numpy.typing as npt

    from alignlens.classification.examples import Batch, Examples, Integers
    from alignlens.classification.folder import TrainedClassifier
    from alignlens.classification.model import Classifier
    from alignlens.io.matrices import Matrix

PROBE = "probe"
_TOKENS = 4096


def explained(
    model: Classifier, batch: Batch, quantities: Sequence[str]
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Returns (text, position) by quantity, zero at padding, and the score of every text."""
    sign = torch.from_numpy(batch.labels).float() * 2 - 1
    if "grad_input" not in quantities:
        with torch.inference_mode():
            scores = model.of(batch)
        rows = {}
    else:
        lengths = torch.from_numpy(batch.lengths)
        vectors = model.table.weight.detach()[torch.from_numpy(batch.ids)].requires_grad_()
        scores = model(vectors, torch.arange(len(vectors)), lengths)
        (slope,) = torch.autograd.grad(functional.logsigmoid(sign * scores.score).sum(), vectors)
        rows = {"grad_input": padded((slope * vectors.detach()).sum(1), lengths, 0.0)}
    rows["attention"], rows[PROBE] = scores.attention.detach(), sign[:, None] * scores.probe.detach()
    return {name: rows[name] for name in quantities}, scores.score.detach()


class _Scores:
    """A number for every token, checkpoint and quantity, in a temporary file, so that memory does not grow."""

    def __init__(self, file: IO[bytes], examples: Examples, names: Sequence[str]) -> None:
        self._starts = examples.starts
        shape = (len(names), int(examples.starts[-1]))
        self._content: npt.NDArray[np.float32] = np.asarray(np.memmap(file, np.float32, "w+", shape=shape))
        self._places = {name: place for place, name in enumerate(names)}

    def put(self, name: str, batch: Batch, values: torch.Tensor) -> None:
        """Stores the quantities of a batch."""
        content, line = values.numpy(), self._content[self._places[name]]
        for row, (number, length) in enumerate(zip(batch.numbers.tolist(), batch.lengths.tolist(), strict=True)):
            start = self._starts[number]
            line[start : start + length] = content[row, :length]

    def matrices(self, name: str) -> Sequence[Matrix]:
        """Returns the row of every text, which is made when it is asked for."""
        return _Rows(self._content[self._places[name]], self._starts)


class _Rows(Sequence[Any]):
    """A matrix of one row for every text."""

    def __init__(self, line: npt.NDArray[np.float32], starts: Integers) -> None:
        self._line, self._starts = line, starts

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, number: Any) -> Any:
        return self._line[None, self._starts[number] : self._starts[number + 1]]


def explain(
    trained: TrainedClassifier,
    examples: Examples,
    quantities: Sequence[str],
    out: Path,
    facts: Mapping[str, Any],
    advance: Callable[[int], None] = lambda texts: None,
) -> dict[str, dict[str, float]]:
    """Writes the trajectory of texts; returns accuracy and loss on them at every checkpoint."""
    out.parent.mkdir(parents=True, exist_ok=True)
    names = [f"{checkpoint}/{each}" for checkpoint in trained.checkpoints for each in quantities]
    performance = {}
    trained.model.requires_grad_(requires_grad=False)
    with tempfile.TemporaryFile(dir=out.parent) as file:
        kept = _Scores(file, examples, names)
        for checkpoint in trained.checkpoints:
            model, tally = trained.at(checkpoint), Tally()
            for batch in in_order(examples, _TOKENS):
                by_name, score = explained(model, batch, quantities)
                for name, content in by_name.items():
                    kept.put(f"{checkpoint}/{name}", batch, content)
                tally.add(score, batch)
                advance(len(batch.numbers))
            performance[checkpoint] = tally.performance()
        rows = {
            checkpoint: {each: kept.matrices(f"{checkpoint}/{each}") for each in quantities}
            for checkpoint in trained.checkpoints
        }
        write_trajectory(out, rows, performance, facts)
    return performance
