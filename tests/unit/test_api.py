"""What ``import alignlens`` offers: the page in docs runs, and gives what the command line gives."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers", reason="the Hugging Face library is not installed")
from marian_folder import write_folder

import alignlens
from alignlens.errors import AlignlensError, ConfigError, InputError

SOURCE, TARGET = ["the cat sleeps .", "ba du", ""], ["Le chat dort .", "ba du", ""]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("api")
    write_folder(folder / "opus-mt-en-fr")
    write_folder(folder / "opus-mt-fr-en", seed=6)
    return folder


@pytest.fixture(scope="module")
def models(place: Path) -> tuple[Any, Any]:
    return alignlens.load(place / "opus-mt-en-fr"), alignlens.load(place / "opus-mt-fr-en")


def run(*arguments: str | Path) -> list[str]:
    command = [sys.executable, "-m", "alignlens", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def pharaoh(links: list[list[Any]]) -> list[str]:
    return [" ".join(f"{link.source}-{link.target}" for link in each) for each in links]


def test_the_page_runs(project: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (project / "docs" / "python.md").read_text(), re.DOTALL)
    monkeypatch.chdir(place)
    names: dict[str, Any] = {}
    exec(compile(code, "docs/python.md", "exec"), names)
    assert len(names["links"]) == len(names["scores"]) == 2
    assert (place / "recipe.json").is_file()


def test_links_are_those_of_the_command_line(place: Path, models: tuple[Any, Any]) -> None:
    source, target, recipe = place / "source.txt", place / "target.txt", place / "same.json"
    source.write_text("\n".join(SOURCE) + "\n")
    target.write_text("\n".join(TARGET) + "\n")
    texts = ["--source", source, "--target", target]
    forward, reverse = place / "opus-mt-en-fr", place / "opus-mt-fr-en"
    assert pharaoh(models[0].align(SOURCE, TARGET, "norms")) == run(
        "align", "--model", forward, "--method", "norms", *texts
    )
    chosen = alignlens.calibrate(*models, SOURCE, TARGET)
    run("calibrate", "--model", forward, "--reverse", reverse, *texts, "--out", recipe)
    both = ["align", "--model", forward, "--reverse", reverse, "--recipe", recipe, *texts]
    expected = run(*both)
    assert pharaoh(models[0].align(SOURCE, TARGET, reverse=models[1], recipe=chosen)) == expected
    assert pharaoh(models[0].align(SOURCE, TARGET, reverse=models[1], recipe=recipe)) == expected


def test_scores_have_names_tables_and_a_picture(models: tuple[Any, Any]) -> None:
    first, _, nothing = models[0].attribute(SOURCE, TARGET, "attention,layer=0")
    assert first.matrix.shape == (len(first.target), len(first.source))
    assert first.to_pandas().loc["END"].sum() == pytest.approx(1, abs=1e-5)
    words = first.to_words()
    assert list(words.index) == TARGET[0].split()
    assert words.shape == (4, 4)
    np.testing.assert_allclose(words.sum(axis=1), 1, atol=1e-5)
    assert first._repr_html_().count("<tr>") == len(first.target) + 1
    assert nothing.source == nothing.target == ("END",)


def test_scores_and_symmetrisation_of_links(tmp_path: Path) -> None:
    gold = tmp_path / "gold"
    gold.write_text("0-0 1-1\n0-0 1?1\n")
    found = alignlens.score([[(0, 0), (1, 1)], [(0, 0), (1, 1)]], gold)
    assert (found.aer, found.precision, found.recall) == (0, 100, 100)
    assert alignlens.score([[(0, 0)], []], gold, base=0).recall == pytest.approx(100 / 3)
    assert alignlens.symmetrize([[(0, 0), (1, 1)]], [[(1, 1)]], "intersection") == [[(1, 1)]]


def test_what_is_wrong_is_told(models: tuple[Any, Any], tmp_path: Path) -> None:
    model, reverse = models
    with pytest.raises(ConfigError, match="expected a list of lines"):
        model.translate("one text")
    with pytest.raises(InputError, match="lines, but source has"):
        model.align(["a"], [], "attention")
    with pytest.raises(ConfigError, match="a method or a recipe"):
        model.align(["a"], ["b"])
    with pytest.raises(AlignlensError, match="did you mean attention"):
        model.align(["a"], ["b"], "atention")
    recipe = alignlens.calibrate(model, reverse, SOURCE, TARGET)
    with pytest.raises(ConfigError, match="two models"):
        model.align(["a"], ["b"], recipe=recipe)
    with pytest.raises(ConfigError, match="its forward model is not"):
        reverse.align(["a"], ["b"], reverse=model, recipe=recipe)
    with pytest.raises(InputError):
        alignlens.load(tmp_path / "nothing")


def test_importing_is_fast_and_other_names_are_not_there() -> None:
    code = "import sys, alignlens; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        alignlens.nothing_of_the_kind  # noqa: B018
