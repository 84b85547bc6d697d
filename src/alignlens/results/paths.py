"""The path grammar of ``results/<preset>/``: the plan and the rules make paths by it, studies and report read them.

Every file has its log and its journal beside it (``.log``, ``.journal.jsonl``), and its runtime under benchmarks/.
Splits are train, dev and test. Links are in the orientation of the dataset, those of free decoding in the model's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

FORCED, FREE = DECODINGS = "forced", "free"
"""What a model is given as its prefix, and explained: the reference, or its own translation."""
FINAL = "final"
"""The weights that training ends in; a snapshot goes by its update."""
TRAIN, DEV, TEST = SPLITS = "train", "dev", "test"


@dataclass(frozen=True)
class PathPattern:
    """A path below the results folder, with names to fill in."""

    pattern: str

    def __str__(self) -> str:
        return self.pattern

    def of(self, **names: object) -> str:
        """Returns the path of these names; names that it does not have are left alone."""
        return self.pattern.format_map(names)

    def partly(self, **names: str) -> str:
        """Returns the path with some names filled in; Snakemake takes the others for wildcards."""
        return re.sub(r"\{(\w+)\}", lambda match: names.get(match[1], match[0]), self.pattern)

    def names(self, path: str) -> dict[str, str] | None:
        """Returns the names in a path, or None if it is another place's."""
        match = self._regex.fullmatch(path)
        return None if match is None else match.groupdict()

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        parts = re.split(r"\{(\w+)\}", self.pattern)
        return re.compile(
            "".join(f"(?P<{part}>[^/]+)" if number % 2 else re.escape(part) for number, part in enumerate(parts))
        )


# The names of a trained model, of an aligner's training, and of a model that is asked what it looked at.
MODEL = "{dataset}/{direction}/{model}/{seed}"
ALIGNER = "{dataset}/{aligner}/{text}/{size}"
ATTRIBUTION = "{dataset}/{model}/{seed}/{weights}/{split}/{decoding}"

PREPARED = PathPattern("data/{dataset}/preparation.json")
TEXT = PathPattern("data/{dataset}/{split}.{side}")  # a side is also gold or causes
SUBWORDS = PathPattern("subwords/{dataset}")
PIECES = PathPattern("pieces/{dataset}/{split}.{side}")
TOKENS = PathPattern("tokens/{dataset}/{split}.{side}")  # the same as numbers, which is what models read

TRAINED = PathPattern(f"models/{MODEL}/model")
MASKS = PathPattern(f"models/{MODEL}/masks")  # the same with mask nets, which were trained alone
OWN_PIECES = PathPattern(f"models/{MODEL}/pieces/{{split}}.{{side}}")  # of a model from elsewhere, by its own subwords
OWN_TOKENS = PathPattern(f"models/{MODEL}/tokens/{{split}}.{{side}}")
TRANSLATION = PathPattern(f"translations/{MODEL}/test.txt")
TRANSLATED_PIECES = PathPattern(f"translations/{MODEL}/test.pieces")  # as they were generated
TRANSLATED_TOKENS = PathPattern(f"translations/{MODEL}/test.tokens")
BLEU = PathPattern(f"translations/{MODEL}/bleu.json")
FORCED_SCORES = PathPattern(f"translations/{MODEL}/forced.json")  # what the model makes of the reference

ALIGNER_MODEL = PathPattern(f"aligners/{ALIGNER}/{{direction}}/model")
ALIGNER_LINKS = PathPattern(f"links/{ALIGNER}/{{links}}.pharaoh")  # of a direction or a symmetrisation
ALIGNER_METRICS = PathPattern(f"scores/{ALIGNER}/metrics.json")
ALIGNER_SENTENCES = PathPattern(f"scores/{ALIGNER}/sentences.npz")  # the same sentence by sentence

ATTRIBUTED = PathPattern(f"attributions/{ATTRIBUTION}/{{direction}}/matrices")  # one matrix per method and sentence
# The direction of links is also bidir, for both together.
METHOD_LINKS = PathPattern(f"attributions/{ATTRIBUTION}/{{direction}}/links")
METHOD_COST = PathPattern(f"attributions/{ATTRIBUTION}/{{direction}}/cost.json")  # what methods cost by themselves
METHOD_METRICS = PathPattern(f"attributions/{ATTRIBUTION}/metrics.json")
METHOD_SENTENCES = PathPattern(f"attributions/{ATTRIBUTION}/sentences.npz")
FREE_GOLD = PathPattern(f"free/{MODEL}/reference.gold")  # what links of free decoding are scored against

PRETRAINED_ENCODER = PathPattern("encoders/{encoder}")
MODEL_ENCODER = PathPattern(f"encoders/{MODEL}")
PRETRAINED_STATISTICS = PathPattern(f"{PRETRAINED_ENCODER}/statistics.json")
MODEL_STATISTICS = PathPattern(f"{MODEL_ENCODER}/statistics.json")

# How models come to attend: what they say of a text at all their checkpoints, and how far they agree.
TRAJECTORY = PathPattern(f"trajectories/{MODEL}/{{split}}")
CLASSIFIER_RUN = "{corpus}/{classifier}/{seed}"
CLASSES = PathPattern("classification/{corpus}/data")  # labelled texts as numbers
CLASSES_PREPARED = PathPattern(f"{CLASSES}/preparation.json")
CLASSIFIER = PathPattern(f"classification/{CLASSIFIER_RUN}/model")
EXPLAINED = PathPattern(f"classification/{CLASSIFIER_RUN}/{{split}}")
LOGISTIC = PathPattern("classification/{corpus}/logistic/{split}")
AGREEMENT = PathPattern("agreement/{task}/{split}/agreement.json")
AGREEMENT_SENTENCES = PathPattern("agreement/{task}/{split}/sentences.npz")
TOY = PathPattern("toys/{toy}.json")
COUNTS = PathPattern("counts/{dataset}/{direction}.json")  # of words on both sides of the training text

# What calibration does to attention, and how models translate against a baseline.
CALIBRATION = PathPattern(f"calibration/{MODEL}/{{split}}.json")
CALIBRATION_SENTENCES = PathPattern(f"calibration/{MODEL}/{{split}}.npz")
COMPARISON = PathPattern("comparisons/{dataset}/{direction}/{comparison}.json")

STUDY = PathPattern("{study}/{file}")
REPORT = PathPattern("report/{file}")
REPORT_PAGE = PathPattern("report.html")
BROWSER = PathPattern("browser")  # a page that shows sentences, and its data
FRONT_PAGE = PathPattern("index.html")  # of all studies
