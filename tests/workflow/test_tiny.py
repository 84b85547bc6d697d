"""The whole pipeline, run for real on a tiny corpus."""

from __future__ import annotations

import csv
import json
import re
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import yaml
from browser_results import unpacked
from throwaway import TINY, Run, Workspace

from alignlens.alignment.pharaoh import read_links
from alignlens.attribution.registry import METHODS, in_order
from alignlens.corpora.tokens import TokenStore
from alignlens.io.matrices import Matrices
from alignlens.io.text import read_lines, words
from alignlens.results.paths import DECODINGS
from alignlens.studies.exhibits import exhibits_of
from alignlens.studies.registry import studies
from alignlens.subwords.spans import Segmenter, line_of

pytestmark = pytest.mark.workflow
STUDIES = ("ding2019_study", "kobayashi2020_study", "lu2021_study")
#: Studies of what models look at while they learn, which no links go into.
LEARNED = ("snell2021_study", "voita2020_study")
#: What compares translations, and looks into masks; one study asks for it.
CALIBRATED = ("calibration", "compare_bleu")
LEARNING = ("agreement", *LEARNED)
EXTRACTED = ("extract_links", "symmetrize_methods", "score_methods", *STUDIES)


def test_everything_that_was_planned_is_there(finished: Workspace) -> None:
    plan = json.loads(finished.alignlens("plan", "--configfile", "tiny.yaml", "--json").stdout)
    assert len(plan["targets"]) > 50
    assert plan["missing"] == []
    metrics = json.loads((finished.results / "scores/tiny/fast_align/online/all/metrics.json").read_text())
    assert metrics["train_pairs"] == 300
    assert [row["links"] for row in metrics["rows"]][:3] == ["xa-xb", "xb-xa", "intersection"]
    assert all(row["aer_low"] <= row["aer"] <= row["aer_high"] for row in metrics["rows"])
    offline = json.loads((finished.results / "scores/tiny/fast_align/offline/all/metrics.json").read_text())
    assert offline["train_pairs"] == 330
    subset = json.loads((finished.results / "scores/tiny/hmm/offline/200/metrics.json").read_text())
    assert subset["train_pairs"] == 230
    cards = [json.loads(path.read_text()) for path in finished.results.glob("models/tiny/*/*/1/model/model.json")]
    # Minimum risk, twelve other models of three studies, and two architectures in both directions.
    assert sorted(card["updates"] for card in cards) == [2] + [10] * 4 + [20] * 8 + [30] * 4
    for translation in finished.results.glob("translations/tiny/*/*/1/test.txt"):
        # Hardly trained models write bytes that Python takes for ends of lines.
        assert len(read_lines(translation)) == 30


def test_every_method_is_scored_with_the_reference_and_with_the_models_own_translation(finished: Workspace) -> None:
    for model in ("transformer", "lstm"):
        folder = finished.results / "attributions/tiny" / model / "1/final/test"
        forced = json.loads((folder / "forced/metrics.json").read_text())
        assert (forced["architecture"], forced["decoding"], forced["sentences"]) == (model, "forced", 30)
        assert {row["links"] for row in forced["rows"]} >= {"xa-xb", "xb-xa", "grow-diag-final-lilt"}
        free = json.loads((folder / "free/metrics.json").read_text())
        assert {row["links"] for row in free["rows"]} == {"xa-xb", "xb-xa"}
        for row in [*forced["rows"], *free["rows"]]:
            assert 0 <= row["aer"] <= 100
        known = {name for name, spec in METHODS.items() if spec.supports(model)}
        assert {row["name"] for row in forced["rows"]} == known
        assert {row["name"] for row in free["rows"]} == {
            *(f"{name}_{kind}" for name in ("li", "ding") for kind in ("grad", "smoothgrad")),
            "attention",
            "smoothed_attention",
        }
        assert "attention,layer=0,head=0" in {row["method"] for row in free["rows"]}


