"""``alignlens calibrate`` and ``align --recipe``, on two models of which one head each looks at the right place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from planted_head import PLANTED, lines, write_planted
from tiny_folder import write_folder, write_masks

from alignlens.alignment.pharaoh import read_links
from alignlens.cli import pairs
from alignlens.cli.main import main
from alignlens.decoding.given import Given
from alignlens.decoding.translate import TrainedModel
from alignlens.errors import InputError
from alignlens.io.typed import schema_of
from alignlens.recipes.asked import Pieces
from alignlens.recipes.calibrate import candidates_of, heads_of
from alignlens.recipes.recipe import THRESHOLDS, AlignmentRecipe, read_recipe

# The empty pair in the middle has nothing but the end symbols.
LINES = [*lines()[:4], "", *lines()[4:]]
TEXT = ["--source", "source", "--target", "target"]
DIAGONAL = "\n".join(" ".join(f"{k}-{k}" for k in range(len(line.split()))) for line in LINES) + "\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Returns the folders of both directions; their subwords are not the same."""
    folder = tmp_path_factory.mktemp("planted")
    return write_planted(folder / "forward" / "model", 1), write_planted(folder / "reverse" / "model", 2, vocab=290)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("source", "target"):
        (tmp_path / name).write_text("\n".join(LINES) + "\n", encoding="utf-8")
    (tmp_path / "gold").write_text(DIAGONAL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(models: tuple[Path, ...], verb: str, *arguments: str) -> int:
    named = [
        word for option, folder in zip(("--model", "--reverse"), models, strict=False) for word in (option, folder)
    ]
    return main([verb, *map(str, named), "--threads", "1", *arguments])


def calibrated(models: tuple[Path, ...], out: str, *more: str) -> AlignmentRecipe:
    assert call(models, "calibrate", *TEXT, "--out", out, *more) == 0
    return read_recipe(out)


def aligned(models: tuple[Path, ...], recipe: str, out: str, *more: str) -> str:
    assert (
        call(models, "align", *(more if "--source" in more else (*TEXT, *more)), "--recipe", recipe, "--out", out) == 0
    )
    return Path(out).read_text(encoding="utf-8")


def test_every_head_is_a_candidate_at_both_steps(models: tuple[Path, Path], files: Path) -> None:
    trained = TrainedModel.load(models[0])
    assert heads_of(trained) == [4, 4]
    texts = [method.text for method in candidates_of(trained)]
    assert len(set(texts)) == 16
    assert texts[:2] == ["attention,layer=0,head=0", "attention,layer=0,head=0,step=in"]
    for architecture, expected in (("lstm", [1]), ("fconv", [1, 1]), ("calibrated", [2, 2])):
        assert heads_of(TrainedModel.load(write_folder(files / architecture, architecture))) == expected


def test_the_planted_heads_are_found_without_gold(
    models: tuple[Path, Path], files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = calibrated(models, "recipe.json")
    told = capsys.readouterr().out.splitlines()
    assert recipe.reverse is not None
    for part in (recipe.forward, recipe.reverse):
        assert [each.method for each in part.components] == [PLANTED]
    assert (recipe.combination, recipe.threshold) == ("product", 0.15)
    assert recipe.calibrated.agreement == 1
    assert (recipe.calibrated.pairs, recipe.calibrated.gold, recipe.calibrated.aer) == (len(LINES), None, None)
    assert told[0].split() == ["direction", "component", "alone", "together", "AER"]
    assert told[1].split() == ["forward", PLANTED, "1.0000", "-", "-"]
    assert told[2].split() == ["reverse", PLANTED, "1.0000", "1.0000", "-"]
    assert aligned(models, "recipe.json", "links") == DIAGONAL


def test_gold_links_decide_with_one_model_and_with_two(
    models: tuple[Path, Path], files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # So high that both directions must be certain.
    both = calibrated(models, "both.json", "--gold", "gold", "--threshold", "0.9", "--json")
    told = json.loads(capsys.readouterr().out)
    for side in ("forward", "reverse"):
        assert told["recipe"][side]["components"] == [{"method": PLANTED, "weight": 1.0}]
    assert [each["aer"] for each in told["taken"]] == [None, 0]
    assert (both.calibrated.aer, both.calibrated.agreement, both.threshold) == (0, 1, 0.9)
    assert both.calibrated.gold is not None
    assert both.calibrated.gold.name == "gold"
    chosen = calibrated(models, "chosen.json", "--gold", "gold")
    assert chosen.calibrated.aer == 0
    assert chosen.threshold in THRESHOLDS
    one = calibrated(models[:1], "one.json", "--gold", "gold")
    assert (one.combination, one.threshold, one.reverse, one.calibrated.agreement) == ("argmax", None, None, None)
    assert one.calibrated.aer == 0
    assert aligned(models[:1], "one.json", "links") == DIAGONAL
    # Counted from 1, which the text settles.
    (files / "from_one").write_text(
        "\n".join(" ".join(f"{k}-{k}" for k in range(1, len(line.split()) + 1)) for line in LINES)
    )
    assert calibrated(models[:1], "other.json", "--gold", "from_one").forward == one.forward
    assert capsys.readouterr().err == ""


def test_more_methods_fewer_pairs_and_stores(
    models: tuple[Path, Path], files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--methods", "norms", "grad", "probe", PLANTED, "--pairs", "7"]
    recipe = calibrated(models, "recipe.json", *more)
    assert recipe.calibrated.pairs == 7
    assert "19 and 19 candidates on 7 pairs, without gold" in capsys.readouterr().out
    for side in ("source", "target"):
        segment = ["--model", str(models[0] / f"{side}.model"), "--input", side, "--out", f"{side}.pieces"]
        assert main(["subwords", "segment", *segment, "--tokens", f"{side}.tokens"]) == 0
    # The reverse model has other subwords: it reads what the pieces spell.
    stores = ["--source", "source.tokens", "--target", "target.tokens"]
    assert call(models, "calibrate", *stores, *more, "--out", "stores.json") == 0
    assert read_recipe("stores.json").forward == recipe.forward
    assert aligned(models, "recipe.json", "links", *stores) == aligned(models, "recipe.json", "links")


def test_masks_are_found_beside_either_model(models: tuple[Path, Path], files: Path) -> None:
    folders = tuple(write_folder(files / side / "model") for side in ("forward", "reverse"))
    for folder in folders:
        write_masks(folder.parent / "masks", folder)
    assert call(folders, "calibrate", *TEXT, "--methods", "mask", "--out", "recipe.json") == 0
    content = json.loads(Path("recipe.json").read_text())
    for side in ("forward", "reverse"):
        content[side]["components"] = [{"method": "mask", "weight": 1.0}]
    Path("recipe.json").write_text(json.dumps(content))
    assert len(aligned(folders, "recipe.json", "links").splitlines()) == len(LINES)


def test_links_do_not_depend_on_batches_or_windows_and_bytes_stay_the_same(
    models: tuple[Path, Path], files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrated(models, "first.json")
    calibrated(models, "second.json", "--batch-tokens", "40")
    assert Path("first.json").read_bytes() == Path("second.json").read_bytes()
    content = json.loads(Path("first.json").read_text())
    for side in ("forward", "reverse"):  # several, so that links are not all as clear
        methods = [PLANTED, "attention,layer=0,head=1", "norms"]
        content[side]["components"] = [{"method": text, "weight": 1 + k} for k, text in enumerate(methods)]
    content["threshold"] = 0.04
    Path("several.json").write_text(json.dumps(content))
    expected = aligned(models, "several.json", "links", "--scores")
    assert aligned(models, "several.json", "again", "--scores") == expected
    reference = read_links("links")
    assert reference.scores is not None
    assert (reference.scores > 0.04).all()
    for window, tokens in ((1000, "50"), (4, "2048"), (1, "2048")):
        monkeypatch.setattr(pairs, "_WINDOW", window)
        aligned(models, "several.json", "other", "--scores", "--batch-tokens", tokens)
        found = read_links("other")
        assert found == reference
        np.testing.assert_allclose(found.scores, reference.scores, rtol=1e-4)
    aligned(models, "several.json", "plain")
    assert read_links("plain") == reference


def test_the_models_own_translation_is_read_by_the_other_one(models: tuple[Path, Path], files: Path) -> None:
    calibrated(models, "recipe.json")
    short = ["--max-ratio", "0", "--max-offset", "6", "--translation-out", "mine"]
    own = aligned(models, "recipe.json", "own", "--source", "source", *short)
    given = aligned(models, "recipe.json", "given", "--source", "source", "--target", "mine")
    assert len(own.splitlines()) == len(given.splitlines()) == len(LINES)
    lengths = [
        [len(line.split(" ")) if line else 0 for line in Path(name).read_text().split("\n")[:-1]]
        for name in ("source", "mine")
    ]
    read_links("own", 0, *lengths)


def test_a_recipe_is_read_as_it_was_written(models: tuple[Path, Path], files: Path) -> None:
    recipe = calibrated(models, "recipe.json")
    recipe.write("copy.json")
    assert read_recipe("copy.json") == recipe
    assert Path("copy.json").read_bytes() == Path("recipe.json").read_bytes()
    assert schema_of(AlignmentRecipe)["additionalProperties"] is False
    # Wherever the folder is, and whatever it is called.
    models[0].parent.rename(models[0].parent.with_name("moved"))
    moved = models[0].parent.with_name("moved") / "model"
    try:
        assert aligned((moved, models[1]), "recipe.json", "links") == DIAGONAL
    finally:
        moved.parent.rename(models[0].parent)


def test_what_the_user_can_fix_is_one_line_and_exit_code_two(
    models: tuple[Path, Path], files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calibrated(models, "recipe.json")
    calibrated(models[:1], "one.json", "--gold", "gold")
    capsys.readouterr()

    def failed_with(models: tuple[Path, ...], verb: str, *arguments: str) -> str:
        assert call(models, verb, *TEXT, *arguments) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1, captured.err
        return captured.err

    def damaged(**changes: object) -> str:
        Path("damaged.json").write_text(json.dumps(json.loads(Path("recipe.json").read_text()) | changes))
        return failed_with(models, "align", "--recipe", "damaged.json")

    out = ["--out", "x.json"]
    assert "--reverse and --gold missing" in failed_with(models[:1], "calibrate", *out)
    assert "did you mean norms" in failed_with(models, "calibrate", "--methods", "norm", *out)
    untrained = (write_folder(files / "untrained"),) * 2
    signs = failed_with(untrained, "calibrate", "--methods", "grad_input", *out)
    assert "method grad_input: its scores have signs" in signs
    assert "does not work with transformer" in failed_with(models, "calibrate", "--methods", "optimal_attention", *out)
    (files / "short").write_text("0-0\n")
    assert "short:2: 1 lines" in failed_with(models, "calibrate", "--gold", "short", *out)
    (files / "possible").write_text(DIAGONAL.replace("-", "p"))
    assert "no sure link in the first" in failed_with(models, "calibrate", "--gold", "possible", *out)
    assert "would overwrite its input" in failed_with(models, "calibrate", "--out", "source")
    assert not (files / "x.json").exists()

    recipe = ["--recipe", "recipe.json"]
    assert "--method and --recipe" in failed_with(models, "align", *recipe, "--method", "norms")
    assert "--extraction and --recipe" in failed_with(models, "align", *recipe, "--extraction", "ding")
    assert "--reverse belongs to --recipe" in failed_with(models, "align", "--method", "norms")
    assert "has two directions. Give the model of the other one with --reverse" in failed_with(
        models[:1], "align", *recipe
    )
    assert "has one direction" in failed_with(models, "align", "--recipe", "one.json")
    other = write_planted(files / "other", 3)
    forward = failed_with((other, models[1]), "align", *recipe)
    assert f"its forward model is not --model {other}" in forward
    assert "alignlens calibrate" in forward
    assert "its reverse model is not --reverse" in failed_with((models[0], other), "align", *recipe)
    assert "no such file" in failed_with(models, "align", "--recipe", "nowhere.json")
    assert "not a recipe of this version" in damaged(format=2)
    assert "recipe.threshold: 2 must be less than 1" in damaged(threshold=2)
    assert "unknown key 'temperature'" in damaged(temperature=1)
    assert "product needs a reverse part" in damaged(reverse=None)
    part = json.loads(Path("recipe.json").read_text())["forward"]
    assert "unknown method 'atention'" in damaged(forward={**part, "components": [{"method": "atention", "weight": 1}]})
    assert "appears twice" in damaged(forward={**part, "components": part["components"] * 2})
    assert "recipe.forward.components: " in damaged(forward={**part, "components": []})
    assert "no layer 7" in damaged(forward={**part, "components": [{"method": "attention,layer=7", "weight": 1}]})
    Path("damaged.json").write_text("{")
    assert "not JSON" in failed_with(models, "align", "--recipe", "damaged.json")


def test_both_models_must_see_the_same_words(models: tuple[Path, Path]) -> None:
    forward, reverse = map(TrainedModel.load, models)
    source, target = Given("s", ["der hund", "ein mann schläft"], 5), Given("t", ["der hund", "ein mann"], 5)
    pieces = Pieces.of(forward, source, target)
    turned = pieces.turned(reverse, source, target)
    assert (pieces.first, turned.first) == (4, 4)
    assert pieces.source_counts.tolist() == turned.target_counts.tolist() == [2, 3]
    assert pieces.target_counts.tolist() == turned.source_counts.tolist() == [2, 2]
    with pytest.raises(
        InputError, match=r"^t:6: 2 words for .*forward/model, but 3 for .*reverse/model\. Give tokenised"
    ):
        pieces.turned(reverse, source, Given("t", ["der hund", "ein mann im"], 5))


def test_the_checksum_of_a_model_is_that_of_its_content(files: Path) -> None:
    folder = write_folder(files / "model")
    checksum = TrainedModel.load(folder).checksum
    assert TrainedModel.load(folder, "best").checksum != checksum
    assert TrainedModel.load(folder.rename(files / "moved")).checksum == checksum
    trained = TrainedModel.load(files / "moved")
    assert replace(trained, source=trained.target).checksum != checksum
