"""One more file in ``attribution/methods/`` is a method everywhere, from the command line to the tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from added_method import FILE, add_method
from tiny_folder import SOURCE, TARGET, write_folder

from alignlens.alignment.pharaoh import read_links
from alignlens.attribution.registry import METHODS, parse
from alignlens.cli.main import main
from alignlens.errors import ConfigError
from alignlens.io.matrices import Matrices
from alignlens.report.methods import read_costs
from alignlens.subwords.spans import Segmenter
from alignlens.workflow.attribution_plan import Attribution
from alignlens.workflow.costs.jobs import estimate
from alignlens.workflow.costs.rates import Rates
from alignlens.workflow.costs.sizes import sizes_of
from alignlens.workflow.plan import Plan
from alignlens.workflow.settings import load_settings

MODELS = {"small": {"preset": "demo_lstm"}, "wide": {"preset": "demo_transformer"}}
TEXT = ["--source", "source", "--target", "target"]
RESTRICTED = FILE.replace(
    "    prefix=True,\n", '    prefix=True,\n    only=Only(("lstm",), "it has no rule for layer norms"),\n'
).replace("import MethodSpec,", "import MethodSpec, Only,")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("trained") / "model")


@pytest.fixture
def files(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Text, its pieces and gold links, and a folder for one more method."""
    for name, lines in (("source", SOURCE), ("target", TARGET)):
        segmenter = Segmenter.load(folder / f"{name}.model")
        pieces = [" ".join(segmenter.segment(line).pieces) for line in lines]
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        (tmp_path / f"{name}.pieces").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    (tmp_path / "gold").write_text("0-0 1p1\n" * len(SOURCE))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(folder: Path, verb: str, *arguments: str) -> int:
    return main([verb, "--model", str(folder), "--threads", "1", *TEXT, *arguments])


def asking(model: str, decoding: str) -> Attribution:
    return Attribution("demo", model, 1, "final", "test", decoding)


def plan(project: Path, **changes: Any) -> Plan:
    config = {"preset": "mine", "datasets": ["demo"], "models": MODELS, "studies": {"ding2019": {}}, **changes}
    return Plan.of(load_settings(config, project), "nowhere")


