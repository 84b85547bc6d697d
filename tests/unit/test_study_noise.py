"""Studies on text that differs from sentence to sentence: what noise could turn round is undecided."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from ding2019_results import row, verdicts, write_model

from alignlens.cli.main import main
from alignlens.errors import InputError
from alignlens.io.atomic import write_json
from alignlens.metrics.aer import Counts
from alignlens.metrics.sentences import FILE, SentenceCounts, read_sentences, row_name
from alignlens.results.manifest import Manifest
from alignlens.results.reader import read_results
from alignlens.studies.claims import NOT_REPRODUCED, REPRODUCED, UNDECIDED
from alignlens.studies.kobayashi2020.claims import judge
from alignlens.studies.kobayashi2020.layers import curves
from alignlens.studies.kobayashi2020.runs import layer_method

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

SENTENCES = 100
ALIKE = np.full(SENTENCES, 50)
# The same sum over all sentences, and a little more or less.
UNEVEN = np.tile([35, 65], SENTENCES // 2)


def written(
    folder: Path,
    hits: Mapping[str, NDArray[np.int64]],
    seed: int = 1,
    model: str = "lstm",
    entropies: Mapping[str, NDArray[np.float64]] | None = None,
    **changes: Any,
) -> Path:
    """Writes a model whose methods find so many of the 100 links of every sentence; returns its metrics file."""
    systems = [Counts(np.stack([each, each, *np.full((2, len(each)), 100)], axis=1)) for each in hits.values()]
    means = [(entropies or {}).get(method) for method in hits]
    rows = [
        row(method, "xa-xb", counts.scores().aer, None if mean is None else float(mean.mean()), **changes)
        for method, counts, mean in zip(hits, systems, means, strict=True)
    ]
    path = folder / "attributions" / "demo" / model / str(seed) / "final" / "test" / "forced" / "metrics.json"
    content = {"dataset": "demo", "pair": ["xa", "xb"], "model": model, "architecture": model, "seed": seed}
    size = len(next(iter(hits.values())))
    asked = {"weights": "final", "split": "test", "decoding": "forced"}
    write_json(path, {**content, **asked, "sentences": size, "rows": rows})
    SentenceCounts.of(list(map(row_name, rows)), systems, means, size).write(path.with_name(FILE))
    return path


def test_a_difference_within_noise_decides_nothing(tmp_path: Path) -> None:
    for better, verdict in ((UNEVEN + 1, UNDECIDED), (UNEVEN - 1, UNDECIDED), (UNEVEN + 15, REPRODUCED)):
        written(tmp_path, {"attention": ALIKE, "ding_smoothgrad": better})
        assert verdicts(read_results(Manifest.whole(tmp_path)))["D01"].verdict == verdict
    # The same on all sentences is no noise, however small.
    written(tmp_path, {"attention": ALIKE, "ding_smoothgrad": ALIKE - 1})
    assert verdicts(read_results(Manifest.whole(tmp_path)))["D01"].verdict == NOT_REPRODUCED
    written(tmp_path, {"attention": UNEVEN, "ding_smoothgrad": UNEVEN + 1})
    found = verdicts(read_results(Manifest.whole(tmp_path)))["D01"]
    assert (found.verdict, found.by_dataset) == (REPRODUCED, "demo: 1 held")


def test_equal_systems_and_single_sentences_are_undecided(tmp_path: Path) -> None:
    written(tmp_path, {"attention": UNEVEN, "ding_smoothgrad": UNEVEN})
    found = verdicts(read_results(Manifest.whole(tmp_path)))["D01"]
    assert (found.verdict, found.tally.cases[0].comparisons[0].margin) == (UNDECIDED, 0)
    written(tmp_path, {"attention": np.array([10]), "ding_smoothgrad": np.array([90])})
    assert verdicts(read_results(Manifest.whole(tmp_path)))["D01"].verdict == UNDECIDED


def test_means_over_cells_have_an_interval_too(tmp_path: Path) -> None:
    for gain, verdict in ((12, REPRODUCED), (9, UNDECIDED), (21, UNDECIDED), (40, NOT_REPRODUCED)):
        written(tmp_path, {"attention": ALIKE, "ding_smoothgrad": np.tile([40, 60], SENTENCES // 2) + gain})
        found = verdicts(read_results(Manifest.whole(tmp_path)))["D08"]
        assert found.verdict == verdict
        assert found.numbers.startswith(f"mean {gain:.1f},")


def test_the_table_and_the_printout_tell_noise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, {"attention": ALIKE, "ding_smoothgrad": UNEVEN + 1, "ding_grad": ALIKE + 20})
    assert main(["study", "ding2019", "--results", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "Claims reproduced: 0 of " in shown
    assert re.search(r"^Not reproduced: .*D06", shown, re.MULTILINE)
    assert re.search(r"^Undecided: D01", shown, re.MULTILINE)
    for name in ("claims.md", "claims.tex", "index.html"):
        text = (tmp_path / "ding2019" / name).read_text(encoding="utf-8")
        assert "demo: 1 within noise" in text, name
        assert "undecided" in text, name
    assert main(["report", "--results", str(tmp_path), "--print"]) == 0
    assert re.search(r"0 of 23 claims reproduced, \d+ not, \d+ undecided, \d+ not testable", capsys.readouterr().out)


def test_seeds_are_one_comparison_and_add_noise(tmp_path: Path) -> None:
    written(tmp_path, {"attention": ALIKE, "ding_smoothgrad": ALIKE + 20}, seed=1)
    written(tmp_path, {"attention": ALIKE, "ding_smoothgrad": ALIKE + 5}, seed=2)
    found = verdicts(read_results(Manifest.whole(tmp_path)))["D01"]
    assert (found.verdict, found.numbers) == (REPRODUCED, "1 of 1 cells; 2 without numbers")
    comparison = found.tally.cases[0].comparisons[0]
    assert (comparison.margin, comparison.low, comparison.high) == pytest.approx((12.5, 5, 20))
    written(tmp_path, {"attention": ALIKE, "ding_smoothgrad": ALIKE - 1}, seed=2)
    assert verdicts(read_results(Manifest.whole(tmp_path)))["D01"].verdict == UNDECIDED
    # A seed without the method does not take part.
    written(tmp_path, {"attention": ALIKE}, seed=2)
    assert verdicts(read_results(Manifest.whole(tmp_path)))["D01"].verdict == REPRODUCED


def test_entropies_vary_from_sentence_to_sentence(tmp_path: Path) -> None:
    uneven = np.tile([1.0, 3.0], SENTENCES // 2)
    methods = ("ding_grad", "ding_smoothgrad,sigma=0.05", "ding_smoothgrad", "ding_smoothgrad,sigma=0.3")
    for steps, verdict in (((0, 1, 2, 3), REPRODUCED), ((0, 1, 1.01, 2), UNDECIDED), ((0, 1, 0, 1), NOT_REPRODUCED)):
        means = {method: (uneven if place % 2 else uneven[::-1]) + steps[place] for place, method in enumerate(methods)}
        written(tmp_path, dict.fromkeys(methods, ALIKE), entropies=means)
        assert verdicts(read_results(Manifest.whole(tmp_path)))["D18"].verdict == verdict


def test_layers_within_noise(tmp_path: Path) -> None:
    def summary(norms: NDArray[np.int64]) -> dict[str, str]:
        hits = {layer_method("attention", 0, "out"): ALIKE, layer_method("attention", 1, "out"): ALIKE - 20}
        hits |= {layer_method("norms", 0, "out"): norms, layer_method("norms", 1, "out"): norms - 20}
        written(tmp_path, hits, model="transformer", extraction="kobayashi")
        results = read_results(Manifest.whole(tmp_path))
        return {verdict.claim.id: verdict.verdict for verdict in judge(results, curves(results), [], [])}

    assert {summary(UNEVEN)[claim] for claim in ("K08", "K09", "K10")} == {UNDECIDED}
    assert {summary(UNEVEN + 15)[claim] for claim in ("K08", "K09", "K10")} == {REPRODUCED}
    assert {summary(UNEVEN - 15)[claim] for claim in ("K08", "K09", "K10")} == {NOT_REPRODUCED}


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    hits = {"attention": ALIKE, "ding_smoothgrad": UNEVEN + 4, "ding_grad": UNEVEN - 3}
    rows = []
    for order in (list(hits), list(reversed(hits))):
        written(tmp_path, {method: hits[method] for method in order})
        rows.append([verdict.record() for verdict in verdicts(read_results(Manifest.whole(tmp_path))).values()])
    assert rows[0] == rows[1]


def test_sentences_that_do_not_belong_to_the_scores_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, {"attention": ALIKE, "ding_smoothgrad": UNEVEN})
    counted = path.with_name(FILE)

    def told() -> str:
        with pytest.raises(InputError) as caught:
            verdicts(read_results(Manifest.whole(tmp_path)))
        assert "\n" not in str(caught.value)
        assert str(caught.value).startswith(str(counted))
        return str(caught.value)

    found, whole = read_sentences(counted), counted.read_bytes()
    SentenceCounts(found.names[::-1], found.counts, found.entropies).write(counted)
    assert "other rows or sentences than metrics.json" in told()
    SentenceCounts(found.names, found.counts[:, 1:], found.entropies[:, 1:]).write(counted)
    assert "other rows or sentences than metrics.json" in told()
    SentenceCounts(found.names, found.counts + np.int32(1), found.entropies).write(counted)
    assert "other counts for attention.ding.xa-xb than metrics.json" in told()
    SentenceCounts(found.names, -found.counts, found.entropies).write(counted)
    assert "counts that no sentence can have" in told()
    SentenceCounts(found.names, found.counts[:1], found.entropies).write(counted)
    assert "its arrays do not fit together" in told()
    counted.write_bytes(whole[:-10])
    assert "not an archive of arrays" in told()
    counted.unlink()
    assert "no such file. Delete it and recreate it with: alignlens score" in told()


def test_tables_need_no_sentences(tmp_path: Path) -> None:
    """Sentences are read when a claim compares them, and not before."""
    write_model(tmp_path, "demo", "lstm", "forced", [row("attention", "xa-xb", 40.0)])
    (tmp_path / "attributions/demo/lstm/1/final/test/forced" / FILE).unlink()
    assert read_results(Manifest.whole(tmp_path)).models[0].find("attention", "xa-xb")[0].aer == 40.0


def test_the_way_of_drawing_is_that_of_the_files(tmp_path: Path) -> None:
    path = written(tmp_path, {"attention": ALIKE})
    assert vars(read_results(Manifest.whole(tmp_path)).draws) | {"_weights": {}} == {
        "level": 95, "samples": 1000, "seed": 1, "_weights": {},
    }  # fmt: skip
    content = json.loads(path.read_text())
    write_json(path, {**content, "interval": {"level": 90.0, "samples": 50, "seed": 3}})
    draws = read_results(Manifest.whole(tmp_path)).draws
    assert (draws.level, draws.samples, draws.seed) == (90, 50, 3)
    write_json(path, {**content, "interval": {"level": 90.0, "samples": 10**12, "seed": 3}})
    with pytest.raises(InputError, match="samples is 1000000000000"):
        read_results(Manifest.whole(tmp_path))
