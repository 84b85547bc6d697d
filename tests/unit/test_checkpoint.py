"""Checkpoints: they come back as they were, run no code, and say in one line what is wrong with them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
import torch

from alignlens.errors import InputError
from alignlens.io.atomic import atomic_directory
from alignlens.models.checkpoint import (
    FORMAT,
    KIND,
    average,
    load_model,
    load_tensors,
    put_weights,
    save_tensors,
    weights_of,
)
from alignlens.models.registry import build
from alignlens.models.settings import LstmSettings, ModelSpec, TransformerSettings

SMALL = {"dim": 8, "ffn": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}


def spec(**changes: object) -> ModelSpec:
    return ModelSpec("transformer", TransformerSettings(**{**SMALL, **changes}), 11, 11)


def saved(folder: Path, what: ModelSpec) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "model.json").write_text(json.dumps({"format": FORMAT, "spec": what.as_json()}))
    save_tensors(folder / "weights.safetensors", weights_of(build(what, seed=3)), {"update": 7})
    return folder


@pytest.mark.parametrize("embeddings", ["separate", "shared", "tied", "shared_tied"])
def test_a_model_comes_back_as_it_was(tmp_path: Path, embeddings: str) -> None:
    what = spec(embeddings=embeddings)
    model, found = load_model(saved(tmp_path / "model", what))
    assert found == what
    assert not model.training
    expected = weights_of(build(what, seed=3))
    assert weights_of(model).keys() == expected.keys()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in weights_of(model).items())


def test_the_same_weights_are_the_same_bytes(tmp_path: Path) -> None:
    one, other = saved(tmp_path / "one", spec()), saved(tmp_path / "other", spec())
    assert (one / "weights.safetensors").read_bytes() == (other / "weights.safetensors").read_bytes()


def test_a_pickle_is_refused_unread(tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "harm",))

    path = tmp_path / "weights.safetensors"
    path.write_bytes(pickle.dumps(Harm()))
    with pytest.raises(InputError, match="damaged"):
        load_tensors(path)
    assert not (tmp_path / "harm").exists()


def test_every_damage_is_seen(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", spec())
    path = folder / "weights.safetensors"
    whole = path.read_bytes()
    for broken in (whole[:-1], whole[:100], b"", whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:]):
        path.write_bytes(broken)
        with pytest.raises(InputError, match="damaged") as caught:
            load_model(folder)
        assert "\n" not in str(caught.value)


def test_weights_of_another_model_name_the_first_tensor_that_differs(tmp_path: Path) -> None:
    path = saved(tmp_path / "model", spec()) / "weights.safetensors"
    with pytest.raises(InputError, match=r"the tensor decoder\.0\.\S+ is .* here, but .* in this model"):
        put_weights(build(spec(ffn=24)), load_tensors(path)[0], path)
    lstm = build(ModelSpec("lstm", LstmSettings(dim=8, hidden=8), 11, 11))
    with pytest.raises(InputError, match="absent"):
        put_weights(lstm, load_tensors(path)[0], path)


def test_an_unknown_checkpoint_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="The folder has: weights"):
        load_model(saved(tmp_path / "model", spec()), "bset")
    with pytest.raises(InputError, match="not a model folder"):
        load_model(tmp_path)


def test_an_average_is_the_mean(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.safetensors" for number in (1, 2, 6)]
    for path, value in zip(paths, (1.0, 2.0, 6.0), strict=True):
        save_tensors(path, {"a": torch.full((3,), value)}, {})
    assert torch.equal(average(paths)["a"], torch.full((3,), 3.0))


def test_weights_of_another_model_are_not_taken_for_those_of_a_sealed_one(tmp_path: Path) -> None:
    what = spec()
    for seed in (1, 2):
        with atomic_directory(tmp_path / str(seed), KIND) as folder:
            save_tensors(folder / "weights.safetensors", weights_of(build(what, seed)), {})
            (folder / "model.json").write_text(json.dumps({"format": FORMAT, "spec": what.as_json()}))
    load_model(tmp_path / "1")
    (tmp_path / "2/weights.safetensors").replace(tmp_path / "1/weights.safetensors")
    with pytest.raises(InputError, match=r"weights\.safetensors: damaged: it has changed since it was written"):
        load_model(tmp_path / "1")
