"""Text or token store: a model reads the same from both, and what it wrote is explained as it wrote it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tiny_folder import SMALL, SOURCE, TARGET, write_folder
from training_files import CopyTask

from alignlens.cli.main import main
from alignlens.corpora.tokens import TokenStore, TokenWriter
from alignlens.io.matrices import Matrices
from alignlens.io.text import read_lines, words
from alignlens.subwords.spans import Segmenter, word_of_piece

# The empty pair in the middle has nothing but the end symbols.
SOURCES, TARGETS = [*SOURCE[:2], "", *SOURCE[2:]], [*TARGET[:2], "", *TARGET[2:]]
TEXTS = ["--source", "source", "--target", "target"]
STORES = ["--source", "source.tokens", "--target", "target.tokens"]
METHODS = ["--methods", "attention", "grad", "smoothgrad,n=3"]
SHORT = ["--max-ratio", "0", "--max-offset", "7"]


@pytest.fixture(scope="module", params=SMALL)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("trained") / "model", request.param)


@pytest.fixture
def files(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for side, lines in (("source", SOURCES), ("target", TARGETS)):
        Path(side).write_text("\n".join(lines) + "\n", encoding="utf-8")
        made = ["--out", f"{side}.pieces", "--tokens", f"{side}.tokens"]
        assert main(["subwords", "segment", "--model", str(folder / f"{side}.model"), "--input", side, *made]) == 0
    return tmp_path


def call(folder: Path, verb: str, *arguments: str) -> int:
    return main([verb, "--model", str(folder), "--threads", "1", *arguments])


def same(one: Path, other: Path) -> bool:
    """Whether two files, or the files of two folders, have the same bytes."""
    if one.is_file():
        return one.read_bytes() == other.read_bytes()
    names = sorted(path.name for path in one.iterdir())
    return names == sorted(path.name for path in other.iterdir()) and all(same(one / n, other / n) for n in names)


def test_a_store_gives_the_bytes_that_its_text_gives(folder: Path, files: Path) -> None:
    for name, given in (("text", TEXTS), ("store", STORES)):
        Path(name).mkdir()
        assert call(folder, "attribute", *given, *METHODS, "--out", f"{name}/scores") == 0
        assert call(folder, "force", *given, "--out", f"{name}/forced", "--per-sentence", f"{name}/forced.tsv") == 0
        assert call(folder, "translate", *given[:2], "--out", f"{name}/translation", *SHORT) == 0
        assert call(folder, "cost", *given, *METHODS[:2], "--sentences", "3", "--out", f"{name}.cost") == 0
    assert same(files / "text", files / "store")
    passes = [json.loads(Path(f"{name}.cost").read_text())["methods"][0] for name in ("text", "store")]
    assert passes[0]["target_pieces"] == passes[1]["target_pieces"] > 0


@pytest.mark.parametrize("window", [1000, 2])
def test_align_reads_stores_window_by_window(
    folder: Path, files: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr("alignlens.cli.pairs._WINDOW", window)
    for name, given in (("text", TEXTS), ("store", STORES), ("both", [*TEXTS[:2], *STORES[2:]])):
        assert call(folder, "align", *given, "--method", "smoothgrad,n=3", "--out", name) == 0
    assert same(files / "text", files / "store")
    assert same(files / "text", files / "both")


def test_an_encoder_reads_a_store_like_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = write_folder(tmp_path / "model")
    Path("text").write_text("\n".join([*SOURCES, "der hund , die katze z.b. ."]) + "\n", encoding="utf-8")
    made = ["--out", "pieces", "--tokens", "tokens"]
    assert main(["subwords", "segment", "--model", str(folder / "source.model"), "--input", "text", *made]) == 0
    found = {}
    for name in ("text", "tokens"):
        assert call(folder, "encoder", "--source", name, "--sequences", "4", "--out", f"{name}.out") == 0
        found[name] = json.loads(Path(f"{name}.out/statistics.json").read_text())
    assert (tmp_path / "text.out/points.npz").read_bytes() == (tmp_path / "tokens.out/points.npz").read_bytes()
    facts = [statistics["facts"].pop("text") for statistics in found.values()]
    assert facts[1] == {"name": "tokens", "sha256": TokenStore.open("tokens").fingerprint}
    assert facts[0]["sha256"] != facts[1]["sha256"]
    assert [statistics["facts"].pop("encoder") for statistics in found.values()] == ["model", "model"]
    assert found["text"] == found["tokens"]
    assert found["text"]["facts"]["sequences"] == 4


def test_what_was_generated_is_explained_as_it_was_generated(folder: Path, files: Path) -> None:
    made = ["--out", "free", "--pieces", "free.pieces", "--tokens", "free.tokens"]
    assert call(folder, "translate", "--source", "source.tokens", *made, *SHORT) == 0
    segmenter, store = Segmenter.load(folder / "target.model"), TokenStore.open("free.tokens")
    generated = [store[number].tolist() for number in range(len(store))]
    again = [segmenter.segment(line).ids for line in read_lines("free")]
    # An untrained model spells as no segmentation would, and in another number of pieces.
    assert any(len(one) != len(other) for one, other in zip(generated, again, strict=True))
    assert [words(line) for line in read_lines("free.pieces")] == [segmenter.pieces_of(ids) for ids in generated]

    given = ["--source", "source.tokens", "--target", "free.tokens"]
    assert call(folder, "attribute", *given, *METHODS, "--out", "scores") == 0
    assert Matrices.open("scores").shapes[:, 0].tolist() == [len(ids) + 1 for ids in generated]
    pieces = ["--source-pieces", "source.pieces", "--target-pieces", "free.pieces"]
    assert main(["extract", "--matrices", "scores", *pieces, "--out-dir", "links"]) == 0
    # Aligning by the model's own translation is the same: nothing is segmented a second time.
    own = ["--source", "source", "--method", "grad", "--translation-out", "mine", "--out", "mine.links", *SHORT]
    assert call(folder, "align", *own) == 0
    assert same(files / "mine", files / "free")
    assert same(files / "mine.links", files / "links/ding_grad.ding.pharaoh")
    given = ["--source", "source.tokens", "--target", "free.tokens", "--method", "grad", "--out", "given.links"]
    assert call(folder, "align", *given) == 0
    assert same(files / "given.links", files / "mine.links")


def test_words_of_a_translation_are_those_of_its_pieces(folder: Path, files: Path) -> None:
    drawn = ["--samples", "40", "--temperature", "2", "--out", "free", "--pieces", "pieces", "--tokens", "tokens"]
    assert call(folder, "translate", "--source", "source", *drawn, *SHORT) == 0
    texts = [words(line.partition("\t")[2]) for line in read_lines("free")]
    pieces = [words(line) for line in read_lines("pieces")]
    assert len(texts) == len(pieces) == len(TokenStore.open("tokens")) == 40 * len(SOURCES)
    assert any(len(line) != len(set(word_of_piece(line))) > 1 for line in pieces)
    for line, spelled in zip(texts, pieces, strict=True):
        assert max(word_of_piece(spelled), default=-1) + 1 == len(line)


def test_a_store_of_other_subwords_is_refused(folder: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = [Segmenter.load(folder / f"{side}.model") for side in ("target", "source")]
    for side, segmenter in zip(("source", "target"), other, strict=True):
        # As many pieces, but other ones: only the checksum tells.
        with TokenWriter(files / f"foreign.{side}", len(segmenter), segmenter.checksum) as writer:
            for _ in SOURCES:
                writer.append([5, 6])
    foreign = ["--source", "foreign.source", "--target", "target.tokens"]
    for verb, more in (("attribute", [*METHODS, "--out", "x"]), ("force", []), ("cost", METHODS)):
        assert f"foreign.source: its pieces are not those of {folder}/source.model." in failed(
            capsys, folder, verb, *foreign, *more
        )
    half = ["--source", "source", "--target", "foreign.target"]
    assert f"foreign.target: its pieces are not those of {folder}/target.model." in failed(
        capsys, folder, "force", *half
    )
    for verb, more in (("translate", []), ("align", ["--method", "grad"])):
        assert "foreign.source: its pieces are not" in failed(
            capsys, folder, verb, "--source", "foreign.source", "--out", "x", *more
        )
    assert not Path("x").exists()


def test_what_is_no_store_or_a_damaged_one_is_one_line(
    folder: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(source: str, target: str = "target.tokens") -> str:
        return failed(capsys, folder, "force", "--source", source, "--target", target)

    Path("home").mkdir()
    Path("home/thesis.tex").touch()
    assert "home: not a token store: it has no seal.json. Give a tokenised text, or" in told("home")
    assert "is a subword folder, not a token store. Give" in told(str(folder))
    with TokenWriter("empty", 300, "bpe"):
        pass
    assert "empty: the store is empty. Give" in told("empty")
    segmenter = Segmenter.load(folder / "source.model")
    with TokenWriter("two", len(segmenter), segmenter.checksum) as writer:
        writer.append([5])
        writer.append([5] * 10_001)
    Path("one").write_text("the dog\n")
    assert "one:2: 1 lines, but two has 2" in told("two", "one")
    unequal = ["--source", "two", "--target", "one", "--method", "grad"]
    assert "one:2: 1 lines, but two has 2" in failed(capsys, folder, "align", *unequal)
    Path("both").write_text("the dog\nthe cat\n")
    assert "two:2: 10,001 pieces; a line may have at most 10,000." in told("two", "both")
    content = bytearray(Path("source.tokens/ids.bin").read_bytes())
    content[0] ^= 1
    Path("source.tokens/ids.bin").write_bytes(content)
    assert "source.tokens/ids.bin: damaged: it has changed since it was written (SHA-256)." in told("source.tokens")


def test_a_translation_that_cannot_be_written_leaves_nothing(
    folder: Path, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ["--out", "free", "--pieces", "pieces", "--tokens", "tokens", *SHORT]
    monkeypatch.setattr("alignlens.decoding.translate.TrainedModel.text", lambda model, ids: "one word more " * 9)
    assert "translation 1: the pieces do not add up to the words" in failed(
        capsys, folder, "translate", "--source", "source", *made
    )
    assert not any(Path(name).exists() for name in ("free", "pieces", "tokens"))
    assert "would replace --source" in failed(
        capsys, folder, "translate", "--source", "source.tokens", "--tokens", "source.tokens"
    )


def failed(capsys: pytest.CaptureFixture[str], folder: Path, verb: str, *arguments: str) -> str:
    """The one line of a command that ends with 2."""
    capsys.readouterr()
    assert call(folder, verb, *arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


def test_an_empty_translation_is_an_empty_sentence(folder: Path, files: Path) -> None:
    assert call(folder, "translate", "--source", "source", "--out", "free", "--tokens", "tokens", *SHORT) == 0
    lengths = TokenStore.open("tokens").lengths(np.arange(len(SOURCES)))
    assert lengths[2] == 0 < lengths[0]
    assert read_lines("free")[2] == ""


def test_training_refuses_stores_of_other_subwords(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = CopyTask.write(tmp_path / "mine")
    # As many pieces, but learned from other text: the numbers of the stores would be other pieces.
    other = CopyTask.write(tmp_path / "other", pairs=90)
    for option, path in (("--dev-source", other.files.dev_source), ("--train-target", other.files.train_target)):
        assert main([*task.arguments(tmp_path), option, str(path)]) == 2
        told = f"alignlens train: {path}: its pieces are not those of {task.folder}/bpe/"
        assert capsys.readouterr().err.splitlines()[-1].startswith(told)
