"""Everything that a person can give wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import archives
import bad_files
import bad_values
import configurations
import outputs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench import Bench
    from harness import Drill


def drills(bench: Bench, seed: int) -> Iterator[Drill]:
    """Yields all drills of the group; none depends on the seed."""
    yield from bad_values.drills()
    yield from bad_files.drills()
    yield from archives.drills()
    yield from configurations.drills()
    yield from outputs.drills()
