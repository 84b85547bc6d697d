"""Small classifiers for tests, and the generated texts they read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from alignlens.classification.prepare import Prepared
from alignlens.classification.settings import ClassifierRecipe
from alignlens.cli.main import main

SMALL = {"hidden": 6, "embedding": 5}
DATASETS = str(Path(__file__).parents[2] / "config/datasets.yaml")


def recipe(model: dict[str, Any] | None = None, **changes: Any) -> ClassifierRecipe:
    """Settings as a command is told them."""
    return ClassifierRecipe.from_json({"model": model or {}, "training": changes}, "--settings")


def prepared_texts(folder: Path) -> Prepared:
    """The embedded set of labelled texts."""
    assert main(["classify", "prepare", "demo-keywords", "--datasets", DATASETS, "--out", str(folder)]) == 0
    return Prepared.open(folder)


def train(texts: Prepared, folder: Path, *more: str, **options: Any) -> list[str]:
    """The words of a command that trains a small classifier."""
    settings = {"model": SMALL, "training": {"updates": 200, "snapshots": [0], "snapshot_every": 100}, **options}
    command = ["classify", "train", "--data", str(texts.folder), "--settings", json.dumps(settings)]
    return [*command, "--work", str(folder / "work"), "--out", str(folder / "model"), *more]
