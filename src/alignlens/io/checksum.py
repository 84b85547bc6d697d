"""SHA-256 of files."""

from __future__ import annotations

import hashlib
from pathlib import Path


def sha256_of(path: Path | str) -> str:
    """Returns the hexadecimal SHA-256 of a file's bytes."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
