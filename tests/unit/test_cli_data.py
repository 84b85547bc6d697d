"""``alignlens data`` through the command line: every broken input is one line and exit code 2."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import socket
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from alignlens.cli.main import main
from alignlens.corpora import download as downloading

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory of its own, with files whose names need no path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ALIGNLENS_MIRROR", raising=False)


def write(name: str, content: str | bytes) -> str:
    """Writes a file of the working directory."""
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return name


def declare(**changes: Any) -> None:
    """Writes a datasets file with one good dataset, its files, and changes to its entry."""
    write("train.de", "eins zwei\ndrei\nvier fünf\n")
    write("train.en", "one two\nthree\nfour five\n")
    write("test.de", "ja\nnein danke\n")
    write("test.en", "yes\nno thanks\n")
    write("test.gold", "1-1\n1-1 2p2\n")
    entry = {
        "kind": "files",
        "pair": ["de", "en"],
        "train": [{"source": "train.de", "target": "train.en"}],
        "dev": {"last": 1},
        "test": {"source": "test.de", "target": "test.en"},
        "gold": {"file": "test.gold", "base": 1, "format": "pharaoh"},
        **changes,
    }
    write("datasets.yaml", yaml.safe_dump({"mine": entry}))


def data(*arguments: str) -> int:
    """Runs ``alignlens data`` with the datasets file of the working directory."""
    return main(["data", *arguments, "--datasets", "datasets.yaml"])


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Returns the one line that a failing command prints."""
    assert data(*arguments) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("alignlens data: ")
    assert printed.count("\n") == 1
    return printed.removeprefix("alignlens data: ").rstrip("\n")


def test_prepare_writes_the_files_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    declare()
    assert data("prepare", "mine", "--out", "out", "--journal", "out/preparation.journal.jsonl") == 0
    assert capsys.readouterr().out == "out: 2 training pairs of 3 (0 dropped)\n"
    assert Path("out/test.gold").read_text() == "0-0\n0-0 1p1\n"
    assert Path("out/dev.source").read_text(encoding="utf-8") == "vier fünf\n"
    report = json.loads(Path("out/preparation.json").read_text(encoding="utf-8"))
    assert report["splits"]["test"]["links"] == {"sure": 2, "possible": 3}
    assert "test.gold" in report["files"]
    events = [json.loads(line) for line in Path("out/preparation.journal.jsonl").read_text("utf-8").splitlines()]
    assert events[0]["name"] == "de-en · mine · prepare"
    values = {key: value for event in events for key, value in event.get("values", {}).items()}
    assert (values["train_pairs"], values["test_sure_links"], values["dropped_ratio"]) == (2, 2, 0)
    assert events[-1]["status"] == "FINISHED"


def test_prepare_with_a_manifest_and_settings(capsys: pytest.CaptureFixture[str]) -> None:
    declare()
    assert data("fetch", "mine", "--out", "m/manifest.json") == 0
    assert json.loads(Path("m/manifest.json").read_text())["test.gold"] == "test.gold"
    settings = '{"cleaning": {"max_words": 1}, "max_train_pairs": 1}'
    declare(dev={"source": "test.de", "target": "test.en"})
    assert data("fetch", "mine", "--out", "m/manifest.json") == 0
    assert data("prepare", "mine", "--out", "out", "--manifest", "m/manifest.json", "--settings", settings) == 0
    assert Path("out/train.target").read_text() == "three\n"
    assert capsys.readouterr().out == "out: 1 training pairs of 3 (2 dropped)\n"


def test_failed_preparation_leaves_no_files_and_a_failed_run(capsys: pytest.CaptureFixture[str]) -> None:
    declare()
    write("test.gold", "1-1\n1-9\n")
    assert "test.gold:2: link 1-9 is out of range" in fails(
        capsys, "prepare", "mine", "--out", "out", "--journal", "j.jsonl"
    )
    assert list(Path("out").iterdir()) == []
    last = json.loads(Path("j.jsonl").read_text("utf-8").splitlines()[-1])
    assert last["status"] == "FAILED"
    assert "out of range" in last["error"]


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    declare(sizes={"train": 3}, licence="free")
    assert data("list") == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "pair", "kind", "train", "dev", "test", "gold", "where", "licence"]
    assert row.split() == ["mine", "de-en", "files", "3", "yes", "local", "free"]
    Path("test.en").unlink()
    assert data("list", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["where"], row["gold"], row["sizes"]) == ("missing", True, {"train": 3})


