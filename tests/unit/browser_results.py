"""A small results folder with a model, asked in both directions and about its own translation, and a word aligner.

Links, error rates and counts of sentences are those that the verbs of the pipeline make of random scores.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.alignment.gold import read_gold
from alignlens.alignment.pharaoh import read_links
from alignlens.cli.main import main
from alignlens.io.matrices import MatrixWriter
from alignlens.io.text import words
from alignlens.metrics.aer import count_hits
from alignlens.subwords.spans import MARK

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

EVIL = "</script><script>alert(1)</script>"
NASTY = "<!--\"'&\u2028\\"
# Every word is split into its parts.
SOURCE = [["das", "Ha.us", "ist", EVIL], ["ja"], ["ei.ne", "Kat.ze", "schl.äf.t"], [NASTY, "日.本", "x"], ["a", "b.c"]]
TARGET = [["the", "hou.se", "is", "&amp;"], ["yes", "!"], ["a", "cat", "sle.eps"], ["y", "Ja.pan"], ["d", "e.f", "g"]]
FREE = [["the", "ho.use"], [], ["a", "dog"], ["y.y"], ["d", "e", "f"]]
GOLD = ["0-0 1-1 2p2", "0-0 0p1", "0-0 1-1 2-2", "0-0 1-1", "0-0 1p1 1-2"]
FREE_GOLD = ["0-0 1p1", "", "0-0", "0-0", "0-0 1-1"]
METHODS = [
    "attention",
    "attention,layer=0",
    "attention,layer=1",
    "attention,layer=1,head=2,step=in",
    "grad_input",
    "lrp",
]
ASKED = "attributions/toy/transformer/1/final/test"
ALIGNED = {
    "xa-xb": ["0-0 1-1", "0-0", "2-0", "", "1-2"],
    "xb-xa": ["0-0", "0-1", "1-1", "1-1", "0-0 1-1"],
    "union": ["0-0 1-1", "0-0 0-1", "1-1 2-0", "1-1", "0-0 1-1 1-2"],
}


def make_results(root: Path) -> Path:
    """Returns the folder after everything was written to it."""
    sides = {"source": SOURCE, "target": TARGET}
    for name, lines in sides.items():
        _write(root / f"data/toy/test.{name}", [" ".join(word.replace(".", "") for word in line) for line in lines])
        _write(root / f"pieces/toy/test.{name}", map(_pieces, lines))
    _write(root / "data/toy/test.gold", GOLD)
    (root / "data/toy/preparation.json").write_text(json.dumps({"licence": "CC0", "splits": {"test": {"pairs": 5}}}))
    _add_aligner(root)
    _ask(root, "forced", {"xa-xb": (SOURCE, TARGET), "xb-xa": (TARGET, SOURCE)})
    names = "toy/xa-xb/transformer/1"
    _write(root / f"translations/{names}/test.pieces", map(_pieces, FREE))
    _write(root / f"free/{names}/reference.gold", FREE_GOLD)
    _ask(root, "free", {"xa-xb": (SOURCE, FREE)})
    return root


def _write(path: Path, lines: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _pieces(line: list[str]) -> str:
    return " ".join(f"{MARK if k == 0 else ''}{part}" for word in line for k, part in enumerate(word.split(".")))


def _ask(root: Path, decoding: str, asked: dict[str, tuple[list[list[str]], list[list[str]]]]) -> None:
    """Writes random scores, and everything that the verbs make of them."""
    folder = root / f"attributions/toy/transformer/1/final/test/{decoding}"
    cells = []
    for place, (direction, sides) in enumerate(asked.items()):
        generator = np.random.default_rng(place + len(decoding))
        counts = [[len(words(_pieces(line))) + 1 for line in side] for side in sides]
        shapes = np.array(counts[::-1]).T
        with MatrixWriter(folder / direction / "matrices", METHODS, shapes, {}, squares=["lrp@prefix"]) as writer:
            for number, (rows, columns) in enumerate(shapes.tolist()):
                scores = {name: generator.random((rows, columns), dtype=np.float32) for name in METHODS}
                for name in METHODS[:4]:
                    scores[name] /= scores[name].sum(axis=1, keepdims=True)
                scores["grad_input"] -= np.float32(0.5)
                scores["lrp@prefix"] = np.tril(generator.random((rows, rows), dtype=np.float32))
                writer.write(number, scores)
        for name, side in zip(("source", "target"), sides, strict=True):
            _write(root / f"work/{direction}.{name}", map(_pieces, side))
        turned = ["--transpose"] if direction == "xb-xa" else []
        pieces = [f"--{name}-pieces={root}/work/{direction}.{name}" for name in ("source", "target")]
        links = folder / direction / "links"
        read = ["--matrices", str(folder / direction / "matrices"), *pieces, *turned]
        assert main(["extract", *read, "--out-dir", str(links)]) == 0
        gold = "data/toy/test.gold" if decoding == "forced" else "free/toy/xa-xb/transformer/1/reference.gold"
        cells.append(f"{direction}={links}={root / gold}")
    about = {"dataset": "toy", "model": "transformer", "architecture": "transformer", "seed": "1", "weights": "final"}
    about |= {"split": "test", "decoding": decoding, "pair": ["xa", "xb"]}  # type: ignore[dict-item]
    told = ["--journal", str(root / "work/journal.jsonl"), "--about", json.dumps(about)]
    out = ["--out", str(folder / "metrics.json"), "--sentences", str(folder / "sentences.npz")]
    assert main(["score-methods", "--cell", *cells, "--samples", "10", *out, *told]) == 0


def _add_aligner(root: Path) -> None:
    names, rows = "toy/fast_align/offline/all", []
    gold = read_gold(root / "data/toy/test.gold", 0)
    for name, lines in ALIGNED.items():
        path = root / f"links/{names}/{name}.pharaoh"
        _write(path, lines)
        found = count_hits(read_links(path), gold).scores()
        kind = "symmetrised" if name == "union" else "direction"
        rates = {"aer": found.aer, "aer_low": found.aer, "aer_high": found.aer, "precision": found.precision}
        rates |= {"recall": found.recall, "f1": found.f1, "links_count": 3, "sure": 2, "possible": 3}
        rows.append({"links": name, "kind": kind, **rates})
    content = {"dataset": "toy", "pair": ["xa", "xb"], "aligner": "fast_align", "text": "offline", "size": "all"}
    content |= {"train_pairs": 9, "sentences": 5, "rows": rows, "interval": {"level": 95, "samples": 10, "seed": 1}}  # type: ignore[dict-item]
    path = root / f"scores/{names}/metrics.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))


@dataclass(frozen=True)
class Unpacked:
    """A method on one sentence, as the page reads it."""

    source: NDArray[np.float64]
    prefix: NDArray[np.float64] | None
    step: float
    best: list[int]
    word: list[int]
    share: NDArray[np.float64]


def unpacked(packed: str, sentences: list[dict[str, Any]], begin: int, prefix: bool) -> list[Unpacked]:
    """Returns what a chunk has, read as templates/browser_data.js does."""
    content, place = zlib.decompress(base64.b64decode(packed)), 0

    def take(kind: str, count: int) -> NDArray[Any]:
        nonlocal place
        found = np.frombuffer(content, kind, count, place)
        place += found.nbytes
        return found

    def parted(flat: NDArray[Any], sizes: list[int]) -> list[NDArray[Any]]:
        return np.split(flat, np.cumsum(sizes)[:-1])

    rows = [len(each["target"]["pieces"]) + 1 for each in sentences]
    columns = [len(each["source"]["pieces"]) + 1 + begin for each in sentences]
    lengths = [len(each["target"]["words"]) for each in sentences]
    cells, squares = [r * c for r, c in zip(rows, columns, strict=True)], [r * r * prefix for r in rows]
    shared = [r * prefix for r in rows]
    scales = take("<f4", 2 * len(rows)).reshape(-1, 2)
    prefix_scales = take("<f4", 2 * len(rows) * prefix).reshape(-1, 2)
    best = parted(take("<u2", sum(rows) - len(rows)), [r - 1 for r in rows])
    word = parted(take("<u2", sum(lengths)), lengths)
    scores = parted(take("u1", sum(cells)), cells)
    prefixes = parted(take("u1", sum(squares)), squares)
    share = parted(take("u1", sum(shared)), shared)
    assert place == len(content)

    def matrix(scale: NDArray[Any], levels: NDArray[Any], shape: tuple[int, int]) -> NDArray[np.float64]:
        low, high = scale.astype(np.float64)
        return (low + (high - low) / 255 * levels.astype(np.float64)).reshape(shape)

    return [
        Unpacked(
            matrix(scales[k], scores[k], (rows[k], columns[k])),
            matrix(prefix_scales[k], prefixes[k], (rows[k], rows[k])) if prefix else None,
            float(scales[k][1] - scales[k][0]) / 255,
            best[k].tolist(),
            word[k].tolist(),
            np.where(share[k] == 255, np.nan, share[k] / 254),
        )
        for k in range(len(rows))
    ]


def word_links(sentence: dict[str, Any], found: Unpacked, extraction: str) -> set[tuple[int, int]]:
    """Returns the links that the page marks."""
    if extraction == "kobayashi":
        return {(i, j) for j, i in enumerate(found.word) if i != 0xFFFF}
    owners = [sentence[side]["owners"] for side in ("source", "target")]
    return {(owners[0][i], owners[1][j]) for j, i in enumerate(found.best)}
