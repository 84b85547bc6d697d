"""A study is one folder: nothing else names it, and everything finds it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from ding2019_results import row, write_model

import alignlens.studies
from alignlens.cli.main import main
from alignlens.errors import ConfigError
from alignlens.report.studies import read_study, studies_part, verdicts_in_words
from alignlens.studies.registry import studies
from alignlens.studies.requests import EncoderRequest, Requests
from alignlens.tracking.experiments import experiment_tags
from alignlens.workflow.attribution_plan import Attribution
from alignlens.workflow.plan import Plan
from alignlens.workflow.settings import load_settings

CONFIG = {"preset": "mine", "datasets": ["demo"], "models": {"wide": {"preset": "demo_transformer"}}}
#: Where a study may be named besides its own folder. Tests name those that they test.
FREE = ("config", "docs", "tests", "README.md", "CHANGELOG.md")
TOY = {
    "__init__.py": '"""A toy."""\n',
    "caption.rst": "A toy.\n",
    "printed/claims.csv": "id,claim,test,pass_rule,published,print_passes,priority,where,decided_by\n"
    "T1,attention aligns,AER,below 50,yes,yes,core,section 1,Table 1\n",
    "printed/exhibits.csv": "label,title,in_print,runs,absent\nTable 1,Attention,no,attribution,\n",
    "study.py": """
        from dataclasses import dataclass

        from alignlens.io.limits import Limits
        from alignlens.io.typed import setting
        from alignlens.studies.contract import Study
        from alignlens.studies.requests import AttributionRequest, Requests


        @dataclass(frozen=True)
        class ToySettings:
            layer: int = setting(1, "Which layer.", Limits(0, 5), "a toy has no more")


        def requests(offer, settings):
            methods = (f"attention,layer={settings.layer}",)
            places = [(dataset.name, model.name) for dataset in offer.scored for model in offer.models]
            return Requests(attributions=[AttributionRequest(*place, methods) for place in places])


        STUDY = Study(
            name="toy2024",
            about="Toymaker 2024, attention and nothing else",
            title="Toymaker 2024",
            lead="Attention is a toy.",
            files=("index.html", "claims.csv", "summary.json"),
            settings=ToySettings,
            requests=requests,
        )
        """,
    "build.py": """
        from alignlens.studies.claims import NOT_REPRODUCED, REPRODUCED, Finding, claims_of, verdict_of
        from alignlens.studies.files import Built


        def build(results, out):
            (claim,) = claims_of("toy2024")
            (score,) = results.models[0].find("attention", "xa-xb")
            found = REPRODUCED if score.aer < 50 else NOT_REPRODUCED
            verdict = verdict_of(claim, Finding(found, numbers=f"{score.aer:.1f}"))
            return Built([verdict], [], [("layer", "1")], [], {"error_rates": []}, {"aer": score.aer})
        """,
}


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a toy study, beside the real ones."""
    folder = tmp_path / "more" / "toy2024"
    for name, content in TOY.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(dedent(content).lstrip())
    monkeypatch.setattr(alignlens.studies, "__path__", [*alignlens.studies.__path__, str(folder.parent)])
    yield folder
    for name in [name for name in sys.modules if ".toy2024" in name]:
        del sys.modules[name]


def test_no_name_of_a_study_stands_outside_its_folder(project: Path) -> None:
    names = re.compile("|".join(studies()))
    own = {study.folder for study in studies().values()}
    kinds = (".py", ".smk", ".rst", ".j2", ".css", ".js", ".yaml", ".toml", ".md", ".sh", "")
    looked_at = 0
    for path in project.rglob("*"):
        inside = path.relative_to(project).parts
        hidden = any(part.startswith(".") for part in inside) and inside[0] != ".ci"
        if hidden or inside[0] in (*FREE, "results", "build") or own & {*path.parents} or not path.is_file():
            continue
        assert not names.search(str(path.relative_to(project))), path
        if path.suffix in kinds:
            looked_at += 1
            found = names.search(path.read_text(encoding="utf-8"))
            assert found is None, f"{path} names {found[0]}"  # type: ignore[index]
    assert looked_at > 250


def test_the_plan_builds_what_a_new_study_asks_for(toy: Path, project: Path) -> None:
    plan = Plan.of(load_settings({**CONFIG, "studies": {"toy2024": {"layer": 0}}}, project))
    assert plan.attribution.methods(Attribution("demo", "wide", 1, "final", "test", "forced"))[0] == "attention,layer=0"
    assert plan.studies.files("toy2024")[0] == "results/mine/toy2024/index.html"
    assert set(plan.studies.files("toy2024")) <= set(plan.targets())
    assert "results/mine/attributions/demo/wide/1/final/test/forced/metrics.json" in plan.studies.inputs("toy2024")
    printed = [toy / "printed" / name for name in ("claims.csv", "exhibits.csv")]
    assert studies()["toy2024"].printed == list(map(str, printed))
    assert plan.summary()["studies"] == ["toy2024"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"layer": 6}, r"config.studies.toy2024.layer: 6 must be at most 5 \(a toy has no more\)"),
        ({"layer": 1.0}, "config.studies.toy2024.layer: 1.0 is not a whole number"),
        ({"layers": 1}, "config.studies.toy2024.layers: unknown key .*did you mean layer"),
    ],
)
def test_its_settings_are_checked(toy: Path, project: Path, content: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_settings({**CONFIG, "studies": {"toy2024": content}}, project)


def test_two_studies_ask_for_the_same_encoders(toy: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_toy = {**CONFIG, "studies": {"kobayashi2020": {"encoders": {"sequences": 5, "tokens": 8}}, "toy2024": {}}}
    found = studies()
    for sequences, fits in ((5, True), (6, False)):
        request = EncoderRequest({}, None, sequences, 8)
        asking = replace(found["toy2024"], requests=lambda *_, asked=request: Requests(encoders=asked))
        monkeypatch.setattr("alignlens.workflow.requested.study_of", (found | {"toy2024": asking}).__getitem__)
        with nullcontext() if fits else pytest.raises(ConfigError, match="toy2024: asks for other encoders than koba"):
            Plan.of(load_settings(with_toy, project))


def test_a_study_of_null_is_none(project: Path) -> None:
    assert load_settings({**CONFIG, "studies": dict.fromkeys(studies())}, project).studies == {}


def test_its_verb_page_report_and_experiment(toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "results" / "mine"
    write_model(folder, "demo", "transformer", "forced", [row("attention", "xa-xb", 40.0)])
    assert main(["study", "toy2024", "--results", str(folder)]) == 0
    assert "Claims reproduced: 1 of 1" in capsys.readouterr().out
    page = (folder / "toy2024" / "index.html").read_text()
    assert "Toymaker 2024 · mine" in page
    assert "attention aligns" in page
    summary = read_study(folder / "toy2024" / "summary.json")
    assert verdicts_in_words(summary)
    assert "Toymaker 2024" in json.dumps(studies_part([summary], folder / "report.html"))
    (description,) = experiment_tags("toy2024").values()
    assert description.startswith("Toymaker 2024, attention and nothing else")
    journal = (folder / "toy2024" / "study.journal.jsonl").read_text()
    assert '"experiment":"toy2024"' in journal
    assert '"aer":40.0' in journal
