"""What each experiment holds, and which columns MLflow's table of its runs should show.

Both are tags of an experiment, as MLflow's UI itself writes them: a description, and a saved view in the menu *Views*.
By itself MLflow shows no metric and cuts the names of runs off.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from alignlens.studies.registry import studies

if TYPE_CHECKING:
    from collections.abc import Mapping

_DESCRIPTION = "mlflow.note.content"
_VIEW = "mlflow.sharedViewState.alignlens"
_NAME = "attributes.`Run Name`"
_NAME_PIXELS = 560


@dataclass(frozen=True)
class View:
    """A saved view: its name in the menu, columns from left to right, and the one to sort by (-: largest first)."""

    name: str
    columns: tuple[str, ...]
    sort: str

    def tag(self) -> str:
        """Returns what MLflow stores of it: the state of its table, packed."""
        columns = [_quoted(column) for column in self.columns]
        state = {
            "searchFilter": "",
            "orderByKey": _quoted(self.sort.removeprefix("-")),
            "orderByAsc": not self.sort.startswith("-"),
            "startTime": "ALL",
            "lifecycleFilter": "Active",
            "datasetsFilter": [],
            "modelVersionFilter": "All Runs",
            "selectedColumns": columns,
            "columnOrder": [_NAME, *columns],
            "columnWidths": {_NAME: _NAME_PIXELS},
        }
        packed = base64.b64encode(zlib.compress(json.dumps(state).encode())).decode()
        # The same text every time: a sync must find nothing to do.
        return json.dumps({"name": self.name, "createdAt": 1, "updatedAt": 1, "state": f"deflate;{packed}"})


@dataclass(frozen=True)
class Experiment:
    """What people see of an experiment before they see its runs."""

    description: str
    view: View | None = None

    def tags(self) -> dict[str, str]:
        """Returns the tags that MLflow's UI reads."""
        return {_DESCRIPTION: self.description} | ({} if self.view is None else {_VIEW: self.view.tag()})


_SCORES = ("metrics.aer", "metrics.aer_low", "metrics.aer_high", "metrics.precision", "metrics.recall")

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        "data": Experiment("Prepared text: pairs, words and gold links of every split."),
        "subwords": Experiment("BPE models, and the text in pieces."),
        "train models": Experiment(
            "Trained translation models with their learning curves.",
            View(
                "models by BLEU",
                (
                    "metrics.dev_bleu",
                    "metrics.dev_accuracy",
                    "metrics.dev_perplexity",
                    "metrics.train_loss",
                    "metrics.train_seconds",
                    "params.parameters",
                    "tags.dataset",
                    "tags.direction",
                    "tags.model",
                ),
                "-metrics.dev_bleu",
            ),
        ),
        "import models": Experiment("Translation models from elsewhere, imported as model folders."),
        "train masks": Experiment(
            "Mask nets of trained models, with the effect of their perturbation on the dev text.",
            View(
                "masks by loss",
                (
                    "metrics.dev_mask",
                    "metrics.dev_clean_loss",
                    "metrics.dev_perturbed_loss",
                    "metrics.dev_shuffled_loss",
                    "metrics.train_seconds",
                    "params.objective_alpha",
                    "tags.dataset",
                    "tags.direction",
                    "tags.model",
                ),
                "-metrics.dev_perturbed_loss",
            ),
        ),
        "train classifiers": Experiment(
            "Trained classifiers of labelled texts with their learning curves.",
            View(
                "classifiers by accuracy",
                (
                    "metrics.dev_accuracy",
                    "metrics.dev_loss",
                    "metrics.train_loss",
                    "metrics.train_seconds",
                    "params.parameters",
                    "tags.corpus",
                    "tags.classifier",
                ),
                "-metrics.dev_accuracy",
            ),
        ),
        "explain classifiers": Experiment(
            "What classifiers look at, at every checkpoint, and how good they are there."
        ),
        "trajectory": Experiment(
            "What models look at in a text as they learn, and how good they are at each checkpoint."
        ),
        "agreement": Experiment(
            "How far training runs agree on what matters in a text: agreement A, Kendall's tau, xi.",
            View(
                "agreement by task",
                (
                    "metrics.accuracy/agreement/alpha_beta_uf",
                    "metrics.accuracy/agreement/beta_px_beta_uf",
                    "metrics.accuracy/agreement/Delta_beta_uf",
                    "metrics.accuracy/agreement/alpha_beta",
                    "metrics.accuracy/agreement/random",
                    "metrics.accuracy/xi_star",
                    "tags.task",
                    "tags.split",
                ),
                "tags.task",
            ),
        ),
        "counts": Experiment(
            "Words that occur together in training text, and which of them a bag of words learns first."
        ),
        "toys": Experiment("Generated tasks: how many seeds learn them, and how fast."),
        "translate": Experiment("Translations of the test text."),
        "force": Experiment("Accuracy and perplexity of models on the reference of the test text."),
        "bleu": Experiment("BLEU of the translations."),
        "train aligners": Experiment("Word aligners, trained and stored."),
        "select": Experiment("Sentence pairs chosen from a text for a study."),
        "align": Experiment("Links by stored aligners on text they had not seen."),
        "symmetrize": Experiment("Links of both directions, combined."),
        "score": Experiment(
            "Word aligners against gold links: one run per direction and combination.",
            View(
                "aligners by AER",
                (*_SCORES, "params.train_pairs", "tags.dataset", "tags.aligner", "tags.text", "tags.links"),
                "metrics.aer",
            ),
        ),
        "attribute": Experiment("Scores of all methods for one model, direction and decoding, with what they cost."),
        "reference": Experiment("Links of stored aligners, in place of gold links of models' own translations."),
        "extract": Experiment("Word links read off scores of pieces."),
        "score-part": Experiment("Some methods of a model against gold links; attribution has all of them."),
        "attribution": Experiment(
            "Attribution methods against gold links: one run per method, model, direction and decoding.",
            View(
                "methods by AER",
                (
                    *_SCORES,
                    "metrics.entropy",
                    "metrics.cause_hits",
                    "tags.dataset",
                    "tags.model",
                    "tags.method",
                    "tags.direction",
                    "tags.decoding",
                    "tags.extraction",
                ),
                "metrics.aer",
            ),
        ),
        "calibration": Experiment(
            "What calibration does to attention and loss, and whether attention and masks point at what matters.",
            View(
                "calibration by model",
                (
                    "metrics.loss_clean",
                    "metrics.loss_perturbed",
                    "metrics.loss_shuffled",
                    "metrics.entropy_change_of_rows",
                    "metrics.mask/layer 1",
                    "metrics.jsd/layer 1",
                    "metrics.tau_original/layer 1",
                    "metrics.tau_mask/layer 1",
                    "tags.dataset",
                    "tags.direction",
                    "tags.model",
                ),
                "tags.model",
            ),
        ),
        "encoders": Experiment("Attention weights and norms inside encoders over a text."),
    }
)


def experiment_tags(name: str) -> dict[str, str]:
    """Returns the tags of the experiment of that name; none for one that others made."""
    if name in EXPERIMENTS:
        return EXPERIMENTS[name].tags()
    study = studies().get(name)
    return {} if study is None else Experiment(f"{study.about}: the tables, figures and claims of the study.").tags()


def _quoted(column: str) -> str:
    """Returns a column as MLflow's table calls it, the key in backticks."""
    kind, _, key = column.partition(".")
    return f"{kind}.`{key}`"
