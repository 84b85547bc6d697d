"""The families of translation models that can be read: one entry each, by what ``config.json`` calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from alignlens.models.families import bart, m2m100, marian, mbart, t5

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from alignlens.models.families.folder import Imported
    from alignlens.models.families.languages import Languages


class Family(NamedTuple):
    """The name of the family, and the function that reads its folders."""

    label: str
    load: Callable[[Path, Languages], Imported]


FAMILIES = {
    "marian": Family("Marian (OPUS-MT)", marian.load),
    "bart": Family("BART", bart.load),
    "mbart": Family("mBART", mbart.load),
    "m2m_100": Family("M2M100 and NLLB", m2m100.load),
    "t5": Family("T5", t5.load),
    "mt5": Family("mT5", t5.load),
}
