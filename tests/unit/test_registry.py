"""The registry: the shipped file, the closed schema, and what errors say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from alignlens.corpora.registry import DataFile, PartOfTrain, Registry, TextPair
from alignlens.errors import ConfigError, InputError

CONFIG = Path(__file__).parents[2] / "config"


def entry(**changes: Any) -> dict[str, Any]:
    """Returns a small valid entry of kind files, with changes."""
    return {
        "kind": "files",
        "pair": ["de", "en"],
        "train": [{"source": "a.de", "target": "a.en"}],
        "test": {"source": "t.de", "target": "t.en"},
        **changes,
    }


def load(tmp_path: Path, data: Any) -> Registry:
    """Returns the registry of a datasets.yaml with this content."""
    path = tmp_path / "datasets.yaml"
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data), encoding="utf-8")
    return Registry.load(path)


def message(tmp_path: Path, **changes: Any) -> str:
    """Returns the error for an entry with changes."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {"mine": entry(**changes)})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_shipped_registry_is_valid_and_complete() -> None:
    registry = Registry.load(CONFIG / "datasets.yaml")
    names = [dataset.name for dataset in registry]
    assert names[:5] == ["demo", "hansards", "deen", "roen", "multi30k"]
    assert {"paper-deen", "paper-enfr", "paper-roen"} <= set(names)
    for dataset in registry:
        assert dataset.licence != "unknown"
        assert dataset.origin
        for role, file in dataset.files().items():
            assert file.mirror, (dataset.name, role)
            assert file.url or file.sha256 or dataset.available, (dataset.name, role)


def test_gold_that_needs_a_form_is_never_downloaded() -> None:
    for name in ("deen", "paper-deen"):
        dataset = Registry.load(CONFIG / "datasets.yaml").get(name)
        assert "rwth-aachen.de/goldAlignment" in dataset.available
        assert all(file.url is None for role, file in dataset.files().items() if role.startswith("test"))


def test_roles_and_dataclasses(tmp_path: Path) -> None:
    gold = {"file": "t.gold", "base": 1, "format": "naacl"}
    data = entry(dev={"last": 7}, gold=gold, lowercase=True, train=[{"source": "a", "target": {"path": "b"}}] * 2)
    dataset = load(tmp_path, {"mine": data}).get("mine")
    assert list(dataset.files()) == [
        "train.0.source",
        "train.0.target",
        "train.1.source",
        "train.1.target",
        "test.source",
        "test.target",
        "test.gold",
    ]
    assert dataset.files()["train.1.target"] == DataFile(path="b")
    assert dataset.dev == PartOfTrain(last=7)
    assert isinstance(dataset.test, TextPair)
    assert dataset.gold_of("test") is not None
    assert dataset.gold_of("dev") is None
    assert dataset.lowercase
    assert not dataset.tokenise
    with pytest.raises(AttributeError):
        dataset.name = "other"  # type: ignore[misc]


