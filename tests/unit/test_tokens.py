"""The token store: what goes in comes out, in bounded memory, and nothing damaged is read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignlens.corpora import tokens
from alignlens.corpora.symbols import BEGIN_ID, END_ID, PADDING_ID, UNKNOWN_ID
from alignlens.corpora.tokens import TokenStore, TokenWriter
from alignlens.errors import InputError

SENTENCES = [[5, 6, 7], [], [UNKNOWN_ID], [10, 9, 8, 7, 6], []]


def write(folder: Path, sentences: list[list[int]], vocabulary_size: int = 11, subwords: str = "bpe") -> TokenStore:
    with TokenWriter(folder, vocabulary_size, subwords) as writer:
        for sentence in sentences:
            writer.append(sentence)
    return TokenStore.open(folder)


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    return write(tmp_path / "store", SENTENCES)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([5, 300, 65_536, 65_537, 1 << 20]), st.booleans())
def test_every_sentence_comes_back(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, vocabulary: int, mapped: bool
) -> None:
    piece = st.one_of(st.just(UNKNOWN_ID), st.integers(4, vocabulary - 1))
    sentences = data.draw(st.lists(st.lists(piece, max_size=7), max_size=11))
    with pytest.MonkeyPatch.context() as patch:
        if not mapped:
            patch.setattr(tokens, "_LARGEST_MAP_BYTES", 0)
        store = write(tmp_path_factory.mktemp("tokens") / "store", sentences, vocabulary)
    assert [list(store[index]) for index in range(len(store))] == sentences
    assert (len(store), store.tokens) == (len(sentences), sum(map(len, sentences)))
    everything = np.arange(len(store))[::-1]
    ids, lengths = store.gather(everything)
    assert list(ids) == [piece for sentence in sentences[::-1] for piece in sentence]
    assert list(lengths) == [len(sentence) for sentence in sentences[::-1]]
    assert list(store.lengths(everything)) == list(lengths)
    assert list(store.lengths_between(0, len(store))) == list(lengths)[::-1]


def test_ids_take_two_bytes_where_they_fit(tmp_path: Path) -> None:
    write(tmp_path / "narrow", [[65_535]], 65_536)
    write(tmp_path / "wide", [[65_536]], 65_537)
    assert (tmp_path / "narrow/ids.bin").stat().st_size == 2
    assert (tmp_path / "wide/ids.bin").stat().st_size == 4


@pytest.mark.parametrize("largest_map", [0, 1 << 20])
def test_a_sentence_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest_map: int) -> None:
    monkeypatch.setattr(tokens, "_LARGEST_MAP_BYTES", largest_map)
    store = write(tmp_path / "store", SENTENCES)
    with pytest.raises(ValueError, match="read-only"):
        store[0][0] = 4


def test_a_large_file_that_shrinks_while_it_is_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "_LARGEST_MAP_BYTES", 0)
    store = write(tmp_path / "store", SENTENCES)
    _cut(store.folder / "ids.bin", 4)
    assert list(store[0]) == SENTENCES[0]
    with pytest.raises(InputError, match="became shorter"):
        store.gather(np.arange(5))


@pytest.mark.parametrize("index", [-1, 5])
def test_sentences_that_are_not_there_are_errors(store: TokenStore, index: int) -> None:
    with pytest.raises(IndexError, match="of a store of 5"):
        store[index]
    with pytest.raises(IndexError, match="of a store of 5"):
        store.lengths(np.array([0, index]))


def test_the_first_sentences_are_a_store_of_their_own(store: TokenStore) -> None:
    some = store.first(3)
    assert [list(some[index]) for index in range(len(some))] == SENTENCES[:3]
    assert list(some.lengths_between(0, len(some))) == [3, 0, 1]
    assert (some.subwords, some.vocabulary_size) == (store.subwords, store.vocabulary_size)
    assert some.fingerprint not in (store.fingerprint, store.first(2).fingerprint)
    for index in (3, -1):
        with pytest.raises(IndexError):
            some[index]
    with pytest.raises(IndexError):
        some.gather(np.array([3]))
    assert store.first(5) is store.first(99) is store


def test_the_fingerprint_names_the_content_and_not_how_it_was_written(tmp_path: Path, store: TokenStore) -> None:
    with TokenWriter(tmp_path / "again", 11, "bpe") as writer:
        writer.append(SENTENCES[0])
        rest = [piece for sentence in SENTENCES[1:] for piece in sentence]
        writer.extend(np.array(rest), np.array([len(sentence) for sentence in SENTENCES[1:]]))
    assert writer.fingerprint == store.fingerprint == TokenStore.open(tmp_path / "again").fingerprint
    others = {
        write(tmp_path / "pieces", [[5, 6, 8], *SENTENCES[1:]]).fingerprint,
        write(tmp_path / "borders", [[5, 6], [7], *SENTENCES[2:]]).fingerprint,
        write(tmp_path / "vocabulary", SENTENCES, 12).fingerprint,
        write(tmp_path / "subwords", SENTENCES, subwords="others").fingerprint,
        store.fingerprint,
    }
    assert len(others) == 5


def test_many_sentences_are_written_in_parts(tmp_path: Path) -> None:
    count = 400_000  # more than the writer keeps at once, for ids as for sentences
    with TokenWriter(tmp_path / "store", 1000, "bpe") as writer:
        for number in range(count):
            writer.append([4 + number % 991] if number % 3 else [])
    store = TokenStore.open(tmp_path / "store")
    assert len(store) == count
    lengths = store.lengths_between(0, count)
    assert np.array_equal(lengths, np.arange(count) % 3 > 0)
    chosen = np.array([399_998, 1, 262_145, 4])
    assert list(store.gather(chosen)[0]) == [4 + number % 991 for number in chosen]


@pytest.mark.parametrize("wrong", [BEGIN_ID, END_ID, PADDING_ID, 11, 70_000])
def test_what_is_no_piece_is_refused_and_leaves_no_folder(tmp_path: Path, wrong: int) -> None:
    with pytest.raises(ValueError, match=f"sentence 2: {wrong} is not a piece of a vocabulary of 11"):
        write(tmp_path / "store", [[4], [], [5, wrong], [6]])
    assert list(tmp_path.iterdir()) == []


def test_lengths_that_do_not_fit_the_ids_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="3 ids for sentences of 2"),
        TokenWriter(tmp_path / "store", 11, "bpe") as writer,
    ):
        writer.extend(np.array([4, 5, 6]), np.array([1, 1]))


def test_an_error_leaves_the_old_store(tmp_path: Path, store: TokenStore) -> None:
    with pytest.raises(ValueError, match="sentence 1"):
        write(store.folder, [[4], [END_ID]])
    assert TokenStore.open(store.folder).fingerprint == store.fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert write(store.folder, [[4]]).tokens == 1


def test_a_folder_with_other_things_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/thesis.tex").touch()
    with pytest.raises(InputError, match="with other content"), TokenWriter(tmp_path / "home", 11, "bpe"):
        pass
    with pytest.raises(InputError, match="is a file"), TokenWriter(tmp_path / "home/thesis.tex", 11, "bpe"):
        pass
    assert (tmp_path / "home/thesis.tex").is_file()


def _describe(folder: Path, **changes: Any) -> None:
    path = folder / "store.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def _cut(path: Path, bytes_less: int) -> None:
    path.write_bytes(path.read_bytes()[:-bytes_less])


def _flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


BROKEN = {
    "absent": (lambda f: f.rename(f.with_name("elsewhere")), "no such folder"),
    "without seal": (lambda f: (f / "seal.json").unlink(), "not a token store: it has no seal.json"),
    "cut seal": (lambda f: _cut(f / "seal.json", 9), "not a seal"),
    "flipped seal": (lambda f: _flip(f / "seal.json", 801), "not a seal"),
    "without description": (lambda f: (f / "store.json").unlink(), "no such file"),
    "cut description": (lambda f: _cut(f / "store.json", 9), "damaged"),
    "later version": (lambda f: _describe(f, version=9), "damaged"),
    "without ids": (lambda f: (f / "ids.bin").unlink(), "no such file"),
    "cut ids": (lambda f: _cut(f / "ids.bin", 1), "17 bytes instead of 18"),
    "cut offsets": (lambda f: _cut(f / "offsets.bin", 8), "40 bytes instead of 48"),
    "long ids": (lambda f: (f / "ids.bin").open("ab").write(b"\0"), "19 bytes instead of 18"),
    "flipped ids": (lambda f: _flip(f / "ids.bin", 8), "has changed since it was written"),
    "flipped offsets": (lambda f: _flip(f / "offsets.bin", 64), "has changed since it was written"),
    "foreign file": (lambda f: (f / "notes").touch(), "notes: was not written with this token store"),
}


@pytest.mark.parametrize("damage", BROKEN)
def test_a_broken_store_is_one_clear_line(store: TokenStore, damage: str) -> None:
    breaking, message = BROKEN[damage]
    breaking(store.folder)
    with pytest.raises(InputError, match=message) as caught:
        TokenStore.open(store.folder)
    assert "\n" not in str(caught.value)
    assert "recreate it with" in str(caught.value) or damage == "foreign file"


ITERATE = """
import sys
from pathlib import Path
from alignlens.corpora.batches import Position, TrainingBatches, make_batch
from alignlens.corpora.tokens import TokenStore

def peak_megabytes():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024

store = TokenStore.open(sys.argv[1])
make_batch(store, store, range(1000))
before = peak_megabytes()
stream = TrainingBatches(store, store, tokens=16000, longest=256, seed=1).at(Position())
seen = 0
for batch, position in stream:
    seen += batch.sentences
    if position.window == 2:
        break
print(seen, peak_megabytes() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="asks Linux for the peak memory of a process")
def test_training_on_many_pairs_needs_no_memory_for_them(tmp_path: Path) -> None:
    with TokenWriter(tmp_path / "store", 1000, "bpe") as writer:
        for _ in range(30):
            writer.extend(np.tile(np.arange(4, 904), 1000), np.tile(np.arange(1, 9), 25_000))
    sizes = [(tmp_path / "store" / name).stat().st_size / (1 << 20) for name in ("ids.bin", "offsets.bin")]
    command = [sys.executable, "-c", ITERATE, str(tmp_path / "store")]
    seen, growth = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(seen) == 2 * 65_536
    assert float(growth) < 32 < 45 < min(sizes), f"grew by {growth} MB with files of {sizes} MB"
