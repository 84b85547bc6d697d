"""Analyses of calibrated attention: rows whose answers are known, scipy as oracle, sentences in any order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy, kendalltau, spearmanr

from alignlens.errors import InputError
from alignlens.io.arrays import write_arrays
from alignlens.metrics.calibration import Calibration, CalibrationSums
from alignlens.metrics.sampled import Draws

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

LAYERS, HEADS = 3, 2


def one_row(original: Any, combined: Any = None, mask: Any = None, importance: Any = None) -> dict[str, Numbers]:
    """The means of a sentence of one row, one head and one layer."""
    rows = [None if each is None else np.array(each, float).reshape(1, 1, 1, -1) for each in (original, combined, mask)]
    assert rows[0] is not None
    found = Calibration()
    given = np.arange(rows[0].size) if importance is None else np.array(importance, float)
    found.add(0, rows[0], given.reshape(1, -1).astype(float), rows[1], rows[2])
    return found.sums().means()


def sentence(number: int) -> dict[str, Numbers]:
    """Attention, mask and importance of a sentence, with ties."""
    generator = np.random.default_rng(number)
    shape = (LAYERS, HEADS, int(generator.integers(1, 6)), int(generator.integers(1, 30)))
    original = generator.dirichlet(np.full(shape[-1], 0.7), shape[:-1])
    mask = generator.integers(0, 5, shape) / 4
    importance = generator.integers(0, 6, shape[2:]) / 4
    combined = original * np.exp(1 - mask)  # rows that sum to more than 1
    return {"original": original, "importance": importance, "combined": combined, "mask": mask}


def measured(numbers: list[int]) -> CalibrationSums:
    found = Calibration()
    for number in numbers:
        found.add(number, **sentence(number))
    return found.sums()


def test_divergence_of_a_uniform_and_a_one_hot_row_in_closed_form() -> None:
    for size in (2, 3, 7):
        one_hot = np.eye(size)[1]
        found = one_row(np.full(size, 1 / size), one_hot)
        middle = (size + 1) / (2 * size)
        both = -(size - 1) / (2 * size) * math.log(1 / (2 * size)) - middle * math.log(middle)
        assert found["jsd"] == pytest.approx([both - math.log(size) / 2])
        assert found["entropy_change"] == pytest.approx([-math.log(size)])
    assert one_row([1, 0], [0, 1])["jsd"] == pytest.approx([math.log(2)])


def test_rows_are_divided_by_their_sum_first() -> None:
    found = one_row([0.2, 0.3, 0.5], [0.4, 0.6, 1.0])
    for name in ("jsd", "entropy_change", "entropy_change_of_rows", "entropy_change_of_mean"):
        assert found[name] == pytest.approx(0, abs=1e-15)
    assert found["jsd"] >= 0


def test_divergences_fall_into_bins_of_the_entropy_of_the_original_row() -> None:
    sizes = {1: 0, 2: 0, 3: 1, 4: 1, 5: 2, 11: 2, 12: 3, 24: 3, 25: 4}
    width = max(sizes) + 1
    rows = np.array([[1 / size if place < size else 0 for place in range(width)] for size in sizes])
    combined = np.tile(np.eye(width)[-1], (len(sizes), 1))
    found = Calibration()
    found.add(0, rows[None, None], np.ones(rows.shape), combined[None, None])
    sums = found.sums()
    assert sums.counts["jsd_by_entropy"].tolist() == [[[2, 2, 2, 2, 1]]]
    assert sums.means()["jsd_by_entropy"] == pytest.approx(np.full((1, 5), math.log(2)))
    assert np.isnan(one_row([1, 0], [1, 0])["jsd_by_entropy"][0, 1:]).all()


def test_bins_of_entropy_are_those_of_each_layer() -> None:
    # One layer has a one-hot row that stays, the other a uniform row over three that moves away.
    original = np.array([[[[1.0, 0, 0, 0]]], [[[1 / 3, 1 / 3, 1 / 3, 0]]]])
    combined = np.array([[[[1.0, 0, 0, 0]]], [[[0, 0, 0, 1.0]]]])
    found = Calibration()
    found.add(0, original, np.ones((1, 4)), combined)
    sums = found.sums()
    assert sums.counts["jsd_by_entropy"].tolist() == [[[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]]]
    means = sums.means()["jsd_by_entropy"]
    assert means[0, 0] == pytest.approx(0)
    assert means[1, 1] == pytest.approx(math.log(2))
    drawn = sums.sampled(Draws(samples=10), "jsd_by_entropy", 1, 1)
    assert drawn.value == pytest.approx(math.log(2))


def test_the_rank_correlation_of_entropy_and_divergence_is_over_the_rows_of_a_sentence() -> None:
    # Uniform rows over 1, 2, 4 positions move to the last by more, and by less, the more spread out they are.
    sizes, width = (1, 2, 4), 5
    rows = np.array([[1 / size if place < size else 0 for place in range(width)] for size in sizes])
    last = np.eye(width)[-1]
    for shares, expected in (((0.1, 0.2, 0.4), 1.0), ((0.4, 0.2, 0.1), -1.0), ((0.1, 0.4, 0.2), 0.5)):
        share = np.array(shares)[:, None]
        # Heads and target positions count alike: two heads of the same rows have the ranks of one.
        pair = [np.stack([each, each])[None] for each in (rows, (1 - share) * rows + share * last)]
        found = Calibration()
        found.add(0, pair[0], np.ones(rows.shape), pair[1])
        assert found.sums().means()["jsd_entropy_rank"] == pytest.approx([expected])
    assert np.isnan(one_row([0.5, 0.5], [0.4, 0.6])["jsd_entropy_rank"])  # One row has no order.


def test_rank_correlations_are_those_of_scipy_and_their_mean_is_over_sentences() -> None:
    numbers = list(range(8))
    sums = measured(numbers)
    for layer in range(LAYERS):
        expected = []
        for each in map(sentence, numbers):
            old = each["original"][layer].reshape(-1, each["original"].shape[-1])
            new = each["combined"][layer].reshape(old.shape)
            entropies = entropy(old, axis=1)
            with np.errstate(invalid="ignore"):
                divergences = np.nan_to_num(jensenshannon(old, new, axis=1)) ** 2
            divergences[divergences < 1e-12] = 0
            if len(set(divergences)) > 1:
                expected.append(spearmanr(entropies, divergences).statistic)
        assert len(expected) > 4
        assert sums.counts["jsd_entropy_rank"][:, layer].sum() == len(expected)
        assert sums.means()["jsd_entropy_rank"][layer] == pytest.approx(np.mean(expected))


def test_the_change_of_all_layers_has_two_readings() -> None:
    # Every row is one-hot, or becomes uniform; of the mean over heads and layers only half was spread out before.
    original = np.array([[[[1.0, 0]], [[0, 1.0]]], [[[1.0, 0]], [[0, 1.0]]]])
    found = Calibration()
    found.add(0, original, np.ones((1, 2)), np.full_like(original, 0.5))
    means = found.sums().means()
    assert means["entropy_change"] == pytest.approx([math.log(2)] * 2)
    assert means["entropy_change_of_rows"] == pytest.approx(math.log(2))
    assert means["entropy_change_of_mean"] == pytest.approx(0)


def test_the_mean_of_layers_is_the_mean_of_rows() -> None:
    means = measured([1, 2, 3, 4]).means()
    assert means["entropy_change_of_rows"] == pytest.approx(means["entropy_change"].mean())
    assert means["entropy_change"] == pytest.approx(means["entropy_combined"] - means["entropy_original"])


def plain_taus(explained: Numbers, importance: Numbers) -> list[float]:
    pairs = zip(explained, importance, strict=True)
    found = (kendalltau(left.astype(np.float32), right).statistic if left.size else math.nan for left, right in pairs)
    return [tau for tau in found if not math.isnan(tau)]


def test_all_means_are_those_of_scipy_row_by_row() -> None:
    numbers = list(range(12))
    means = measured(numbers).means()
    sentences = [sentence(number) for number in numbers]
    for layer in range(LAYERS):
        divergences, changes, masks = [], [], []
        taus: dict[str, list[float]] = {}
        for each in sentences:
            combined = each["combined"] / each["combined"].sum(-1, keepdims=True)
            for old, new in zip(
                each["original"][layer].reshape(-1, combined.shape[-1]),
                combined[layer].reshape(-1, combined.shape[-1]),
                strict=True,
            ):
                with np.errstate(invalid="ignore"):  # Rounding may leave less than zero, which has no root.
                    divergences.append(np.nan_to_num(jensenshannon(old, new)) ** 2)
                changes.append(entropy(new) - entropy(old))
            masks += each["mask"][layer].ravel().tolist()
            by_head = {
                "original": each["original"][layer].mean(0),
                "combined": combined[layer].mean(0),
                "mask": (1 - each["mask"][layer]).mean(0),
            }
            for name, rows in by_head.items():
                taus.setdefault(f"tau_{name}", []).extend(plain_taus(rows, each["importance"]))
                kept = plain_taus(rows[:, :-1], each["importance"][:, :-1])
                taus.setdefault(f"tau_{name}_without_end", []).extend(kept)
        assert means["jsd"][layer] == pytest.approx(np.mean(divergences))
        assert means["entropy_change"][layer] == pytest.approx(np.mean(changes))
        assert means["mask"][layer] == pytest.approx(np.mean(masks))
        for name, values in taus.items():
            assert means[name][layer] == pytest.approx(np.mean(values), abs=1e-12)


def test_a_mask_is_turned_round_and_end_can_be_left_out() -> None:
    # Small masks mark what matters; END, the last position, matters most and is not looked at.
    found = one_row([0.5, 0.3, 0.2, 0.0], [0.2, 0.3, 0.5, 0.0], [0.1, 0.5, 0.9, 1.0], [3, 2, 1, 4])
    assert found["tau_original_without_end"] == pytest.approx([1])
    assert found["tau_combined_without_end"] == pytest.approx([-1])
    assert found["tau_mask_without_end"] == pytest.approx([1])
    assert found["tau_original"] == pytest.approx([0])
    assert found["mask"] == pytest.approx([0.625])


def test_constant_rows_have_no_tau_and_do_not_count() -> None:
    original = np.array([[[[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]]])
    found = Calibration()
    found.add(0, original, np.array([[1.0, 2, 3], [1, 2, 3]]))
    sums = found.sums()
    assert sums.counts["tau_original"].tolist() == [[2]]
    assert sums.counts["tau_original_without_end"].tolist() == [[1]]
    assert sums.means()["tau_original_without_end"] == pytest.approx([1])
    assert np.isnan(one_row([0.2, 0.8], importance=[1, 1])["tau_original"])


def test_a_source_of_one_position_has_entropies_and_no_tau() -> None:
    found = one_row([1.0], [2.5], [0.5])
    assert [found[name].item() for name in ("jsd", "entropy_original", "entropy_change")] == [0, 0, 0]
    assert all(np.isnan(found[name]).all() for name in found if name.startswith("tau"))


def test_a_model_without_calibration_has_attention_only() -> None:
    found = Calibration()
    found.add(0, sentence(1)["original"], sentence(1)["importance"])
    means = found.sums().means()
    assert means.keys() == {"entropy_original", "tau_original", "tau_original_without_end"}
    assert means["tau_original"] == pytest.approx(measured([1]).means()["tau_original"])


def test_losses_are_sums_of_sentences_and_their_mean_is_over_labels() -> None:
    found = Calibration()
    for number, labels in ((0, 1), (1, 3)):
        rows = np.full((1, 1, labels, 2), 0.5)
        found.add(number, rows, np.ones((labels, 2)), losses={"shuffled": 5.0 + number, "clean": 2.0 + 4 * number})
    sums = found.sums()
    assert sums.means()["loss_clean"] == pytest.approx((2 + 6) / 4)
    assert sums.means()["loss_shuffled"] == pytest.approx((5 + 6) / 4)
    assert "loss_perturbed" not in sums.totals
    assert sums.totals["loss_clean"].tolist() == [2, 6]
    assert sums.counts["loss_clean"].tolist() == [1, 3]
    with pytest.raises(ValueError, match="sentence 2: loss 'clean' of nan"):
        found.add(2, np.full((1, 1, 1, 2), 0.5), np.ones((1, 2)), losses={"clean": math.nan, "shuffled": 1.0})
    with pytest.raises(ValueError, match="sentence 2: loss 'dirty' of 1"):
        found.add(2, np.full((1, 1, 1, 2), 0.5), np.ones((1, 2)), losses={"dirty": 1.0})


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    sums, path = measured([3, 1, 2]), tmp_path / "sums.npz"
    sums.save(path)
    loaded = CalibrationSums.load(path)
    assert loaded.sentences == (1, 2, 3)
    for found, expected in ((loaded.totals, sums.totals), (loaded.counts, sums.counts)):
        assert list(found) == list(expected)
        for name, numbers in expected.items():
            np.testing.assert_array_equal(found[name], numbers)
    loaded.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()


def test_a_damaged_file_of_sums_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "sums.npz"
    with pytest.raises(InputError, match=r"sums\.npz: no such file\. Delete it and recreate it"):
        CalibrationSums.load(path)
    path.write_bytes(b"PK")
    with pytest.raises(InputError, match="not an archive of arrays"):
        CalibrationSums.load(path)
    measured([1, 2]).save(path)
    with np.load(path) as content:
        arrays = dict(content)
    one = {"sentences": arrays["sentences"], "jsd.total": arrays["jsd.total"], "jsd.count": arrays["jsd.count"]}
    for changes, problem in (
        ({"other": np.zeros(2)}, "not the sums of sentences"),
        ({"jsd.count": arrays["jsd.count"][:1]}, "do not fit together"),
        ({"jsd.count": -arrays["jsd.count"]}, "do not fit together"),
        ({"jsd.total": arrays["jsd.total"] * math.nan}, "do not fit together"),
        ({"jsd.total": arrays["jsd.total"].astype("U9")}, "do not fit together"),
        ({"sentences": np.array([2, 1])}, "do not fit together"),
        ({"sentences": np.array([1, 2, 3])}, "do not fit together"),
    ):
        write_arrays(path, one | changes)
        with pytest.raises(InputError, match=problem):
            CalibrationSums.load(path)
    write_arrays(path, {"sentences": np.array([1])})
    with pytest.raises(InputError, match="not the sums of sentences"):
        CalibrationSums.load(path)


def test_sentences_may_come_in_any_order_and_in_parts() -> None:
    whole = measured(list(range(9)))
    draws = Draws(samples=50)
    parts = CalibrationSums.joined([measured([7, 2, 4]), measured([8]), measured([6, 5, 0, 1, 3])])
    for other in (measured([3, 8, 1, 0, 2, 7, 5, 4, 6]), parts):
        assert other.sentences == whole.sentences == tuple(range(9))
        for found, expected in (
            (other.totals, whole.totals),
            (other.counts, whole.counts),
            (other.means(), whole.means()),
            (other.intervals(draws), whole.intervals(draws)),
        ):
            assert found.keys() == expected.keys()
            for name, numbers in expected.items():
                np.testing.assert_array_equal(found[name], numbers)


def test_intervals_draw_sentences_and_differences_are_paired() -> None:
    sums, draws = measured(list(range(40))), Draws(samples=300, seed=5)
    means, limits = sums.means(), sums.intervals(draws)
    for name, mean in means.items():
        assert limits[name].shape == (*mean.shape, 2)
        known = ~np.isnan(mean)
        assert (limits[name][known][..., 0] <= mean[known]).all()
        assert (limits[name][known][..., 1] >= mean[known]).all()
    one = sums.sampled(draws, "tau_mask", 2)
    assert one.value == pytest.approx(means["tau_mask"][2])
    assert one.interval(draws.level) == pytest.approx(tuple(limits["tau_mask"][2]))
    apart = sums.sampled(draws, "entropy_combined", 0) - sums.sampled(draws, "entropy_original", 0)
    assert apart.interval(draws.level) == pytest.approx(tuple(limits["entropy_change"][0]))
    assert measured([1]).intervals(draws)["jsd"][0].tolist() == [-math.inf, math.inf]


def test_what_does_not_fit_together_is_refused() -> None:
    given = sentence(1)
    found = Calibration()
    found.add(1, **given)
    with pytest.raises(ValueError, match="sentence 1 is there already"):
        found.add(1, **given)
    with pytest.raises(ValueError, match="sentence 2: another number of layers, or other quantities"):
        found.add(2, given["original"], given["importance"])
    with pytest.raises(ValueError, match="sentence 2: another number of layers"):
        found.add(2, given["original"][:2], given["importance"], given["combined"][:2], given["mask"][:2])
    with pytest.raises(ValueError, match=r"sentence 2: attention .* for importance"):
        found.add(2, **{**given, "importance": given["importance"].T})
    with pytest.raises(ValueError, match=r"sentence 2: combined .* for attention"):
        found.add(2, **{**given, "combined": given["combined"][:, :1]})
    with pytest.raises(ValueError, match="sentence 2: the mask must be between 0 and 1"):
        found.add(2, **{**given, "mask": given["mask"] * 2})
    with pytest.raises(ValueError, match="sentence 2: importance must be finite"):
        found.add(2, **{**given, "importance": given["importance"] * math.nan})
    with pytest.raises(ValueError, match="sentence 2: row 0 is no distribution"):
        found.add(2, **{**given, "original": -given["original"]})
    assert found.sums().sentences == (1,)
    for parts in ([measured([1, 2]), measured([2])], [measured([1]), found.sums()]):
        with pytest.raises(ValueError, match="not the parts of one corpus"):
            CalibrationSums.joined(parts)
