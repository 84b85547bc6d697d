"""Counts of words that occur together, computed by hand, and the first step of the proxy: closed form and torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training_files import CopyTask

from alignlens.cli.main import main
from alignlens.decoding.sentences import SentencesInMemory
from alignlens.metrics import cooccurrence
from alignlens.metrics.cooccurrence import (
    Bags,
    Words,
    centred,
    count_table,
    first_correlation,
    first_motion,
    model_one_attention,
    translation_table,
    word_counts,
)
from alignlens.tracking.records import read_journal

# Two pairs: "0 1" - "0 0 1", and "1 1 2 1" - "2".
SOURCE, TARGET = [[0, 1], [1, 1, 2, 1]], [[0, 0, 1], [2]]
TABLE = [[1.0, 0.5, 0.0], [1.0, 0.5, 0.75], [0.0, 0.0, 0.25]]


def bags_of(source: list[list[int]], target: list[list[int]], sizes: tuple[int, int]) -> Bags:
    stores = SentencesInMemory(source, sizes[0]), SentencesInMemory(target, sizes[1])
    return Bags.of(*stores, (in_order(sizes[0]), in_order(sizes[1])), np.arange(len(source)))


def in_order(size: int) -> Words:
    """All words in the order of their ids."""
    return Words.of(np.ones(size, np.int64), size)


def generated(pairs: int, words: int, seed: int = 1) -> Bags:
    """Translations word by word in another order, with frequent and rare words, as in the synthetic text."""
    generator = np.random.default_rng(seed)
    frequency = 1 / np.arange(1, words + 1)
    lengths = generator.integers(3, 12, pairs)
    source = [generator.choice(words, length, p=frequency / frequency.sum()).tolist() for length in lengths]
    target = [generator.permutation([(word * 7) % words for word in line]).tolist() for line in source]
    return bags_of(source, target, (words, words))


def test_a_table_counted_by_hand() -> None:
    assert bags_of(SOURCE, TARGET, (3, 3)).counts().tolist() == TABLE


def test_a_whole_text_in_portions_is_its_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(5)
    texts = [[generator.integers(0, 9, generator.integers(0, 7)).tolist() for _ in range(50)] for _ in range(2)]
    source, target = (SentencesInMemory(text, 9) for text in texts)
    expected = np.zeros((9, 9))
    for x, y in list(zip(*texts, strict=True))[:40]:
        for i in x:
            for o in y:
                expected[i, o] += 1 / len(x)
    monkeypatch.setattr(cooccurrence, "_PAIRS_AT_ONCE", 7)
    found = count_table(source, target, (in_order(9), in_order(9)), 40)
    np.testing.assert_allclose(found, expected)
    assert word_counts(source, 40).tolist() == [sum(line.count(word) for line in texts[0][:40]) for word in range(9)]
    # Words that are not chosen are one word, so that the chosen ones keep their counts.
    counts = word_counts(source, 40), word_counts(target, 40)
    few = Words.of(counts[0], 3), Words.of(counts[1], 4)
    some = count_table(source, target, few, 40)
    assert some.shape == (4, 5)
    np.testing.assert_allclose(some[:3, :4], expected[np.ix_(few[0].ids, few[1].ids)])
    np.testing.assert_allclose(some.sum(), expected.sum())
    np.testing.assert_allclose(translation_table(some)[0].sum(), 1)


def test_the_most_frequent_words_and_the_one_for_all_others() -> None:
    words = Words.of(np.array([2, 0, 5, 2, 1]), 2)
    assert (words.ids.tolist(), words.rest, words.size) == ([2, 0], True, 3)
    assert words.places.tolist() == [1, 2, 0, 2, 2]
    every = Words.of(np.array([2, 0, 5]), 10)
    assert (every.ids.tolist(), every.rest, every.size) == ([2, 0], False, 2)


def test_shares_of_the_counts_and_the_attention_of_model_one() -> None:
    translation = translation_table(np.array(TABLE))
    np.testing.assert_allclose(translation, [[2 / 3, 1 / 3, 0], [4 / 9, 2 / 9, 1 / 3], [0, 0, 1]])
    found = model_one_attention(translation, [0, 1], [0, 2])
    np.testing.assert_allclose(found, [[3 / 5, 2 / 5], [0, 1]])
    assert translation_table(np.zeros((1, 2))).tolist() == [[0, 0]]
    # Nothing is known of this word.
    assert model_one_attention(translation, [0, 0], [2]).tolist() == [[0.5, 0.5]]


def test_centred_counts_have_no_mean() -> None:
    np.testing.assert_allclose(centred(np.array(TABLE))[0], [0.5, 0, -0.5])
    np.testing.assert_allclose(centred(np.array(TABLE)).sum(axis=1), 0, atol=1e-12)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_closed_form_is_what_gradient_flow_does(seed: int) -> None:
    generator = np.random.default_rng(seed)
    source = [generator.integers(0, 6, generator.integers(1, 5)).tolist() for _ in range(8)]
    target = [generator.integers(0, 5, generator.integers(1, 6)).tolist() for _ in range(8)]
    embeddings, outputs = generator.standard_normal((6, 3)), generator.standard_normal((5, 3))
    e, w = (torch.tensor(each, requires_grad=True) for each in (embeddings, outputs))
    loss = torch.zeros((), dtype=torch.float64)
    for x, y in zip(source, target, strict=True):
        log_probabilities = torch.log_softmax((e[x] @ w.T).mean(dim=0), dim=0)
        loss = loss - log_probabilities[y].sum()
    loss.backward()
    assert e.grad is not None
    assert w.grad is not None
    # theta = e W', so that its motion is de W' + e dW', each against its gradient.
    expected = -(e.grad @ w.detach().T + e.detach() @ w.grad.T)
    found = first_motion(bags_of(source, target, (6, 5)), embeddings, outputs)
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-10)


def test_without_noise_it_is_twice_the_centred_counts() -> None:
    # Orthogonal vectors of length one, so small a part of a space so large that no score is anything but zero.
    bags = generated(100, 12)
    basis = np.eye(24)
    np.testing.assert_allclose(first_motion(bags, basis[:12], basis[12:]), 2 * centred(bags.counts()), atol=1e-10)


def test_the_correlation_grows_with_the_width_and_comes_close_to_one() -> None:
    bags = generated(400, 40)
    means = [np.mean([first_correlation(bags, width, seed) for seed in range(3)]) for width in (4, 16, 64, 256, 1024)]
    assert means == sorted(means)
    assert means[0] < 0.7
    assert means[-1] > 0.95
    # The error of a width is that of (words + words) / (4 width) times the variance of the counts, about.
    assert means[2] == pytest.approx((1 + 80 / 256) ** -0.5, abs=0.08)
    assert first_correlation(bags, 64, 1) == first_correlation(bags, 64, 1) != first_correlation(bags, 64, 2)


# ---- the verb


def counted(place: Path, *words: str) -> dict[str, Any]:
    assert main(["counts", *words, "--out", str(place / "counts.json")]) == 0
    content: dict[str, Any] = json.loads((place / "counts.json").read_text())
    return content


def test_counts_of_a_plain_text(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("der hund\nhund hund katze hund\n")
    (tmp_path / "target").write_text("the the dog\ncat\n")
    pair = ["--source", str(tmp_path / "source"), "--target", str(tmp_path / "target")]
    about = ["--journal", str(tmp_path / "j.jsonl"), "--about", '{"dataset": "demo", "direction": "xa-xb"}']
    found = counted(tmp_path, *pair, *about)
    assert found["pairs"] == 2
    assert found["source_words"] == ["hund", "der", "katze"]
    assert found["target_words"] == ["the", "dog", "cat"]
    assert found["table"] == [[1.0, 0.5, 0.75], [1.0, 0.5, 0.0], [0.0, 0.0, 0.25]]
    np.testing.assert_allclose(found["translation"][0], [4 / 9, 2 / 9, 1 / 3])
    assert [row["d"] for row in found["growth"]] == [16, 64, 256, 1024, 4096]
    assert all(row["least"] <= row["pearson"] <= row["greatest"] for row in found["growth"])
    assert found["growth"][-1]["least"] > 0.95
    (record,) = read_journal(tmp_path / "j.jsonl")
    assert record.name == "demo · xa-xb · counts"
    assert record.latest["pearson"] == pytest.approx(found["growth"][-1]["pearson"])
    one = counted(tmp_path, *pair, "--pairs", "1", "--words", "1")
    assert (one["pairs"], one["source_words"], one["table"]) == (1, ["der"], [[1.0]])
    np.testing.assert_allclose(one["translation"], [[2 / 3]])


def test_counts_of_token_stores_have_the_pieces_of_the_text(tmp_path: Path) -> None:
    task = CopyTask.write(tmp_path / "task")
    model = str(task.folder / "bpe" / "source.model")
    subwords = ["--source-subwords", model, "--target-subwords", model]
    stored = counted(
        tmp_path, "--source", str(task.folder / "train"), "--target", str(task.folder / "train"), *subwords
    )
    text = str(task.folder / "train.txt")
    assert stored == counted(tmp_path, "--source", text, "--target", text, *subwords)
    assert "▁ba" in stored["source_words"]
    assert np.argmax(stored["table"], axis=1).tolist() == list(range(len(stored["source_words"])))
    words = counted(tmp_path, "--source", text, "--target", text)
    assert sorted(words["source_words"]) == ["ba", "du", "ge", "ki", "lo", "mu", "ne"]


def test_what_the_user_can_fix_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = CopyTask.write(tmp_path / "task")
    store, text = str(task.folder / "dev"), str(task.folder / "dev.txt")
    out = ["--out", str(tmp_path / "x.json")]

    def failed_with(*words: str) -> str:
        assert main(["counts", *words, *out]) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1, told
        assert not (tmp_path / "x.json").exists()
        return told

    assert "is a token store; also give the subword model" in failed_with("--source", store, "--target", store)
    train = str(task.folder / "train.txt")
    assert "lines" in failed_with("--source", text, "--target", train)
    (tmp_path / "same").write_text("a\na a\n")
    same = str(tmp_path / "same")
    assert "there is nothing to learn" in failed_with("--source", same, "--target", same)
    wrong = ["--source-subwords", text, "--target-subwords", text]
    assert "not a SentencePiece model" in failed_with("--source", store, "--target", store, *wrong)


def test_the_verb_does_not_load_the_tensor_library(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a b\nb c\n")
    code = (
        "import sys\nfrom alignlens.cli.main import main\n"
        f"text, out = {str(tmp_path / 'text')!r}, {str(tmp_path / 'out')!r}\n"
        "assert main(['counts', '--source', text, '--target', text, '--out', out]) == 0\n"
        "assert not {'torch', 'mlflow', 'pandas', 'scipy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
