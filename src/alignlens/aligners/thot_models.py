"""The aligners of the SIL Thot library (``sil-thot``): training, storing, loading, aligning.

Everything runs on one thread. With several, Thot adds up expected counts in an order that changes from run to
run, and fast_align and IBM4 give different links each time; both directions and several aligners still fill a
machine as separate jobs.

A model that starts from another one (HMM from IBM1, IBM4 from HMM) always starts from its *stored* form, so that
a chain trained in one process and one trained job by job end with the same model.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.aligners.registry import LIBRARY, spec_of
from alignlens.alignment.links import Alignment
from alignlens.errors import InputError, ToolError
from alignlens.io.atomic import atomic_directory, check_replaceable, write_json
from alignlens.io.children import in_child
from alignlens.io.documents import read_json, taking
from alignlens.io.progress import Progress
from alignlens.io.seals import Seal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Sentences = Sequence[Sequence[str]]
    Watch = Callable[[str, int, float], None]

log = logging.getLogger(__name__)

KIND = "stored aligner"
_AGAIN = "Delete it and recreate it with: alignlens aligner --model, or run the pipeline again."
_EM_ITERATIONS = 5
_PAIRS_AT_ONCE = 500
_PREFIX = "model"
_CLASSES = {
    "fast_align": "FastAlignModel",
    "ibm1": "Ibm1AlignmentModel",
    "hmm": "HmmAlignmentModel",
    "ibm4": "Ibm4AlignmentModel",
    "eflomal": "EflomalAlignmentModel",
}


@dataclass(frozen=True)
class Training:
    """What a stored model was trained on; saved beside it as ``training.json``."""

    aligner: str
    library: str
    pairs: int
    skipped_empty: int
    skipped_too_long: int
    seed: int


def train(
    name: str,
    source: Sentences,
    target: Sentences,
    directory: Path,
    parent: Path | None = None,
    seed: int = 1,
    watch: Watch | None = None,
) -> Training:
    """Trains an aligner that explains each target word by one source word, and stores it in ``directory``.

    ``parent`` is the stored model to start from (see the registry) trained on the same text; without one it is
    trained first. ``seed`` only affects the sampler of eflomal. ``watch`` is called with the model, the number and the
    seconds of every iteration. Pairs with an empty side, or longer than the
    library takes, are left out and counted.
    """
    spec = spec_of(name)
    check_replaceable(directory, KIND)
    alignment = _library()
    skipped_empty = skipped_too_long = 0
    if spec.parent is None:
        model = getattr(alignment, _CLASSES[name])()
        if name == "fast_align":
            model.variational_bayes = True
        if name == "eflomal":
            model.seed, model.deterministic = seed, True
        for source_words, target_words in zip(source, target, strict=True):
            if not source_words or not target_words:
                skipped_empty += 1
            elif max(len(source_words), len(target_words)) > model.max_sentence_length:
                skipped_too_long += 1
            else:
                model.add_sentence_pair(list(source_words), list(target_words))
    elif parent is None:
        with tempfile.TemporaryDirectory(prefix="alignlens-") as scratch:
            parent = Path(scratch) / spec.parent
            train(spec.parent, source, target, parent, seed=seed, watch=watch)
            return train(name, source, target, directory, parent, seed, watch)
    else:
        started = StoredAligner.load(parent, wanted=spec.parent)
        skipped_empty, skipped_too_long = started.training.skipped_empty, started.training.skipped_too_long
        model = started.model
        if name == "ibm4":
            model = _fit(alignment.Ibm3AlignmentModel(model), "ibm3", watch)
        model = getattr(alignment, _CLASSES[name])(model)
    _fit(model, name, watch)
    training = Training(
        name, f"{LIBRARY} {version(LIBRARY)}", int(model.num_sentence_pairs), skipped_empty, skipped_too_long, seed
    )
    with atomic_directory(directory, KIND) as temporary:
        if not model.print(str(temporary / _PREFIX)):
            raise ToolError(f"{LIBRARY} could not store the {name} model in {directory}. Check the free disk space.")
        write_json(temporary / "training.json", asdict(training))
    return training


@dataclass(frozen=True)
class StoredAligner:
    """A trained aligner, ready to align any text; the same text gives the same links every time."""

    training: Training
    model: Any

    @classmethod
    def load(cls, directory: Path, wanted: str | None = None) -> StoredAligner:
        """Returns the aligner stored in ``directory`` by ``train``."""
        training = read_training(directory)
        if wanted is not None and training.aligner != wanted:
            raise InputError(f"holds {training.aligner}, not {wanted}.", directory, advice=f"Give a model of {wanted}.")
        # Before the library reads anything: it does not check, and damage makes it crash or give wrong links.
        Seal.of(directory, KIND, _AGAIN).check_all()
        model = getattr(_library(), _CLASSES[spec_of(training.aligner).name])()
        if not model.load(str(directory / _PREFIX)):
            raise InputError(f"{LIBRARY} cannot load this model.", directory, advice="Train it again.")
        return cls(training, model)

    def align(self, source: Sentences, target: Sentences, name: Path | str = "input") -> Alignment:
        """Returns one link at most per target word; a pair with an empty side has none.

        ``name`` is the file to name when a sentence is longer than the library takes.
        """
        limit = int(self.model.max_sentence_length)
        pairs = list(zip(source, target, strict=True))
        for number, pair in enumerate(pairs, start=1):
            longest = max(map(len, pair))
            if longest > limit:
                raise InputError(
                    f"{longest} words, but {self.training.aligner} takes at most {limit}.", name, number, "Split it."
                )
        filled = [k for k, (left, right) in enumerate(pairs) if left and right]
        links = []
        with Progress(f"align with {self.training.aligner}", len(filled)) as progress:
            for start in range(0, len(filled), _PAIRS_AT_ONCE):
                chosen = filled[start : start + _PAIRS_AT_ONCE]
                matrices = self.model.get_best_alignments(
                    [list(pairs[k][0]) for k in chosen], [list(pairs[k][1]) for k in chosen]
                )
                if len(matrices) != len(chosen):
                    raise ToolError(f"{LIBRARY} aligned {len(matrices)} of {len(chosen)} sentence pairs of {name}.")
                for k, (_, matrix) in zip(chosen, matrices, strict=True):
                    cells = np.argwhere(matrix.to_numpy()).astype(np.int64)
                    links.append(np.column_stack((np.full(len(cells), k, dtype=np.int64), cells)))
                progress.advance(len(chosen))
        table = np.concatenate(links) if links else np.empty((0, 3), dtype=np.int64)
        return Alignment.from_arrays(table[:, 0], table[:, 1], table[:, 2], len(pairs))


def read_training(directory: Path) -> Training:
    """Returns what the aligner stored in ``directory`` was trained on."""
    Seal.of(directory, KIND, "Give a folder made by alignlens aligner.")
    path = directory / "training.json"
    content = read_json(path, _AGAIN)
    with taking(path, _AGAIN):
        return Training(**content)


def train_apart(name: str, *arguments: Any, **options: Any) -> Training:
    """Does what ``train`` does, in a child process: the library is native code, and may crash."""
    advice = "Check the text for oddities, or try another aligner."
    return in_child(partial(train, name, *arguments, **options), f"{LIBRARY}, training {name},", advice)


def align_stored(directory: Path, wanted: str, source: Sentences, target: Sentences, name: Path | str) -> Alignment:
    """Returns the links that the aligner stored in ``directory`` gives, found in a child process."""

    def aligned() -> Alignment:
        return StoredAligner.load(directory, wanted).align(source, target, name)

    return in_child(aligned, f"{LIBRARY}, aligning with {directory},", _AGAIN)


def _fit(model: Any, name: str, watch: Watch | None) -> Any:
    """Returns the model after its training iterations; eflomal sets their number from the size of the text."""
    model.start_training()
    if model.num_sentence_pairs == 0:
        raise ToolError(f"{name}: no sentence pair to train on. Give text with words on both sides.")
    iterations = int(model.scheduled_iterations) if name == "eflomal" else _EM_ITERATIONS
    with Progress(f"train {name} on {model.num_sentence_pairs:,} pairs", iterations, "iterations") as progress:
        for number in range(1, iterations + 1):
            started = time.monotonic()
            model.train()
            progress.advance()
            if watch:
                watch(name, number, time.monotonic() - started)
    model.end_training()
    log.info("trained %s on %d pairs", name, model.num_sentence_pairs)
    return model


def _library() -> Any:
    """Returns ``thot.alignment``, loaded so that its own OpenMP runtime uses one thread."""
    previous = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        import thot.alignment
    finally:
        if previous is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = previous
    return thot.alignment
