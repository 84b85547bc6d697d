"""The compiled steps backwards against automatic differentiation, and when they are used."""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformer_cases import ENTRIES, ROWS, TARGET, collected, inputs, model_of, wanted_sets

from alignlens.attribution import native
from alignlens.attribution.gradients import compiled
from alignlens.attribution.gradients.autograd import AutogradGradients
from alignlens.attribution.gradients.choice import source_gradients
from alignlens.attribution.gradients.transformer import TransformerGradients
from alignlens.attribution.gradients.transformer_compiled import CompiledTransformerGradients, can_compute

HERE = Path(compiled.__file__).parent
pytestmark = pytest.mark.skipif(
    compiled.library() is None and shutil.which("cc") is None, reason="no C compiler: the compiled steps were not built"
)
# Widths with panels of 16 columns and with one of 8 left over; with 6 positions, vectors that are ready and not.
SIZES = [(16, 2), (64, 2), (24, 3), (40, 1)]


def assert_close(found: dict, expected: dict) -> None:
    assert set(found) == set(expected)
    sizes = {pair: float(value.abs().max()) for pair, value in expected.items()}
    largest = max(sizes.values())  # a product may be small because its terms cancel
    for pair, value in found.items():
        atol = 1e-5 * sizes[pair] + 1e-6 * largest
        torch.testing.assert_close(value.double(), expected[pair], rtol=1e-4, atol=atol)


@pytest.fixture
def dirty_memory():
    """Fresh memory is full of numbers that would be seen in any result: nothing may be read before it is written."""
    perturb = -6  # glibc's M_PERTURB
    c_library = ctypes.CDLL(None)
    if not hasattr(c_library, "mallopt"):
        pytest.skip("memory can be filled with glibc only")
    torch.use_deterministic_algorithms(True)  # fills new tensors
    c_library.mallopt(perturb, 1)
    yield
    c_library.mallopt(perturb, 0)
    torch.use_deterministic_algorithms(False)


def cases() -> Iterator[tuple[str, tuple[int, int], int, int, str, str]]:
    """Everything with a ReLU, the other activations at one size."""
    for norm, wanted in itertools.product(("post", "pre"), wanted_sets()):
        for layers, size in itertools.product([(1, 1), (2, 3), (3, 2)], SIZES):
            yield norm, layers, *size, wanted, "relu"
        yield from ((norm, (2, 3), 64, 2, wanted, activation) for activation in ("swish", "gelu"))


@pytest.mark.parametrize(("norm", "layers", "dim", "heads", "wanted", "activation"), cases())
def test_gradients_and_products_equal_automatic_ones(
    norm: str, layers: tuple[int, int], dim: int, heads: int, wanted: str, activation: str, dirty_memory: None
) -> None:
    model, chosen = model_of(norm, layers, dim, heads, activation=activation), wanted_sets()[wanted]
    along = torch.randn_like(inputs(dim)[0])
    exact = AutogradGradients(model)
    gradients, products = collected(exact, chosen, dim), collected(exact, chosen, dim, along)
    passes = CompiledTransformerGradients(model.float())
    assert_close(collected(passes, chosen, dim, dtype=torch.float), gradients)
    assert_close(collected(passes, chosen, dim, along, dtype=torch.float), products)


@pytest.mark.parametrize("wanted", ["everything", "few rows"])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_other_entries_of_token_vectors(entry: dict[str, Any], norm: str, wanted: str, dirty_memory: None) -> None:
    model, chosen = model_of(norm, (2, 3), 64, 2, **entry), wanted_sets()[wanted]
    along = torch.randn_like(inputs(64)[0])
    exact = AutogradGradients(model)
    gradients, products = collected(exact, chosen, 64), collected(exact, chosen, 64, along)
    passes = CompiledTransformerGradients(model.float())
    assert_close(collected(passes, chosen, 64, dtype=torch.float), gradients)
    assert_close(collected(passes, chosen, 64, along, dtype=torch.float), products)


