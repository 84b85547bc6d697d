"""JSON on disk and on the command line: read with its seal checked, wrong content told in one line."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.errors import ConfigError, InputError
from alignlens.io.seals import verify

if TYPE_CHECKING:
    from collections.abc import Iterator


def read_json(path: Path | str, advice: str) -> dict[str, Any]:
    """Returns the mapping that a JSON file holds; ``advice`` says how to get a good one."""
    path = Path(path)
    verify(path)
    try:
        content = _parsed(path.read_bytes())
    except FileNotFoundError:
        raise InputError("no such file.", path, advice=advice) from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror}).", path, advice=advice) from None
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON ({error.msg}).", path, error.lineno, advice) from None
    except UnicodeDecodeError:
        raise InputError("not JSON (not UTF-8).", path, advice=advice) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON that can be read ({error}).", path, advice=advice) from None
    if not isinstance(content, dict):
        raise InputError("not a JSON object.", path, advice=advice)
    return content


def json_option(option: str, text: str) -> dict[str, Any]:
    """Returns the mapping given as JSON on the command line."""
    try:
        content = _parsed(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{option}: not JSON ({error}): {text[:200]!r}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{option}: not a mapping: {text[:200]!r}")
    return content


def _parsed(text: bytes | str) -> Any:
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


@contextmanager
def taking(path: Path | str, advice: str) -> Iterator[None]:
    """Turns whatever goes wrong when content is taken out of a document into one line about the file."""
    try:
        yield
    except ConfigError as error:
        raise InputError(str(error), path, advice=advice) from None
    except KeyError as error:
        raise InputError(f"{error} is missing.", path, advice=advice) from None
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise InputError(f"unexpected value ({' '.join(str(error).split())}).", path, advice=advice) from None
