"""Every number on a command line is checked when it is read: its form, and that it can ever work."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator

import pytest

from alignlens.cli.main import VERBS
from alignlens.cli.numbers import count, real, seed
from alignlens.io.limits import ADAPTIVE, LEVEL, SEED, SIGMA, THREADS, Limits

# Numbers that are one of two choices, and what belongs to servers.
OTHERS = {"--base", "--links-base", "--port"}
NEVER = (
    "", " ", " 1", "1 ", "1\n", "x", "nan", "-nan", "inf", "-inf", "infinity", "1e999", "1_000", "٣", "０", "0x10",
    "1,5", "-", "1e", ".", "+", "-1", "9" * 30, "9" * 5000, "1;touch pwned",
)  # fmt: skip


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


def numeric_options() -> list[tuple[str, str, argparse.ArgumentParser]]:
    found = []
    for verb in VERBS:
        parser = argparse.ArgumentParser(prog=f"alignlens {verb}")
        importlib.import_module(f"alignlens.cli.{verb.replace('-', '_')}").configure(parser)
        for each in parsers(parser):
            for action in each._actions:
                is_number = isinstance(action.default, int | float) and not isinstance(action.default, bool)
                checked = getattr(action.type, "__qualname__", "").startswith("_checked.")
                if (is_number or checked or action.type in (int, float)) and not OTHERS & {*action.option_strings}:
                    found.append((verb, action.option_strings[0], each))
    return found


OPTIONS = numeric_options()


def test_the_walk_finds_the_options() -> None:
    names = {(verb, option) for verb, option, _ in OPTIONS}
    assert len(names) > 40
    assert {
        ("train", "--seed"), ("train", "--threads"), ("aligner", "--max-pairs"), ("plan", "--gpu-tflops"),
        ("subwords", "--coverage"), ("translate", "--temperature"), ("encoder", "--triples"), ("cost", "--seconds"),
    } <= names  # fmt: skip


@pytest.mark.parametrize(("verb", "option", "parser"), OPTIONS, ids=[f"{verb}{option}" for verb, option, _ in OPTIONS])
def test_what_can_never_work_is_refused_with_option_value_and_range(
    verb: str, option: str, parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in NEVER:
        with pytest.raises(SystemExit) as stopped:
            parser.parse_args([f"{option}={text}"])
        assert stopped.value.code == 2
        told = capsys.readouterr().err.splitlines()[-1]
        assert f"argument {option}: " in told
        assert " must be a " in told
        assert len(told) < 300


@pytest.mark.parametrize(
    ("limits", "text", "told"),
    [
        (SEED, "-1", "'-1' must be a whole number from 0 to 2147483647"),
        (SEED, "2147483648", "'2147483648' must be a whole number from 0 to 2147483647"),
        (SEED, "1.0", "'1.0' must be a whole number from 0 to 2147483647"),
        (THREADS, "0", "'0' must be a whole number from 1 to 1024"),
    ],
)
def test_whole_numbers(limits: Limits, text: str, told: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as error:
        count(limits)(text)
    assert str(error.value) == told


@pytest.mark.parametrize(
    ("limits", "text", "told"),
    [
        (SIGMA, "1e30", "'1e30' must be a number from 0 to 10"),
        (LEVEL, "100", "'100' must be a number more than 0 and less than 100"),
        (ADAPTIVE, "0.5", "'0.5' must be a number more than 0 and less than 0.5"),
    ],
)
def test_other_numbers(limits: Limits, text: str, told: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as error:
        real(limits)(text)
    assert str(error.value) == told


def test_good_numbers_are_what_they_were() -> None:
    assert [seed(text) for text in ("0", "7", "+7", "2147483647")] == [0, 7, 7, 2**31 - 1]
    assert [real(SIGMA)(text) for text in ("0", "0.15", ".5", "1.", "1e-3", "10")] == [0, 0.15, 0.5, 1.0, 0.001, 10]
