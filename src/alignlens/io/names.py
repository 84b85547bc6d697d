"""Names that become folders and files: the rules for each kind of name.

Letters, digits, ``_`` and ``-``, a letter or digit first, at most 64 of them: no name leaves its folder, hides in it,
looks like an option, or needs quotes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from alignlens.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST = 64


class Kind(NamedTuple):
    """The rule for one kind of name, as a pattern and in words."""

    pattern: str
    words: str


#: Rules by the ``format`` in schemas.
KINDS = {
    "preset-name": Kind("[a-z0-9][a-z0-9_-]*", "lower-case letters, digits, _ and -"),
    "dataset-name": Kind("[a-z0-9][a-z0-9-]*", "lower-case letters, digits and -"),
    "model-name": Kind("[a-z0-9][a-z0-9_]*", "lower-case letters, digits and _"),
    "encoder-name": Kind("[A-Za-z0-9][A-Za-z0-9_-]*", "letters, digits, _ and -"),
    "language-code": Kind("[a-z]{2,3}", "two or three lower-case letters"),
}
#: Other folders beside the presets in the folder of all results.
TAKEN_IN_RESULTS = ("cache", "mlartifacts", "mlruns", "server")


def is_name(kind: str, text: object) -> bool:
    """Returns whether a text is a name of that kind; the pattern must match to the very end, unlike ``$``."""
    return isinstance(text, str) and len(text) <= LONGEST and re.fullmatch(KINDS[kind].pattern, text) is not None


def expected(kind: str) -> str:
    """Returns the rule for a kind of name, for error messages."""
    rule = KINDS[kind]
    if kind == "language-code":
        return rule.words
    return f"{rule.words}, a letter or digit first, at most {LONGEST} characters"


def check_free(name: str, taken: Iterable[str], where: str, why: str) -> None:
    """Raises if a name is taken; some file systems ignore case."""
    if name.casefold() in {other.casefold() for other in taken}:
        raise ConfigError(f"{where}: {name!r} is taken: {why}. Choose another name.")
