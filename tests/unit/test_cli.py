"""The verbs, called as a user calls them: exit codes, one-line errors, machine-readable output."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from alignlens.attribution.native import LEVELS, levels
from alignlens.cli.main import VERBS, main
from alignlens.io.atomic import atomic_directory

GOLD = "0-0 1-1 2p2\n0-1 1-0\n\n"
LINKS = "0-0 1-1 2-2\n0-1 1-1\n\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {
        "gold": GOLD,
        "a.links": LINKS,
        "b.links": "0-0\n\n\n",
        "source": "a b c\nd e\n\n",
        "target": "x y z\nu v\n\n",
    }.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def failed_with(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Returns the one line on stderr of a call that must exit with 2 and print nothing else."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


def test_score_prints_one_json_object(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "--gold", "gold", "--links", "a.links", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    # A = 5 links, S = 4, A & S = 3, A & P = 4: AER = 1 - 7 / 9.
    assert result["aer"] == pytest.approx(100 * 2 / 9, abs=1e-3)
    assert (result["precision"], result["recall"], result["f1"]) == (80.0, 75.0, pytest.approx(77.419, abs=1e-3))
    assert (result["links_count"], result["sure"], result["possible"], result["sentences"]) == (5, 4, 5, 3)
    assert result["interval"]["low"] <= result["aer"] <= result["interval"]["high"]
    assert (result["interval"]["level"], result["interval"]["samples"]) == (95, 1000)


def test_score_of_several_systems_and_the_paired_test(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--gold", "gold", "--links", "a.links", "b.links", "--source", "source", "--target", "target"]
    assert main(["score", *arguments, "--versus", "b.links", "--per-sentence", "rows.csv"]) == 0
    printed = capsys.readouterr().out
    assert "22.22" in printed
    assert "paired bootstrap" in printed
    rows = (files / "rows.csv").read_text().splitlines()
    assert rows[0] == "links,sentence,aer,precision,recall,f1,links_count,sure"
    assert len(rows) == 1 + 2 * 3
    assert rows[3] == "a,2,,,,,0,0"


def test_score_with_base_one_equals_base_zero(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "gold1").write_text("1-1 2-2 3p3\n1-2 2-1\n\n")
    assert main(["score", "--gold", "gold1", "--base", "1", "--links", "a.links", "--json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert main(["score", "--gold", "gold", "--links", "a.links", "--json"]) == 0
    zero = json.loads(capsys.readouterr().out)
    assert one.pop("base") == {"gold": 1, "why": "--base 1", "links": 0}
    assert zero.pop("base") == {"gold": 0, "why": "a link has word 0", "links": 0}
    assert one == zero


@pytest.mark.parametrize(
    ("gold", "options", "base", "why", "warned"),
    [
        # Word 0, or a link that reaches the last word counted from 1, settles it.
        ("0-1 1-1\n\n\n", [], 0, "a link has word 0", False),
        ("1-1 3-3\n1-1\n\n", ["--source", "source", "--target", "target"], 1, "reaches the last word", False),
        # Neither: it cannot be known.
        ("1-1 2-2\n\n\n", ["--source", "source", "--target", "target"], 0, "assumed: ", True),
        ("1-1 2-2\n\n\n", [], 0, "assumed: no link has word 0", True),
        ("1-1 2-2\n\n\n", ["--base", "0"], 0, "--base 0", False),
        ("\n\n\n", [], 0, "there are no links", False),
        # This format says where it begins.
        ("1 1 1 S\n3 0 2 S\n3 1 1 P\n", ["--format", "naacl"], 1, "this format counts from 1", False),
    ],
)
def test_score_finds_out_where_gold_begins_or_says_that_it_cannot(
    files: Path, capsys: pytest.CaptureFixture[str], gold: str, options: list[str], base: int, why: str, warned: bool
) -> None:
    (files / "gold").write_text(gold)
    assert main(["score", "--gold", "gold", "--links", "a.links", "--json", *options]) == 0
    captured = capsys.readouterr()
    told = json.loads(captured.out)["base"]
    assert told["gold"] == base
    assert why in told["why"]
    assert captured.err.count("\n") == warned
    assert ("gold: no link has word 0" in captured.err and "Set --base 0 or --base 1." in captured.err) == warned
    assert main(["score", "--gold", "gold", "--links", "a.links", *options]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"gold counts words from {base} ({told['why']})"


def test_score_warns_of_links_that_never_have_word_0(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "one").write_text("1-1 2-2\n1-1\n\n")
    assert main(["score", "--gold", "gold", "--links", "one"]) == 0
    assert "one: no link has word 0" in (told := capsys.readouterr().err)
    assert told.endswith("Set --links-base 0 or --links-base 1.\n")
    assert main(["score", "--gold", "gold", "--links", "one", "--links-base", "1"]) == 0
    assert capsys.readouterr().err == ""


def test_score_refuses_bases_that_cannot_be(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = ["--source", "source", "--target", "target"]
    line = failed_with(capsys, "score", "--gold", "gold", "--base", "1", "--links", "a.links")
    assert "gold:1: link 0-0 with words counted from 1. The file counts from 0: set --base 0." in line
    (files / "one").write_text("1-1 3-3\n\n\n")
    line = failed_with(capsys, "score", "--gold", "one", "--base", "0", "--links", "a.links", *text)
    assert "one:1: link 3-3 is out of range" in line
    assert "set --base 1" in line
    line = failed_with(capsys, "score", "--gold", "gold", "--links", "one", *text)
    assert "set --links-base 1" in line


@pytest.mark.parametrize(
    "about", ['{"pair": 3}', '{"pair": [1, 2]}', '{"directions": 5}', '{"dataset": 7}', '{"text": {}}']
)
@pytest.mark.parametrize("verb", ["score", "bleu"])
def test_what_a_job_is_must_be_names(files: Path, capsys: pytest.CaptureFixture[str], verb: str, about: str) -> None:
    options = ["--gold", "gold", "--links", "a.links"] if verb == "score" else ["--hypothesis", "source"]
    options += [] if verb == "score" else ["--reference", "source"]
    assert "--about: " in failed_with(capsys, verb, *options, "--about", about)


def test_score_names_what_the_aligner_was_trained_on_or_says_what_is_wrong(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["score", "--gold", "gold", "--links", "a.links", "--trained-as", "aligner"]
    assert "aligner/training.json: no such file" in failed_with(capsys, *call)
    with atomic_directory(files / "aligner", "stored aligner") as folder:
        training = {"aligner": "ibm1", "library": "x", "pairs": "many", "skipped_empty": 0, "skipped_too_long": 0}
        (folder / "training.json").write_text(json.dumps({**training, "seed": 1}))
    line = failed_with(capsys, *call)
    assert "training.json" in line
    assert "many" in line
    (files / "aligner/training.json").write_text("{}")
    assert "training.json: damaged" in failed_with(capsys, *call)


def test_score_takes_no_file_twice(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for other in ("a.links", "./a.links"):
        assert "is given twice" in failed_with(capsys, "score", "--gold", "gold", "--links", "a.links", other)


def test_names_of_links_are_quoted_in_the_table_of_sentences(files: Path) -> None:
    (files / "a,b.links").write_text(LINKS)
    assert main(["score", "--gold", "gold", "--links", "a,b.links", "--per-sentence", "rows.csv"]) == 0
    assert (files / "rows.csv").read_text().splitlines()[3] == '"a,b",2,,,,,0,0'


def test_score_refuses_what_would_be_silently_wrong(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "one").write_text("1-1 2-2\n" * 25)
    (files / "zero").write_text("0-0 1-1\n" * 25)
    assert "--base 1" in failed_with(capsys, "score", "--gold", "one", "--links", "zero")
    (files / "short").write_text("0-0\n")
    assert "short:2: 1 lines, but gold has 3" in failed_with(capsys, "score", "--gold", "gold", "--links", "short")
    assert "go together" in failed_with(capsys, "score", "--gold", "gold", "--links", "a.links", "--source", "source")
    assert "nowhere: no such file" in failed_with(capsys, "score", "--gold", "nowhere", "--links", "a.links")
    text = ["--source", "source", "--target", "target"]
    (files / "outside").write_text("0-0 7-0\n\n\n")
    assert "outside:1: link 7-0 is out of range" in failed_with(
        capsys, "score", "--gold", "gold", "--links", "outside", *text
    )


def test_symmetrize_to_standard_output_and_to_files(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "flipped").write_text("0-0\n1-0\n\n")
    call = ["symmetrize", "--forward", "a.links", "--reverse", "flipped", "--flip-reverse"]
    assert main([*call, "--method", "intersection"]) == 0
    assert capsys.readouterr().out == "0-0\n0-1\n\n"
    assert main([*call, "--method", "union", "grow-diag", "--out-dir", "out"]) == 0
    assert (files / "out/union.pharaoh").read_text() == "0-0 1-1 2-2\n0-1 1-1\n\n"
    assert "several methods need --out-dir" in failed_with(capsys, *call, "--method", "union", "grow-diag")


def test_aligner_alone_stored_and_applied_again(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "train.s").write_text("a b\nb c\nc a\na c\n\n" * 20)
    (files / "train.t").write_text("x y\ny z\nz x\nx z\n\n" * 20)
    train = ["--train-source", "train.s", "--train-target", "train.t"]
    text = ["--source", "source", "--target", "target"]
    assert main(["aligner", "fast_align", *train, *text, "--text", "online", "--model", "m", "--out", "one"]) == 0
    assert main(["aligner", "fast_align", "--model", "m", *text]) == 0
    assert capsys.readouterr().out == (files / "one").read_text()
    assert (files / "one").read_text().count("\n") == 3
    assert (files / "one").read_text().splitlines()[0] == "0-0 1-1 2-2"
    assert main(["aligner", "ibm1", *text, "--reverse", "--out", "own", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["training"]["pairs"] == 2
    assert "holds fast_align, not hmm" in failed_with(capsys, "aligner", "hmm", "--model", "m", *text, "--out", "x")
    assert not (files / "x").exists()


def test_aligner_refuses_incomplete_calls(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "go together" in failed_with(capsys, "aligner", "hmm", "--source", "source")
    assert "nothing to do" in failed_with(capsys, "aligner", "hmm")
    train = ["--train-source", "source", "--train-target", "target"]
    assert "needs --model" in failed_with(capsys, "aligner", "hmm", *train)
    text = ["--source", "source", "--target", "target"]
    assert "online needs" in failed_with(capsys, "aligner", "hmm", *text, "--text", "online")
    (files / "longer").write_text("a\n" * 4)
    told = failed_with(capsys, "aligner", "hmm", "--source", "source", "--target", "longer")
    assert "longer:4: 4 lines, but source has 3" in told


def test_bleu(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "text").write_text("one two three four five\n")
    assert main(["bleu", "--hypothesis", "text", "--reference", "text", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bleu"] == pytest.approx(100)


def test_plan_tells_what_would_run_and_what_is_wrong(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    assert main(["plan", "--configfile", "config/presets/deen.yaml", "--results", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "aligner ibm4, offline, first 20,000 pairs" in printed
    (tmp_path / "bad.yaml").write_text("preset: x\naligners: [{name: gizza}]\n")
    assert "config.aligners[0].name: 'gizza'" in failed_with(capsys, "plan", "--configfile", str(tmp_path / "bad.yaml"))


def test_doctor_finds_this_machine_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--results", str(tmp_path), "--json"]) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert not printed.err
    states = {check["what"]: check["state"] for check in report["checks"]}
    assert report["ok"]
    assert {"Python", "torch", "aligner ibm4", "MLflow store", "disk", "Slurm"} <= set(states)
    compiled = next(check for check in report["checks"] if check["what"] == "compiled steps of attribution")
    assert compiled["state"] == "missing" or compiled["detail"] in {f"for {LEVELS[level]}" for level in levels()}


def test_doctor_tells_what_is_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert main(["doctor", "--results", str(tmp_path)]) == 2
    line = next(line for line in capsys.readouterr().out.splitlines() if "MLflow store" in line)
    assert line.split()[0] == "fail"
    assert "127.0.0.1:9" in line


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([verb, "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert f"alignlens {verb}" in text.split("example", 1)[1]


def test_the_command_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("alignlens ")
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {verb} " in shown for verb in VERBS)
    assert main(["scroe"]) == 2
    assert "did you mean score" in capsys.readouterr().err


def test_a_bug_keeps_its_traceback_and_a_closed_pipe_is_no_error(files: Path) -> None:
    code = (
        "import sys, alignlens.cli.score as s\n"
        "s.run = lambda args: 1 / 0\n"
        "from alignlens.cli.main import main; sys.exit(main(['score', '--gold', 'g', '--links', 'l']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    (files / "many").write_text("0-0\n" * 50_000)
    call = f"{sys.executable} -m alignlens symmetrize --forward many --reverse many --method union | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", call], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0-0\n", "")
