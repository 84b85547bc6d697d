"""The studies there are: every folder of this package that has a ``study.py``."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

import alignlens.studies

if TYPE_CHECKING:
    from alignlens.studies.contract import Study


def studies() -> dict[str, Study]:
    """Returns all studies by name, in the order of their names."""
    return dict(_studies_in(tuple(alignlens.studies.__path__)))


@cache
def _studies_in(folders: tuple[str, ...]) -> tuple[tuple[str, Study], ...]:
    names = sorted(module.name for module in iter_modules(folders) if module.ispkg)
    return tuple((name, import_module(f"alignlens.studies.{name}.study").STUDY) for name in names)


def study_of(name: str) -> Study:
    """Returns a study by its name."""
    return studies()[name]
