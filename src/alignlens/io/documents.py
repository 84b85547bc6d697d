"""YAML and JSON, read strictly: one document, unique keys that are strings, bounded size, seal checked."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.errors import ConfigError, InputError
from alignlens.io.seals import verify

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import yaml

# Our own files have a hundredth of these. Larger input can hang or crash a parser: the one in C fails with a
# segmentation fault on deep nesting, and a few aliases of aliases expand to billions of values.
_LARGEST_BYTES = 10_000_000
_DEEPEST = 100
_MOST_VALUES = 200_000
_TEXT, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"
_CHECK = "Check indentation and quotes."


def read_yaml(path: Path | str) -> Any:
    """Returns the content of a YAML or JSON file; an error names the line."""
    import yaml

    path = Path(path)
    text = _text(path)
    try:
        if path.suffix == ".json":
            return _parsed_json(text)
        # Snakemake parses anything that is JSON as JSON, whatever its name: there 1e-3 is a number.
        content = _json_if_so(text)
        return _parsed_yaml(text, path) if content is None else content
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
        raise InputError(f"not YAML: {problem}.", path, _line(mark), _CHECK) from None
    except ValueError as error:  # a number of thousands of digits, a day that no calendar has; all of JSON
        raise InputError(f"cannot be read ({error}).", path, advice=_CHECK) from None


def read_json(path: Path | str, advice: str) -> dict[str, Any]:
    """Returns the mapping that a JSON file holds; ``advice`` says how to get a good one."""
    path = Path(path)
    verify(path)
    try:
        content = _parsed_json(path.read_text(encoding="utf-8"), constants=False)
    except FileNotFoundError:
        raise InputError("no such file.", path, advice=advice) from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror}).", path, advice=advice) from None
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON ({error.msg}).", path, error.lineno, advice) from None
    except UnicodeDecodeError:
        raise InputError("not JSON (not UTF-8).", path, advice=advice) from None
    except ValueError as error:
        raise InputError(f"not valid JSON ({error}).", path, advice=advice) from None
    if not isinstance(content, dict):
        raise InputError("not a JSON object.", path, advice=advice)
    return content


@contextmanager
def taking(path: Path | str, advice: str) -> Iterator[None]:
    """Turns any error while values are taken out of a document into one line about the file."""
    try:
        yield
    except ConfigError as error:
        raise InputError(str(error), path, advice=advice) from None
    except KeyError as error:
        raise InputError(f"{error} is missing.", path, advice=advice) from None
    except (TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
        raise InputError(f"unexpected value ({' '.join(str(error).split())}).", path, advice=advice) from None


def read_json_option(option: str, text: str) -> dict[str, Any]:
    """Returns the mapping that an option of a command gives as JSON."""
    try:
        value = _parsed_json(text)
    except ValueError as error:
        raise ConfigError(f"{option}: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{option}: {shown(value)} is not a JSON object")
    return value


def shown(value: Any, most: int = 100) -> str:
    """Returns any value, shortened and escaped to fit in one line."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print numbers of more than 4300 digits
        return "a number with thousands of digits"
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise InputError("no such file.", path, advice="Check the path, or run from the project directory.") from None
    except IsADirectoryError:
        raise InputError("a folder, not a file.", path, advice="Name a file in it.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot be read ({reason}).", path, advice="Check the path and its permissions.") from None
    if len(content) > _LARGEST_BYTES:
        raise InputError(f"more than {_LARGEST_BYTES:,} bytes.", path, advice="Give a configuration file, not data.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("not UTF-8.", path, advice="Convert it.") from None


def _parsed_yaml(text: str, path: Path) -> Any:
    import yaml

    # The parser in C, where PyYAML was built with it: every start of Snakemake reads all of config/.
    kind = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    depth = 0
    for event in yaml.parse(text, Loader=kind):  # events need no recursion, nodes do
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                problem = f"nested more than {_DEEPEST} levels deep."
                raise InputError(problem, path, _line(event.start_mark), _CHECK)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    loader = kind(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _Nodes(path).measure(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


class _Nodes:
    """A walk over the nodes of a document, each once, however often aliases repeat it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._measured: dict[int, tuple[int, int] | None] = {}

    def measure(self, node: yaml.Node) -> tuple[int, int]:
        """Returns how many values a node stands for and how deep they are, aliases written out; raises for bad keys."""
        if id(node) in self._measured:
            size = self._measured[id(node)]
            if size is None:
                raise self._error(node, "a value that contains itself.", "Write the values out.")
            return size
        self._measured[id(node)] = None
        values, depth = 1, 0
        for child in self._children(node):
            more, below = self.measure(child)
            values, depth = values + more, max(depth, below + 1)
        if values > _MOST_VALUES or depth > _DEEPEST:
            raise self._error(node, "aliases of aliases expand to too many values.", "Write the values out.")
        self._measured[id(node)] = values, depth
        return values, depth

    def _children(self, node: yaml.Node) -> Sequence[yaml.Node]:
        import yaml

        if isinstance(node, yaml.MappingNode):
            self._check_keys([key for key, _ in node.value])
            return [value for _, value in node.value]
        return node.value if isinstance(node, yaml.SequenceNode) else ()

    def _check_keys(self, keys: Sequence[yaml.Node]) -> None:
        lines: dict[str, int] = {}
        for key in keys:
            if key.tag not in (_TEXT, _MERGE):
                name = shown(key.value) if isinstance(key.value, str) else "of several values"
                raise self._error(key, f"the key {name} is not a text.", "Put it in quotes.")
            if key.value in lines:
                problem = f"the key {shown(key.value)} appears twice, first in line {lines[key.value]}."
                raise self._error(key, problem, "Remove one of them.")
            lines[key.value] = key.start_mark.line + 1

    def _error(self, node: yaml.Node, problem: str, advice: str) -> InputError:
        return InputError(problem, self._path, node.start_mark.line + 1, advice)


def _line(mark: Any) -> int | None:
    return mark.line + 1 if mark is not None else None


def _parsed_json(text: str, constants: bool = True) -> Any:
    """Returns the content of a JSON text; raises ``ValueError`` with what is wrong.

    ``constants``: whether it may have NaN and infinities, which a schema refuses with the key that has them.
    """
    try:
        if "\\u" in text:
            _check_characters(text)
        return json.loads(text, object_pairs_hook=_once, parse_constant=None if constants else _no_number)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _check_characters(text: str) -> None:
    """Raises for half a character, which JSON can spell but UTF-8 cannot encode."""
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate, which is half a character") from None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _json_if_so(text: str) -> Any:
    try:
        return _parsed_json(text) if text.lstrip().startswith("{") else None
    except ValueError:
        return None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise ValueError(f"the key {shown(key)} appears twice")
        mapping[key] = value
    return mapping
