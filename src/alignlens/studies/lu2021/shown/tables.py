"""The tables of the study in the layout of the paper, print beside ours, and those that the paper has no room for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from alignlens.display.render import Cell, Table
from alignlens.metrics.sampled import mean_of
from alignlens.studies.lu2021 import published
from alignlens.studies.lu2021.evidence import SYSTEMS
from alignlens.studies.lu2021.runs import BASELINE, GATE, calibrated
from alignlens.studies.lu2021.tables import BINS, CHANGE, CHECK, OVERALL, analysed_runs, bin_estimates, short
from alignlens.studies.runs import filter_of
from alignlens.studies.shown import NONE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alignlens.metrics.sampled import Sampled
    from alignlens.studies.lu2021.alignments import LayerLine
    from alignlens.studies.lu2021.evidence import Evidence
    from alignlens.studies.lu2021.published import PrintedBleu
    from alignlens.studies.lu2021.readings import Bitext, Compared
    from alignlens.studies.lu2021.tables import BleuTable, EntropyCell
    from alignlens.studies.tables import Estimate

_SIGNIFICANT = 0.05
_BINS_DIRECTION = "zh-en"  # what the two printed numbers of Figure 7 were measured on
_SUBJECTS = {2: "English-German", 3: "Chinese-English", 4: "other pairs"}
_LAYER_COLUMNS = {
    "mask": "mean mask",
    "entropy_original": "entropy of attention",
    "jsd": "divergence",
    "tau_original": "τ attention",
    "tau_combined": "τ calibrated",
    "tau_mask": "τ mask",
    "tau_original_without_end": "τ attention, no END",
    "tau_mask_without_end": "τ mask, no END",
}
_LOSSES = {"loss_clean": "loss", "loss_perturbed": "perturbed", "loss_shuffled": "shuffled"}


def text_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Returns Table 1."""
    header = ("text", "direction", "training pairs", "dev", "test", "vocabulary")
    rows = []
    for record in records:
        name = record["name"] if record["origin"] == "print" else f"ours: {record['name']}"
        sizes = [record[key] for key in ("train", "dev", "test", "vocabulary")]
        shown = [NONE if size is None else Cell(f"{size:,}", size) for size in sizes]
        rows.append([Cell(name), Cell(record["direction"]), *shown])
    notes = [
        "The paper gives training pairs in millions, with two decimals. The vocabulary is that of the larger side."
    ]
    return Table("lu2021-1", "Table 1: data", header, rows, notes, labels=2)


def bleu_table(table: BleuTable, level: float) -> Table:
    """Returns Table 2, 3 or 4: our test sets with gains and p-values, and print beside those of the same direction."""
    header = ["system", *(f"print, {name}" for name in table.beside)]
    for test_set in table.test_sets:
        header += [f"ours, {test_set}", f"{level:g} %", "gain", f"{level:g} %", "p"]
    rows = []
    for system in table.systems:
        row = [Cell(system)]
        for name in table.beside:
            each = table.printed.get((system, name))
            row.append(NONE if each is None else Cell(_in_print(each), each.value))
        for test_set in table.test_sets:
            cell = table.cell(system, test_set)
            row += [NONE] * 5 if cell is None else _scored(cell.scored, test_set)
        rows.append(row)
    caption = f"Table {table.number}: BLEU, {_SUBJECTS[table.number]}"
    return Table(f"lu2021-{table.number}", caption, tuple(header), rows, _bleu_notes(table), wraps=True)


def _in_print(each: PrintedBleu) -> str:
    return f"{each.value:.2f}{'*' * each.significant}"


