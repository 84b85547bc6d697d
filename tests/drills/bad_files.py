"""Bad input that is no single value: malformed files of every format, archives, configurations, absurd sizes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from bad_values import GROUP, folders, writes
from bench import ATTRIBUTION, DATA, LINKS, MODEL_FOLDER, R
from goods import BY_NAME
from harness import Drill, Outcome, calm, no_crash, refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_REPORT = BY_NAME["report"].arguments
_KOBAYASHI = ("study", "kobayashi2020", "--results", R, "--out", "new")
_STORED = f"{R}/aligners/tiny/hmm/offline/all/xa-xb/model"
# Every JSON file that a verb reads, with a verb that reads it.
JSON_FILES = {
    f"{MODEL_FOLDER}/model.json": BY_NAME["translate"].arguments,
    f"{_STORED}/training.json": BY_NAME["aligner stored"].arguments,
    f"{ATTRIBUTION}/xa-xb/matrices/facts.json": BY_NAME["extract"].arguments,
    f"{R}/tokens/tiny/train.source/store.json": BY_NAME["train"].arguments,
    f"{LINKS}/entropy.json": BY_NAME["score-methods"].arguments,
    f"{ATTRIBUTION}/metrics.json": _KOBAYASHI,
    f"{R}/scores/tiny/fast_align/offline/all/metrics.json": _REPORT,
    f"{R}/translations/tiny/xa-xb/transformer/1/bleu.json": _REPORT,
    f"{R}/translations/tiny/xa-xb/transformer/1/forced.json": _REPORT,
    f"{ATTRIBUTION}/xa-xb/cost.json": _REPORT,
    f"{R}/kobayashi2020/summary.json": _REPORT,
    f"{DATA}/preparation.json": _REPORT,
    f"{R}/encoders/tiny/xa-xb/transformer/1/statistics.json": _KOBAYASHI,
}
_CONTENTS = {
    "empty": b"",
    "null": b"null",
    "a list": b"[]",
    "an empty mapping": b"{}",
    "wrong types": b'{"format": [], "spec": 3, "names": {}, "facts": 1, "rows": "x", "aligner": {}, "sentences": "x"}',
    "half of it": b'{"format": "alignlens',
    "deep": b"[" * 100_000,
    "no UTF-8": b'{"a": "\xff"}',
}
_POINTS = f"{R}/encoders/tiny/xa-xb/transformer/1/points.npz"


def drills() -> Iterator[Drill]:
    """Yields all of them."""
    yield from _names()
    yield from _malformed()
    yield from _methods()
    yield from _gold()
    yield from _parts()
    yield from _sizes()


def _drill(
    name: str,
    command: Sequence[str],
    setup: Callable[[Path], None] | None = None,
    expectation: Callable[[Outcome], list[str]] = refused,
) -> Drill:
    return Drill(GROUP, name, command, expectation, setup, seconds=60)


def unsealed(path: str) -> Callable[[Path], None]:
    """Returns a setup that removes the checksums of a file, so that its content itself must be looked at."""

    def setup(folder: Path) -> None:
        place = folder / path
        for hidden in place.parent.glob(".*"):
            if hidden.is_file() and (place.name in hidden.name or hidden.name.count(".") == 1):
                hidden.unlink()

    return setup


def both(*setups: Callable[[Path], None]) -> Callable[[Path], None]:
    """Returns a setup that does several things."""

    def setup(folder: Path) -> None:
        for part in setups:
            part(folder)

    return setup


def _names() -> Iterator[Drill]:
    for what, command in {
        "an unknown verb": ["scores"],
        "an empty verb": [""],
        "an unknown option": ["score", "--golden", "x"],
        "an option without its value": ["score", "--gold"],
        "an option that is missing": ["score"],
        "a verb of several without its action": ["track"],
        "an unknown action": ["track", "push"],
        "an unknown aligner": ["aligner", "giza", "--source", "a", "--target", "b"],
        "an unknown study": ["study", "nobody1999", "--results", R],
        "an unknown dataset": ["data", "fetch", "nothing"],
        "an unknown symmetrisation": ["symmetrize", "--forward", "a", "--reverse", "b", "--method", "grow"],
        "weights with a path": ["translate", "--model", MODEL_FOLDER, "--source", "x", "--weights", "../../x"],
        "weights that are not there": [*BY_NAME["translate"].arguments, "--weights", "none"],
        "an encoder that is not there": ["encoder", "--encoder", "absent", "--out", "new"],
        "an encoder without a name": ["encoder", "--encoder", "", "--out", "new"],
        "an empty folder as encoder": ["encoder", "--encoder", "results", "--out", "new"],
        "a manifest without its folder": ["report", "--manifest", f"{R}/report/manifest.json", "--out", "new"],
    }.items():
        yield _drill(what, command, expectation=refused)
    for port in ("0", "-1", "65536", "x", "", "1.5", "99999999999999999999"):
        yield _drill(f"ui --port {port!r}", ["ui", "--no-sync", "--results", "results", "--port", port])
        yield _drill(f"server --port {port!r}", ["server", "up", "--folder", "server", "--port", port])
    for host in ("", " ", "no such host", "999.1.1.1", "a\nb"):
        yield _drill(f"ui --host {host!r}", ["ui", "--no-sync", "--results", "results", "--host", host])
    yield _drill("work and result in one folder", BY_NAME["train"].with_value("--work", "place/model"))
    yield _drill("work below the result", BY_NAME["train"].with_value("--work", "place/model/work"))
    yield _drill("links given twice", [*BY_NAME["score"].arguments[:5], *BY_NAME["score"].arguments[4:]], None, calm)


def _malformed() -> Iterator[Drill]:
    for path, command in JSON_FILES.items():
        for what, content in _CONTENTS.items():
            setup = both(writes(path, content), unsealed(path))
            yield _drill(f"{Path(path).name} of {command[0]}: {what}", command, setup)
    objects, other = io.BytesIO(), io.BytesIO()
    np.savez(objects, norms=np.array([{"a": 1}], dtype=object))
    np.savez(other, something=np.zeros(3))
    contents = {"text": b"text\n", "empty": b"", "pickled objects": objects.getvalue(), "other names": other.getvalue()}
    for what, content in contents.items():
        yield _drill(f"points.npz: {what}", _KOBAYASHI, both(writes(_POINTS, content), unsealed(_POINTS)))
    for what, content in {"no header": b"1,2,3\n", "words": b"update,train_loss\nx,y\n", "a folder": None}.items():
        path = f"{MODEL_FOLDER}/curves.csv"
        setup = (
            both(lambda folder: (folder / f"{MODEL_FOLDER}/curves.csv").unlink(), folders(path))
            if content is None
            else writes(path, content)
        )
        yield _drill(f"curves.csv: {what}", _REPORT, both(setup, unsealed(path)))


def _methods() -> Iterator[Drill]:
    for text in (
        "",
        ",",
        "nothing",
        "attention,",
        "attention,layer",
        "attention,layer=",
        "attention,layer=x",
        "attention,layer=99",
        "attention,layer=-9",
        "attention,layer=99999999999999999999",
        "attention,layer=0.5",
        "attention,head=7",
        "attention,what=1",
        "attention,layer=0,layer=1",
        "smoothgrad,n=0",
        "smoothgrad,n=-1",
        "smoothgrad,n=1000000000",
        "smoothgrad,sigma=nan",
        "smoothgrad,sigma=inf",
        "smoothgrad,sigma=-1",
        "smoothgrad,sigma=1e30",
        "smoothgrad,seed=-1",
        "smoothgrad,seed=1.5",
        "smoothgrad,seed=99999999999999999999999",
        "attention\nding_grad",
        "attention;ls",
        "../attention",
    ):
        yield _drill(f"align --method {text!r}", BY_NAME["align"].with_value("--method", text))
    yield _drill(
        "attribute: a method twice",
        [*BY_NAME["attribute"].arguments, "--methods", "attention", "attention"],
        None,
        calm,
    )


def _gold() -> Iterator[Drill]:
    score = BY_NAME["score"]
    links = score.value("--links")
    for what, content in {
        "an unknown mark": b"1 1 1 X\n",
        "a small mark": b"1 1 1 s\n",
        "no numbers": b"one 1 1 S\n",
        "two fields": b"1 1\n",
        "sentence 0": b"0 1 1 S\n",
        "a huge sentence": b"99999999999999999999 1 1 S\n",
    }.items():
        command = ["score", "--gold", "bad", "--format", "naacl", "--base", "1", "--links", links, "--out", "new"]
        yield _drill(f"NAACL gold: {what}", command, writes("bad", content))
    for what, content in {"an unknown mark": b"0x0\n" * 12, "possible only half": b"0p\n" * 12}.items():
        yield _drill(f"gold: {what}", score.with_value("--gold", "bad"), writes("bad", content))
    yield _drill(
        "gold counts from one, the text knows", score.with_value("--gold", "bad"), writes("bad", b"99-1\n" * 12)
    )
    alone = ["score", "--gold", "gold", "--links", "links"]
    pair = both(writes("gold", b"1-1 2-2\n" * 5), writes("links", b"0-0 1-1\n" * 5))
    yield _drill("short gold that counts from one, without text", alone, pair, _says_base)
    many = both(writes("gold", b"1-1 2-2\n" * 50), writes("links", b"0-0 1-1\n" * 50))
    yield _drill("long gold that counts from one, without text", alone, many)
    yield _drill("gold with 0 that shall count from one", [*alone, "--base", "1"], writes("gold", b"0-0\n" * 5))
    yield _drill("links beyond the text of score-methods", BY_NAME["score-methods"].arguments, _far_link)


def _says_base(outcome: Outcome) -> list[str]:
    said = "base" in outcome.err.lower() + outcome.out.decode(errors="replace").lower()
    return [*no_crash(outcome), *([] if said else ["says nothing of the base it assumed"])]


def _far_link(folder: Path) -> None:
    path = sorted((folder / LINKS).glob("*.pharaoh"))[0]
    path.write_text("99-1 " + path.read_text())


def _parts() -> Iterator[Drill]:
    for cell in (
        "x",
        "a=b",
        "==",
        "a==b",
        f"a=absent={DATA}/test.gold",
        f"a={LINKS}=absent",
        f"a={DATA}={DATA}/test.gold",
    ):
        yield _drill(f"score-methods --cell {cell!r}", ["score-methods", "--cell", cell, "--out", "new/m.json"])
    same = f"xa-xb={LINKS}={DATA}/test.gold"
    yield _drill("score-methods: a cell twice", ["score-methods", "--cell", same, same, "--out", "new/m.json"])
    for causes in (
        "x",
        f"xa-xb={DATA}/test.source={DATA}/test.causes",
        "nobody=a=b",
        f"xa-xb={DATA}/dev.causes={DATA}/test.source",
    ):
        yield _drill(f"score-methods --causes {causes!r}", [*BY_NAME["score-methods"].arguments, "--causes", causes])
    for shard in ("0/1", "2/1", "1/0", "-1/2", "1/", "/2", "x", "1/2/3", "1/99999999999999999999"):
        yield _drill(f"attribute --shard {shard!r}", BY_NAME["attribute"].with_value("--shard", shard))
    first = f"{ATTRIBUTION}/xa-xb/matrices.shards/1"
    for what, parts in {
        "one twice": [first, first],
        "with a whole": [first, f"{ATTRIBUTION}/xa-xb/matrices"],
    }.items():
        yield _drill(f"attribute --gather: {what}", ["attribute", "--gather", *parts, "--out", "new"])
    yield _drill(
        "extract: pieces of another text",
        BY_NAME["extract"].with_value("--source-pieces", f"{R}/pieces/tiny/dev.source"),
    )
    yield _drill(
        "extract: text that is no pieces", BY_NAME["extract"].with_value("--target-pieces", f"{DATA}/test.target")
    )


def _sizes() -> Iterator[Drill]:
    long = writes("long", b"ba " * 100_000 + b"\n")
    for name in ("translate", "force", "align", "align translated", "attribute", "cost", "encoder", "aligner stored"):
        good = BY_NAME[name]
        command = good.with_value("--source", "long")
        if "--target" in good.takes:
            command[command.index("--target") + 1] = "long"
        yield Drill(GROUP, f"{name}: a line of 100,000 words", command, calm, long, seconds=120, heavy=True)
    for option, value in {
        "--beam": "1000000",
        "--n-best": "1000000",
        "--samples": "100000000",
        "--threads": "100000",
    }.items():
        command = BY_NAME["translate"].with_value(option, value)
        yield Drill(GROUP, f"translate {option} {value}", command, calm, seconds=120, heavy=True)
    for name, option in (("bleu", "--samples"), ("score", "--samples"), ("score-methods", "--samples")):
        command = BY_NAME[name].with_value(option, "1000000000000")
        yield Drill(GROUP, f"{name} {option}: a trillion", command, calm, seconds=60, heavy=True)
    command = BY_NAME["subwords train"].with_value("--vocab", "1000000000")
    yield Drill(GROUP, "subwords train --vocab: a thousand million", command, refused, seconds=60)
