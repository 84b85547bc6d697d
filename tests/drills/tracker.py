"""Trouble with the tracker: journals that anybody may have written, and stores that are not as we left them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from harness import Drill, Outcome, no_crash, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bench import Bench

GROUP = "tracker"
_RESULTS = "store/results"
_SYNC = ("track", "sync", "--results", _RESULTS)
_LIST = ("track", "list", "--results", _RESULTS, "--json")
_REBUILD = ("track", "rebuild", "--results", _RESULTS)
_SECONDS = 60.0
_KEY = "0123456789abcdef"
_RUN: dict[str, Any] = {
    "event": "run",
    "run": _KEY,
    "time": 1.7e9,
    "experiment": "score",
    "name": "odd",
    "group": None,
    "tags": {"preset": "odd"},
    "params": {"a": 1},
    "identity": {"preset": "odd"},
    "pid": 1,
    "process": "1",
    "host": "elsewhere",
    "version": "0",
    "commit": "",
}
_METRICS: dict[str, Any] = {"event": "metrics", "run": _KEY, "time": 1.7e9, "step": 0, "values": {"aer": 1.0}}
_FILE: dict[str, Any] = {
    "event": "artifact",
    "run": _KEY,
    "time": 1.7e9,
    "path": "data.txt",
    "sha256": "0" * 64,
    "size": 5,
    "folder": "",
}
_END: dict[str, Any] = {"event": "end", "run": _KEY, "time": 1.7e9, "status": "FINISHED", "error": ""}
_DEEP = b"[" * 100_000


def drills(bench: Bench, seed: int) -> Iterator[Drill]:
    """Yields all of them; none depends on the seed."""
    base = _store(bench)
    for number, (what, content) in enumerate(_journals().items()):
        setup = _with(base, content)
        yield Drill(GROUP, f"journal: {what}, list", _LIST, _others_arrive("list"), setup, seconds=_SECONDS)
        if number % 2:  # a store takes its time
            arrive = _others_arrive("sync")
            yield Drill(GROUP, f"journal: {what}, sync", _SYNC, arrive, setup, seconds=_SECONDS, heavy=True)
    many = _both(_with(base, None), _all_journals)
    yield Drill(GROUP, "all odd journals at once", _SYNC, _others_arrive("sync", len(_journals())), many, heavy=True)
    for what, folder in _FOLDERS.items():
        setup = _with(base, _aimed(folder))
        yield Drill(GROUP, f"a file for {what}", _SYNC, _others_arrive("sync"), setup, heavy=True)
    for what, path in _PATHS.items():
        setup = _both(_with(base, _lines(_RUN, {**_FILE, "path": path}, _END)), _secrets)
        yield Drill(GROUP, f"a file from {what}", _SYNC, _nothing_taken, setup, heavy=True)
    for what, (harm, code) in _HARMS.items():
        for verb, command in (("sync", _SYNC), ("rebuild", _REBUILD)):
            setup = _both(_with(base, None), harm)
            yield Drill(GROUP, f"a store that is {what}, {verb}", command, _kept(verb, code), setup, heavy=True)
    for what, uri in _ADDRESSES.items():
        command = (*_SYNC, "--uri", uri)
        yield Drill(GROUP, f"a server that is {what}", command, _says_one_line, _with(base, None), heavy=True)
    yield Drill(GROUP, "a server that says nothing", _silent(base), _says_one_line, heavy=True)
    yield Drill(GROUP, "nothing wrong", _SYNC, _others_arrive("sync"), _with(base, _lines(_RUN, _METRICS, _END)))


def _store(bench: Bench) -> Path:
    """Makes a results folder with three good journals and their store, once."""
    folder = bench.folder.with_name("tracked")
    if not folder.exists():
        results = folder / "results" / "tiny"
        results.mkdir(parents=True)
        for number in range(3):
            key = f"{number:016x}"
            events = [{**event, "run": key} for event in (_RUN, _METRICS, _END)]
            events[0] |= {"name": f"good {number}", "identity": {"number": number}, "tags": {"preset": "tiny"}}
            (results / f"good{number}.journal.jsonl").write_bytes(_lines(*events))
        outcome = run(("track", "sync", "--results", "results"), folder)
        if outcome.code != 0 or not (folder / "results" / "mlflow.db").is_file():
            raise SystemExit(f"drills: no store could be made: {outcome.err}")
        # One more that is not in the store yet: it must arrive whatever else is wrong.
        events = [{**event, "run": "f" * 16} for event in (_RUN, _METRICS, _END)]
        events[0] |= {"name": "newest", "identity": {"number": 9}, "tags": {"preset": "tiny"}}
        (results / "newest.journal.jsonl").write_bytes(_lines(*events))
    return folder


def _lines(*events: object) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def _with(base: Path, content: bytes | Callable[[Path], None] | None) -> Callable[[Path], None]:
    """Returns a setup with the good journals, the store, and one odd journal."""

    def setup(folder: Path) -> None:
        shutil.copytree(base, folder / "store")
        _at_home(folder / _RESULTS / "mlflow.db", str(base), str(folder / "store"))
        path = folder / _RESULTS / "tiny" / "odd.journal.jsonl"
        (path.parent / "data.txt").write_text("data\n")
        if callable(content):
            content(path)
        elif content is not None:
            path.write_bytes(content)

    return setup


def _at_home(database: Path, there: str, here: str) -> None:
    """Lets a copied store say that it was made where it is: one that was moved is refused."""
    with closing(sqlite3.connect(database)) as store, store:
        for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
            store.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (there, here))


def _all_journals(folder: Path) -> None:
    for number, content in enumerate(_journals().values()):
        path = folder / _RESULTS / "tiny" / f"odd{number}.journal.jsonl"
        if callable(content):
            content(path)
        else:
            path.write_bytes(content)


def _both(*setups: Callable[[Path], None]) -> Callable[[Path], None]:
    def setup(folder: Path) -> None:
        for part in setups:
            part(folder)

    return setup


def _journals() -> dict[str, bytes | Callable[[Path], None]]:
    """Every kind of journal that is none."""
    found: dict[str, bytes | Callable[[Path], None]] = {
        "empty": b"",
        "one empty line": b"\n",
        "text": b"text\n",
        "bytes": bytes(range(256)) + b"\n",
        "zeros": bytes(999) + b"\n",
        "no UTF-8": b'{"event": "\xff"}\n',
        "deep": _DEEP + b"\n",
        "a list": b"[]\n",
        "null": b"null\n",
        "a number": b"1\n",
        "a huge number": _lines(_RUN)
        + b'{"event":"metrics","run":"0123456789abcdef","time":1,"step":'
        + b"9" * 5000
        + b',"values":{}}\n',
        "a folder": lambda path: path.mkdir(),
        "a pipe": lambda path: os.mkfifo(path),
        "a link to nothing": lambda path: path.symlink_to("nothing"),
        "a link to itself": lambda path: path.symlink_to(path.name),
        "only its end": _lines(_END),
        "an unknown event": _lines(_RUN, {**_END, "event": "gone"}),
    }
    for key, values in {
        "run": ["", "x' OR '1'='1", 3, None, "a" * 5000, "../../x"],
        "time": ["x", None, -1, 1e300, float("nan"), float("inf"), []],
        "experiment": [3, None, "", "a" * 5000, "a\nb"],
        "name": [3, {}, "a" * 100_000, "a\x00b"],
        "group": [3, [], ""],
        "tags": [3, [], {"a": {}}, {"": "x"}, {"a b/c'\"": "x"}],
        "params": [3, [], {"a": "x" * 100_000}, {"": 1}],
        "pid": ["x", -1, 2**70, None, 0],
        "host": [3, None],
    }.items():
        for value in values:
            found[f"{key} {str(value)[:20]!r} of {len(str(value))}"] = _lines(
                {**_RUN, key: value}, {**_END, "run": value if key == "run" else _KEY}
            )
    for key, values in {
        "step": ["x", None, 2**70, float("nan"), -(2**70)],
        "values": [3, None, [], {"a": "x"}, {"a": float("nan")}, {"a/..": 1}, {"": 1}, {"a\n": 1}],
    }.items():
        for value in values:
            found[f"{key} {str(value)[:20]!r}"] = _lines(_RUN, {**_METRICS, key: value}, _END)
    for key, values in {
        "size": [-1, "x", 2**70, None],
        "sha256": ["", "x", 3],
        "path": [3, None, "", "a\x00b"],
        "folder": [3, None],
    }.items():
        for value in values:
            found[f"a file's {key} {str(value)[:20]!r}"] = _lines(_RUN, {**_FILE, key: value}, _END)
    for value in (3, "DONE", None):
        found[f"status {value!r}"] = _lines(_RUN, {**_END, "status": value})
    return found


_FOLDERS = {
    "an absolute folder": "{outside}/escaped",
    "the folder above": "../../../..",
    "a way up and down": "a/../../../../b",
    "a name with a zero": "a\x00b",
    "an endless name": "a" * 5000,
    "home": "~/x",
    "a dot": ".",
    "empty parts": "a//b",
}
_PATHS = {
    "outside": "../../../secret.txt",
    "an absolute path": "/etc/hostname",
    "a link that leads outside": "link.txt",
    "a folder": "..",
    "a device": "/dev/null",
    "a pipe": "pipe",
}


def _aimed(folder: str) -> Callable[[Path], None]:
    """Returns what writes a journal whose file wants to go to a folder; ``{outside}`` is that of the drill."""

    def write(path: Path) -> None:
        aim = folder.replace("{outside}", str(path.parents[3]))
        path.write_bytes(_lines(_RUN, {**_FILE, "folder": aim}, _END))

    return write


def _secrets(folder: Path) -> None:
    (folder / "secret.txt").write_text("data\n")
    (folder / _RESULTS / "tiny" / "link.txt").symlink_to("../../../secret.txt")
    os.mkfifo(folder / _RESULTS / "tiny" / "pipe")


def _runs(folder: Path) -> dict[str, int]:
    """Returns the names of the store's runs, and how many have each."""
    found: dict[str, int] = {}
    with sqlite3.connect(f"file:{folder / _RESULTS / 'mlflow.db'}?mode=ro", uri=True) as store:
        for (name,) in store.execute("SELECT name FROM runs WHERE lifecycle_stage = 'active'"):
            found[name] = found.get(name, 0) + 1
    return found


