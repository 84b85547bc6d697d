"""The registry of architectures: complete for those that are there, and one entry is enough for a new one."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from training_files import TRAINING, CopyTask

from alignlens.attribution.corpus import attribute
from alignlens.attribution.gradients.autograd import AutogradGradients
from alignlens.attribution.gradients.choice import EXPLICIT, source_gradients
from alignlens.attribution.registry import parse
from alignlens.cli.main import main
from alignlens.errors import ConfigError
from alignlens.io.limits import Limits
from alignlens.io.typed import setting
from alignlens.models.base_settings import ArchitectureSettings
from alignlens.models.checkpoint import load_model
from alignlens.models.contract import Attention, Decoded, Memory, Seq2Seq, State
from alignlens.models.fconv import Fconv
from alignlens.models.registry import build
from alignlens.models.settings import (
    ARCHITECTURES,
    IMPORTED,
    Architecture,
    FconvSettings,
    ModelSpec,
    architecture_settings,
)
from alignlens.results.protocol import ARCHITECTURES as LABELS
from alignlens.workflow.costs.arithmetic import FORMULAS, weights
from alignlens.workflow.costs.rates import Rates


@dataclass(frozen=True)
class BagSettings(ArchitectureSettings):
    """A decoder that looks at a bag of source vectors."""

    sharpness: float = setting(1.0, "What attention logits are multiplied with.", Limits(0, 100), "softmax is one-hot")


class Bag(Seq2Seq):
    """Dot-product attention from prefix vectors to source vectors, and nothing else."""

    def __init__(self, settings: BagSettings, source_vocab: int, target_vocab: int) -> None:
        super().__init__()
        self.settings = settings
        self.source_table = nn.Embedding(source_vocab, settings.dim)
        self.target_table = nn.Embedding(target_vocab, settings.dim)
        self.output = nn.Linear(settings.dim, target_vocab)

    def embed_source(self, ids: Tensor) -> Tensor:
        return self.source_table(ids)

    def embed_target(self, ids: Tensor) -> Tensor:
        return self.target_table(ids)

    def encode(self, vectors: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        return Memory(vectors, mask, vectors)

    def decode(self, memory: Memory, vectors: Tensor, trace: bool = False) -> Decoded:
        logits = self.settings.sharpness * vectors @ memory.states.mT / math.sqrt(vectors.shape[-1])
        found = logits.masked_fill(~memory.mask[:, None], -math.inf).softmax(-1)
        projection = torch.eye(vectors.shape[-1])[None]
        layer = Attention(found[:, None], memory.states[:, None], projection, None)
        return Decoded(vectors + found @ memory.states, (layer,) if trace else ())

    def logits(self, states: Tensor) -> Tensor:
        return self.output(states)

    def begin(self, memory: Memory) -> State:
        return State(0, memory, (), ())

    def step(self, state: State, vectors: Tensor) -> tuple[Decoded, State]:
        return self.decode(state.memory, vectors), replace(state, position=state.position + 1)


@pytest.fixture
def bag(monkeypatch: pytest.MonkeyPatch) -> str:
    """One entry, and nothing else."""
    monkeypatch.setitem(ARCHITECTURES, "bag", Architecture("Bag of vectors", BagSettings, lambda: Bag))
    return "bag"


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> CopyTask:
    return CopyTask.write(tmp_path_factory.mktemp("copy"))


def arguments(task: CopyTask, place: Path, architecture: str, model: dict[str, Any]) -> list[str]:
    settings = {"architecture": architecture, "model": model, "training": {**TRAINING, "max_updates": 2}}
    return [*task.arguments(place), "--settings", json.dumps(settings)]


def test_one_entry_is_an_architecture_that_trains_and_can_be_asked(bag: str, task: CopyTask, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    assert main(arguments(task, tmp_path, bag, {"dim": 6, "sharpness": 2.0})) == 0
    model, spec = load_model(tmp_path / "model")
    assert isinstance(model, Bag)
    assert spec.settings == BagSettings(dim=6, sharpness=2.0)
    assert isinstance(source_gradients(model), AutogradGradients)
    methods = [parse(text) for text in ("attention", "ding_grad", "li_grad")]
    ((number, scores),) = attribute(model, [[5, 6, 7]], [[8, 9]], methods)
    assert number == 0
    for method in methods:
        assert scores[method.text].shape == (3, 4)
        assert scores[method.text].sum(1) == pytest.approx(1, abs=1e-5)


def test_its_settings_are_checked_like_those_of_the_others(
    bag: str, task: CopyTask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for model, told in (
        ({"sharpness": 101}, "--settings.model.sharpness: 101 must be at most 100 (softmax is one-hot)"),
        ({"sharpnes": 1}, "--settings.model.sharpnes: unknown key 'sharpnes'"),
    ):
        assert main(arguments(task, tmp_path, bag, model)) == 2
        assert capsys.readouterr().err.splitlines()[-1].startswith(f"alignlens train: {told}")


def test_what_has_no_formula_or_no_rate_is_one_line_and_not_another_architecture(bag: str, project: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"^costs: .* BagSettings; known: BagOfWordsSettings, CalibratedSettings, .*FORM"
    ):
        weights(BagSettings(), 100)
    with pytest.raises(ConfigError, match=r"^rates\.yaml: training\.bag: not measured; known: "):
        Rates.load(project / "config").speed("training", bag)


def test_an_unknown_architecture_is_one_line_with_those_that_are_known() -> None:
    told = r"^architecture: unknown architecture 'rnn'; known: bag_of_words, calibrated, fconv, lstm, transformer"
    with pytest.raises(ConfigError, match=told):
        architecture_settings("rnn", {})
    with pytest.raises(ConfigError, match=told):
        build(ModelSpec("rnn", ArchitectureSettings(), 10, 10))


def test_every_architecture_has_all_that_one_needs(project: Path) -> None:
    rates = Rates.load(project / "config")
    assert {entry.settings for entry in (ARCHITECTURES | IMPORTED).values()} == set(FORMULAS)
    by_autograd = {ARCHITECTURES["calibrated"].model()}
    assert {entry.model() for entry in ARCHITECTURES.values()} == set(EXPLICIT) | by_autograd
    for name, entry in ARCHITECTURES.items():
        assert entry.label == LABELS.get(name, entry.label)  # the published tables have three
        assert type(build(ModelSpec(name, entry.settings(dim=4, **few(entry)), 9, 9))) is entry.model()
        for work in ("training", "decoding", "attribution"):
            assert rates.speed(work, name).multiply_adds > 0
    for name in IMPORTED:  # they are not trained here
        assert all(rates.speed(work, name).multiply_adds > 0 for work in ("decoding", "attribution"))


def few(entry: Architecture) -> dict[str, int]:
    return {"heads": 2} if "heads" in entry.settings.__dataclass_fields__ else {}


def test_a_changed_convolution_model_has_its_own_gradient_scaled_or_true() -> None:
    """The explicit passes would be those of the class it was made from."""

    class Changed(Fconv):
        pass

    settings = FconvSettings(dim=4, hidden=4, encoder_layers=1, decoder_layers=2, max_positions=9)
    torch.manual_seed(3)
    changed, plain = Changed(settings, 9, 9).eval(), Fconv(settings, 9, 9).eval()
    plain.load_state_dict(changed.state_dict())
    texts = [parse(f"ding_grad,gradient={kind}") for kind in ("train", "true")]
    ((_, one),) = attribute(changed, [[5, 6, 7]], [[8, 4]], texts)
    ((_, other),) = attribute(plain, [[5, 6, 7]], [[8, 4]], texts)
    assert isinstance(source_gradients(changed), AutogradGradients)
    assert changed.scale_encoder_gradient
    for method in texts:
        assert one[method.text] == pytest.approx(other[method.text], abs=1e-5)
    assert one[texts[0].text] != pytest.approx(one[texts[1].text], abs=1e-3)
