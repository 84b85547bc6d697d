"""Tables of the study as records: printed numbers and ours, without any form."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.metrics.calibration import ENTROPY_EDGES
from alignlens.studies.lu2021 import published
from alignlens.studies.lu2021.evidence import SYSTEMS
from alignlens.studies.lu2021.readings import Run
from alignlens.studies.lu2021.runs import BASELINE, FUSIONS, GATE, alpha_of, calibrated, pairs_of
from alignlens.studies.tables import Estimate, rounded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alignlens.display.render import Table
    from alignlens.metrics.sampled import Sampled
    from alignlens.studies.lu2021.evidence import Evidence
    from alignlens.studies.lu2021.published import PrintedBleu
    from alignlens.studies.lu2021.readings import Bitext, BleuComparison, Compared

TEXT_COLUMNS = ("origin", "name", "direction", "train", "dev", "test", "vocabulary")
BLEU_COLUMNS = (
    "table", "system", "test_set", "published", "published_significant", "quoted", "ours", "low", "high", "gain",
    "gain_low", "gain_high", "p_value", "p_bootstrap", "p_randomisation", "seeds", "sentences", "signature",
)  # fmt: skip
COMPARED_COLUMNS = (
    "comparison", "dataset", "direction", "model", "bleu", "low", "high", "difference", "difference_low",
    "difference_high", "p_value", "p_bootstrap", "p_randomisation", "seeds", "sentences", "baseline", "signature",
)  # fmt: skip
ENTROPY_COLUMNS = ("layer", "what", "test_set", "model", "published", "ours", "low", "high")
MEASURED_COLUMNS = ("dataset", "direction", "model", "quantity", "layer", "bin", "mean", "low", "high", "seeds")
#: Directions that have a table of their own; all others stand in Table 4.
_TABLES = {"en-de": 2, "zh-en": 3}
OVERALL = {
    "entropy_change_of_rows": "all: mean over layers",
    "entropy_change_of_mean": "all: attention averaged over layers and heads",
}
CHANGE, CHECK = "change within the model", "against the baseline"
BINS = (
    f"below {ENTROPY_EDGES[0]:g}",
    *(f"{low:g} to {high:g}" for low, high in pairwise(ENTROPY_EDGES)),
    f"above {ENTROPY_EDGES[-1]:g}",
)


def short(model: str) -> str:
    """Returns what a model is called in tables."""
    alpha, pairs = alpha_of(model), pairs_of(model)
    if alpha is not None:
        return f"{GATE}, alpha {alpha:g}"
    name = model.removeprefix("lu_")
    return name if pairs is None else f"{name.removesuffix(f'_{pairs}')}, {pairs:,} pairs"


def text_records(evidence: Evidence) -> list[dict[str, Any]]:
    """Returns Table 1: the paper's texts, then ours in the directions that are translated."""
    printed = [{"origin": "print", "name": text.source, **text._asdict()} for text in published.texts()]
    ours = []
    for test_set in evidence.test_sets:
        if (text := evidence.texts.get(test_set.dataset)) is None:
            continue
        card = evidence.cards.get(test_set.run(BASELINE))
        sizes = {name: getattr(text, name) for name in ("train", "dev", "test")}
        known = None if card is None else max(card.vocabulary)
        ours.append({"origin": "ours", "name": test_set.dataset, "direction": test_set.direction, **sizes})
        ours[-1]["vocabulary"] = known
    return [{name: record[name] for name in TEXT_COLUMNS} for record in (*printed, *ours)]


@dataclass(frozen=True)
class BleuCell:
    """A system on a test set of ours."""

    test_set: Bitext
    comparison: BleuComparison
    scored: Compared


