"""Seconds of the jobs that run a model, from what they compute (``arithmetic``) and how fast (``rates``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

from alignlens.attribution.passes import by_copies, copies_of
from alignlens.attribution.registry import parse
from alignlens.attribution.spec import GradientPasses, OwnPasses, TracedAttention
from alignlens.models.settings import architecture_of, with_masks
from alignlens.workflow.costs.arithmetic import passes, weights
from alignlens.workflow.costs.sizes import FIFTHS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alignlens.attribution.registry import Method
    from alignlens.models.base_settings import ArchitectureSettings
    from alignlens.models.settings import TransformerSettings
    from alignlens.workflow.costs.arithmetic import Passes
    from alignlens.workflow.costs.rates import Speed
    from alignlens.workflow.costs.sizes import Text
    from alignlens.workflow.settings import ModelRun

#: Assumed epochs of a training that only its patience ends.
EPOCHS_WITHOUT_LIMIT = 100
#: A training step is a forward pass and twice that backwards.
_TRAINING_PASSES = 3
_BYTES = 4  # of a weight or a score


class Amount(NamedTuple):
    """Multiply-adds, and operations that wait for each other."""

    multiply_adds: float
    operations: float

    def plus(self, other: Amount, times: float = 1.0) -> Amount:
        """Returns this plus a multiple of the other."""
        return Amount(*(ours + times * theirs for ours, theirs in zip(self, other, strict=True)))

    def seconds(self, speed: Speed) -> float:
        """Returns how long it takes."""
        return speed.seconds(*self)


NOTHING = Amount(0.0, 0.0)


class Length(NamedTuple):
    """How long a training goes on."""

    micro_batches: float
    updates: float
    epochs: float


@dataclass(frozen=True)
class ModelWork:
    """The work of a model of one direction; ``turned`` if it reads the target side of its dataset."""

    run: ModelRun
    vocabulary: int
    turned: bool

    def weights(self) -> int:
        """Returns the number of its weights."""
        return weights(self.run.model, self.vocabulary)

    def model_bytes(self) -> float:
        """Returns the size of its folder: the best, last, averaged and chosen weights, and snapshots."""
        return _BYTES * self.weights() * (4 + len(self.run.training.snapshots))

    def work_bytes(self) -> float:
        """Returns the size of the work folder of its training: weights, two moments, kept checkpoints."""
        training = self.run.training
        return _BYTES * self.weights() * (3 + 1 + training.average + len(training.snapshots))

    def length(self, train: Text) -> Length:
        """Returns how long its training goes on at most."""
        training = self.run.training
        batches = sum(1 / rows for rows, _ in self._batches(train)) / len(FIFTHS)
        an_epoch = max(1.0, batches * train.pairs)
        epochs = training.max_epochs or (EPOCHS_WITHOUT_LIMIT if training.max_updates is None else None)
        limits = [] if epochs is None else [epochs * an_epoch]
        if training.max_updates is not None:
            limits.append(float(training.max_updates * training.accumulation))
        updates = min(limits)
        return Length(updates, updates / training.accumulation, updates / an_epoch)

    def training(self, train: Text, dev: Text) -> Amount:
        """Returns all updates and validations of its training."""
        length, settings = self.length(train), self.run.training
        batches = list(self._batches(train))
        batch = NOTHING
        for rows, counted in batches:
            # Batches of long sentences are more, since they have fewer rows.
            share = (1 / rows) / sum(1 / other for other, _ in batches)
            batch = batch.plus(self._losses(rows, counted), share)
        validations = length.updates / settings.validate_every if settings.validate_every else length.epochs
        translated = dev.scaled(min(settings.validate_sentences, dev.pairs) / max(1.0, dev.pairs))
        validation = self.forced(dev)
        if settings.objective.spec.moves_model:
            validation = validation.plus(self.searched(translated, 1, settings.batch_tokens))
        if self._draws:
            validation = validation.plus(self.forced(translated), 2 * self._draws)
        return Amount(*(length.micro_batches * each for each in batch)).plus(validation, validations)

    @property
    def _draws(self) -> int:
        """Returns how many translations of a pair its objective draws and scores."""
        objective = self.run.training.objective
        return objective.spec.draws(objective.options)

    def _losses(self, rows: float, counted: Passes) -> Amount:
        """Returns the losses of a micro-batch and their gradients."""
        draws, decoded = self._draws, counted.decoder + counted.output
        if not draws:
            objective = self.run.training.objective.spec
            decodings = _TRAINING_PASSES + objective.more_decoder_passes
            operations = counted.encoder_steps * objective.encoder_passes + counted.decoder_steps * decodings
            multiply_adds = rows * (objective.encoder_passes * counted.encoder + decodings * decoded)
            return Amount(multiply_adds, operations / _TRAINING_PASSES)
        # Drawn once, then scored as in a training step with one more pass: what was decoded is not kept in between.
        decodings = draws + (_TRAINING_PASSES + 1) * (1 + draws)
        multiply_adds = rows * ((_TRAINING_PASSES + 1) * counted.encoder + decodings * decoded)
        # As many parts of a micro-batch's size as there are candidates, and the steps of the draws, many side by side.
        return Amount(multiply_adds, counted.steps * (2 + draws))

    def forced(self, text: Text) -> Amount:
        """Returns one forward pass of a text."""
        return self._mean(text, [Amount(counted.forward, 0.0) for counted in self._fifths(text)])

    def searched(self, text: Text, beam: int, batch_tokens: int) -> Amount:
        """Returns the beam search of a text."""
        layers, each = self.run.model.decoder_layers, []
        for (read, written), counted in zip(text.sentences(self.turned), self._fifths(text), strict=True):
            together = min(max(1.0, batch_tokens // beam / read), max(1.0, text.pairs / len(FIFTHS)))
            each.append(
                Amount(counted.encoder + beam * (counted.decoder + counted.output), written * layers / together)
            )
        return self._mean(text, each)

    def attributed(self, text: Text, methods: Sequence[str]) -> Amount:
        """Returns the passes that methods need of a text together, all noisy copies drawn."""
        sweeps = list(by_copies(map(parse, methods)).values())
        each = []
        for (read, written), counted in zip(text.sentences(self.turned), self._fifths(text), strict=True):
            amount = NOTHING
            for sweep in sweeps:
                amount = amount.plus(self._copy(sweep, read, written, counted), max(map(copies_of, sweep)))
            each.append(amount)
        return self._mean(text, each)

    def calibrated(self, text: Text) -> Amount:
        """Returns what measures attention and masks: passes forwards, and one through the decoder from every label."""
        decodings = 3 if self.run.architecture == "calibrated" else 1  # as it is, perturbed, and by shuffled masks
        each = []
        for (_, written), counted in zip(text.sentences(self.turned), self._fifths(text), strict=True):
            forward = counted.encoder + decodings * (counted.decoder + counted.output)
            # The gradient of the output layer is as much again.
            each.append(Amount(forward + counted.output + written * counted.decoder, written))
        return self._mean(text, each)

    def score_bytes(self, text: Text, methods: Sequence[str]) -> float:
        """Returns the size of the scores of methods."""
        explained = sum(parse(method).spec.prefix for method in methods)  # have a second matrix, of the prefix
        sizes = [written * (len(methods) * read + explained * written) for read, written in text.sentences(self.turned)]
        return _BYTES * text.pairs * sum(sizes) / len(sizes)

    def _copy(self, sweep: Sequence[Method], source: float, target: float, counted: Passes) -> Amount:
        """Returns what one copy of a sentence costs."""
        own = [declared for method in sweep if isinstance(declared := method.spec.passes, OwnPasses)]
        apart = [] if architecture_of(self.run.architecture).has_masks else [m for m in sweep if m.spec.needs_masks]
        amount = self._shared(sweep, target, counted) if len(own) + len(apart) < len(sweep) else NOTHING
        if apart:
            masked = passes(self._with_masks(), self.vocabulary, source, target)
            amount = amount.plus(Amount(masked.encoder + masked.decoder, 0.0))
        for declared in own:
            starts, decoded = declared.backward * target, declared.decoder_by_source * source
            asked = decoded * (counted.decoder + counted.output) + declared.output * counted.output
            whole = declared.forward + declared.forward_by_source * source
            amount = amount.plus(Amount(whole * counted.forward + starts * counted.start + asked, starts))
        return amount

    def _with_masks(self) -> ArchitectureSettings:
        return with_masks(cast("TransformerSettings", self.run.model), "released")

    def _shared(self, sweep: Sequence[Method], target: float, counted: Passes) -> Amount:
        """Returns the passes of one copy that methods share."""
        kinds = {self._backward(method) for method in sweep if isinstance(method.spec.passes, GradientPasses)}
        starts = len(kinds) * target
        # Scores of the vocabulary, and the gradient of the output layer, which is as much again.
        amount = Amount(
            counted.encoder + counted.decoder + len(kinds) * 2 * counted.output + starts * counted.start, starts
        )
        traced = [method for method in sweep if isinstance(method.spec.passes, TracedAttention)]
        if any(method.parameters.get("label") == "runner_up" for method in traced):
            # Attention to another label: every step is decoded again with that label behind it, half of a prefix each.
            amount = amount.plus(Amount(counted.output + counted.encoder + target / 2 * counted.decoder, 0.0))
        return amount

    def _backward(self, method: Method) -> tuple[bool, bool]:
        """Returns what decides a backward pass; the true gradient is another one for FConv alone."""
        scaled = getattr(self.run.model, "scale_encoder_gradient", False)
        return scaled and method.parameters["gradient"] == "true", method.parameters["label"] == "runner_up"

    def _fifths(self, text: Text) -> list[Passes]:
        return [passes(self.run.model, self.vocabulary, *pieces) for pieces in text.sentences(self.turned)]

    def _batches(self, train: Text) -> Iterator[tuple[float, Passes]]:
        """Yields the rows of a micro-batch of every fifth of the text, and what a row costs."""
        training = self.run.training
        for pieces, counted in zip(train.sentences(self.turned), self._fifths(train), strict=True):
            rows = max(1.0, training.batch_tokens / max(pieces))
            yield min(rows, training.batch_sentences or rows), counted

    @staticmethod
    def _mean(text: Text, fifths: Sequence[Amount]) -> Amount:
        total = NOTHING
        for amount in fifths:
            total = total.plus(amount, text.pairs / len(fifths))
        return total
