"""Damage: one file of the bench is harmed, and the verb that reads it must see it or give the same result.

Reported as clean only if the output is byte for byte that of the undamaged bench, or the verb ends with one line.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import bench as bench_files
from bench import ALIGNERS, ATTRIBUTION, DATA, LINKS, MODEL, MODEL_FOLDER, PIECES, SCORES, STUDY, SUBWORDS, TOKENS, R
from harness import Drill, Outcome, calm, run, works

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from bench import Bench

GROUP = "damage"
_NEW = ("new",)
_HARMS_OF_MANY = 3
_STUDY = ("claims.csv", "summary.json")


@dataclass(frozen=True)
class Reader:
    """A verb that reads files, and what of its output must be the same."""

    name: str
    arguments: Sequence[str]
    files: Sequence[str]
    """Files, or folders of which every file is meant, hidden ones too."""
    outputs: Sequence[str] = _NEW
    optional: bool = False
    """A file that is not there means something to it: no drill removes one."""
    others: tuple[str, str] = ("", "")
    """Where a file of the same kind is: a part of the path, and what to put for it."""


def _readers() -> Iterator[Reader]:
    for name in ALIGNERS:
        folder = f"{R}/aligners/tiny/{name}/offline/all/xa-xb/model"
        other = ("/xa-xb/", "/xb-xa/") if name == "fast_align" else ("/ibm1/", "/hmm/") if name == "ibm1" else ("", "")
        yield Reader(f"aligner {name}", bench_files.align_stored(name, "new/links"), [folder], others=other)
    turned = ("source", "target")
    trained = bench_files.train(place="new", max_updates=2, validate_every=2)
    result = ("new/model/weights.safetensors", "new/model/curves.csv")
    stores = [f"{TOKENS}/{split}.{side}" for split in ("train", "dev") for side in ("source", "target")]
    yield Reader("train", trained, [*stores, f"{DATA}/dev.target"], result, others=turned)
    yield Reader("train", trained, [f"{SUBWORDS}/source.model"], result)
    segmented = ["subwords", "segment", "--model", f"{SUBWORDS}/source.model", "--input", f"{DATA}/test.source"]
    yield Reader("subwords segment", [*segmented, "--out", "new/pieces"], [f"{SUBWORDS}/source.model"])
    translated = ["translate", "--model", MODEL_FOLDER, "--source", f"{DATA}/test.source", "--out", "new/text"]
    names = ("weights.safetensors", "model.json", "source.model", "target.model")
    away = ("/xa-xb/", "/xb-xa/")
    yield Reader("translate", translated, [f"{MODEL_FOLDER}/{name}" for name in names], others=away)
    best = [f"{MODEL_FOLDER}/best.safetensors"]
    yield Reader("translate best", [*translated, "--weights", "best"], best, others=away)
    yield Reader("translate", translated, [f"{DATA}/test.source"], others=("test", "dev"))
    stores = [f"{TOKENS}/test.source", f"{TOKENS}/test.target"]
    yield Reader("attribute", bench_files.attribute(out="new"), stores, others=("test", "dev"))
    yield Reader("extract", bench_files.extract(out="new"), [SCORES], others=away)
    pieces = [f"{PIECES}/test.source", f"{PIECES}/test.target"]
    yield Reader("extract", bench_files.extract(out="new"), pieces, others=turned)
    shards = f"{ATTRIBUTION}/xa-xb/matrices.shards"
    gathered = ["attribute", "--gather", f"{shards}/1", f"{shards}/2", "--out", "new"]
    yield Reader("attribute --gather", gathered, [f"{shards}/1"], others=("shards/1", "shards/2"))
    parts = [f"{ATTRIBUTION}/metrics.shards/{k}.json" for k in "12"]
    counted = [part.replace(".json", ".npz") for part in parts]
    joined = ["score-methods", "--gather", *parts, "--gather-sentences", *counted]
    joined += ["--out", "new/metrics.json", "--sentences", "new/sentences.npz"]
    yield Reader("score-methods --gather", joined, [parts[0], counted[0]], others=("shards/1", "shards/2"))
    scored = bench_files.score_methods("new/metrics.json")
    known = [f"{DATA}/test.gold", f"{DATA}/test.causes"]
    yield Reader("score-methods", scored, [LINKS, *known], others=("test", "dev"))
    both = ["--forward-dir", LINKS, "--reverse-dir", f"{ATTRIBUTION}/xb-xa/links"]
    symmetrized = ["symmetrize", *both, "--method", "grow-diag", "--out-dir", "new"]
    yield Reader("symmetrize", symmetrized, [LINKS], others=away)
    links = f"{R}/links/tiny/fast_align/offline/all"
    pair = ["--forward", f"{links}/xa-xb.pharaoh", "--reverse", f"{links}/xb-xa.pharaoh"]
    yield Reader("reference", ["reference", *pair, "--out", "new/gold"], [f"{links}/xa-xb.pharaoh"])
    score = bench_files.score("fast_align", "new/metrics.json", "new/sentences.npz")
    judged = [f"{links}/xa-xb.pharaoh", f"{DATA}/test.gold"]
    yield Reader("score", score, judged, others=("fast_align", "eflomal"))
    hypothesis = f"{R}/translations/{MODEL}/test.txt"
    bleu = ["bleu", "--hypothesis", hypothesis, "--reference", f"{DATA}/test.target", "--out", "new/bleu.json"]
    yield Reader("bleu", bleu, [hypothesis], others=("translations/" + MODEL + "/test.txt", "data/tiny/dev.target"))
    report = ["report", "--results", R, "--out", "new", "--page", "page.html"]
    tables = ("new/aer.md", "new/models.md", "new/methods.md", "new/aer.csv", "new/models.csv", "new/curves-tiny.svg")
    shown = [f"{R}/scores/tiny/{name}/offline/all/metrics.json" for name in ("fast_align", "eflomal")]
    shown += [f"{R}/translations/{MODEL}/{name}.json" for name in ("bleu", "forced")]
    shown += [f"{MODEL_FOLDER}/model.json", f"{MODEL_FOLDER}/curves.csv", f"{ATTRIBUTION}/xa-xb/cost.json"]
    shown += [f"{R}/kobayashi2020/summary.json", f"{DATA}/preparation.json", f"{ATTRIBUTION}/metrics.json"]
    shown += [SCORES]
    yield Reader("report", report, shown, tables, optional=True, others=("fast_align", "eflomal"))
    study = ["study", STUDY, "--results", R, "--out", "new"]
    made = tuple(f"new/{file}" for file in _STUDY)
    read = [f"{ATTRIBUTION}/metrics.json", f"{R}/encoders/{MODEL}"]
    yield Reader("study", study, read, made, optional=True)
    aligned = f"{R}/scores/tiny/fast_align/offline/all/sentences.npz"
    yield Reader("study", study, [f"{ATTRIBUTION}/sentences.npz", aligned, f"{R}/{STUDY}/manifest.json"], made)


def drills(bench: Bench, seed: int) -> Iterator[Drill]:
    """Yields every file with every kind of damage."""
    references: dict[tuple[str, ...], dict[str, str]] = {}
    seen = set()
    for reader in _readers():
        whole = f"{reader.name}: undamaged"
        if whole not in seen:
            seen.add(whole)
            yield Drill(GROUP, whole, reader.arguments, _same_or_refused(reader, references, bench, works()))
        for file in _files(bench.folder, reader):
            for what, harm in _chosen(reader, file, seed):
                if what == "removed" and reader.optional:
                    continue
                other = _other(bench.folder, file, reader) if what == "exchanged" else None
                if what == "exchanged" and other is None:
                    continue
                name = f"{reader.name}: {file.removeprefix(R + '/')}: {what}"
                if name in seen:
                    continue
                seen.add(name)
                draw = random.Random(f"{seed} {name}")
                setup = _setup(file, harm, draw, other)
                heavy = reader.name in ("train", "report", "study")
                judged = _same_or_refused(reader, references, bench)
                yield Drill(GROUP, name, reader.arguments, judged, setup, heavy=heavy)


def _chosen(reader: Reader, file: str, seed: int) -> list[tuple[str, Callable[[bytes, random.Random], bytes | None]]]:
    """Returns the kinds of damage of a file: all, or of an aligner's many files some."""
    kinds = list(_HARMS.items())
    if not reader.name.startswith("aligner "):
        return kinds
    return [kinds[0], *random.Random(f"{seed} {file}").sample(kinds[1:], _HARMS_OF_MANY)]


