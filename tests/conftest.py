"""Shared by all tests: where the project is, and where real data is if there is any."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the checkout."""
    return PROJECT


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The mirror of the real corpora; tests that need it skip where it is absent."""
    named = os.environ.get("ALIGNLENS_MIRROR")
    if not named or not Path(named).is_dir():
        pytest.skip("no mirror of the real corpora: set ALIGNLENS_MIRROR to its folder")
    return Path(named)
