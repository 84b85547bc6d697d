"""Shared by all tests: where the project is, where real data is if there is any, and what workers share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from alignlens.io.seals import made_by

# Tests run on all cores, so that each has one thread. Torch reads this once, when it is loaded.
os.environ["OMP_NUM_THREADS"] = "1"

PROJECT = Path(__file__).parents[1]
LONG = ("test_training.py", "test_store.py", "test_store_damage.py", "test_store_trouble.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the unit tests that take long before the others, so that no worker waits for them at the end."""
    items.sort(key=lambda item: item.path.parent.name == "unit" and item.path.name not in LONG)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Names a test by the number of its bytes: archives have the time in them, and workers must agree on all names."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None


@pytest.fixture(autouse=True)
def unsealed() -> None:
    """No test inherits from another that its files are those of a step of the pipeline."""
    made_by("", step=False)


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the checkout."""
    return PROJECT


@pytest.fixture(scope="session")
def common(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A temporary folder of this session, the same for all workers of pytest-xdist."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The mirror of the real corpora; tests that need it skip where it is absent."""
    named = os.environ.get("ALIGNLENS_MIRROR")
    if not named or not Path(named).is_dir():
        pytest.skip("no mirror of the real corpora: set ALIGNLENS_MIRROR to its folder")
    return Path(named)
