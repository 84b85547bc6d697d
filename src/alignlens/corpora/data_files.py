"""Files that the registry declares: where each may be found, how to verify it, and how to turn it into plain text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from alignlens.io.limits import PAIRS, Limits
from alignlens.io.typed import setting

_SHA256 = "^[0-9a-f]{64}$"


@dataclass(frozen=True)
class DataFile:
    """A file; a plain string is its path.

    Where it may be found, how to verify it, and how to turn it into plain text.
    """

    SHORT_FOR: ClassVar[str] = "path"

    path: str | None = setting(
        None, "Path of your own file (kind files), relative to the working directory.", minLength=1
    )
    mirror: str | None = setting(None, "Path below the mirror directory.", minLength=1)
    mirror_sha256: str | None = setting(
        None,
        "SHA-256 of the mirror's file where it differs from the download; default is sha256.",
        pattern=_SHA256,
    )
    url: str | None = setting(None, "Public address.", pattern="^https?://[!-~]+$")
    sha256: str | None = setting(
        None,
        "SHA-256 of the download; null if it is not known (then it is printed, not verified).",
        pattern=_SHA256,
    )
    bytes: int | None = setting(None, "Size of the download, if known.", Limits(1, 10**15))
    member: str | tuple[str, ...] = setting(
        (),
        'Files inside the archive (tar, tgz, zip), concatenated; "*" is a wildcard, matches sorted by name.',
        minItems=1,
    )
    list_column: int | None = setting(
        None,
        "The member is a table of file names: read the files named in this column instead, in order.",
        Limits(1, 1000),
    )
    list_folder: str = setting("", "Folder of the archive that holds the files of list_column.")
    encoding: Literal["utf-8", "iso-8859-1"] = setting("utf-8", "Character encoding of the file.")
    markup: Literal["none", "snum", "seg", "ted", "tree"] = setting(
        "none",
        "none; snum: <s snum=1> text </s>; seg: only <seg> lines; ted: IWSLT talks without their headers; "
        "tree: one labelled tree per line, read as the label of its root, a tab and its words.",
    )
    skip_blank: bool = setting(False, "Leave out blank lines.")

    @property
    def members(self) -> tuple[str, ...]:
        """The files inside the archive; empty for a file that is not an archive."""
        return (self.member,) if isinstance(self.member, str) else self.member

    @property
    def name(self) -> str:
        """The base name of the file."""
        return (self.path or self.mirror or self.url or "").rstrip("/").rsplit("/", 1)[-1]

    @property
    def plain(self) -> bool:
        """Whether the file is used unchanged: plain text, no archive, no markup."""
        return not (self.member or self.skip_blank) and (self.encoding, self.markup) == ("utf-8", "none")


@dataclass(frozen=True)
class PartOfTrain:
    """A split taken out of the training text: its last pairs, or every n-th."""

    last: int | None = setting(None, "Take this many pairs from the end of train.", PAIRS, type="integer")
    every: int | None = setting(None, "Take every n-th pair of train.", PAIRS._replace(least=2), type="integer")
