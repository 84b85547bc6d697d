"""What the documentation says of keys, methods and commands, made from the code that defines them.

``python docs/site/reference.py`` writes the tables of committed pages again, each between ``<!-- made by ... -->`` and
``<!-- end -->``; a test compares them. ``PAGES`` exist on the site only: the help of a command looks different in
other versions of Python, and nobody reads all settings from top to bottom.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.attribution.registry import METHODS, written
from alignlens.classification.settings import ClassifierRecipe
from alignlens.cli.main import VERBS, parser_of
from alignlens.corpora.registry import Dataset, LabelledSet
from alignlens.io.typed import schema_of
from alignlens.models.settings import ARCHITECTURES
from alignlens.toys.settings import TASKS
from alignlens.training.objectives.registry import OBJECTIVES
from alignlens.training.settings import TrainingSettings
from alignlens.workflow.configuration import config_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from alignlens.attribution.spec import MethodSpec

    Rule = dict[str, Any]

PROJECT = Path(__file__).resolve().parents[2]
_PART = re.compile(r"(<!-- made by docs/site/reference\.py: (\w+) -->\n).*?(\n<!-- end -->)", re.DOTALL)
#: The order of the first keys of a configuration; the others follow in that of their dataclass.
_FIRST = ("preset", "datasets", "custom_datasets", "mirror", "cleaning", "max_train_pairs", "subwords", "models")
_KINDS = {"integer": "a whole number", "number": "a number", "string": "a text", "object": "a mapping"}
_WIDTH = 100
#: So many names of values are listed.
_FEW = 12


def configuration() -> str:
    """Returns the table of all keys of a configuration."""
    properties = config_schema()["properties"]
    ordered = sorted(properties, key=lambda key: _FIRST.index(key) if key in _FIRST else len(_FIRST))
    return _keys({key: properties[key] for key in ordered})


def methods() -> str:
    """Returns the table of all methods."""
    rows = []
    for spec in METHODS.values():
        name = f"`{spec.name}`" + "".join(f" (`{alias}`)" for alias in spec.aliases)
        only = "all" if spec.only is None else ", ".join(f"`{each}`" for each in spec.only.architectures)
        rows.append((name, spec.paper, f"`{spec.equation}`", _rows(spec), spec.cost, only))
    return _table(("method", "paper", "score of source piece i for target piece j", "rows", "passes", "models"), rows)


def _rows(spec: MethodSpec) -> str:
    told = "may be negative" if spec.signed else "do not sum to one"
    return ("sum to one" if spec.distribution else told) + ("; also of the prefix" if spec.prefix else "")


def parameters() -> str:
    """Returns the table of the parameters of all methods; methods that share one share its row."""
    shared: dict[tuple[str, str, str, str], list[str]] = {}
    for spec in METHODS.values():
        for key, parameter in spec.parameters.items():
            entry = f"`{key}`", f"`{written(parameter.default)}`", parameter.accepts, parameter.about
            shared.setdefault(entry, []).append(f"`{spec.name}`")
    first = list(dict.fromkeys(key for key, *_ in shared))
    rows = sorted(shared.items(), key=lambda row: first.index(row[0][0]))
    return _table(
        ("parameter", "default", "values", "meaning", "of"),
        [(*entry, ", ".join(names)) for entry, names in rows],
    )


def commands() -> str:
    """Returns the table of all verbs."""
    return _table(("command", "what it does"), [(f"`alignlens {verb}`", text) for verb, text in VERBS.items()])


def commands_page() -> str:
    """Returns a page with the help of every command."""
    os.environ["COLUMNS"] = str(_WIDTH)
    parts = [
        "# Every command",
        "What `--help` prints. [commands.md](../commands.md) has examples that run on the demo.",
    ]
    for verb in VERBS:
        for level, parser in _parsers(parser_of(verb), 2):
            parts += [f"{'#' * level} {parser.prog}", f"```text\n{parser.format_help().rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"


def settings_page() -> str:
    """Returns a page with everything that may be set outside of the keys of a configuration."""
    parts = [
        "# Every setting of models, training and data",
        "The keys of a configuration itself are in [config/README.md](../../config/README.md). What they leave open is "
        "here. [models.md](../models.md) and [data.md](../data.md) explain how things go together.",
        "## Models (`model:`)",
    ]
    for name, architecture in ARCHITECTURES.items():
        parts += [f"### Architecture `{name}`", _keys(schema_of(architecture.settings)["properties"])]
    parts += ["## Training (`training:`)", _keys(schema_of(TrainingSettings)["properties"])]
    parts += ["## Objectives (`training.objective`)"]
    for name, spec in OBJECTIVES.items():
        options = schema_of(spec.options)["properties"]
        parts += [f"### Objective `{name}`", _sentence(spec.summary), *([_keys(options)] if options else [])]
    parts += ["## Parallel text (`datasets.yaml`, `custom_datasets`)", _keys(schema_of(Dataset)["properties"])]
    parts += ["## Labelled text (`datasets.yaml`)", _keys(schema_of(LabelledSet)["properties"])]
    parts += ["## Classifiers (`alignlens classify`)", _keys(schema_of(ClassifierRecipe)["properties"])]
    parts += ["## Generated tasks (`alignlens toy`)"]
    for name, task in TASKS.items():
        parts += [f"### Task `{name}`", _keys(schema_of(task)["properties"])]
    return linked("\n\n".join(parts) + "\n", Path("docs/reference"))


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "configuration": ("config/README.md", configuration),
    "methods": ("docs/methods.md", methods),
    "parameters": ("docs/methods.md", parameters),
    "commands": ("docs/commands.md", commands),
}
PAGES: dict[str, Callable[[], str]] = {"reference/commands.md": commands_page, "reference/settings.md": settings_page}


def with_parts(page: str, text: str) -> str:
    """Returns the text of a page (its path in the project) with its tables as they are now."""

    def made(match: re.Match[str]) -> str:
        of, part = PARTS[match[2]]
        if of != page:
            raise ValueError(f"{page}: {match[2]} belongs in {of}")
        return f"{match[1]}\n{linked(part(), Path(page).parent)}{match[3]}"

    return _PART.sub(made, text)


def linked(text: str, folder: Path) -> str:
    """Returns the text with names of pages as links, from a page in that folder of the project."""
    return re.sub(
        r"(?<![\w/\[])(?<!\]\()(docs/\w+\.md)(#[\w-]+)?",
        lambda match: f"[{match[1]}]({os.path.relpath(match[1], folder)}{match[2] or ''})",
        text,
    )


def _keys(properties: dict[str, Rule]) -> str:
    rows = [
        (f"`{key}`", _default(rule), _values(rule), _sentence(rule.get("description", "")))
        for key, rule in _walked(properties)
    ]
    return _table(("key", "default", "values", "meaning"), rows)


def _walked(properties: dict[str, Rule], prefix: str = "") -> Iterator[tuple[str, Rule]]:
    """Yields every key by its dotted path."""
    for key, rule in properties.items():
        yield prefix + key, rule
        yield from _walked(_inner(rule).get("properties", {}), f"{prefix}{key}.")


def _inner(rule: Rule) -> Rule:
    """Returns the rule that has the keys below a key: of each entry where it is a list or has free names."""
    named = rule.get("additionalProperties")
    inner: Rule = named if isinstance(named, dict) else rule.get("items", rule)
    return inner


def _default(rule: Rule) -> str:
    if "default" not in rule:
        return "" if "properties" in _inner(rule) else "–"
    if "properties" in rule:  # its keys have their own
        return "" if rule["default"] is not None else "`null`"
    # As people write YAML: names without quotes.
    return "`" + re.sub(r'"([\w.-]+)"', r"\1", json.dumps(rule["default"], ensure_ascii=False)) + "`"


def _values(rule: Rule) -> str:
    """Returns in words what a value may be, with the reason of its limits."""
    kinds = [rule["type"]] if isinstance(rule.get("type"), str) else rule.get("type", [])
    may_be_null = " or `null`" if "null" in kinds else ""
    if len(rule.get("enum", ())) > _FEW:
        return f"one of {len(rule['enum'])} names{may_be_null}"
    if "enum" in rule:
        return ", ".join(f"`{value}`" for value in rule["enum"]) + may_be_null
    if "boolean" in kinds:
        return "`true` or `false`" + may_be_null
    if "array" in kinds:
        inner = "mappings" if "properties" in rule["items"] else _several(_values(rule["items"]))
        return f"a list of {inner}{may_be_null}"
    told = " or ".join(_KINDS[kind] for kind in kinds if kind in _KINDS)
    return f"{told}{_limits(rule)}{may_be_null}" + (f" ({rule['$comment']})" if "$comment" in rule else "")


def _several(one: str) -> str:
    """Returns values in the plural: whole numbers from 1 to 200."""
    return re.sub(r"^an? ((?:whole )?\w+)", r"\1s", one)


def _limits(rule: Rule) -> str:
    least, most = rule.get("minimum", rule.get("exclusiveMinimum")), rule.get("maximum", rule.get("exclusiveMaximum"))
    if least is None:
        return ""
    if "exclusiveMinimum" in rule or "exclusiveMaximum" in rule:
        lower = f" {'above' if 'exclusiveMinimum' in rule else 'from'} {least:,.15g}"
        return (
            lower if most is None else f"{lower} and {'below' if 'exclusiveMaximum' in rule else 'up to'} {most:,.15g}"
        )
    return f" from {least:,.15g}" + ("" if most is None else f" to {most:,.15g}")


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if not text or text.endswith(".") else f"{text}."


def _parsers(parser: argparse.ArgumentParser, level: int) -> Iterator[tuple[int, argparse.ArgumentParser]]:
    """Yields a parser and those of its actions, with the level of their headings."""
    yield level, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _parsers(inner, level + 1)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def main() -> None:
    """Writes the tables of all committed pages."""
    for page in sorted({page for page, _ in PARTS.values()}):
        path = PROJECT / page
        path.write_text(with_parts(page, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
