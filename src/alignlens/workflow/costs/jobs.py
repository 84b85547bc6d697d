"""Every job of a plan, and what it costs.

Which jobs there are is exact: one for each that Snakemake would run. What each costs is an estimate: counted work
(``arithmetic``, ``work``) on texts of some size (``sizes``), by measured rates (``rates``).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from alignlens.results.paths import FINAL, FREE, SPLITS, TEST
from alignlens.results.protocol import BIDIR
from alignlens.workflow.costs.estimate import Estimate, Job
from alignlens.workflow.costs.learning import learning_work
from alignlens.workflow.costs.text_jobs import TextJobs
from alignlens.workflow.costs.work import EPOCHS_WITHOUT_LIMIT, ModelWork

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alignlens.workflow.attribution_plan import Attribution
    from alignlens.workflow.costs.rates import Rates
    from alignlens.workflow.costs.sizes import Sizes, Text
    from alignlens.workflow.plan import Plan
    from alignlens.workflow.settings import ModelRun

_PAGE_BYTES = 3_000_000  # pages, tables and figures of a study or the report
_COST_SECONDS = 20.0  # that a method is timed at most, and the shortest time that is enough
_COST_ENOUGH = 1.0
_COST_ROUNDS = 5


def estimate(plan: Plan, sizes: Sizes, rates: Rates) -> Estimate:
    """Returns what a plan costs on texts of these sizes at these rates."""
    return _Estimator(plan, sizes, rates).estimate()


class _Estimator(TextJobs):
    """Makes the jobs of a plan; jobs of a stage stand together."""

    def estimate(self) -> Estimate:
        stages = (
            self._texts(),
            self._selections(),
            self._aligners(),
            self._own_texts(),
            self._models(),
            self._masks(),
            self._attributions(),
            self._free_references(),
            self._encoders(),
            self._learning(),
            self._calibration(),
            self._studies(),
        )
        return Estimate(tuple(chain.from_iterable(stages)), (*self.sizes.assumed, *self._assumed()))

    def _assumed(self) -> Iterator[str]:
        """Yields what is assumed beyond the texts."""
        for run in (model.settings for model in self.plan.requested.models if model.settings.imported is None):
            training = run.training
            if training.max_updates is None and training.max_epochs is None:
                yield f"training of {run.name}: {EPOCHS_WITHOUT_LIMIT} epochs assumed, since only patience ends it"
            elif training.patience is not None:
                yield f"training of {run.name}: an upper limit, since it may stop earlier"
            if training.precision == "float16":
                yield f"training of {run.name}: needs a GPU ({training.precision}), so no core hours are counted"
        if self.plan.settings.aligners:
            yield "disk of aligners: an upper limit, since each pair of words is stored only once"
        if self.plan.settings.attribution.adaptive is not None:
            yield "attribution: an upper limit, since adaptive sampling draws fewer copies"

    def _work(self, dataset: str, direction: str, run: ModelRun) -> ModelWork:
        return ModelWork(run, self.plan.vocabulary(run.name), self.plan.is_reverse(dataset, direction))

    def _models(self) -> Iterator[Job]:
        decoding = self.plan.settings.decoding
        for dataset, direction, run, seed in self.plan.model_runs():
            name, test = f"{dataset.name} {direction} {run.name} {seed}", self._test(dataset.name)
            work, speed = self._work(dataset.name, direction, run), self.rates.speed("decoding", run.architecture)
            yield self._trained(dataset.name, work, name) if run.imported is None else self._imported(work, name)
            if not self.plan.planned(run.name).translates:
                continue
            searched = work.searched(test, decoding.beam, decoding.batch_tokens).seconds(speed)
            yield self._job("translation", "translate", name, searched, models=True)
            yield self._job("translation", "force_decode", name, work.forced(test).seconds(speed), models=True)
            yield self._job("translation", "score_bleu", name, self._scored(test, 1))

    def _trained(self, dataset: str, work: ModelWork, name: str) -> Job:
        """Returns the training of a model."""
        run = work.run
        trained = work.training(self.sizes.of(dataset, "train"), self.sizes.of(dataset, "dev"))
        seconds = trained.seconds(self.rates.speed("training", run.architecture))
        return self._job(
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

    def _imported(self, work: ModelWork, name: str) -> Job:
        """Returns the import of a model, whose folder has one checkpoint; it is written as fast as a disk can."""
        return self._job("imported models", "import_model", name, 0.0, models=True, bytes=4 * work.weights())

    def _masks(self) -> Iterator[Job]:
        """Yields the trainings of mask nets; their folders have one checkpoint."""
        for asked, direction in self.plan.attribution.mask_runs():
            run = self.plan.attribution.mask_run(asked.model)
            work = self._work(asked.dataset, direction, run)
            train, dev = (self.sizes.of(asked.dataset, split) for split in ("train", "dev"))
            yield self._job(
                "training",
                "train_masks",
                f"{asked.dataset} {direction} {asked.model} {asked.seed}",
                work.training(train, dev).seconds(self.rates.speed("training", run.architecture)),
                models=True,
                bytes=4 * work.weights(),
                work_bytes=work.work_bytes(),
                threads=run.training.threads,
            )

    def _attributions(self) -> Iterator[Job]:
        settings, planned = self.plan.settings, self.plan.attribution
        for run in planned.runs():
            methods = planned.methods(run)
            text = self._text(run.dataset, run.split)
            links = len(methods) * len(settings.attribution.extractions)
            for direction in self.plan.trained_directions(run.dataset, run.model):
                name = f"{run.dataset} {direction} {_label(run)}"
                yield from self._scores(run, direction, methods, text, name)
                if run.split not in SPLITS:
                    continue
                seconds, size = self.rates.links.extract * links * text.pairs, self._links_bytes(text, links)
                yield self._job("links and scores", "extract_links", name, seconds, bytes=size)
            name = f"{run.dataset} {_label(run)}"
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

    def _calibration(self) -> Iterator[Job]:
        """Yields what measures attention and masks, and compares translations."""
        for text in self.plan.calibration.calibrations:
            model = self.plan.model(text.model)
            amount = self._work(text.dataset, text.direction, model).calibrated(self._text(text.dataset, text.split))
            seconds = amount.seconds(self.rates.speed("attribution", model.architecture))
            yield self._job("attribution", "calibration", " ".join(map(str, text)), seconds, models=True)
        for compared in self.plan.calibration.comparisons:
            files = sum(map(len, self.plan.calibration.translations(compared).values()))
            seconds = self._scored(self._test(compared.dataset), files)
            yield self._job("translation", "compare_bleu", " ".join(compared), seconds)

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


def _label(run: Attribution) -> str:
    """Returns what is asked, in words; the usual text and weights go without saying."""
    split, weights = run.split.replace(TEST, ""), run.weights.replace(FINAL, "")
    return " ".join(filter(None, (run.model, str(run.seed), weights, split, run.decoding)))
