"""Logistic regression over the words of a text, at many strengths of its regularisation."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from alignlens.classification.examples import Examples
    from alignlens.io.matrices import Matrix

#: The inverse strengths that are tried, from strong to weak.
STRENGTHS = tuple(float(10**power) for power in np.linspace(-5, 4, 19))
_MOST_STEPS = 10_000


@dataclass(frozen=True)
class Fitted:
    """The regression with the best dev accuracy; ties go to the strongest regularisation."""

    weights: npt.NDArray[np.float64]  # (word)
    bias: float
    path: list[dict[str, float]]  # strength, accuracies and steps of all that were tried
    chosen: float

    def scores(self, examples: Examples) -> npt.NDArray[np.float64]:
        """Returns the log-odds of the positive class."""
        sums = np.add.reduceat(self.weights[examples.ids], examples.starts[:-1])
        log_odds: npt.NDArray[np.float64] = sums / examples.lengths + self.bias
        return log_odds

    def performance(self, examples: Examples) -> dict[str, float]:
        """Returns accuracy (a share) and mean loss (nats)."""
        scores = self.scores(examples)
        signed = np.where(examples.labels, scores, -scores)
        return {"accuracy": float(np.mean(signed > 0)), "loss": float(np.mean(np.logaddexp(0, -signed)))}

    def probe(self, examples: Examples) -> list[Matrix]:
        """Returns for every text the weights of its words, turned so that more speaks for its label."""
        signs = np.where(examples.labels, 1.0, -1.0)
        signed = (self.weights[examples.ids] * np.repeat(signs, examples.lengths)).astype(np.float32)
        return [signed[None, start:stop] for start, stop in zip(examples.starts[:-1], examples.starts[1:], strict=True)]


def fit(train: Examples, dev: Examples, words: int, advance: Callable[[int], None] = lambda done: None) -> Fitted:
    """Returns the best regression over counts of words divided by the length of the text."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    features, held_out = (_features(examples, words) for examples in (train, dev))
    path: list[dict[str, float]] = []
    best: tuple[float, Any, float] | None = None
    for strength in STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=_MOST_STEPS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # The steps made are in the path.
            model.fit(features, train.labels)
        accuracy = float(model.score(held_out, dev.labels))
        facts = {"train_accuracy": float(model.score(features, train.labels)), "steps": float(model.n_iter_[0])}
        path.append({"strength": strength, "dev_accuracy": accuracy, **facts})
        if best is None or accuracy > best[0]:
            best = accuracy, model, strength
        advance(1)
    assert best is not None  # STRENGTHS is not empty
    return Fitted(best[1].coef_[0].astype(np.float64), float(best[1].intercept_[0]), path, best[2])


def _features(examples: Examples, words: int) -> Any:
    """Returns (text, word): how often a word occurs, divided by the length of the text."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    texts = np.split(examples.ids, examples.starts[1:-1])
    counts = CountVectorizer(analyzer=np.ndarray.tolist, vocabulary=range(words), dtype=np.float64).transform(texts)
    return normalize(counts, norm="l1")