def test_unknown_dataset_names_the_known_and_the_nearest(tmp_path: Path) -> None:
    registry = load(tmp_path, {"hansards": entry(), "deen": entry()})
    with pytest.raises(
        ConfigError, match=r"unknown dataset 'hansard'; known: deen, hansards \(did you mean hansards\?"
    ):
        registry.get("hansard")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"gold": {"file": "g", "base": 2, "format": "pharaoh"}},
            "datasets.yaml: mine.gold.base: 2 is not one of 0, 1",
        ),
        (
            {"gold": {"file": "g", "base": 0, "format": "talp"}},
            "datasets.yaml: mine.gold.format: 'talp' is not one of pharaoh, naacl",
        ),
        ({"kind": "ftp"}, "datasets.yaml: mine.kind: 'ftp' is not one of synthetic, download, files"),
        ({"lowercase": "yes"}, "datasets.yaml: mine.lowercase: 'yes' is not true or false"),
        ({"pair": "de-en"}, "datasets.yaml: mine.pair: 'de-en' is not a list"),
        ({"gold": {"file": "g", "base": 0}}, "datasets.yaml: mine.gold: missing key format"),
        ({"dev": {"last": 3, "every": 4}}, "datasets.yaml: mine.dev: give source and target, or last, or every"),
        ({"dev_gold": {"file": "g", "base": 0, "format": "pharaoh"}, "dev": {"last": 3}}, "mine.dev_gold: gold links"),
        ({"train": []}, "mine: kind files needs train and test"),
        ({"settings": {"seed": 1}}, "mine.settings: only kind synthetic"),
        ({"kind": "download"}, "mine.train.0.source: kind download needs a url or a mirror path"),
        ({"test": {"source": {"url": "http://x/a"}, "target": "b"}}, "mine.test.source: kind files needs a path"),
        ({"kind": "synthetic"}, "mine: kind synthetic generates its own files"),
        ({"sizes": {"train": 0}}, "mine.sizes.train: 0 must be at least 1"),
        ({"sizes": {"tran": 1}}, "mine.sizes.tran: unknown key 'tran'; known: dev, test, train (did you mean"),
        ({"dev": None}, "mine.dev: None is not a mapping"),
        ({"dev": {"last": None}}, "mine.dev.last: None is not a whole number"),
        ({"dev": {}}, "mine.dev: give source and target, or last, or every; not nothing"),
        ({"train": [{"source": "a", "target": ""}]}, "mine.train[0].target: ''"),
        ({"train": [{"source": "a", "target": {"member": []}}]}, "mine.train[0].target.member: []"),
        ({"train": [{"source": "a", "target": 3}]}, "mine.train[0].target: 3 is not a text or a mapping"),
        ({"train": [{"source": "a"}]}, "mine.train[0]: missing key target"),
    ],
)
def test_errors_carry_key_path_and_value(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    assert text in message(tmp_path, **changes)


def test_unknown_keys_name_the_nearest(tmp_path: Path) -> None:
    text = message(tmp_path, lowercased=True)
    assert text.startswith("datasets.yaml: mine.lowercased: unknown key 'lowercased'; known: available, cite")
    assert "did you mean lowercase?" in text
    assert "mine.train[0].source.sha: unknown key" in message(
        tmp_path, train=[{"source": {"path": "a", "sha": "b"}, "target": "c"}]
    )


def test_broken_yaml_names_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"datasets\.yaml:4: not YAML"):
        load(tmp_path, "mine:\n  kind: files\n  pair: [de, en\nother: 1\n")
    with pytest.raises(InputError, match="no such file"):
        Registry.load(tmp_path / "none.yaml")


def test_an_empty_file_is_an_empty_registry(tmp_path: Path) -> None:
    assert len(load(tmp_path, "# nothing yet\n")) == 0


def test_merged_replaces_by_name_and_leaves_the_original(tmp_path: Path) -> None:
    registry = load(tmp_path, {"a": entry(), "b": entry()})
    merged = registry.merged({"b": entry(pair=["cs", "en"]), "c": entry()})
    assert [dataset.name for dataset in merged] == ["a", "b", "c"]
    assert merged.get("b").pair == ("cs", "en")
    assert registry.get("b").pair == ("de", "en")
    with pytest.raises(ConfigError, match=r"datasets: c\.pair: 3 is not a list"):
        registry.merged({"c": entry(pair=3)})


def test_later_files_win(tmp_path: Path) -> None:
    load(tmp_path, {"a": entry(), "b": entry()})
    more = tmp_path / "more.yaml"
    more.write_text(yaml.safe_dump({"b": entry(pair=["cs", "en"])}), encoding="utf-8")
    registry = Registry.load_all([tmp_path / "datasets.yaml", more])
    assert (registry.get("a").pair, registry.get("b").pair) == (("de", "en"), ("cs", "en"))
