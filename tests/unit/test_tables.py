"""Tables: known numbers in known places, reasons where there is none, and text that survives every renderer."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from alignlens.display.render import Cell, Table, html, latex, markdown
from alignlens.report.collect import Failure, Job
from alignlens.report.tables import (
    aer_table,
    detail_table,
    labels_of,
    long_form,
    runtime_form,
    runtime_tables,
    summary_table,
)
from alignlens.results.samples import SentenceFile, SentenceRow
from alignlens.results.scores import AlignerId, Score, ScoredAligner

UNCOUNTED = SentenceRow(SentenceFile(Path(), (), 0), 0)


def row(links: str, aer: float, kind: str = "direction", half: float = 1.5) -> Score:
    return Score(links, kind, aer, aer - half, aer + half, 80.0, 70.0, 74.67, 1234, 1000, 1100, UNCOUNTED)


def scored(
    aligner: str, rows: list[Score], text: str = "offline", size: str = "all", dataset: str = "deen"
) -> ScoredAligner:
    interval = {"level": 95, "samples": 1000, "seed": 1}
    run = AlignerId(dataset, aligner, text, size)
    return ScoredAligner(run, ("de", "en"), 50_000, 508, tuple(rows), interval, changed=0.0)


def three_rows(base: float) -> list[Score]:
    return [row("de-en", base), row("en-de", base + 1), row("grow-diag", base - 2, "symmetrised")]


RUNS = [scored("fast_align", three_rows(28.4)), scored("eflomal", three_rows(22.0))]


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in line] for line in table.rows]


def test_wide_table_has_the_two_directions_then_the_symmetrisations() -> None:
    table = aer_table("deen", RUNS)
    assert table.header == ("aligner", "de-en", "en-de", "grow-diag")
    assert texts(table) == [
        ["fast_align, offline", "28.4 ±1.5", "29.4 ±1.5", "26.4 ±1.5"],
        ["eflomal, offline", "22.0 ±1.5", "23.0 ±1.5", "20.0 ±1.5"],
    ]
    assert [cell.strong for cell in table.rows[0]] == [False, False, False, False]
    assert [cell.strong for cell in table.rows[1]] == [False, True, True, True]
    assert "508 test sentences" in table.caption
    assert "95 % bootstrap interval (1000 samples of sentences, seed 1)" in " ".join(table.notes)


def test_equal_to_the_printed_digit_are_both_best() -> None:
    table = aer_table("deen", [scored("a", [row("de-en", 20.01)]), scored("b", [row("de-en", 20.04)])])
    assert [line[1].strong for line in table.rows] == [True, True]


def test_missing_cells_say_why() -> None:
    expected = [AlignerId("deen", name, "offline", "all") for name in ("fast_align", "ibm4", "hmm")]
    failure = Failure("x", "FAILED", "boom", {"dataset": "deen", "aligner": "ibm4", "text": "offline"}, "", "")
    table = aer_table("deen", [RUNS[0], scored("ibm1", [row("de-en", 40.0)])], expected, [failure])
    assert texts(table)[1:] == [
        ["ibm4, offline", "failed", "failed", "failed"],
        ["hmm, offline", "not run", "not run", "not run"],
        ["ibm1, offline", "40.0 ±1.5", "not scored", "not scored"],
    ]
    for line in summary_table("deen", RUNS, expected, [failure]).rows:
        assert all(cell.text for cell in line)


def test_a_failure_of_another_run_is_no_reason() -> None:
    failure = Failure("x", "FAILED", "boom", {"dataset": "deen", "aligner": "hmm", "text": "online"}, "", "")
    table = aer_table("deen", RUNS, [AlignerId("deen", "hmm", "offline", "all")], [failure])
    assert texts(table)[0][:2] == ["hmm, offline", "not run"]


def test_undefined_scores_are_said_to_be() -> None:
    nothing = Score("de-en", "direction", math.nan, math.nan, math.nan, math.nan, 0.0, 0.0, 0, 0, 0, UNCOUNTED)
    table = aer_table("deen", [scored("a", [nothing]), scored("b", [row("de-en", 5.0)])])
    assert texts(table) == [["a, offline", "undefined"], ["b, offline", "5.0 ±1.5"]]
    assert table.rows[1][1].strong


def test_sizes_are_named_only_where_an_aligner_has_several() -> None:
    runs = [scored("ibm4", [], size="all"), scored("ibm4", [], size="20000"), scored("hmm", [])]
    assert list(labels_of("deen", runs).values()) == [
        "ibm4, offline, all 50,000 pairs",
        "ibm4, offline, 20,000 pairs",
        "hmm, offline",
    ]


def test_detail_table_has_the_best_of_each_kind_with_its_number_of_links() -> None:
    table = detail_table("deen", RUNS)
    assert texts(table)[0] == [
        "fast_align, offline", "de-en", "28.4 ±1.5", "80.0", "70.0", "74.7", "1,234", "1,000", "1,100",
    ]  # fmt: skip
    assert [line[1].text for line in table.rows] == ["de-en", "grow-diag", "de-en", "grow-diag"]


def test_summary_names_the_best_symmetrisation() -> None:
    rows = [*three_rows(20.0), row("union", 17.5, "symmetrised")]
    assert texts(summary_table("deen", [scored("hmm", rows)])) == [
        ["hmm, offline", "20.0 ±1.5", "21.0 ±1.5", "17.5 ±1.5", "union"]
    ]


JOBS = [
    Job("align", "deen/fast_align/offline/all/de-en", 10.0, 100.0, "benchmark"),
    Job("align", "deen/fast_align/offline/all/en-de", 20.0, None, "benchmark"),
    Job("symmetrize", "deen/fast_align/offline/all", 1.0, 300.0, "benchmark"),
    Job("score", "deen/fast_align/offline/all", 99.0, 999.0, "benchmark"),
    Job("align", "deen/fast_align/online/all/de-en", 500.0, 5000.0, "benchmark"),
]


def test_long_form_has_one_record_per_links_file_and_what_it_cost() -> None:
    frame = long_form(RUNS, JOBS)
    assert len(frame) == 6
    assert frame.columns[:6].tolist() == ["dataset", "pair", "aligner", "text", "size", "train_pairs"]
    mine = frame[frame.aligner == "fast_align"].set_index("links")
    assert mine.seconds.to_dict() == {"de-en": 10.0, "en-de": 20.0, "grow-diag": 31.0}
    assert mine.peak_memory_mb["de-en"] == 100.0
    assert math.isnan(mine.peak_memory_mb["en-de"])
    assert frame[frame.aligner == "eflomal"].seconds.isna().all()


def test_runtime_tables_add_up_and_say_where_numbers_come_from() -> None:
    rules, jobs = runtime_tables(JOBS)
    assert texts(rules)[0] == ["align", "3", "530.0", "500.0", "5,000"]
    assert texts(jobs)[1] == ["align", "deen/fast_align/offline/all/en-de", "20.0", "not sampled"]
    assert "Snakemake" in rules.notes[0]
    assert runtime_tables([]) == []
    assert len(runtime_form(JOBS)) == 5
    assert runtime_form([]).columns.tolist() == ["rule", "job", "seconds", "peak_memory_mb", "measured_by"]


NASTY = "a|b & <c> _d_ 50% $x$ {e} #f ~g ^h \\i *j* `k` [l]"


def nasty() -> Table:
    return Table("x", NASTY, ("words", "value"), [[Cell(NASTY), Cell("1.0", 1.0, strong=True)]], [NASTY])


def test_markdown_keeps_its_columns_whatever_the_words() -> None:
    lines = markdown(nasty()).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 3
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {3}
    assert {len(line) for line in table} == {len(table[0])}
    assert r"a\|b &amp; &lt;c&gt; \_d\_" in table[2]
    assert "**1.0**" in table[2]


def test_markdown_leaves_underscores_inside_names_alone() -> None:
    assert "fast_align" in markdown(Table("x", "c", ("aligner",), [[Cell("fast_align")]]))


def test_latex_escapes_every_special() -> None:
    text = latex(nasty())
    assert r"a\textbar{}b \& \textless{}c\textgreater{} \_d\_ 50\% \$x\$ \{e\} \#f" in text
    assert r"\textasciitilde{}g \textasciicircum{}h \textbackslash{}i" in text
    assert r"\textbf{1.0}" in text
    assert text.count(r"\begin{") == text.count(r"\end{")
    assert [rule in text for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [True] * 3
    bare = re.sub(r"\\[&%$#_{}]", "", text)
    assert bare.count("{") == bare.count("}")


def test_html_escapes_and_carries_sort_keys() -> None:
    text = html(nasty())
    assert "a|b &amp; &lt;c&gt; _d_" in text
    assert "<c>" not in text
    assert 'data-sort="1"' in text
    assert '<td class="number best"' in text


def test_a_row_of_the_wrong_length_is_a_bug() -> None:
    with pytest.raises(ValueError, match="a row of 1 cells under 2 headings"):
        Table("x", "", ("a", "b"), [[Cell("1")]])


@pytest.mark.parametrize("render", [markdown, latex, html])
def test_rendering_repeats(render: object) -> None:
    assert render(aer_table("deen", RUNS)) == render(aer_table("deen", RUNS))  # type: ignore[operator]


def test_rows_of_the_same_name_stand_together() -> None:
    rows = [[Cell(name), Cell(method), Cell("1")] for name in ("LSTM", "FConv") for method in ("attention", "grad")]
    made = html(Table("t", "c", ("architecture", "method", "AER"), rows, labels=2))
    assert re.findall(r'<tr class="first"><td[^>]*>(\w+)</td><td[^>]*>(\w+)</td>', made) == [("FConv", "attention")]
    # Where every row has its own name there are no groups to set apart.
    assert "first" not in html(Table("t", "c", ("architecture", "method", "AER"), rows[::2], labels=2))
    assert "first" not in html(Table("t", "c", ("architecture", "method", "AER"), rows, labels=1))
