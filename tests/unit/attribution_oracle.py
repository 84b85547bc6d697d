"""A slow, plain version of every method: one sentence, one copy and one target position at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from alignlens.attribution.noise import unit_noise
from alignlens.attribution.registry import Method
from alignlens.corpora.symbols import BEGIN_ID, END_ID
from alignlens.models.contract import Attention, Seq2Seq


def oracle(model: Seq2Seq, source: list[int], target: list[int], number: int, method: Method) -> np.ndarray:
    """Returns the scores (target, source) of one sentence pair."""
    settings = method.parameters
    sigma = settings.get("sigma", 0.0)
    embeddings = model.embed_source(torch.tensor([[*source, END_ID]])).detach()
    if method.name == "integrated_gradients":
        return integrated_gradients(model, embeddings, target, method).numpy()
    if method.name == "occlusion":
        return occlusion(model, embeddings, target, method.parameters["score"]).numpy()
    copies = []
    for copy in range(settings["n"] if sigma else 1):
        vectors = embeddings.clone()
        if sigma:
            spread = embeddings.max() - embeddings.min()
            noise = unit_noise(settings["seed"], number, [copy], *embeddings.shape[1:])
            vectors = vectors + sigma * spread * noise
        copies.append(_copy(model, vectors, embeddings, target, method))
    if not method.name.endswith("grad"):
        return torch.stack(copies).mean(0).numpy()
    if settings.get("order", "clip_then_mean") in ("clip_then_mean", "normalise_then_mean"):
        return torch.stack([_normalised(scores) for scores in copies]).mean(0).numpy()
    return _normalised(torch.stack(copies).mean(0)).numpy()


def integrated_gradients(model: Seq2Seq, embeddings: Tensor, target: list[int], method: Method) -> Tensor:
    """Returns (target, source): gradient times embedding at every point of the path by itself, and their mean."""
    count = method.parameters["n"]
    points = [(2 * point + 1) / (2 * count) for point in range(count)]
    with model.scaled(method.parameters["gradient"] == "train"):
        found = torch.stack([_copy(model, point * embeddings, embeddings, target, method) for point in points]).mean(0)
    return {"signed": found, "positive": found.clamp(min=0), "absolute": found.abs()}[method.parameters["reading"]]


@torch.no_grad()
def occlusion(model: Seq2Seq, embeddings: Tensor, target: list[int], score: str) -> Tensor:
    """Returns (target, source): what log p or p loses without one source vector, each sentence with a gap by itself."""
    mask, labels = torch.ones(embeddings.shape[:2], dtype=torch.bool), torch.tensor([*target, END_ID])

    def of(vectors: Tensor) -> Tensor:
        states = model.decode(
            model.encode(vectors, mask), model.embed_target(torch.tensor([[BEGIN_ID, *target]]))
        ).states
        chosen = model.logits(states[0]).log_softmax(-1)[range(len(labels)), labels]
        return chosen if score == "log_p" else chosen.exp()

    columns = []
    for place in range(embeddings.shape[1]):
        gap = embeddings.clone()
        gap[0, place] = 0
        columns.append(of(embeddings) - of(gap))
    return torch.stack(columns, 1)


def forced_probabilities(model: Seq2Seq, vectors: Tensor, target: list[int], bias: bool = True) -> Tensor:
    """Returns (target, source): p of every label if, at its step alone, all source positions but one are hidden."""
    mask = torch.ones(vectors.shape[:2], dtype=torch.bool)
    memory = model.encode(vectors, mask)
    state, rows = model.begin(memory), []
    for read, label in zip([BEGIN_ID, *target], [*target, END_ID], strict=True):
        token, row = model.embed_target(torch.tensor([[read]])), []
        for place in range(vectors.shape[1]):
            only = torch.zeros_like(mask)
            only[0, place] = True
            hidden = replace(memory, mask=only)
            there = replace(model.begin(hidden), position=state.position, running=state.running)
            logits = model.logits(model.step(there, token)[0].states)[0, 0]
            if not bias and model.output.bias is not None:
                logits = logits - model.output.bias
            row.append(torch.softmax(logits, -1)[label])
        rows.append(torch.stack(row))
        _, state = model.step(state, token)  # with all positions, as it was
    return torch.stack(rows).detach()


def _copy(model: Seq2Seq, vectors: Tensor, embeddings: Tensor, target: list[int], method: Method) -> Tensor:
    settings = method.parameters
    if method.name == "probe":
        found = forced_probabilities(model, vectors, target, settings["bias"] == "kept")
        return found if settings["scale"] == "p" else found.log()
    leaf = vectors.detach().requires_grad_()
    mask = torch.ones(leaf.shape[:2], dtype=torch.bool)
    prefix = model.embed_target(torch.tensor([[BEGIN_ID, *target]]))
    decoded = model.decode(model.encode(leaf, mask), prefix, trace=True)
    if "attention" in method.name:
        return _attention(model, [layer.weights[0].detach() for layer in decoded.cross], settings)
    if method.name == "norms":
        return _norms([_added(layer) for layer in decoded.cross], settings)
    probabilities = torch.softmax(model.logits(decoded.states), -1)[0]
    rows = []
    for position, label in enumerate([*target, END_ID]):
        if settings["label"] == "runner_up":
            order = probabilities[position].argsort(descending=True)
            label = int(order[1] if order[0] == label else order[0])
        explained = probabilities[position, label]
        if settings["score"] == "log_p":
            explained = explained.log()
        (gradient,) = torch.autograd.grad(explained, leaf, retain_graph=True)
        if method.name.startswith("li") and settings["reading"] == "mean_abs":
            rows.append(gradient[0].abs().mean(-1))
        else:
            signed = (gradient[0] * embeddings[0]).sum(-1)
            rows.append(signed.abs() if method.name.startswith("li") else signed)
    return torch.stack(rows)


def _attention(model: Seq2Seq, cross: list[Tensor], settings: dict[str, object]) -> Tensor:
    layer, head = settings["layer"], settings["head"]
    if layer == "paper":
        layer = "mean" if model.paper_attention == "mean" else len(cross) - 1
    if layer == "middle":
        layer = [0, 0, 1, 1, 2, 2][len(cross) - 1]
    weights = torch.stack(cross).mean(0) if layer == "mean" else cross[layer]
    weights = weights.mean(0) if head == "mean" else weights[head]
    return torch.cat((weights[1:], weights[-1:])) if settings["step"] == "in" else weights


def _added(layer: Attention) -> Tensor:
    """Returns what every head adds for every pair, (head, target, source, dim): the tensor that engines must avoid."""
    weights, values = layer.weights[0].detach(), layer.values[0].detach()
    heads, rows, columns = weights.shape
    added = torch.zeros(heads, rows, columns, layer.projection.shape[-1])
    for head in range(heads):
        for row in range(rows):
            for column in range(columns):
                vector = values[head, column] @ layer.projection[head].detach()
                added[head, row, column] = weights[head, row, column] * vector
    return added


def _norms(layers: list[Tensor], settings: dict[str, object]) -> Tensor:
    layer, head = settings["layer"], settings["head"]
    chosen = layers if layer == "mean" else [layers[layer]]
    norms = [(added.sum(0) if head == "sum" else added[head]).norm(dim=-1) for added in chosen]
    scores = torch.stack(norms).mean(0)
    return torch.cat((scores[1:], scores[-1:])) if settings["step"] == "in" else scores


def _normalised(scores: Tensor) -> Tensor:
    rows = []
    for row in scores:
        positive = row.clamp(min=0)
        if positive.sum() > 0:
            rows.append(positive / positive.sum())
        else:
            rows.append(torch.nn.functional.one_hot(row.argmax(), len(row)).to(row))
    return torch.stack(rows)
