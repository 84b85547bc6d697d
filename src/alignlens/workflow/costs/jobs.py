"""Every job of a plan, and what it costs.

Which jobs there are is exact: one for each that Snakemake would run. What each costs is an estimate: counted work
(``arithmetic``, ``work``) on texts of some size (``sizes``), by measured rates (``rates``).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from alignlens.aligners.registry import spec_of
from alignlens.results.paths import FINAL, FREE, SPLITS, TEST
from alignlens.results.protocol import BIDIR
from alignlens.workflow.attribution_plan import ONLINE_ALIGNER
from alignlens.workflow.costs.estimate import Estimate, Job
from alignlens.workflow.costs.learning import learning_work
from alignlens.workflow.costs.work import EPOCHS_WITHOUT_LIMIT, ModelWork
from alignlens.workflow.plan import SIDES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alignlens.workflow.attribution_plan import Attribution
    from alignlens.workflow.costs.rates import Rates
    from alignlens.workflow.costs.sizes import Sizes, Text
    from alignlens.workflow.plan import Plan
    from alignlens.workflow.settings import ModelRun

_PREPARED_BY = {
    "synthetic": "generate_synthetic_text",
    "dev_gold": "prepare_text_aligned_twice",
    "gold": "prepare_aligned_text",
    "text": "prepare_text",
}
#: Bytes of a word in a text, of a piece in segmented text, of a number in a token store, of its offset.
_WORD_BYTES, _PIECE_BYTES, _NUMBER_BYTES, _OFFSET_BYTES = 5.2, 7.2, 2, 8
_LINK_BYTES = 6
_JOB_BYTES = 10_000  # journal, log and benchmark of a job
_PAGE_BYTES = 3_000_000  # pages, tables and figures of a study or the report
_COST_SECONDS = 20.0  # that a method is timed at most, and the shortest time that is enough
_COST_ENOUGH = 1.0
_COST_ROUNDS = 5


def estimate(plan: Plan, sizes: Sizes, rates: Rates) -> Estimate:
    """Returns what a plan costs on texts of these sizes at these rates."""
    return _Estimator(plan, sizes, rates).made()


@dataclass(frozen=True)
class _Estimator:
    """Makes the jobs of a plan; jobs of a stage stand together."""

    plan: Plan
    sizes: Sizes
    rates: Rates

    def made(self) -> Estimate:
        stages = (
            self._texts(),
            self._selections(),
            self._aligners(),
            self._models(),
            self._attributions(),
            self._free_references(),
            self._encoders(),
            self._learning(),
            self._studies(),
        )
        return Estimate(tuple(chain.from_iterable(stages)), (*self.sizes.assumed, *self._assumed()))

    def _assumed(self) -> Iterator[str]:
        """Yields what is assumed beyond the texts."""
        for run in (model.settings for model in self.plan.requested.models):
            training = run.training
            if training.max_updates is None and training.max_epochs is None:
                yield f"training of {run.name}: {EPOCHS_WITHOUT_LIMIT} epochs assumed, nothing but patience ends it"
            elif training.patience is not None:
                yield f"training of {run.name}: at most, it may stop earlier"
            if training.precision == "float16":
                yield f"training of {run.name}: on a GPU only, {training.precision}; it has no core hours here"
        if self.plan.settings.aligners:
            yield "disk of aligners: at most, a pair of words that comes again is stored once"
        if self.plan.settings.attribution.adaptive is not None:
            yield "attribution: at most, adaptive sampling draws fewer copies"

    def _job(self, stage: str, rule: str, name: str, seconds: float, **more: Any) -> Job:
        start = self.rates.start.models if more.pop("models", False) else self.rates.start.short
        made = Job(stage, rule, name, start + seconds, **more)
        return made._replace(bytes=made.bytes + _JOB_BYTES)

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
                    millions = text.pairs * text.words[place] / 1e6
                    pieces = text.pairs * text.pieces[place] * (_PIECE_BYTES + _NUMBER_BYTES)
                    yield self._job(
                        "subwords",
                        "segment",
                        f"{name} {split}.{side}",
                        rates.segment * millions,
                        bytes=pieces + text.pairs * _OFFSET_BYTES,
                    )

    def _selections(self) -> Iterator[Job]:
        asked = [(run.dataset, run.split) for run in self.plan.attribution.runs() if run.split not in SPLITS]
        for dataset, split in dict.fromkeys((*asked, *self.plan.learning.selections())):
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
            links = _LINK_BYTES * test.pairs * max(test.words) * (combinations + 2)
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

    def _work(self, dataset: str, direction: str, run: ModelRun) -> ModelWork:
        return ModelWork(run, self.plan.settings.subwords.vocab, self.plan.is_reverse(dataset, direction))

    def _text(self, dataset: str, split: str) -> Text:
        """Returns a text, or as much as a selection takes of one."""
        if split in SPLITS:
            return self.sizes.of(dataset, split)
        selection = self.plan.requested.texts[split]
        whole = self.sizes.of(dataset, selection.of)
        return whole if selection.pairs is None else whole.scaled(min(1.0, selection.pairs / max(1.0, whole.pairs)))

    def _test(self, dataset: str) -> Text:
        return self.sizes.of(dataset, "test")

    def _models(self) -> Iterator[Job]:
        decoding = self.plan.settings.decoding
        for dataset, direction, run, seed in self.plan.model_runs():
            name, test = f"{dataset.name} {direction} {run.name} {seed}", self._test(dataset.name)
            work, speed = self._work(dataset.name, direction, run), self.rates.speed("decoding", run.architecture)
            trained = work.training(self.sizes.of(dataset.name, "train"), self.sizes.of(dataset.name, "dev"))
            seconds = trained.seconds(self.rates.speed("training", run.architecture))
            yield self._job(
                "training",
                "train",
                name,
                0.0 if run.training.precision == "float16" else seconds,
                models=True,
                bytes=work.model_bytes(),
                gpu_seconds=trained.seconds(self.rates.gpu),
                work_bytes=work.work_bytes(),
                threads=run.training.threads,
            )
            if not self.plan.planned(run.name).translates:
                continue
            searched = work.searched(test, decoding.beam, decoding.batch_tokens).seconds(speed)
            yield self._job("translation", "translate", name, searched, models=True)
            yield self._job("translation", "force_decode", name, work.forced(test).seconds(speed), models=True)
            yield self._job("translation", "score_bleu", name, self._scored(test, 1))

    def _attributions(self) -> Iterator[Job]:
        settings, planned = self.plan.settings, self.plan.attribution
        for run in planned.runs():
            methods = planned.methods(run)
            text = self._text(run.dataset, run.split)
            links = len(methods) * len(settings.attribution.extractions)
            for direction in self.plan.trained_directions(run.dataset, run.model):
                name = f"{run.dataset} {direction} {_told(run)}"
                yield from self._scores(run, direction, methods, text, name)
                if run.split not in SPLITS:
                    continue
                seconds, size = self.rates.links.extract * links * text.pairs, self._links_bytes(text, links)
                yield self._job("links and scores", "extract_links", name, seconds, bytes=size)
            name = f"{run.dataset} {_told(run)}"
            folders = planned.directions(run) if run.split in SPLITS else []
            if BIDIR in folders:
                combined = links * len(settings.symmetrizations)
                seconds, size = (
                    self.rates.links.symmetrize * combined * text.pairs,
                    self._links_bytes(text, combined),
                )
                yield self._job("links and scores", "symmetrize_methods", name, seconds, bytes=size)
                links += combined // len(folders)
            if planned.is_scored(run):
                yield from self._method_scores(name, self._scored(text, links * len(folders)))

    def _method_scores(self, name: str, seconds: float) -> Iterator[Job]:
        """Yields the jobs that score links of methods, one or a shard each."""
        stage, shards = "links and scores", self.plan.settings.attribution.shards
        if shards == 1:
            yield self._job(stage, "score_methods", name, seconds)
            return
        for shard in range(1, shards + 1):
            yield self._job(stage, "score_methods_shard", f"{name} {shard}/{shards}", seconds / shards)
        yield self._job(stage, "gather_metrics", name, 0.0)

    def _scores(self, run: Attribution, direction: str, methods: list[str], text: Text, name: str) -> Iterator[Job]:
        """Yields the jobs that attribute, one or a shard each."""
        model, shards = self.plan.model(run.model), self.plan.settings.attribution.shards
        work = self._work(run.dataset, direction, model)
        seconds = work.attributed(text, methods).seconds(self.rates.speed("attribution", model.architecture))
        size = work.score_bytes(text, methods)
        if shards == 1:
            yield self._job("attribution", "attribute", name, seconds, models=True, bytes=size)
            return
        for shard in range(1, shards + 1):
            part = f"{name} {shard}/{shards}"
            yield self._job(
                "attribution", "attribute_shard", part, seconds / shards, models=True, work_bytes=size / shards
            )
        yield self._job("attribution", "gather_matrices", name, 0.0, bytes=size)

    def _links_bytes(self, text: Text, files: int) -> float:
        return _LINK_BYTES * text.pairs * max(text.words) * files

    def _scored(self, text: Text, files: int) -> float:
        """Returns the seconds of error rates with their intervals; time grows with samples of the bootstrap."""
        samples = self.plan.settings.interval.samples
        return self.rates.links.score * text.pairs * files * samples / 1000

    def _free_references(self) -> Iterator[Job]:
        stage = "translation"
        for run in self.plan.attribution.runs():
            if run.decoding != FREE or not self.plan.attribution.is_scored(run):
                continue
            for direction in self.plan.trained_directions(run.dataset, run.model):
                name = f"{run.dataset} {direction} {run.model} {run.seed}"
                for rule in ("free_links", "free_links_reverse", "free_reference"):
                    yield self._job(stage, rule, name, 0.0)

    def _encoders(self) -> Iterator[Job]:
        planned, stage = self.plan.attribution, "encoders and costs"
        for run in planned.timed():
            for direction in self.plan.trained_directions(run.dataset, run.model):
                seconds = sum(
                    self._timed(run, direction, method) for method in planned.compared(run.dataset, run.model)
                )
                name = f"{run.dataset} {direction} {run.model} {run.seed}"
                yield self._job(stage, "measure_cost", name, seconds, models=True)
        encoders = self.plan.requested.encoders()
        if encoders is None or not self.plan.studies.active():
            return
        for name in encoders.pretrained:
            yield self._job(stage, "pretrained_encoder", name, self.rates.encoder * encoders.sequences, models=True)
        for folder in self.plan.studies.encoder_statistics()[len(encoders.pretrained) :]:
            yield self._job(
                stage, "model_encoder", folder.removeprefix(f"{self.plan.root}/encoders/"), 0.0, models=True
            )

    def _learning(self) -> Iterator[Job]:
        """Yields what shows how models come to attend; a model is looked at all its checkpoints."""
        learning, stage = self.plan.learning, "learning"
        for run, question in learning.trajectories.items():
            model, text = self.plan.model(run.model), self._text(run.dataset, run.split)
            work = self._work(run.dataset, run.direction, model)
            seconds = work.attributed(text, question.methods).seconds(
                self.rates.speed("attribution", model.architecture)
            )
            decoding = self.plan.settings.decoding
            decoded = work.forced(text)
            if question.bleu:
                decoded = decoded.plus(work.searched(text, decoding.beam, decoding.batch_tokens))
            seconds += decoded.seconds(self.rates.speed("decoding", model.architecture))
            checkpoints = 1 + (len(model.training.snapshots) if question.snapshots else 0)
            size = work.score_bytes(text, question.methods)
            name = " ".join(map(str, run))
            yield self._job(stage, "trajectory", name, checkpoints * seconds, models=True, bytes=checkpoints * size)
        for dataset, direction in learning.counted():
            yield self._job(stage, "count_words", f"{dataset} {direction}", 0.0)
        speed = self.rates.speed("training", "lstm")
        for each in learning_work(learning, self.plan.settings.labelled):
            seconds = speed.seconds(each.multiply_adds, each.operations)
            yield self._job(stage, each.rule, each.name, seconds, models=each.models, bytes=each.bytes)

    def _timed(self, run: Attribution, direction: str, method: str) -> float:
        """Returns the seconds of timing a method by itself: a quick one several times, a slow one in part."""
        model, test = self.plan.model(run.model), self._test(run.dataset)
        some = test.scaled(min(1.0, self.plan.settings.attribution.cost_sentences / max(1.0, test.pairs)))
        amount = self._work(run.dataset, direction, model).attributed(some, [method])
        once = amount.seconds(self.rates.speed("attribution", model.architecture))
        return min(_COST_SECONDS, max(once, min(_COST_ENOUGH, _COST_ROUNDS * once)))

    def _studies(self) -> Iterator[Job]:
        for name in self.plan.studies.active():
            yield Job("studies and report", "manifest", name, 0.0)  # written without a process of its own
            yield self._job("studies and report", f"{name}_study", name, self.rates.study, bytes=_PAGE_BYTES)
        yield Job("studies and report", "manifest", "report", 0.0)
        yield self._job("studies and report", "report", "report", self.rates.study, bytes=_PAGE_BYTES)


def _told(run: Attribution) -> str:
    """Returns what is asked, in words; the usual text and weights go without saying."""
    split, weights = run.split.replace(TEST, ""), run.weights.replace(FINAL, "")
    return " ".join(filter(None, (run.model, str(run.seed), weights, split, run.decoding)))
