"""The classifier: a recurrent network whose attention chooses the words that count, and the bag of words beside it.

With states h_l, of both directions, the attention is the softmax over l of v . relu(Q h_l + b) + b', and the score of a
text is the sum over l of attention_l * (w . h_l + c); its sigmoid is the probability of the positive class. The second
factor is what the model would say if all attention sat on l: its *probe*. A bag of words says w . e_l of every word,
whatever stands around it; its score is their mean, plus a bias that is no part of the probe.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from alignlens.classification.recurrence import hidden_states

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from alignlens.classification.examples import Batch
    from alignlens.classification.settings import ClassifierSettings


class Scores(NamedTuple):
    """The output of a model for a batch of texts."""

    attention: Tensor  # (text, position), zero at padding
    probe: Tensor  # (text, position), zero at padding
    score: Tensor  # (text): log-odds of the positive class


class Classifier(nn.Module, ABC):
    """A table of word vectors, and the layers that compute scores from them."""

    def __init__(self, settings: ClassifierSettings, words: int) -> None:
        super().__init__()
        self.settings = settings
        self.table = nn.Embedding(words, settings.width)

    @abstractmethod
    def forward(self, vectors: Tensor, which: Tensor, lengths: Tensor) -> Scores:
        """Returns the scores of texts one after the other, the longest first; token n has ``vectors[which[n]]``."""

    def of(self, batch: Batch) -> Scores:
        """Returns the scores of a batch; equal words are looked at once."""
        words, which = np.unique(batch.ids, return_inverse=True)
        vectors = self.table(torch.from_numpy(words))
        scores: Scores = self(vectors, torch.from_numpy(which.reshape(-1)), torch.from_numpy(batch.lengths))
        return scores

    def learning(self) -> Sequence[nn.Parameter]:
        """Returns the parameters that training changes."""
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def sizes(self) -> dict[str, int]:
        """Returns the number of parameters, with word vectors and without."""
        total = sum(parameter.numel() for parameter in self.parameters())
        return {"parameters": total, "parameters_without_embeddings": total - self.table.weight.numel()}


class LstmClassifier(Classifier):
    """The recurrent network with attention."""

    def __init__(self, settings: ClassifierSettings, words: int) -> None:
        super().__init__(settings, words)
        states = settings.hidden * (2 if settings.bidirectional else 1)
        self.encoder = nn.LSTM(settings.width, settings.hidden, batch_first=True, bidirectional=settings.bidirectional)
        self.query = nn.Linear(states, settings.hidden)  # Q and b
        self.attend = nn.Linear(settings.hidden, 1)  # v and b'
        self.output = nn.Linear(states, 1)  # w and c
        attention = (self.query, self.attend)
        if settings.trained == "attention":
            self.requires_grad_(requires_grad=False)
        for part in attention:
            part.requires_grad_(requires_grad=settings.attention == "learned")

    def forward(self, vectors: Tensor, which: Tensor, lengths: Tensor) -> Scores:
        """Returns the scores of texts one after the other, the longest first; token n has ``vectors[which[n]]``."""
        states = hidden_states(self.encoder, vectors, which, lengths)
        probe = padded(self.output(states)[:, 0], lengths, 0.0)
        if self.settings.attention == "uniform":
            attention = uniform(lengths)
        else:
            logits = self.attend(functional.relu(self.query(states)))[:, 0]
            attention = padded(logits, lengths, -torch.inf).softmax(1)
        return Scores(attention, probe, (attention * probe).sum(1))


class BagOfWords(Classifier):
    """A score for every word, and their mean."""

    def __init__(self, settings: ClassifierSettings, words: int) -> None:
        super().__init__(settings, words)
        self.output = nn.Linear(settings.width, 1)

    def forward(self, vectors: Tensor, which: Tensor, lengths: Tensor) -> Scores:
        """Returns the scores of texts one after the other, the longest first; token n has ``vectors[which[n]]``."""
        probe = padded((vectors @ self.output.weight[0])[which], lengths, 0.0)
        attention = uniform(lengths)
        return Scores(attention, probe, (attention * probe).sum(1) + self.output.bias)


def build(settings: ClassifierSettings, words: int, seed: int | None = None) -> Classifier:
    """Returns a new classifier for this many words; the same ``seed`` gives the same initial weights."""
    if seed is not None:
        torch.manual_seed(seed)
    return BagOfWords(settings, words) if settings.kind == "bag_of_words" else LstmClassifier(settings, words)


def begin_with(model: Classifier, vectors: npt.NDArray[np.float32]) -> None:
    """Gives a model the word vectors that are known; the others stay as they were drawn."""
    known = torch.from_numpy(vectors)
    with torch.no_grad():
        model.table.weight.copy_(torch.where(known.isnan(), model.table.weight, known))


def padded(values: Tensor, lengths: Tensor, fill: float) -> Tensor:
    """Returns a number per token as (text, position)."""
    padded = values.new_full((len(lengths), int(lengths[0])), fill)
    return padded.masked_scatter(_real(lengths), values)


def uniform(lengths: Tensor) -> Tensor:
    """Returns attention (text, position) that is the same on all words of a text, and zero at padding."""
    return _real(lengths) / lengths[:, None]


def _real(lengths: Tensor) -> Tensor:
    return torch.arange(int(lengths[0])) < lengths[:, None]
