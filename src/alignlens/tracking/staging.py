"""The files of a run as the tracker gets them: small ones whole, big ones by path and checksum."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from alignlens.io.checksum import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alignlens.tracking.records import Artifact

_WHOLE_BYTES = 5_000_000


@contextmanager
def staged_artifacts(artifacts: Sequence[Artifact], first: int = 0) -> Iterator[Path]:
    """Yields a temporary folder laid out as the tracker shall show it, without the first ``first`` artifacts.

    Names are chosen over all artifacts, so that a file sent later never takes the name of one sent before.
    """
    with tempfile.TemporaryDirectory(prefix="alignlens-") as name:
        root = Path(name)
        taken: set[Path] = set()
        for number, artifact in enumerate(artifacts):
            relative = Path(artifact.folder, artifact.path.name)
            while relative in taken:
                relative = relative.with_name(f"{artifact.path.parent.name}-{relative.name}")
            taken.add(relative)
            if number >= first:
                _stage(artifact, root / relative)
        yield root


def _stage(artifact: Artifact, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    state = _state(artifact)
    if state:
        text = f"{artifact.path}\nsha256 {artifact.sha256}\n{artifact.size} bytes\n{state}\n"
        place.with_name(place.name + ".reference.txt").write_text(text, encoding="utf-8")
    else:
        place.symlink_to(artifact.path.absolute())


def _state(artifact: Artifact) -> str:
    """Returns why the file is only referred to; empty if it goes whole."""
    try:
        size = artifact.path.stat().st_size
        if artifact.size > _WHOLE_BYTES:
            return "too big to copy"
        if size != artifact.size or sha256_of(artifact.path) != artifact.sha256:
            return "has changed since the run recorded it"
    except OSError:
        return "is no longer there"
    return ""
