"""Batches: padded as the models expect, each pair once an epoch, within budget, the same from any position."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from itertools import islice, pairwise
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignlens.corpora.batches import Batch, Position, TrainingBatches, make_batch, ordered_batches
from alignlens.corpora.shuffle import Shuffle
from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID
from alignlens.corpora.tokens import TokenStore, TokenWriter
from alignlens.errors import AlignlensError, ConfigError, InputError

Pair = tuple[TokenStore, TokenStore]
MakeStores = Callable[[list[tuple[int, int]]], Pair]
VOCABULARY = 10_007
B, E, P = BEGIN_ID, END_ID, PADDING_ID


def write(folder: Path, sentences: list[list[int]]) -> TokenStore:
    with TokenWriter(folder, VOCABULARY, "bpe") as writer:
        for sentence in sentences:
            writer.append(sentence)
    return TokenStore.open(folder)


@pytest.fixture
def stores(tmp_path_factory: pytest.TempPathFactory) -> MakeStores:
    """Makes two sides of the given lengths, in which the first piece of a sentence is its number, plus four."""

    def make(lengths: list[tuple[int, int]]) -> Pair:
        folder = tmp_path_factory.mktemp("stores")
        source, target = (
            write(
                folder / side, [[4 + number, *range(5, 4 + pair[k])][: pair[k]] for number, pair in enumerate(lengths)]
            )
            for k, side in enumerate(("source", "target"))
        )
        return source, target

    return make


def random_lengths(count: int, seed: int = 1, longest: int = 11) -> list[tuple[int, int]]:
    return [tuple(pair) for pair in np.random.default_rng(seed).integers(1, longest + 1, (count, 2)).tolist()]


def epoch_of(batches: TrainingBatches, epoch: int = 0) -> list[Batch]:
    found = []
    for batch, after in batches.at(Position(epoch)):
        found.append(batch)
        if after.epoch > epoch:
            assert after == Position(epoch + 1)
            return found
    raise AssertionError("the stream ended")


def same(first: Batch, second: Batch) -> bool:
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in asdict(first))


# The permutation


@pytest.mark.parametrize(
    "size", [1, 2, 3, 4, 5, 7, 8, 9, 13, 31, 32, 33, 97, 127, 128, 129, 1000, 4099, 65_535, 65_537]
)
def test_a_shuffle_is_a_bijection(size: int) -> None:
    for key in range(5):
        assert np.array_equal(np.sort(Shuffle(size, key)(np.arange(size))), np.arange(size))


def test_a_shuffle_of_many_gives_each_item_at_most_once() -> None:
    items = Shuffle(30_000_000_000, 1)(np.arange(100_003))
    assert len(set(items.tolist())) == 100_003
    assert 0 <= items.min() < items.max() < 30_000_000_000
    assert items.mean() == pytest.approx(15e9, rel=0.01)


def test_a_part_of_a_shuffle_is_that_part_of_the_whole() -> None:
    whole = Shuffle(1009, 1, 2)(np.arange(1009))
    assert np.array_equal(Shuffle(1009, 1, 2)(np.array([1008, 3, 501])), whole[[1008, 3, 501]])


def test_shuffles_of_other_keys_differ() -> None:
    keys = [(1, 0), (0, 1), (1, 1), (11,), (1, 0, 0), (-1, 0), (1 << 70, 0)]
    assert len({tuple(Shuffle(101, *key)(np.arange(101))) for key in keys}) == len(keys)


def test_every_order_of_three_is_equally_likely() -> None:
    orders = [tuple(Shuffle(3, key)(np.arange(3)).tolist()) for key in range(3000)]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 6
    assert max(abs(count - 500) for count in counts) < 5 * sqrt(500 * 5 / 6)


@pytest.mark.parametrize("size", [5, 17])
def test_every_item_comes_everywhere_equally_often(size: int) -> None:
    draws = 2000
    table = np.zeros((size, size))
    for key in range(draws):
        table[np.arange(size), Shuffle(size, 7, key)(np.arange(size))] += 1
    expected, freedom = draws / size, (size - 1) ** 2
    chi_square = ((table - expected) ** 2 / expected).sum()
    assert abs(chi_square - freedom) < 5 * sqrt(2 * freedom)


def test_neighbours_are_torn_apart() -> None:
    order = Shuffle(100_003, 5)(np.arange(100_003)).astype(float)
    for distance in (1, 2, 256):
        assert abs(np.corrcoef(order[:-distance], order[distance:])[0, 1]) < 0.02
    assert abs(np.corrcoef(order, np.arange(100_003))[0, 1]) < 0.02


def test_nothing_cannot_be_shuffled() -> None:
    with pytest.raises(ValueError, match="nothing to shuffle"):
        Shuffle(0, 1)


# One batch


def test_a_batch_is_laid_out_as_the_contract_says(tmp_path: Path) -> None:
    source = write(tmp_path / "source", [[5, 6, 7], [], [8]])
    target = write(tmp_path / "target", [[9], [10, 11], []])
    batch = make_batch(source, target, np.array([2, 0, 1]))
    assert batch.indices.tolist() == [2, 0, 1]
    assert batch.source.tolist() == [[8, E, P, P], [5, 6, 7, E], [E, P, P, P]]
    assert batch.source_mask.tolist() == [[True, True, False, False], [True] * 4, [True, False, False, False]]
    assert batch.prefix.tolist() == [[B, P, P], [B, 9, P], [B, 10, 11]]
    assert batch.labels.tolist() == [[E, P, P], [9, E, P], [10, 11, E]]
    assert (batch.sentences, batch.target_tokens) == (3, 6)
    assert batch.labels_mask.tolist() == [[True, False, False], [True, True, False], [True] * 3]
    for name in ("indices", "source", "prefix", "labels"):
        assert getattr(batch, name).dtype == np.int64
        assert getattr(batch, name).flags.writeable
    assert batch.source_mask.dtype == np.bool_


def test_the_source_may_begin_with_a_symbol(tmp_path: Path) -> None:
    source = write(tmp_path / "source", [[5, 6, 7], []])
    batch = make_batch(source, source, np.array([0, 1]), source_begin=True)
    assert batch.source.tolist() == [[B, 5, 6, 7, E], [B, E, P, P, P]]
    assert batch.source_mask.sum(1).tolist() == [5, 2]
    assert batch.prefix.tolist() == [[B, 5, 6, 7], [B, P, P, P]]


def test_without_a_target_the_prefix_is_begin_and_nothing_is_a_label(tmp_path: Path) -> None:
    source = write(tmp_path / "source", [[5, 6, 7], []])
    batch = make_batch(source, None, np.array([1, 0, 1]))
    assert batch.source.tolist() == [[E, P, P, P], [5, 6, 7, E], [E, P, P, P]]
    assert batch.prefix.tolist() == [[B], [B], [B]]
    assert batch.labels.shape == (3, 0)
    assert batch.target_tokens == 0


def test_no_sentences_make_an_empty_batch(tmp_path: Path) -> None:
    source = write(tmp_path / "source", [[5]])
    batch = make_batch(source, source, np.array([], np.int64))
    assert (batch.sentences, batch.target_tokens, batch.source.shape, batch.labels.shape) == (0, 0, (0, 1), (0, 1))


# The stream


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(0, 13), st.integers(0, 13)), min_size=1, max_size=60),
    tokens=st.integers(1, 60),
    sentences=st.one_of(st.none(), st.integers(1, 5)),
    longest=st.integers(2, 14),
    begin=st.booleans(),
    window=st.integers(1, 70),
    seed=st.integers(),
)
def test_an_epoch_has_each_usable_pair_once_and_every_batch_keeps_its_budget(
    stores_once: MakeStores,
    lengths: list[tuple[int, int]],
    tokens: int,
    sentences: int | None,
    longest: int,
    begin: bool,
    window: int,
    seed: int,
) -> None:
    source, target = stores_once(lengths)
    usable = [k for k, (s, t) in enumerate(lengths) if s and t and s + 1 + begin <= longest and t + 1 <= longest]

    def make() -> TrainingBatches:
        return TrainingBatches(
            source, target, tokens=tokens, sentences=sentences, longest=longest, seed=seed, source_begin=begin,
            window=window,
        )  # fmt: skip

    if not usable:
        with pytest.raises(InputError, match="none of the"):
            make()
        return
    batches = make()
    assert (batches.dropped, len(batches)) == (len(lengths) - len(usable), len(usable))
    epoch = epoch_of(batches)
    assert sorted(np.concatenate([batch.indices for batch in epoch]).tolist()) == usable
    for batch in epoch:
        padded = batch.sentences * max(batch.source.shape[1], batch.labels.shape[1])
        assert padded <= tokens or batch.sentences == 1
        assert batch.sentences <= (sentences or batch.sentences)
        assert max(batch.source.shape[1], batch.labels.shape[1]) <= longest
        for row, number in enumerate(batch.indices):
            assert list(batch.labels[row][batch.labels_mask[row]]) == [*target[number], END_ID]
            assert list(batch.source[row][batch.source_mask[row]]) == [*[B] * begin, *source[number], END_ID]


@pytest.fixture(scope="module")
def stores_once(tmp_path_factory: pytest.TempPathFactory) -> MakeStores:
    return stores.__wrapped__(tmp_path_factory)  # type: ignore[attr-defined, no-any-return]


def test_a_restart_at_any_position_gives_the_rest_of_the_stream(stores: MakeStores) -> None:
    source, target = stores(random_lengths(101))

    def make() -> TrainingBatches:
        return TrainingBatches(source, target, tokens=60, longest=11, seed=3, window=29)

    stream = list(islice(make().at(Position()), 150))
    assert stream[-1][1].epoch >= 2
    for start in range(149):
        position = Position(**json.loads(json.dumps(asdict(stream[start][1]))))
        # A new object each time, and each second one not fresh: what was read before may not matter.
        batches = make()
        if start % 2:
            next(batches.at(Position(5, 1, 0)))
        again = list(islice(batches.at(position), 149 - start if start % 10 == 0 else 3))
        for (batch, after), (expected, expected_after) in zip(again, stream[start + 1 :], strict=False):
            assert after == expected_after
            assert same(batch, expected)


def test_positions_only_grow_and_name_each_batch_once(stores: MakeStores) -> None:
    source, target = stores(random_lengths(101))
    batches = TrainingBatches(source, target, tokens=60, longest=9, seed=3, window=7)
    positions = [Position(), *(after for _, after in islice(batches.at(Position()), 200))]
    assert all(a < b for a, b in pairwise(positions))


def test_numbers_alone_are_the_same_stream(stores: MakeStores) -> None:
    batches = TrainingBatches(*stores(random_lengths(53)), tokens=60, longest=11, seed=3, window=29)
    for (batch, after), (indices, same_after) in islice(
        zip(batches.at(Position(1)), batches.indices_at(Position(1)), strict=False), 50
    ):
        assert after == same_after
        assert np.array_equal(batch.indices, indices)


def test_windows_without_a_usable_pair_are_passed_over(stores: MakeStores) -> None:
    lengths = [(3, 3) if number in (5, 80) else (3, 0) for number in range(97)]
    batches = TrainingBatches(*stores(lengths), tokens=60, longest=11, seed=3, window=2)
    assert batches.dropped == 95
    for epoch in range(20):
        assert sorted(np.concatenate([batch.indices for batch in epoch_of(batches, epoch)])) == [5, 80]


def test_epochs_and_seeds_differ_in_order_and_in_neighbours(stores: MakeStores) -> None:
    pair = stores([(5, 5)] * 101)  # equal lengths: only the shuffle decides who meets whom

    def made(seed: int, epoch: int) -> list[list[int]]:
        batches = TrainingBatches(*pair, tokens=60, longest=11, seed=seed)
        return [batch.indices.tolist() for batch in epoch_of(batches, epoch)]

    assert made(1, 0) == made(1, 0)
    for other in (made(1, 1), made(2, 0)):
        groups = {frozenset(group) for group in made(1, 0)} & {frozenset(group) for group in other}
        assert groups == set()


def test_lengths_come_in_no_order(stores: MakeStores) -> None:
    batches = TrainingBatches(*stores(random_lengths(997, longest=50)), tokens=200, longest=60, seed=3)
    widths = [max(batch.source.shape[1], batch.labels.shape[1]) for batch in epoch_of(batches)]
    assert abs(np.corrcoef(np.arange(len(widths)), widths)[0, 1]) < 0.2


def test_sorting_leaves_little_padding(stores: MakeStores) -> None:
    generator = np.random.default_rng(3)
    lengths = generator.integers(1, 60, 1999)
    pairs = [(int(a), max(1, int(a) + int(b))) for a, b in zip(lengths, generator.integers(-5, 6, 1999), strict=True)]
    epoch = epoch_of(TrainingBatches(*stores(pairs), tokens=1000, longest=70, seed=3))
    real = sum(batch.source_mask.sum() + batch.target_tokens for batch in epoch)
    assert real / sum(batch.source.size + batch.labels.size for batch in epoch) > 0.92


def test_a_pair_above_the_token_budget_is_a_batch_of_its_own(stores: MakeStores) -> None:
    batches = TrainingBatches(*stores([(2, 2), (40, 3), (2, 2), (3, 50)]), tokens=20, longest=51, seed=3)
    assert sorted(sorted(batch.indices.tolist()) for batch in epoch_of(batches)) == [[0, 2], [1], [3]]


def test_the_longest_counts_control_symbols(stores: MakeStores) -> None:
    pair = stores([(4, 4), (5, 4), (4, 5)])
    assert TrainingBatches(*pair, tokens=99, longest=6, seed=1).dropped == 0
    assert TrainingBatches(*pair, tokens=99, longest=5, seed=1).dropped == 2
    assert TrainingBatches(*pair, tokens=99, longest=6, seed=1, source_begin=True).dropped == 1


def test_what_was_dropped_is_counted_over_all_parts(stores: MakeStores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alignlens.corpora.batches._COUNTED_AT_ONCE", 7)
    lengths = random_lengths(101, longest=11)
    expected = sum(max(pair) > 8 for pair in lengths)
    assert TrainingBatches(*stores(lengths), tokens=99, longest=9, seed=1).dropped == expected


def test_unequal_sides_are_an_error(stores: MakeStores) -> None:
    (source, _), (_, target) = stores([(1, 1)] * 3), stores([(1, 1)] * 5)
    for make in (
        lambda: TrainingBatches(source, target, tokens=9, longest=9, seed=1),
        lambda: next(ordered_batches(source, target, tokens=9)),
    ):
        with pytest.raises(InputError, match=r"5 sentences, but .*source has 3") as caught:
            make()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", [{"tokens": 0}, {"sentences": 0}, {"window": 0}])
def test_budgets_of_nothing_are_errors(stores: MakeStores, wrong: dict[str, int]) -> None:
    source, target = stores([(1, 1)])
    with pytest.raises(ConfigError, match="at least 1"):
        TrainingBatches(source, target, **{"tokens": 9, "longest": 9, "seed": 1, **wrong})
    with pytest.raises(ConfigError, match="at least 1"):
        next(ordered_batches(source, target, **{"tokens": 9, **wrong}))


@pytest.mark.parametrize("pairs", [[], [(0, 3), (3, 0)], [(9, 9)]])
def test_nothing_to_train_on_is_an_error(stores: MakeStores, pairs: list[tuple[int, int]]) -> None:
    with pytest.raises(AlignlensError, match=f"none of the {len(pairs)} pairs"):
        TrainingBatches(*stores(pairs), tokens=9, longest=9, seed=1)


@pytest.mark.parametrize("position", [Position(0, 4), Position(0, 0, 99), Position(-1), Position(0, 0, -1)])
def test_a_position_of_another_stream_is_an_error(stores: MakeStores, position: Position) -> None:
    batches = TrainingBatches(*stores(random_lengths(101)), tokens=60, longest=12, seed=3, window=29)
    with pytest.raises(InputError, match="has no batch"):
        next(batches.at(position))


# Every sentence once


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(0, 13), st.integers(0, 13)), max_size=40),
    tokens=st.integers(1, 60),
    sentences=st.one_of(st.none(), st.integers(1, 5)),
    with_target=st.booleans(),
    begin=st.booleans(),
    window=st.integers(1, 50),
)
def test_ordered_batches_have_every_sentence_once_longest_first(
    stores_once: MakeStores,
    lengths: list[tuple[int, int]],
    tokens: int,
    sentences: int | None,
    with_target: bool,
    begin: bool,
    window: int,
) -> None:
    source, target = stores_once(lengths)
    made = list(
        ordered_batches(
            source, target if with_target else None, tokens=tokens, sentences=sentences, source_begin=begin,
            window=window,
        )
    )  # fmt: skip
    order = [int(number) for batch in made for number in batch.indices]
    assert sorted(order) == list(range(len(lengths)))
    size = [max(s + 1 + begin, t + 1 if with_target else 1) for s, t in lengths]
    for start in range(0, len(order), window):
        inside = order[start : start + window]
        assert sorted(inside) == list(range(start, start + len(inside)))
        sizes = [size[number] for number in inside]
        assert sizes == sorted(sizes, reverse=True)
    for batch in made:
        assert batch.sentences * max(size[number] for number in batch.indices) <= tokens or batch.sentences == 1
        assert batch.sentences <= (sentences or batch.sentences)


def test_ordered_batches_of_chosen_sentences(stores: MakeStores) -> None:
    source, target = stores(random_lengths(53))
    chosen = np.array([50, 3, 17, 3])
    batches = ordered_batches(source, target, tokens=1000, indices=chosen)
    (batch,) = batches
    assert sorted(batch.indices.tolist()) == [3, 3, 17, 50]
    assert list(ordered_batches(source, target, tokens=1000, indices=chosen[:0])) == []
