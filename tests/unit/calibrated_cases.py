"""Small calibrated Transformers of every kind, and what they are given."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import torch
from torch import Tensor, nn

from alignlens.models.calibrated import Calibrated
from alignlens.models.contract import Decoded, length_mask
from alignlens.models.settings import CalibratedSettings, TransformerSettings
from alignlens.models.transformer import Transformer

SOURCE_VOCAB, TARGET_VOCAB = 11, 13
SETTINGS = CalibratedSettings(dim=6, ffn=7, heads=3, encoder_layers=1, decoder_layers=2, dropout=0.0)
LENGTHS = torch.tensor([5, 3, 1])
FUSIONS = ("fixed", "anneal", "gate")
VARIANTS = [
    replace(SETTINGS, fusion=fusion, rows=rows, mask_input=mask_input, gate=gate, anneal_updates=40)
    for fusion, rows, mask_input in product(FUSIONS, ("raw", "renorm"), ("released", "printed"))
    for gate in (("released", "printed") if fusion == "gate" else ("released",))
]
#: Of these the masks change nothing.
PLAIN = [replace(SETTINGS, fusion="none", mask_input=mask_input) for mask_input in ("released", "printed")]
EVERY = [*VARIANTS, *PLAIN]
UPDATES = 30


def name_of(settings: CalibratedSettings) -> str:
    return f"{settings.fusion}-{settings.rows}-{settings.mask_input}-{settings.gate}"


def filled(settings: CalibratedSettings, seed: int = 0, std: float = 0.5) -> Calibrated:
    """A double precision model whose every parameter is random, after some updates."""
    torch.manual_seed(seed)
    model = Calibrated(settings, SOURCE_VOCAB, TARGET_VOCAB).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=std)
    model.at_update(UPDATES)
    return model


def with_masks_of(model: Calibrated, value: float) -> Calibrated:
    """The same model with logits of all masks far below or above zero."""
    for layer in model.decoder:
        layer.cross.mask_net.query.weight.data.zero_()
        layer.cross.mask_net.key.weight.data.zero_()
        layer.cross.mask_net.query.bias.data.fill_(100.0)
        layer.cross.mask_net.key.bias.data.fill_(100.0 if value else -100.0)
    return model


def ids(rows: int = 3, target: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    source = torch.randint(4, SOURCE_VOCAB, (rows, int(LENGTHS.max())), generator=generator)
    return source, length_mask(LENGTHS[:rows], 5), torch.randint(4, TARGET_VOCAB, (rows, target), generator=generator)


def decoded(model: Transformer, trace: bool = True) -> Decoded:
    source, mask, prefix = ids()
    return model.decode(model.encode(model.embed_source(source), mask), model.embed_target(prefix), trace)


def plain_twin(model: Calibrated, settings: CalibratedSettings) -> Transformer:
    """The Transformer without masks that has all the other weights."""
    shared = {key: getattr(settings, key) for key in TransformerSettings.__dataclass_fields__}
    vocabularies = model.source_table.num_embeddings, model.output.out_features
    twin = Transformer(TransformerSettings(**shared), *vocabularies).double().eval()
    own = {name: tensor for name, tensor in model.state_dict().items() if "mask_net" not in name}
    twin.load_state_dict({name: tensor for name, tensor in own.items() if "fusion" not in name})
    return twin