@pytest.mark.parametrize("dim", [64, 24])
@pytest.mark.parametrize("level", native.levels(), ids=lambda level: level or "any processor")
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_steps_for_every_instruction_set_are_the_same(
    norm: str, level: str, dim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only those for the best one of this processor would ever run otherwise."""
    monkeypatch.setattr(native, "levels", lambda: (level,))
    native.native.cache_clear()
    try:
        library = compiled.library()
        assert library is not None
        assert native.level_of(library) == native.LEVELS[level]
        model, wanted = model_of(norm, dim=dim, heads=dim // 8), wanted_sets()["everything"]
        expected = collected(AutogradGradients(model), wanted, dim)
        assert_close(collected(CompiledTransformerGradients(model.float()), wanted, dim, dtype=torch.float), expected)
    finally:
        monkeypatch.undo()
        native.native.cache_clear()


@pytest.mark.skipif(native.levels() == ("",), reason="this processor has no instructions to turn off")
def test_turning_instructions_off_for_torch_turns_them_off_here() -> None:
    code = "from alignlens.attribution import native; print(native.levels())"
    for asked, levels in (("avx2", ("_avx2", "")), ("default", ("",))):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "ATEN_CPU_CAPABILITY": asked},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == str(levels)


def test_a_closed_feed_forward_net_sends_nothing_back() -> None:
    """No unit is open: the state passes beside the net and no product has any depth."""
    model = model_of(layers=(1, 1), dim=16, heads=2)
    for layer in (*model.encoder, *model.decoder):
        layer.feed_forward.widen.bias.data.fill_(-1e3)
    wanted = wanted_sets()["everything"]
    expected = collected(AutogradGradients(model), wanted, 16)
    assert_close(collected(CompiledTransformerGradients(model.float()), wanted, 16, dtype=torch.float), expected)


def test_blocks_of_any_size_give_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    passes, wanted = CompiledTransformerGradients(model_of(dim=64, heads=2).float()), wanted_sets()["first rows"]
    found = collected(passes, wanted, 64, dtype=torch.float)
    monkeypatch.setattr("alignlens.attribution.gradients.transformer_compiled._NUMBERS", 1)
    one_by_one = collected(passes, wanted, 64, dtype=torch.float)
    assert found.keys() == one_by_one.keys()
    assert all(torch.equal(found[pair], one_by_one[pair]) for pair in found)


def test_they_were_built_and_are_used_where_they_can() -> None:
    assert compiled.library() is not None, "there is a C compiler: make install builds them"
    assert isinstance(source_gradients(model_of(dim=64, heads=2).float()), CompiledTransformerGradients)


@pytest.mark.parametrize("model", [model_of(dim=64, heads=2), model_of(dim=16, heads=4).float()])
def test_double_precision_and_odd_widths_stay_with_torch(model: torch.nn.Module) -> None:
    assert not can_compute(model)
    assert type(source_gradients(model)) is TransformerGradients


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An empty folder in which the compiled steps are looked for."""
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    native.native.cache_clear()
    yield tmp_path
    monkeypatch.undo()
    native.native.cache_clear()


def test_steps_older_than_their_source_are_not_used(elsewhere: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Their structures may have changed, and a wrong structure is a wrong number or a crash."""
    for path in HERE.glob("_kernels*"):
        shutil.copy2(path, elsewhere)
    shutil.copytree(HERE / "kernels", elsewhere / "kernels")
    assert compiled.library() is not None
    os.utime(elsewhere / "kernels/products.h")
    native.native.cache_clear()
    assert compiled.library() is None
    assert "older than their source" in caplog.text


def test_steps_of_another_machine_are_not_used(elsewhere: Path, caplog: pytest.LogCaptureFixture) -> None:
    (elsewhere / "_kernels.other.so").write_bytes(b"not for this processor")
    assert compiled.library() is None
    assert "cannot be loaded" in caplog.text


def test_nothing_wanted_gives_nothing() -> None:
    passes = CompiledTransformerGradients(model_of(dim=64, heads=2).float())
    assert not collected(passes, torch.zeros(ROWS, TARGET, dtype=torch.bool), 64, dtype=torch.float)
