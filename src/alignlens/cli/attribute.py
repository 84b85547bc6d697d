"""``alignlens attribute``: how much every source piece had to do with every target piece, by one or many methods."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.attribution.registry import check_architectures, parse_all
from alignlens.attribution.settings import AttributionSettings
from alignlens.cli.about import about_of, add_about, occasion, run_name
from alignlens.cli.model_run import model_run
from alignlens.cli.numbers import real
from alignlens.cli.pairs import add_translation, beam_of, translated
from alignlens.cli.paths import Outputs
from alignlens.cli.shards import add_shards, check_gathering, shard_of
from alignlens.cli.trained import (
    SHARED,
    add_compute,
    add_masks,
    add_model,
    add_texts,
    check_compute,
    load,
    masks_for,
    workers,
)
from alignlens.errors import ConfigError
from alignlens.io.limits import ADAPTIVE
from alignlens.io.progress import Progress
from alignlens.results.paths import FORCED, FREE
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from alignlens.attribution.registry import Method
    from alignlens.corpora.tokens import TokenStore
    from alignlens.decoding.given import Given
    from alignlens.decoding.translate import TrainedModel
    from alignlens.models.contract import Seq2Seq
    from alignlens.tracking.journal import Run

OUTPUTS = Outputs(folders=("out",))
# After this time a run is shown in MLflow while it runs; a shorter one would end before the store is open.
_LIVE_AFTER_SECONDS = 120.0
_MEASURE_EVERY_SECONDS = 15.0
_WORK, _OPTIONAL = ("model", "source", "methods"), ("target", "masks")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    add_model(parser, required=False)
    add_masks(parser)
    add_texts(parser, "whose pieces are explained; without it, the model translates", required=False)
    parser.add_argument("--methods", nargs="+", metavar="M", help="name or name,key=value (alignlens align --list)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the scores of all methods")
    add_adaptive(parser)
    add_translation(parser, written=False)
    add_shards(parser, "folders", "DIR")
    add_compute(parser, AttributionSettings.batch_tokens, threads=SHARED)
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens attribute --model model --source test.de --target test.en \\\n"
        "      --methods attention ding_grad ding_smoothgrad,n=30 --out scores\n"
        "  alignlens extract --matrices scores --help      # from scores to links\n\n"
        "Methods that need the same passes through the model share them: give all methods at once."
    )


def add_adaptive(parser: argparse.ArgumentParser) -> None:
    """Adds --adaptive."""
    parser.add_argument(
        "--adaptive",
        type=real(ADAPTIVE),
        metavar="RISK",
        help="smoothed methods stop drawing for a piece whose best source piece is settled up to this risk, e.g. 0.01",
    )


def check_adaptive(risk: float | None) -> None:
    """Raises for a risk outside its range."""
    if risk is not None and not 0 < risk < 0.5:
        raise ConfigError(f"--adaptive {risk:g}: a risk must lie between 0 and 0.5, e.g. 0.01")


def run(args: argparse.Namespace) -> None:
    """Writes the scores of all methods, or puts those of several parts together."""
    about = about_of(args)
    check_gathering(args, _WORK, _OPTIONAL)
    result = _gathered(args, about) if args.gather else _attributed(args, about)
    if args.json:
        print(json.dumps(result))


def _gathered(args: argparse.Namespace, about: dict[str, Any]) -> dict[str, float]:
    from alignlens.io.matrices import Matrices, gather

    with Journal(args.journal) as journal:
        record = journal.run(**_identity(about), params={"parts": len(args.gather)})
        gather(args.gather, args.out)
        scores = Matrices.open(args.out)
        result = {**_numbers(scores.facts["statistics"]), "sentences": len(scores), "parts": len(args.gather)}
        record.metrics(result)
        record.artifact(args.out / "facts.json")
    return result


def _attributed(args: argparse.Namespace, about: dict[str, Any]) -> dict[str, float]:
    check_compute(args)
    check_adaptive(args.adaptive)
    shard = shard_of(args.shard)
    methods = parse_all(args.methods)
    from alignlens.decoding.given import Given, open_pair

    source, target = (Given.open(args.source), None) if args.target is None else open_pair(args.source, args.target)
    with Journal(args.journal) as journal:
        params = {
            "weights": args.weights,
            "methods": len(methods),
            "adaptive": "no" if args.adaptive is None else args.adaptive,
            "batch_tokens": args.batch_tokens,
        }
        record = journal.run(**_identity(about), params=params)
        trained = load(args)
        check_architectures(methods, [trained.spec.architecture])
        masks = masks_for(args, trained, methods)
        texts = _texts(args, trained, source, target)
        result = _write_scores(args, about, trained, masks, texts, methods, shard, _Watch(journal, record))
        record.metrics(result)
        record.artifact(args.out / "facts.json")
    return result


def _texts(
    args: argparse.Namespace, trained: TrainedModel, source: Given, target: Given | None
) -> tuple[TokenStore, TokenStore]:
    """Returns the pieces to read, and those to explain: given ones, or the model's translation."""
    read = trained.source_ids(source)
    if target is not None:
        return read, trained.target_ids(target)
    return read, translated(trained, read, beam_of(args), args.batch_tokens)


