"""Bad input, option by option: every option of every command with every bad value of its kind."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import good as kinds
from bench import DATA
from good import Good
from goods import GOODS
from harness import Drill, Outcome, SkippedError, calm, refused, works

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

GROUP = "bad input"
LONG = "n" * 300
_CONTROL = "a\nb\x1b[31m\tc"
_DEEP = '{"a":' * 5000 + "1" + "}" * 5000
_NUMBERS = {"empty": "", "a word": "x", "nan": "nan", "infinite": "inf", "negative": "-1", "huge": "1" + "0" * 30}
_JSON = {
    "empty": "",
    "half": '{"a": 1',
    "null": "null",
    "a list": "[]",
    "a number": "1",
    "deep": _DEEP,
    "a lone surrogate": '{"a": "\\ud800"}',
    "a huge number": '{"a": ' + "9" * 6000 + "}",
}
_GZIPPED = gzip.compress(b"a text that is long enough to be cut\n" * 50)
_TEXTS = {
    "empty": b"",
    "no UTF-8": b"ein Wort \xff\xfe\n",
    "half a gzip": _GZIPPED[: len(_GZIPPED) // 2],
    "gzip with a wrong checksum": _GZIPPED[:-8] + bytes(8),
}
_LINKS = {
    "a huge index": b"0-99999999999999999999999\n" * 12,
    "an index beyond 32 bits": b"0-4294967296\n" * 12,
    "an index beyond 63 bits": b"9223372036854775807-0\n" * 12,
    "a negative index": b"0--1\n" * 12,
    "words": b"not a link\n" * 12,
    "half a link": b"0-\n" * 12,
    "a line less": b"0-0\n" * 11,
    "a line more": b"0-0\n" * 13,
}


def drills() -> Iterator[Drill]:
    """Yields every option with every bad value."""
    for good in GOODS:
        yield Drill(GROUP, f"{good.name}: as it should be", good.arguments, works(), heavy=True)
        for option, kind in good.takes.items():
            yield from _MAKERS[kind](good, option)


def _drill(
    good: Good,
    option: str,
    what: str,
    value: str,
    setup: Callable[[Path], None] | None = None,
    expectation: Callable[[Outcome], list[str]] = refused,
) -> Drill:
    return Drill(GROUP, f"{good.name} {option}: {what}", good.with_value(option, value), expectation, setup, seconds=60)


def _no_file(good: Good, option: str) -> Iterator[Drill]:
    yield _drill(good, option, "no such file", "absent/file")
    yield _drill(good, option, "an empty name", "")
    yield _drill(good, option, "too long a name", LONG)
    yield _drill(good, option, "control characters", _CONTROL)
    yield _drill(good, option, "a file as a folder", "plain/x", writes("plain", b"x\n"))


def _text(good: Good, option: str) -> Iterator[Drill]:
    yield from _no_file(good, option)
    yield _drill(good, option, "a folder", "folder", folders("folder"))
    for what, content in _TEXTS.items():
        # Translations may all be empty, and so may a list of datasets beside the one that is given.
        free = what == "empty" and option in ("--input", "--datasets")
        yield _drill(good, option, what, "bad", writes("bad", content), calm if free else refused)


def _links(good: Good, option: str) -> Iterator[Drill]:
    yield from _text(good, option)
    for what, content in _LINKS.items():
        # Nothing says how many lines alone links must have, nor which words there are.
        alone = good.name == "reference" or (good.name == "symmetrize" and "index" in what)
        yield _drill(
            good, option, what, "bad", writes("bad", content), calm if alone and "line" not in what else refused
        )


def _file(good: Good, option: str) -> Iterator[Drill]:
    yield from _text(good, option)
    for what, content in {"text": b"some text\n", "bytes": bytes(range(256)) * 8, "only zeros": bytes(4096)}.items():
        yield _drill(good, option, what, "bad", writes("bad", content))


def _folder(good: Good, option: str) -> Iterator[Drill]:
    yield from _no_file(good, option)
    yield _drill(good, option, "a file", "plain", writes("plain", b"x\n"))
    # Where nothing has run yet, there is nothing to list.
    nothing = calm if good.name == "track list" else refused
    yield _drill(good, option, "an empty folder", "folder", folders("folder"), nothing)
    other = writes("folder/src/x.txt", b"x\n")
    yield _drill(good, option, "a folder of something else", "folder/src", other, nothing)


def _count(good: Good, option: str) -> Iterator[Drill]:
    for what, value in {**_NUMBERS, "a fraction": "1.5"}.items():
        yield _drill(good, option, what, value)


def _real(good: Good, option: str) -> Iterator[Drill]:
    for what, value in _NUMBERS.items():
        # A penalty may be below zero, and a large number of seconds is only long.
        yield _drill(good, option, what, value, expectation=calm if what in ("negative", "huge") else refused)


def _json(good: Good, option: str) -> Iterator[Drill]:
    for what, value in _JSON.items():
        free = option == "--about" and what.startswith("a ") and "list" not in what and value.startswith("{")
        yield _drill(good, option, what, value, expectation=calm if free or what == "a lone surrogate" else refused)


def _out_file(good: Good, option: str) -> Iterator[Drill]:
    yield _drill(good, option, "an empty name", "")
    yield _drill(good, option, "too long a name", LONG)
    yield _drill(good, option, "a folder in the way", "folder", writes("folder/kept.txt", b"kept\n"))
    yield _drill(good, option, "a file as its folder", "plain/x", writes("plain", b"x\n"))
    yield _drill(good, option, "the folder itself", ".")
    for other, kind in good.takes.items():
        if kind in (kinds.TEXT, kinds.LINK, kinds.FILE) and other in good.arguments:
            value = good.value(other)
            yield _drill(good, option, f"the same as {other}", value)
            yield _drill(good, option, f"the same as {other}, spelt differently", f"./results/../{value}")
            yield _drill(good, option, f"a link to {other}", "link", links("link", value))
            yield _drill(good, option, f"a hard link to {other}", "hard", links("hard", value, hard=True))
        elif kind == kinds.OUT_FILE and other != option and other in good.arguments:
            yield _drill(good, option, f"the same as {other}", good.value(other))
    yield _drill(
        good, option, "a link to a file", "link", links("link", "aim", b"old\n"), works(written("link", "aim"))
    )
    yield _drill(good, option, "a link to nothing", "link", links("link", "aim"), calm_about("link"))
    yield _drill(good, option, "a link to itself", "link", links("link", "link"))
    yield _drill(good, option, "a device", "device", device, calm_about("device"))


def _out_folder(good: Good, option: str) -> Iterator[Drill]:
    yield _drill(good, option, "an empty name", "")
    yield _drill(good, option, "too long a name", LONG)
    yield _drill(good, option, "a file in the way", "plain", writes("plain", b"kept\n"))
    yield _drill(good, option, "a file as its folder", "plain/x", writes("plain", b"x\n"))
    yield _drill(good, option, "the folder itself", ".")
    yield _drill(good, option, "somebody else's folder", "folder", writes("folder/kept.txt", b"kept\n"))
    yield _drill(good, option, "somebody else's hidden folder", "folder", writes("folder/.git/config", b"kept\n"))
    yield _drill(good, option, "a folder with a foreign link", "folder", links("folder/link.pharaoh", "../results"))
    yield _drill(good, option, "a link to somebody else's folder", "link", _linked_folder)
    yield _drill(good, option, "all results", "results")
    yield _drill(good, option, "the text", DATA)
    yield _drill(good, option, "a device", "device", device)
    yield _drill(good, option, "an empty folder", "folder", folders("folder"), works())
    if good.ours and option != "--work":
        yield _drill(good, option, "a folder of ours", good.ours, expectation=works())


def _out_files(good: Good, option: str) -> Iterator[Drill]:
    """Files that are written into a folder with others: those stay."""
    for drill in _out_folder(good, option):
        shared = drill.name.endswith(("folder", "link", "itself", "results", "the text"))
        yield replace(drill, expectation=keeps) if shared else drill


_MAKERS = {
    kinds.TEXT: _text,
    kinds.LINK: _links,
    kinds.FILE: _file,
    kinds.FOLDER: _folder,
    kinds.COUNT: _count,
    kinds.REAL: _real,
    kinds.JSON: _json,
    kinds.OUT_FILE: _out_file,
    kinds.OUT_FOLDER: _out_folder,
    kinds.OUT_FILES: _out_files,
}


def writes(name: str, content: bytes | object) -> Callable[[Path], None]:
    """Returns a setup that writes a file; what is no bytes is written as JSON."""

    def setup(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())

    return setup


def folders(name: str) -> Callable[[Path], None]:
    """Returns a setup that makes an empty folder."""
    return lambda folder: (folder / name).mkdir(parents=True)


def links(name: str, aim: str, content: bytes | None = None, hard: bool = False) -> Callable[[Path], None]:
    """Returns a setup that makes a link, and with content what it points to."""

    def setup(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            (folder / aim).write_bytes(content)
        if hard:
            os.link(folder / aim, folder / name)
        else:
            (folder / name).symlink_to(aim)

    return setup


def device(folder: Path) -> None:
    """Makes a device like /dev/null of our own, which a defect may break."""
    try:
        os.mknod(folder / "device", 0o20666, os.makedev(1, 3))
    except PermissionError:
        raise SkippedError("no right to make a device") from None


def _linked_folder(folder: Path) -> None:
    writes("aim/kept.txt", b"kept\n")(folder)
    (folder / "link").symlink_to("aim")


def written(link: str, aim: str) -> Callable[[Outcome], str | None]:
    """Returns a check that a link still points to its aim, which has new content."""

    def check(outcome: Outcome) -> str | None:
        if outcome.after.get(link) != f"link to {aim}":
            return "the link was replaced"
        return None if outcome.after.get(aim) != outcome.before[aim] else "nothing was written"

    return check


def keeps(outcome: Outcome) -> list[str]:
    """The promise where a folder may have other things in it: they are still there."""
    return [*calm(outcome), *([f"changed or lost: {outcome.lost[0]}"] if outcome.lost and outcome.code == 0 else [])]


def calm_about(name: str) -> Callable[[Outcome], list[str]]:
    """Returns the promise that something is still what it was, whether or not the command works."""
    return lambda outcome: [*calm(outcome), *([f"{name} was replaced"] if name in outcome.lost else [])]
