"""Mask nets for a trained Transformer: from its folder and text to a training of nothing but them.

What is trained is a calibrated Transformer with the fusion ``none``, which computes what the Transformer does, by the
objective ``mask_nets``. The loop, its state and the model folder are those of every training.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, cast

from alignlens.corpora.tokens import KIND, TokenStore, TokenWriter
from alignlens.decoding.sentences import SentencesInMemory
from alignlens.errors import InputError
from alignlens.io.checksum import sha256_of
from alignlens.io.parts import remove_parts
from alignlens.models.checkpoint import read_spec
from alignlens.models.settings import TransformerSettings, with_masks
from alignlens.subwords.reading import read_segmenter
from alignlens.training.assembly import Files, assemble, write_masks

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.decoding.given import Given
    from alignlens.models.settings import ModelSpec
    from alignlens.subwords.spans import Segmenter
    from alignlens.training.loop import Training
    from alignlens.training.processes import Processes
    from alignlens.training.settings import MaskSettings

#: Without a dev text, one pair in ``HELD_OUT`` is held out, from the end of the text, at most ``MOST_HELD_OUT``.
HELD_OUT, MOST_HELD_OUT = 10, 500
_ARCHITECTURE, _TEXT, _SIDES = "transformer", "text", ("source", "target")


@dataclass(frozen=True)
class MaskTraining:
    """Mask nets to train: the model they are for, a checkpoint of it, the text, and where the state of it all is."""

    model: Path
    weights: str
    texts: tuple[Given, Given]
    dev: tuple[Given, Given] | None
    work: Path

    def check(self) -> ModelSpec:
        """Returns what the model is; raises for one that cannot have masks, and for a text with too few pairs."""
        spec = read_spec(self.model)
        if spec.architecture != _ARCHITECTURE:
            raise InputError(
                f"is a model of architecture {spec.architecture}; masks can only be trained for {_ARCHITECTURE}.",
                self.model,
                advice="A calibrated model has masks of its own; other architectures have none.",
            )
        if self.dev is None and len(self.texts[0]) < HELD_OUT:
            problem = f"{len(self.texts[0])} pairs are too few to hold out some of them."
            raise InputError(problem, self.texts[0].name, advice="Give --dev-source and --dev-target.")
        return spec

    def write_text(self) -> None:
        """Segments what is given as text; the folder of the training keeps it until its end."""
        spec = self.check()
        symbols, longest = (1 + spec.source_begin, len(spec.frame.target)), spec.settings.positions
        for place, side in enumerate(_SIDES):
            segmenter = read_segmenter(self._subwords(side))
            read = self.texts[place].pieces(segmenter, symbols[place], longest)
            self._write(f"train.{side}", read, segmenter)
            if self.dev is not None:
                self._write(f"dev.{side}", self.dev[place].pieces(segmenter, symbols[place], longest), segmenter)
            else:
                held_out = SentencesInMemory([read[number] for number in range(self._pairs, len(read))])
                self._write(f"dev.{side}", held_out, segmenter)

    def assembled(self, settings: MaskSettings, seed: int, processes: Processes) -> tuple[Training, ModelSpec]:
        """Returns the training, resumed if it was stopped, and what it trains."""
        spec = self.check()
        model = asdict(with_masks(cast("TransformerSettings", spec.settings), settings.mask_input))
        return assemble(
            self._files(),
            "calibrated",
            model,
            spec.source_begin,
            settings.trained(),
            seed,
            self.work,
            processes,
            self.model,
            self._pairs if self.dev is None else None,
            self.weights,
            spec.frame,
        )

    def finish(self, folder: Path, training: Training, spec: ModelSpec) -> None:
        """Writes the folder of the masks."""
        belongs_to = sha256_of(self.model / f"{self.weights}.safetensors")
        write_masks(folder, training, spec, self._files(), belongs_to)

    def remove_text(self) -> None:
        """Removes the segmented text."""
        if (place := self.work / _TEXT).is_dir():
            remove_parts(place, KIND)
            with suppress(OSError):  # Other files in the folder are not ours.
                place.rmdir()

    @property
    def _pairs(self) -> int:
        """How many pairs of the text are trained on if the rest of it takes the place of a dev text."""
        pairs = len(self.texts[0])
        return pairs - min(MOST_HELD_OUT, pairs // HELD_OUT)

    def _subwords(self, side: str) -> Path:
        return self.model / f"{side}.model"

    def _files(self) -> Files:
        dev_source, dev_target = self.dev or (None, None)
        return Files(
            train_source=self._store("train.source", self.texts[0]),
            train_target=self._store("train.target", self.texts[1]),
            dev_source=self._store("dev.source", dev_source),
            dev_target=self._store("dev.target", dev_target),
            dev_text=None,
            source_subwords=self._subwords("source"),
            target_subwords=self._subwords("target"),
        )

    def _store(self, name: str, given: Given | None) -> Path:
        """Returns where the pieces of a text are: in the store that was given, or where they were segmented to."""
        if given is not None and isinstance(given.content, TokenStore):
            return given.content.folder
        return self.work / _TEXT / name

    def _write(self, name: str, store: TokenStore, segmenter: Segmenter) -> None:
        """Writes sentences in memory; a store stays where it is."""
        if isinstance(store, SentencesInMemory):
            with TokenWriter(self.work / _TEXT / name, len(segmenter), segmenter.checksum) as writer:
                for number in range(len(store)):
                    writer.append(store[number].tolist())