def test_fetch_prints_the_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    declare()
    assert data("fetch", "mine") == 0
    assert json.loads(capsys.readouterr().out)["train.0.source"] == "train.de"


def test_check_prints_a_line_per_file(capsys: pytest.CaptureFixture[str]) -> None:
    declare()
    assert data("check", "mine") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("ok ") for line in lines)
    assert lines[-1].endswith("test.gold  2 lines, 2 sure and 3 sure or possible links")


def test_check_goes_on_after_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    declare()
    Path("train.de").unlink()
    write("test.gold", "1-1\n1-1 3-1\n")
    assert data("check", "mine") == 2
    printed = capsys.readouterr()
    states = [line.split()[0] for line in printed.out.splitlines()]
    assert states == ["problem", "ok", "ok", "ok", "problem"]
    assert printed.err.startswith("alignlens data: mine: 2 problems, the first: train.de: no such file.")
    assert printed.err.count("\n") == 1


def test_check_of_free_files(capsys: pytest.CaptureFixture[str]) -> None:
    declare()
    files = ["check", "--source", "test.de", "--target", "test.en"]
    assert data(*files) == 0
    assert data(*files, "--gold", "test.gold", "--base", "1") == 0
    write("g.naacl", "1 1 1\n2 1 1 S\n2 2 2 P\n")
    assert data(*files, "--gold", "g.naacl", "--base", "1", "--format", "naacl") == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "ok       g.naacl  2 lines, 2 sure and 3 sure or possible links"
    )
    assert "--gold needs --base" in fails(capsys, *files, "--gold", "test.gold")
    assert "or --source and --target" in fails(capsys, "check", "--source", "test.de")
    assert "not both" in fails(capsys, "check", "mine", "--source", "test.de")


BROKEN: list[tuple[str, str | bytes, str]] = [
    ("test.en", "yes\n", "test.en:2: 1 lines, but test.de has 2."),
    ("test.de", b"ja\nna\xefn danke\n", "test.de:2: not UTF-8 (byte 0xef)."),
    ("test.de", b"", "test.de: the file is empty."),
    ("test.de", gzip.compress(b"ja\nnein danke\n")[:-9], "test.de: truncated or damaged gzip"),
    ("test.en", "yes\nno ||| thanks\n", "test.en:2: '|||' inside a sentence."),
    ("test.gold", "1-1\n1-1 3-2\n", "test.gold:2: link 3-2 is out of range (2 source and 2 target words)."),
    ("test.gold", "1-1\n0-0 1-1\n", "test.gold:2: link 0-0 with words counted from 1."),
    ("test.gold", "1-1\n", "test.gold:2: 1 lines for 2 sentence pairs."),
    ("test.gold", "1-1\n1:1\n", "test.gold:2: '1:1' is not a link."),
    ("test.de", "\nnein danke\n", "test.gold:1: link 1-1 on an empty sentence (0 source and 1 target words)."),
]


@pytest.mark.parametrize(("name", "content", "message"), BROKEN)
@pytest.mark.parametrize("command", ["prepare mine --out out", "check mine", "free"])
def test_broken_input_is_one_line_with_file_and_line(
    capsys: pytest.CaptureFixture[str], command: str, name: str, content: str | bytes, message: str
) -> None:
    declare()
    write(name, content)
    if command == "free":
        command = "check --source test.de --target test.en --gold test.gold --base 1"
    line = fails(capsys, *command.split())
    assert message in line
    assert line.endswith((".", '"')) or "iconv" in line
    assert not Path("out/preparation.json").exists()


def test_wrong_base_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    declare(gold={"file": "test.gold", "base": 0, "format": "pharaoh"})
    line = fails(capsys, "prepare", "mine", "--out", "out")
    assert "test.gold:1: link 1-1 is out of range" in line
    assert "The file counts from 1: set base: 1." in line


