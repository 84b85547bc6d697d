"""Subwords: nothing is lost, words keep their places, training repeats bit for bit."""

from __future__ import annotations

import json
import os
import random
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from alignlens.cli.main import main
from alignlens.corpora.tokens import TokenStore
from alignlens.errors import AlignlensError, ConfigError, InputError, ToolError
from alignlens.io.atomic import write_lines
from alignlens.io.text import read_lines, words
from alignlens.subwords import spans
from alignlens.subwords.sentencepiece_bpe import check_special_ids, train, train_pair
from alignlens.subwords.settings import BpeSettings
from alignlens.subwords.spans import Segmenter, join, line_of, word_of_piece

ORDINARY = ["der", "hund", "läuft", "über", "die", "straße", "schlafende", "katzen", ",", ".", "haus", "häuser"]
EXOTIC = [
    "▁", "▁▁", "a▁b", "▁wort", "wort▁", "...", "—", "a\u00a0b", "\u00a0", "e\u0301", "\u0301", "日本語", "☃",
    "😀x", "<0x41>", "<s>", "</s>", "<unk>", "&amp;", "a|b", "\u3000", "\u2028", "\x00", "▅", "⁇", "\r", "שָׁלוֹם",
]  # fmt: skip


def corpus(count: int = 300) -> list[str]:
    chosen = random.Random(7)
    return [" ".join(chosen.choices(ORDINARY, k=chosen.randint(1, 12))) for _ in range(count)]