def test_a_models_own_translation_is_explained_in_the_pieces_that_it_generated(finished: Workspace) -> None:
    for direction in ("xa-xb", "xb-xa"):
        for model in ("transformer", "lstm"):
            folder = finished.results / "translations/tiny" / direction / model / "1"
            generated = TokenStore.open(folder / "test.tokens")
            segmenter = Segmenter.load(finished.results / "models/tiny" / direction / model / "1/model/target.model")
            pieces = [segmenter.pieces_of(generated[number]) for number in range(30)]
            assert [words(line) for line in read_lines(folder / "test.pieces")] == pieces
            assert [line_of(line) for line in pieces] == read_lines(folder / "test.txt")
            scores = finished.results / "attributions/tiny" / model / "1/final/test/free" / direction / "matrices"
            assert Matrices.open(scores).shapes[:, 0].tolist() == [len(line) + 1 for line in pieces]


def test_sentences_are_browsed_with_the_scores_of_every_model(finished: Workspace) -> None:
    page = (finished.results / "browser/index.html").read_text()
    (content,) = json.loads(page.split('id="sentences">', 1)[1].split("</script>", 1)[0])
    asked = [(each["name"], model) for each in content["directions"] for model in each["models"]]
    assert {(name, model["who"], model["decoding"]) for name, model in asked} == set(
        product(("xa-xb", "xb-xa"), ("lstm", "transformer"), DECODINGS)
    )
    assert {each["who"] for each in content["aligners"]} >= {"fast_align, offline", "fast_align, online"}
    for name, model in asked:
        folder = finished.results / "attributions/tiny" / model["who"] / "1/final/test" / model["decoding"]
        stored = Matrices.open(folder / name / "matrices")
        assert [method["method"] for method in model["methods"]] == in_order(stored.names)
        method = model["methods"][0]
        chunk = finished.results / "browser/data" / f"{method['chunk']}.js"
        packed = chunk.read_text().split('"')[1] if chunk.is_file() else embedded(page, method["chunk"])
        scores = unpacked(packed, content["texts"][model["text"]], model["begin"], method["prefix"])
        for number, found in zip(content["numbers"], scores, strict=True):
            exact = stored.matrix(method["method"], number)
            assert np.abs(found.source - exact).max() <= found.step / 2 + 1e-6


def embedded(page: str, chunk: int) -> str:
    return page.split(f'id="chunk-{chunk}">', 1)[1].split("<", 1)[0]


def test_methods_are_compared_with_what_they_cost(finished: Workspace) -> None:
    table = (finished.results / "report/methods.md").read_text()
    assert "not measured" not in table
    rows = list(csv.DictReader((finished.results / "report/methods.csv").read_text().splitlines()))
    assert {row["method"].partition(",")[0] for row in rows if row["model"]} == set(METHODS)
    passes = {(row["forward_passes"], row["backward_passes"]) for row in rows if row["method"] == "attention"}
    assert passes >= {("1.0", "0.0")}


def test_links_of_both_directions_are_in_the_orientation_of_the_dataset(finished: Workspace) -> None:
    lengths = [
        [len(line.split()) for line in (finished.results / f"data/tiny/test.{side}").read_text().splitlines()]
        for side in ("source", "target")
    ]
    for path in finished.results.glob("attributions/tiny/*/1/final/test/forced/*/links/*.pharaoh"):
        links = read_links(path, 0, *lengths)
        # A model of a direction explains every word of what it wrote.
        explained = {"xa-xb": (links.target, 1), "xb-xa": (links.source, 0)}.get(path.parents[1].name)
        if explained and ".ding." in path.name:
            words, side = explained
            assert len(set(zip(links.sentence.tolist(), words.tolist(), strict=True))) == sum(lengths[side]), path


