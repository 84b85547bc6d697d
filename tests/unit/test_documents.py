"""YAML and JSON are read strictly: what would be guessed, lost or endless is one line with file and line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from alignlens.errors import ConfigError, InputError
from alignlens.io.documents import read_json_option, read_yaml, shown

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{below}'] * 9)}]\n" for below, name in zip("abcdefgh", "bcdefghi", strict=True)
)
CHAIN = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 2000))


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "the key 'a' appears twice, first in line 1"),
        ("x:\n  a: 1\n  b: {c: 1, d: 2, c: 3}\n", 3, "the key 'c' appears twice"),
        ("x:\n- a: 1\n  a: 2\n", 3, "the key 'a' appears twice"),
        ("x: &x {a: 1, a: 2}\ny: *x\n", 1, "the key 'a' appears twice"),
        ('"a": 1\na: 2\n', 2, "the key 'a' appears twice"),
        ("x: &x {a: 1}\ny:\n  <<: *x\n  b: 1\n  <<: *x\n", 5, "the key '<<' appears twice"),
        ("a: 1\n1: x\n", 2, "the key '1' is not a text"),
        ("null: x\n", 1, "the key 'null' is not a text"),
        ("~: x\n", 1, "the key '~' is not a text"),
        ("yes: x\n", 1, "the key 'yes' is not a text"),
        ("a: {1.5: x}\n", 1, "the key '1.5' is not a text"),
        ("2024-01-01: x\n", 1, "the key '2024-01-01' is not a text"),
        ("? [a, b]\n: x\n", 1, "the key of several values is not a text"),
        ("? {a: b}\n: x\n", 1, "the key of several values is not a text"),
        ("a: 1\n---\nb: 2\n", 2, "another document"),
        ("a: [1\nb: 2\n", 2, "not YAML"),
        ("a:\n\t- b\n", 2, "not YAML"),
        ("a: !!python/object/apply:os.system ['touch pwned']\n", 1, "not YAML: could not determine a constructor"),
        ("a: !thing x\n", 1, "not YAML: could not determine a constructor"),
        ("a: &a [*a]\n", 1, "a value that contains itself"),
        ("a: &a {b: *a}\n", 1, "a value that contains itself"),
        ("a: *b\n", 1, "not YAML"),
        ("[" * 200_000, 1, "nested more than 100 levels deep"),
        ("- " * 100_000 + "x\n", 1, "nested more than 100 levels deep"),
        ("{a: " * 100_000, 1, "nested more than 100 levels deep"),
        (LAUGHS, None, "aliases of aliases expand to too many values"),
        (CHAIN, None, "aliases of aliases expand to too many values"),
        ("a: \x01\n", None, "not YAML"),
        (f"a: {'9' * 5000}\n", None, "cannot be read"),
        ("a: 2024-13-45\n", None, "cannot be read"),
    ],
)
def test_bad_yaml_is_one_line(tmp_path: Path, text: str, line: int | None, told: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_yaml(path)
    assert told in str(error.value)
    assert str(error.value).startswith(f"{path}:{line}:" if line else f"{path}:")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500 + len(str(path))
    assert not Path("pwned").exists()


def test_good_yaml_is_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "good.yaml"
    path.write_text(
        "\ufeffbelow: &below {a: 1, b: [x, 2.5, null, true]}\nabove:\n  <<: *below\n  a: 2\nagain: *below\n"
    )
    below = {"a": 1, "b": ["x", 2.5, None, True]}
    assert read_yaml(path) == {"below": below, "above": {**below, "a": 2}, "again": below}
    # A mapping that is merged before it stands there by itself has every key once, too.
    path.write_text("x: [&a {k: 1}, &b {<<: *a, k: 2}, {<<: *b, k: 3}, *b]\n")
    assert read_yaml(path) == {"x": [{"k": 1}, {"k": 2}, {"k": 3}, {"k": 2}]}
    path.write_text("# nothing yet\n")
    assert read_yaml(path) is None


def test_what_is_no_readable_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")
    (tmp_path / "large.yaml").write_bytes(b"# " + b"x" * 11_000_000)
    (tmp_path / "closed.yaml").write_text("a: 1\n")
    (tmp_path / "closed.yaml").chmod(0)
    cases = {
        tmp_path: "a folder, not a file",
        tmp_path / "none.yaml": "no such file",
        tmp_path / "binary.yaml": "not UTF-8",
        tmp_path / "large.yaml": "more than 10,000,000 bytes",
        tmp_path / ("x" * 300): "cannot be read (File name too long)",
        tmp_path / "a\0b": "cannot be read",
        tmp_path / "binary.yaml" / "x": "cannot be read (Not a directory)",
    }
    if os.getuid() != 0:  # for whom nothing is closed
        cases[tmp_path / "closed.yaml"] = "cannot be read (Permission denied)"
    for path, told in cases.items():
        with pytest.raises(InputError) as error:
            read_yaml(path)
        assert told in str(error.value), path


def test_json_is_read_as_strictly(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{\n\t"rate": 1e-3\n}')
    assert read_yaml(path) == {"rate": 0.001}
    other = tmp_path / "config.yaml"
    other.write_text('{\n\t"rate": 1e-3\n}')
    assert read_yaml(other) == {"rate": 0.001}
    other.write_text("{rate: 1.0e-3}")
    assert read_yaml(other) == {"rate": 0.001}
    other.write_text('{"a": 1,\n"a": 2}')
    with pytest.raises(InputError, match=r"config.yaml:2: the key 'a' appears twice, first in line 1"):
        read_yaml(other)
    path.write_text('{"a": 1, "b": {"c": 1, "c": 2}}')
    with pytest.raises(InputError, match="the key 'c' appears twice"):
        read_yaml(path)
    assert read_json_option("--settings", '{"a": [1]}') == {"a": [1]}
    for text, told in {
        "{": "--settings: not JSON (",
        "[1]": "--settings: [1] is not a JSON object",
        "": "--settings: not JSON (",
        '{"a": 1, "a": 2}': "--settings: not JSON (the key 'a' appears twice)",
        "[" * 100_000: "--settings: not JSON (nested too deeply)",
        '{"a": %s}' % ("9" * 5000): "--settings: not JSON (",
    }.items():
        with pytest.raises(ConfigError) as error:
            read_json_option("--settings", text)
        assert str(error.value).startswith(told)
        assert "\n" not in str(error.value)


def test_values_are_shown_on_one_short_line() -> None:
    assert shown("a\nb") == r"'a\nb'"
    assert shown(16**5000) == "a number with thousands of digits"
    assert len(shown("x" * 10_000)) == 100


def test_every_file_of_the_configuration_is_still_read(project: Path) -> None:
    for path in (project / "config").rglob("*.yaml"):
        assert read_yaml(path), path