@pytest.fixture(scope="module", params=[True, False], ids=["dummy-prefix", "no-dummy-prefix"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bpe") / "source.model"
    path.write_bytes(train(corpus(), BpeSettings(vocab=320, dummy_prefix=request.param)))
    return path


@pytest.fixture(scope="module")
def segmenter(model: Path) -> Segmenter:
    return Segmenter.load(model)


word = st.one_of(
    st.sampled_from(ORDINARY + EXOTIC),
    st.text(st.characters(codec="utf-8", exclude_characters=" \t\n"), min_size=1, max_size=8),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(word, max_size=12))
def test_every_word_keeps_its_place_and_its_letters(segmenter: Segmenter, sentence: list[str]) -> None:
    segmented = segmenter.segment(" ".join(sentence))
    assert sorted(set(segmented.word_of_piece)) == list(range(len(sentence)))
    assert segmented.word_of_piece == sorted(segmented.word_of_piece)
    for index, expected in enumerate(sentence):
        mine = [p for p, w in zip(segmented.pieces, segmented.word_of_piece, strict=True) if w == index]
        assert join(mine) == expected
    # What a file holds is enough: no model is needed to find the words again.
    reread = words(" ".join(segmented.pieces))
    assert reread == segmented.pieces
    assert word_of_piece(reread) == segmented.word_of_piece
    assert words(join(reread)) == sentence
    assert segmenter.pieces_of(segmented.ids) == segmented.pieces


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text("abcdefghijklmnopqrstuvwxyzäöüß.,-0123456789日本", min_size=1, max_size=12), max_size=10))
def test_word_by_word_equals_the_whole_line_by_sentencepiece(
    model: Path, segmenter: Segmenter, sentence: list[str]
) -> None:
    line = " ".join(sentence)
    whole = sentencepiece.SentencePieceProcessor(model_proto=model.read_bytes())
    assert segmenter.segment(line).ids == whole.encode(line)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_spans_of_anything_a_model_may_write_agree_with_the_joined_line(
    segmenter: Segmenter, data: st.DataObject
) -> None:
    vocabulary = segmenter.vocabulary[4:]
    likely = ["▁", "▁der", "<0x20>", "<0x0A>", "<0x09>", "<0xE2>", "<0x96>", "<0x81>", "e"]
    pieces = data.draw(st.lists(st.one_of(st.sampled_from(likely), st.sampled_from(vocabulary)), max_size=12))
    owner, line = word_of_piece(pieces), join(pieces)
    assert len(owner) == len(pieces)
    assert owner == sorted(owner)
    spelled = words(line)
    assert set(owner) == (set(range(len(spelled))) if spelled else {-1} if pieces else set())
    for number, word in enumerate(spelled):
        assert join([piece for piece, mine in zip(pieces, owner, strict=True) if mine == number]) == word
    assert "\n" not in line


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_generated_lines_keep_their_words_in_a_file(
    segmenter: Segmenter, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    likely = [
        "▁",
        "▁der",
        "<0x0D>",
        "<0x0A>",
        "<0xEF>",
        "<0xBB>",
        "<0xBF>",
        "<0xC2>",
        "<0x85>",
        "<0x1F>",
        "<0x8B>",
        "e",
    ]
    piece = st.one_of(st.sampled_from(likely), st.sampled_from(segmenter.vocabulary[4:]))
    generated = data.draw(st.lists(st.lists(piece, max_size=9), min_size=1, max_size=4))
    path = tmp_path_factory.mktemp("generated") / "text"
    write_lines(path, map(line_of, generated))
    found = read_lines(path)
    assert len(found) == len(generated)
    for line, pieces in zip(found, generated, strict=True):
        assert len(words(line)) == max(word_of_piece(pieces), default=-1) + 1
        assert line == line_of(pieces)


def test_first_piece_has_a_mark_only_with_the_dummy_prefix(segmenter: Segmenter) -> None:
    pieces = segmenter.segment("der hund").pieces
    assert pieces[0].startswith("▁") is segmenter.dummy_prefix
    assert word_of_piece(pieces)[0] == 0
    assert word_of_piece(pieces)[-1] == 1


def test_known_answers() -> None:
    assert word_of_piece(["▁a", "b", "▁", "c"]) == [0, 0, 1, 1]
    assert word_of_piece(["a", "▁b"]) == [0, 1]
    assert word_of_piece(["▁", "▁a"]) == [0, 0]
    assert word_of_piece(["▁a", "▁"]) == [0, 0]
    assert word_of_piece([]) == []
    assert word_of_piece(["▁", "▁"]) == [-1, -1]
    assert word_of_piece(["<0x20>", "▁", "▁", "a"]) == [0, 1, 1, 1]
    assert word_of_piece(["▁▁", "a▁b"]) == [0, 0]
    assert join(["▁", "▁"]) == line_of([]) == ""
    assert join(["<0x20>", "▁", "▁", "a"]) == "\ufffd a"
    assert join(["▁▁", "a▁b"]) == "▁a▁b"
    assert join(["▁a", "▁<unk>", "</s>"]) == "a <unk></s>"
    assert join(["▁", "<0xC3>", "▁", "<0xA4>"]) == "\ufffd \ufffd"
    assert join(["▁a", "▁", "<0x0D>"]) == "a \r"
    assert line_of(["▁a", "▁", "<0x0D>"]) == "a \ufffd"
    assert line_of(["<0xEF>", "<0xBB>", "<0xBF>", "▁a"]) == "\ufffd a"
    assert join(["▁a", "<0xC3>", "<0xA4>", "▁b"]) == "aä b"
    assert join(["▁a", "<0x20>"]) == "a\ufffd"
    assert join(["▁a", "<0xC3>", "▁b"]) == "a\ufffd b"
    assert join(["▁", "▁a", "b", "▁", "▁c", "▁"]) == "ab c"
    assert join(["x▁y", "▁z"]) == "x▁y z"
    assert join([]) == ""


def test_tabs_and_several_spaces_separate_and_empty_lines_stay_empty(segmenter: Segmenter) -> None:
    assert segmenter.segment("  der\t hund ") == segmenter.segment("der hund")
    assert segmenter.segment("") == ([], [], [])


def test_training_repeats_bit_for_bit() -> None:
    assert train(corpus(), BpeSettings(vocab=320)) == train(corpus(), BpeSettings(vocab=320))


def test_limit_takes_lines_from_the_whole_file() -> None:
    text = ["anfang anfang"] * 50 + ["zuletzt zuletzt"] * 50
    few = sentencepiece.SentencePieceProcessor(model_proto=train(text, BpeSettings(vocab=275, limit=4)))
    assert {"f", "z"} <= {few.id_to_piece(k) for k in range(few.get_piece_size())}


def test_vocabulary_too_large_names_the_largest_that_works() -> None:
    with pytest.raises(ConfigError, match=r"too large .* at most \d+\. Set vocab to (\d+) or less") as caught:
        train(corpus(), BpeSettings(vocab=50_000))
    largest = int(str(caught.value).rsplit("Set vocab to ", 1)[1].split()[0])
    train(corpus(), BpeSettings(vocab=largest))
    with pytest.raises(ConfigError, match="too large"):
        train(corpus(), BpeSettings(vocab=largest + 1))


def test_vocabulary_too_small_names_the_smallest_that_works() -> None:
    with pytest.raises(ConfigError, match=r"too small .* Set vocab to (\d+) or more") as caught:
        train(corpus(), BpeSettings(vocab=100))
    smallest = int(str(caught.value).rsplit("Set vocab to ", 1)[1].split()[0])
    train(corpus(), BpeSettings(vocab=smallest))
    with pytest.raises(ConfigError, match="too small"):
        train(corpus(), BpeSettings(vocab=smallest - 1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: BpeSettings(kind="both"),  # type: ignore[arg-type]
        lambda: BpeSettings(coverage=0.5),
        lambda: BpeSettings(limit=0),
        lambda: train(["", "  "], BpeSettings(vocab=300)),
        lambda: train(corpus(), BpeSettings(vocab=0)),
        lambda: train(corpus(), BpeSettings(vocab=-5)),
    ],
)
def test_wrong_settings_are_errors_of_one_line(make: object) -> None:
    with pytest.raises(AlignlensError) as caught:
        make()  # type: ignore[operator]
    assert "\n" not in str(caught.value)


def test_broken_models_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such model"):
        Segmenter.load(tmp_path / "absent.model")
    (tmp_path / "broken.model").write_bytes(b"not a model")
    with pytest.raises(InputError, match="not a SentencePiece model"):
        Segmenter.load(tmp_path / "broken.model")
    (tmp_path / "empty.model").write_bytes(b"")
    with pytest.raises(InputError, match="not a SentencePiece model"):
        Segmenter.load(tmp_path / "empty.model")


def test_damaged_models_are_refused_whoever_wrote_them(tmp_path: Path) -> None:
    train_pair(corpus(), corpus(), BpeSettings(vocab=320), tmp_path / "bpe")
    sealed, foreign = tmp_path / "bpe/source.model", tmp_path / "foreign.model"
    content = bytearray(sealed.read_bytes())
    chosen = random.Random(3)
    for _ in range(20):
        damaged = bytearray(content)
        damaged[chosen.randrange(len(damaged))] ^= 1 << chosen.randrange(8)
        sealed.write_bytes(damaged)
        with pytest.raises(InputError, match=r"damaged: .*\(SHA-256\)\. Delete .* recreate it with: alignlens"):
            Segmenter.load(sealed)
        foreign.write_bytes(damaged)
        with suppress(InputError):
            Segmenter.load(foreign)


def test_a_model_that_crashes_the_library_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wild.model").write_bytes(b"anything")
    monkeypatch.setattr(spans, "_processor_of", lambda path: os.abort())
    with pytest.raises(ToolError, match=r"wild\.model: loading this SentencePiece model crashed \(SIGABRT\)"):
        Segmenter.load(tmp_path / "wild.model")


def test_a_line_that_is_too_long_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("der hund\n" + "ä" * (1 << 19) + " hund\n", encoding="utf-8")
    (tmp_path / "b").write_text("the dog\nthe dog\n")
    call = ["subwords", "train", "--vocab", "300", "--source", str(tmp_path / "a"), "--target", str(tmp_path / "b")]
    assert main([*call, "--out", str(tmp_path / "bpe")]) == 2
    told = capfd.readouterr().err
    assert "a:2: a line of 1,048,581 bytes; SentencePiece takes at most 1,048,576. Split it into sentences" in told
    assert told.count("\n") == 1


def test_pieces_that_lost_a_mark_are_noticed(tmp_path: Path, model: Path) -> None:
    (tmp_path / "text").write_text("der hund läuft\n", encoding="utf-8")
    pieces = tmp_path / "pieces"
    call = ["subwords", "segment", "--model", model, "--input", tmp_path / "text", "--out", pieces]
    assert main([str(part) for part in call]) == 0
    content = read_lines(pieces)[0]
    pieces.write_text(content.replace(" ▁", " ", 1) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"it has changed since it was written.*alignlens subwords segment"):
        read_lines(pieces)


def _foreign_model(path: Path, **changes: object) -> None:
    with path.open("wb") as out:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus()), model_writer=out, model_type="bpe", minloglevel=2, num_threads=1,
            **changes,
        )  # fmt: skip


