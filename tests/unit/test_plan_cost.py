"""What a configuration costs: counts of work against real models, estimates against measured runs, growth, output."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from alignlens.cli.main import main
from alignlens.models.settings import ModelSpec, architecture_settings
from alignlens.training.objectives.registry import ChosenObjective
from alignlens.training.presets import Presets
from alignlens.workflow.costs.arithmetic import passes, weights
from alignlens.workflow.costs.estimate import Estimate
from alignlens.workflow.costs.growth import growth
from alignlens.workflow.costs.jobs import estimate
from alignlens.workflow.costs.rates import Rates
from alignlens.workflow.costs.sizes import ASSUMED_PIECES_PER_WORD, FIFTHS, Sizes, Text, sizes_of
from alignlens.workflow.costs.work import ModelWork
from alignlens.workflow.plan import Plan
from alignlens.workflow.settings import load_settings, read_config

SMALL: dict[str, dict[str, Any]] = {
    "transformer": {"dim": 32, "ffn": 64, "heads": 4, "encoder_layers": 3, "decoder_layers": 2},
    "calibrated": {"dim": 32, "ffn": 64, "heads": 4, "encoder_layers": 3, "decoder_layers": 2, "fusion": "fixed"},
    "lstm": {"dim": 24, "hidden": 40, "encoder_layers": 2, "decoder_layers": 2, "bidirectional": True},
    "fconv": {"dim": 24, "hidden": 40, "encoder_layers": 3, "decoder_layers": 2},
    "bag_of_words": {"dim": 24},
}
LSTMS: list[dict[str, Any]] = [
    SMALL["lstm"],
    {"dim": 40, "hidden": 40, "output": "linear"},
    {"dim": 24, "hidden": 40, "output": "two_layer", "heads": 3, "head_projection": "own"},
]


def plan_of(project: Path, preset: str | None = None, **changes: Any) -> Plan:
    files = [project / "config" / "config.yaml"]
    files += [] if preset is None else [project / "config" / "presets" / f"{preset}.yaml"]
    return Plan.of(load_settings({**read_config(files), **changes}, project), "nowhere")


def cost_of(project: Path, plan: Plan, sizes: Sizes | None = None) -> Estimate:
    return estimate(plan, sizes or sizes_of(plan), Rates.load(project / "config"))


def seconds(cost: Estimate, rule: str, *words: str) -> float:
    """Of the jobs of a rule whose names have all these words."""
    found = [job.core_seconds for job in cost.jobs if job.rule == rule and set(words) <= set(job.name.split())]
    assert found, (rule, words)
    return sum(found)


# ---- counts of work, against the models themselves


def test_weights_are_those_of_real_models(project: Path) -> None:
    from alignlens.models.contract import parameter_count
    from alignlens.models.registry import build

    presets = Presets.load(project / "config" / "models.yaml")
    demo = ("demo_lstm", "demo_fconv", "demo_transformer", "demo_calibrated")
    snell = ("snell2021_lstm", "snell2021_linear", "snell2021_proxy", "demo_snell_lstm")
    for name in (*demo, "small_lstm", "small_fconv", "ding2019_fconv", *snell):
        preset = presets.get(name, name)
        settings = architecture_settings(preset.architecture, preset.model)
        real = parameter_count(build(ModelSpec(preset.architecture, settings, 900, 900), 1))
        assert weights(settings, 900) == pytest.approx(real, rel=0.03), name


@pytest.mark.parametrize(
    ("architecture", "small"), [*SMALL.items(), *(("lstm", changes) for changes in LSTMS[1:])], ids=str
)
def test_products_are_those_of_a_real_forward_pass(architecture: str, small: dict[str, Any]) -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from alignlens.models.registry import build

    settings, (source, target, vocabulary) = architecture_settings(architecture, small), (11, 7, 50)
    model = build(ModelSpec(architecture, settings, vocabulary, vocabulary), 1).eval()
    ids, prefix = torch.randint(4, vocabulary, (1, source)), torch.randint(4, vocabulary, (1, target))
    with torch.no_grad():
        mask = torch.ones_like(ids, dtype=torch.bool)
        memory = model.encode(model.embed_source(ids), mask)
        counter = FlopCounterMode(display=False)
        with counter:
            # Traced, attention is made of products, which the counter knows, and not of one fused operation.
            model.logits(model.decode(memory, model.embed_target(prefix), trace=True).states)
    counted = passes(settings, vocabulary, source, target)
    assert counted.decoder + counted.output == pytest.approx(counter.get_total_flops() / 2, rel=0.05)
    if architecture == "lstm":
        return  # its encoder is one fused operation, which the counter does not know
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.encode(model.embed_source(ids), mask, trace=True)
    assert counted.encoder == pytest.approx(counter.get_total_flops() / 2, rel=0.05)


def test_weights_of_variants_of_the_recurrent_model_are_those_of_real_ones() -> None:
    from alignlens.models.contract import parameter_count
    from alignlens.models.registry import build

    for changes in (*LSTMS, {"cell": "gru", "bidirectional": True}, {"heads": 4, "output": "two_layer"}):
        settings = architecture_settings("lstm", changes)
        real = parameter_count(build(ModelSpec("lstm", settings, 900, 900), 1))
        assert weights(settings, 900) == pytest.approx(real, rel=0.03), changes


def test_backward_passes_go_through_all_units_of_an_activation_that_closes_none() -> None:
    found = {
        name: passes(architecture_settings("transformer", {"activation": name, "encoder_layers": 6}), 1000, 20, 20)
        for name in ("relu", "swish")
    }
    assert found["swish"]._replace(start=0) == found["relu"]._replace(start=0)
    # Encoder layers at all positions, decoder layers but the top one at half of them; 6 % of a ReLU's units are open.
    closed = 0.94 * 2 * 256 * 1024 * (6 * 20 + 2 * 10)
    assert found["swish"].start - found["relu"].start == pytest.approx(closed)


def test_the_probe_asks_the_decoder_once_more_for_every_source_position(project: Path) -> None:
    (run,) = load_settings({**read_config([project / "config" / "config.yaml"]), "studies": {}}, project).models[:1]
    work, text = ModelWork(run, 800, turned=False), Text(10, (9.6, 11.1), (15.0, 19.0))
    plain, probed = work.forced(text), work.attributed(text, ["probe"])
    found = [passes(run.model, 800, *pieces) for pieces in text.sentences(False)]
    lengths = [read for read, _ in text.sentences(False)]
    again = sum(read * (each.decoder + each.output) for read, each in zip(lengths, found, strict=True)) / len(found)
    assert probed.multiply_adds == pytest.approx(plain.multiply_adds + 10 * again)


def test_masks_of_a_plain_transformer_are_one_more_pass_with_mask_nets(project: Path) -> None:
    models = {name: {"preset": f"demo_{name}"} for name in ("transformer", "calibrated", "lstm")}
    runs = {
        run.name: run for run in load_settings({"preset": "x", "datasets": ["demo"], "models": models}, project).models
    }
    text = Text(10, (9.6, 11.1), (15.0, 19.0))

    def of(model: str, *methods: str) -> float:
        return ModelWork(runs[model], 800, turned=False).attributed(text, methods).multiply_adds

    masked, plain = of("transformer", "mask"), of("transformer", "attention")
    assert plain < masked < 1.3 * plain
    # The calibrated model of the same size has these nets, and gives its masks with the rest.
    assert masked == of("calibrated", "attention") == of("calibrated", "attention", "mask", "mask,layer=0")
    assert of("transformer", "mask", "mask,layer=0", "attention") == pytest.approx(masked + plain)


def test_training_mask_nets_encodes_once_and_translates_nothing(project: Path) -> None:
    text, dev = Text(1000, (9.6, 11.1), (15.0, 19.0)), Text(100, (9.6, 11.1), (15.0, 19.0))
    config = {"preset": "x", "datasets": ["demo"], "studies": {"ding2019": {}}}
    config |= {"models": {"x": {"preset": "demo_transformer"}}, "attribution": {"masks": {"updates": 10}}}
    run = Plan.of(load_settings(config, project)).attribution.mask_run("x")
    work = ModelWork(run, 800, turned=False)
    training = replace(run.training, objective=ChosenObjective())
    whole = ModelWork(replace(run, training=training), 800, turned=False)
    nothing = Text(0, dev.words, dev.pieces)
    for each in (0, 1):
        assert 0.5 * whole.training(text, nothing)[each] < work.training(text, nothing)[each]
        assert work.training(text, nothing)[each] < whole.training(text, nothing)[each]
    validation = work.training(text, dev).multiply_adds - work.training(text, nothing).multiply_adds
    assert validation == pytest.approx(work.forced(dev).multiply_adds * 10 / 200)


def test_translations_that_an_objective_draws_are_drawn_scored_and_scored_again(project: Path) -> None:
    text, dev = Text(1000, (9.6, 11.1), (15.0, 19.0)), Text(0, (9.6, 11.1), (15.0, 19.0))

    def trained(**objective: Any) -> float:
        training = {"objective": objective, "batch_tokens": 600}
        models = {"x": {"preset": "demo_transformer", "training": training}}
        (run,) = load_settings({"preset": "mine", "datasets": ["demo"], "models": models}, project).models
        return ModelWork(run, 800, turned=False).training(text, dev).multiply_adds

    plain = trained(name="cross_entropy")
    assert trained(name="source_word_dropout") == plain
    few, many = (trained(name="minimum_risk", samples=samples) for samples in (10, 20))
    # A draw is five passes of the decoder, and a training step three of the whole model.
    assert 5 / 3 * 10 * 0.5 < (many - few) / plain < 5 / 3 * 10
    assert few > 5 * plain


def test_a_mask_game_reads_the_source_once_and_the_target_twice(project: Path) -> None:
    text, none = Text(1000, (9.6, 11.1), (15.0, 19.0)), Text(0, (9.6, 11.1), (15.0, 19.0))

    def trained(preset: str, **training: Any) -> float:
        models = {"x": {"preset": preset, "training": {**training, "max_updates": 100}}}
        (run,) = load_settings({"preset": "mine", "datasets": ["demo"], "models": models}, project).models
        return ModelWork(run, 800, turned=False).training(text, none).multiply_adds

    game, alone = trained("demo_calibrated"), trained("demo_calibrated", objective={"name": "cross_entropy"})
    assert 1.5 < game / alone < 2
    assert 1 < alone / trained("demo_transformer") < 1.2


# ---- estimates, against what was measured (docs/planning.md, docs/results.md)

WORDS = {"hansards": (10.46, 11.84), "deen": (25.5, 27.2), "multi30k": (11.1, 11.9), "demo": (9.7, 11.4)}
#: Pieces by word of the training text, and pairs, after preparation.
PIECES = {"hansards": (12.8, 14.3), "demo": (15.3, 19.6)}
PAIRS = {"hansards": 227_394, "deen": 198_962, "multi30k": 28_997, "demo": 6_000}
TESTS = {
    "hansards": Text(447, (15.7, 17.4), (18.7, 20.8)),
    "demo": Text(300, (9.6, 11.1), (15.2, 19.3)),
}


def measured_sizes(plan: Plan, dataset: str) -> Sizes:
    words = WORDS[dataset]
    guessed = (ASSUMED_PIECES_PER_WORD * words[0] + 1, ASSUMED_PIECES_PER_WORD * words[1] + 1)
    train = Text(PAIRS[dataset], words, PIECES.get(dataset, guessed))
    texts = sizes_of(plan).texts
    return Sizes({**texts, (dataset, "train"): train, (dataset, "test"): TESTS.get(dataset, texts[dataset, "test"])})


#: Preset, rule, words of the job's name, measured seconds.
MEASURED = [
    ("hansards", "align", ("fast_align", "offline", "en-fr"), 52),
    ("hansards", "align", ("fast_align", "online", "fr-en"), 53),
    ("hansards", "align", ("ibm1", "fr-en"), 52),
    ("hansards", "align", ("hmm", "en-fr"), 159),
    ("hansards", "align", ("ibm4", "en-fr"), 583),
    ("hansards", "align", ("eflomal", "fr-en"), 68),
    ("hansards", "align", (), 32 * 60),
    ("hansards", "train", ("transformer", "en-fr"), 56 * 60),
    ("hansards", "train", ("transformer", "fr-en"), 53 * 60),
    ("hansards", "attribute", ("transformer", "en-fr", "free"), 13 * 60),
    ("deen", "align", ("fast_align", "offline", "en-de"), 453),
    ("deen", "align", ("ibm1", "all", "de-en"), 255),
    ("deen", "align", ("hmm", "50000", "de-en"), 399),
    ("deen", "align", ("ibm4", "de-en"), 1370),
    ("deen", "align", ("eflomal", "de-en"), 341),
    ("multi30k", "train", ("lstm",), 67 * 60),
    ("multi30k", "train", ("fconv",), 39 * 60),
    ("multi30k", "train", ("transformer",), 48 * 60),
    (None, "train", ("lstm", "xa-xb"), 60),
    (None, "train", ("fconv", "xa-xb"), 92),
    (None, "train", ("transformer", "xa-xb"), 101),
    (None, "attribute", ("lstm", "xa-xb", "forced"), 55),
    (None, "attribute", ("fconv", "xa-xb", "forced"), 73),
    (None, "attribute", ("transformer", "xa-xb", "forced"), 38),
    (None, "align", ("ibm4", "xb-xa"), 15),
    (None, "attribute", ("lstm", "xa-xb", "free"), 37),
]


@pytest.mark.parametrize(("preset", "rule", "words", "measured"), MEASURED)
def test_estimates_are_within_a_factor_of_two(
    project: Path, preset: str | None, rule: str, words: tuple[str, ...], measured: float
) -> None:
    plan = plan_of(project, preset)
    estimated = seconds(cost_of(project, plan, measured_sizes(plan, preset or "demo")), rule, *words)
    assert measured / 2 <= estimated <= 2 * measured


def test_disk_is_within_a_factor_of_two(project: Path) -> None:
    plan = plan_of(project, directions="forward")
    stages = cost_of(project, plan, measured_sizes(plan, "demo")).stages()
    # Sizes of the folders of such a run, in MB: aligners; models; scores and links of attributions, links, scores.
    for names, measured in ((["aligners"], 25.6), (["training"], 90.4), (["attribution", "links and scores"], 58.5)):
        estimated = sum(stages[name].bytes for name in names) / 1e6
        assert measured / 2 <= estimated <= 2 * measured


# ---- growth


def test_training_by_updates_and_by_epochs(project: Path) -> None:
    by_updates, by_epochs = plan_of(project, "hansards"), plan_of(project, "paper")
    for plan, factor in ((by_updates, 1.0), (by_epochs, 2.0)):
        sizes = sizes_of(plan)
        now, then = (cost_of(project, plan, texts).stages()["training"] for texts in (sizes, sizes.scaled(train=2)))
        assert then.core_hours / now.core_hours == pytest.approx(factor, rel=1e-3)
        assert then.gpu_hours / now.gpu_hours == pytest.approx(factor, rel=1e-3)


def test_growth_is_what_the_arithmetic_says(project: Path) -> None:
    plan = plan_of(project, "hansards")
    sizes, rates = sizes_of(plan), Rates.load(project / "config")
    now = estimate(plan, sizes, rates)
    grown = {each.change: each for each in growth(plan, sizes, rates, now)}
    assert grown["twice the test sentences"].stages["attribution"] == pytest.approx(2, rel=0.01)
    assert "training" not in grown["twice the test sentences"].stages
    assert grown["twice the training pairs"].stages.keys() == {"aligners"}
    longer = grown["twice the length of sentences"]
    assert 3 < longer.stages["attribution"] < 8  # passes and their length; attention adds a third factor
    assert 4 < longer.stages["aligners"] < 2**3.8
    assert grown["one more seed"].stages["training"] == pytest.approx(2)
    noisy = grown["twice the noisy copies (60)"]
    assert 1.8 < noisy.stages["attribution"] < 2  # points of a path stay as many as they are
    assert 1 < noisy.total < noisy.stages["attribution"]
    alone = plan_of(project, "hansards", models={"transformer": {"preset": "small_transformer"}})
    one = cost_of(project, alone)
    more = {each.change: each for each in growth(alone, sizes, rates, one)}["one more model like transformer"]
    assert more.stages["training"] == pytest.approx(2)
    assert 1 < more.total < 2  # aligners and data are there already


def test_without_models_only_texts_grow(project: Path) -> None:
    plan = plan_of(project, "hansards", models={})
    sizes, rates = sizes_of(plan), Rates.load(project / "config")
    cost = estimate(plan, sizes, rates)
    assert [each.change for each in growth(plan, sizes, rates, cost)] == [
        "twice the training pairs",
        "twice the test sentences",
        "twice the length of sentences",
    ]
    assert cost.total().gpu_hours == 0
    assert "training" not in cost.stages()


def test_shards_divide_the_work_and_not_the_scores(project: Path) -> None:
    one, four = (cost_of(project, plan_of(project, "hansards", attribution={"shards": shards})) for shards in (1, 4))
    assert four.longest().core_seconds <= one.longest().core_seconds
    whole, parts = seconds(one, "attribute", "lstm"), seconds(four, "attribute_shard", "lstm")
    assert whole < parts < 1.05 * whole
    assert one.rules()["attribute"] * 4 == four.rules()["attribute_shard"]
    assert one.total().bytes == pytest.approx(four.total().bytes, rel=0.01)


# ---- sizes


def test_prepared_text_is_measured(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    plan = replace(plan_of(project), root=tmp_path / "demo")
    before = sizes_of(plan)
    assert before.assumed == (
        "demo, not prepared yet: train 6,000 pairs at most of 10.5 words; dev 200 pairs at most of 10.5 words; "
        "test 300 pairs at most of 10.5 words",
        f"demo: {ASSUMED_PIECES_PER_WORD} pieces per word assumed",
    )
    folder = plan.root / "data" / "demo"
    assert main(["data", "prepare", "demo", "--out", str(folder)]) == 0
    prepared = sizes_of(plan)
    assert prepared.assumed == before.assumed[1:]
    lines = (folder / "test.source").read_text().splitlines()
    text = prepared.of("demo", "test")
    assert text.pairs == len(lines)
    assert text.words[0] == pytest.approx(sum(len(line.split()) for line in lines) / len(lines))
    assert text.pieces[0] == pytest.approx(ASSUMED_PIECES_PER_WORD * text.words[0] + 1)
    texts = [str(folder / f"train.{side}") for side in ("source", "target")]
    subwords = ["--kind", "joint", "--vocab", "400", "--out", str(tmp_path / "bpe")]
    assert main(["subwords", "train", "--source", texts[0], "--target", texts[1], *subwords]) == 0
    for split in ("train", "dev", "test"):
        for side in ("source", "target"):
            pieces, tokens = tmp_path / "pieces", plan.root / "tokens" / "demo" / f"{split}.{side}"
            model, text_file = tmp_path / "bpe" / f"{side}.model", folder / f"{split}.{side}"
            call = ["--model", str(model), "--input", str(text_file), "--out", str(pieces), "--tokens", str(tokens)]
            assert main(["subwords", "segment", *call]) == 0
    segmented = sizes_of(plan)
    assert segmented.assumed == ()
    written = (tmp_path / "pieces").read_text().splitlines()  # of the last call: test.target
    counted = sum(len(line.split()) for line in written) / len(written) + 1
    assert segmented.of("demo", "test").pieces[1] == pytest.approx(counted)


def test_what_nobody_declared_is_assumed(project: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("x\n")
    pair = {"source": str(tmp_path / "a"), "target": str(tmp_path / "b")}
    mine = {"kind": "files", "pair": ["xa", "xb"], "train": [pair], "test": pair}
    plan = plan_of(project, datasets=["mine"], custom_datasets={"mine": mine}, max_train_pairs=5000)
    sizes = sizes_of(plan)
    assert "train 5,000 pairs assumed of 25 words assumed; dev 1,000 pairs at most" in sizes.assumed[0]
    assert sizes.of("mine", "train").pairs == 5000


def test_fifths_stand_for_a_text() -> None:
    assert sum(FIFTHS) / len(FIFTHS) == pytest.approx(1)
    text = Text(10, (8, 18), (10, 20))
    assert text.moment(1) == pytest.approx(12)
    assert text.scaled(length=2).moment(2) == pytest.approx(4 * text.moment(2))
    assert [round(read) for read, _ in text.sentences(turned=True)] == [round(20 * share) for share in FIFTHS]


# ---- what is told


def test_limits_of_training_are_told(project: Path) -> None:
    presets = {"a": {"preset": "ding2019_lstm"}, "b": {"preset": "kobayashi2020_transformer"}}
    endless = {"preset": "demo_lstm", "training": {"max_updates": None, "schedule": "constant", "patience": 3}}
    models = {"lstm": None, "fconv": None, "transformer": None, **presets, "c": endless}
    cost = cost_of(project, plan_of(project, models=models))
    told = [text for text in cost.assumed if text.startswith("training")]
    assert told == [
        "training of a: an upper limit, since it may stop earlier",
        "training of b: needs a GPU (float16), so no core hours are counted",
        "training of c: 100 epochs assumed, since only patience ends it",
    ]
    start = Rates.load(project / "config").start.models
    assert seconds(cost, "train", "b") == pytest.approx(2 * start)


def test_the_table_and_its_json(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(project)
    arguments = ["plan", "--configfile", "config/presets/paper.yaml", "--results", str(tmp_path)]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.strip().split("  ")[0]: line.split() for line in lines[lines.index("what it costs, estimated:") :]}
    assert main([*arguments, "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)["cost"]
    assert rows["total"][1] == str(cost["total"]["jobs"]) == str(sum(cost["rules"].values()))
    assert rows["training"][2] == f"{cost['stages']['training']['core_hours']:,.0f}"
    assert any(line.startswith("  longest job: train paper-deen") for line in lines)
    assert "  training of lstm: an upper limit, since it may stop earlier" in lines
    assert [each["change"] for each in cost["growth"]][-2:] == ["one more seed", "twice the noisy copies (60)"]
    assert main([*arguments, "--json", "--gpu-tflops", "50"]) == 0
    faster = json.loads(capsys.readouterr().out)["cost"]
    assert cost["gpu_tflops"] == 5
    assert faster["gpu_tflops"] == 50
    assert 0 < faster["total"]["gpu_hours"] < cost["total"]["gpu_hours"]
    assert faster["total"]["core_hours"] == cost["total"]["core_hours"]


def test_wrong_rates_are_one_line(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shutil.copytree(project / "config", tmp_path / "config")
    rates = tmp_path / "config" / "rates.yaml"
    rates.write_text(rates.read_text().replace("wait:", "weight:", 1))
    monkeypatch.chdir(tmp_path)
    assert main(["plan"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "rates.yaml: training.lstm" in line
    assert "weight" in line
