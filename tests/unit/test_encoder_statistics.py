"""Streaming statistics of encoders against a plain computation that keeps everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from encoder_cases import VOCABULARY, our_encoder, sequence, sequences
from scipy.stats import rankdata, spearmanr

from alignlens.corpora.frequency import counts_of, ranks_by_count, ranks_by_id
from alignlens.decoding.sentences import SentencesInMemory
from alignlens.encoders.observation import observe
from alignlens.encoders.paragraphs import is_prose, manual_paragraphs, paragraph_pairs, shortened
from alignlens.encoders.sequences import TokenSequence, padded_batches
from alignlens.encoders.statistics import EncoderStatistics, Observation
from alignlens.encoders.weight_norm_pairs import choose
from alignlens.metrics import rank_correlation
from alignlens.metrics.moments import Moments
from alignlens.metrics.rank_correlation import average_ranks, repeated_ranks, spearman, spearman_of_blocks

NAMES = ("one", "two", "three")


def observed() -> tuple[list[TokenSequence], dict[int, Observation]]:
    text = sequences()
    return text, dict(observe(our_encoder(), text))


def collected(text: list[TokenSequence], seen: dict[int, Observation], **options: Any) -> EncoderStatistics:
    statistics = EncoderStatistics(text, NAMES, 2, 3, **options)
    for number, item in seen.items():
        statistics.add(number, item)
    return statistics


def triples(text: list[TokenSequence], seen: dict[int, Observation]) -> list[dict[str, float]]:
    """Every (sequence, layer, head, query, key), one at a time."""
    rows = []
    for number, item in seen.items():
        for layer, head, query, key in np.ndindex(item.weights.shape):
            rows.append(
                {
                    "sequence": number,
                    "layer": layer,
                    "head": head,
                    "kind": int(text[number].categories[key]),
                    "key": key,
                    "weight": float(item.weights[layer, head, query, key]),
                    "norm": float(item.norms[layer, head, key]),
                }
            )
    return rows


def test_correlations_are_those_of_all_triples() -> None:
    text, seen = observed()
    found = collected(text, seen).result()["correlations"]
    rows = triples(text, seen)
    for kind, name in enumerate(NAMES):
        mine = [row for row in rows if row["kind"] == kind]
        expected = spearmanr([row["weight"] for row in mine], [row["norm"] for row in mine]).statistic
        assert found[name]["rho"] == pytest.approx(expected, abs=1e-9)
        assert found[name]["triples"] == found[name]["used"] == len(mine)
        assert found[name]["exact"] is True
        for layer, rho in enumerate(found[name]["by_layer"]):
            those = [row for row in mine if row["layer"] == layer]
            expected = spearmanr([row["weight"] for row in those], [row["norm"] for row in those]).statistic
            assert rho == pytest.approx(expected, abs=1e-9)


def test_a_subsample_is_of_whole_sequences_and_says_so() -> None:
    text, seen = observed()
    total = collected(text, seen).result()["correlations"]["one"]["triples"]
    found = collected(text, seen, triples=total // 2).result()["correlations"]["one"]
    assert found["exact"] is False
    assert found["triples"] == total
    assert found["used"] <= total // 2
    assert 1 <= found["sequences_used"] < found["sequences"]
    lengths = np.array([len(item) for item in text])
    keys = np.array([(item.categories == 0).sum() for item in text])
    chosen = set(choose(lengths, keys, 6, total // 2).numbers.tolist())
    assert len(chosen) == found["sequences_used"]
    mine = [row for row in triples(text, seen) if row["kind"] == 0 and row["sequence"] in chosen]
    assert len(mine) == found["used"]
    expected = spearmanr([row["weight"] for row in mine], [row["norm"] for row in mine]).statistic
    assert found["rho"] == pytest.approx(expected, abs=1e-9)


def test_a_choice_of_sequences_is_spread_evenly_and_never_empty() -> None:
    lengths, keys = np.full(100, 10), np.full(100, 2)
    keys[::2] = 0
    chosen = choose(lengths, keys, heads=3, budget=620)
    assert chosen.sequences == 50
    assert chosen.triples == 3000
    assert chosen.numbers.tolist() == [1, 11, 21, 31, 41, 51, 61, 71, 81, 91]
    assert chosen.used == 600
    single = choose(lengths, keys, heads=3, budget=1)
    assert single.numbers.tolist() == [1]
    nothing = choose(lengths, np.zeros(100, np.int64), heads=3, budget=5)
    assert (nothing.triples, len(nothing.numbers), nothing.exact) == (0, 0, True)
    uneven = choose(np.array([100, 1, 1, 1]), np.array([100, 1, 1, 1]), heads=1, budget=5000)
    assert uneven.numbers.tolist() == [0], "a budget too small for one sequence still takes one"


def test_dispersion_is_that_of_all_tokens() -> None:
    text, seen = observed()
    found = collected(text, seen).result()["dispersion"]
    norms = np.concatenate([item.norms for item in seen.values()], axis=2).astype(np.float64)
    inputs = np.concatenate([item.input_norms for item in seen.values()], axis=1).astype(np.float64)
    for spread, values in ((found["transformed"], norms), (found["inputs"], inputs)):
        np.testing.assert_allclose(spread["mean"], values.mean(-1))
        np.testing.assert_allclose(spread["deviation"], values.std(-1))
        np.testing.assert_allclose(spread["cv"], values.std(-1) / values.mean(-1))
        np.testing.assert_allclose(spread["max"], values.max(-1))
        np.testing.assert_allclose(spread["min"], values.min(-1))
        assert spread["average"]["cv"] == pytest.approx((values.std(-1) / values.mean(-1)).mean())
    average = found["transformed"]["average"]
    assert average["cv"] != pytest.approx(average["deviation"] / average["mean"])


def test_moments_survive_a_large_mean() -> None:
    values = 1e9 + np.random.default_rng(1).normal(size=(2, 3000))
    moments = Moments((2,))
    for part in np.split(values, [7, 1000, 1001], axis=1):
        moments.add(part)
    np.testing.assert_allclose(moments.dispersion().deviation, values.std(-1), rtol=1e-6)


def test_shares_sum_over_keys_and_average_over_queries_and_sequences() -> None:
    text, seen = observed()
    found = collected(text, seen).result()["shares"]
    for layer in range(2):
        weights, norms = np.zeros((3, 3)), np.zeros((3, 3))  # (head, category)
        for number, item in seen.items():
            length = len(text[number])
            for head, query, key in np.ndindex(3, length, length):
                share = float(item.weights[layer, head, query, key]) / length / len(seen)
                kind = text[number].categories[key]
                weights[head, kind] += share
                norms[head, kind] += share * float(item.norms[layer, head, key])
        for kind, name in enumerate(NAMES):
            assert found["by_layer"]["weights"][name][layer] == pytest.approx(weights[:, kind].mean())
            assert found["by_layer"]["norm_totals"][name][layer] == pytest.approx(norms[:, kind].mean())
            assert found["by_layer"]["norms"][name][layer] == pytest.approx(norms[:, kind].sum() / norms.sum())
            np.testing.assert_allclose(found["by_head"]["norm_totals"][name][layer], norms[:, kind])
        assert sum(found["by_layer"]["weights"][name][layer] for name in NAMES) == pytest.approx(1)
        assert sum(found["by_layer"]["norms"][name][layer] for name in NAMES) == pytest.approx(1)
    expected = [np.mean([(item.categories == kind).mean() for item in text]) for kind in range(3)]
    np.testing.assert_allclose([found["tokens"][name] for name in NAMES], expected)


def test_uniform_attention_has_the_shares_of_the_tokens() -> None:
    text = sequences()
    seen = {
        number: Observation(
            np.full((2, 3, len(item), len(item)), 1 / len(item), np.float32),
            np.full((2, 3, len(item)), 7, np.float32),
            np.ones((2, len(item)), np.float32),
            np.zeros(2),
        )
        for number, item in enumerate(text)
    }
    result = collected(text, seen).result()
    shares = result["shares"]
    for name in NAMES:
        for kind in ("weights", "norms"):
            np.testing.assert_allclose(shares["by_layer"][kind][name], shares["tokens"][name], rtol=1e-6)
    assert result["correlations"]["one"]["rho"] is None, "norms that do not vary correlate with nothing"
    assert result["dispersion"]["transformed"]["average"]["cv"] == pytest.approx(0, abs=1e-9)


def test_means_by_category_count_every_token_once_for_a_head() -> None:
    text, seen = observed()
    found = collected(text, seen).result()["means"]
    for kind, name in enumerate(NAMES):
        weights: list[list[float]] = [[], []]
        norms: list[list[float]] = [[], []]
        for number, item in seen.items():
            for layer, head, key in np.ndindex(item.norms.shape):
                if text[number].categories[key] == kind:
                    weights[layer].append(float(item.weights[layer, head, :, key].mean()))
                    norms[layer].append(float(item.norms[layer, head, key]))
        np.testing.assert_allclose(found["weights"][name], [np.mean(values) for values in weights], rtol=1e-5)
        np.testing.assert_allclose(found["norms"][name], [np.mean(values) for values in norms], rtol=1e-5)


def test_frequency_is_correlated_over_occurrences_that_have_a_rank() -> None:
    text, seen = observed()
    ranks = np.arange(VOCABULARY, dtype=np.float64)
    ranks[9] = np.nan
    statistics = collected(text, seen, ranks=ranks)
    found = statistics.result()["frequency"]
    rows = []
    for number, item in enumerate(text):
        for key, identifier in enumerate(item.ids):
            if identifier != 9:
                norm = seen[number].norms[:, :, key].mean()
                rows.append((ranks[identifier], seen[number].weights[:, :, :, key].mean(), norm))
    left_out = sum(int((item.ids == 9).sum()) for item in text)
    assert left_out > 0
    assert (found["occurrences"], found["left_out"]) == (len(rows), left_out)
    columns = list(zip(*rows, strict=True))
    assert found["rho_weights"] == pytest.approx(spearmanr(columns[0], columns[1]).statistic)
    assert found["rho_norms"] == pytest.approx(spearmanr(columns[0], columns[2]).statistic)
    np.testing.assert_allclose(statistics.points()["frequency_norm"], columns[2], rtol=1e-5)
    assert collected(text, seen).result()["frequency"]["rho_norms"] is None


def test_points_are_triples_that_occurred() -> None:
    text, seen = observed()
    points = collected(text, seen).points()
    known = {(row["layer"], row["head"], row["kind"], row["weight"], row["norm"]) for row in triples(text, seen)}
    names = ("layer", "head", "category", "weight", "norm")
    drawn = list(zip(*(points[name].tolist() for name in names), strict=True))
    assert set(drawn) <= known
    assert {point[2] for point in drawn} == {0, 1, 2}
    assert len(drawn) == sum(len(item) ** 2 * 6 for item in text)


def test_a_category_that_does_not_occur() -> None:
    text = [sequence(3, 6, 9, 4), sequence(6, 4)]
    statistics = collected(text, dict(observe(our_encoder(), text)))
    result = statistics.result()
    assert result["tokens"]["three"] == 0
    assert result["correlations"]["three"] == {
        "rho": None,
        "by_layer": [None, None],
        "triples": 0,
        "used": 0,
        "sequences": 0,
        "sequences_used": 0,
        "exact": True,
    }
    assert result["means"]["norms"]["three"] == [None, None]
    assert 2 not in statistics.points()["category"]


def test_the_order_of_sequences_does_not_matter() -> None:
    text, seen = observed()
    there = collected(text, seen).result()
    back = collected(text, dict(reversed(seen.items()))).result()
    assert there["correlations"]["two"]["rho"] == pytest.approx(back["correlations"]["two"]["rho"], abs=1e-12)
    np.testing.assert_allclose(there["dispersion"]["transformed"]["cv"], back["dispersion"]["transformed"]["cv"])


def test_ranks_with_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(4)
    values = draw.integers(0, 9, 300).astype(np.float32)
    np.testing.assert_array_equal(average_ranks(values), rankdata(values))
    monkeypatch.setattr(rank_correlation, "_RANKED_AT_ONCE", 7)
    np.testing.assert_array_equal(average_ranks(values), rankdata(values))
    counts = draw.integers(1, 5, 300)
    everything = rankdata(np.repeat(values, counts))
    np.testing.assert_array_equal(np.repeat(repeated_ranks(values, counts), counts), everything)
    other = draw.integers(0, 4, counts.sum()).astype(np.float32)
    expected = spearmanr(other, np.repeat(values, counts)).statistic
    assert spearman_of_blocks(other, values, counts) == pytest.approx(expected, abs=1e-12)
    assert spearman(values, -values) == pytest.approx(-1)
    assert np.isnan(spearman(values, np.ones(300)))


def test_frequency_ranks_of_a_vocabulary() -> None:
    texts = ["[PAD]", "[unused3]", "[CLS]", "[SEP]", "a", ".", ",", "the", "##s", "##ing", "[MASK]", "of"]
    ranks = ranks_by_id(texts, special={0, 2, 3, 10}, first=[6, 5, 3, 2])
    found = [texts[place] for place in np.argsort(ranks)[: int(np.isfinite(ranks).sum())]]
    assert found == [",", ".", "[SEP]", "[CLS]", "the", "##ing", "of"]
    assert ranks[7] == 5
    counted = ranks_by_count(np.array([0, 5, 9, 5, 0, 1]))
    np.testing.assert_array_equal(counted, [np.nan, 2.5, 1, 2.5, np.nan, 4])
    store = SentencesInMemory([[4, 5, 5], [5, 6]], vocabulary_size=8)
    assert counts_of(store).tolist() == [0, 0, 2, 0, 1, 3, 1, 0]
    assert counts_of(store, begin=True)[1] == 2


def test_paragraphs_are_paired_and_the_longer_one_is_cut() -> None:
    texts = ["1 2 3 4 5 6 7", "8 9", "", "4 4 4 4 4 4", "5 5 5 5 5 5", "7"]
    pairs = list(paragraph_pairs(texts, lambda text: [int(word) for word in text.split()], 101, 102, tokens=10))
    assert pairs[0] == ([101, 1, 2, 3, 4, 5, 102, 8, 9, 102], [0] * 7 + [1] * 3)
    assert pairs[1][0] == [101, 4, 4, 4, 4, 102, 5, 5, 5, 102]
    assert len(pairs) == 2
    for first, second, room in np.ndindex(9, 9, 9):
        kept = [first, second]
        while sum(kept) > room:
            kept[0 if kept[0] > kept[1] else 1] -= 1
        assert shortened(first, second, room) == tuple(kept)


def test_prose_is_told_from_code_and_tables() -> None:
    prose = "This is a paragraph of plain words that goes on for a while,\n   so that it has more than twenty of them."
    assert is_prose(prose)
    assert not is_prose(prose.replace(".", ""))
    assert not is_prose("Too short.")
    assert not is_prose(prose.replace("plain", "plain     columns"))
    assert not is_prose("x = [f(a) for a in b]; " * 10 + "end.")
    paragraphs = manual_paragraphs()
    assert len(paragraphs) > 200
    assert len(set(paragraphs)) == len(paragraphs)
    assert paragraphs == manual_paragraphs()
    assert not any("\n" in paragraph for paragraph in paragraphs)


def test_batches_keep_their_budget_and_lose_nothing() -> None:
    text = sequences(20)
    batches = list(padded_batches(text, tokens=25, padding=0))
    assert sorted(number for batch in batches for number in batch.numbers) == list(range(20))
    for batch in batches:
        assert batch.ids.size <= 25 or len(batch.numbers) == 1
        for row, number in enumerate(batch.numbers):
            assert batch.ids[row][batch.mask[row]].tolist() == text[number].ids.tolist()
            assert not batch.ids[row][~batch.mask[row]].any()