def test_broken_training_text(capsys: pytest.CaptureFixture[str]) -> None:
    declare()
    write("train.en", "one two\nthree\n")
    assert "train.en:3: 2 lines, but train.de has 3." in fails(capsys, "prepare", "mine", "--out", "out")
    declare()
    write("train.de", "eins ||| zwei\ndrei\nvier fünf\n")
    assert data("prepare", "mine", "--out", "out") == 0
    report = json.loads(Path("out/preparation.json").read_text(encoding="utf-8"))
    assert report["splits"]["train"]["dropped"]["separator"] == 1


def test_wrong_checksum(capsys: pytest.CaptureFixture[str]) -> None:
    declare(test={"source": {"path": "test.de", "sha256": "0" * 64}, "target": "test.en"})
    found = hashlib.sha256(Path("test.de").read_bytes()).hexdigest()
    for command in (["fetch", "mine"], ["check", "mine"], ["prepare", "mine", "--out", "out"]):
        assert fails(capsys, *command).startswith(f"test.de: sha256 is {found}, expected {'0' * 64}.")


def test_offline_download_names_the_mirror(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(downloading, "PAUSES", ())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/a.gz"
    file = {"url": url, "mirror": "a.gz"}
    declare(kind="download", train=[{"source": file, "target": file}], test={"last": 1})
    entry = yaml.safe_load(Path("datasets.yaml").read_text())["mine"]
    del entry["gold"]
    write("datasets.yaml", yaml.safe_dump({"mine": entry}))
    assert "--mirror DIR or ALIGNLENS_MIRROR" in fails(capsys, "fetch", "mine", "--cache", "cache")
    assert data("check", "mine", "--cache", "cache") == 2
    assert "Run: alignlens data fetch mine" in capsys.readouterr().err
    Path("mirror").mkdir()
    write("mirror/a.gz", gzip.compress(b"a\nb\nc\n"))
    assert data("check", "mine", "--mirror", "mirror") == 0


def test_wrong_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    declare()
    assert "did you mean mine?" in fails(capsys, "fetch", "mime")
    assert "--settings: not JSON" in fails(capsys, "prepare", "mine", "--out", "o", "--settings", "{")
    assert "is not a JSON object" in fails(capsys, "prepare", "mine", "--out", "o", "--settings", "[1]")
    assert "max_word: unknown key" in fails(
        capsys, "prepare", "mine", "--out", "o", "--settings", '{"cleaning": {"max_word": 1}}'
    )
    assert "--mirror: none is not a directory" in fails(capsys, "list", "--mirror", "none")
    declare(gold={"file": "test.gold", "base": 2, "format": "pharaoh"})
    assert fails(capsys, "list") == "datasets.yaml: mine.gold.base: 2 is not one of 0, 1"


@pytest.mark.parametrize("task", [[], ["list"], ["fetch"], ["check"], ["prepare"]])
def test_help_fits_a_screen(capsys: pytest.CaptureFixture[str], task: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["data", *task, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) < 25
    assert "example" in text


def test_shipped_demo_prepares(capsys: pytest.CaptureFixture[str]) -> None:
    datasets = str(ROOT / "config/datasets.yaml")
    settings = '{"max_train_pairs": 50}'
    assert main(["data", "prepare", "demo", "--out", "demo", "--datasets", datasets, "--settings", settings]) == 0
    assert len(Path("demo/train.source").read_text("utf-8").splitlines()) == 50
    report = json.loads(Path("demo/preparation.json").read_text(encoding="utf-8"))
    assert report["splits"]["test"]["links"]["sure"] > 0
    assert main(["data", "check", "demo", "--datasets", datasets]) == 0
    capsys.readouterr()


def _line(role: str, number: int, file: dict[str, Any]) -> str:
    """Returns one line as it would stand in a file of this role and markup."""
    if role.endswith("gold"):
        return f"{number} 1 1 S" if "talp" not in str(file["member"]) else "1-1"
    text = f"{role.split('.')[0]}{number} ."
    return {
        "snum": f"<s snum={number}> {text} </s>",
        "seg": f'<seg id="{number}">{text}</seg>',
        "none": text,
        "ted": f" {text} ",
    }[file.get("markup", "none")]


def _files(entry: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    parts = [("train", part[side]) for part in entry["train"] for side in ("source", "target")]
    parts += [("test", entry["test"][side]) for side in ("source", "target")]
    parts += [("dev", entry["dev"][side]) for side in ("source", "target") if side in entry["dev"]]
    return parts + ([("test.gold", entry["gold"]["file"])] if "gold" in entry else [])


@pytest.mark.parametrize("name", ["paper-deen", "paper-enfr", "paper-roen", "wmt14-ende", "wmt14-enfr", "iwslt14"])
def test_shipped_downloads_read_archives_of_the_declared_layout(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Archives made here in the layout the registry declares, in a mirror, so that nothing is downloaded."""
    entry = yaml.safe_load((ROOT / "config/datasets.yaml").read_text(encoding="utf-8"))[name]
    archives: dict[str, dict[str, bytes]] = {}
    for role, file in _files(entry):
        file["sha256"] = None
        members = [file["member"]] if isinstance(file["member"], str) else file["member"]
        content = archives.setdefault(file["mirror"], {})
        for part, member in enumerate(members):
            per_part = 1200 if role == "train" else 3
            first = part * per_part + 1
            lines = [_line(role, number, file) for number in range(first, first + per_part)]
            if role == "test.gold":
                total = 3 * (1 if isinstance(entry["test"]["source"]["member"], str) else 10)
                lines = [_line(role, n, file) for n in range(1, total + 1)]
            text = "".join(f"{line}\n" for line in lines).encode()
            if "list_column" in file:
                content[member] = b"t.r t.e\n"
                member = f"{file['list_folder']}/t.{'re'[file['list_column'] - 1]}"
            content[member.replace("*", "x")] = gzip.compress(text) if member.endswith(".gz") else text
    Path("mirror").mkdir()
    for archive, files in archives.items():
        with tarfile.open(f"mirror/{archive}", "w" if archive.endswith(".tar") else "w:gz") as tar:
            for member, text in files.items():
                info = tarfile.TarInfo(member)
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text))
    write("datasets.yaml", yaml.safe_dump({name: entry}))
    assert data("check", name, "--mirror", "mirror", "--cache", "cache") == 0
    assert data("prepare", name, "--mirror", "mirror", "--cache", "cache", "--out", "out") == 0
    report = json.loads(Path("out/preparation.json").read_text(encoding="utf-8"))
    assert report["splits"]["train"]["read"] == 1200 * len(entry["train"])
    assert Path("out/test.source").read_text().startswith("test1 .\ntest2 .\n")
    assert ("gold" in entry) == Path("out/test.gold").exists()
    capsys.readouterr()


@pytest.mark.mirror
@pytest.mark.parametrize(
    ("name", "pairs", "sure", "possible"),
    [("hansards", 447, 4038, 17438), ("deen", 508, 9613, 10534), ("roen", 248, 6198, 6198), ("multi30k", 1000, 0, 0)],
)
def test_real_sets(
    mirror: Path, capsys: pytest.CaptureFixture[str], name: str, pairs: int, sure: int, possible: int
) -> None:
    common = ["--datasets", str(ROOT / "config/datasets.yaml"), "--mirror", str(mirror), "--cache", "cache"]
    assert main(["data", "check", name, *common]) == 0
    assert "problem" not in capsys.readouterr().out
    settings = '{"max_train_pairs": 2000}'
    assert main(["data", "prepare", name, "--out", "out", "--settings", settings, *common]) == 0
    report = json.loads(Path("out/preparation.json").read_text(encoding="utf-8"))
    test = report["splits"]["test"]
    assert test["pairs"] == pairs
    assert test.get("links", {"sure": 0, "possible": 0}) == {"sure": sure, "possible": possible}
    assert report["splits"]["train"]["pairs"] == 2000
    assert not Path("cache").exists()
