"""Seals: checksums of what was written, checked whenever it is read.

A folder of ours has ``seal.json``: its kind, and size and SHA-256 of every file in it. A single file
gets ``.NAME.sha256`` beside it, in the format of ``sha256sum``, if a step of the pipeline wrote it; files
that people write by calling a verb themselves are theirs to edit and have none. Every reader calls ``verify``.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignlens.errors import InputError
from alignlens.io.checksum import sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable

SEAL = "seal.json"
# Snakemake puts it in folders that are outputs of a rule.
_TIMESTAMP = ".snakemake_timestamp"
_FORMAT, _VERSION = "alignlens seal", 1
_LONGEST_NAME = 240  # bytes; file systems take 255
_AGAIN = "Delete {} and recreate it with: {}, or run the pipeline again."

_maker = "alignlens"
_seals_files = False


def made_by(verb: str, step: bool) -> None:
    """Records which verb this process runs, and whether as a pipeline step: only then are single files sealed."""
    global _maker, _seals_files
    _maker, _seals_files = f"alignlens {verb}", step


def seals_files() -> bool:
    """Returns whether single files are sealed."""
    return _seals_files


@dataclass(frozen=True)
class Seal:
    """What a folder must hold; ``files`` has size and checksum (None: the reader checks that file itself)."""

    folder: Path
    kind: str
    maker: str
    files: dict[str, tuple[int, str | None]]
    folders: frozenset[str]

    @classmethod
    def of(cls, folder: Path | str, kind: str, advice: str = "Check the path.") -> Seal:
        """Returns the seal of a folder of the given kind, after checking the seal itself; reads nothing else."""
        folder = Path(folder)
        if not folder.is_dir():
            raise InputError(f"no such folder ({kind}).", folder, advice=advice)
        seal = read_seal(folder)
        if seal is None:
            raise InputError(f"not a {kind}: it has no {SEAL}.", folder, advice=advice)
        if seal.kind != kind:
            raise InputError(f"is a {seal.kind}, not a {kind}.", folder, advice=advice)
        return seal

    def check(self, *names: str) -> None:
        """Raises unless these files exist and are unchanged."""
        for name in names:
            if name not in self.files:
                raise self._broken(name, f"is not part of this {self.kind}.")
            size, sha256 = self.files[name]
            path = self.folder / name
            size_now = path.stat().st_size if path.is_file() else None
            if size_now is None:
                raise self._broken(name, "no such file.")
            if size_now != size:
                raise self._broken(name, f"damaged: {size_now} bytes instead of {size}.")
            if sha256 is not None and sha256_of(path) != sha256:
                raise self._broken(name, "damaged: it has changed since it was written (SHA-256).")

    def check_all(self) -> None:
        """Raises unless all files are unchanged and there are no others."""
        self.check_names()
        self.check(*self.files)

    def check_names(self) -> None:
        """Raises unless exactly the sealed files exist; reads none of them."""
        missing = [name for name in self.files if not (self.folder / name).is_file()]
        if missing:
            raise self._broken(missing[0], "no such file.")
        if foreign := self.foreign():
            raise InputError(f"was not written with this {self.kind}.", foreign[0], advice="Move it elsewhere.")

    def foreign(self) -> list[Path]:
        """Returns the files in the folder that are not sealed."""
        known = {*self.files, SEAL, _TIMESTAMP}
        return sorted(
            path
            for path in self.folder.rglob("*")
            if (name := path.relative_to(self.folder).as_posix()) not in known
            and not (name in self.folders and path.is_dir() and not path.is_symlink())
        )

    def _broken(self, name: str, problem: str) -> InputError:
        return InputError(problem, self.folder / name, advice=_AGAIN.format(self.folder, self.maker))


def seal_folder(folder: Path, kind: str, own_check: Callable[[str], bool] = lambda name: False) -> None:
    """Writes the seal of a complete folder; files that ``own_check`` picks are verified by their reader."""
    paths = sorted(folder.rglob("*"))
    content: dict[str, Any] = {"format": _FORMAT, "version": _VERSION, "kind": kind, "made_by": _maker}
    content["files"] = {
        name: {"bytes": path.stat().st_size} | ({} if own_check(name) else {"sha256": sha256_of(path)})
        for path in paths
        if path.is_file() and (name := path.relative_to(folder).as_posix()) != SEAL
    }
    content["folders"] = [path.relative_to(folder).as_posix() for path in paths if path.is_dir()]
    text = json.dumps({**content, "sha256": _digest(content)}, indent=1, sort_keys=True, ensure_ascii=False)
    (folder / SEAL).write_text(text + "\n", encoding="utf-8")


def read_seal(folder: Path) -> Seal | None:
    """Returns the seal of a folder, or None if it has none; raises if it is damaged."""
    try:
        state = (folder / SEAL).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _read_seal(folder, state.st_mtime_ns, state.st_ino, state.st_size)


@lru_cache(maxsize=64)
def _read_seal(folder: Path, changed: int, node: int, size: int) -> Seal:
    path = folder / SEAL
    try:
        content = json.loads(path.read_bytes())
        digest = content.pop("sha256")
        if (content["format"], content["version"]) != (_FORMAT, _VERSION) or digest != _digest(content):
            raise ValueError("its checksum does not match")
        files = {str(name): (int(entry["bytes"]), entry.get("sha256")) for name, entry in content["files"].items()}
        folders = frozenset(map(str, content["folders"]))
        return Seal(folder, str(content["kind"]), str(content["made_by"]), files, folders)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(
            "damaged: not a seal of this version of alignlens.",
            path,
            advice=f"Delete {folder} and recreate it with the command that made it, or run the pipeline again.",
        ) from None


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def sidecar(path: Path) -> Path:
    """Returns the path of the seal of a single file."""
    name = path.name if len(path.name.encode()) <= _LONGEST_NAME else hashlib.sha256(path.name.encode()).hexdigest()
    return path.with_name(f".{name}.sha256")


def sidecar_text(path: Path, sha256: str) -> str:
    """Returns the seal of a file, as ``sha256sum --check`` takes it."""
    return f"# {_maker}\n{sha256}  {path.name}\n"


def verify(path: Path | str) -> None:
    """Raises if a sealed file has changed; files without a seal are accepted."""
    path = Path(path)
    if not path.name:
        return  # Not a valid file name; opening it will fail with a clear error.
    try:
        text = sidecar(path).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        verify_member(path.parent, path.name)
    except (OSError, UnicodeDecodeError):
        raise _broken_sidecar(path, "cannot be read") from None
    else:
        _verify_alone(path, text.splitlines())


def verify_member(folder: Path, name: str) -> None:
    """Raises if a file differs from the seal of its folder or of a folder above; accepts it if there is no seal."""
    seal = read_seal(folder)
    if seal is not None and name in seal.files:
        seal.check(name)


def _verify_alone(path: Path, lines: list[str]) -> None:
    expected = f"  {path.name}"
    if len(lines) != 2 or not lines[0].startswith("# ") or len(lines[1]) != 64 + len(expected):
        raise _broken_sidecar(path, "is damaged")
    if not path.is_file():
        return  # Opening it will fail with a clear error.
    if lines[1] != sha256_of(path) + expected:
        maker = lines[0].removeprefix("# ")
        raise InputError(
            "damaged or edited: it has changed since it was written (SHA-256).",
            path,
            advice=f"{_AGAIN.format('it', maker)} If you changed it on purpose, delete {sidecar(path)}.",
        )


def _broken_sidecar(path: Path, problem: str) -> InputError:
    return InputError(
        f"its checksum, {sidecar(path)}, {problem}.",
        path,
        advice="Delete both and run the command that writes the file.",
    )
