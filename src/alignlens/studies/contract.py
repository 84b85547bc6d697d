"""What a study is: everything the rest of alignlens needs to know of a paper, in one value.

A study is a folder in ``studies/`` whose ``study.py`` has a ``STUDY``. It is plain data and short functions: reading a
configuration loads it, and must load nothing heavy. What takes longer stands in the ``build.py`` beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from alignlens.studies.requests import Requests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alignlens.results.scores import Results
    from alignlens.studies.files import Built
    from alignlens.studies.requests import Offer

TABLE_KINDS = ("html", "csv", "md", "tex")


class Extra(NamedTuple):
    """Packages that only this study needs, and the extra of alignlens that installs them."""

    what: str
    packages: Sequence[str]
    extra: str


@dataclass(frozen=True)
class NoSettings:
    """A study that leaves nothing to set."""


def _asks_nothing(offer: Offer, settings: Any) -> Requests:
    return Requests()


def _accepts(settings: Any, datasets: Sequence[str], where: str) -> None:
    """Any settings will do."""


@dataclass(frozen=True)
class Study:
    """One paper: what it is called, what it asks for and what it ends in."""

    name: str
    about: str
    """One line: authors, year, subject."""
    title: str
    lead: str
    files: Sequence[str]
    """What it always ends in, its page first; figures are on the page, and beside it where there is one to draw."""
    settings: type[Any] = NoSettings
    """What a configuration may set for it, as ``io.typed`` has it."""
    requests: Callable[[Offer, Any], Requests] = _asks_nothing
    """What it needs, given what the configuration has and its own settings."""
    check: Callable[[Any, Sequence[str], str], None] = _accepts
    """Raises ``ConfigError`` for settings that cannot be, given the names of datasets and the key path."""
    extras: Sequence[Extra] = field(default=())
    front: str = ""
    """The figure that stands for it on the front page, by its label in ``printed/exhibits.csv``."""
    needs_gold: bool = True
    """Whether there is nothing to do without a dataset that has gold links."""

    @property
    def folder(self) -> Path:
        """The folder of the study."""
        return Path(str(import_module(self._package).__file__)).parent

    @property
    def printed(self) -> list[str]:
        """The files of numbers in print, claims included: what a study compares with counts as its input."""
        return sorted(str(path) for path in (self.folder / "printed").glob("*.csv"))

    @property
    def module(self) -> str:
        """The module that makes its tables and figures."""
        return f"{self._package}.build"

    def build(self, results: Results, out: Path) -> Built:
        """Writes tables and figures, and returns what they say."""
        built: Built = import_module(self.module).build(results, out)
        return built

    @property
    def _package(self) -> str:
        return f"alignlens.studies.{self.name}"


def tables(*names: str) -> list[str]:
    """Returns the files of tables that are written in every form."""
    return [f"{name}.{kind}" for name in names for kind in TABLE_KINDS]
