"""Masks and attention read as alignments: error rates by layer where there are gold links, and one sentence to draw."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from alignlens.display.sentences import Side
from alignlens.io.matrices import Matrices
from alignlens.io.text import read_lines, words
from alignlens.results.paths import ATTRIBUTED, FINAL, FORCED, PIECES, TEST
from alignlens.studies.lu2021.runs import BASELINE, GATE, LAST, calibrated, layer_method
from alignlens.studies.tables import estimate_of, rounded
from alignlens.subwords.spans import word_of_piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from alignlens.results.manifest import Manifest
    from alignlens.results.scores import AttributedModel, Results
    from alignlens.studies.lu2021.readings import Bitext, Text
    from alignlens.studies.tables import Estimate

COLUMNS = (
    "dataset", "direction", "model", "layer", "attention", "attention_low", "attention_high", "mask", "mask_low",
    "mask_high", "seeds",
)  # fmt: skip
_PIECES = range(6, 13)
_USUAL = 9


@dataclass(frozen=True)
class LayerLine:
    """Error rates of attention and of 1 - mask in one layer; ``last`` of the models that were asked about no other."""

    dataset: str
    direction: str
    model: str
    layer: str
    attention: Estimate
    mask: Estimate

    def record(self) -> dict[str, Any]:
        """Returns the line as a row of masks.csv."""
        record: dict[str, Any] = {name: getattr(self, name) for name in COLUMNS[:4]}
        for name in ("attention", "mask"):
            estimate = getattr(self, name)
            record |= {
                name: rounded(estimate.mean),
                f"{name}_low": rounded(estimate.low),
                f"{name}_high": rounded(estimate.high),
            }
        return {**record, "seeds": max(self.attention.seeds, self.mask.seeds)}


def layer_lines(results: Results) -> list[LayerLine]:
    """Returns the error rates of all Transformers that were asked for masks, and of the study's baseline."""
    lines = []
    for dataset in results.datasets:
        runs = results.runs(dataset.name, decoding=FORCED)
        for model in dict.fromkeys(run.model for run in runs):
            of_model = [run for run in runs if run.model == model]
            for direction in dataset.directions:
                for layer, attention, mask in _asked(of_model):
                    one, other = (_rate(of_model, method, direction) for method in (attention, mask))
                    if other.known or (one.known and model == BASELINE):
                        lines.append(LayerLine(dataset.name, direction, model, layer, one, other))
    return lines


def _asked(runs: Sequence[AttributedModel]) -> Iterator[tuple[str, str, str]]:
    """Yields layers, counted from 1, and the methods that were asked about them."""
    known = {method for run in runs for method in run.methods()}
    for layer in count():
        attention, mask = (layer_method(name, layer) for name in ("attention", "mask"))
        if mask not in known:
            break
        yield str(layer + 1), attention, mask
    yield "last", "attention", layer_method("mask", LAST)


def _rate(runs: Sequence[AttributedModel], method: str, direction: str) -> Estimate:
    scores = [score for run in runs for score in run.find(method, direction)]
    bounds = [score.low for score in scores], [score.high for score in scores]
    return estimate_of([score.aer for score in scores], *bounds, "not run")


@dataclass(frozen=True)
class Sentence:
    """A test sentence in pieces, with what three panels show of it."""

    test_set: Bitext
    number: int
    source: Side
    target: Side
    matrices: dict[str, NDArray[np.floating[Any]]]


def read_sentence(manifest: Manifest, test_set: Bitext, text: Text | None) -> Sentence | None:
    """Returns a sentence of usual length, the same one every time; None where text or matrices are missing."""
    folders = [_matrices(manifest, test_set, model) for model in (BASELINE, calibrated(GATE))]
    sides = _sides(manifest, test_set, text)
    if folders[0] is None or folders[1] is None or not sides:
        return None
    plain, gate = folders[0], folders[1]
    mask = layer_method("mask", LAST)
    if "attention" not in plain.names or not {"attention", mask} <= set(gate.names):
        return None
    number = min(range(len(sides)), key=lambda each: _badness(*sides[each], each))
    matrices = {
        "baseline: attention": plain.matrix("attention", number),
        "gate: 1 − mask": gate.matrix(mask, number),
        "gate: calibrated attention": gate.matrix("attention", number),
    }
    return Sentence(test_set, number, *sides[number], matrices)


def _badness(source: Side, target: Side, number: int) -> tuple[bool, int, int]:
    lengths = len(source.pieces), len(target.pieces)
    return not all(length in _PIECES for length in lengths), sum(abs(each - _USUAL) for each in lengths), number


def _sides(manifest: Manifest, test_set: Bitext, text: Text | None) -> list[tuple[Side, Side]]:
    """Returns the pieces of all sentences as the direction reads them."""
    if text is None:
        return []
    order = ("source", "target") if test_set.direction == "-".join(text.pair) else ("target", "source")
    paths = [manifest.path(PIECES, dataset=test_set.dataset, split=TEST, side=side) for side in order]
    lines = [[words(line) for line in read_lines(path)] for path in paths if path is not None]
    if len(lines) < len(order):
        return []
    return [
        (Side(one, word_of_piece(one)), Side(other, word_of_piece(other))) for one, other in zip(*lines, strict=True)
    ]


def _matrices(manifest: Manifest, test_set: Bitext, model: str) -> Matrices | None:
    """Returns what the first seed of a model was asked."""
    wanted: Mapping[str, str] = {
        "dataset": test_set.dataset,
        "direction": test_set.direction,
        "model": model,
        "weights": FINAL,
        "split": TEST,
        "decoding": FORCED,
    }
    paths = [path for path, names in manifest.find(ATTRIBUTED) if wanted.items() <= names.items()]
    return Matrices.open(paths[0]) if paths else None
