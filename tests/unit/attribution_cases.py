"""Small models of every architecture, texts, and a wide choice of methods, for tests of scores of whole texts."""

from __future__ import annotations

import numpy as np
import torch

from alignlens.attribution.corpus import attribute
from alignlens.attribution.registry import parse_all
from alignlens.models.contract import Seq2Seq
from alignlens.models.fconv import Fconv
from alignlens.models.lstm import Lstm
from alignlens.models.settings import FconvSettings, LstmSettings, TransformerSettings
from alignlens.models.transformer import Transformer

VOCABULARY = 13
SETTINGS = {
    "transformer": (Transformer, TransformerSettings(dim=16, ffn=24, heads=4, encoder_layers=2, decoder_layers=2)),
    "lstm": (Lstm, LstmSettings(dim=12, hidden=10, bidirectional=True)),
    "fconv": (Fconv, FconvSettings(dim=12, hidden=10, encoder_layers=2, decoder_layers=2, max_positions=32)),
}
EVERYTHING = parse_all(
    [
        "attention",
        "attention,layer=0,head=0,step=in",
        "attention,label=runner_up",
        "shifted_attention",
        "shifted_attention,layer=mean",
        "smoothed_attention,n=4",
        "norms",
        "norms,layer=0,step=in",
        "norms,layer=-1,head=0",
        "li_grad",
        "li_grad,reading=abs_dot",
        "ding_grad",
        "ding_grad,score=p",
        "ding_grad,label=runner_up",
        "ding_smoothgrad,n=4",
        "ding_smoothgrad,n=2",
        "ding_smoothgrad,n=3,sigma=0.3,seed=5",
        "ding_smoothgrad,n=4,order=mean_then_clip",
        "ding_smoothgrad,n=4,order=mean_then_clip,score=p",
        "li_smoothgrad,n=4",
        "li_smoothgrad,n=4,reading=abs_dot",
        "li_smoothgrad,n=4,reading=abs_dot,order=mean_then_normalise",
        "grad_input",
        "grad_input,score=p",
        "grad_input,label=runner_up",
        "integrated_gradients,n=4",
        "integrated_gradients,n=3,reading=positive,score=p",
        "integrated_gradients,n=3,reading=absolute,gradient=train",
        "occlusion",
        "occlusion,score=p",
        "probe",
        "probe,scale=log_p",
        "probe,bias=dropped",
    ]
)


def model_of(name: str) -> Seq2Seq:
    torch.manual_seed(3)
    kind, settings = SETTINGS[name]
    return kind(settings, VOCABULARY, VOCABULARY).eval()


def text(sentences: int = 12, seed: int = 0) -> tuple[list[list[int]], list[list[int]]]:
    rng = np.random.default_rng(seed)
    sides = [[rng.integers(4, VOCABULARY, rng.integers(0, 7)).tolist() for _ in range(sentences)] for _ in range(2)]
    return sides[0], sides[1]


def scores(model: Seq2Seq, methods: list, sentences: int = 12, **options: object) -> dict[int, dict[str, np.ndarray]]:
    return dict(attribute(model, *text(sentences), methods, **options))
