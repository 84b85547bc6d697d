"""What ``snakemake --logger alignlens`` makes of the records of a run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from snakemake_logger_plugin_alignlens.board import Board


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def board(clock: Clock) -> Board:
    made = Board(clock)
    assert told(made, "run_info", "Job stats: ...", stats={"train": 9, "total": 10}) == ["10 jobs"]
    return made


def told(board: Board, event: str | None, text: str = "", level: int = logging.INFO, **known: Any) -> list[str]:
    record = logging.LogRecord("snakemake.logging", level, "", 0, text, None, None)
    record.__dict__.update(known, event=event)
    return board.lines(record, text, every_job=True)


def start(board: Board, number: int, rule: str, shell: str | None = "true", **wildcards: str) -> None:
    assert told(board, "job_info", jobid=number, rule_name=rule, wildcards=wildcards, shellcmd=shell) == []


def test_a_job_that_ends_is_a_line_with_count_and_times(board: Board, clock: Clock) -> None:
    start(board, 1, "train", dataset="demo", direction="xa-xb")
    clock.now += 62
    assert told(board, "job_finished", "Finished jobid: 1", job_id=1) == ["[ 1/10]  1:02 train demo/xa-xb (1:02)"]
    assert told(board, "progress", "1 of 10 steps", done=1, total=10) == []


def test_the_line_has_all_that_runs_and_fits(board: Board, clock: Clock) -> None:
    start(board, 1, "train", dataset="demo")
    clock.now += 3700
    start(board, 2, "report")
    start(board, 3, "all", shell=None)
    assert board.line() == "[ 0/10] 1:01:40 train demo (1:01:40) · report (0:00)"
    assert board.line(20) == "[ 0/10] 1:01:40 tra…"


def test_the_last_job_ends_the_count(board: Board) -> None:
    start(board, 1, "all", shell=None)
    assert told(board, "job_finished", job_id=1) == []
    assert told(board, "progress", done=10, total=10) == ["[10/10]  0:00 all done"]


def test_a_failure_names_its_log_and_shows_the_end_of_it(board: Board, clock: Clock, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"line {number}\n" for number in range(30)))
    start(board, 1, "train", dataset="demo")
    clock.now += 5
    lines = told(board, "job_error", level=logging.ERROR, jobid=1, rule_name="train", log=[str(log), "/no/such.log"])
    assert lines[:3] == ["failed: train demo (0:05)", f"  {log}:", "    line 20"]
    assert lines[-2:] == ["    line 29", "  /no/such.log:"]
    assert board.running == {}


def test_what_is_no_news_of_a_job_passes_as_it_is(board: Board) -> None:
    assert told(board, None, "Building DAG of jobs...") == []
    assert told(board, "resources_info", "Provided cores: 2") == []
    assert told(board, None, "Nothing to be done.") == ["Nothing to be done."]
    assert told(board, "error", "WorkflowError: no", logging.ERROR) == ["WorkflowError: no"]
    assert told(board, "group_error", "Error in group", logging.ERROR) == ["Error in group"]
    assert told(board, None, "Select jobs with care", logging.WARNING) == ["Select jobs with care"]
    assert told(board, "shellcmd", "Shell command: true") == ["Shell command: true"]


def test_silence_is_measured_from_the_last_line(board: Board, clock: Clock) -> None:
    clock.now += 59
    assert not board.silent_for(60)
    clock.now += 1
    assert board.silent_for(60)
    told(board, None, "something")
    assert not board.silent_for(60)
