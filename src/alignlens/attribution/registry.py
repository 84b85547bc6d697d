"""All methods by name, and the text form of a method with its parameters.

    ding_smoothgrad                       every parameter at its default
    ding_smoothgrad,sigma=0.05,n=10       some changed

The canonical text leaves defaults out and has its keys in the order of the method's own list. It is a file name and
needs no quotes in a shell.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from alignlens.attribution import methods
from alignlens.attribution.spec import Only
from alignlens.errors import ConfigError, unknown_name
from alignlens.io.documents import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from alignlens.attribution.spec import MethodSpec


def discovered() -> dict[str, MethodSpec]:
    """Returns the methods of all files in ``attribution/methods/``, in the order of lists and tables."""
    specs = sorted(methods.specs(), key=lambda spec: (spec.rank, spec.name))
    names = Counter(name for spec in specs for name in (spec.name, *spec.aliases))
    if twice := [name for name, count in names.items() if count > 1]:
        raise ValueError(f"two methods are called {twice[0]}")
    return {spec.name: spec for spec in specs}


METHODS = discovered()

#: Characters of a text that an error quotes.
_LONGEST = 100

ALIASES = {alias: spec.name for spec in METHODS.values() for alias in spec.aliases}


@dataclass(frozen=True)
class Method:
    """A method with a value for every parameter."""

    name: str
    changed: tuple[tuple[str, Any], ...] = field(default=())

    @property
    def spec(self) -> MethodSpec:
        """What the method declares about itself."""
        return METHODS[self.name]

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """Every parameter, defaults included."""
        return {key: parameter.default for key, parameter in self.spec.parameters.items()} | dict(self.changed)

    @cached_property
    def text(self) -> str:
        """The canonical text."""
        return ",".join((self.name, *(f"{key}={written(value)}" for key, value in self.changed)))

    @property
    def matrices(self) -> tuple[str, ...]:
        """The names of its matrices: contributions of the source and, if there are any, of the target prefix."""
        return (self.text, f"{self.text}@prefix") if self.spec.prefix else (self.text,)

    def with_parameters(self, **values: Any) -> Method:
        """Returns the same method with other values."""
        return method(self.name, {**self.parameters, **values})


def method(name: str, values: Mapping[str, Any]) -> Method:
    """Returns a method with some parameters; those left out have their defaults."""
    known = METHODS[name].parameters
    ordered = ((key, values[key]) for key in known if key in values)
    return Method(name, tuple((key, value) for key, value in ordered if value != known[key].default))


def parse(text: str) -> Method:
    """Returns the method given as text; raises with what is allowed."""
    shown = _plain(text)
    name, *settings = text.split(",")
    name = ALIASES.get(name, name)
    if name not in METHODS:
        raise ConfigError(unknown_name("method", name, [*METHODS, *ALIASES]))
    parameters = METHODS[name].parameters
    values: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if key not in parameters:
            raise ConfigError(f"method {shown}: {unknown_name('parameter', key, list(parameters))}")
        if not equals or key in values:
            raise ConfigError(f"method {shown}: give {key} once, as {key}=value")
        try:
            values[key] = parameters[key].read(value)
        except ValueError:
            raise ConfigError(f"method {shown}: {key}={_plain(value)}: must be {parameters[key].accepts}") from None
    return method(name, values)


def parse_all(texts: Iterable[str]) -> list[Method]:
    """Returns the methods of several texts, each once, in order of first occurrence."""
    return list(dict.fromkeys(parse(text) for text in texts))


def plain(sigma: float, samples: int) -> list[str]:
    """Returns every method once, at its defaults but for the noise of those that have any: a table of all methods."""
    noise = {"sigma": sigma, "n": samples}
    return [method(name, noise if spec.noisy else {}).text for name, spec in METHODS.items()]


def supported(texts: Iterable[str], architecture: str) -> list[str]:
    """Returns the canonical methods that work with models of an architecture."""
    return [text for text in texts if parse(text).spec.supports(architecture)]


def reads_masks(texts: Iterable[str]) -> bool:
    """Returns whether any of canonical methods reads masks."""
    return any(parse(text).spec.needs_masks for text in texts)


def in_order(texts: Iterable[str]) -> list[str]:
    """Returns canonical methods in the order of the registry; settings of one method stay in theirs."""
    places = {name: place for place, name in enumerate(METHODS)}
    return sorted(texts, key=lambda text: places[text.partition(",")[0]])


def written(value: Any) -> str:
    """Returns the text of a parameter's value, as short as it can be without becoming another value."""
    if not isinstance(value, float):
        return str(value)
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def _plain(text: str) -> str:
    return text if text.isprintable() and len(text) <= _LONGEST else shown(text, _LONGEST)


def check_architectures(methods: Iterable[Method], architectures: Sequence[str]) -> None:
    """Raises for a method that works with none of these architectures."""
    for each in methods:
        if not any(each.spec.supports(architecture) for architecture in architectures):
            only = each.spec.only or Only((), "")
            raise ConfigError(
                f"method {each.name} does not work with {' or '.join(architectures)}: {only.reason}."
                f" It works with {' and '.join(only.architectures)}."
            )
