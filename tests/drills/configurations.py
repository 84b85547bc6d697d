"""Bad input: configurations that are none, and values that can never work."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from bad_values import GROUP
from harness import Drill, calm, refused, works

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness import Outcome


def _planned(
    name: str,
    command: list[str],
    setup: Callable[[Path], None],
    expectation: Callable[[Outcome], list[str]] = refused,
) -> Drill:
    return Drill(GROUP, name, command, expectation, setup, seconds=60)


def with_config(text: str | bytes | None, name: str = "mine.yaml") -> Callable[[Path], None]:
    """Returns a setup with a configuration of the user's beside that of the project."""

    def setup(folder: Path) -> None:
        if text is not None:
            (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)

    return setup


def drills() -> Iterator[Drill]:
    plan = ["plan", "--configfile", "mine.yaml"]
    yield _planned("plan: as it should be", plan, with_config("preset: mine\n"), works())
    for what, text in {
        "empty": "",
        "a list": "- 1\n",
        "a word": "word\n",
        "not YAML": "a: [1\n",
        "tabs": "a:\n\t- 1\n",
        "a key twice": "preset: a\npreset: b\n",
        "a nested key twice": "subwords:\n  vocab: 100\n  vocab: 200\n",
        "a key twice in braces": "subwords: {vocab: 100, vocab: 200}\n",
        "a number as key": "1: x\n",
        "null as key": "null: x\n",
        "true as key": "true: x\n",
        "two documents": "preset: a\n---\npreset: b\n",
        "a Python object": "preset: !!python/object/apply:os.system ['touch pwned']\n",
        "bytes": b"\x00\x01\xff",
        "no UTF-8": b"preset: \xff\n",
        "deep": "[" * 20_000,
        "an unknown key": "presett: a\n",
        "aliases upon aliases": "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{c}: &{c} [{','.join(['*' + b] * 9)}]\n" for b, c in zip("abcdefghi", "bcdefghij", strict=True)),
        "an alias of itself": "models: &a {x: *a}\n",
        "a merge of nothing": "<<: 3\n",
        "seed 1.0": "seeds: [1.0]\n",
        "seed nan": "seeds: [.nan]\n",
        "seed -1": "seeds: [-1]\n",
        "seed true": "seeds: [true]\n",
        "seed beyond 64 bits": f"seeds: [{2**70}]\n",
        "seed text": "seeds: ['1']\n",
        "seeds twice": "seeds: [1, 1]\n",
        "vocab nan": "subwords: {vocab: .nan}\n",
        "vocab huge": "subwords: {vocab: 1e12}\n",
        "vocab 0": "subwords: {vocab: 0}\n",
        "learning rate nan": "models: {lstm: {preset: demo_lstm, training: {learning_rate: .nan}}}\n",
        "learning rate inf": "models: {lstm: {preset: demo_lstm, training: {learning_rate: .inf}}}\n",
        "dropout 2": "models: {lstm: {preset: demo_lstm, model: {dropout: 2}}}\n",
        "dim huge": "models: {lstm: {preset: demo_lstm, model: {dim: 1000000000}}}\n",
        "sigma nan": "studies: {ding2019: {sigmas: [.nan]}}\n",
        "sigma huge": "studies: {ding2019: {sigmas: [1.0e+30]}}\n",
        "samples huge": "attribution: {samples: 1000000000000}\n",
        "shards huge": "attribution: {shards: 1000000000}\n",
        "interval samples huge": "interval: {samples: 1000000000000}\n",
        "interval level nan": "interval: {level: .nan}\n",
        "beam huge": "decoding: {beam: 1000000000}\n",
        "beam nan": "decoding: {beam: .nan}\n",
        "a preset of nothing": "preset: ''\n",
        "null preset": "preset: null\n",
        "no datasets": "datasets: []\n",
        "a dataset twice": "datasets: [demo, demo]\n",
        "heatmaps huge": "heatmaps: 1000000000000\n",
    }.items():
        yield _planned(f"plan: {what}", plan, with_config(text), calm if what == "empty" else refused)
    yield _planned("plan: a folder as configuration", ["plan", "--configfile", "config"], with_config(None))
    yield _planned("plan: no such configuration", ["plan", "--configfile", "absent.yaml"], with_config(None))
    yield _planned("plan: an empty name", ["plan", "--configfile", ""], with_config(None))
    yield _planned("plan: no project here", ["plan"], lambda folder: shutil.rmtree(folder / "config"))
    for flops in ("nan", "inf", "0", "-1", "x", ""):
        yield _planned(f"plan --gpu-tflops {flops!r}", ["plan", "--gpu-tflops", flops], with_config(None))