def _journals_kept(outcome: Outcome) -> list[str]:
    lost = [name for name in outcome.lost if "mlflow.db" not in name and "mlartifacts" not in name]
    return [f"changed or lost: {lost[0]}"] if lost else []


def _contained(outcome: Outcome) -> list[str]:
    """New files may only be those of the store."""
    inside = (f"{_RESULTS}/mlflow.db", f"{_RESULTS}/mlartifacts", f"{_RESULTS}/.mlflow.db", f"{_RESULTS}/nowhere")
    strange = [name for name in outcome.new if not name.startswith(inside)]
    return [f"written elsewhere: {strange[0]}"] if strange else []


def _others_arrive(verb: str, most: int = 1) -> Callable[[Outcome], list[str]]:
    """One odd journal costs at most one line, and all others are there."""

    def judged(outcome: Outcome) -> list[str]:
        problems = [*no_crash(outcome), *_journals_kept(outcome), *_contained(outcome), *_at_most(most, outcome)]
        if outcome.code != 0:
            return problems or [f"exit code {outcome.code}"]
        wanted = {"good 0", "good 1", "good 2", "newest"}
        names = {str(row["name"]) for row in json.loads(outcome.out)} if verb == "list" else set(_runs(outcome.folder))
        return [*problems, *([f"not there: {sorted(wanted - names)[0]}"] if not wanted <= names else [])]

    return judged


