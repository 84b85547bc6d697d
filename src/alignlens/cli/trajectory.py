"""``alignlens trajectory``: what a translation model says of a text at every checkpoint, and how good it was there."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from alignlens.attribution.registry import check_architectures, parse_all
from alignlens.attribution.settings import AttributionSettings
from alignlens.cli.about import about_of, add_about, occasion, run_name
from alignlens.cli.model_run import model_run
from alignlens.cli.numbers import count
from alignlens.cli.paths import Outputs
from alignlens.cli.trained import SHARED, add_compute, add_texts, check_compute, load, workers
from alignlens.decoding.settings import BeamSettings, Tokenizer, TranslationSettings
from alignlens.errors import ConfigError, InputError
from alignlens.io.atomic import check_replaceable
from alignlens.io.checksum import sha256_of
from alignlens.io.limits import BEAM
from alignlens.io.matrices import KIND
from alignlens.io.parts import parts_folder, remove_parts
from alignlens.io.progress import Progress
from alignlens.io.text import check_equal_counts, read_lines
from alignlens.io.trajectories import FINAL, Trajectory, join_trajectories, weights_name, write_trajectory
from alignlens.tracking.journal import Journal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from alignlens.attribution.registry import Method
    from alignlens.corpora.tokens import TokenStore
    from alignlens.decoding.given import Given
    from alignlens.decoding.translate import TrainedModel
    from alignlens.io.matrices import Matrix
    from alignlens.tracking.journal import Run

OUTPUTS = Outputs(folders=("out", "work"), words=("checkpoints",))
_STEP = "trajectory"
_KEPT = "weights"  # what training calls the checkpoint that it kept
_SNAPSHOTS = "snapshots"
_IDENTITY = "identity"
_UPDATE = re.compile(r"[0-9]{1,12}")
# After this time a run is shown in MLflow while it runs; a shorter one would end before the store is open.
_LIVE_AFTER_SECONDS = 120.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the verb."""
    beam = BeamSettings().beam
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="folder that alignlens train wrote")
    # The model itself is loaded with the weights that were kept.
    parser.set_defaults(weights=_KEPT)
    text = "updates of its snapshots (default: all); the final weights are always included"
    parser.add_argument("--weights", nargs="+", dest="checkpoints", metavar="NAME", help=text)
    add_texts(parser, "whose pieces are explained")
    parser.add_argument(
        "--methods", nargs="+", required=True, metavar="M", help="name or name,key=value (alignlens align --list)"
    )
    parser.add_argument("--bleu", metavar="TEXT", help="reference: also translate the source and measure BLEU")
    parser.add_argument("--beam", type=count(BEAM), default=beam, metavar="N", help=f"of these (default {beam})")
    usual = TranslationSettings.bleu_tokenize
    parser.add_argument(
        "--tokenize", default=usual, choices=get_args(Tokenizer), help=f"for BLEU (default {usual}: tokenised text)"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the trajectory")
    text = "finished checkpoints; removed at the end (default: OUT.work)"
    parser.add_argument("--work", type=Path, metavar="DIR", help=text)
    add_compute(parser, AttributionSettings.batch_tokens, threads=SHARED)
    add_about(parser)
    parser.epilog = (
        "example:\n  alignlens trajectory --model model --source dev.de --target dev.en \\\n"
        "      --methods attention probe grad_input --bleu dev.en --out trajectory\n\n"
        "Finished checkpoints are kept: the same command continues, even after kill -9.\n"
        "alignlens agreement compares trajectories."
    )


def run(args: argparse.Namespace) -> None:
    """Runs the methods at every checkpoint, and writes and records the results."""
    check_compute(args)
    methods = parse_all(args.methods)
    about = about_of(args)
    check_replaceable(args.out, KIND)
    from alignlens.decoding.given import open_pair

    source, target = open_pair(args.source, args.target)
    references = None if args.bleu is None else read_lines(args.bleu)
    if references is not None:
        check_equal_counts([args.source, args.bleu], [len(source), len(references)])
    work = args.work or args.out.with_name(f"{args.out.name}.work")
    with parts_folder(work) as folder, Journal(args.journal) as journal:
        record = journal.run(**_identity(about), params=_params(args, methods))
        trained = load(args)
        check_architectures(methods, [trained.spec.architecture])
        files = _checkpoints(trained.folder, args.checkpoints)
        texts = trained.source_ids(source), trained.target_ids(target)
        asked = _Asked(args, trained, texts, methods, references, _request(args, source, target, methods))
        parts = _parts(asked, files, folder, journal, record)
        facts = {"model": about, "split": about.get("split", ""), "decoding": "forced", **asked.request}
        join_trajectories(args.out, parts, {**facts, "source_begin": trained.spec.source_begin})
        remove_parts(folder, KIND)
        record.artifact(args.out / "facts.json")
        performance = {part.weights[0]: part.performance[part.weights[0]] for part in parts}
        record.metrics({f"{name}_{FINAL}": value for name, value in performance[FINAL].items()})
    if args.json:
        print(json.dumps({"sentences": len(source), "performance": performance}))


def _params(args: argparse.Namespace, methods: list[Method]) -> dict[str, Any]:
    params = {"methods": " ".join(method.text for method in methods), "batch_tokens": args.batch_tokens}
    return params if args.bleu is None else {**params, "beam": args.beam, "tokenize": args.tokenize}


def _request(args: argparse.Namespace, source: Given, target: Given, methods: list[Method]) -> dict[str, Any]:
    """Returns what the results depend on besides the weights; parts from another command are computed again."""
    facts: dict[str, Any] = {"methods": [method.text for method in methods]}
    facts |= {"source": source.facts(), "target": target.facts()}
    if args.bleu is not None:
        facts["bleu"] = {"reference": sha256_of(args.bleu), "beam": args.beam, "tokenize": args.tokenize}
    return facts


def _checkpoints(folder: Path, named: list[str] | None) -> dict[str, Path]:
    """Returns the files of all checkpoints that are asked for, in the order of training; the kept one is the last."""
    files = (folder / _SNAPSHOTS).glob("*.safetensors")
    there = {path.stem: path for path in files if _UPDATE.fullmatch(path.stem)}
    chosen = sorted(there, key=int)
    if named is not None:
        if wrong := [name for name in named if name != FINAL and not _UPDATE.fullmatch(name)]:
            raise ConfigError(f"--weights {wrong[0]}: must be an update, e.g. 500, or {FINAL}")
        wanted = {weights_name(int(name)) for name in named if name != FINAL}
        if missing := sorted(wanted - set(there), key=int):
            known = ", ".join(str(int(name)) for name in chosen) or "none"
            raise InputError(f"no snapshot of update {int(missing[0])}.", folder, advice=f"The model has: {known}.")
        chosen = sorted(wanted, key=int)
    return {**{name: there[name] for name in chosen}, FINAL: folder / f"{_KEPT}.safetensors"}


def _parts(asked: _Asked, files: dict[str, Path], folder: Path, journal: Journal, record: Run) -> list[Trajectory]:
    """Returns the trajectory of every single checkpoint, those that were made before included."""
    done = {weights: part for weights in files if (part := _finished(folder / weights, weights, asked, files[weights]))}
    started, shown = time.monotonic(), False
    with Progress(_STEP, len(files) * asked.units) as progress:
        progress.start_at(len(done) * asked.units)
        for place, (weights, path) in enumerate(files.items(), start=1):
            if weights not in done:

                def advance(amount: int, note: str = f"checkpoint {place} of {len(files)}") -> None:
                    progress.advance(amount, note)

                asked.write(folder / weights, weights, path, advance)
                done[weights] = Trajectory.open(folder / weights)
            if weights != FINAL:
                record.metrics(done[weights].performance[weights], int(weights))
            uri = os.environ.get("MLFLOW_TRACKING_URI")
            if uri and not shown and time.monotonic() - started > _LIVE_AFTER_SECONDS:
                shown = True
                journal.show_live(uri)
    return [done[weights] for weights in files]


def _finished(folder: Path, weights: str, asked: _Asked, path: Path) -> Trajectory | None:
    """Returns a part that an earlier process finished, if it is for the same request."""
    if not folder.is_dir():
        return None
    part = Trajectory.open(folder)
    same = part.weights == (weights,) and part.facts.get(_IDENTITY) == asked.identity(path)
    return part if same else None


@dataclass(frozen=True)
class _Asked:
    """A model, and what is run on it at every checkpoint."""

    args: argparse.Namespace
    trained: TrainedModel
    texts: tuple[TokenStore, TokenStore]
    methods: list[Method]
    references: list[str] | None
    request: dict[str, Any]

    @property
    def units(self) -> int:
        """How often a sentence is read at one checkpoint, times sentences."""
        return len(self.texts[0]) * (2 if self.references is None else 3)

    def identity(self, path: Path) -> dict[str, Any]:
        """Returns the identity of a part, as it reads after a round trip through JSON."""
        identity: dict[str, Any] = json.loads(json.dumps({**self.request, "checkpoint": sha256_of(path)}))
        return identity

    def write(self, folder: Path, weights: str, path: Path, advance: Callable[[int], None]) -> None:
        """Puts the weights of a checkpoint into the model, asks it, and writes the answers."""
        from alignlens.io.seals import verify_member
        from alignlens.models.checkpoint import load_tensors, put_weights

        verify_member(self.trained.folder, path.relative_to(self.trained.folder).as_posix())
        identity = self.identity(path)
        put_weights(self.trained.model, load_tensors(path)[0], path)
        performance, correct = self._forced(advance)
        if self.references is not None:
            performance["bleu"] = self._bleu(self.references, advance)
        matrices = self._matrices(advance)
        write_trajectory(folder, {weights: matrices}, {weights: performance}, {_IDENTITY: identity}, {weights: correct})

    def _forced(self, advance: Callable[[int], None]) -> tuple[dict[str, float], list[str]]:
        """Returns how good the model is, and which labels of every sentence are its first choice."""
        from alignlens.decoding.forced import force_all

        forced = force_all(
            self.trained.model,
            *self.texts,
            vocabulary=self.trained.spec.target_vocab,
            tokens=self.args.batch_tokens,
            source_begin=self.trained.spec.source_begin,
            advance=advance,
        )
        summary = forced.summary()
        correct = ["".join("01"[hit] for hit in row.tolist()) for row in forced.correct]
        return {name: summary[name] for name in ("accuracy", "loss")}, correct

    def _bleu(self, references: list[str], advance: Callable[[int], None]) -> float:
        from alignlens.decoding.translate import translate
        from alignlens.metrics.bleu import corpus_bleu

        settings = replace(BeamSettings(), beam=self.args.beam)
        begin = self.trained.spec.source_begin
        hypotheses = translate(self.trained.model, self.texts[0], settings, source_begin=begin, advance=advance)
        return corpus_bleu([self.trained.text(each.ids) for each in hypotheses], references, self.args.tokenize).bleu

    def _matrices(self, advance: Callable[[int], None]) -> dict[str, list[Matrix]]:
        from alignlens.attribution.corpus import attribute

        scores = attribute(
            self.trained.model,
            *self.texts,
            self.methods,
            tokens=self.args.batch_tokens,
            source_begin=self.trained.spec.source_begin,
            workers=workers(self.args),
            advance=advance,
        )
        by_number = dict(scores)
        numbers = range(len(self.texts[0]))
        names = [name for method in self.methods for name in method.matrices]
        return {name: [by_number[number][name] for number in numbers] for name in names}


def _identity(about: dict[str, Any]) -> dict[str, Any]:
    """Returns experiment, name (``demo · xa-xb · snell_attention · s1 · trajectory · dev``), identity, tags, group."""
    common = model_run(about, "trajectory")
    return {**common, "name": run_name(common["name"], occasion(about))}