def _bleu_notes(table: BleuTable) -> list[str]:
    notes = ["* In print: p < 0.05 against the baseline; the paper does not name the test."]
    if table.number == 3:
        notes.append("AVE is as printed; it is not the mean of the columns beside it.")
    if not table.ours:
        return [*notes, "Nothing in this table was measured here: all numbers are printed ones."]
    elsewhere = [name for name in table.printed_sets if name not in table.beside]
    if elsewhere:
        numbers = (
            f"{name} {', '.join(_in_print(table.printed[system, name]) for system in table.systems)}"
            for name in elsewhere
        )
        notes.append(f"In print, for other language pairs ({', '.join(table.systems)}): {'; '.join(numbers)}.")
    sources = dict.fromkeys(
        f"{cell.comparison.sentences:,} sentences, {cell.comparison.signature}" for cell in table.ours
    )
    notes.append(
        "Printed numbers are shown beside ours where the direction is the same; the text differs. Gains are over our "
        f"baseline, bold where p < {_SIGNIFICANT:g}. p: paired bootstrap / approximate randomisation; with several "
        "seeds, the one that belongs to the interval."
    )
    return [*notes, f"BLEU of ours: {'; '.join(sources)}."]


def _scored(scored: Compared, test_set: Bitext) -> list[Cell]:
    """Returns BLEU with its interval, and the gain with interval and p-values."""
    place = {"dataset": test_set.dataset, "direction": test_set.direction}
    source = tuple(filter_of("bleu", **place, **{name: scored.model}) for name in ("system", "model"))
    bleu = Cell(f"{scored.bleu:.2f}", scored.bleu, detail=_runs(scored.seeds), source=source)
    shown = [bleu, _limits(scored.low, scored.high, 2)]
    if math.isnan(scored.difference):
        return [*shown, NONE, NONE, NONE]
    paired = [scored.p_bootstrap, scored.p_randomisation]
    values = [scored.p_value] if any(map(math.isnan, paired)) else paired
    known = [value for value in values if not math.isnan(value)]
    strong = bool(known) and max(known) < _SIGNIFICANT
    gain = Cell(f"{scored.difference:+.2f}", scored.difference, strong=strong)
    p_values = " / ".join(f"{value:.3f}" for value in known)
    tested = Cell(p_values, max(known)) if known else NONE
    return [*shown, gain, _limits(scored.difference_low, scored.difference_high, 2, sign=True), tested]