def test_a_model_that_would_lose_characters_is_refused(tmp_path: Path) -> None:
    _foreign_model(tmp_path / "lossy.model", vocab_size=60)
    with pytest.raises(InputError, match="no byte pieces"):
        Segmenter.load(tmp_path / "lossy.model")
    _foreign_model(tmp_path / "nfkc.model", vocab_size=320, byte_fallback=True)
    with pytest.raises(InputError, match="the model changes the word 'ﬁ' into 'fi'"):
        Segmenter.load(tmp_path / "nfkc.model").segment("der ﬁ")


def test_joint_models_are_equal_and_separate_ones_are_not(tmp_path: Path) -> None:
    source, target = corpus(), [line.upper() for line in corpus()]
    joint = train_pair(source, target, BpeSettings("joint", 330), tmp_path / "joint")
    assert (tmp_path / "joint/source.model").read_bytes() == (tmp_path / "joint/target.model").read_bytes()
    train_pair(source, target, BpeSettings("separate", 310), tmp_path / "separate")
    assert (tmp_path / "separate/source.model").read_bytes() != (tmp_path / "separate/target.model").read_bytes()
    assert json.loads((tmp_path / "joint/subwords.json").read_text()) == joint
    assert joint["statistics"]["source"]["words"] == sum(len(words(line)) for line in source)
    assert joint["statistics"]["source"]["vocabulary"] == 330


