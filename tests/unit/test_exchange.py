"""Models of ours as Marian folders, Marian folders as models of ours: nothing changes on the way."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="the Hugging Face library is not installed")
from marian_folder import LINES, write_folder
from training_files import CopyTask
from transformers import MarianMTModel, MarianTokenizer

from alignlens.attribution.corpus import attribute
from alignlens.attribution.registry import parse_all
from alignlens.corpora.symbols import BEGIN_ID, END_ID
from alignlens.decoding.exchange import export_model, import_model
from alignlens.decoding.settings import BeamSettings
from alignlens.decoding.translate import TrainedModel, translate
from alignlens.errors import ConfigError, InputError
from alignlens.io.atomic import atomic_directory, write_json
from alignlens.models.checkpoint import FORMAT, KIND, save_tensors, weights_of
from alignlens.models.registry import build
from alignlens.models.settings import LstmSettings, ModelSpec, TransformerSettings

LINE = "ba du ge lo"
#: None with noise: that is drawn for the places of a vector, which Marian has in another order.
METHODS = parse_all(["attention,layer=0,head=1,step=in", "norms", "li_grad", "grad_input", "lrp", "probe"])


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> CopyTask:
    return CopyTask.write(tmp_path_factory.mktemp("copy"))


def model_of(task: CopyTask, folder: Path, architecture: str = "transformer", **changes: Any) -> TrainedModel:
    """Returns a random model of ours, whose biases and norms matter, read from its folder."""
    sizes = {"dim": 16, "encoder_layers": 2, "decoder_layers": 2}
    kinds = {"transformer": TransformerSettings, "lstm": LstmSettings}
    if architecture == "transformer":
        sizes |= {"ffn": 24, "heads": 2}
    bpe, vocab = task.folder / "bpe", 290
    spec = ModelSpec(architecture, kinds[architecture](**{**sizes, **changes}), vocab, vocab)
    model = build(spec, seed=3)
    torch.manual_seed(4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    with atomic_directory(folder, KIND) as made:
        for side in ("source", "target"):
            shutil.copyfile(bpe / f"{side}.model", made / f"{side}.model")
        write_json(made / "model.json", {"format": FORMAT, "spec": spec.as_json()})
        save_tensors(made / "weights.safetensors", weights_of(model), {})
    return TrainedModel.load(folder)


def scores(trained: TrainedModel, source: str, target: str) -> dict[str, Any]:
    read, written = trained.source.segment(source).ids, trained.target.segment(target).ids
    ((_, found),) = attribute(trained.model, [read], [written], METHODS)
    return found


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"embeddings": "shared_tied", "output_bias": True},
        {"embeddings": "tied", "activation": "gelu"},
        {"embeddings": "shared", "sinusoids": "halves", "activation": "swish"},
    ],
)
def test_what_was_exported_computes_and_translates_the_same(
    task: CopyTask, tmp_path: Path, changes: dict[str, Any]
) -> None:
    ours = model_of(task, tmp_path / "ours", **changes)
    export_model(ours, tmp_path / "theirs")
    theirs = MarianMTModel.from_pretrained(tmp_path / "theirs").eval()
    tokenizer = MarianTokenizer.from_pretrained(tmp_path / "theirs")
    read, written = ours.source.segment(LINE).ids, ours.target.segment("ki lo mu").ids
    given = tokenizer(LINE, return_tensors="pt")
    assert given.input_ids[0].tolist() == [*read, END_ID]
    prefix = torch.tensor([[BEGIN_ID, *written]])
    with torch.no_grad():
        expected = ours.model(given.input_ids, given.attention_mask.bool(), prefix)
        found = theirs(**given, decoder_input_ids=prefix).logits
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    (own,) = translate(ours.model, [read], BeamSettings(beam=1, max_ratio=1.0, max_offset=8))
    words = theirs.generate(
        **given, num_beams=1, do_sample=False, max_new_tokens=len(own.ids), bad_words_ids=[[0], [1], [3]]
    )
    generated = [each for each in words[0].tolist()[1:] if each != END_ID]
    # Of as many tokens as ours has the last one must be the end.
    assert len(generated) >= len(own.ids) - 1 > 0
    assert generated[: len(own.ids) - 1] == list(own.ids)[:-1]
    again = TrainedModel.load(tmp_path / "theirs")
    for name, matrix in scores(ours, LINE, "ki lo mu").items():
        np.testing.assert_allclose(scores(again, LINE, "ki lo mu")[name], matrix, atol=1e-4, err_msg=name)


def test_an_imported_folder_is_a_model_of_ours(tmp_path: Path) -> None:
    write_folder(tmp_path / "marian")
    theirs = TrainedModel.load(tmp_path / "marian")
    import_model(theirs, tmp_path / "ours")
    ours = TrainedModel.load(tmp_path / "ours")
    assert ours.source.segment(LINES[3]) == theirs.source.segment(LINES[3])
    found, expected = (scores(each, LINES[1], LINES[0]) for each in (ours, theirs))
    for name, matrix in expected.items():
        np.testing.assert_array_equal(found[name], matrix)
    export_model(ours, tmp_path / "back")
    back = TrainedModel.load(tmp_path / "back")
    for name, matrix in scores(back, LINES[1], LINES[0]).items():
        np.testing.assert_allclose(matrix, expected[name], atol=1e-5, err_msg=name)


def test_what_cannot_be_exchanged_is_one_line(task: CopyTask, tmp_path: Path) -> None:
    ours = model_of(task, tmp_path / "ours")
    with pytest.raises(ConfigError, match="nothing to import"):
        import_model(ours, tmp_path / "out")
    with pytest.raises(ConfigError, match="norms before the layers"):
        export_model(model_of(task, tmp_path / "pre", norm="pre"), tmp_path / "out")
    with pytest.raises(ConfigError, match="only Transformers can be exported to Marian, not lstm"):
        export_model(model_of(task, tmp_path / "lstm", "lstm"), tmp_path / "out")
    write_folder(tmp_path / "marian")
    import_model(TrainedModel.load(tmp_path / "marian"), tmp_path / "imported")
    pieces = tmp_path / "imported" / "source.vocabulary.json"
    pieces.write_text(json.dumps({"pieces": ["a"]}))
    with pytest.raises(InputError, match="changed"):
        TrainedModel.load(tmp_path / "imported")


def test_the_verb_exports_and_imports(task: CopyTask, tmp_path: Path) -> None:
    model_of(task, tmp_path / "ours")
    for action, given, out in (("export", "ours", "theirs"), ("import", "theirs", "again")):
        command = [
            sys.executable,
            "-m",
            "alignlens",
            "model",
            action,
            "--model",
            tmp_path / given,
            "--out",
            tmp_path / out,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert TrainedModel.load(tmp_path / "again").source.segment(LINE).pieces