@dataclass(frozen=True)
class BleuTable:
    """Table 2, 3 or 4: printed systems and test sets, and ours of the directions that belong there."""

    number: int
    printed: dict[tuple[str, str], PrintedBleu]
    ours: tuple[BleuCell, ...]

    @property
    def systems(self) -> list[str]:
        """The systems in the order of print."""
        return list(dict.fromkeys(system for system, _ in self.printed))

    @property
    def printed_sets(self) -> list[str]:
        """The test sets in print."""
        return list(dict.fromkeys(test_set for _, test_set in self.printed))

    @property
    def beside(self) -> list[str]:
        """The test sets in print that stand beside ours: those of our directions, or all where there is none of ours.

        Tables 2 and 3 have one direction each, so ours belong there by theirs.
        """
        ours = {test_set.direction for test_set in self.test_sets}
        if not ours or self.number in _TABLES.values():
            return self.printed_sets
        return [name for name in self.printed_sets if name in ours]

    @property
    def test_sets(self) -> list[Bitext]:
        """Ours."""
        return list(dict.fromkeys(cell.test_set for cell in self.ours))

    def cell(self, system: str, test_set: Bitext) -> BleuCell | None:
        """Returns a system of ours by its name in print."""
        return next(
            (cell for cell in self.ours if (short(cell.scored.model), cell.test_set) == (system, test_set)), None
        )


def bleu_tables(evidence: Evidence) -> list[BleuTable]:
    """Returns Tables 2 to 4."""
    cells = [
        BleuCell(comparison.test_set, comparison, scored)
        for comparison in evidence.comparisons
        for model in SYSTEMS
        if comparison.baseline == BASELINE and (scored := comparison.of(model)) is not None
    ]
    once = {(cell.test_set, cell.scored.model): cell for cell in reversed(cells)}
    ordered = sorted(once.values(), key=cells.index)
    return [
        BleuTable(
            number,
            published.bleu(number),
            tuple(cell for cell in ordered if _TABLES.get(cell.test_set.direction, 4) == number),
        )
        for number in (2, 3, 4)
    ]


def bleu_records(table: BleuTable) -> list[dict[str, Any]]:
    """Returns a table as records: print first, then ours; None where there is no number."""
    nothing: dict[str, Any] = dict.fromkeys(BLEU_COLUMNS)
    records = [
        {
            **nothing,
            "table": table.number,
            "system": system,
            "test_set": test_set,
            "published": each.value,
            "published_significant": "yes" if each.significant else "no",
            "quoted": "yes" if each.quoted else "no",
        }
        for (system, test_set), each in table.printed.items()
    ]
    for cell in table.ours:
        scored = cell.scored
        numbers = {"ours": scored.bleu, "low": scored.low, "high": scored.high, "gain": scored.difference}
        numbers |= {"gain_low": scored.difference_low, "gain_high": scored.difference_high}
        numbers |= {name: getattr(scored, name) for name in ("p_value", "p_bootstrap", "p_randomisation")}
        about = {"table": table.number, "system": short(scored.model), "test_set": str(cell.test_set)}
        facts = {"seeds": scored.seeds, "sentences": cell.comparison.sentences, "signature": cell.comparison.signature}
        records.append({**nothing, **about, **{key: rounded(value) for key, value in numbers.items()}, **facts})
    return records


def compared_records(evidence: Evidence) -> list[dict[str, Any]]:
    """Returns every comparison of BLEU, system by system."""
    return [
        {
            "comparison": comparison.name,
            **comparison.test_set._asdict(),
            **{key: value if key == "model" else rounded(value) for key, value in system._asdict().items()},
            "seeds": system.seeds,
            **{name: getattr(comparison, name) for name in ("sentences", "baseline", "signature")},
        }
        for comparison in evidence.comparisons
        for system in comparison.systems
    ]


@dataclass(frozen=True)
class EntropyCell:
    """A number of Table 5: in a layer (from 1) or over all, of print or of ours."""

    layer: str
    what: str
    test_set: str
    model: str
    printed: float = math.nan
    ours: Estimate = field(default_factory=Estimate)