def test_the_study_ends_in_tables_and_claims(finished: Workspace) -> None:
    folder = finished.results / "ding2019"
    claims = list(csv.DictReader((folder / "claims.csv").read_text().splitlines()))
    assert [claim["id"] for claim in claims] == [f"D{number:02d}" for number in range(1, 24)]
    assert {claim["verdict"] for claim in claims} <= {"reproduced", "not reproduced", "undecided", "not testable here"}
    for name in ("table1", "table2", "table3"):
        assert (folder / f"{name}.csv").read_text().count("\n") > 2
    assert (folder / "index.html").is_file()


def test_norms_are_compared_with_weights_by_layer(finished: Workspace, finished_runs: list[Run]) -> None:
    folder = finished.results / "kobayashi2020"
    claims = list(csv.DictReader((folder / "claims.csv").read_text().splitlines()))
    assert [claim["id"] for claim in claims] == [f"K{number:02d}" for number in range(1, 17)]
    assert next(claim for claim in claims if claim["id"] == "K15")["verdict"] == "reproduced"
    layers = list(csv.DictReader((folder / "layers.csv").read_text().splitlines()))
    assert {(row["kind"], row["step"], row["layer"]) for row in layers} == {
        (kind, step, layer) for kind in ("weights", "norms") for step in ("AWO", "AWI") for layer in ("1", "2")
    }
    assert all(row["dev_aer"] for row in layers)  # generated text has gold links for its dev part
    measured = {row["encoder"] for row in csv.DictReader((folder / "encoders.csv").read_text().splitlines())}
    assert measured == {"minilm", "tiny xa-xb transformer s1"}
    assert len(list(folder.glob("figure*.svg"))) == 3 + 2 * 5
    heads = [run for run in finished_runs if "head_aer" in run["metrics"]]
    assert "xa-xb · transformer · s1 · norms,layer=1,step=in · forced · kobayashi" in {run["name"] for run in heads}


def test_parts_give_the_same_scores(finished: Workspace, tmp_path: Path) -> None:
    copy = Workspace(tmp_path / "copy")
    shutil.copytree(finished.folder, copy.folder)
    folder = "attributions/tiny/lstm/1/final/test/free"
    scores, metrics, sentences = f"{folder}/xa-xb/matrices", f"{folder}/metrics.json", f"{folder}/sentences.npz"
    shutil.rmtree(copy.results / scores)
    (copy.results / metrics).unlink()
    (copy.results / sentences).unlink()
    (copy.folder / "tiny.yaml").write_text(
        yaml.safe_dump({**TINY, "attribution": {**TINY["attribution"], "shards": 2}})
    )
    wanted = (f"results/tiny/{scores}", f"results/tiny/{metrics}", f"results/tiny/{sentences}")
    planned = copy.snakemake("--cores", "all", "--rerun-triggers", "mtime", "--", *wanted).stderr
    assert {"attribute_shard", "score_methods_shard"} <= set(re.findall(r"\w+", planned))
    for path in (finished.results / scores).iterdir():
        assert (copy.results / scores / path.name).read_bytes() == path.read_bytes(), path.name
    for name in (metrics, sentences):
        assert (copy.results / name).read_bytes() == (finished.results / name).read_bytes(), name


