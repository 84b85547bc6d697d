"""The jobs of a plan without a translation model: texts, subwords, aligners; and how any job is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignlens.aligners.registry import spec_of
from alignlens.results.paths import FREE, SPLITS
from alignlens.workflow.attribution_plan import ONLINE_ALIGNER
from alignlens.workflow.costs.estimate import Job
from alignlens.workflow.plan import SIDES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alignlens.workflow.costs.rates import Rates
    from alignlens.workflow.costs.sizes import Sizes, Text
    from alignlens.workflow.plan import Plan

_PREPARED_BY = {
    "synthetic": "generate_synthetic_text",
    "dev_gold": "prepare_text_with_dev_gold",
    "gold": "prepare_aligned_text",
    "text": "prepare_text",
}
#: Bytes of a word in a text, of a piece in segmented text, of a number in a token store, of its offset.
_WORD_BYTES, _PIECE_BYTES, _NUMBER_BYTES, _OFFSET_BYTES = 5.2, 7.2, 2, 8
_LINK_BYTES = 6
_JOB_BYTES = 10_000  # journal, log and benchmark of a job


@dataclass(frozen=True)
class TextJobs:
    """Jobs on texts of some size, at measured rates."""

    plan: Plan
    sizes: Sizes
    rates: Rates

    def _job(self, stage: str, rule: str, name: str, seconds: float, **more: Any) -> Job:
        start = self.rates.start.models if more.pop("models", False) else self.rates.start.short
        job = Job(stage, rule, name, start + seconds, **more)
        return job._replace(bytes=job.bytes + _JOB_BYTES)

    def _texts(self) -> Iterator[Job]:
        rates = self.rates.text
        for dataset in self.plan.settings.datasets:
            name = dataset.name
            texts = {split: self.sizes.of(name, split) for split in SPLITS}
            words = sum(text.millions_of_words() for text in texts.values())
            rule = _PREPARED_BY[self.plan.files_of(dataset)]
            yield self._job("data", rule, name, rates.prepare * words, bytes=1e6 * words * _WORD_BYTES)
            trained = texts["train"].millions_of_words()
            yield self._job("subwords", "train_subwords", name, rates.subwords * trained)
            for split, text in texts.items():
                for place, side in enumerate(SIDES):
                    yield self._segmented("subwords", "segment", f"{name} {split}.{side}", text, place)

    def _own_texts(self) -> Iterator[Job]:
        """Yields the texts that are segmented once more, for models from elsewhere."""
        for own in self.plan.foreign.texts():
            text = self._text(own.dataset, own.split)
            name = f"{own.dataset} {own.direction} {own.model} {own.seed} {own.split}.{own.side}"
            yield self._segmented("imported models", "segment_for_model", name, text, SIDES.index(own.side))

    def _segmented(self, stage: str, rule: str, name: str, text: Text, place: int) -> Job:
        """Returns the job that writes one side of a text in pieces."""
        seconds = self.rates.text.segment * text.pairs * text.words[place] / 1e6
        pieces = text.pairs * text.pieces[place] * (_PIECE_BYTES + _NUMBER_BYTES)
        return self._job(stage, rule, name, seconds, bytes=pieces + text.pairs * _OFFSET_BYTES)

    def _text(self, dataset: str, split: str) -> Text:
        """Returns a text, or as much as a selection takes of one."""
        if split in SPLITS:
            return self.sizes.of(dataset, split)
        selection = self.plan.requested.texts[split]
        whole = self.sizes.of(dataset, selection.of)
        return whole if selection.pairs is None else whole.scaled(min(1.0, selection.pairs / max(1.0, whole.pairs)))

    def _selections(self) -> Iterator[Job]:
        asked = [(run.dataset, run.split) for run in self.plan.attribution.runs() if run.split not in SPLITS]
        more = (*self.plan.learning.selections(), *self.plan.calibration.selections())
        for dataset, split in dict.fromkeys((*asked, *more)):
            yield self._job("data", "select_text", f"{dataset} {split}", 0.0)
            for side in SIDES:
                yield self._job("subwords", "segment", f"{dataset} {split}.{side}", 0.0)

    def _aligners(self) -> Iterator[Job]:
        for dataset, aligner, text, size in self._trained_aligners():
            whole = self.sizes.of(dataset, "train")
            part = whole if size == "all" else whole.scaled(min(1.0, int(size) / max(1.0, whole.pairs)))
            rate = self.rates.aligners[aligner]
            for direction in self.plan.directions(dataset):
                name = f"{dataset} {aligner} {text} {size} {direction}"
                yield self._job("aligners", "align", name, rate.seconds_for(part), bytes=rate.bytes_for(part))
        for dataset_entry, run in self.plan.aligner_runs():
            name, test = f"{dataset_entry.name} {run.name} {run.text} {run.size}", self._test(dataset_entry.name)
            combinations = len(self.plan.settings.symmetrizations)
            seconds = self.rates.links.symmetrize * test.pairs * combinations
            links = self._links_bytes(test, combinations + 2)
            yield self._job("links and scores", "symmetrize", name, seconds, bytes=links)
            if self.plan.has_gold(dataset_entry.name):
                yield self._job("links and scores", "score", name, self._scored(test, combinations + 2))

    def _trained_aligners(self) -> Iterator[tuple[str, str, str, str]]:
        """Yields dataset, aligner, text and size of every stored aligner: named, started from, or for free decoding."""
        wanted = dict.fromkeys(
            (dataset.name, run.name, run.text, run.size) for dataset, run in self.plan.aligner_runs()
        )
        for run in self.plan.attribution.runs():
            if run.decoding == FREE and self.plan.attribution.is_scored(run):
                wanted[run.dataset, ONLINE_ALIGNER, "online", self.plan.attribution.aligner_size()] = None
        for dataset, aligner, text, size in list(wanted):
            parent = spec_of(aligner).parent
            while parent is not None:
                wanted[dataset, parent, text, size] = None
                parent = spec_of(parent).parent
        return iter(wanted)

    def _test(self, dataset: str) -> Text:
        return self.sizes.of(dataset, "test")

    def _links_bytes(self, text: Text, files: int) -> float:
        return _LINK_BYTES * text.pairs * max(text.words) * files

    def _scored(self, text: Text, files: int) -> float:
        """Returns the seconds of error rates with their intervals; time grows with samples of the bootstrap."""
        samples = self.plan.settings.interval.samples
        return self.rates.links.score * text.pairs * files * samples / 1000
