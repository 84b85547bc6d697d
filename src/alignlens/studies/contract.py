"""What a study is: everything the rest of alignlens needs to know of a paper, in one value.

A study is a folder in ``studies/`` whose ``study.py`` has a ``STUDY``. It is plain data and short functions: reading a
configuration loads it, and must load nothing heavy. What takes longer stands in the ``build.py`` beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from alignlens.studies.files import Built
    from alignlens.studies.protocol import Protocol
    from alignlens.studies.results import Results

TABLE_KINDS = ("html", "csv", "md", "tex")


class AskedModel(NamedTuple):
    """A translation model that a study may ask: its architecture and the sizes that tell layers and heads."""

    architecture: str
    sizes: Mapping[str, Any]


@dataclass(frozen=True)
class EncoderRequest:
    """Encoders to look into: pretrained ones by name, those of our own Transformers besides, and what they read."""

    pretrained: Mapping[str, str]
    text: str | None
    sequences: int
    tokens: int


class Extra(NamedTuple):
    """Packages that only this study needs, and the extra of alignlens that installs them."""

    what: str
    packages: Sequence[str]
    extra: str


@dataclass(frozen=True)
class NoSettings:
    """A study that leaves nothing to set."""


def _asks_nothing(model: AskedModel, settings: Any, protocol: Protocol, decoding: str) -> Sequence[str]:
    return ()


def _looks_into_none(settings: Any) -> EncoderRequest | None:
    return None


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
    methods: Callable[[AskedModel, Any, Protocol, str], Sequence[str]] = _asks_nothing
    """The methods that it needs of a model for a decoding."""
    chooses_on_dev: bool = False
    """Whether it chooses a setting on gold links of the dev text."""
    encoders: Callable[[Any], EncoderRequest | None] = _looks_into_none
    check: Callable[[Any, Sequence[str], str], None] = _accepts
    """Raises ``ConfigError`` for settings that cannot be, given the names of datasets and the key path."""
    extras: Sequence[Extra] = field(default=())

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
        made: Built = import_module(self.module).build(results, out)
        return made

    @property
    def _package(self) -> str:
        return f"alignlens.studies.{self.name}"


def tables(*names: str) -> list[str]:
    """Returns the files of tables that are written in every form."""
    return [f"{name}.{kind}" for name in names for kind in TABLE_KINDS]
