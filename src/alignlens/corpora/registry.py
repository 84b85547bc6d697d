"""The dataset registry: config/datasets.yaml, checked against a closed schema and turned into dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from alignlens.corpora.synthetic_settings import SyntheticSettings
from alignlens.errors import ConfigError, unknown_name
from alignlens.io.documents import read_yaml
from alignlens.io.schema import check, key_path, read_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

DEFAULT_PATH = Path("config/datasets.yaml")
DEFAULT_DEV = {"last": 1000}
_PLAIN_KEYS = (
    "description",
    "licence",
    "origin",
    "cite",
    "available",
    "sizes",
    "words",
    "lowercase",
    "strip_accents",
    "tokenise",
    "settings",
)


@dataclass(frozen=True)
class DataFile:
    """Where one file may be found, how to verify it, and how to turn it into plain text."""

    path: str | None = None
    mirror: str | None = None
    mirror_sha256: str | None = None
    url: str | None = None
    sha256: str | None = None
    bytes: int | None = None
    member: tuple[str, ...] = ()
    list_column: int | None = None
    list_folder: str = ""
    encoding: str = "utf-8"
    markup: str = "none"
    skip_blank: bool = False

    @property
    def name(self) -> str:
        """The base name of the file."""
        return (self.path or self.mirror or self.url or "").rstrip("/").rsplit("/", 1)[-1]

    @property
    def plain(self) -> bool:
        """Whether the file is used as it is: text already, not an archive, no markup."""
        return not (self.member or self.skip_blank) and (self.encoding, self.markup) == ("utf-8", "none")


@dataclass(frozen=True)
class TextPair:
    """Two files of which line n belongs to line n."""

    source: DataFile
    target: DataFile


@dataclass(frozen=True)
class PartOfTrain:
    """A split taken out of the training text: its last pairs, or every n-th."""

    last: int | None = None
    every: int | None = None


@dataclass(frozen=True)
class GoldFile:
    """Gold links in a file that counts words from ``base``."""

    file: DataFile
    base: int
    format: str


@dataclass(frozen=True)
class Dataset:
    """One bitext with its splits, gold links, terms and origin."""

    name: str
    kind: str
    pair: tuple[str, str]
    description: str = ""
    licence: str = "unknown"
    origin: str = ""
    cite: str = ""
    available: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    words: Mapping[str, float] = field(default_factory=dict)
    lowercase: bool = False
    strip_accents: bool = False
    tokenise: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    train: tuple[TextPair, ...] = ()
    dev: TextPair | PartOfTrain | None = None
    test: TextPair | PartOfTrain | None = None
    gold: GoldFile | None = None
    dev_gold: GoldFile | None = None
    declared: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The entry as it stands in the file."""

    def files(self) -> dict[str, DataFile]:
        """Returns every file by its role: ``train.0.source``, ``test.target``, ``test.gold``, ..."""
        pairs: dict[str, TextPair] = {f"train.{n}": pair for n, pair in enumerate(self.train)}
        for split, part in (("dev", self.dev), ("test", self.test)):
            if isinstance(part, TextPair):
                pairs[split] = part
        roles = {
            f"{split}.{side}": file
            for split, pair in pairs.items()
            for side, file in (("source", pair.source), ("target", pair.target))
        }
        for split, gold in (("dev", self.dev_gold), ("test", self.gold)):
            if gold is not None:
                roles[f"{split}.gold"] = gold.file
        return roles

    def gold_of(self, split: str) -> GoldFile | None:
        """Returns the gold links declared for ``dev`` or ``test``."""
        return {"dev": self.dev_gold, "test": self.gold}.get(split)