def test_what_the_configuration_no_longer_has_is_in_no_table(finished: Workspace, tmp_path: Path) -> None:
    """A model and an aligner are taken out; what they left in the results folder is still there."""
    copy = Workspace(tmp_path / "copy")
    shutil.copytree(finished.folder, copy.folder)
    aligners = [run for run in TINY["aligners"] if run["name"] != "eflomal"]
    less = {**TINY, "models": {**TINY["models"], "lstm": None}, "aligners": aligners}
    (copy.folder / "tiny.yaml").write_text(yaml.safe_dump(less))
    # Code of studies may not have changed, but their manifests have; and the copy has its template in another folder.
    assert set(copy.dry_run()) == {"manifest", "report", *STUDIES, *LEARNED}
    copy.snakemake("--cores", "all")
    assert (copy.results / "attributions/tiny/lstm").is_dir()
    assert (copy.results / "scores/tiny/eflomal").is_dir()
    before, after = (
        {
            str(path.relative_to(each.results)): path.read_text()
            for folder in ("ding2019", "kobayashi2020", "report")
            for path in [*(each.results / folder).glob("*.csv"), each.results / folder / "../report.html"]
        }
        for each in (finished, copy)
    )
    assert before.keys() == after.keys()
    for name in ("lstm", "eflomal"):
        assert any(name in text for text in before.values())
    for name, text in after.items():
        rows = list(csv.DictReader(text.splitlines())) if name.endswith(".csv") else []
        assert "lstm" not in {row.get("model") for row in rows}, name
        assert "eflomal, offline" not in text or name == "ding2019/table1.csv", name
        assert not any("/lstm/" in value for row in rows for value in row.values() if value), name
    summary = json.loads((copy.results / "ding2019/summary.json").read_text())
    assert summary["models"] == ["transformer"]
    assert not any("lstm" in row["what"] for row in _rows(copy.results / "ding2019/comparisons.csv"))
    eflomal = [row for row in _rows(copy.results / "ding2019/table1.csv") if "eflomal" in row["method"]]
    assert {row["ours"] for row in eflomal} == {""}


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_several_gpus_train_together(workspace: Workspace) -> None:
    model = "results/tiny/models/tiny/xa-xb/lstm/1/model"
    shown = ("--cores", "all", "--dry-run", "--printshellcmds", "--set-resources")
    assert "torchrun" not in workspace.snakemake(*shown, "train:gpu=1", "--", model).stdout
    several = workspace.snakemake(*shown, "train:gpu=4", "--", model).stdout
    assert "torchrun --standalone --nproc-per-node 4 -m alignlens train " in several


def test_a_study_alone_builds_nothing_unrelated(workspace: Workspace) -> None:
    planned = set(workspace.dry_run("--", "ding2019"))
    assert {"attribute", "free_reference", "score_methods", "ding2019_study", "score"} <= planned
    assert not {"report", "force_decode", "model_encoder"} & planned
    planned = set(workspace.dry_run("--", "kobayashi2020"))
    assert {"attribute", "score_methods", "kobayashi2020_study", "pretrained_encoder", "model_encoder"} <= planned
    assert not {"report", "free_reference", "translate"} & planned
    planned = set(workspace.dry_run("--", "lu2021"))
    assert {"train", "translate", *CALIBRATED, "lu2021_study"} <= planned
    assert not {"report", "force_decode", "align", "trajectory"} & planned


def test_a_second_run_runs_nothing(finished: Workspace) -> None:
    assert "Nothing to be done" in finished.snakemake("--cores", "all").stderr


def test_every_job_is_one_finished_run(finished: Workspace, finished_runs: list[Run]) -> None:
    keys = [run["key"] for run in finished_runs]
    assert len(keys) == len(set(keys))
    assert {run["status"] for run in finished_runs} == {"FINISHED"}
    scored = [run for run in finished_runs if "aer" in run["metrics"]]
    attributed = {
        (path, row["method"], row["extraction"], row["links"] if row["kind"] == "direction" else "bidir")
        for path in finished.results.glob("attributions/tiny/*/1/*/*/*/metrics.json")
        for row in json.loads(path.read_text())["rows"]
        # Heads are metrics of the run of their layer, where it was asked for as a whole.
        if "head=" not in row["method"] or path.parts[-6:-1] != ("transformer", "1", "final", "test", "forced")
    }
    assert len(scored) == 4 * 10 + len(attributed)
    names = {run["name"] for run in scored}
    assert "tiny · fast_align offline · grow-diag" in names
    assert "xa-xb · lstm · s1 · ding_smoothgrad,n=3 · forced" in names
    journals = sum(
        '"event":"run"' in line
        for path in finished.results.rglob("*.journal.jsonl")
        for line in path.read_text().splitlines()
    )
    assert journals == sum(not run["group"] for run in finished_runs)


