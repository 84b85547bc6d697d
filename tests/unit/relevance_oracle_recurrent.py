"""Relevance in LSTM and FConv the slow way: one sentence and one step at a time, and a tape of what was computed.

The forward pass writes down every vector with what it was made of. The way back knows no architecture: it reads the
tape from its end, and asks ``Oracle`` for what automatic Jacobians say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from relevance_oracle import Function, Oracle
from torch import Tensor

from alignlens.models.fconv import Fconv
from alignlens.models.lstm import Lstm

HALF = math.sqrt(0.5)

Back = Callable[[Tensor], Sequence[Tensor]]  # of the relevance of a vector, that of what it was made of


class Node:
    """A vector of the forward pass, and the relevance that has come to it so far."""

    def __init__(self, value: Tensor, parents: Sequence[Node], back: Back | None) -> None:
        self.value, self.parents, self.back = value.detach(), parents, back
        self.relevance = torch.zeros_like(self.value)


class Tape:
    """All vectors in the order in which they were computed."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.nodes: list[Node] = []

    def add(self, value: Tensor, parents: Sequence[Node] = (), back: Back | None = None) -> Node:
        self.nodes.append(Node(value, parents, back))
        return self.nodes[-1]

    def function(self, function: Function, *parents: Node) -> Node:
        """Adds what is a linear function, or any for which derivatives are taken."""
        values = [parent.value for parent in parents]
        return self.add(function(*values), parents, lambda given: self.oracle.rule(function, values, given))

    def handed_on(self, value: Tensor, parent: Node) -> Node:
        """Adds what gives all its relevance to one vector of the same width."""
        return self.add(value, (parent,), lambda given: (given,))

    def summed(self, first: Node, second: Node, factor: float = 1.0) -> Node:
        return self.function(lambda one, other: factor * one + factor * other, first, second)

    def side_by_side(self, nodes: Sequence[Node]) -> Node:
        sizes = [len(node.value) for node in nodes]
        return self.add(torch.cat([node.value for node in nodes]), nodes, lambda given: given.split(sizes))

    def attention(self, query: Node, keys: Sequence[Node], values: Sequence[Node]) -> Node:
        compared, received = (torch.stack([node.value for node in nodes]) for nodes in (keys, values))

        def back(given: Tensor) -> list[Tensor]:
            of_query, of_keys, of_values = self.oracle.attention(query.value, compared, received, given)
            return [of_query, *of_keys, *of_values]

        weights = torch.softmax(compared @ query.value, 0)
        return self.add(weights @ received, (query, *keys, *values), back)

    def mean(self, nodes: Sequence[Node]) -> Node:
        return self.function(lambda *values: sum(values) / len(nodes), *nodes)

    def read_back(self, top: Node, relevance: Tensor) -> None:
        top.relevance = relevance
        for node in reversed(self.nodes):
            if node.back is not None and float(node.relevance.abs().sum()):
                for parent, given in zip(node.parents, node.back(node.relevance), strict=True):
                    parent.relevance = parent.relevance + given


Explained = tuple[Tensor, Tensor, Tensor]  # relevance of source and of prefix vectors, and the last state


def explained(tape: Tape, model: Lstm | Fconv, inputs: Sequence[Sequence[Node]], top: Node, token: int) -> Explained:
    """Returns the relevance of the inputs if the score of a token has 1."""
    score = tape.function(lambda state: model.output(state)[token : token + 1], top)
    tape.read_back(score, torch.ones_like(score.value))
    source, prefix = (torch.stack([node.relevance for node in nodes]) for nodes in inputs)
    return source, prefix, top.value


class Cell:
    """One direction of one layer of an ``nn.LSTM``."""

    def __init__(self, tape: Tape, layers: torch.nn.LSTM, suffix: str) -> None:
        self.tape = tape
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        parts = [getattr(layers, f"{name}_{suffix}").detach().chunk(4) for name in names]
        self.admit, self.keep, self.content, self.show = (
            (w_input, w_state, b_input + b_state) for w_input, w_state, b_input, b_state in zip(*parts, strict=True)
        )

    def step(self, read: Node, hidden: Node | None, cell: Node | None) -> tuple[Node, Node]:
        """Returns hidden and cell state; without states before, the first step of a sentence."""
        size = len(self.show[2])
        width = len(read.value)  # narrower than the layer's input where the feed is not there yet
        before = torch.zeros(size).double() if hidden is None else hidden.value

        def gate(which: tuple[Tensor, Tensor, Tensor]) -> Tensor:
            return torch.sigmoid(which[0][:, :width] @ read.value + which[1] @ before + which[2])

        weight, recurrent, bias = self.content
        if hidden is None:
            content = self.tape.function(lambda x: weight[:, :width] @ x + bias, read)
        else:
            content = self.tape.function(lambda x, h: weight[:, :width] @ x + recurrent @ h + bias, read, hidden)
        admitted = self.tape.handed_on(gate(self.admit) * torch.tanh(content.value), content)
        if cell is None:
            kept = self.tape.add(torch.zeros_like(admitted.value))
        else:
            kept = self.tape.handed_on(gate(self.keep) * cell.value, cell)
        after = self.tape.summed(kept, admitted)
        return self.tape.handed_on(gate(self.show) * torch.tanh(after.value), after), after


