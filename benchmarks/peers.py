"""Other Transformers with our weights: a plain torch.nn.Transformer, and Joey NMT."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID
from alignlens.models.attention import CrossAttention, SelfAttention
from alignlens.models.settings import TransformerSettings
from alignlens.models.transformer import Transformer

SMOOTHING = 0.1


class Peer(Protocol):
    """The interface of every peer in the benchmark."""

    name: str

    def log_probs(self, pairs: Any) -> Tensor:
        """Returns (labels, vocabulary)."""

    def train_step(self, pairs: Any) -> None:
        """Makes one update."""

    def translate(self, pairs: Any, beam: int, length: int) -> Tensor:
        """Returns ``length`` tokens of every sentence."""


def stacked(layer: SelfAttention | CrossAttention) -> tuple[Tensor, Tensor]:
    """Our projections as one (3 dim, dim) matrix of queries, keys and values, and its bias."""
    if isinstance(layer, SelfAttention):
        return layer.project.weight, layer.project.bias
    parts = (layer.query, layer.project)
    return torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])


class PlainTorch:
    """torch.nn.Transformer as its documentation uses it: a loss over all positions, and Adam."""

    name = "torch.nn.Transformer"

    def __init__(self, settings: TransformerSettings, vocab: int, ours: Transformer) -> None:
        self.scale, self.dropout = math.sqrt(settings.dim), settings.dropout
        self.positions = ours.source_entry.positions.table.clone()
        self.core = nn.Transformer(
            settings.dim,
            settings.heads,
            settings.encoder_layers,
            settings.decoder_layers,
            settings.ffn,
            settings.dropout,
            batch_first=True,
        )
        # Unlike the paper and us, it adds one more norm after the last layer of each side.
        self.core.encoder.norm = self.core.decoder.norm = None
        self.source, self.target = nn.Embedding(vocab, settings.dim), nn.Embedding(vocab, settings.dim)
        self.output = nn.Linear(settings.dim, vocab, bias=False)
        self.model = nn.ModuleList([self.core, self.source, self.target, self.output])
        self._copy(ours)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)

    @torch.no_grad()
    def _copy(self, ours: Transformer) -> None:
        self.source.weight.copy_(ours.source_table.weight)
        self.target.weight.copy_(ours.target_table.weight)
        self.output.weight.copy_(ours.output.weight)
        for theirs, layer in zip(
            (*self.core.encoder.layers, *self.core.decoder.layers), (*ours.encoder, *ours.decoder), strict=True
        ):
            pairs = [(theirs.self_attn, layer.own)]
            if hasattr(layer, "cross"):
                pairs.append((theirs.multihead_attn, layer.cross))
            for attention, own in pairs:
                weight, bias = stacked(own)
                attention.in_proj_weight.copy_(weight)
                attention.in_proj_bias.copy_(bias)
                attention.out_proj.load_state_dict(own.output.state_dict())
            theirs.linear1.load_state_dict(layer.feed_forward.widen.state_dict())
            theirs.linear2.load_state_dict(layer.feed_forward.narrow.state_dict())

    def _place(self, vectors: Tensor) -> Tensor:
        placed = vectors * self.scale + self.positions[: vectors.shape[1]]
        return functional.dropout(placed, self.dropout, self.model.training)

    def _encode(self, source: Tensor) -> Tensor:
        return self.core.encoder(self._place(self.source(source)), src_key_padding_mask=source == PADDING_ID)

    def _decode(self, memory: Tensor, source: Tensor, prefix: Tensor) -> Tensor:
        causal = torch.ones(prefix.shape[1], prefix.shape[1], dtype=torch.bool).triu(1)
        vectors = self._place(self.target(prefix))
        hidden = source == PADDING_ID
        return self.core.decoder(vectors, memory, causal, memory_key_padding_mask=hidden, tgt_is_causal=True)

    def log_probs(self, pairs: Any) -> Tensor:
        """Returns (labels, vocabulary)."""
        self.model.eval()
        states = self._decode(self._encode(pairs.source), pairs.source, pairs.prefix)
        return self.output(states[pairs.keep]).log_softmax(-1)

    def train_step(self, pairs: Any) -> None:
        """Makes one update."""
        self.model.train()
        logits = self.output(self._decode(self._encode(pairs.source), pairs.source, pairs.prefix))
        labels = pairs.labels.flatten()
        loss = functional.cross_entropy(
            logits.flatten(0, 1), labels, ignore_index=PADDING_ID, label_smoothing=SMOOTHING
        )
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    @torch.inference_mode()
    def translate(self, pairs: Any, beam: int, length: int) -> Tensor:
        """Returns greedy tokens; the module keeps nothing between steps, so each reads the whole prefix again."""
        self.model.eval()
        memory = self._encode(pairs.source)
        prefix = torch.full((len(pairs.source), 1), BEGIN_ID)
        for _ in range(length):
            states = self._decode(memory, pairs.source, prefix)[:, -1]
            prefix = torch.cat((prefix, self.output(states).argmax(-1, keepdim=True)), dim=1)
        return prefix[:, 1:]


class JoeyNmt:
    """Joey NMT's model, loss, optimizer and search."""

    name = "Joey NMT"

    def __init__(self, settings: TransformerSettings, vocab: int, ours: Transformer) -> None:
        from joeynmt.builders import build_optimizer
        from joeynmt.model import build_model
        from joeynmt.vocabulary import Vocabulary

        # Joey's control symbols have other ids.
        self.ids = torch.arange(vocab)
        self.ids[[BEGIN_ID, END_ID, PADDING_ID]] = torch.tensor([2, 3, 1])
        symbols = {"unk": 0, "pad": 1, "bos": 2, "eos": 3}
        names = {f"{name}_token": f"<{name}>" for name in symbols}
        special = SimpleNamespace(
            **names, **{f"{name}_id": number for name, number in symbols.items()}, lang_tags=[], sep_token=None
        )
        pieces = Vocabulary([f"p{number}" for number in range(len(symbols), vocab)], special)
        side = {
            "type": "transformer",
            "num_heads": settings.heads,
            "embeddings": {"embedding_dim": settings.dim, "scale": True, "dropout": settings.dropout},
            "hidden_size": settings.dim,
            "ff_size": settings.ffn,
            "dropout": settings.dropout,
            "layer_norm": settings.norm,
        }
        layers = {"encoder": settings.encoder_layers, "decoder": settings.decoder_layers}
        sides = {name: {**side, "num_layers": count} for name, count in layers.items()}
        self.model = build_model({**sides, "initializer": "xavier_uniform"}, pieces, pieces)
        self.model.loss_function = ("crossentropy", SMOOTHING)
        self._copy(ours)
        self.batches: dict[Any, Any] = {}
        self.optimizer = build_optimizer({"optimizer": "adam", "learning_rate": 1e-4}, self.model.parameters())

    @torch.no_grad()
    def _copy(self, ours: Transformer) -> None:
        model = self.model
        for theirs, own in (
            (model.src_embed.lut, ours.source_table),
            (model.trg_embed.lut, ours.target_table),
            (model.decoder.output_layer, ours.output),
        ):
            theirs.weight[self.ids] = own.weight
        for theirs, layer in zip(
            (*model.encoder.layers, *model.decoder.layers), (*ours.encoder, *ours.decoder), strict=True
        ):
            if hasattr(layer, "cross"):
                pairs = [(theirs.trg_trg_att, layer.own), (theirs.src_trg_att, layer.cross)]
            else:
                pairs = [(theirs.src_src_att, layer.own)]
            for attention, own in pairs:
                linears = (attention.q_layer, attention.k_layer, attention.v_layer)
                for linear, weight, bias in zip(linears, *(part.chunk(3) for part in stacked(own)), strict=True):
                    linear.weight.copy_(weight)
                    linear.bias.copy_(bias)
                attention.output_layer.load_state_dict(own.output.state_dict())
            widen, _, _, narrow, _ = theirs.feed_forward.pwff_layer
            widen.load_state_dict(layer.feed_forward.widen.state_dict())
            narrow.load_state_dict(layer.feed_forward.narrow.state_dict())

    def _batch(self, pairs: Any) -> Any:
        if pairs not in self.batches:  # outside what is timed, from the second round on
            self.batches[pairs] = self._make_batch(pairs)
        return self.batches[pairs]

    def _make_batch(self, pairs: Any) -> Any:
        from joeynmt.batch import Batch

        target = torch.cat((pairs.prefix[:, :1], pairs.labels), dim=1)
        return Batch(
            src=self.ids[pairs.source],
            src_length=pairs.mask.sum(1),
            src_prompt_mask=None,
            trg=self.ids[target],
            trg_prompt_mask=None,
            indices=torch.arange(len(target)),
            device=torch.device("cpu"),
            pad_index=1,
            eos_index=3,
        )

    def log_probs(self, pairs: Any) -> Tensor:
        """Returns (labels, vocabulary)."""
        _, log_probs, _, _ = self.model.eval()(return_type="loss", **vars(self._batch(pairs)))
        return log_probs[pairs.keep][:, self.ids]

    def train_step(self, pairs: Any) -> None:
        """Makes one update, as ``TrainManager._train_step`` does it."""
        batch = self._batch(pairs)
        self.model.train()
        loss, _, _, correct = self.model(return_type="loss", **vars(batch))
        loss = batch.normalize(loss, "tokens")
        loss.backward()
        correct.item()
        self.optimizer.step()
        self.model.zero_grad()

    def translate(self, pairs: Any, beam: int, length: int) -> Tensor:
        """Returns ``length`` tokens of every sentence; pieces have the same ids as ours."""
        from joeynmt.search import search

        self.model.eval()
        found, _, _ = search(self.model, self._batch(pairs), length, beam_size=beam, beam_alpha=1.0)
        return torch.from_numpy(found)