def _files(folder: Path, reader: Reader) -> Iterator[str]:
    for name in reader.files:
        path = folder / name
        found = sorted(path.rglob("*")) if path.is_dir() else [path, *path.parent.glob(f".{path.name}.sha256")]
        yield from (str(file.relative_to(folder)) for file in found if file.is_file())


def _other(folder: Path, file: str, reader: Reader) -> str | None:
    """Returns another file of the same kind, with other bytes."""
    part, instead = reader.others
    name = file.replace(part, instead) if part else file
    if name == file or not (folder / name).is_file():
        return None
    return name if (folder / name).read_bytes() != (folder / file).read_bytes() else None


def _setup(
    file: str, harm: Callable[[bytes, random.Random], bytes | None], draw: random.Random, other: str | None
) -> Callable[[Path], None]:
    def setup(folder: Path) -> None:
        path = folder / file
        content = (folder / other).read_bytes() if other else harm(path.read_bytes(), draw)
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)

    return setup


def flipped(content: bytes, draw: random.Random) -> bytes:
    """Returns content with one bit the other way round."""
    if not content:
        return b"\x01"
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]


def overwritten(content: bytes, draw: random.Random) -> bytes:
    """Returns content with some bytes that are others, as long as before."""
    start = draw.randrange(max(len(content), 1))
    stop = min(start + 64, len(content))
    return content[:start] + draw.randbytes(stop - start) + content[stop:] if content else draw.randbytes(64)


