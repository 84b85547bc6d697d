"""Whatever a rule puts into a shell command is quoted: no value of a configuration is read as shell."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

# A number that Snakemake makes itself.
UNQUOTED = {"threads"}
CALL = re.compile(r"\bshell\((.*)\)$")


def shell_literals(path: Path) -> list[str]:
    """The strings of all shell commands of a file, as they stand there."""
    found, above = [], None
    for line in path.read_text().splitlines():
        text, depth = line.strip(), len(line) - len(line.lstrip())
        if above is not None and text and depth <= above:
            above = None
        if above is not None and text and not text.startswith("#"):
            found.append(text)
        if text == "shell:":
            above = depth
        elif call := CALL.search(text):
            found.append(call[1])
    return found


def files(project: Path) -> list[Path]:
    return [project / "Snakefile", *sorted((project / "rules").glob("*.smk"))]


def test_the_walk_finds_the_commands(project: Path) -> None:
    text = "".join(path.read_text() for path in files(project))
    commands = [literal for path in files(project) for literal in shell_literals(path) if " -m alignlens " in literal]
    # One rule starts with its launcher instead.
    assert len(commands) == len(re.findall(r"^\s+shell:$|^\s+shell\(", text, re.MULTILINE)) - 1 > 20
    assert not re.search(r"^\s+(run|script|notebook):", text, re.MULTILINE)


def test_every_placeholder_is_quoted(project: Path) -> None:
    for path in files(project):
        for literal in shell_literals(path):
            # A plain string: what is put together in Python would be in the command before anything is quoted.
            assert isinstance(ast.literal_eval(literal), str), f"{path.name}: {literal}"
            for placeholder in re.findall(r"\{([^}]*)\}", literal):
                assert placeholder in UNQUOTED or placeholder.endswith(":q"), f"{path.name}: {{{placeholder}}}"


@pytest.mark.parametrize("bad", ['f"python {x}"', '"python " + x', '"a".format(x)'])
def test_the_walk_would_see_a_command_that_is_put_together(bad: str) -> None:
    with pytest.raises(ValueError, match="malformed"):
        ast.literal_eval(bad)


def test_no_rule_puts_an_option_and_its_value_together_by_itself(project: Path) -> None:
    for path in files(project)[1:]:
        for line in path.read_text().splitlines():
            assert not re.search(r"""f["']--[\w-]+ """, line), f"{path.name}: {line.strip()}"


def test_profiles_speak_of_rules_that_are_there(project: Path) -> None:
    text = "".join(path.read_text() for path in files(project))
    rules = set(re.findall(r"^ *(?:use )?rule (?:\w+ as )?(\w+)(?: with)?:$", text, re.MULTILINE))
    profiles = [yaml.safe_load(path.read_text()) for path in project.glob("profiles/*/config.yaml")]
    named = [
        name
        for profile in profiles
        for key in ("groups", "set-resources", "set-threads")
        for name in profile.get(key, {})
    ]
    assert len(named) > 15
    assert set(named) <= rules