def _write_scores(
    args: argparse.Namespace,
    about: dict[str, Any],
    trained: TrainedModel,
    masks: Seq2Seq | None,
    texts: tuple[TokenStore, TokenStore],
    methods: list[Method],
    shard: tuple[int, int],
    watch: _Watch,
) -> dict[str, float]:
    """Streams scores to the folder; returns what was done, in numbers."""
    import numpy as np

    from alignlens.attribution.corpus import attribute, numbers_of
    from alignlens.attribution.statistics import Statistics
    from alignlens.io.matrices import SENTENCES, MatrixWriter

    begin = trained.spec.source_begin
    source, target = texts
    numbers = numbers_of(source, target, shard)
    shapes = np.stack([target.lengths(numbers) + 1, source.lengths(numbers) + 1 + begin], axis=1)
    names = [method.text for method in methods]
    of_prefix = [name for method in methods for name in method.matrices[1:]]
    facts: dict[str, Any] = {
        "methods": names,
        SENTENCES: len(source),
        # Without the part: the facts of all parts are the same.
        "model": {key: value for key, value in about.items() if key != "shard"} | {"weights": args.weights},
        "decoding": about.get("decoding", FREE if args.target is None else FORCED),
        "source_begin": begin,
        "adaptive": args.adaptive,
    }
    statistics = Statistics()
    started = time.monotonic()
    with (
        Progress("attribute", len(numbers)) as progress,
        MatrixWriter(args.out, names, shapes, facts, numbers, of_prefix) as writer,
    ):
        scores = attribute(
            trained.model,
            source,
            target,
            methods,
            tokens=args.batch_tokens,
            source_begin=begin,
            adaptive=args.adaptive,
            shard=shard,
            workers=workers(args),
            advance=watch.beside(progress.advance),
            statistics=statistics,
            masks=masks,
        )
        for number, matrices in scores:
            writer.write(number, matrices)
        facts["statistics"] = statistics.as_json()
    seconds = time.monotonic() - started
    return {
        **_numbers(facts["statistics"]),
        "sentences": len(numbers),
        "target_pieces": int(shapes[:, 0].sum()),
        "attribution_seconds": seconds,
        "sentences_per_second": len(numbers) / max(seconds, 1e-9),
    }


class _Watch:
    """Records progress, and shows a long run in MLflow."""

    def __init__(self, journal: Journal, record: Run) -> None:
        self._journal, self._record = journal, record
        self._started = self._measured = time.monotonic()
        self._done = 0
        self._live = False

    def beside(self, advance: Callable[[int], None]) -> Callable[[int], None]:
        """Returns a function that passes the number of sentences done on to both."""

        def measured(amount: int) -> None:
            advance(amount)
            self._done += amount
            now = time.monotonic()
            if now - self._measured < _MEASURE_EVERY_SECONDS:
                return
            self._measured = now
            self._record.metric("sentences_done", self._done, self._done)
            uri = os.environ.get("MLFLOW_TRACKING_URI")
            if uri and not self._live and now - self._started > _LIVE_AFTER_SECONDS:
                self._live = True
                self._journal.show_live(uri)

        return measured


def _identity(about: dict[str, Any]) -> dict[str, Any]:
    """Returns experiment, name (``demo · xa-xb · transformer · s1 · attribute · forced``), identity, tags and group."""
    common = model_run(about, "attribute")
    part = f"part {about['shard']}" if "shard" in about else None
    return {**common, "name": run_name(common["name"], occasion(about), part)}


def _numbers(statistics: dict[str, int]) -> dict[str, float]:
    """Returns counters under names that MLflow takes; those of single methods are added up, or shares of relevance."""
    from alignlens.attribution.statistics import lost_shares

    common: dict[str, float] = {key: value for key, value in statistics.items() if " " not in key}
    copies = [value for key, value in statistics.items() if key.startswith("copies ")]
    lost = {
        f"lost/{method.replace(',', ' ').replace('=', ' ')}/{kind}": share
        for (method, kind), share in lost_shares(statistics).items()
    }
    return {**common, **({"copies": sum(copies)} if copies else {}), **lost}
