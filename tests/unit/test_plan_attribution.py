"""Which attributions a configuration runs, where they go, and what a study needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from alignlens.attribution.registry import METHODS
from alignlens.cli.main import main
from alignlens.errors import ConfigError
from alignlens.io.atomic import write_json
from alignlens.results.manifest import Manifest
from alignlens.results.protocol import Protocol
from alignlens.studies.registry import studies
from alignlens.workflow.attribution_plan import Attribution, LinksFolder
from alignlens.workflow.plan import Plan
from alignlens.workflow.settings import load_settings

MODELS = {"small": {"preset": "demo_lstm"}, "wide": {"preset": "demo_transformer"}}


def asking(model: str, decoding: str = "forced", split: str = "test", dataset: str = "demo") -> Attribution:
    return Attribution(dataset, model, 1, "final", split, decoding)


def plan(project: Path, **changes: Any) -> Plan:
    config = {"preset": "mine", "datasets": ["demo"], "models": MODELS, "studies": {"ding2019": {}}, **changes}
    return Plan.of(load_settings(config, project))


def test_every_model_seed_and_decoding_ends_in_one_metrics_file(project: Path) -> None:
    asked = plan(project, seeds=[3, 5]).attribution
    assert asked.metrics() == [
        f"results/mine/attributions/demo/{model}/{seed}/final/test/{decoding}/metrics.json"
        for model in ("small", "wide")
        for seed in (3, 5)
        for decoding in ("forced", "free")
    ]
    assert set(asked.metrics()) <= set(asked.targets()) <= set(asked.plan.targets())
    assert "results/mine/ding2019/claims.csv" in asked.plan.studies.targets()
    only = plan(project, attribution={"decodings": ["free"]}).attribution
    assert {Path(path).parent.name for path in only.metrics()} == {"free"}


def test_a_run_has_both_directions_and_forced_ones_are_combined(project: Path) -> None:
    asked = plan(project).attribution
    folder, gold = "results/mine/attributions/demo/wide/1", "results/mine/data/demo/test.gold"
    assert asked.cells(asking("wide", "forced")) == [
        LinksFolder("xa-xb", f"{folder}/final/test/forced/xa-xb/links", gold),
        LinksFolder("xb-xa", f"{folder}/final/test/forced/xb-xa/links", gold),
        LinksFolder("bidir", f"{folder}/final/test/forced/bidir/links", gold),
    ]
    # What a model wrote itself has another target in every direction: nothing to combine, a reference for each.
    assert asked.cells(asking("wide", "free")) == [
        LinksFolder(
            name, f"{folder}/final/test/free/{name}/links", f"results/mine/free/demo/{name}/wide/1/reference.gold"
        )
        for name in ("xa-xb", "xb-xa")
    ]
    forward = plan(project, directions="forward").attribution
    assert [cell.direction for cell in forward.cells(asking("wide", "forced"))] == ["xa-xb"]
    assert not any("xb-xa" in target or "bidir" in target for target in forward.targets())
    assert str(asked.cells(asking("wide", "forced"))[0]) == f"xa-xb={folder}/final/test/forced/xa-xb/links={gold}"


def test_only_forced_links_of_the_reverse_model_are_turned_round(project: Path) -> None:
    asked = plan(project).attribution
    turned = {
        (decoding, direction): asked.is_turned(
            dataset="demo", model="wide", seed="1", decoding=decoding, direction=direction
        )
        for decoding in ("forced", "free")
        for direction in ("xa-xb", "xb-xa")
    }
    assert [place for place, value in turned.items() if value] == [("forced", "xb-xa")]


def test_methods_are_those_of_the_studies_and_of_the_configuration_each_once(project: Path) -> None:
    more = {"methods": ["attention,layer=0,head=1", "grad"]}
    asked = plan(project, attribution=more).attribution
    methods = asked.methods(asking("wide", "forced"))
    assert {"attention", "smoothed_attention", "ding_grad", "ding_smoothgrad", "li_grad"} <= set(methods)
    assert methods.count("ding_grad") == 1
    assert methods[-1] == "attention,layer=0,head=1"
    without = plan(project, attribution=more, studies={}).attribution
    assert without.methods(asking("wide", "forced")) == ["attention,layer=0,head=1", "ding_grad"]
    assert without.metrics()
    assert without.plan.studies.files("ding2019") == without.plan.studies.inputs("ding2019") == []
    nothing = plan(project, studies={}).attribution
    assert nothing.targets() == []
    assert nothing.summary() == []


def test_compared_are_the_plain_methods_and_those_the_configuration_names(project: Path) -> None:
    more = {"sigma": 0.1, "samples": 5, "methods": ["attention,layer=0,head=1"]}
    asked = plan(project, attribution=more).attribution
    noisy = {"smoothed_attention", "li_smoothgrad", "ding_smoothgrad"}
    there = [name for name, spec in METHODS.items() if spec.supports("transformer")]
    assert set(METHODS) - set(there) == {"optimal_attention"}
    expected = [f"{name},sigma=0.1,n=5" if name in noisy else name for name in there]
    assert asked.compared("demo", "wide") == [expected[0], "attention,layer=0,head=1", *expected[1:]]
    # Methods that no study asks for, as norms once, are there to be compared, with the reference only.
    assert set(expected) <= set(asked.methods(asking("wide", "forced")))
    assert "norms" not in asked.methods(asking("wide", "free"))
    named = plan(project, attribution={"methods": ["norms,layer=0", "grad"]}, studies={}).attribution
    assert named.compared("demo", "wide") == ["norms,layer=0", "ding_grad"]


def test_methods_can_be_left_out_of_the_comparison_or_be_others_there(project: Path) -> None:
    """But a study has what it asks for."""
    changed = {"leave_out": ["occlusion", "attention", "integrated_gradients"], "methods": ["integrated_gradients,n=4"]}
    made, all_of_them = (plan(project, attribution=settings) for settings in (changed, {}))
    rows = made.attribution.compared("demo", "small")
    others = [row for row in all_of_them.attribution.compared("demo", "small") if row not in changed["leave_out"]]
    assert sorted(rows) == sorted([*others, "integrated_gradients,n=4"])
    asked = made.attribution.methods(next(iter(made.attribution.runs())))
    assert "attention" in asked
    assert "occlusion" not in asked


def test_a_new_method_of_the_registry_is_compared_by_itself(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "newest", METHODS["attention"])
    assert plan(project).attribution.compared("demo", "wide")[-1] == "newest"


def test_mask_nets_are_trained_exactly_where_a_method_reads_masks(project: Path) -> None:
    models = {**MODELS, "own": {"preset": "demo_calibrated"}}
    asked = plan(project, models=models, seeds=[3, 5]).attribution
    folder = "results/mine/models/demo/xa-xb/wide/5/masks"
    run = asking("wide")._replace(seed=5)
    assert asked.masks(run, "xa-xb") == asked.compared_masks("demo", "xa-xb", "wide", "5") == [folder]
    # Free decoding is not asked with mask, an LSTM has none, and a calibrated model its own.
    assert not asked.masks(asking("wide", "free")._replace(seed=5), "xa-xb")
    for model, reads in (("small", False), ("own", True)):
        other = asking(model)._replace(seed=3)
        assert ("mask" in asked.methods(other)) == reads
        assert asked.masks(other, "xa-xb") == asked.compared_masks("demo", "xa-xb", model, "3") == []
    trained = [(run.model, run.seed, direction) for run, direction in asked.mask_runs()]
    assert trained == [("wide", seed, direction) for seed in (3, 5) for direction in ("xa-xb", "xb-xa")]
    assert plan(project, studies={}).attribution.mask_runs() == []
    named = plan(project, studies={}, attribution={"methods": ["mask,layer=0"], "decodings": ["free"]}).attribution
    assert [direction for _, direction in named.mask_runs()] == ["xa-xb", "xb-xa"]
    assert named.masks(asking("wide", "free"), "xb-xa") == ["results/mine/models/demo/xb-xa/wide/1/masks"]


def test_how_mask_nets_are_trained_is_a_setting(project: Path) -> None:
    changed = {"alpha": 0.5, "updates": 30, "mask_input": "printed", "training": {"learning_rate": 0.25}}
    run = plan(project, attribution={"masks": changed}).attribution.mask_run("wide")
    assert (run.architecture, run.model.fusion, run.model.mask_input) == ("calibrated", "none", "printed")
    assert (run.model.dim, run.model.dropout) == (64, 0.05)
    objective = run.training.objective
    assert (objective.name, objective.options.alpha) == ("mask_nets", 0.5)
    assert (run.training.max_updates, run.training.learning_rate) == (30, 0.25)
    for wrong, told in (
        ({"training": {"warmups": 1}}, r"config\.attribution\.masks\.training\.warmups: unknown key"),
        ({"training": {"max_updates": 1}}, r"config\.attribution\.masks\.training\.max_updates: set config\."),
        ({"updates": 0}, r"config\.attribution\.masks\.updates: 0"),
    ):
        with pytest.raises(ConfigError, match=told):
            plan(project, attribution={"masks": wrong})


def test_cost_is_measured_once_per_model_and_direction_with_the_reference(project: Path) -> None:
    asked = plan(project, seeds=[5, 3]).attribution
    assert asked.costs() == [
        f"results/mine/attributions/demo/{model}/5/final/test/forced/{direction}/cost.json"
        for model in ("small", "wide")
        for direction in ("xa-xb", "xb-xa")
    ]
    assert set(asked.costs()) <= set(asked.targets())
    tables = [f"results/mine/report/methods.{kind}" for kind in ("html", "csv", "md", "tex")]
    assert asked.plan.report.method_tables() == tables
    assert set(tables) <= set(asked.plan.report.files())
    for changes in (
        {"attribution": {"decodings": ["free"]}},
        {"studies": {}},
        {"datasets": ["multi30k"], "attribution": {"methods": ["attention"]}},
    ):
        without = plan(project, **changes)
        assert without.attribution.costs() == without.report.method_tables() == [], changes


def test_a_dataset_without_gold_links_is_not_scored(project: Path) -> None:
    alone = plan(project, datasets=["multi30k"]).attribution
    assert alone.targets() == alone.plan.studies.files("ding2019") == []
    beside = plan(project, datasets=["multi30k", "demo"]).attribution
    assert beside.targets()
    assert not any("multi30k" in path for path in [*beside.targets(), *beside.plan.studies.inputs("ding2019")])
    # Methods that are asked for by name still end in links.
    asked = plan(project, datasets=["multi30k"], attribution={"methods": ["attention"]}).attribution
    assert asked.metrics() == asked.plan.studies.files("ding2019") == []
    assert "results/mine/attributions/multi30k/wide/1/final/test/forced/bidir/links" in asked.targets()


def test_a_study_needs_the_scores_of_methods_and_aligners(project: Path) -> None:
    inputs = plan(project, aligners=[{"name": "ibm4"}]).studies.inputs("ding2019")
    assert "results/mine/scores/demo/ibm4/offline/all/metrics.json" in inputs
    assert "results/mine/scores/demo/ibm4/offline/all/sentences.npz" in inputs
    assert "results/mine/attributions/demo/small/1/final/test/free/metrics.json" in inputs
    assert "results/mine/attributions/demo/small/1/final/test/free/sentences.npz" in inputs
    assert "results/mine/translations/demo/xb-xa/wide/1/bleu.json" in inputs
    # Heatmaps and the runner-up are read off matrices, pieces and gold links.
    folders = {path for path in inputs if path.endswith("/matrices")}
    assert folders == {
        f"results/mine/attributions/demo/{model}/1/final/test/forced/{direction}/matrices"
        for model in ("small", "wide")
        for direction in ("xa-xb", "xb-xa")
    }
    assert {f"results/mine/{name}" for name in ("pieces/demo/test.source", "data/demo/test.gold")} <= set(inputs)
    assert not any("test.gold" in path for path in plan(project, studies={}).studies.inputs("ding2019"))


def test_a_manifest_names_what_the_configuration_makes_and_nothing_else(project: Path, tmp_path: Path) -> None:
    changes = {"seeds": [3], "attribution": {"sigma": 0.1, "samples": 4}, "interval": {"samples": 77}}
    aligners = [{"name": "ibm4"}, {"name": "hmm"}]
    made = plan(project, aligners=aligners, **changes)
    for manifest in (made.studies.manifest("ding2019"), made.report.manifest()):
        assert manifest.protocol == Protocol(0.1, 4)
        assert manifest.interval["samples"] == 77
        files = [f"results/mine/{file}" for file in manifest.files]
        assert len(files) == len(set(files))
        assert "results/mine/attributions/demo/small/3/final/test/free/metrics.json" in files
        assert not any("/1/final" in file or "/5/" in file for file in files)
    assert set(made.studies.inputs("ding2019")) == {
        f"results/mine/{file}" for file in made.studies.manifest("ding2019").files
    }
    # Rows that its tables do not have are not waited for.
    assert not any("/hmm/" in file for file in made.studies.manifest("ding2019").files)
    assert any("/hmm/" in file for file in made.report.manifest().files)
    # Sentences are shown with the scores of models and the pieces that they are about.
    shown = made.report.manifest().files
    for decoding, target in (
        ("forced", "pieces/demo/test.target"),
        ("free", "translations/demo/xa-xb/small/3/test.pieces"),
    ):
        names = {f"attributions/demo/small/3/final/test/{decoding}/xa-xb/matrices", "pieces/demo/test.source", target}
        assert names <= set(shown)
    assert "free/demo/xb-xa/small/3/reference.gold" in shown
    assert {f"results/mine/{file}" for file in shown} == set(made.report.inputs())
    path = tmp_path / "manifest.json"
    write_json(path, made.report.manifest().as_json())
    assert Manifest.read(path, made.root) == made.report.manifest()


def test_the_report_shows_the_studies_of_the_configuration(project: Path) -> None:
    assert plan(project).studies.summaries() == ["results/mine/ding2019/summary.json"]
    assert plan(project, studies={}).studies.summaries() == []


def test_free_decoding_is_scored_by_the_online_aligner_that_saw_most(project: Path) -> None:
    def aligner(direction: str, place: int, *sizes: int | None) -> str:
        aligners = [{"name": "fast_align", "text": "online", "max_pairs": size} for size in sizes]
        asked = plan(project, aligners=[*aligners, {"name": "fast_align"}, {"name": "hmm", "text": "online"}])
        return asked.attribution.aligner("demo", direction, place)

    folder = "results/mine/aligners/demo/fast_align/online"
    assert aligner("xa-xb", 0, 50, 700) == f"{folder}/700/xa-xb/model"
    assert aligner("xa-xb", 0, 700, None, 50) == f"{folder}/all/xa-xb/model"
    # Without one in the configuration it is trained for this purpose.
    assert aligner("xa-xb", 0) == f"{folder}/all/xa-xb/model"
    # The aligner of a direction explains each word of that direction's target.
    assert aligner("xa-xb", 1) == aligner("xb-xa", 0) == f"{folder}/all/xb-xa/model"
    assert aligner("xb-xa", 1) == f"{folder}/all/xa-xb/model"


def test_the_summary_counts_methods_and_jobs(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(project)
    (tmp_path / "mine.yaml").write_text(
        "models: {lstm: null, fconv: null}\nseeds: [3, 5]\nstudies: {ding2019: null, kobayashi2020: null, "
        "snell2021: null, voita2020: null, lu2021: null}\n"
        "attribution: {methods: [attention, grad], decodings: [forced], shards: 2}\n"
    )
    arguments = ["plan", "--configfile", str(tmp_path / "mine.yaml"), "--results", str(tmp_path)]
    assert main(arguments) == 0
    told = capsys.readouterr().out
    assert "  attribution of transformer on demo, forced: 2 methods in 8 jobs\n" in told
    assert told.count("attribution of") == 1
    assert "study" not in told
    assert main(["plan", "--results", str(tmp_path), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["studies"] == ["ding2019", "kobayashi2020", "lu2021", "snell2021", "voita2020"]
    folder = f"{tmp_path}/demo/encoders"
    assert summary["encoders"] == [f"{folder}/minilm", f"{folder}/demo/xa-xb/transformer/1"]
    asked = [(entry["model"], entry["split"], entry["decoding"]) for entry in summary["attributions"]]
    assert [run for run in asked if not run[0].startswith(("voita", "lu_"))] == [
        *((model, "test", decoding) for model in ("lstm", "fconv", "transformer") for decoding in ("forced", "free")),
        ("transformer", "dev", "forced"),
    ]


def test_layers_are_chosen_on_the_dev_text_where_it_has_gold_links(project: Path) -> None:
    asked = plan(project, studies={"kobayashi2020": {}}).attribution
    folder = "results/mine/attributions/demo/wide/1"
    assert asked.cells(asking("wide", split="dev")) == [
        LinksFolder(name, f"{folder}/final/dev/forced/{name}/links", "results/mine/data/demo/dev.gold")
        for name in ("xa-xb", "xb-xa")
    ]
    assert asked.is_turned(dataset="demo", decoding="forced", direction="xb-xa", model="wide", seed="1")
    forced, dev = (asked.methods(asking("wide", split=split)) for split in ("test", "dev"))
    assert set(dev) < set(forced)
    assert {"norms,layer=1,step=in", "attention,layer=0"} <= set(dev)
    assert {"norms,layer=1,head=3,step=in", "ding_smoothgrad"} <= set(forced) - set(dev)
    # Only Transformers have layers to choose from, and only gold links of the dev text can tell.
    assert asked.methods(asking("small", split="dev")) == []
    assert plan(project).attribution.methods(asking("wide", split="dev")) == []
    without = plan(project, studies={"kobayashi2020": {}}, datasets=["deen"]).attribution
    assert without.methods(asking("wide", split="dev", dataset="deen")) == []
    assert "norms,layer=0" in without.methods(asking("wide", "forced", dataset="deen"))


def test_a_study_waits_for_what_it_asks_only(project: Path, tmp_path: Path) -> None:
    encoders = {"models": {"minilm": "minilm", "mine": str(tmp_path), "none": None}}
    both = plan(project, studies={"ding2019": {}, "kobayashi2020": {"encoders": encoders}}).studies
    metrics = {name: {p for p in both.inputs(name) if "attributions" in p and p.endswith("json")} for name in studies()}
    folder = "results/mine/attributions/demo"
    assert metrics["kobayashi2020"] == {
        f"{folder}/wide/1/final/{split}/forced/metrics.json" for split in ("test", "dev")
    }
    assert metrics["ding2019"] == {
        f"{folder}/{model}/1/final/test/{decoding}/metrics.json" for model in MODELS for decoding in ("forced", "free")
    }
    measured = {path for path in both.inputs("kobayashi2020") if "/encoders/" in path}
    root = "results/mine/encoders"
    assert measured == {f"{root}/minilm", f"{root}/mine", f"{root}/demo/xa-xb/wide/1"}
    assert not any("/encoders/" in path for path in both.inputs("ding2019"))
    assert not any("translations" in path for path in both.inputs("kobayashi2020"))
