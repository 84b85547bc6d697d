"""What stands where an output goes: devices and links stay, folders are replaced only if they are ours."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from alignlens.cli.main import main
from alignlens.errors import InputError
from alignlens.io.atomic import atomic_directory, atomic_path, write_lines, write_text
from alignlens.io.seals import SEAL, made_by, read_seal, sidecar, verify


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_folder(path: Path, text: str = "new", kind: str = "toy") -> None:
    with atomic_directory(path, kind) as folder:
        (folder / "content").write_text(text)


def test_a_symlink_keeps_pointing_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("nothing-yet")
    for name in ("link", "dangling"):
        write_text(tmp_path / name, "new")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_text() == "new"
    assert (tmp_path / "real").read_text() == (tmp_path / "nothing-yet").read_text() == "new"


def test_a_fifo_gets_the_content_and_stays_one(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_text()))
    reader.start()
    write_lines(fifo, ["a", "b"])
    reader.join()
    assert read == ["a\nb\n"]
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    device = tmp_path / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root may make a device to try it on")
    write_text(device, "gone")
    assert stat.S_ISCHR(device.stat().st_mode)


def test_a_folder_is_no_place_for_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"), atomic_path(tmp_path):
        pass


def test_names_as_long_as_the_system_takes_and_odd_ones(tmp_path: Path) -> None:
    made_by("test", step=True)
    try:
        for name in ("x" * 255, "ä" * 127, "*", "[a]", "a b", "-"):
            write_text(tmp_path / name, name)
            verify(tmp_path / name)
            assert (tmp_path / name).read_text() == name
    finally:
        made_by("test", step=False)


FOREIGN: dict[str, Callable[[Path], object]] = {
    "a file": lambda folder: (folder / "thesis.tex").write_text("years of work"),
    "a hidden folder": lambda folder: (folder / ".git").mkdir(),
    "a link": lambda folder: (folder / "x.pharaoh").symlink_to("/etc/passwd"),
    "a dangling link": lambda folder: (folder / "gone").symlink_to("nowhere"),
    "an empty folder": lambda folder: (folder / "notes").mkdir(),
}


@pytest.mark.parametrize("what", FOREIGN)
@pytest.mark.parametrize("ours", [False, True])
def test_what_others_put_into_a_folder_is_never_lost(tmp_path: Path, what: str, ours: bool) -> None:
    folder = tmp_path / "folder"
    if ours:
        write_folder(folder, "old")
    else:
        folder.mkdir()
    FOREIGN[what](folder)
    before = names(folder)
    with pytest.raises(InputError, match="replaced"):
        write_folder(folder)
    assert names(folder) == before
    assert not ours or (folder / "content").read_text() == "old"
    assert names(tmp_path) == ["folder"]


def test_our_own_folder_is_replaced_as_a_whole_and_another_kind_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()  # an empty one is as good as none
    write_folder(folder, "old")
    (folder / ".snakemake_timestamp").touch()
    write_folder(folder, "new")
    assert names(folder) == ["content", SEAL]
    assert (folder / "content").read_text() == "new"
    with pytest.raises(InputError, match="is a toy, and would be replaced by a model"):
        write_folder(folder, kind="model")
    (tmp_path / "link").symlink_to("folder")
    write_folder(tmp_path / "link", "through the link")
    assert (tmp_path / "link").is_symlink()
    assert (folder / "content").read_text() == "through the link"
    assert names(tmp_path) == ["folder", "link"]


def test_a_reader_of_the_old_folder_never_finds_none(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    write_folder(folder)
    missing: list[int] = []
    going = threading.Event()

    def look() -> None:
        while not going.is_set():
            missing.extend([1] * (not (folder / "content").exists()))

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(30):
        write_folder(folder, str(number))
    going.set()
    reader.join()
    assert not missing


def test_the_working_directory_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="working directory"):
        write_folder(Path())


def test_steps_of_the_pipeline_seal_files_and_others_do_not(tmp_path: Path) -> None:
    write_text(tmp_path / "mine", "a\n")
    (tmp_path / "mine").write_text("edited\n")
    verify(tmp_path / "mine")
    made_by("score", step=True)
    try:
        write_text(tmp_path / "step", "a\n")
        write_folder(tmp_path / "folder")
    finally:
        made_by("test", step=False)
    checked = subprocess.run(["sha256sum", "-c", sidecar(tmp_path / "step").name], cwd=tmp_path, capture_output=True)
    assert checked.returncode == 0
    assert names(tmp_path / "folder") == ["content", SEAL]
    (tmp_path / "step").write_text("b\n")
    with pytest.raises(InputError, match=r"step: damaged or edited: .* recreate it with: alignlens score"):
        verify(tmp_path / "step")
    sidecar(tmp_path / "step").write_text("")
    with pytest.raises(InputError, match="its checksum"):
        verify(tmp_path / "step")
    sidecar(tmp_path / "step").unlink()
    verify(tmp_path / "step")
    write_text(tmp_path / "step", "c\n")
    assert not sidecar(tmp_path / "step").exists()


def test_a_file_of_a_sealed_folder_is_verified_by_itself(tmp_path: Path) -> None:
    write_folder(tmp_path / "folder")
    verify(tmp_path / "folder/content")
    (tmp_path / "folder/content").write_text("NEW")
    with pytest.raises(InputError, match="content: damaged"):
        verify(tmp_path / "folder/content")
    (tmp_path / "folder" / SEAL).write_text("{}")
    with pytest.raises(InputError, match="not a seal"):
        read_seal(tmp_path / "folder")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gold").write_text("0-0 1-1\n")
    (tmp_path / "union.pharaoh").write_text("0-0\n")
    (tmp_path / "text").write_text("a b\n")
    (tmp_path / "hard").hardlink_to("gold")
    (tmp_path / "soft").symlink_to("gold")
    (tmp_path / "folder").mkdir()
    return tmp_path


SAME = {
    "score": "score --gold gold --links union.pharaoh --out gold",
    "through a dot": "score --gold gold --links union.pharaoh --out ./gold",
    "through a folder": "score --gold gold --links union.pharaoh --out folder/../gold",
    "through a symlink": "score --gold gold --links union.pharaoh --out soft",
    "through a hard link": "score --gold gold --links union.pharaoh --out hard",
    "one of several": "score --gold gold --links gold union.pharaoh --per-sentence union.pharaoh",
    "journal": "score --gold gold --links union.pharaoh --journal gold",
    "inside a value": "score-methods --cell a=folder=gold --out gold",
    "symmetrize": "symmetrize --forward gold --reverse union.pharaoh --method union --out gold",
    "named by a method": "symmetrize --forward gold --reverse union.pharaoh --method union --out-dir .",
    "aligner": "aligner ibm1 --source text --target text --out text",
    "segment": "subwords segment --model union.pharaoh --input text --out text",
    "translate": "translate --model folder --source text --out text",
    "align": "align --model folder --method grad --source text --target text --out text",
    "folder": "extract --matrices folder --source-pieces text --target-pieces text --out-dir folder",
    "around an input": "extract --matrices folder --source-pieces text --target-pieces text --out-dir .",
    "two outputs": "score --gold gold --links union.pharaoh --out new --per-sentence new",
    "no name": "score --gold gold --links union.pharaoh --out .",
}


@pytest.mark.parametrize("case", SAME)
def test_no_output_is_an_input(files: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    before = {path.name: path.read_bytes() for path in files.iterdir() if path.is_file()}
    assert main(SAME[case].split()) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "would " in told or "is a folder" in told or "is not the name" in told
    assert {path.name: path.read_bytes() for path in files.iterdir() if path.is_file()} == before


SCORE = ["score", "--gold", "gold", "--links", "union.pharaoh", "--base", "0"]
SYSTEM = {
    "a folder as output": (["--out", "folder"], "folder: is a folder"),
    "a file as folder": (["--out", "gold/x"], "gold"),
    "too long": (["--out", "x" * 300], "file name too long. Choose a shorter name"),
    "a folder as input": (["--versus", "folder"], "folder: cannot be read (Is a directory)"),
    "a loop": (["--out", "circle"], "circle"),
}


@pytest.mark.parametrize("case", SYSTEM)
def test_the_operating_system_speaks_in_one_line(files: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    (files / "circle").symlink_to("circle")
    more, message = SYSTEM[case]
    assert main([*SCORE, *more]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert message in told


@pytest.mark.parametrize(("redirection", "message"), [(">&-", "standard output"), ("> /dev/full", "no space left")])
def test_a_standard_output_that_cannot_be_written(files: Path, redirection: str, message: str) -> None:
    command = f"{sys.executable} -m alignlens {' '.join(SCORE)} --json {redirection}"
    done = subprocess.run(["bash", "-c", command], cwd=files, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert message in done.stderr.lower()


def test_debug_shows_where_it_came_from(files: Path) -> None:
    command = [sys.executable, "-m", "alignlens", *SCORE, "--versus", "nowhere", "--debug"]
    done = subprocess.run(command, cwd=files, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "nowhere: no such file" in done.stderr


def test_an_empty_text_is_no_value(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (["score", "--gold="], ["score", "--gold", "", "--links", "x"], ["data", "check", "--source", ""]):
        assert main(wrong) == 2
        assert ": is empty." in capsys.readouterr().err


def test_wrong_options_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (["score"], ["score", "--gold"], ["track", "nothing"], ["symmetrize", "--method", "x\ny"]):
        with pytest.raises(SystemExit) as stopped:
            main(wrong)
        assert stopped.value.code == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert "--help" in told


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="zombies are told apart by /proc only")
def test_what_a_zombie_left_behind_is_swept(tmp_path: Path) -> None:
    """A killed process nobody asks for keeps its number, but does nothing any more."""
    write_text(tmp_path / "out", "old")
    with subprocess.Popen([sys.executable, "-c", "pass"]) as dead, subprocess.Popen(["sleep", "60"]) as living:
        os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
        left = {pid: tmp_path / f".out.{socket.gethostname()}-{pid}.tmp" for pid in (dead.pid, living.pid)}
        for path in left.values():
            path.write_text("half")
        write_text(tmp_path / "out", "new")
        assert [path.exists() for path in left.values()] == [False, True]
        living.kill()
