"""The method mask: against a slow loop, and what its scores and those of others must not depend on; its folder."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from attribution_cases import VOCABULARY, model_of, scores, text
from tiny_folder import SOURCE, TARGET, write_folder, write_masks
from torch import nn

from alignlens.attribution.corpus import attribute
from alignlens.attribution.gradients.transformer import TransformerGradients
from alignlens.attribution.gradients.transformer_compiled import CompiledTransformerGradients
from alignlens.attribution.masks import load_masks
from alignlens.attribution.methods.mask import of_layer
from alignlens.attribution.registry import parse, parse_all, reads_masks
from alignlens.attribution.statistics import Statistics
from alignlens.attribution.sweep import Sweep
from alignlens.cli.main import main
from alignlens.corpora.symbols import BEGIN_ID, END_ID
from alignlens.decoding.translate import TrainedModel
from alignlens.errors import ConfigError
from alignlens.models.calibrated import Calibrated
from alignlens.models.contract import Attention
from alignlens.models.settings import CalibratedSettings, TransformerSettings, with_masks
from alignlens.models.transformer import Transformer

SETTINGS = TransformerSettings(dim=16, ffn=24, heads=4, encoder_layers=2, decoder_layers=2)
MASKS = [
    "mask",
    "mask,step=in",
    "mask,layer=0",
    "mask,layer=-1,head=3",
    "mask,head=1,step=in",
]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def masks_of(model: Transformer, mask_input: str = "released") -> Calibrated:
    """The same model with random mask nets, sure of what they say."""
    torch.manual_seed(4)
    masks = Calibrated(with_masks(SETTINGS, mask_input), VOCABULARY, VOCABULARY).eval()
    for parameter in masks.mask_parameters():
        nn.init.normal_(parameter, std=0.7)
    masks.load_state_dict(model.state_dict(), strict=False)
    return masks


def by_hand(model: Transformer, masks: Calibrated, source: list[int], target: list[int], method: str) -> np.ndarray:
    """Scores (target, source): the decoder of the plain model, layer by layer; each mask from two vectors."""
    settings = parse(method).parameters
    width = SETTINGS.dim // SETTINGS.heads
    with torch.no_grad():
        vectors = model.embed_source(torch.tensor([[*source, END_ID]]))
        visible = torch.ones(1, vectors.shape[1], dtype=torch.bool)
        memory = model.encode(vectors, visible)
        states = model.target_entry(model.embed_target(torch.tensor([[BEGIN_ID, *target]])))
        rows, columns = states.shape[1], vectors.shape[1]
        backwards = torch.ones(rows, rows, dtype=torch.bool).tril()
        found = np.zeros((SETTINGS.decoder_layers, SETTINGS.heads, rows, columns))
        for number, layer in enumerate(model.decoder):
            states = layer.own_branch.leave(states, layer.own(layer.own_branch.enter(states), backwards, False)[0])
            entering = layer.cross_branch.enter(states)
            net, cross = masks.decoder[number].cross.mask_net, layer.cross
            for head in range(SETTINGS.heads):
                part = slice(head * width, (head + 1) * width)
                for t in range(rows):
                    for i in range(columns):
                        if net.as_printed:
                            one = cross.query(entering[0, t])[part] @ net.query.weight[head]
                            other = cross.project(memory.states[0, i])[: SETTINGS.dim][part] @ net.key.weight[head]
                        else:
                            one, other = net.query(entering[0, t])[part], net.key(memory.states[0, i])[part]
                        logit = float(one @ other) / math.sqrt(width)
                        found[number, head, t, i] = 1 - 1 / (1 + math.exp(-logit))
            mixed = cross(entering, cross.read(memory.states), visible[:, None, None])[0]
            states = layer.cross_branch.leave(states, mixed)
            wide = layer.feed_forward(layer.feed_forward_branch.enter(states))
            states = layer.feed_forward_branch.leave(states, wide)
    layers = found if settings["layer"] == "mean" else found[[settings["layer"]]]
    heads = layers.mean(1) if settings["head"] == "mean" else layers[:, settings["head"]]
    read = heads.mean(0)
    return np.concatenate((read[1:], read[-1:])) if settings["step"] == "in" else read


@pytest.mark.parametrize("mask_input", ["released", "printed"])
def test_scores_are_those_of_a_slow_loop(mask_input: str) -> None:
    model = model_of("transformer")
    masks = masks_of(model, mask_input)
    sources, targets = text()
    found = scores(model, parse_all(MASKS), tokens=100, masks=masks)
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        for method in MASKS:
            expected = by_hand(model, masks, source, target, method)
            assert found[number][method].shape == (len(target) + 1, len(source) + 1)
            np.testing.assert_allclose(found[number][method], expected, atol=1e-5, err_msg=method)
    spread = np.concatenate([each["mask"].ravel() for each in found.values()])
    assert spread.max() - spread.min() > 0.2


def test_a_calibrated_model_has_its_own_masks_and_shares_the_pass() -> None:
    torch.manual_seed(5)
    model = Calibrated(CalibratedSettings(**asdict(SETTINGS)), VOCABULARY, VOCABULARY).eval()
    statistics = Statistics()
    sources, targets = text()
    methods = parse_all([*MASKS, "attention", "norms"])
    found = dict(attribute(model, sources, targets, methods, statistics=statistics))
    assert statistics.forward_passes == len(sources)
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        given = torch.tensor([[*source, END_ID]])
        memory = model.encode(model.embed_source(given), torch.ones_like(given, dtype=torch.bool))
        cross = model.decode(memory, model.embed_target(torch.tensor([[BEGIN_ID, *target]])), trace=True).cross
        expected = torch.stack([1 - layer.mask[0] for layer in cross]).detach().numpy()
        np.testing.assert_allclose(found[number]["mask"], expected.mean((0, 1)), atol=1e-5)
        np.testing.assert_allclose(found[number]["mask,layer=-1,head=3"], expected[-1, 3], atol=1e-5)


def test_a_sentence_alone_and_a_shard_have_the_scores_of_a_whole_run() -> None:
    model = model_of("transformer")
    masks, methods = masks_of(model), parse_all([*MASKS, "attention"])
    sources, targets = text()
    together = scores(model, methods, masks=masks)
    for tokens in (8, 40, 4096):
        for number in (0, 3, 7):
            pair = [sources[number]], [targets[number]]
            for name, matrix in dict(attribute(model, *pair, methods, tokens=tokens, masks=masks))[0].items():
                np.testing.assert_allclose(matrix, together[number][name], atol=1e-5)
    whole = scores(model, methods, sentences=300, masks=masks)
    for which in range(3):
        for number, found in scores(model, methods, sentences=300, shard=(which, 3), masks=masks).items():
            assert all(np.array_equal(matrix, whole[number][name]) for name, matrix in found.items())


def test_other_methods_keep_their_passes_and_their_numbers() -> None:
    model = model_of("transformer")
    masks, others = masks_of(model), parse_all(["attention", "norms", "ding_grad", "ding_smoothgrad,n=3", "lrp"])
    alone, counted = scores(model, others), Statistics()
    beside = scores(model, [*others, parse("mask")], masks=masks, statistics=counted)
    for number, found in alone.items():
        assert all(np.array_equal(matrix, beside[number][name]) for name, matrix in found.items())
    # One pass of all that share one, one of the masks, one of relevance, and three of the noisy copies.
    assert counted.forward_passes == 6 * len(alone)
    passes = Sweep(model, *_plain(), None, masks)._shared._passes
    assert isinstance(passes, (CompiledTransformerGradients, TransformerGradients))
    only = Statistics()
    scores(model, parse_all(MASKS), masks=masks, statistics=only)
    assert only.forward_passes == len(alone)


def _plain() -> tuple:
    from alignlens.attribution.passes import Copying

    return Copying(), parse_all(["mask", "ding_grad"])


def test_a_model_without_masks_cannot_be_asked() -> None:
    with pytest.raises(ConfigError, match=r"this model has no masks, and none were given\. Train them"):
        scores(model_of("transformer"), parse_all(["mask"]))
    model = model_of("transformer")
    with pytest.raises(ConfigError, match="no head 9"):
        scores(model, parse_all(["mask,head=9"]), masks=masks_of(model))
    assert reads_masks(["attention", "mask,layer=0"])
    assert not reads_masks(["attention", "norms"])


# ---- the folder of masks, and the verbs that read it


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_folder(tmp_path / "model")
    for name, lines in (("source", SOURCE), ("target", TARGET)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def align(*more: str, method: str = "mask") -> int:
    return main(["align", "--source", "source", "--target", "target", "--threads", "1", "--method", method, *more])


def test_masks_share_the_weights_of_their_model(place: Path) -> None:
    trained = TrainedModel.load(place / "model")
    masks = load_masks(write_masks(place / "masks", place / "model"), trained)
    own, shared = dict(trained.model.named_parameters()), dict(masks.named_parameters())
    assert all(shared[name].data_ptr() == parameter.data_ptr() for name, parameter in own.items())
    assert set(shared) - set(own) == {name for name in shared if "mask_net" in name}


def test_masks_beside_the_model_are_found_and_others_are_named(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_masks(place / "elsewhere", place / "model")
    assert align("--model", "model", "--masks", "elsewhere") == 0
    named = capsys.readouterr().out
    (place / "elsewhere").rename(place / "masks")
    assert align("--model", "model") == 0
    assert capsys.readouterr().out == named
    monkeypatch.chdir(place / "model")
    assert main(["align", "--model", ".", "--source", "../source", "--target", "../target", "--method", "mask"]) == 0
    assert capsys.readouterr().out == named
    monkeypatch.chdir(place)
    # The folder of masks is a model folder like any other.
    assert align("--model", "masks") == 0
    assert capsys.readouterr().out == named
    for verb, more in (("attribute", ["--out", "scores"]), ("cost", ["--out", "cost.json", "--seconds", "1"])):
        text = ["--model", "model", "--source", "source", "--target", "target", "--threads", "1"]
        assert main([verb, *text, "--methods", "mask", "attention", *more]) == 0
    assert [row["forward_passes"] for row in json.loads(Path("cost.json").read_text())["methods"]] == [1.0, 1.0]


def test_masks_that_are_not_there_or_not_of_these_weights_are_told_in_one_line(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*more: str) -> str:
        assert align("--model", "model", *more) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    train = "alignlens masks --model model --source TEXT --target TEXT --work DIR --out DIR."
    line = told()
    assert line.startswith(
        f"alignlens align: {place / 'masks'}: there are no masks for this model. Train them: {train}"
    )
    assert line.endswith("Or give their folder with --masks.")
    assert f"model: not a folder of masks. Train them: {train}" in told("--masks", "model")
    assert "elsewhere: there are no masks" in told("--masks", "elsewhere")
    write_masks(place / "masks", place / "model")
    line = told("--weights", "best")
    other = train.replace("--model model", "--model model --weights best")
    assert f"masks: holds masks for other weights than model/best.safetensors. Train masks for these: {other}" in line
    write_masks(place / "masks", place / "model", "best")
    assert align("--model", "model", "--weights", "best") == 0
    capsys.readouterr()
    assert "masks for other weights than model/weights.safetensors" in told()
    # Whoever reads no masks needs none.
    assert align("--model", "model", method="attention") == 0


def test_other_architectures_have_no_masks(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_folder(place / "lstm", "lstm")
    assert align("--model", "lstm") == 2
    assert "method mask does not work with lstm: masks are those of" in capsys.readouterr().err
    write_folder(place / "calibrated", "calibrated")
    assert align("--model", "calibrated") == 0


def test_rows_of_masks_of_one_have_a_sum_and_the_order_of_scores_stays() -> None:
    nearly_one = 1 - 2.0**-24  # the last number before one
    mask = torch.tensor([[[[1.0, 1.0, 1.0], [1.0, nearly_one, 0.25]]]])
    layer = Attention(torch.full_like(mask, 1 / 3), torch.zeros(1, 1, 3, 4), torch.zeros(1, 4, 4), None, mask=mask)
    found = of_layer(layer, "mean")[0]
    assert (found.sum(-1) > 0).all()
    assert found[0].tolist() == [found[0, 0].item()] * 3
    assert found[1, 0] < found[1, 1] < found[1, 2] == 0.75
