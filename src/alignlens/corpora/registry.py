"""The dataset registry: config/datasets.yaml, checked against a closed schema and turned into dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from alignlens.corpora.data_files import DataFile, PartOfTrain
from alignlens.corpora.labelled import LabelledSet, check_labelled
from alignlens.corpora.synthetic_settings import SPLITS, SyntheticSettings
from alignlens.errors import ConfigError, unknown_name
from alignlens.io.documents import read_yaml
from alignlens.io.limits import Limits
from alignlens.io.schema import check, key_path
from alignlens.io.typed import REQUIRED, read, schema_of, setting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["DEFAULT_PATH", "DataFile", "Dataset", "GoldFile", "LabelledSet", "PartOfTrain", "Registry", "TextPair"]

DEFAULT_PATH = Path("config/datasets.yaml")
_SPLIT_KEYS = ({"source", "target"}, {"last"}, {"every"})
_PART_KEYS = ({"last"}, {"every"})


@dataclass(frozen=True)
class TextPair:
    """Two files whose lines correspond one to one."""

    source: DataFile = setting(REQUIRED, "Source side.")
    target: DataFile = setting(REQUIRED, "Target side.")


DEFAULT_DEV = PartOfTrain(last=1000)


@dataclass(frozen=True)
class GoldFile:
    """A file of gold links, which counts words from ``base``."""

    file: DataFile = setting(REQUIRED, "The file.")
    base: Literal[0, 1] = setting(REQUIRED, "Number of the first word of a sentence in this file.")
    format: Literal["pharaoh", "naacl"] = setting(
        REQUIRED,
        "pharaoh: one line per pair, i-j sure, ipj or i?j possible; naacl: one line per link, sentence i j S|P.",
    )


@dataclass(frozen=True)
class Dataset:
    """One bitext with its splits, gold links, terms and origin."""

    name: str
    kind: Literal["synthetic", "download", "files"] = setting(
        REQUIRED, "synthetic: generated from settings; download: from a mirror or public urls; files: your own files."
    )
    pair: tuple[str, str] = setting(
        REQUIRED,
        "Language codes of the source and the target side.",
        items={"type": "string", "format": "language-code"},
    )
    description: str = setting("", "The dataset, described in one sentence.")
    licence: str = setting("unknown", "Terms of use, short enough for a table.")
    origin: str = setting("", "Public origin of the data.")
    cite: str = setting("", "What to cite.")
    available: str = setting(
        "", "How to get a file that cannot be downloaded (registration, form) and where to put it."
    )
    sizes: dict[str, int] = setting(
        {}, "Sentence pairs per split before cleaning, if known.", Limits(1, 10**12), keys=SPLITS
    )
    words: dict[str, float] = setting(
        {},
        "Words of a typical sentence per split, mean of both sides, if known; only alignlens plan reads it.",
        Limits(0, 1_000_000, above=True),
        keys=SPLITS,
    )
    lowercase: bool = setting(False, "Lower-case every split.")
    strip_accents: bool = setting(
        False, "Remove accents and other diacritics from every split (words stay where they are)."
    )
    tokenise: bool = setting(
        False, "Split punctuation off words in raw text. Text that has gold links is never tokenised."
    )
    settings: SyntheticSettings | None = setting(None, "Settings of the synthetic bitext (kind synthetic only).")
    train: tuple[TextPair, ...] = setting((), "Parts of the training text, concatenated in this order.")
    dev: TextPair | PartOfTrain | None = setting(
        None,
        "Development text, or the part of train to use for it after cleaning, by default the last 1000 pairs (not "
        "for kind synthetic).",
        type="object",
    )
    test: TextPair | PartOfTrain | None = setting(None, "Test text, or the part of train to use for it after cleaning.")
    gold: GoldFile | None = setting(None, "Gold links of the test text.")
    dev_gold: GoldFile | None = setting(None, "Gold links of the development text.")
    declared: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
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
    """Bitexts and labelled texts by name, in the order of the file; iterating gives the bitexts."""

    def __init__(self, datasets: Mapping[str, Dataset | LabelledSet]) -> None:
        self._all = dict(datasets)
        self._datasets = {name: each for name, each in datasets.items() if isinstance(each, Dataset)}
        #: The labelled texts, by name.
        self.labelled = {name: each for name, each in datasets.items() if isinstance(each, LabelledSet)}

    @classmethod
    def load(cls, path: Path | str = DEFAULT_PATH) -> Registry:
        """Returns the registry of a YAML file."""
        path = Path(path)
        return cls(_datasets(read_yaml(path), f"{path.name}:"))

    @classmethod
    def load_all(cls, paths: Sequence[Path | str]) -> Registry:
        """Returns the registry of several YAML files; where two have an entry of the same name the later wins."""
        registry = cls.load(paths[0])
        for path in paths[1:]:
            registry = registry.merged(read_yaml(Path(path)), f"{Path(path).name}:")
        return registry

    def merged(self, extra: Mapping[str, Any], label: str = "datasets:") -> Registry:
        """Returns a registry with the entries of ``extra`` added; an entry of the same name is replaced whole."""
        return Registry({**self._all, **_datasets(extra, label)})

    def get(self, name: str) -> Dataset:
        """Returns a bitext; an unknown name is an error that lists the known ones."""
        if name in self.labelled:
            raise ConfigError(f"{name} is a text classification set; translation models cannot be trained on it")
        if name not in self._datasets:
            raise ConfigError(unknown_name("dataset", name, self._datasets))
        return self._datasets[name]

    def get_labelled(self, name: str) -> LabelledSet:
        """Returns labelled texts; an unknown name is an error that lists the known ones."""
        if name in self._datasets:
            raise ConfigError(f"{name} is a bitext without labels; classifiers cannot be trained on it")
        if name not in self.labelled:
            raise ConfigError(unknown_name("text classification set", name, self.labelled))
        return self.labelled[name]

    def get_any(self, name: str) -> Dataset | LabelledSet:
        """Returns the dataset of that name, of either kind."""
        return self.labelled[name] if name in self.labelled else self.get(name)

    def __iter__(self) -> Iterator[Dataset]:
        return iter(self._datasets.values())

    def __len__(self) -> int:
        return len(self._datasets)


def _datasets(data: Any, label: str) -> dict[str, Dataset | LabelledSet]:
    data = {} if data is None else data
    named = {"type": "object", "maxProperties": 10_000, "propertyNames": {"format": "dataset-name"}}
    check(data, {**named, "additionalProperties": {"type": "object"}}, label)
    # Two checks, so that an error about a mistyped key lists only the keys of that kind of entry.
    bitexts = {name: value for name, value in data.items() if "task" not in value}
    check(bitexts, {**named, "additionalProperties": schema_of(Dataset)}, label)
    labelled = {name: value for name, value in data.items() if "task" in value}
    check(labelled, {**named, "additionalProperties": schema_of(LabelledSet)}, label)
    return {name: (_labelled_set if name in labelled else _dataset)(name, value, label) for name, value in data.items()}


def _labelled_set(name: str, value: dict[str, Any], label: str) -> LabelledSet:
    where = key_path(label, [name])
    part = value.get("dev")
    if isinstance(part, dict) and set(part) not in _PART_KEYS:
        raise ConfigError(f"{where}.dev: give a list of files, or last, or every; not {', '.join(part) or 'nothing'}")
    try:
        entry = read(LabelledSet, value, name=name, declared=value)
    except ConfigError as error:
        raise ConfigError(f"{where}.{error}") from None
    check_labelled(entry, where)
    _check_files(entry, where)
    return entry


def _dataset(name: str, value: dict[str, Any], label: str) -> Dataset:
    where = key_path(label, [name])
    for split in ("dev", "test"):
        given = value.get(split)
        if given is not None and set(given) not in _SPLIT_KEYS:
            listed = ", ".join(given) or "nothing"
            raise ConfigError(f"{where}.{split}: give source and target, or last, or every; not {listed}")
    try:
        dataset = read(Dataset, value, name=name, declared=value)
    except ConfigError as error:
        raise ConfigError(f"{where}.{error}") from None
    if dataset.kind != "synthetic" and dataset.dev is None:
        dataset = replace(dataset, dev=DEFAULT_DEV)
    _check(dataset, where)
    return dataset


def _check(dataset: Dataset, where: str) -> None:
    """Raises if keys of the entry contradict each other."""
    kind = dataset.kind
    if dataset.pair[0] == dataset.pair[1]:
        raise ConfigError(f"{where}.pair: {dataset.pair[0]} is given twice; both directions would have the same name")
    _check_files(dataset, where)
    if kind == "synthetic":
        if dataset.files() or dataset.dev or dataset.test:
            raise ConfigError(f"{where}: kind synthetic generates its own files; remove train, dev, test and gold")
        return
    if dataset.settings is not None:
        raise ConfigError(f"{where}.settings: only kind synthetic has settings")
    if not dataset.train or dataset.test is None:
        raise ConfigError(f"{where}: kind {kind} needs train and test (test may be {{last: 500}})")
    for key, split, gold in (("gold", dataset.test, dataset.gold), ("dev_gold", dataset.dev, dataset.dev_gold)):
        if gold is not None and not isinstance(split, TextPair):
            raise ConfigError(f"{where}.{key}: gold links need source and target files of their own")


def _check_files(entry: Dataset | LabelledSet, where: str) -> None:
    """Raises unless every file can be looked for somewhere."""
    for role, file in entry.files().items():
        place = PurePosixPath(file.mirror or "")
        if place.is_absolute() or ".." in place.parts:
            raise ConfigError(f"{where}.{role}.mirror: {file.mirror!r} is not a path below the mirror")
        if entry.kind == "files" and file.path is None:
            raise ConfigError(f"{where}.{role}: kind files needs a path")
        if entry.kind == "download" and file.url is None and file.mirror is None:
            raise ConfigError(f"{where}.{role}: kind download needs a url or a mirror path")
