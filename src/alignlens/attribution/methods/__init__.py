"""One file per method: its name, publication and arithmetic, all in its ``SPEC``."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alignlens.attribution.spec import MethodSpec


def specs() -> Iterator[MethodSpec]:
    """Yields the specs in the modules of this folder."""
    for module in iter_modules(__path__, f"{__name__}."):
        yield import_module(module.name).SPEC
