"""Random bytes, truncations and flipped bits for every reader: never a traceback, never a silently different result."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from readers import ERROR, READERS, Reader, add_own_files, observed

EXAMPLES = int(os.environ.get("ALIGNLENS_DRILL_EXAMPLES", "12"))
# The smallest example says no more than the first one, and takes minutes.
FEW = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
_HEX = 64
HARMS = st.one_of(
    st.tuples(st.just("flip"), st.floats(0, 1, exclude_max=True), st.integers(0, 7)),
    st.tuples(st.just("cut"), st.floats(0, 1, exclude_max=True), st.just(0)),
    st.tuples(st.just("bytes"), st.floats(0, 1), st.integers(0, 1 << 30)),
    st.tuples(st.just("append"), st.just(0.0), st.integers(0, 1 << 30)),
)


@pytest.fixture(scope="module")
def files(bench: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the small pipeline, and some of other kinds."""
    folder = tmp_path_factory.mktemp("drills") / "bench"
    shutil.copytree(bench, folder)
    add_own_files(folder)
    return folder


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_refused_or_harmless(files: Path, tmp_path: Path, name: str) -> None:
    reader = READERS[name]
    folder = _copied(files, tmp_path)
    whole = observed(reader, folder)
    assert len(whole) == _HEX, f"undamaged: {whole}"
    names = sorted(path for path in _found(folder, reader) if path.is_file())

    @FEW
    @given(st.sampled_from(names), HARMS)
    def damaged(path: Path, harm: tuple[str, float, int]) -> None:
        content = path.read_bytes()
        try:
            path.write_bytes(_harmed(content, *harm))
            found = observed(reader, folder)
        finally:
            path.write_bytes(content)
        if reader.sealed:
            assert found in (whole, ERROR), f"{path.name}: {found}"
        else:
            assert found == ERROR or len(found) == _HEX, f"{path.name}: {found}"

    damaged()


@pytest.mark.parametrize("name", [name for name, reader in READERS.items() if reader.sealed])
def test_what_has_no_checksum_is_looked_at(files: Path, tmp_path: Path, name: str) -> None:
    """Without its checksums a damaged file may give another result, but never anything else than one or one line."""
    reader = READERS[name]
    folder = _copied(files, tmp_path)
    for path in folder.rglob(".*"):
        if path.is_file():
            path.unlink()
    names = sorted(path for path in _found(folder, reader) if path.is_file())

    @FEW
    @given(st.sampled_from(names), HARMS)
    def damaged(path: Path, harm: tuple[str, float, int]) -> None:
        content = path.read_bytes()
        try:
            path.write_bytes(_harmed(content, *harm))
            found = observed(reader, folder)
        finally:
            path.write_bytes(content)
        assert found == ERROR or len(found) == _HEX, f"{path.name}: {found}"

    damaged()


def _copied(files: Path, folder: Path) -> Path:
    return Path(shutil.copytree(files, folder / "bench"))


def _found(folder: Path, reader: Reader) -> list[Path]:
    """The files of a reader, and their checksums."""
    place = folder / reader.place
    if place.is_dir():
        return [path for path in place.rglob("*") if not path.name.endswith((".log", ".journal.jsonl"))]
    return [place, *place.parent.glob(f".{place.name}.sha256")]


def _harmed(content: bytes, kind: str, share: float, number: int) -> bytes:
    place = int(share * len(content))
    if kind == "cut":
        return content[:place]
    if kind == "flip":
        return content[:place] + bytes([content[place] ^ 1 << number]) + content[place + 1 :] if content else b"\x00"
    noise = random.Random(number).randbytes(64)
    if kind == "append":
        return content + noise[: 1 + number % 64]
    return content[:place] + noise + content[place + len(noise) :]
