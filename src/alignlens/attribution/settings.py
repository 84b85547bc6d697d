"""What the pipeline attributes; plain data, so that reading a configuration loads no tensor library."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from alignlens.attribution.registry import check_architectures, parse
from alignlens.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

DECODINGS = ("forced", "free")
BATCH_TOKENS = 2048


@dataclass(frozen=True)
class AttributionSettings:
    """Which targets are attributed, by which methods besides those of the studies, and how links are read off."""

    decodings: tuple[str, ...] = DECODINGS
    extractions: tuple[str, ...] = ("ding", "kobayashi")
    methods: tuple[str, ...] = ()  # canonical, besides those the studies need
    sigma: float = 0.15
    samples: int = 30
    adaptive: float | None = None  # the risk of a wrong link that stopping early may take
    batch_tokens: int = BATCH_TOKENS
    shards: int = 1
    cost_sentences: int = 100  # that every method is timed on by itself

    @classmethod
    def from_json(cls, content: Mapping[str, Any], where: str = "attribution") -> Self:
        """Returns the settings of checked values; methods become canonical. Raises for a method that is unknown."""
        values = {field.name: content[field.name] for field in fields(cls) if field.name in content}
        made: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
        }
        made["methods"] = _canonical(content.get("methods", ()), f"{where}.methods")
        return cls(**made)

    def check_models(self, architectures: Sequence[str], where: str = "attribution") -> None:
        """Raises for a method that works with none of the models of a configuration, if there are any."""
        for place, text in enumerate(self.methods if architectures else ()):
            try:
                check_architectures([parse(text)], architectures)
            except ConfigError as error:
                raise ConfigError(f"{where}.methods[{place}]: {error}") from None


def _canonical(methods: Iterable[str], where: str) -> tuple[str, ...]:
    """Returns the methods in canonical form; the same one twice, however it is written, is an error."""
    found: list[str] = []
    for place, text in enumerate(methods):
        try:
            method = parse(text)
        except ConfigError as error:
            raise ConfigError(f"{where}[{place}]: {error}") from None
        if method.text in found:
            raise ConfigError(f"{where}[{place}]: {text!r} stands there twice")
        found.append(method.text)
    return tuple(found)
