"""One file per method: what it is called, who published it, and its arithmetic, all of it in its ``SPEC``."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alignlens.attribution.spec import MethodSpec


def specs() -> Iterator[MethodSpec]:
    """Yields what the modules of this folder declare."""
    for module in iter_modules(__path__, f"{__name__}."):
        yield import_module(module.name).SPEC