def compared_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Returns every system of every comparison."""
    header = (
        "test set",
        "system",
        "BLEU",
        "interval",
        "gain",
        "interval of the gain",
        "p",
        "bootstrap",
        "randomisation",
    )
    rows, told_of = [], set()
    for record in records:
        # The baseline of all text is part of several comparisons.
        place = tuple(record[name] for name in ("dataset", "direction", "model"))
        if place in told_of:
            continue
        told_of.add(place)
        number = {key: math.nan if value is None else value for key, value in record.items()}
        rows.append(
            [
                Cell(f"{record['dataset']} {record['direction']}"),
                Cell(short(record["model"]), detail=_runs(record["seeds"])),
                Cell(f"{record['bleu']:.2f}", record["bleu"]),
                _limits(number["low"], number["high"], 2),
                _number(number["difference"], "+.2f"),
                _limits(number["difference_low"], number["difference_high"], 2, sign=True),
                *(_number(number[key], ".3f") for key in ("p_value", "p_bootstrap", "p_randomisation")),
            ]
        )
    sources = dict.fromkeys(f"{record['sentences']:,} sentences, {record['signature']}" for record in records)
    notes = [
        "Gains are over the baseline of the same amount of text. p belongs to the interval of the gain: sentences are "
        "resampled, and so are seeds if there are several. The other two are for single translations: sacreBLEU's "
        "paired bootstrap and approximate randomisation.",
        *(f"{each}." for each in sources),
    ]
    return Table("lu2021-bleu", "BLEU of all models of the study", header, rows, notes, labels=2)


def entropy_table(cells: Sequence[EntropyCell]) -> Table:
    """Returns Table 5: print, and for our test sets the gate and the check against the baseline."""
    printed = {(cell.layer, cell.test_set): cell.printed for cell in cells if cell.model == "print"}
    gate = [cell for cell in cells if cell.model == calibrated(GATE)]
    ours = {(cell.layer, cell.test_set, cell.what): cell.ours for cell in gate}
    test_sets = list(dict.fromkeys(cell.test_set for cell in gate))
    # Print stands beside ours of the same direction only; where there is none of ours, it stands alone.
    ours_of = {test_set.split()[-1] for test_set in test_sets}
    in_print = list(dict.fromkeys(direction for _, direction in printed))
    directions = [name for name in in_print if name in ours_of or not ours_of]
    numbered = sorted({cell.layer for cell in cells if cell.layer.isdecimal()}, key=int)
    header = ("layer", *(f"print, {name}" for name in directions))
    header += tuple(name for each in test_sets for name in (f"ours, {each}", CHECK))
    rows = []
    for layer in (*numbered, *(["all"] if directions else []), *OVERALL.values()):
        row = [Cell(f"layer {layer}" if layer.isdecimal() else "All, in print" if layer == "all" else layer)]
        row += [_number(printed.get((layer, name), math.nan), "+.4f") for name in directions]
        for each in test_sets:
            row += [_estimate(ours.get((layer, each, what)), 4, sign=True) for what in (CHANGE, CHECK)]
        rows.append(row)
    notes = [
        "Entropy of calibrated attention minus that of the softmax before it, in nats, rows divided by their sum; "
        "above 0 is more spread out. Ours is for the gate; table5.csv has the other fusions.",
        f"{CHECK.capitalize()}: calibrated attention minus attention of the separately trained baseline, as a check.",
        "The paper does not say how the row All was computed. It is not the mean of the layers, and its two numbers "
        "are those of layer 4 with the columns exchanged. Ours has both readings.",
        *(
            f"In print, {name}: "
            + ", ".join(f"layer {layer} {value:+.4f}" for (layer, of), value in printed.items() if of == name).replace(
                "layer all", "All"
            )
            + "."
            for name in in_print
            if name not in directions
        ),
    ]
    return Table("lu2021-5", "Table 5: change of the entropy of attention", header, rows, notes, wraps=True)


def layer_table(evidence: Evidence) -> Table:
    """Returns masks, entropies, divergences and rank correlations by layer of the models of all text."""
    header = ("test set", "model", "layer", *_LAYER_COLUMNS.values())
    rows = []
    for run in analysed_runs(evidence, "entropy_original", *SYSTEMS):
        columns = {name: evidence.by_layer(run, name) for name in _LAYER_COLUMNS}
        for layer in range(evidence.layers(run)):
            shown = [
                _estimate(evidence.estimate(numbers[layer]), 4 if name == "jsd" else 3) if numbers else NONE
                for name, numbers in columns.items()
            ]
            rows.append([Cell(str(run.test_set)), Cell(short(run.model)), Cell(f"{layer + 1}", layer), *shown])
    notes = [
        "τ: Kendall's tau-b with the length of the gradient of log p for each encoder state; attention is averaged "
        "over heads, masks count as 1 − mask. Attention is the softmax before calibration. Divergence: Jensen-Shannon, "
        "natural logarithm. Brackets have the bootstrap interval over sentences."
    ]
    return Table("lu2021-layers", "Attention and masks by decoder layer", header, rows, notes, labels=3, wraps=True)


def bin_table(evidence: Evidence) -> Table:
    """Returns the divergence by entropy of attention, of the gate, and the two numbers in print (Figure 7)."""
    header = ("test set", "layer", *(f"{name} nats" for name in BINS))
    stated = published.stated()
    ends = [_number(stated[f"jsd_layer6_entropy_{name}"], ".4f") for name in ("below_0.8", "above_3.2")]
    runs = analysed_runs(evidence, "jsd_by_entropy", calibrated(GATE))
    beside = not runs or any(run.direction == _BINS_DIRECTION for run in runs)
    printed = [Cell(f"print, {_BINS_DIRECTION}"), Cell("6"), ends[0], *[NONE] * (len(BINS) - 2), ends[1]]
    rows = [printed] if beside else []
    for run in runs:
        for layer in range(evidence.layers(run)):
            shown = [_estimate(each, 4) for each in bin_estimates(evidence, run, layer)]
            rows.append([Cell(f"ours, {run.test_set}"), Cell(f"{layer + 1}", layer), *shown])
    notes = ["Mean Jensen-Shannon divergence of attention before and after calibration with the gate; at most 0.693."]
    if not beside:
        notes.append(
            f"In print, {_BINS_DIRECTION}, layer 6: {ends[0].text} in the first bin, {ends[1].text} in the last."
        )
    return Table("lu2021-bins", "Divergence by entropy of attention", header, rows, notes, labels=2, wraps=True)


def model_table(evidence: Evidence) -> Table:
    """Returns sizes, masks and held-out losses of every model that was analysed."""
    size_names = ("parameters", "more than the baseline", "updates", "alpha", "mean mask")
    header = ("test set", "model", *size_names, *_LOSSES.values())
    rows = []
    for run in analysed_runs(evidence, "loss_clean"):
        card, plain = evidence.cards.get(run), evidence.cards.get(run.test_set.run(BASELINE))
        sizes: list[float] = [math.nan] * 4
        if card is not None:
            more = math.nan if plain is None or run.model == BASELINE else card.parameters - plain.parameters
            sizes = [card.parameters, more, card.updates, math.nan if card.alpha is None else card.alpha]
        masks = evidence.by_layer(run, "mask")
        losses = [evidence.measured(run, name) for name in _LOSSES]
        rows.append(
            [
                Cell(str(run.test_set)),
                Cell(short(run.model)),
                *(_number(size, ",.0f") for size in sizes[:3]),
                _number(sizes[3], "g"),
                _mean(evidence, masks),
                *(NONE if each is None else _estimate(evidence.estimate(each), 3) for each in losses),
            ]
        )
    notes = [
        "Losses are in nats per label of the analysed text, without label smoothing: with the attention of the model, "
        "with attention perturbed by its mask in all layers and heads, and perturbed by the same mask values in random "
        "order over the source.",
        f"In print calibration adds {published.stated()['extra_parameters'] / 1e6:.0f} million parameters. At that "
        "size (6 layers, width 512) queries and keys of mask nets have 3,151,872 and gates 390; 6,303,744 would "
        "include value and output projections that nothing depends on.",
    ]
    return Table("lu2021-models", "Models, masks and losses", header, rows, notes, labels=2, wraps=True)


def mask_table(lines: Sequence[LayerLine]) -> Table:
    """Returns the error rates of masks and attention by layer."""
    header = ("dataset", "direction", "model", "layer", "attention", "1 − mask")
    rows = [
        [
            Cell(line.dataset),
            Cell(line.direction),
            Cell(short(line.model)),
            Cell(line.layer),
            _estimate(line.attention, 1),
            _estimate(line.mask, 1),
        ]
        for line in lines
    ]
    notes = [
        "AER in percent with its bootstrap interval, forced decoding, means over heads; lower is better. For models "
        "that are not calibrated, masks come from mask nets that were trained separately and left the model unchanged.",
    ]
    return Table("lu2021-masks", "Masks and attention as alignments", header, rows, notes, labels=4)


def _mean(evidence: Evidence, numbers: Sequence[Sampled]) -> Cell:
    return _estimate(evidence.estimate(mean_of(numbers)), 3) if numbers else NONE


def _estimate(ours: Estimate | None, digits: int, sign: bool = False) -> Cell:
    if ours is None:
        return NONE
    if not ours.known:
        return Cell(ours.reason or "–", muted=True)
    form = f"{'+' * sign}.{digits}f"
    limits = "" if math.isnan(ours.low) else f" [{ours.low:{form}}, {ours.high:{form}}]"
    return Cell(f"{ours.mean:{form}}{limits}", ours.mean)


def _number(value: float, form: str) -> Cell:
    return NONE if math.isnan(value) else Cell(f"{value:{form}}", value)


def _limits(low: float, high: float, digits: int, sign: bool = False) -> Cell:
    if math.isnan(low) or math.isnan(high):
        return NONE
    form = f"{'+' * sign}.{digits}f"
    return Cell(f"[{low:{form}}, {high:{form}}]", high - low)


def _runs(seeds: int) -> str:
    return f"{seeds} runs" if seeds > 1 else "one run"