def _at_most(most: int, outcome: Outcome) -> list[str]:
    lines = [line for line in outcome.err.splitlines() if line.strip()]
    return [f"{len(lines)} lines for {most} journals"] if len(lines) > most else []


def _nothing_taken(outcome: Outcome) -> list[str]:
    stored = [path for path in (outcome.folder / _RESULTS).glob("mlartifacts/**/*") if path.is_file()]
    taken = [path.name for path in stored if path.name in ("secret.txt", "hostname", "link.txt")]
    return [*_others_arrive("sync")(outcome), *([f"uploaded: {taken[0]}"] if taken else [])]


def _harm(function: Callable[[Path], object]) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        function(folder / _RESULTS / "mlflow.db")

    return harm


def _middle(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for start in range(4096 * 4, len(content), 4096 * 3):
        content[start : start + 200] = b"\xa5" * 200
    path.write_bytes(bytes(content))


def _foreign(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as store:
        store.execute("CREATE TABLE precious (a)")


def _as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "kept").touch()


def _as_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere/db")


_HARMS: dict[str, tuple[Callable[[Path], None], set[int]]] = {
    "missing": (_harm(lambda path: path.unlink()), {0}),
    "empty": (_harm(lambda path: path.write_bytes(b"")), {0, 2}),
    "text": (_harm(lambda path: path.write_bytes(b"no store\n" * 99)), {0, 2}),
    "cut off": (_harm(lambda path: path.write_bytes(path.read_bytes()[:50_000])), {0, 2}),
    "damaged in the middle": (_harm(_middle), {0, 2}),
    "a folder": (_harm(_as_folder), {0, 2}),
    "somebody else's": (_harm(_foreign), {0, 2}),
    "a link to nothing": (_harm(_as_link), {0, 2}),
}


def _kept(verb: str, codes: set[int]) -> Callable[[Outcome], list[str]]:
    """No crash, few words, no litter; a store that was replaced is kept beside."""

    def judged(outcome: Outcome) -> list[str]:
        problems = [*no_crash(outcome), *_journals_kept(outcome), *_contained(outcome), *_at_most(1, outcome)]
        if outcome.code not in codes:
            problems.append(f"exit code {outcome.code}")
        new = [name for name in outcome.new if name.endswith((".new", "-wal", "-shm", "-journal"))]
        if new:
            problems.append(f"left behind: {new[0]}")
        database = f"{_RESULTS}/mlflow.db"
        old = outcome.before.get(database)
        if verb == "rebuild" and old not in (None, "folder") and old not in outcome.after.values():
            problems.append("the old store is gone")
        if (
            verb == "rebuild"
            and outcome.code == 0
            and outcome.err.strip() == ""
            and "newest" not in _runs(outcome.folder)
        ):
            problems.append("not there: newest")
        return problems

    return judged


_ADDRESSES = {
    "away": "http://127.0.0.1:9",
    "nowhere": "http://no.such.host.invalid:5000",
    "of an unknown kind": "gopher://x",
    "a database that is away": "postgresql://bob:secret@127.0.0.1:9/x",
    "a port too large": "http://127.0.0.1:99999",
    "an odd path": "sqlite:////proc/none/mlflow.db",
    "nonsense": "http://[::1",
}


def _says_one_line(outcome: Outcome) -> list[str]:
    problems = [*no_crash(outcome), *_journals_kept(outcome), *_contained(outcome)]
    lines = [line for line in outcome.err.splitlines() if line.strip()]
    if len(lines) != 1:
        problems.append(f"{len(lines)} lines instead of one")
    return [*problems, *(["tells the password"] if "secret" in outcome.err else [])]


def _silent(base: Path) -> Callable[[Path], Outcome]:
    """A server that takes a connection and never answers."""

    def silent(folder: Path) -> Outcome:
        _with(base, None)(folder)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            return run((*_SYNC, "--uri", f"http://127.0.0.1:{listener.getsockname()[1]}"), folder)

    return silent