def other_digit(content: bytes, draw: random.Random) -> bytes:
    """Returns content with one digit that is another: still well formed, where numbers are text."""
    digits = [place for place, byte in enumerate(content) if 48 <= byte < 58]
    if not digits:
        return flipped(content, draw)
    place = draw.choice(digits)
    return content[:place] + b"%d" % ((content[place] - 48 + draw.randint(1, 9)) % 10) + content[place + 1 :]


_HARMS: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "a bit flipped": flipped,
    "a digit changed": other_digit,
    "another digit changed": other_digit,
    "cut off": lambda content, draw: content[: draw.randrange(len(content))] if content else b"\x00",
    "a byte short": lambda content, draw: content[:-1],
    "a line short": lambda content, draw: b"\n".join(content.rstrip(b"\n").split(b"\n")[:-1]),
    "appended to": lambda content, draw: content + draw.randbytes(draw.randint(1, 40)),
    "overwritten in part": overwritten,
    "random bytes": lambda content, draw: draw.randbytes(max(len(content), 1)),
    "zeros": lambda content, draw: bytes(len(content)),
    "emptied": lambda content, draw: b"",
    "removed": lambda content, draw: None,
    "exchanged": lambda content, draw: content,
}


def _same_or_refused(
    reader: Reader,
    references: dict[tuple[str, ...], dict[str, str]],
    bench: Bench,
    promise: Callable[[Outcome], list[str]] = calm,
) -> Callable[[Outcome], list[str]]:
    def judged(outcome: Outcome) -> list[str]:
        problems = promise(outcome)
        if outcome.code != 0:
            return problems
        key = tuple(reader.arguments)
        if key not in references:
            references[key] = _reference(reader, bench, outcome.folder)
        if _output(outcome, reader) != references[key]:
            problems.append("another result, and not a word")
        return problems

    return judged


def _reference(reader: Reader, bench: Bench, beside: Path) -> dict[str, str]:
    """Returns what the verb makes of the undamaged bench."""
    folder = beside.with_name(f"{beside.name}-reference")
    folder.mkdir()
    bench.copy(folder)
    outcome = run(reader.arguments, folder)
    if outcome.code != 0:
        raise RuntimeError(f"without damage, {reader.name} fails: {outcome.err}")
    return _output(outcome, reader)


def _output(outcome: Outcome, reader: Reader) -> dict[str, str]:
    """Returns the digests of what the verb wrote, without journals and logs."""
    wanted = tuple(reader.outputs)
    told = {"stdout": hashlib.sha256(outcome.out).hexdigest()} if wanted == _NEW else {}
    return told | {
        name: what
        for name, what in outcome.after.items()
        if name.startswith(wanted) and what != "folder" and not name.endswith((".journal.jsonl", ".log"))
    }