class Registry:
    """Datasets by name, in the order of the file."""

    def __init__(self, datasets: Mapping[str, Dataset], schema: Mapping[str, Any]) -> None:
        self._datasets, self._schema = dict(datasets), schema

    @classmethod
    def load(cls, path: Path | str = DEFAULT_PATH) -> Registry:
        """Returns the registry of a YAML file."""
        path = Path(path)
        schema = read_schema("datasets", path.parent)
        return cls(_datasets(read_yaml(path), schema, f"{path.name}:"), schema)

    @classmethod
    def load_all(cls, paths: Sequence[Path | str]) -> Registry:
        """Returns the registry of several YAML files; where two have an entry of the same name the later wins."""
        registry = cls.load(paths[0])
        for path in paths[1:]:
            registry = registry.merged(read_yaml(Path(path)), f"{Path(path).name}:")
        return registry

    def merged(self, extra: Mapping[str, Any], label: str = "datasets:") -> Registry:
        """Returns a registry with the entries of ``extra`` added; an entry of the same name is replaced whole."""
        return Registry({**self._datasets, **_datasets(extra, self._schema, label)}, self._schema)

    def get(self, name: str) -> Dataset:
        """Returns a dataset; an unknown name is an error that lists the known ones."""
        if name not in self._datasets:
            raise ConfigError(unknown_name("dataset", name, self._datasets))
        return self._datasets[name]

    def __iter__(self) -> Iterator[Dataset]:
        return iter(self._datasets.values())

    def __len__(self) -> int:
        return len(self._datasets)


def _datasets(data: Any, schema: Mapping[str, Any], label: str) -> dict[str, Dataset]:
    data = {} if data is None else data
    check(data, schema, label)
    return {name: _dataset(name, value, label) for name, value in data.items()}


def _dataset(name: str, value: Mapping[str, Any], label: str) -> Dataset:
    where = key_path(label, [name])
    kind = value["kind"]
    plain = {key: value[key] for key in _PLAIN_KEYS if key in value}
    dataset = Dataset(
        name=name,
        kind=kind,
        pair=(value["pair"][0], value["pair"][1]),
        train=tuple(TextPair(_file(part["source"]), _file(part["target"])) for part in value.get("train", [])),
        dev=_split(value.get("dev", None if kind == "synthetic" else DEFAULT_DEV), f"{where}.dev"),
        test=_split(value.get("test"), f"{where}.test"),
        gold=_gold(value.get("gold")),
        dev_gold=_gold(value.get("dev_gold")),
        declared=value,
        **plain,
    )
    if dataset.pair[0] == dataset.pair[1]:
        raise ConfigError(f"{where}.pair: {dataset.pair[0]} twice; both directions would have the same name")
    for role, file in dataset.files().items():
        place = PurePosixPath(file.mirror or "")
        if place.is_absolute() or ".." in place.parts:
            raise ConfigError(f"{where}.{role}.mirror: {file.mirror!r} is not a path below the mirror")
    if kind == "synthetic":
        try:
            SyntheticSettings.from_dict(dataset.settings)
        except ConfigError as error:
            raise ConfigError(f"{where}.settings: {error}") from None
        if dataset.files() or dataset.dev or dataset.test:
            raise ConfigError(f"{where}: kind synthetic makes its own files; remove train, dev, test and gold")
        return dataset
    if dataset.settings:
        raise ConfigError(f"{where}.settings: only kind synthetic has settings")
    if not dataset.train or dataset.test is None:
        raise ConfigError(f"{where}: kind {kind} needs train and test (test may be {{last: 500}})")
    for role, file in dataset.files().items():
        if kind == "files" and file.path is None:
            raise ConfigError(f"{where}.{role}: kind files needs a path")
        if kind == "download" and file.url is None and file.mirror is None:
            raise ConfigError(f"{where}.{role}: kind download needs a url or a mirror path")
    for key, split, gold in (("gold", dataset.test, dataset.gold), ("dev_gold", dataset.dev, dataset.dev_gold)):
        if gold is not None and not isinstance(split, TextPair):
            raise ConfigError(f"{where}.{key}: gold links need source and target files of their own")
    return dataset


def _file(value: str | Mapping[str, Any]) -> DataFile:
    if isinstance(value, str):
        return DataFile(path=value)
    member = value.get("member", ())
    return DataFile(**{**value, "member": (member,) if isinstance(member, str) else tuple(member)})


def _split(value: Mapping[str, Any] | None, where: str) -> TextPair | PartOfTrain | None:
    if value is None:
        return None
    if set(value) == {"source", "target"}:
        return TextPair(_file(value["source"]), _file(value["target"]))
    if len(value) == 1 and set(value) <= {"last", "every"}:
        return PartOfTrain(**value)
    raise ConfigError(f"{where}: give source and target, or last, or every; not {', '.join(value)}")


def _gold(value: Mapping[str, Any] | None) -> GoldFile | None:
    return None if value is None else GoldFile(_file(value["file"]), value["base"], value["format"])
