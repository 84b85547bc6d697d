"""A small pipeline, really run: every kind of file that a step reads, in the places where the workflow puts them.

The commands are those of ``rules/``, journals included, on a generated text of a few sentences.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness import run

from alignlens.io.atomic import write_json
from alignlens.results.manifest import FILE as MANIFEST
from alignlens.results.manifest import Manifest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROJECT = Path(__file__).parents[2]
R = "results/tiny"
DATA, PIECES, TOKENS, SUBWORDS = f"{R}/data/tiny", f"{R}/pieces/tiny", f"{R}/tokens/tiny", f"{R}/subwords/tiny"
STUDY = "kobayashi2020"
PAIR = ("xa", "xb")
DIRECTIONS = ("xa-xb", "xb-xa")
MODEL = "tiny/xa-xb/transformer/1"
MODEL_FOLDER = f"{R}/models/{MODEL}/model"
ATTRIBUTION = f"{R}/attributions/tiny/transformer/1/final/test/forced"
SCORES, LINKS = f"{ATTRIBUTION}/xa-xb/matrices", f"{ATTRIBUTION}/xa-xb/links"
ALIGNERS = {"fast_align": None, "ibm1": None, "hmm": "ibm1", "ibm4": "hmm", "eflomal": None}
ASKED = {"weights": "final", "split": "test", "decoding": "forced"}
METHODS = ("attention", "ding_grad", "attention,layer=0,head=0")
DEFINITION = {
    "kind": "synthetic",
    "pair": PAIR,
    "settings": {"train": 120, "dev": 8, "test": 12},
}
TRAINING = {
    "batch_tokens": 200,
    "warmup": 4,
    "learning_rate": 5e-3,
    "max_updates": 8,
    "validate_every": 4,
    "validate_sentences": 2,
    "average": 2,
}
SETTINGS = {
    "architecture": "transformer",
    "model": {"dim": 16, "ffn": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 2},
    "training": TRAINING,
}


def step(*arguments: str, journal: str, **about: object) -> list[str]:
    """Returns the arguments of a step with its journal, as a rule gives them."""
    told = json.dumps({"preset": "tiny", "dataset": "tiny", **about}, sort_keys=True)
    return [*arguments, "--journal", f"{journal}.journal.jsonl", "--about", told]


def prepare(out: str = DATA) -> list[str]:
    """The command that makes the text."""
    shared = ["--definition", json.dumps(DEFINITION), "--settings", "{}", "--preset", "tiny"]
    return ["data", "prepare", "tiny", *shared, "--out", out, "--journal", f"{out}/prepare.journal.jsonl"]


def subwords(out: str = SUBWORDS) -> list[str]:
    """The command that trains the subwords."""
    text = ["--source", f"{DATA}/train.source", "--target", f"{DATA}/train.target"]
    return step("subwords", "train", *text, "--kind", "joint", "--vocab", "320", "--out", out, journal=out)


def segment(split: str, side: str, place: str = R) -> list[str]:
    """The command that writes pieces and numbers of a text."""
    out = f"{place}/pieces/tiny/{split}.{side}"
    made = ["--out", out, "--tokens", f"{place}/tokens/tiny/{split}.{side}"]
    text = ["--model", f"{SUBWORDS}/{side}.model", "--input", f"{DATA}/{split}.{side}"]
    return step("subwords", "segment", *text, *made, journal=out)


def train(direction: str = "xa-xb", place: str = "", **changes: object) -> list[str]:
    """The command that trains a model."""
    source, target = sides(direction)
    place = place or f"{R}/models/tiny/{direction}/transformer/1"
    files = {
        "train-source": f"{TOKENS}/train.{source}",
        "train-target": f"{TOKENS}/train.{target}",
        "dev-source": f"{TOKENS}/dev.{source}",
        "dev-target": f"{TOKENS}/dev.{target}",
        "dev-text": f"{DATA}/dev.{target}",
        "source-subwords": f"{SUBWORDS}/{source}.model",
        "target-subwords": f"{SUBWORDS}/{target}.model",
    }
    named = [text for key, path in files.items() for text in (f"--{key}", path)]
    settings = json.dumps({**SETTINGS, "training": {**TRAINING, **changes}})
    made = ["--work", f"{place}/work", "--threads", "1", "--out", f"{place}/model"]
    about = {"direction": direction, "model": "transformer", "seed": "1"}
    return step("train", "--settings", settings, "--seed", "1", *named, *made, journal=f"{place}/model", **about)


def masks(place: str, updates: int) -> list[str]:
    """The command that trains mask nets, on text, of which it holds some out."""
    text = ["--source", f"{DATA}/train.source", "--target", f"{DATA}/train.target"]
    settings = json.dumps({"updates": updates, "training": {"batch_tokens": 200, "validate_every": 10}})
    made = ["--work", f"{place}/work", "--threads", "1", "--out", f"{place}/masks"]
    about = {"direction": "xa-xb", "model": "transformer", "seed": "1"}
    told = ["--model", MODEL_FOLDER, "--settings", settings, "--seed", "1", *text, *made]
    return step("masks", *told, journal=f"{place}/masks", **about)


def sides(direction: str) -> tuple[str, str]:
    """What a model of this direction reads and writes."""
    return ("source", "target") if direction == "xa-xb" else ("target", "source")


def text_of(direction: str = "xa-xb") -> list[str]:
    """The test text as two options."""
    source, target = sides(direction)
    return ["--source", f"{DATA}/test.{source}", "--target", f"{DATA}/test.{target}"]


def tokens_of(direction: str = "xa-xb") -> list[str]:
    """The same as token stores."""
    source, target = sides(direction)
    return ["--source", f"{TOKENS}/test.{source}", "--target", f"{TOKENS}/test.{target}"]


def aligner(name: str, direction: str = "xa-xb", place: str = R) -> list[str]:
    """The command that trains an aligner and applies it."""
    run_of = f"tiny/{name}/offline/all"
    out = f"{place}/links/{run_of}/{direction}.pharaoh"
    texts = ["--train-source", f"{DATA}/train.source", "--train-target", f"{DATA}/train.target", *text_of()]
    parent = ["--parent", f"{R}/aligners/tiny/{ALIGNERS[name]}/offline/all/{direction}/model"] if ALIGNERS[name] else []
    made = ["--model", f"{place}/aligners/{run_of}/{direction}/model", "--out", out]
    way = ["--reverse"] if direction == "xb-xa" else []
    about = {"aligner": name, "text": "offline", "size": "all", "direction": direction}
    return step("aligner", name, *texts, *parent, *way, *made, journal=out, **about)


def align_stored(name: str, out: str) -> list[str]:
    """The command that applies a stored aligner."""
    return ["aligner", name, "--model", f"{R}/aligners/tiny/{name}/offline/all/xa-xb/model", *text_of(), "--out", out]


def attribute(direction: str = "xa-xb", out: str = "", shard: str = "1/1") -> list[str]:
    """The command that asks a model."""
    out = out or f"{ATTRIBUTION}/{direction}/matrices"
    model = f"{R}/models/tiny/{direction}/transformer/1/model"
    asked = ["--methods", *METHODS, "--shard", shard, "--threads", "1"]
    about = {"direction": direction, "model": "transformer", "seed": "1", **ASKED}
    return step("attribute", "--model", model, *tokens_of(direction), *asked, "--out", out, journal=out, **about)


def extract(direction: str = "xa-xb", out: str = "") -> list[str]:
    """The command that reads links off scores."""
    out = out or f"{ATTRIBUTION}/{direction}/links"
    source, target = sides(direction)
    pieces = ["--source-pieces", f"{PIECES}/test.{source}", "--target-pieces", f"{PIECES}/test.{target}"]
    turn = ["--transpose"] if direction == "xb-xa" else []
    scores = f"{ATTRIBUTION}/{direction}/matrices"
    about = {"direction": direction, "model": "transformer", "seed": "1", **ASKED}
    return step("extract", "--matrices", scores, *pieces, *turn, "--out-dir", out, journal=out, **about)


def score_methods(out: str, shard: str = "1/1", sentences: str = "") -> list[str]:
    """The command that scores the links of all methods; ``sentences`` stand beside ``out``."""
    cells = [f"{name}={ATTRIBUTION}/{name}/links={DATA}/test.gold" for name in (*DIRECTIONS, "bidir")]
    causes = ["--causes", f"xa-xb={DATA}/test.causes={DATA}/test.source"]
    about = {"model": "transformer", "seed": "1", **ASKED, "architecture": "transformer", "study": ""}
    return step(
        "score-methods",
        "--cell",
        *cells,
        *causes,
        "--shard",
        shard,
        "--samples",
        "20",
        "--out",
        out,
        "--sentences",
        sentences or out.replace(".json", ".npz"),
        journal=out,
        pair=PAIR,
        **about,
    )


def score(aligner_name: str, out: str, sentences: str) -> list[str]:
    """The command that scores the links of an aligner."""
    run_of = f"tiny/{aligner_name}/offline/all"
    links = [f"{R}/links/{run_of}/{name}.pharaoh" for name in ("xa-xb",)]
    trained = ["--trained-as", f"{R}/aligners/{run_of}/xa-xb/model"]
    about = {"aligner": aligner_name, "text": "offline", "size": "all", "pair": PAIR, "directions": DIRECTIONS}
    asked = ["--gold", f"{DATA}/test.gold", *text_of(), "--links", *links, *trained, "--samples", "20"]
    return step("score", *asked, "--out", out, "--sentences", sentences, journal=out, **about)


def commands() -> Iterator[list[str]]:
    """All commands in their order."""
    yield prepare()
    yield subwords()
    for split in ("train", "dev", "test"):
        for side in ("source", "target"):
            yield segment(split, side)
    yield from (train(direction) for direction in DIRECTIONS)
    about = {"direction": "xa-xb", "model": "transformer", "seed": "1"}
    place = f"{R}/translations/{MODEL}"
    model = ["--model", MODEL_FOLDER]
    text = f"{place}/test.txt"
    generated = ["--out", text, "--pieces", f"{place}/test.pieces", "--tokens", f"{place}/test.tokens"]
    yield step("translate", *model, *tokens_of()[:2], *generated, journal=text, **about)
    forced = ["--out", f"{place}/forced.json", "--per-sentence", f"{place}/forced.tsv"]
    yield step("force", *model, *tokens_of(), *forced, journal=f"{place}/forced.json", **about)
    bleu = ["--hypothesis", text, "--reference", f"{DATA}/test.target", "--tokenize", "none", "--samples", "20"]
    yield step("bleu", *bleu, "--out", f"{place}/bleu.json", journal=f"{place}/bleu.json", **about)
    for name in ALIGNERS:
        yield aligner(name)
    yield aligner("fast_align", "xb-xa")
    for name in ("fast_align", "eflomal"):
        out = f"{R}/scores/tiny/{name}/offline/all"
        yield score(name, f"{out}/metrics.json", f"{out}/sentences.npz")
    for direction in DIRECTIONS:
        yield attribute(direction)
        yield extract(direction)
    both = ["--forward-dir", LINKS, "--reverse-dir", f"{ATTRIBUTION}/xb-xa/links"]
    bidir = f"{ATTRIBUTION}/bidir/links"
    yield step("symmetrize", *both, "--method", "grow-diag", "--out-dir", bidir, journal=bidir, **about)
    for shard in ("1", "2"):
        yield attribute(out=f"{ATTRIBUTION}/xa-xb/matrices.shards/{shard}", shard=f"{shard}/2")
    yield score_methods(f"{ATTRIBUTION}/metrics.json", sentences=f"{ATTRIBUTION}/sentences.npz")
    for shard in ("1", "2"):
        yield score_methods(f"{ATTRIBUTION}/metrics.shards/{shard}.json", f"{shard}/2")
    cost = f"{ATTRIBUTION}/xa-xb/cost.json"
    asked = ["--methods", "attention", "--sentences", "2", "--seconds", "0.1", "--threads", "1"]
    yield step("cost", *model, *tokens_of(), *asked, "--out", cost, journal=cost, **about)
    out = f"{R}/encoders/{MODEL}"
    counts = [*tokens_of()[:2], "--counts", f"{TOKENS}/train.source", "--sequences", "12"]
    yield step("encoder", *model, *counts, "--out", out, journal=out, **about)
    yield ["study", STUDY, "--results", R, "--out", f"{R}/{STUDY}", "--about", '{"preset": "tiny"}']


@dataclass(frozen=True)
class Bench:
    """The finished pipeline, to be copied for every drill."""

    folder: Path

    @classmethod
    def build(cls, folder: Path) -> Bench:
        """Runs all commands in a new folder; one that fails is a mistake of the drills, or a broken product."""
        shutil.copytree(PROJECT / "config", folder / "config")
        for arguments in commands():
            outcome = run(arguments, folder)
            if outcome.code != 0:
                raise SystemExit(f"drills: the pipeline broke at alignlens {' '.join(arguments)}:\n{outcome.err}")
        # Pages and figures of a study are read by nobody, and large.
        for path in (folder / R / STUDY).iterdir():
            if path.suffix != ".json" and not path.name.startswith("."):
                path.unlink()
        write_json(folder / R / STUDY / MANIFEST, Manifest.whole(folder / R).as_json())
        return cls(folder)

    def copy(self, folder: Path, parts: Sequence[str] = (".",)) -> None:
        """Copies it, or parts of it, into a folder."""
        for part in parts:
            source, target = self.folder / part, folder / part
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True, symlinks=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
