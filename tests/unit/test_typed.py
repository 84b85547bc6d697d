"""Settings written once: what a dataclass says is what the schema checks, what is read and what is written."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest

from alignlens.corpora.registry import Dataset
from alignlens.errors import ConfigError
from alignlens.io.limits import Limits
from alignlens.io.schema import check
from alignlens.io.typed import REQUIRED, check_limits, group, read, schema_of, setting, written
from alignlens.models.settings import ARCHITECTURES
from alignlens.training.presets import Preset
from alignlens.training.settings import TrainingSettings
from alignlens.workflow.configuration import Configuration
from alignlens.workflow.costs.rates import Rates

KINDS = ["round", "square"]


@dataclass(frozen=True)
class Hole:
    """A hole; a plain text is its label."""

    SHORT_FOR: ClassVar[str] = "label"

    label: str = setting(REQUIRED, "What it is called.", minLength=1)
    kind: str = setting("round", "What it looks like.", choices=KINDS)
    width: float | None = setting(None, "How wide it is.", Limits(0, 10, above=True), "the board ends")


@dataclass(frozen=True)
class Line:
    """A line."""

    start: int = setting(REQUIRED, "Where it starts.")
    end: int = setting(REQUIRED, "Where it ends.")


@dataclass(frozen=True)
class Dot:
    """A dot."""

    place: int = setting(REQUIRED, "Where it is.")


@dataclass(frozen=True)
class Paint:
    """What it looks like."""

    colour: Literal["red", "green"] = setting("red", "The colour.")


@dataclass(frozen=True)
class Secret:
    """A thing of its own form: written as stars."""

    length: int = 3

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {"type": "string", "pattern": r"^\**$"}

    @classmethod
    def from_json(cls, content: str) -> Secret:
        return cls(len(content))

    def as_json(self) -> str:
        return "*" * self.length


@dataclass(frozen=True)
class Board:
    """A board.

    And more of it.
    """

    name: str
    size: tuple[int, int] = setting(REQUIRED, "Width and height.", Limits(1, math.inf))
    paint: Paint = group(Paint, "How it is painted.")
    holes: tuple[Hole, ...] = setting((Hole("a"),), "Its holes.", maxItems=3)
    lids: dict[str, Hole | None] = setting({}, "Lids by name; null for none.")
    mark: Line | Dot | None = setting(None, "What is drawn on it.")
    words: str | tuple[str, ...] = setting((), "What is written on it.")
    secret: Secret = setting(Secret(), "What nobody knows.")
    sides: dict[str, float] = setting({}, "How long its sides are.", Limits(0, 10), keys=("left", "right"))
    anything: dict[str, Any] = setting({}, "Whatever else.")


def load(**content: Any) -> Board:
    content = {"size": [4, 3], **content}
    check(content, schema_of(Board), "board")
    return read(Board, content, name="mine")


def test_what_is_left_out_has_its_default_and_what_is_no_setting_is_given() -> None:
    assert load() == Board("mine", (4, 3), Paint("red"), (Hole("a", "round", None),), {}, None, (), Secret(3), {}, {})


def test_every_form_is_read_and_written_back() -> None:
    content = {
        "paint": {"colour": "green"},
        "holes": [{"label": "a", "kind": "square", "width": 2}, "b"],
        "lids": {"a": {"label": "x"}, "b": None, "c": "y"},
        "mark": {"start": 1, "end": 2},
        "words": "one",
        "secret": "**",
        "anything": {"x": [1, {"y": 2}]},
    }
    board = load(**content)
    assert board.holes == (Hole("a", "square", 2), Hole("b"))
    assert board.lids == {"a": Hole("x"), "b": None, "c": Hole("y")}
    assert (board.mark, board.words, board.secret) == (Line(1, 2), "one", Secret(2))
    assert load(mark={"place": 3}).mark == Dot(3)
    assert load(words=["one", "two"]).words == ("one", "two")
    told = written(board)
    assert told["holes"] == [
        {"label": "a", "kind": "square", "width": 2},
        {"label": "b", "kind": "round", "width": None},
    ]
    assert (told["secret"], told["anything"], "name" in told) == ("**", {"x": [1, {"y": 2}]}, False)
    assert load(**told) == board


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"name": "x"}, "board.name: unknown key 'name'"),
        ({"size": [4]}, "board.size: "),
        ({"size": [4, 0]}, "board.size[1]: 0 must be at least 1"),
        ({"size": [4, 3.0]}, "board.size[1]: 3.0 is not a whole number"),
        ({"paint": {"color": "red"}}, "board.paint.color: unknown key 'color'; known: colour (did you mean colour?)"),
        ({"paint": None}, "board.paint: None is not a mapping"),
        ({"paint": {"colour": "gren"}}, "board.paint.colour: 'gren' is not one of red, green (did you mean green?)"),
        ({"holes": ["a"] * 4}, "board.holes: has 4 entries; at most 3 are allowed"),
        ({"holes": [{"width": 1}]}, "board.holes[0]: missing key label"),
        (
            {"holes": [{"label": "a", "kind": "rond"}]},
            "board.holes[0].kind: 'rond' is not one of round, square (did you mean round?)",
        ),
        ({"holes": [""]}, "board.holes[0]: '' "),
        ({"holes": [3]}, "board.holes[0]: 3 is not a text or a mapping"),
        (
            {"lids": {"a": {"label": "a", "width": 0}}},
            "board.lids.a.width: 0 must be more than 0 and at most 10 (the ",
        ),
        ({"lids": {"a": 3}}, "board.lids.a: 3 is not a text or a mapping or null"),
        ({"mark": {"begin": 1}}, "board.mark.begin: unknown key 'begin'; known: end, place, start"),
        ({"words": [3]}, "board.words[0]: 3 is not a text"),
        ({"secret": "x"}, "board.secret: "),
        ({"sides": {"lef": 1}}, "board.sides.lef: unknown key 'lef'; known: left, right (did you mean left?)"),
        ({"sides": {"left": 11}}, "board.sides.left: 11 must be at most 10"),
    ],
)
def test_what_is_wrong_is_told_with_its_key(content: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(**content)
    assert str(error.value).startswith(told)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^board: missing key size$"):
        check({}, schema_of(Board), "board")


def test_numbers_are_checked_without_a_schema_too() -> None:
    check_limits(Hole("a", width=3), "hole")
    check_limits(Hole("a"), "hole")
    with pytest.raises(ConfigError, match=r"^hole\.width: 11 must lie more than 0 and at most 10\.$"):
        check_limits(Hole("a", width=11), "hole")


def keys_of(schema: dict[str, Any], where: str) -> list[tuple[str, dict[str, Any]]]:
    """Every key of a schema by its path, with its rules."""
    found = []
    for key, rules in schema.get("properties", {}).items():
        found += [(f"{where}.{key}", rules), *keys_of(rules, f"{where}.{key}")]
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), dict):
            found += keys_of(schema[part], where)
    return found


@pytest.mark.parametrize(
    "kind",
    [Configuration, Dataset, Preset, Rates, TrainingSettings, *(entry.settings for entry in ARCHITECTURES.values())],
)
def test_every_key_is_described(kind: type) -> None:
    keys = keys_of(schema_of(kind), kind.__name__)
    assert keys
    for key, rules in keys:
        assert rules.get("description") or key.endswith(".objective.name"), key