def test_failed_training_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the target text"):
        train_pair(corpus(), ["", ""], BpeSettings("separate", 320), tmp_path / "bpe")
    assert list(tmp_path.iterdir()) == []


def test_command_line_trains_and_segments(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("\n".join(corpus()) + "\n")
    (tmp_path / "b").write_text("\n".join(line.upper() for line in corpus()) + "\n")
    common = ["subwords", "train", "--source", str(tmp_path / "a"), "--target", str(tmp_path / "b")]
    about = ["--about", '{"dataset": "demo"}']
    assert main([*common, "--vocab", "330", "--no-dummy-prefix", "--out", str(tmp_path / "bpe"), *about,
                 "--journal", str(tmp_path / "bpe.journal.jsonl"), "--json"]) == 0  # fmt: skip
    printed = capfd.readouterr()
    assert json.loads(printed.out)["settings"]["dummy_prefix"] is False
    assert "trainer_interface" not in printed.err
    assert '"FINISHED"' in (tmp_path / "bpe.journal.jsonl").read_text()

    text = ["der hund ▁ läuft", "", "a\u00a0b schlafende"]
    (tmp_path / "text").write_text("\n".join(text) + "\n")
    assert main(["subwords", "segment", "--model", str(tmp_path / "bpe/source.model"), "--input",
                 str(tmp_path / "text"), "--out", str(tmp_path / "pieces"), "--out-words",
                 str(tmp_path / "spans")]) == 0  # fmt: skip
    pieces = (tmp_path / "pieces").read_text().split("\n")[:-1]
    assert [join(words(line)) for line in pieces] == text
    spans = (tmp_path / "spans").read_text().split("\n")[:-1]
    assert [list(map(int, line.split())) for line in spans] == [word_of_piece(words(line)) for line in pieces]

    assert main([*common, "--vocab", "90000", "--out", str(tmp_path / "big")]) == 2
    assert capfd.readouterr().err.count("\n") == 1


def test_segment_also_writes_the_ids_as_a_token_store(
    tmp_path: Path, model: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = ["der hund ▁ läuft", "", "a\u00a0b schlafende", "<s> </s> <pad>"]
    (tmp_path / "text").write_text("\n".join(text) + "\n")
    journal = tmp_path / "pieces.journal.jsonl"
    common = ["subwords", "segment", "--model", str(model), "--input", str(tmp_path / "text")]
    arguments = [*common, "--out", str(tmp_path / "pieces"), "--tokens", str(tmp_path / "tokens")]
    assert main([*arguments, "--journal", str(journal)]) == 0
    segmenter, store = Segmenter.load(model), TokenStore.open(tmp_path / "tokens")
    assert [store[k].tolist() for k in range(len(store))] == [segmenter.segment(line).ids for line in text]
    assert store.vocabulary_size == len(segmenter) == 320
    pieces = (tmp_path / "pieces").read_text().split("\n")[:-1]
    assert [segmenter.pieces_of(store[k]) for k in range(len(store))] == [words(line) for line in pieces]

    events = [json.loads(line) for line in journal.read_text().splitlines()]
    metrics = [event["values"] for event in events if event["event"] == "metrics"]
    assert metrics[0] == {"lines": 4, "words": 9, "pieces": store.tokens}
    assert [event["path"] for event in events if event["event"] == "artifact"] == ["tokens/store.json"]

    before = (tmp_path / "tokens/store.json").read_bytes()
    assert main(arguments) == 0
    assert (tmp_path / "tokens/store.json").read_bytes() == before
    assert main([*common, "--out", str(tmp_path / "alone")]) == 0
    assert (tmp_path / "alone").read_bytes() == (tmp_path / "pieces").read_bytes()


def test_segment_of_damaged_text_leaves_nothing(tmp_path: Path, model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_bytes(b"der hund\n" * 3 + b"l\xe4uft\n")
    outputs = ["--out", str(tmp_path / "out"), "--out-words", str(tmp_path / "w"), "--tokens", str(tmp_path / "t")]
    assert main(["subwords", "segment", "--model", str(model), "--input", str(tmp_path / "text"), *outputs]) == 2
    assert "text:4: not UTF-8 (byte 0xe4)" in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_segment_reads_a_pipe_once(tmp_path: Path, model: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    feeder = threading.Thread(target=(tmp_path / "pipe").write_text, args=("der hund\n" * 5,))
    feeder.start()
    assert main(["subwords", "segment", "--model", str(model), "--input", str(tmp_path / "pipe"),
                 "--out", str(tmp_path / "out"), "--tokens", str(tmp_path / "tokens")]) == 0  # fmt: skip
    feeder.join()
    assert len(TokenStore.open(tmp_path / "tokens")) == len((tmp_path / "out").read_text().splitlines()) == 5


def test_a_model_with_other_control_symbols_makes_no_token_store(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _foreign_model(tmp_path / "foreign.model", vocab_size=320, byte_fallback=True, normalization_rule_name="identity")
    segmenter = Segmenter.load(tmp_path / "foreign.model")
    with pytest.raises(InputError, match="piece 3 of this SentencePiece model is '<0x00>', not '<pad>'"):
        check_special_ids(segmenter, tmp_path / "foreign.model")
    (tmp_path / "text").write_text("der hund\n")
    common = ["subwords", "segment", "--model", str(tmp_path / "foreign.model"), "--input", str(tmp_path / "text")]
    assert main([*common, "--out", str(tmp_path / "out"), "--tokens", str(tmp_path / "tokens")]) == 2
    assert capfd.readouterr().err.count("\n") == 1
    assert main([*common, "--out", str(tmp_path / "out")]) == 0
