"""The study of Kobayashi et al. 2020: its tables, figures and claims as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignlens.display.figures import write_figure
from alignlens.results.protocol import ARCHITECTURES, KOBAYASHI
from alignlens.studies.examples import read_example
from alignlens.studies.files import Built, write_csv, write_shown
from alignlens.studies.kobayashi2020 import encoder_records, layers, shares, table3
from alignlens.studies.kobayashi2020.claims import judge
from alignlens.studies.kobayashi2020.encoders import read_encoders
from alignlens.studies.kobayashi2020.heads import correlations
from alignlens.studies.kobayashi2020.shown.encoder_figures import encoder_figures
from alignlens.studies.kobayashi2020.shown.encoder_tables import encoder_tables
from alignlens.studies.kobayashi2020.shown.layer_curves import draw_heads, draw_layers
from alignlens.studies.kobayashi2020.shown.layer_heatmaps import layer_heatmaps
from alignlens.studies.kobayashi2020.shown.tables import heads_table, shares_table
from alignlens.studies.kobayashi2020.shown.tables import table3 as shown_table3
from alignlens.studies.kobayashi2020.study import STUDY
from alignlens.studies.kobayashi2020.summary import metrics, short_error_rates
from alignlens.studies.page import sections_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from alignlens.display.pages import Picture
    from alignlens.display.render import Table
    from alignlens.results.scores import Results
    from alignlens.studies.kobayashi2020.encoders import EncoderResult
    from alignlens.studies.kobayashi2020.layers import Curve, Head
    from alignlens.studies.kobayashi2020.shares import Share

#: Tables and figures of an encoder by the stem of their files, and where they stand on the page.
_OF_ENCODERS = {
    "table1": "Table 1",
    "table2": "Table 2",
    "table4": "Table 4",
    "singular": "Figure 9",
    "frequency": "Figure 6",
    **{f"figure{number}": f"Figure {number}" for number in (3, 4, 5, 6, 9)},
}


def build(results: Results, out: Path) -> Built:
    """Writes tables and figures, and returns what they say."""
    curves = layers.curves(results)
    heads = layers.heads(results, curves)
    shared = shares.shares(results, curves)
    write_csv(out / "layers.csv", layers.LAYER_COLUMNS, layers.layer_records(curves))
    write_csv(out / "heads.csv", layers.HEAD_COLUMNS, layers.head_records(heads))
    write_csv(out / "shares.csv", shares.COLUMNS, shares.records(shared))
    tables = _write_tables(out, results, curves, heads, shared)
    figures = _write_figures(out, results, curves, heads)
    encoders = read_encoders(results.manifest)
    of_encoders = _write_encoders(out, encoders)
    sections = sections_of({**tables, **of_encoders[0]}, {**figures, **of_encoders[1]})
    verdicts = judge(results, curves, shared, encoders)
    facts = [
        ("datasets", ", ".join(dataset.name for dataset in results.datasets)),
        (
            "models",
            ", ".join(dict.fromkeys(curve.setting.model for curve in curves)) or "no Transformer was attributed",
        ),
        ("model seeds", ", ".join(dict.fromkeys(seed for curve in curves for seed in curve.seeds)) or "none"),
        ("encoders", ", ".join(encoder.name for encoder in encoders) or "none measured"),
        ("intervals", "; ".join(results.intervals) or "not recorded"),
    ]
    return Built(
        verdicts,
        sections,
        facts,
        ["table3", "layers", "heads", "shares", *(["encoders"] if encoders else [])],
        {"error_rates": short_error_rates(results, curves)},
        metrics(curves),
    )


def _write_tables(
    out: Path, results: Results, curves: Sequence[Curve], heads: Sequence[Head], shared: Sequence[Share]
) -> dict[str, list[Table]]:
    """Writes the tables about translation models, and returns them by label."""
    computed = table3.tables(results, curves)
    shown = [shown_table3(table, results) for table in computed]
    write_csv(out / "table3.csv", table3.COLUMNS, table3.records(computed))
    write_shown(out, "table3", STUDY.title, shown)
    by_label: dict[str, list[Table]] = {"Table 3": shown, "Heads": [], "END and the final period": []}
    for dataset in results.datasets:
        if related := [entry for entry in correlations(heads) if entry.dataset == dataset.name]:
            by_label["Heads"].append(heads_table(related, dataset))
        if ours := [share for share in shared if share.dataset == dataset.name]:
            by_label["END and the final period"].append(shares_table(dataset.name, ours))
    return by_label


def _write_figures(
    out: Path, results: Results, curves: Sequence[Curve], heads: Sequence[Head]
) -> dict[str, list[Picture]]:
    """Writes error rates by layer and head, and one sentence through all layers, by label."""
    written: dict[str, list[Picture]] = {"Figure 7": [], "Heads": [], "Figure 8": []}
    for dataset in results.datasets:
        name = dataset.name
        own = [c for c in curves if (c.setting.dataset, c.setting.extraction) == (name, KOBAYASHI)]
        if not own:
            continue
        band = "range over seeds" if len(own[0].seeds) > 1 else "interval over sentences"
        caption = f"Figure 7, {name}: error rate by decoder layer"
        drawing = draw_layers(own, caption)
        written["Figure 7"].append(write_figure(out / f"figure7-{name}", drawing, f"{caption}; shaded: {band}"))
        of_heads = [h for h in heads if (h.setting.dataset, h.setting.extraction) == (name, KOBAYASHI)]
        if of_heads:
            caption = f"{name}: error rate by head"
            written["Heads"].append(write_figure(out / f"heads-{name}", draw_heads(of_heads, caption), caption))
        example = read_example(results, dataset)
        for label in example.rows if example else ():
            if example is not None and label.startswith(ARCHITECTURES["transformer"]):
                drawn = layer_heatmaps(example, label, max(curve.depth for curve in own))
                for step, figure in drawn.items():
                    written["Figure 8"].append(write_figure(out / f"figure8-{step}-{name}", *figure))
    return written


def _write_encoders(
    out: Path, encoders: Sequence[EncoderResult]
) -> tuple[dict[str, list[Table]], dict[str, list[Picture]]]:
    """Writes the tables and figures about encoders, and returns them by label."""
    tables: dict[str, list[Table]] = {}
    pictures: dict[str, list[Picture]] = {}
    shown = {encoder.name: encoder_tables(encoder.statistics) for encoder in encoders}
    for stem in next(iter(shown.values()), {}):
        tables[_OF_ENCODERS[stem]] = [of_encoder[stem] for of_encoder in shown.values()]
        write_shown(out, stem, STUDY.title, tables[_OF_ENCODERS[stem]])
    if encoders:
        write_csv(out / "encoders.csv", encoder_records.COLUMNS, encoder_records.records(encoders))
    for encoder in encoders:
        for stem, drawn in encoder_figures(encoder.statistics, encoder.points).items():
            picture = write_figure(out / f"{stem}-{encoder.name.replace(' ', '-')}", *drawn)
            pictures.setdefault(_OF_ENCODERS[stem], []).append(picture)
    return tables, pictures