def test_logs_and_benchmarks_are_kept(finished: Workspace) -> None:
    assert (finished.results / "aligners/tiny/hmm/offline/200/xa-xb/align.log").read_text()
    header = (finished.results / "benchmarks/align/tiny/hmm/offline/200/xa-xb.tsv").read_text().splitlines()[0]
    assert header.startswith("s\th:m:s\tmax_rss")
    assert (finished.results / "models/tiny/xa-xb/lstm/1/train.log").read_text()
    assert not (finished.results / "models/tiny/xa-xb/lstm/1/work").exists()
    runtime = (finished.results / "report/runtime.csv").read_text()
    assert "align" in runtime
    assert "train,tiny/xb-xa/transformer/1" in runtime


_LINKED = {
    "ding2019": ("table-1", "table-2", "table-3", "variants"),
    "kobayashi2020": ("table-3",),
    "snell2021": ("table-2", "table-3", "table-5", "table-7"),
    "lu2021": ("table-4",),
}


def test_every_link_of_a_study_page_leads_somewhere(finished: Workspace, finished_runs: list[Run]) -> None:
    known = {run["key"] for run in finished_runs}
    for study in studies():
        page = (finished.results / study / "index.html").read_text(encoding="utf-8")
        places = set(re.findall(r' id="([^"]+)"', page))
        assert set(re.findall(r'href="#([^"]+)"', page)) <= places, study
        keys = set(re.findall(r'<tr id="run-([0-9a-f]{16})">', page))
        assert keys, study
        assert keys <= known, study
        exhibits = {exhibit.anchor: exhibit for exhibit in exhibits_of(study)}
        assert exhibits.keys() <= places
        for anchor, content in re.findall(r'<section id="([^"]+)">(.*?)</section>', page, flags=re.DOTALL):
            if anchor in exhibits and "<img" in content:
                assert '<details class="runs">' in content, f"{study} {anchor}: no run of {exhibits[anchor].runs}"
            # A number of ours in the tables of error rates, agreement and BLEU leads to its run.
            if anchor in _LINKED.get(study, ()):
                assert re.search(r'<td class="number[^>]*><a href="#run-[0-9a-f]{16}">[-+\d.]', content), (
                    study,
                    anchor,
                )


def test_the_front_page_leads_to_every_study(finished: Workspace) -> None:
    page = (finished.results / "index.html").read_text(encoding="utf-8")
    for name in [*(f"{study}/index.html" for study in studies()), "report.html"]:
        assert f'href="{name}"' in page
        assert (finished.results / name).is_file()
    assert page.count("<img") == len(studies())


def test_the_snakemake_report_builds(finished: Workspace) -> None:
    finished.snakemake("--report", "snakemake-report.html")
    text = (finished.folder / "snakemake-report.html").read_text(encoding="utf-8")
    for name in ["index.html", *(f"{study}/index.html" for study in studies())]:
        assert f"results/tiny/{name}" in text, name


@pytest.mark.parametrize(
    ("changed", "reruns"),
    [
        (
            "src/alignlens/alignment/symmetrize.py",
            {"symmetrize", "score", "report", "symmetrize_methods", "score_methods", *STUDIES},
        ),
        (
            "src/alignlens/metrics/bootstrap.py",
            {"score", "score_bleu", "report", "score_methods", *STUDIES, *LEARNING, *CALIBRATED},
        ),
        ("src/alignlens/display/render.py", {"report", *STUDIES, *LEARNED}),
        (
            "src/alignlens/attribution/sweep.py",
            {"attribute", "measure_cost", "report", "trajectory", *EXTRACTED, *LEARNING},
        ),
        ("src/alignlens/tracking/store.py", set()),
    ],
)
def test_a_changed_module_reruns_the_steps_that_use_it(finished: Workspace, changed: str, reruns: set[str]) -> None:
    file = finished.folder / changed
    before = file.read_text()
    file.write_text(before + "\n# changed\n")
    try:
        assert set(finished.dry_run()) == reruns
    finally:
        file.write_text(before)