def entropy_cells(evidence: Evidence) -> list[EntropyCell]:
    """Returns Table 5: print, then the change within each calibrated model, then what a separate baseline has."""
    cells = [
        EntropyCell(layer, CHANGE, direction, "print", value)
        for (layer, direction), value in published.entropy_changes().items()
    ]
    for test_set in evidence.test_sets:
        for fusion in FUSIONS:
            cells += _changes(evidence, test_set.run(calibrated(fusion)))
    return cells


def _changes(evidence: Evidence, run: Run) -> Iterator[EntropyCell]:
    about, seeds = (str(run.test_set), run.model), len(evidence.calibrations.get(run, {}))
    for layer, change in enumerate(evidence.by_layer(run, "entropy_change"), 1):
        yield EntropyCell(str(layer), CHANGE, *about, ours=evidence.estimate(change, seeds))
    for quantity, name in OVERALL.items():
        if (overall := evidence.measured(run, quantity)) is not None:
            yield EntropyCell(name, CHANGE, *about, ours=evidence.estimate(overall, seeds))
    combined = evidence.by_layer(run, "entropy_combined")
    separate = evidence.by_layer(run.test_set.run(BASELINE), "entropy_original")
    if len(combined) == len(separate):
        for layer, (one, other) in enumerate(zip(combined, separate, strict=True), 1):
            yield EntropyCell(str(layer), CHECK, *about, ours=evidence.estimate(one - other, seeds))


def entropy_records(cells: list[EntropyCell]) -> list[dict[str, Any]]:
    """Returns Table 5 as records."""
    return [
        {
            "layer": cell.layer,
            "what": cell.what,
            "test_set": cell.test_set,
            "model": cell.model,
            "published": rounded(cell.printed),
            **{name: rounded(value) for name, value in _numbers(cell.ours).items()},
        }
        for cell in cells
    ]


def _numbers(ours: Estimate) -> dict[str, float]:
    return {"ours": ours.mean, "low": ours.low, "high": ours.high}


def measured_records(evidence: Evidence) -> list[dict[str, Any]]:
    """Returns everything that was measured on attention and masks, place by place; layers count from 1."""
    records = []
    for run, seeds in evidence.calibrations.items():
        first = next(iter(seeds.values()))
        for quantity, totals in first.totals.items():
            for place in np.ndindex(totals.shape[1:]):
                estimate = evidence.estimate(evidence.measured(run, quantity, *place), len(seeds))
                if estimate.known:
                    records.append(
                        {
                            **run._asdict(),
                            "quantity": quantity,
                            "layer": place[0] + 1 if place else None,
                            "bin": BINS[place[1]] if len(place) > 1 else None,
                            **{name: _fine(getattr(estimate, name)) for name in ("mean", "low", "high")},
                            "seeds": len(seeds),
                        }
                    )
    return records


def _fine(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)


def analysed_runs(evidence: Evidence, quantity: str, *models: str) -> list[Run]:
    """Returns the runs that a quantity was measured of: of some models, or of all that have masks."""
    return [
        run
        for run, seeds in evidence.calibrations.items()
        if (not models or run.model in models) and all(quantity in sums.totals for sums in seeds.values())
    ]


def bin_estimates(evidence: Evidence, run: Run, layer: int) -> list[Estimate]:
    """Returns the divergence of a layer by bin of entropy."""
    measured: list[Sampled | None] = [
        evidence.measured(run, "jsd_by_entropy", layer, place) for place in range(len(BINS))
    ]
    return [evidence.estimate(each, len(evidence.calibrations[run]), "no rows") for each in measured]


def shown_records(table: Table) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """Returns the columns and the numbers of a table that is shown; calibration.csv has their limits."""
    records = []
    for row in table.rows:
        values = [
            cell.text if place < table.labels else _fine(math.nan if cell.number is None else cell.number)
            for place, cell in enumerate(row)
        ]
        records.append(dict(zip(table.header, values, strict=True)))
    return table.header, records
