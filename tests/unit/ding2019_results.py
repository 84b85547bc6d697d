"""A results folder that says what the paper says: its printed numbers as if our pipeline had measured them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from alignlens.attribution.registry import parse
from alignlens.io.atomic import write_json
from alignlens.metrics.aer import Counts
from alignlens.metrics.sentences import FILE, SentenceCounts, row_name
from alignlens.results.protocol import BIDIR, GROW_DIAG_FINAL, Protocol
from alignlens.studies.ding2019 import published
from alignlens.studies.ding2019.claims import judge
from alignlens.studies.ding2019.labels import label_changes
from alignlens.studies.ding2019.layout import ALIGNERS, METHODS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from alignlens.results.scores import Results

DATASETS = {"deen": (("de", "en"), 508), "hansards": (("en", "fr"), 447), "roen": (("ro", "en"), 248)}
PAIRS = {"deen": "de<>en", "hansards": "fr<>en", "roen": "ro<>en"}
SENTENCES = {"level": 95.0, "samples": 1000, "seed": 1}
ARCHITECTURES = ("fconv", "lstm", "transformer")
_LINKS = 100_000


def verdicts(results: Results) -> dict[str, Any]:
    """Returns the verdict on every claim by its number."""
    return {verdict.claim.id: verdict for verdict in judge(results, label_changes(results))}


def row(method: str, links: str, aer: float | None, entropy: float | None = None, **changes: Any) -> dict[str, Any]:
    """Returns a row of a metrics file."""
    parsed = parse(method)
    return {
        "method": parsed.text,
        "name": parsed.name,
        "parameters": parsed.parameters,
        "extraction": "ding",
        "links": links,
        "kind": "symmetrised" if links == GROW_DIAG_FINAL else "direction",
        "aer": aer,
        "aer_low": None if aer is None else max(aer - 1.5, 0.0),
        "aer_high": None if aer is None else min(aer + 1.5, 100.0),
        "precision": 50.0,
        "recall": 50.0,
        "f1": 50.0,
        "links_count": 1000,
        "sure": 900,
        "possible": 1100,
        "entropy": entropy,
        "entropy_rows": entropy,
        **changes,
    }


def write_scored(path: Path, content: dict[str, Any]) -> None:
    """Writes a metrics file, and sentences beside it that are all alike: no interval has a width."""
    write_json(path, content)
    rows, sentences = content["rows"], content["sentences"]
    # As many links as sure links, of which the same ones are found: so many of them as the error rate says.
    found = [None if row["aer"] is None else round(_LINKS * (1 - row["aer"] / 100)) for row in rows]
    counts = [[0] * 4 if hits is None else [hits, hits, _LINKS, _LINKS] for hits in found]
    entropies = [None if row["entropy"] is None else np.full(sentences, row["entropy"]) for row in rows]
    systems = [Counts(np.tile(row, (sentences, 1))) for row in counts]
    SentenceCounts.of(list(map(row_name, rows)), systems, entropies, sentences).write(path.with_name(FILE))


def write_model(
    folder: Path,
    dataset: str,
    architecture: str,
    decoding: str,
    rows: list[dict[str, Any]],
    seed: int = 1,
    split: str = "test",
) -> None:
    """Writes the metrics of one model."""
    pair, sentences = DATASETS.get(dataset, (("xa", "xb"), 300))
    path = folder / "attributions" / dataset / architecture / str(seed) / "final" / split / decoding / "metrics.json"
    content = {
        "dataset": dataset,
        "pair": list(pair),
        "model": architecture,
        "architecture": architecture,
        "seed": seed,
        "weights": "final",
        "split": split,
        "decoding": decoding,
        "sentences": sentences,
        "interval": SENTENCES,
        "rows": rows,
    }
    write_scored(path, content)


def write_printed(
    folder: Path, architectures: Sequence[str] = ARCHITECTURES, aligners: bool = True, datasets: Sequence[str] = ()
) -> Path:
    """Returns ``folder`` with the printed numbers of Tables 1 to 3."""
    protocol = Protocol()
    for dataset in datasets or DATASETS:
        for decoding in ("forced", "free"):
            printed = published.error_rates(decoding)
            for architecture in architectures:
                rows = []
                for method in METHODS:
                    for (found, name, pair, column), number in printed.items():
                        if (found, name, pair) == (architecture, method, PAIRS[dataset]):
                            links = GROW_DIAG_FINAL if column == BIDIR else column
                            rows.append(row(method, links, number.value))
                if dataset == "deen":
                    rows = _with_entropies(rows, protocol, architecture, decoding)
                write_model(folder, dataset, architecture, decoding, rows)
        if aligners:
            _write_aligners(folder, dataset)
    return folder


def _with_entropies(
    rows: list[dict[str, Any]], protocol: Protocol, architecture: str, decoding: str
) -> list[dict[str, Any]]:
    for (found, mode, setting), value in published.entropies().items():
        if (found, mode) != (architecture, decoding):
            continue
        method = protocol.method("attention") if setting == "attention" else protocol.at_sigma(float(setting))
        known = [entry for entry in rows if entry["method"] == method and entry["links"] == "de-en"]
        if not known:
            rows.append(row(method, "de-en", None))
            known = rows[-1:]
        known[0]["entropy"] = known[0]["entropy_rows"] = value
    return rows


def _write_aligners(folder: Path, dataset: str) -> None:
    pair, sentences = DATASETS[dataset]
    printed = published.error_rates("forced")
    for line in ALIGNERS:
        if not (line.in_paper and line.aligner):
            continue
        rows = [
            row("attention", line.symmetrization if column == BIDIR else column, number.value)
            for (_, name, found, column), number in printed.items()
            if (name, found) == (line.published, PAIRS[dataset])
        ]
        content = {
            "dataset": dataset,
            "aligner": line.aligner,
            "text": line.text,
            "size": "all",
            "pair": list(pair),
            "train_pairs": 1000,
            "sentences": sentences,
            "interval": SENTENCES,
            "rows": rows,
        }
        write_scored(folder / "scores" / dataset / line.aligner / line.text / "all" / "metrics.json", content)
