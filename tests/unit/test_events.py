"""A journal is data: whatever stands in it, reading gives runs or one line that says where it is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignlens.errors import InputError
from alignlens.report.collect import read_records
from alignlens.results.manifest import Manifest
from alignlens.tracking.events import as_line
from alignlens.tracking.journal import Journal
from alignlens.tracking.records import find_journals, left_by_dead, process_is_alive, read_journal


def journal_of(folder: Path) -> Path:
    """Writes a real journal with an event of every kind."""
    path = folder / "a.journal.jsonl"
    (folder / "table.csv").write_text("1\n")
    with Journal(path) as journal:
        run = journal.run(
            experiment="train models",
            name="de-en · hmm",
            identity={"preset": "demo", "n": 1},
            tags={"dataset": "toy", "flag": True},
            params={"size": 3, "rate": 0.5, "betas": [0.9, 0.98], "nothing": None},
            group="de-en",
        )
        run.metrics({"aer": 12.5, "loss": 3}, step=7)
        run.artifact(folder / "table.csv", folder="tables/small")
    return path


def changed(path: Path, kind: str, name: str, value: object) -> Path:
    """Replaces one field of the first event of a kind; ``value`` may be raw JSON in bytes."""
    lines = path.read_bytes().splitlines()
    for number, line in enumerate(lines):
        event = json.loads(line)
        if event["event"] == kind:
            event[name] = "@@" if isinstance(value, bytes) else value
            line = json.dumps(event).encode()
            lines[number] = line.replace(b'"@@"', value) if isinstance(value, bytes) else line
            break
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


HOSTILE: list[tuple[str, str, Any]] = [
    *(("artifact", "folder", value) for value in (
        "/abs", "..", "../..", "a/../../b", "a/..", "./a", "a//b", "a/", "/", "a\0b", "a\n", "a\\..\\b", "~", ".hidden",
        "x" * 5000, "a/" * 50 + "a", 3, None, ["a"], "\ud800",
    )),
    *(("artifact", "path", value) for value in ("", ".", "..", "a/..", "a/", "/", "a\0b", "a\nb", "x" * 5000, 3, None)),
    *(("artifact", "size", value) for value in (-1, 1.5, "1", True, 2**63, None, b"1e400", b"%d" % 10**300)),
    *(("artifact", "sha256", value) for value in ("", "0" * 63, "0" * 65, "G" * 64, "0" * 64 + "\n", 5, None)),
    *(("run", "run", value) for value in ("", "x", "' OR 1=1 --", "0" * 15, "0" * 16 + "\n", "F" * 16, 3, None, {})),
    *(("run", "time", value) for value in (b"NaN", b"Infinity", b"1e999", -1, 1e300, "1", True, None, 10**300, [])),
    *(("run", "experiment", value) for value in (
        "", "..", "../../x", "/abs", "a/b", "a\n", "a\0", "x" * 101, 3, None, "\ud800", ".x",
    )),
    *(("run", "name", value) for value in (3, None, [], "a\nb", "\x1b[31m", "x" * 1001, "\ud800", "a\u2028b")),
    *(("run", "group", value) for value in (3, [], "a\nb", "x" * 1001)),
    *(("run", "tags", value) for value in (
        None, [], "x", {"a\n": 1}, {"alignlens.key": "f" * 16}, {"mlflow.parentRunId": "x"}, {"a": "\0"},
        {"x" * 1001: 1},
    )),
    *(("run", "params", value) for value in (
        None, [], 3, {"a": "\ud800"}, {"a\0": 1}, {"a": {"b": "\0"}}, b'{"a":1e999}',
    )),
    *(("run", "identity", value) for value in (None, [], 3, b'{"a":1,"a":2}')),
    *(("run", "pid", value) for value in (0, -1, 1.0, "1", True, None, 2**31, 10**300)),
    *(("run", "process", value) for value in (1, None, "x", "1" * 30, "1\n")),
    *(("run", name, value) for name in ("host", "version", "commit") for value in (1, None, "a\nb", "x" * 5000)),
    *(("metrics", "step", value) for value in (1.5, "1", True, None, 2**63, -(2**63) - 1, b"NaN", 10**300)),
    *(("metrics", "values", value) for value in (
        None, [], 3, {"a": "1"}, {"a": True}, {"a": None}, {"a\n": 1}, {"a": 10**400}, b'{"a":NaN}', b'{"a":-Infinity}',
        b'{"a":1e999}', b'{"a":1,"a":2}',
    )),
    *(("end", "status", value) for value in ("RUNNING", "DONE", "", None, 3, ["FINISHED"], {})),
    *(("end", "error", value) for value in (None, 3, "a\nb", "x" * 30_000)),
    *(("end", "event", value) for value in ("END", "", None, 3, [], {"a": 1})),
    ("run", "params", b'{"a":' * 30 + b"1" + b"}" * 30),
    ("run", "params", b"[" * 100_000 + b"]" * 100_000),
    ("run", "params", b'{"a":%s}' % (b"9" * 5000)),
    ("run", "params", b'{"a":"%s"}' % (b"x" * 1_000_001)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "value"), HOSTILE)
def test_a_value_that_no_job_writes_is_one_line(tmp_path: Path, kind: str, name: str, value: object) -> None:
    path = changed(journal_of(tmp_path), kind, name, value)
    with pytest.raises(
        InputError, match=r"a\.journal\.jsonl:\d+: not a journal line \(.+\)\. Run the job again"
    ) as told:
        read_journal(path)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 400, "the line itself is never repeated"


@pytest.mark.parametrize("name", ["event", "run", "time"])
def test_a_missing_field_is_named(tmp_path: Path, name: str) -> None:
    path = journal_of(tmp_path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for number in range(len(lines)):
        fields = [
            {key: value for key, value in line.items() if n != number or key != name} for n, line in enumerate(lines)
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in fields))
        with pytest.raises(InputError, match=rf":{number + 1}: not a journal line \(.*{name}"):
            read_journal(path)


@pytest.mark.parametrize("order", [(0, 0, 1, 2), (1, 0), (0, -1, 1), (0, -1, -1)])
def test_events_out_of_order_are_told(tmp_path: Path, order: tuple[int, ...]) -> None:
    path = journal_of(tmp_path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[number] for number in order))
    with pytest.raises(InputError, match=r"the run has (already begun|not begun|already ended)"):
        read_journal(path)


def test_what_no_json_text_is(tmp_path: Path) -> None:
    path = tmp_path / "a.journal.jsonl"
    for junk in (b"\xff\xfe\n", b"\n", b"null\n", b"[]\n", b'"x"\n', b"\x00" * 100 + b"\n", "\ufeff{}\n".encode()):
        path.write_bytes(junk)
        with pytest.raises(InputError, match=r"a\.journal\.jsonl:1: not a journal line"):
            read_journal(path)
    path.write_text("{}", encoding="utf-16")
    assert read_journal(path) == [], "no line is whole"


def test_files_that_are_none(tmp_path: Path) -> None:
    folder, fifo, link = (tmp_path / f"{name}.journal.jsonl" for name in ("folder", "fifo", "link"))
    folder.mkdir()
    os.mkfifo(fifo)
    link.symlink_to("/dev/zero")
    (tmp_path / "circle.journal.jsonl").symlink_to("circle.journal.jsonl")
    (tmp_path / "gone.journal.jsonl").symlink_to("nowhere")
    with (tmp_path / "sparse.journal.jsonl").open("wb") as file:
        file.truncate(1 << 40)
    journals = find_journals(tmp_path)
    assert len(journals) == 6
    for path in journals:
        with pytest.raises(InputError, match=r"cannot be read \(|too large"):
            read_journal(path)


def test_a_name_for_no_terminal_is_told_in_one_line(tmp_path: Path) -> None:
    for name in (b"a\nb.journal.jsonl", b"\xff.journal.jsonl", b"\x1b[31m.journal.jsonl"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(b"")
    for path in find_journals(tmp_path):
        with pytest.raises(InputError, match=r"not plain text") as told:
            read_journal(path)
        assert str(told.value).isprintable()


def test_an_unreadable_folder_is_told(tmp_path: Path) -> None:
    journal_of(tmp_path)
    (tmp_path / "shut").mkdir()
    code = (
        "import os, sys; from pathlib import Path; from alignlens.tracking.records import find_journals\n"
        "if os.geteuid() == 0: os.setegid(65534); os.seteuid(65534)\n"
        "told = []; print(len(find_journals(Path(sys.argv[1]), skipped=told)), told)\n"
        "find_journals(Path(sys.argv[1]))"
    )
    (tmp_path / "shut").chmod(0)
    tmp_path.chmod(0o755)  # it is entered before its reader becomes nobody, who could not pass the folders above it
    try:
        command = [sys.executable, "-c", code, "."]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    finally:
        (tmp_path / "shut").chmod(0o700)
    assert done.stdout.startswith("1 [")
    assert "shut: cannot be read (Permission denied)" in done.stdout
    assert "InputError" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("preset", ["", ".", "..", "/", "../x", "x" * 300, "a/b"])
def test_a_preset_is_a_name_and_no_path(tmp_path: Path, preset: str) -> None:
    (tmp_path / "results" / "demo").mkdir(parents=True)
    with pytest.raises(InputError, match="no results of preset"):
        find_journals(tmp_path / "results", preset)


def test_what_a_job_hands_over_comes_back_whatever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.journal.jsonl"
    odd = os.fsdecode(b"\xff\n\x1b[31m") + "x" * 5000

    def job() -> None:
        with Journal(path) as journal:
            journal.run(experiment="score", name=odd, identity={"file": Path(odd)}, params={"file": odd}, group=odd)
            raise RuntimeError(odd * 10)

    with pytest.raises(RuntimeError):
        job()
    (record,) = read_journal(path)
    assert record.status == "FAILED"
    assert record.name == record.group == as_line(odd)
    assert record.error.startswith("RuntimeError: ")
    with Journal(path) as journal:
        run = journal.run(experiment="score", name="a", identity={})
        with pytest.raises(ValueError, match="not a folder"):
            run.artifact(path, folder="../x")


def test_the_report_leaves_a_malformed_journal_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal_of(tmp_path)
    (tmp_path / "b.journal.jsonl").write_text("junk\n")
    os.mkfifo(tmp_path / "c.journal.jsonl")
    assert [record.name for record in read_records(Manifest.whole(tmp_path))] == ["de-en · hmm"]
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert f"{tmp_path / 'b.journal.jsonl'}:1: not a journal line" in told[0]


def test_processes_that_cannot_be(tmp_path: Path) -> None:
    assert not process_is_alive(2**70, "1")
    host = os.uname().nodename
    for pid in ("²", "-1", "9" * 30, ""):
        assert not left_by_dead(f"{host}:{pid}:1:1.0", str(tmp_path))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return journal_of(tmp_path_factory.mktemp("whole"))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damage_gives_records_or_one_line(whole: Path, data: st.DataObject) -> None:
    content = bytearray(whole.read_bytes())
    damage = data.draw(st.sampled_from(["random", "cut", "flip", "splice", "twice"]))
    if damage == "random":
        content = bytearray(data.draw(st.binary(max_size=300)) + b"\n")
    elif damage == "cut":
        start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(content))] * 2)))
        del content[start:end]
    elif damage == "flip":
        for bit in data.draw(st.lists(st.integers(0, 8 * len(content) - 1), min_size=1, max_size=4)):
            content[bit // 8] ^= 1 << bit % 8
    elif damage == "splice":
        place = data.draw(st.integers(0, len(content)))
        content[place:place] = data.draw(st.binary(max_size=50))
    else:
        lines = content.split(b"\n")
        content = bytearray(b"\n".join(data.draw(st.lists(st.sampled_from(lines), max_size=8))))
    path = whole.with_name("damaged.journal.jsonl")
    path.write_bytes(content)
    problem, records = "", []
    try:
        records = read_journal(path)
    except InputError as error:
        problem = str(error)
    assert "\n" not in problem
    for record in records:
        assert len(record.key) == 16
        assert record.digest
        json.dumps([record.tags, record.params, record.identity, record.latest], allow_nan=False).encode()
