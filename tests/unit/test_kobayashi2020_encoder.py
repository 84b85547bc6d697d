"""Tables, claims and figures of encoders: the paper's own numbers must pass its own claims."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from encoder_cases import our_encoder, sequences

from alignlens.display.heatmap import render
from alignlens.encoders.observation import observe, singular_values
from alignlens.encoders.statistics import EncoderStatistics
from alignlens.studies.claims import NOT_REPRODUCED, NOT_TESTABLE, REPRODUCED
from alignlens.studies.kobayashi2020 import encoder_published as published
from alignlens.studies.kobayashi2020.encoder_claim_tests import TESTS, judge_encoder
from alignlens.studies.kobayashi2020.encoder_tables import is_bert_base, singular_table, table1, table2, table4
from alignlens.studies.kobayashi2020.shown.encoder_figures import encoder_figures

BERT = ("[CLS]", "[SEP]", "punctuation", "other")
OWN = ("END", "punctuation", "other")


def measured(names: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    text = sequences(kinds=len(names))
    encoder = our_encoder()
    collected = EncoderStatistics(text, names, 2, 3, ranks=np.arange(1.0, 30.0))
    for number, seen in observe(encoder, text):
        collected.add(number, seen)
    facts = {"encoder": "tiny", "layers": 2, "heads": 3, "dim": 12, "frequency": "made up"}
    result = {**collected.result(), "singular_values": singular_values(encoder), "facts": facts}
    return result, collected.points()


def printed() -> dict[str, Any]:
    """What statistics of the paper's encoder would say, as far as it is in print; the shares are read off a figure."""
    result = measured(BERT)[0]
    stated = published.stated()
    result["facts"] |= {"encoder": "bert-base-uncased", "layers": 12, "heads": 12, "dim": 768}
    result["dispersion"]["transformed"]["average"]["cv"] = stated["mean_cv_f"]
    result["dispersion"]["inputs"]["average"]["cv"] = stated["mean_cv_x"]
    for name, item in published.correlations().items():
        result["correlations"][name]["rho"] = item.rho
    result["frequency"] |= {"rho_weights": stated["frequency_rho_weights"], "rho_norms": stated["frequency_rho_norms"]}
    shares = {"[CLS]": (0.05, 0.02), "[SEP]": (0.4, 0.1), "punctuation": (0.1, 0.08), "other": (0.45, 0.8)}
    for name, (weight, norm) in shares.items():
        result["shares"]["by_layer"]["weights"][name] = [weight] * 12
        result["shares"]["by_layer"]["norms"][name] = [norm] * 12
        result["shares"]["tokens"][name] = {"other": 0.87}.get(name, 0.13 / 3)
    return result


def test_the_claims_hold_in_print_and_nothing_needs_saying() -> None:
    found = judge_encoder(printed())
    assert list(found) == ["K01", "K02", "K03", "K04", "K05", "K06", "K07", "K15"]
    for name, finding in found.items():
        assert finding.verdict == REPRODUCED, name
        assert finding.tally.exact == finding.tally.total, name
        assert finding.numbers, name
        assert "transfer" not in finding.remark
    assert found["K04"].numbers == "[CLS] -0.34, [SEP] -0.69, punctuation -0.25"


def test_every_claim_can_fail() -> None:
    def broken(change: Any) -> dict[str, Any]:
        statistics = copy.deepcopy(printed())
        change(statistics)
        return statistics

    def weights(statistics: dict[str, Any], name: str, values: list[float]) -> None:
        statistics["shares"]["by_layer"]["weights"][name] = values

    changes = {
        "K01": lambda s: s["dispersion"]["inputs"]["average"].update(cv=0.22),
        # Six layers of twelve are not more than half.
        "K02": lambda s: [weights(s, name, [0.0] * 6 + [0.1] * 6) for name in BERT[:3]],
        "K03": lambda s: weights(s, "[SEP]", [0.1] * 12),
        "K04": lambda s: s["correlations"]["punctuation"].update(rho=-0.2),
        "K05": lambda s: s["correlations"]["[CLS]"].update(rho=-0.7),
        "K06": lambda s: s["frequency"].update(rho_weights=-0.2),
        "K07": lambda s: s["frequency"].update(rho_norms=0.5),
        "K15": lambda s: s["identity"].update(largest_error=1e-4),
    }
    assert set(changes) == set(TESTS)
    for name, change in changes.items():
        assert TESTS[name](broken(change)).verdict == NOT_REPRODUCED, name
    assert TESTS["K05"](broken(lambda s: s["correlations"]["other"].update(rho=-0.15))).verdict == NOT_REPRODUCED


