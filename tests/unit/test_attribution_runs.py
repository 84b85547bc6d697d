"""Scores of whole texts: shards, threads, workers, adaptive sampling, memory that does not suffice, and errors."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
import torch
from attribution_cases import SETTINGS, model_of, scores, text

from alignlens.attribution import corpus
from alignlens.attribution.corpus import attribute
from alignlens.attribution.registry import parse, parse_all
from alignlens.attribution.statistics import Statistics
from alignlens.errors import ConfigError, ToolError


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def test_shards_give_the_very_numbers_of_one_run() -> None:
    model, methods = (
        model_of("transformer"),
        parse_all(["attention", "ding_smoothgrad,n=3", "integrated_gradients,n=2"]),
    )
    whole = scores(model, methods, sentences=300)
    parts = [scores(model, methods, sentences=300, shard=(which, 3)) for which in range(3)]
    assert sorted(number for part in parts for number in part) == list(range(300))
    assert all(part for part in parts)
    for part in parts:
        for number, found in part.items():
            assert all(np.array_equal(matrix, whole[number][name]) for name, matrix in found.items())


def test_progress_does_not_wait_for_the_end_of_a_portion() -> None:
    heard: list[int] = []
    methods = parse_all(["ding_grad", "ding_smoothgrad,n=2", "ding_smoothgrad,n=3,seed=2"])
    scores(model_of("transformer"), methods, sentences=70, advance=heard.append)
    assert sum(heard) == 70
    assert max(heard) < 10  # three sweeps of two portions: steps of a few sentences


def test_the_number_of_threads_changes_no_link() -> None:
    model, methods = model_of("transformer"), parse_all(["ding_grad", "ding_smoothgrad,n=5"])
    one = scores(model, methods)
    torch.set_num_threads(2)
    two = scores(model, methods)
    torch.set_num_threads(1)
    for number, found in one.items():
        for name, matrix in found.items():
            np.testing.assert_allclose(two[number][name], matrix, atol=1e-5)
            assert np.array_equal(two[number][name].argmax(-1), matrix.argmax(-1))


@pytest.mark.parametrize("name", SETTINGS)
def test_adaptive_sampling_with_no_risk_to_speak_of_takes_all_copies(name: str) -> None:
    model, method = model_of(name), parse("ding_smoothgrad,n=9")
    statistics = Statistics()
    every = scores(model, [method])
    some = scores(model, [method], adaptive=1e-12, statistics=statistics)
    assert statistics.copies[method.text] > 0
    changed = [np.abs(every[number][method.text] - some[number][method.text]).max() for number in every]
    assert np.median(changed) < 1e-6


def test_adaptive_sampling_saves_copies_and_keeps_nearly_all_links() -> None:
    model, method = model_of("transformer"), parse("ding_smoothgrad,n=30")
    sources, targets = text(60)
    statistics = Statistics()
    every = scores(model, [method], 60)
    some = scores(model, [method], 60, adaptive=0.02, statistics=statistics)
    positions = sum(len(target) + 1 for target in targets)
    assert statistics.copies[method.text] < 30 * positions
    same = total = 0
    for number, source in enumerate(sources):
        if source:
            links = [found[number][method.text][:, :-1].argmax(-1) for found in (every, some)]
            same += int((links[0] == links[1]).sum())
            total += len(links[0])
    assert same / total > 0.95


def test_memory_that_does_not_suffice_halves_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    model, method = model_of("transformer"), parse("ding_smoothgrad,n=3")
    expected = scores(model, [method])
    run, sizes = corpus.Sweep.run, []

    def fails_when_large(self, sentences, rows, statistics):  # type: ignore[no-untyped-def]
        sizes.append(rows)
        if rows > 30:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate much")
        return run(self, sentences, rows, statistics)

    monkeypatch.setattr(corpus.Sweep, "run", fails_when_large)
    statistics = Statistics()
    found = scores(model, [method], tokens=4096, statistics=statistics)
    assert statistics.halvings > 0
    assert min(sizes) <= 30
    for number, matrices in found.items():
        np.testing.assert_allclose(matrices[method.text], expected[number][method.text], atol=1e-5)


def test_another_error_is_not_taken_for_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self, sentences, rows, statistics):  # type: ignore[no-untyped-def]
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(corpus.Sweep, "run", fails)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        scores(model_of("transformer"), [parse("ding_grad")])


@pytest.mark.parametrize("adaptive", [None, 0.1])
def test_workers_give_the_very_numbers_of_one(adaptive: float | None) -> None:
    model, methods = (
        model_of("transformer"),
        parse_all(["attention", "ding_smoothgrad,n=12", "li_grad", "integrated_gradients,n=3", "occlusion"]),
    )
    threads, counted = torch.get_num_threads(), [Statistics(), Statistics()]
    one = scores(model, methods, sentences=60, adaptive=adaptive, statistics=counted[0])
    three = scores(model, methods, sentences=60, adaptive=adaptive, statistics=counted[1], workers=3)
    assert list(one) == list(three)
    assert all(np.array_equal(three[number][name], one[number][name]) for number in one for name in one[number])
    assert counted[0] == counted[1]
    assert torch.get_num_threads() == threads


def test_an_error_of_a_worker_is_told_and_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    run, numbers, begun = corpus.Sweep.run, itertools.count(1), []

    def fails_at_the_second(self, sentences, rows, statistics):  # type: ignore[no-untyped-def]
        number = next(numbers)  # each thread gets another one
        begun.append(number)
        if number == 2:
            raise RuntimeError("shapes do not match")
        return run(self, sentences, rows, statistics)

    monkeypatch.setattr(corpus.Sweep, "run", fails_at_the_second)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        scores(model_of("transformer"), [parse("ding_grad")], sentences=400, workers=2)
    assert len(begun) < 20


def test_whoever_stops_early_leaves_no_work_behind() -> None:
    before = threading.active_count()
    found = attribute(model_of("transformer"), *text(200), [parse("ding_grad")], workers=2)
    next(found)
    assert threading.active_count() > before
    found.close()
    assert threading.active_count() == before


def test_gradients_outside_stay_switched_on() -> None:
    leaf = torch.ones(1, requires_grad=True)
    for _ in attribute(model_of("transformer"), *text(), [parse("attention")]):
        assert (leaf * 2).requires_grad


def test_a_damaged_model_is_an_error_not_a_link() -> None:
    model = model_of("transformer")
    with torch.no_grad():
        model.output.weight[5] = float("nan")
    for name in ("ding_grad", "grad_input", "integrated_gradients,n=2", "occlusion", "probe"):
        with pytest.raises(ToolError, match="not finite"):
            scores(model, [parse(name)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": 0}, "at least 1"),
        ({"workers": 0}, "at least 1"),
        ({"adaptive": 0.7}, "between 0 and 0.5"),
        ({"shard": (2, 2)}, "counted from 0"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scores(model_of("transformer"), [parse("attention")], **options)