def test_changed_training_makes_no_aligner_run_again(finished: Workspace) -> None:
    file = finished.folder / "src/alignlens/training/loop.py"
    before = file.read_text()
    file.write_text(before + "\n# changed\n")
    try:
        planned = set(finished.dry_run())
    finally:
        file.write_text(before)
    assert {"train", "translate", "report"} <= planned
    assert not {"segment", "align", "symmetrize", "score"} & planned


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("datasets=[dmeo]", "alignlens config: config.datasets[0]: unknown dataset 'dmeo'; known: "),
        ("aligner=[]", "alignlens config: config.aligner: unknown key 'aligner'; known: "),
        ("models={lstm: {preset: dmeo_lstm}}", "alignlens config: config.models.lstm.preset: unknown model preset"),
        (
            "attribution={methods: [gard]}",
            "alignlens config: config.attribution.methods[0]: unknown method 'gard'; known: ",
        ),
        ("mirror=/no/such", "alignlens config: config.mirror: '/no/such' is not a folder"),
        ("tracking={uri: nowhere}", "alignlens config: nowhere: not a tracking URI"),
    ],
)
def test_a_wrong_configuration_stops_before_anything_runs(workspace: Workspace, option: str, message: str) -> None:
    done = workspace.snakemake("--cores", "all", "--config", option, check=False)
    assert done.returncode == 2
    told = [line for line in done.stderr.splitlines() if line.startswith("alignlens")]
    assert len(told) == 1
    assert told[0].startswith(message)
    assert not (workspace.folder / "results").exists()


def test_a_tracker_that_is_down_or_deleted_loses_nothing(
    finished: Workspace, finished_runs: list[Run], tmp_path: Path
) -> None:
    copy = Workspace(tmp_path / "copy")
    shutil.copytree(finished.folder, copy.folder)
    for name in ("mlflow.db", "mlartifacts"):
        path = copy.folder / "results" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (copy.results / "report.html").unlink()
    done = copy.snakemake("--cores", "all", "--config", "tracking={uri: 'http://127.0.0.1:9'}")
    assert (copy.results / "report.html").is_file()
    assert copy.stable_files() == finished.stable_files()
    assert "127.0.0.1:9" in done.stderr
    rebuilt = copy.alignlens("track", "rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
    names = sorted(str(run["name"]) for run in copy.mlflow_runs())
    assert names == sorted(str(run["name"]) for run in finished_runs)


def test_a_dataset_of_ones_own_needs_one_block_and_a_few_files(workspace: Workspace) -> None:
    for name, text in {
        "train.de": "das haus\nein buch\ndas buch\n" * 9,
        "train.en": "the house\na book\nthe book\n" * 9,
        "test.de": "das haus\n\nein buch\n",
        "test.en": "the house\n\na book\n",
        "test.gold": "1-1 2-2\n\n1-1 2?2\n",
    }.items():
        (workspace.folder / name).write_text(text)
    own = {
        "kind": "files",
        "pair": ["de", "en"],
        "train": [{"source": "train.de", "target": "train.en"}],
        "dev": {"last": 1},
        "test": {"source": "test.de", "target": "test.en"},
        "gold": {"file": "test.gold", "base": 1, "format": "pharaoh"},
    }
    config = {"preset": "tiny", "datasets": ["own"], "custom_datasets": {"own": own}, "aligners": [{"name": "hmm"}]}
    config["cleaning"] = {"drop_duplicates": False, "drop_test_overlap": False}
    (workspace.folder / "tiny.yaml").write_text(yaml.safe_dump(config))
    wanted = "results/tiny/scores/own/hmm/offline/all/metrics.json"
    workspace.snakemake("--cores", "all", wanted)
    rows = {row["links"]: row for row in json.loads((workspace.folder / wanted).read_text())["rows"]}
    assert rows["de-en"]["sure"] == 3
    assert rows["de-en"]["possible"] == 4
    assert rows["intersection"]["aer"] == 0
    assert (workspace.results / "links/own/hmm/offline/all/en-de.pharaoh").read_text() == "0-0 1-1\n\n0-0 1-1\n"