def test_another_encoder_is_a_transfer_test_and_says_what_is_missing() -> None:
    found = judge_encoder(measured(BERT)[0])
    assert all(finding.remark.startswith("transfer test: tiny") for finding in found.values())
    assert all(finding.verdict != NOT_TESTABLE for finding in found.values())
    own = measured(OWN)[0]
    own["facts"]["frequency"] = None
    found = judge_encoder(own)
    for name in ("K02", "K03", "K04", "K05"):
        assert found[name].verdict == NOT_TESTABLE
        assert found[name].remark == "transfer test: tiny; the encoder has no [CLS] and no [SEP]"
    for name in ("K06", "K07"):
        assert found[name].verdict == NOT_TESTABLE
        assert "no frequency ranks" in found[name].remark
    assert found["K01"].verdict != NOT_TESTABLE
    assert found["K15"].verdict == REPRODUCED


def test_a_folder_that_is_only_called_like_the_paper_s_encoder_is_no_reproduction() -> None:
    statistics = printed()
    statistics["facts"]["layers"] = 6
    assert judge_encoder(statistics)["K01"].remark == "transfer test: bert-base-uncased"


def test_a_sampled_correlation_is_said() -> None:
    statistics = printed()
    statistics["correlations"]["other"] |= {"exact": False, "sequences": 992, "sequences_used": 9}
    assert "other over 9 of 992 sequences" in TESTS["K05"](statistics).remark
    assert "other" not in TESTS["K04"](statistics).remark


def test_tables_put_print_beside_ours() -> None:
    statistics = measured(BERT)[0]
    assert not is_bert_base(statistics)
    assert is_bert_base(printed())
    spread = statistics["dispersion"]["transformed"]
    largest, smallest, average = table1(statistics)
    assert largest.ours.spread.cv == max(map(max, spread["cv"]))
    assert smallest.ours.spread.cv == min(map(min, spread["cv"]))
    assert largest.ours.layer is not None
    assert largest.ours.head is not None
    assert spread["max"][largest.ours.layer - 1][largest.ours.head - 1] == largest.ours.spread.max
    assert average.ours.spread.cv == spread["average"]["cv"]
    assert (largest.printed.layer, largest.printed.head, largest.printed.spread.cv) == (2, 4, 0.37)
    assert [row.printed.spread.cv for row in table4(statistics)] == [0.23, 0.06, 0.12]
    assert table4(statistics)[0].ours.spread.cv == max(statistics["dispersion"]["inputs"]["cv"])
    rows = {row.category: row for row in table2(statistics)}
    assert rows["[SEP]"].printed == published.Correlation(-0.69, 34886592)
    assert rows["other"].triples == statistics["correlations"]["other"]["triples"]
    assert [row.printed is None for row in table2(measured(OWN)[0])] == [True, False, False]


def test_the_singular_values_of_layers_and_of_all() -> None:
    statistics = measured(BERT)[0]
    *layers, everything = singular_table(statistics)
    found = statistics["singular_values"]
    assert [row.layer for row in layers] == [1, 2]
    assert layers[1].largest == max(found["largest"][1])
    assert layers[0].smallest == min(found["smallest"][0])
    assert everything.smallest_ratio == found["smallest_ratio"]
    assert everything.mean_ratio == pytest.approx(found["mean_ratio"])
    assert everything.printed_smallest_ratio == 1.8


@pytest.mark.parametrize("names", [BERT, OWN])
def test_figures_are_drawn(names: tuple[str, ...]) -> None:
    statistics, points = measured(names)
    made = encoder_figures(statistics, points)
    assert list(made) == ["figure3", "figure4", "figure5", "figure6", "figure9"]
    for name, (drawing, caption) in made.items():
        assert caption.startswith(f"{name.replace('figure', 'Figure ')}, tiny: ")
        assert render(drawing, ".svg").startswith(b"<?xml")
    lines = made["figure3"][0].figure.axes[1].get_lines()[: len(names)]
    shares = statistics["shares"]["by_layer"]["norms"]
    for line, kind in zip(lines, names, strict=True):
        np.testing.assert_allclose(line.get_ydata(), shares[kind])


def test_without_frequencies_there_is_no_figure_of_them() -> None:
    statistics, points = measured(OWN)
    statistics["frequency"]["rho_norms"] = None
    assert "figure6" not in encoder_figures(statistics, points)
