"""Attribution and decoding on a device that is not the processor, which is pretended (``pretended_device``)."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from attribution_cases import EVERYTHING, SETTINGS, VOCABULARY, text
from pretended_device import Elsewhere, PretendedDevice, WrongDeviceError, moved

from alignlens.attribution.calibration import calibration_of
from alignlens.attribution.corpus import attribute
from alignlens.attribution.registry import METHODS, Method, method, parse, parse_all
from alignlens.decoding.beam import beam_search
from alignlens.decoding.forced import force_all
from alignlens.decoding.sampling import sample
from alignlens.decoding.settings import BeamSettings, SamplingSettings
from alignlens.models.bag_of_words import BagOfWords
from alignlens.models.calibrated import Calibrated
from alignlens.models.contract import Seq2Seq
from alignlens.models.lstm import Lstm
from alignlens.models.settings import ARCHITECTURES, BagOfWordsSettings, CalibratedSettings, LstmSettings
from alignlens.models.transformer import Transformer

SMALL = SETTINGS["transformer"][1]
MODELS = SETTINGS | {
    "transformer_norm_first": (Transformer, replace(SMALL, norm="pre", norm_embeddings=True)),
    "calibrated": (Calibrated, CalibratedSettings(dim=16, ffn=24, heads=4, encoder_layers=2, decoder_layers=2)),
    "lstm_without_feeding": (Lstm, LstmSettings(dim=12, hidden=10, input_feeding=False, output="two_layer")),
    "lstm_deep": (Lstm, LstmSettings(dim=12, hidden=10, encoder_layers=2, decoder_layers=2)),
    "lstm_heads": (Lstm, LstmSettings(dim=12, hidden=10, input_feeding=False, heads=2)),
    "lstm_gru": (Lstm, LstmSettings(dim=12, hidden=10, cell="gru")),
    "bag_of_words": (BagOfWords, BagOfWordsSettings(dim=12)),
}
EVERY_SETTING = [*EVERYTHING, *parse_all(["lrp,alpha=0.5", "lrp,attention=constant", *METHODS])]


def model_of(name: str) -> Seq2Seq:
    torch.manual_seed(3)
    kind, settings = MODELS[name]
    return kind(settings, VOCABULARY, VOCABULARY).eval().requires_grad_(False)


def elsewhere(model: Seq2Seq) -> Seq2Seq:
    return moved(copy.deepcopy(model))


def works(asked: Method, name: str) -> bool:
    if asked.spec.needs_masks:
        return name == "calibrated"
    if asked.name.startswith("lrp") and name in ("lstm_heads", "lstm_gru"):
        return False  # no rules
    return asked.spec.supports(name if name in ARCHITECTURES else name.split("_")[0])


@pytest.mark.parametrize("name", MODELS)
def test_every_method_gives_the_scores_of_the_processor(name: str) -> None:
    model = model_of(name)
    every = (
        EVERY_SETTING
        if name in SETTINGS
        else [method(each, {"n": 3} if spec.noisy else {}) for each, spec in METHODS.items()]
    )
    methods = [each for each in every if works(each, name)]
    sides = text(4)
    expected = dict(attribute(model, *sides, methods))
    with PretendedDevice() as device:
        found = dict(attribute(elsewhere(model), *sides, methods, workers=2))
    assert device.launches
    for number, matrices in expected.items():
        for name_of_matrix, scores in matrices.items():
            assert np.abs(found[number][name_of_matrix] - scores).max() < 2e-5, name_of_matrix


def test_adaptive_sampling_stops_at_the_same_copies() -> None:
    model, methods, sides = model_of("transformer"), [parse("ding_smoothgrad,n=20")], text(4)
    expected = dict(attribute(model, *sides, methods, adaptive=0.1))
    with PretendedDevice():
        found = dict(attribute(elsewhere(model), *sides, methods, adaptive=0.1))
    for number, matrices in expected.items():
        np.testing.assert_allclose(found[number][methods[0].text], matrices[methods[0].text], atol=2e-5)


@pytest.mark.parametrize("name", MODELS)
def test_decoding_finds_what_the_processor_finds(name: str) -> None:
    model, sides = model_of(name), text(4)
    source = torch.tensor([[5, 6, 7, 2], [8, 9, 2, 0]])
    beam, sampling = BeamSettings(3), SamplingSettings(2)

    def decoded(which: Seq2Seq, source: torch.Tensor) -> tuple:
        mask = source != 0
        best = beam_search(which, source, mask, beam)
        drawn = sample(which, source, mask, sampling, [0, 1])
        forced = force_all(which, *sides, vocabulary=VOCABULARY)
        return [[one.ids for one in each] for each in (*best, *drawn)], forced.log_probs

    ids, log_probs = decoded(model, source)
    with PretendedDevice():
        found, found_log_probs = decoded(elsewhere(model), Elsewhere(source))
    assert found == ids
    for one, other in zip(found_log_probs, log_probs, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_calibration_gives_the_sums_of_the_processor() -> None:
    model, sides = model_of("calibrated"), text(4)
    expected = calibration_of(model, *sides)
    with PretendedDevice():
        found = calibration_of(elsewhere(model), *sides)
    for name, sums in expected.totals.items():
        np.testing.assert_allclose(found.totals[name], sums, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", SETTINGS)
def test_more_copies_are_larger_operations_and_not_more_of_them(name: str) -> None:
    counts, sides = [], ([[5, 6, 7, 8]] * 4, [[6, 5, 8, 7]] * 4)
    with PretendedDevice() as device:
        model = elsewhere(model_of(name))
        for copies in (4, 40):
            device.operations.clear()
            list(attribute(model, *sides, [parse(f"li_smoothgrad,n={copies}")]))
            counts.append((device.launches, device.waits))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda there: there + torch.ones(3),
        lambda there: torch.cat((there, torch.zeros(1))),
        lambda there: there[torch.arange(2)],
        lambda there: there.numpy(),
        lambda there: there.data_ptr(),
        lambda there: there.add_(torch.arange(3)),
        lambda there: torch.ones(3).mul_(there),
        lambda there: torch.where(torch.ones(3, dtype=torch.bool), there, there),
    ],
)
def test_the_pretended_device_refuses_what_a_gpu_would(wrong) -> None:
    with PretendedDevice(), pytest.raises(WrongDeviceError):
        wrong(Elsewhere(torch.arange(3.0)))


def test_the_pretended_device_computes() -> None:
    with PretendedDevice() as device:
        there = torch.arange(3, device="meta").to(torch.float32)
        there[1:] += torch.tensor([2.0, 3.0], device=there.device)
        assert isinstance(there, Elsewhere)
        assert there.device.type == "meta"
        assert there.cpu().numpy().tolist() == there.tolist() == [0.0, 3.0, 5.0]
        assert bool((there > 4).any())
    assert device.waits == 3