def test_the_command_line_knows_it(
    folder: Path, files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(folder, "align", "--method", "toy") == 2
    assert "unknown method 'toy'" in capsys.readouterr().err
    add_method(files / "methods", monkeypatch)
    assert main(["align", "--list"]) == 0
    assert "toy: gradient of the logit times input, of source and prefix\n" in capsys.readouterr().out
    assert call(folder, "align", "--method", "toy", "--out", "links") == 0
    assert call(folder, "attribute", "--methods", "attention", "toy", "--out", "scores") == 0
    scores = Matrices.open("scores")
    assert scores.names == scores.facts["methods"] == ["attention", "toy"]
    assert scores.squares == ["toy@prefix"]
    source, prefix = (scores.matrix(name, 1) for name in parse("toy").matrices)
    assert source.shape == scores.shape(1)
    assert prefix.shape == (len(source), len(source))
    assert prefix[:, 0].all(), "the start symbol has a column"
    assert not np.triu(prefix, 1).any(), "nobody reads what comes later"
    pieces = ["--source-pieces", "source.pieces", "--target-pieces", "target.pieces"]
    assert main(["extract", "--matrices", "scores", *pieces, "--out-dir", "de-en"]) == 0
    assert {path.name for path in Path("de-en").glob("toy*")} == {"toy.ding.pharaoh", "toy.kobayashi.pharaoh"}
    extracted = read_links("de-en/toy.ding.pharaoh", 0)
    assert np.array_equal(extracted.keys, read_links("links", 0).keys)
    assert main(["score-methods", "--cell", "de-en=de-en=gold", "--samples", "20", "--out", "metrics.json"]) == 0
    rows = json.loads(Path("metrics.json").read_text())["rows"]
    assert {(row["name"], row["extraction"]) for row in rows if row["aer"] is not None} >= {("toy", "ding")}


def test_parts_of_both_matrices_are_together_the_bytes_of_one_run(
    folder: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_method(files / "methods", monkeypatch)
    monkeypatch.setattr("alignlens.attribution.corpus.PORTION", 2)
    chosen = ["--methods", "toy", "attention", "toy,sign=kept"]
    assert call(folder, "attribute", *chosen, "--out", "whole") == 0
    for part in ("1/2", "2/2"):
        assert call(folder, "attribute", *chosen, "--shard", part, "--out", f"part{part[0]}") == 0
    assert main(["attribute", "--gather", "part1", "part2", "--out", "gathered"]) == 0
    content = [{path.name: path.read_bytes() for path in Path(name).iterdir()} for name in ("whole", "gathered")]
    assert content[0] == content[1]
    assert len([name for name in content[0] if name.endswith(".f32")]) == 5


def test_it_has_a_row_in_the_table_of_costs(folder: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_method(files / "methods", monkeypatch)
    path = Path("results/attributions/demo/wide/1/final/test/forced/xa-xb/cost.json")
    path.parent.mkdir(parents=True)
    assert call(folder, "cost", "--methods", "toy", "--out", str(path)) == 0
    (cost,) = read_costs(path, dict.fromkeys(("dataset", "model", "seed", "direction"), "x"))
    assert (cost.method, cost.forward_passes, cost.sentences) == ("toy", 1, len(SOURCE))
    assert cost.backward_passes > 1


def test_configuration_and_plan_know_it(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"attribution.methods\[0\]: unknown method 'toy'"):
        plan(project, attribution={"methods": ["toy"]})
    before = seconds(project)
    add_method(tmp_path, monkeypatch)
    named = plan(project, studies={}, attribution={"methods": ["toy,sign=kept"]})
    assert named.attribution.methods(asking("wide", "free")) == ["toy,sign=kept"]
    for model in MODELS:
        assert plan(project).attribution.compared("demo", model)[-1] == "toy"
    assert before < seconds(project)


def seconds(project: Path) -> float:
    """What all attributions of a study's models would take."""
    asked = plan(project)
    jobs = estimate(asked, sizes_of(asked), Rates.load(project / "config")).jobs
    return sum(job.core_seconds for job in jobs if job.rule == "attribute")


def test_a_model_that_it_does_not_work_with_is_told_before_anything_is_computed(
    folder: Path, files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_method(files / "methods", monkeypatch, RESTRICTED)
    monkeypatch.setattr("alignlens.attribution.corpus.attribute", lambda *_, **__: pytest.fail("computed"))
    for verb, option in (("align", "--method"), ("attribute", "--methods"), ("cost", "--methods")):
        assert call(folder, verb, option, "toy", "--out", "x") == 2
        assert capsys.readouterr().err == (
            f"alignlens {verb}: method toy does not work with transformer: it has no rule for layer norms."
            " It works with lstm.\n"
        )
        assert not Path("x").exists()
    assert main(["align", "--list"]) == 0
    assert "  models      lstm only: it has no rule for layer norms\n" in capsys.readouterr().out


def test_a_plan_asks_only_models_that_it_works_with(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_method(tmp_path, monkeypatch, RESTRICTED)
    asked = plan(project, attribution={"methods": ["toy,sign=kept"]}).attribution
    for decoding, expected in (("forced", ["toy", "toy,sign=kept"]), ("free", ["toy,sign=kept"])):
        assert [text for text in asked.methods(asking("small", decoding)) if "toy" in text] == expected
        assert not any("toy" in text for text in asked.methods(asking("wide", decoding)))
    with pytest.raises(ConfigError, match=r"attribution.methods\[0\]: method toy does not work with transformer: "):
        plan(project, models={"wide": MODELS["wide"]}, attribution={"methods": ["toy"]})


@pytest.mark.parametrize("used", ["norms", "grad"])
def test_two_methods_of_one_name_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: str) -> None:
    with pytest.raises(ValueError, match=f"two methods are called {used}"):
        add_method(tmp_path, monkeypatch, FILE.replace('name="toy"', f'name="{used}"'))
    assert "toy" not in METHODS