def lstm(model: Lstm, oracle: Oracle, source: Tensor, prefix: Tensor, token: int) -> Explained:
    """Returns the relevance of source vectors (source, dim) and prefix vectors for the score of a token after them."""
    tape, settings = Tape(oracle), model.settings
    inputs = [[tape.add(vector) for vector in vectors] for vectors in (source, prefix)]
    states, finals = inputs[0], []
    for number in range(settings.encoder_layers):
        found = []
        for suffix in ("", "_reverse") if settings.bidirectional else ("",):
            cell, order = Cell(tape, model.encoder, f"l{number}{suffix}"), list(range(len(states)))
            made: dict[int, Node] = {}
            last: tuple[Node | None, Node | None] = (None, None)
            for place in reversed(order) if suffix else order:
                last = cell.step(states[place], *last)
                made[place] = last[0]
            found.append((made, last))
        states = [tape.side_by_side([made[place] for made, _ in found]) for place in range(len(states))]
        ends = zip(*(last for _, last in found), strict=True)
        finals.append([tape.mean(each) if len(each) > 1 else each[0] for each in ends])
    surplus = settings.encoder_layers - settings.decoder_layers
    running = [finals[max(0, surplus + number)] for number in range(settings.decoder_layers)]
    cells = [Cell(tape, model.decoder, f"l{number}") for number in range(settings.decoder_layers)]
    feed: Node | None = None
    for vector in inputs[1]:
        read = vector if feed is None else tape.side_by_side([vector, feed])
        for number, cell in enumerate(cells):
            running[number] = list(cell.step(read, *running[number]))
            read = running[number][0]
        top = _output(tape, model, read, states)
        feed = top if settings.input_feeding else None
    return explained(tape, model, inputs, top, token)


def _output(tape: Tape, model: Lstm, recurrent: Node, states: Sequence[Node]) -> Node:
    """Returns what the output layer reads."""
    if model.settings.attention == "uniform":
        values = torch.stack([state.value for state in states])

        def back(given: Tensor) -> Tensor:
            return tape.oracle.rule(lambda many: many.mean(0), (values,), given)[0]

        context = tape.add(values.mean(0), states, back)
    else:
        context = tape.attention(tape.function(model.bilinear, recurrent), states, states)
    projected = tape.function(model.from_context, context)
    if model.settings.output == "linear":
        return tape.summed(recurrent, projected)
    if model.settings.output == "luong":
        summed = tape.summed(tape.function(model.inner, recurrent), projected)
        return tape.handed_on(torch.tanh(summed.value), summed)
    hidden = tape.function(lambda state, seen: model.inner(torch.cat((state, seen))), recurrent, projected)
    activation = torch.tanh if model.settings.activation == "tanh" else torch.relu
    return tape.handed_on(activation(hidden.value), hidden)


def fconv(model: Fconv, oracle: Oracle, source: Tensor, prefix: Tensor, token: int) -> Explained:
    """Returns the relevance of source vectors (source, dim) and prefix vectors for the score of a token after them."""
    tape, width = Tape(oracle), model.settings.width
    inputs = [
        [tape.add(vector) for vector in vectors + positions[: len(vectors)].detach()]
        for vectors, positions in ((source, model.source_positions), (prefix, model.target_positions))
    ]
    stream = [tape.function(model.encoder_in, vector) for vector in inputs[0]]
    for convolution in model.encoder:
        gated = [_gated(tape, convolution, stream, place - (width - 1) // 2, width) for place in range(len(stream))]
        stream = [tape.summed(added, x, HALF) for added, x in zip(gated, stream, strict=True)]
    memory = [tape.function(model.encoder_out, vector) for vector in stream]
    scale = math.sqrt(len(source) / 2)
    values = [tape.summed(state, vector, scale) for state, vector in zip(memory, inputs[0], strict=True)]
    stream = [tape.function(model.decoder_in, vector) for vector in inputs[1]]
    for layer in model.decoder:
        above = []
        for place, (x, vector) in enumerate(zip(stream, inputs[1], strict=True)):
            convolved = _gated(tape, layer.convolution, stream, place - (width - 1), width)
            query = tape.summed(tape.function(layer.query, convolved), vector, HALF)
            attended = tape.function(layer.attended, tape.attention(query, memory, values))
            above.append(tape.summed(tape.summed(convolved, attended, HALF), x, HALF))
        stream = above
    top = tape.function(model.decoder_out, stream[-1])
    return explained(tape, model, inputs, top, token)


def _gated(tape: Tape, convolution: torch.nn.Linear, stream: Sequence[Node], first: int, width: int) -> Node:
    """Returns what a gated convolution makes of the window that begins at ``first``."""
    seen = [place for place in range(first, first + width) if 0 <= place < len(stream)]
    size = len(stream[0].value)
    content, gate = (
        (
            torch.cat([weight[:, (place - first) * size : (place - first + 1) * size] for place in seen], 1),
            bias,
        )
        for weight, bias in zip(convolution.weight.detach().chunk(2), convolution.bias.detach().chunk(2), strict=True)
    )
    read = tape.side_by_side([stream[place] for place in seen])
    found = tape.function(lambda window: content[0] @ window + content[1], read)
    return tape.handed_on(found.value * torch.sigmoid(gate[0] @ read.value + gate[1]), found)
