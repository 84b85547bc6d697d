"""Labelled texts: the registry, tables and archives, what preparation writes, and what it says of bad input."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from alignlens.classification.prepare import SYMBOLS, Prepared
from alignlens.cli.main import main
from alignlens.corpora.registry import Registry
from alignlens.errors import ConfigError
from alignlens.workflow.settings import load_settings, read_config

ROOT = Path(__file__).parents[2]
TRAIN = "label\ttext\n" + "".join(
    f"{'good' if n % 2 else 'bad'}\tThe film is {'fine' if n % 2 else 'dull'} .\n" for n in range(8)
)
DEV = "label\ttext\ngood\tA fine film .\nbad\tdull\n"


@pytest.fixture(autouse=True)
def _workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory of its own, with files whose names need no path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ALIGNLENS_MIRROR", raising=False)


def write(name: str, content: str | bytes) -> None:
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))


def entry(**changes: Any) -> dict[str, Any]:
    """Returns a small valid entry, with changes."""
    return {
        "task": "classification",
        "kind": "files",
        "positive": ["good"],
        "negative": ["bad"],
        "left_out": ["none"],
        "train": [{"file": "train.tsv"}],
        "dev": [{"file": "dev.tsv"}],
        **changes,
    }


def declare(**changes: Any) -> None:
    """Writes a datasets file with one good set, its files, and changes to its entry."""
    write("train.tsv", TRAIN)
    write("dev.tsv", DEV)
    write("datasets.yaml", yaml.safe_dump({"mine": entry(**changes)}))


def prepared(*options: str) -> Prepared:
    arguments = ["classify", "prepare", "mine", "--datasets", "datasets.yaml", "--out", "texts", *options]
    assert main(arguments) == 0
    return Prepared.open("texts")


def fails(capsys: pytest.CaptureFixture[str], *arguments: str, verb: str = "classify") -> str:
    """Returns the one line that a failing command prints."""
    assert main([verb, *arguments]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"alignlens {verb}: ")
    assert printed.count("\n") == 1
    return printed.removeprefix(f"alignlens {verb}: ").rstrip("\n")


def refused(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    line = fails(capsys, "prepare", "mine", "--datasets", "datasets.yaml", "--out", "texts", *options)
    assert not Path("texts").exists()
    return line


def words_of(texts: Prepared, split: str) -> list[str]:
    examples = texts.splits[split]
    return [" ".join(texts.words[each] for each in ids) for ids in np.split(examples.ids, examples.starts[1:-1])]


def test_shipped_sets_are_declared_like_all_others() -> None:
    registry = Registry.load(ROOT / "config/datasets.yaml")
    names = {"demo-keywords", "sst", "agnews", "20news", "imdb", "imdb-small", "amazon", "yelp"}
    assert names <= set(registry.labelled)
    assert not names & {dataset.name for dataset in registry}
    for name, texts in registry.labelled.items():
        assert texts.licence != "unknown"
        assert texts.origin
        assert set(texts.sizes) == {"train", "dev"}, name
        for role, file in texts.files().items():
            assert file.mirror, (name, role)
            assert file.url or texts.available, (name, role)
            assert file.sha256 or file.mirror_sha256, (name, role)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"kind": "ftp"}, "mine.kind: 'ftp' is not one of synthetic, download, files"),
        ({"pair": ["de", "en"]}, "mine.pair: unknown key 'pair'"),
        ({"task": "translation"}, "mine.task: 'translation' is not one of classification"),
        ({"positive": []}, "mine: give the labels of both classes"),
        ({"negative": ["good"]}, "mine: the label 'good' appears twice"),
        ({"dev": {"last": 3, "every": 2}}, "mine.dev: give a list of files, or last, or every; not last, every"),
        ({"dev": {"last": 0}}, "mine.dev.last: 0 must be at least 1"),
        ({"train": []}, "mine: kind files needs train and dev"),
        ({"train": [{"file": {"url": "http://x/y"}}]}, "mine.train.0: kind files needs a path"),
        ({"train": [{"file": "a", "label": "fair"}]}, "mine.train.0.label: 'fair' is neither"),
        ({"header": False}, "mine: without a header, label_column and text_column must be numbers"),
        ({"label_column": 0}, "mine.label_column: 0 must be at least 1"),
        ({"settings": {"seed": 1}}, "mine.settings: only kind synthetic"),
        ({"kind": "synthetic"}, "mine: kind synthetic generates its own texts"),
    ],
)
def test_mistakes_in_an_entry_are_told_with_their_key(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Registry({}).merged({"mine": entry(**changes)})
    assert text in str(caught.value)


def test_mistakes_in_the_settings_of_generated_texts() -> None:
    for settings, text in (({"min_words": 30}, "settings.min_words"), ({"max_keywords": 9}, "settings.max_keywords")):
        with pytest.raises(ConfigError, match=text):
            Registry({}).merged({"mine": {"task": "classification", "kind": "synthetic", "settings": settings}})


def test_a_configuration_cannot_train_translation_models_on_labelled_texts() -> None:
    config = {**read_config([ROOT / "config/config.yaml"]), "datasets": ["sst"]}
    with pytest.raises(
        ConfigError, match=r"config\.datasets\[0\]: sst is a text classification set; translation models"
    ):
        load_settings(config, ROOT)
    config["datasets"] = ["nothing"]
    with pytest.raises(ConfigError, match=r"config\.datasets\[0\]: unknown dataset 'nothing'; known: deen, demo"):
        load_settings(config, ROOT)


def test_data_lists_checks_and_fetches_labelled_texts(capsys: pytest.CaptureFixture[str]) -> None:
    declare(licence="free", sizes={"train": 8})
    assert main(["data", "list", "--datasets", "datasets.yaml"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["mine", "labels", "files", "8", "no", "local", "free"]
    assert main(["data", "list", "--json", "--datasets", "datasets.yaml"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["task"], row["pair"]) == ("classification", None)
    assert main(["data", "fetch", "mine", "--datasets", "datasets.yaml"]) == 0
    assert json.loads(capsys.readouterr().out) == {"train.0": "train.tsv", "dev.0": "dev.tsv"}
    assert main(["data", "check", "mine", "--datasets", "datasets.yaml"]) == 0
    assert capsys.readouterr().out == (
        "ok       train.0  train.tsv  8 texts, 4 of them positive\n"
        "ok       dev.0  dev.tsv  2 texts, 1 of them positive\n"
    )
    write("dev.tsv", DEV + "odd\tx\n")
    assert "dev.tsv:4: unknown label 'odd'" in fails(
        capsys, "check", "mine", "--datasets", "datasets.yaml", verb="data"
    )
    said = fails(capsys, "prepare", "mine", "--datasets", "datasets.yaml", "--out", "o", verb="data")
    assert said == "mine has labelled texts; prepare them with: alignlens classify prepare mine"
    write("datasets.yaml", yaml.safe_dump({"mine": {"kind": "synthetic", "pair": ["xa", "xb"]}}))
    assert "mine is a bitext without labels" in refused(capsys)


def test_preparation_counts_and_replaces_rare_words() -> None:
    declare()
    texts = prepared("--journal", "p.journal.jsonl")
    assert texts.words == (*SYMBOLS, ".", "film", "is", "the", "dull", "fine")
    assert words_of(texts, "dev") == ["<begin> <unknown> fine film . <end>", "<begin> dull <end>"]
    assert texts.splits["dev"].labels.tolist() == [True, False]
    report = texts.report
    assert report["vocabulary"] == {"words": 10, "symbols": 4, "rarest": 3, "types": 6}
    dev = report["splits"]["dev"]
    assert (dev["texts"], dev["positive"], dev["words"], dev["median_words"], dev["longest"]) == (2, 1, 5, 2.5, 4)
    assert dev["unknown_share"] == 0.2
    assert report["inputs"]["train.0"]["name"] == "train.tsv"
    first = json.loads(Path("p.journal.jsonl").read_text().splitlines()[0])
    assert (first["experiment"], first["name"]) == ("data", "mine · labelled texts")
    assert len(prepared("--rarest", "5").words) == 8  # dull and fine occur four times each


def test_columns_by_number_gzip_labels_left_out_and_long_texts() -> None:
    declare(header=False, label_column=3, text_column=[1, 2], max_words=4, lowercase=False)
    rows = "a b\tc\tgood\nA\tb\tbad\nx\ty\tnone\none two\tthree four five\tgood\n"
    write("train.tsv", gzip.compress(rows.encode()))
    write("dev.tsv", rows)
    texts = prepared("--rarest", "1")
    assert words_of(texts, "train") == ["<begin> a b c <end>", "<begin> A b <end>"]
    assert texts.report["splits"]["train"]["left_out"] == {"label": 1, "empty": 0, "too_long": 1}


def test_long_cells_are_read_and_the_limit_of_the_process_stays() -> None:
    usual = csv.field_size_limit()
    declare(format="csv")
    write("train.tsv", f"label,text\ngood,{' '.join(['word'] * 50_000)}\nbad,short\n")
    write("dev.tsv", "label,text\ngood,x\nbad,y\n")
    assert len(words_of(prepared("--rarest", "1"), "train")[0].split()) == 50_002
    assert csv.field_size_limit() == usual


def test_csv_with_quotes_and_escaped_line_breaks() -> None:
    declare(format="csv", header=False, label_column=1, text_column=2, tokenise=True)
    write("train.tsv", '"good","He said ""hi"", twice\\nand left."\n"bad","no"\n')
    write("dev.tsv", '"good","x"\n"bad","y"\n')
    assert words_of(prepared("--rarest", "1"), "train")[0] == '<begin> he said " hi " , twice and left . <end>'


@pytest.mark.parametrize(("part", "dev"), [({"last": 2}, ["g", "h"]), ({"every": 4}, ["d", "h"])])
def test_dev_taken_out_of_train(part: dict[str, int], dev: list[str]) -> None:
    declare(dev=part, positive=["good"], negative=["bad"])
    write("train.tsv", "label\ttext\n" + "".join(f"{'good' if n in 'aceg' else 'bad'}\t{n}\n" for n in "abcdefgh"))
    if part == {"every": 4}:  # both of these are negative
        write("train.tsv", Path("train.tsv").read_text().replace("bad\td", "good\td"))
    texts = prepared("--rarest", "1")
    examples = texts.splits["train"]
    assert len(examples) == 6
    spelled = {texts.words[each] for each in examples.ids} - set(SYMBOLS)
    assert spelled == set("abcdefgh") - set(dev)


def test_as_many_texts_as_asked_for_evenly_spaced() -> None:
    declare(max_train=4, max_dev=2)
    write("train.tsv", "label\ttext\n" + "".join(f"{'good' if n < 'e' else 'bad'}\t{n}\n" for n in "abcdefgh"))
    assert words_of(prepared("--rarest", "1"), "train") == [f"<begin> {n} <end>" for n in "aceg"]


def test_an_archive_with_a_file_for_every_text_and_one_of_trees() -> None:
    with tarfile.open("reviews.tgz", "w:gz") as tar:
        for name, text in {"p/1.txt": "Very fine", "p/2.txt": "so fine", "n/1.txt": "very dull"}.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    parts = [{"label": "good", "file": {"path": "reviews.tgz", "member": "p/*.txt"}},
             {"label": "bad", "file": {"path": "reviews.tgz", "member": "n/*.txt"}}]  # fmt: skip
    declare(train=parts, dev=parts)
    texts = prepared("--rarest", "1", "--cache", "cache")
    assert words_of(texts, "train") == ["<begin> very fine <end>", "<begin> so fine <end>", "<begin> very dull <end>"]
    assert texts.splits["train"].labels.tolist() == [True, True, False]
    with zipfile.ZipFile("trees.zip", "w") as archive:
        archive.writestr("t.txt", "(4 (2 A) (3 (3 fine) (2 -LRB-)))\n(1 (2 so) (0 dull))\n(2 meh)\n")
    file = {"file": {"path": "trees.zip", "member": "t.txt", "markup": "tree"}}
    columns = {"header": False, "label_column": 1, "text_column": 2}
    declare(train=[file], dev=[file], positive=["3", "4"], negative=["0", "1"], left_out=["2"], **columns)
    assert words_of(prepared("--rarest", "1", "--cache", "cache"), "dev") == [
        "<begin> a fine ( <end>",
        "<begin> so dull <end>",
    ]


BROKEN: list[tuple[str, str | bytes, str]] = [
    ("train.tsv", TRAIN + "odd\tx\n", "train.tsv:10: unknown label 'odd'; known: good, bad, none"),
    ("train.tsv", TRAIN + "good film\n", "train.tsv:10: no tab;"),
    ("train.tsv", "label text\n", "train.tsv:1: no tab;"),
    ("train.tsv", TRAIN + "good\t \n", "train.tsv:10: an empty text."),
    ("train.tsv", TRAIN + "good\ta\tb\n", "train.tsv:10: 3 columns, but line 1 has 2."),
    ("train.tsv", "text\ttext\ngood\tx\n", "train.tsv:1: two columns have the same name, 'text'."),
    (
        "train.tsv",
        "labels\ttext\ngood\tx\n",
        "train.tsv:1: no column 'label'; the table has labels, text (did you mean labels?)",
    ),
    ("train.tsv", b"label\ttext\ngood\tna\xefve\n", "train.tsv:2: not UTF-8 (byte 0xef)."),
    ("train.tsv", b"", "train.tsv: the file is empty."),
    ("train.tsv", "label\ttext\ngood\tx\n", "train.tsv: none of the 1 texts in train is of the negative class (bad)."),
    ("dev.tsv", "label\ttext\nbad\tx\n", "dev.tsv: none of the 1 texts in dev is of the positive class (good)."),
    ("train.tsv", gzip.compress(TRAIN.encode())[:-9], "train.tsv: truncated or damaged gzip"),
]


@pytest.mark.parametrize(("name", "content", "message"), BROKEN)
def test_broken_tables_are_one_line_with_file_and_line(
    capsys: pytest.CaptureFixture[str], name: str, content: str | bytes, message: str
) -> None:
    declare()
    write(name, content)
    assert message in refused(capsys)


def test_other_mistakes_of_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    declare(text_column=3)
    assert "train.tsv:1: no column 3; the table has 2." in refused(capsys)
    declare(format="csv")
    write("train.tsv", 'label,text\ngood,"x\n')
    assert "train.tsv:2: not a table (unexpected end of data)." in refused(capsys)
    declare(dev={"last": 8})
    assert "train.tsv: 8 texts are too few to split off dev." in refused(capsys)
    declare(leave_out_empty=True)
    write("train.tsv", TRAIN + "good\t \n")
    assert prepared().report["splits"]["train"]["left_out"]["empty"] == 1
    assert "did you mean mine?" in fails(capsys, "prepare", "mime", "--datasets", "datasets.yaml", "--out", "x")


def test_word_vectors_begin_where_words_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    declare()
    write("v.txt", "film 1 2.5 -3e-1\nfilm 9 9 9\nelsewhere 0 0 0\n<end> 1 1 1\n")
    texts = prepared("--vectors", "v.txt", "--width", "3")
    assert texts.vectors is not None
    known = ~np.isnan(texts.vectors).any(1)
    assert [texts.words[place] for place in np.flatnonzero(known)] == ["film"]
    np.testing.assert_array_equal(texts.vectors[known], np.float32([[1, 2.5, -0.3]]))
    assert texts.report["vectors"]["width"] == 3
    train = ["train", "--data", "texts", "--work", "w", "--out", "m", "--settings"]
    said = fails(capsys, *train, '{"model": {"vectors": true}, "training": {"updates": 1}}')
    assert said.startswith("model.embedding: 300, but the word vectors of texts have 3 numbers")
    prepared()
    assert "has none; add them with" in fails(capsys, *train, '{"model": {"vectors": true}}')


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("film 1 2 3\nfine 1 2\n", "v.txt:2: a vector of 2 numbers, expected 3. Give the width"),
        ("film 1 2 3\nfine 1 x 2\n", "v.txt:2: 'x' is not a number."),
        ("film 1 nan 3\n", "v.txt:1: 'nan' is not a number."),
        ("film 1 1e60 3\n", "v.txt:1: '1e60' is not a number."),
        ("", "v.txt: the file is empty."),
        (b"film 1 2 3\nf\xff 1 2 3\n", "v.txt:2: not UTF-8 (byte 0xff)."),
    ],
)
def test_broken_vectors(capsys: pytest.CaptureFixture[str], content: str | bytes, message: str) -> None:
    declare()
    write("v.txt", content)
    assert message in refused(capsys, "--vectors", "v.txt", "--width", "3")


def test_damaged_folders_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    declare()
    prepared()
    logistic = ["logistic", "--data", "texts", "--out", "log"]
    write("texts/vocabulary.txt", "x\n")
    assert "texts/vocabulary.txt: damaged" in fails(capsys, *logistic)
    assert "no such folder (folder of labelled texts)" in fails(capsys, "logistic", "--data", "no", "--out", "log")
    Path("mine").mkdir()
    write("mine/note", "x")
    prepare = ["prepare", "mine", "--datasets", "datasets.yaml", "--out", "mine"]
    assert "exists with other content" in fails(capsys, *prepare)


@pytest.mark.mirror
@pytest.mark.parametrize(
    ("name", "train", "dev", "positive", "words"),
    [
        ("sst", 6920, 1821, 3610, 4820),
        ("agnews", 5005, 3800, 2496, 5692),
        ("20news", 1196, 796, 600, 8566),
        ("imdb-small", 1600, 400, 784, 8903),
    ],
)
def test_sets_of_the_mirror(mirror: Path, name: str, train: int, dev: int, positive: int, words: int) -> None:
    common = ["--datasets", str(ROOT / "config/datasets.yaml"), "--mirror", str(mirror), "--cache", "cache"]
    assert main(["data", "check", name, *common]) == 0
    assert main(["classify", "prepare", name, "--out", "texts", *common]) == 0
    texts = Prepared.open("texts")
    splits = texts.report["splits"]
    assert (splits["train"]["texts"], splits["dev"]["texts"], splits["train"]["positive"]) == (train, dev, positive)
    assert len(texts.words) == words
    assert not Path("cache").exists()
