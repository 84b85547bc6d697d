"""The one reader of scores: the metrics files of models and aligners."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from alignlens.attribution.registry import parse
from alignlens.io import values
from alignlens.io.documents import read_json, taking
from alignlens.metrics.sampled import Draws
from alignlens.metrics.sentences import row_name
from alignlens.results.paths import ALIGNER_METRICS, DECODINGS, FINAL, METHOD_METRICS, TEST
from alignlens.results.protocol import interval_of
from alignlens.results.samples import SentenceFile, SentenceRow
from alignlens.results.scores import (
    AlignerId,
    AttributedModel,
    CauseScore,
    Results,
    Score,
    ScoredAligner,
    ScoredDataset,
)

if TYPE_CHECKING:
    from pathlib import Path

    from alignlens.results.manifest import Manifest

_ADVICE = "Delete it and recreate it with: alignlens score or alignlens score-methods, or run the pipeline again."
_NATURAL = re.compile("[0-9]{1,18}")


def read_results(manifest: Manifest) -> Results:
    """Returns the scores of a manifest; absent files count as missing; raises ``InputError`` for damaged ones."""
    aligners = [read_aligner(path) for path, _ in manifest.find(ALIGNER_METRICS)]
    intervals = [run.interval for run in aligners]
    datasets = {run.id.dataset: ScoredDataset(run.id.dataset, run.pair, run.sentences) for run in reversed(aligners)}
    models = []
    for path, _ in manifest.find(METHOD_METRICS):
        content = read_json(path, _ADVICE)
        with taking(path, _ADVICE):
            run = _attributed(content, _sentences(path, content))
            models.append(run)
            if run.split == TEST:
                datasets[run.dataset] = _dataset(content)
            intervals.append(interval_of(content))
    stated = [interval for interval in intervals if interval]
    return Results(
        manifest,
        tuple(datasets[name] for name in sorted(datasets)),
        tuple(sorted(models, key=lambda run: (run.dataset, run.model, _natural(run.seed), run.decoding))),
        tuple(aligners),
        tuple(dict.fromkeys(map(_sentence_of, stated))),
        Draws(**(manifest.interval or next(iter(stated), {}))),
    )


def read_aligner(path: Path) -> ScoredAligner:
    """Returns the content of an aligner's metrics file; raises if a value is missing or not a number."""
    content = read_json(path, _ADVICE)
    with taking(path, _ADVICE):
        names = AlignerId(*(values.name(content, name) for name in ("dataset", "aligner", "text", "size")))
        file = _sentences(path, content)
        return ScoredAligner(
            id=names,
            pair=pair_of(content),
            train_pairs=values.whole(content, "train_pairs"),
            sentences=values.whole(content, "sentences", least=1),
            rows=tuple(_score(row, SentenceRow(file, k)) for k, row in enumerate(values.mappings(content, "rows"))),
            interval=interval_of(content),
            changed=path.stat().st_mtime,
        )


def pair_of(content: dict[str, Any]) -> tuple[str, str]:
    """Returns the two languages of a metrics file."""
    pair = content["pair"]
    first, second = pair.split("-") if isinstance(pair, str) else values.texts(content, "pair")
    return first, second


def _dataset(content: dict[str, Any]) -> ScoredDataset:
    return ScoredDataset(values.text(content, "dataset"), pair_of(content), values.whole(content, "sentences", least=1))


def _sentences(path: Path, content: dict[str, Any]) -> SentenceFile:
    names = tuple(map(row_name, values.mappings(content, "rows")))
    return SentenceFile(path, names, values.whole(content, "sentences", least=1))


def _attributed(content: dict[str, Any], file: SentenceFile) -> AttributedModel:
    if content["decoding"] not in DECODINGS:
        raise ValueError(f"decoding {content['decoding']!r}")
    scores: dict[tuple[str, str, str], list[Score]] = {}
    for place, row in enumerate(values.mappings(content, "rows")):
        method, extraction, links = (values.text(row, name) for name in ("method", "extraction", "links"))
        parse(method)  # an unknown name means damage
        seeds = scores.setdefault((without_noise_seed(method), extraction, links), [])
        seeds.append(_score(row, SentenceRow(file, place)))
    return AttributedModel(
        dataset=values.text(content, "dataset"),
        model=values.text(content, "model"),
        architecture=values.text(content, "architecture"),
        seed=values.name(content, "seed"),
        decoding=values.text(content, "decoding"),
        scores={key: sorted(seeds, key=lambda score: score.noise_seed) for key, seeds in scores.items()},
        weights=values.name(content, "weights") if "weights" in content else FINAL,
        split=values.text(content, "split") if "split" in content else TEST,
    )


def without_noise_seed(method: str) -> str:
    """Returns a canonical method as it would be with the first noise seed."""
    return ",".join(part for part in method.split(",") if not part.startswith("seed="))


def _score(row: dict[str, Any], sentences: SentenceRow) -> Score:
    parameters = values.mapping(row, "parameters") if "parameters" in row else {}
    return Score(
        links=values.text(row, "links"),
        kind=values.text(row, "kind"),
        aer=_percent(row, "aer"),
        low=_percent(row, "aer_low"),
        high=_percent(row, "aer_high"),
        precision=_percent(row, "precision"),
        recall=_percent(row, "recall"),
        f1=_percent(row, "f1"),
        links_count=values.whole(row, "links_count"),
        sure=values.whole(row, "sure"),
        possible=values.whole(row, "possible"),
        entropy=_optional(row, "entropy"),
        noise_seed=values.whole(parameters, "seed") if "seed" in parameters else 1,
        sentences=sentences,
        score_mean=_optional(row, "score_mean"),
        causes=_causes(row),
    )


def _causes(row: dict[str, Any]) -> CauseScore | None:
    if row.get("cause_hits") is None:
        return None
    return CauseScore(*(_percent(row, f"cause_{name}") for name in ("hits", "low", "high", "chance")))


def _percent(row: dict[str, Any], key: str) -> float:
    return values.number_or_nan(row, key, 0, 100)


def _optional(row: dict[str, Any], key: str) -> float:
    return values.number_or_nan(row, key) if key in row else math.nan


def _sentence_of(draws: dict[str, Any]) -> str:
    return f"{draws['level']:g} % bootstrap interval over sentences ({draws['samples']} samples, seed {draws['seed']})"


def _natural(text: str) -> tuple[int, str]:
    return (int(text), "") if _NATURAL.fullmatch(text) else (1 << 62, text)
