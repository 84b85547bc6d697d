"""Commands that work on the bench, and what each of their options takes. Bad input is one bad value in one of them."""

from __future__ import annotations

import json

import bench
from bench import ATTRIBUTION, DATA, LINKS, PIECES, SUBWORDS, TOKENS, R
from good import COUNT, FILE, FOLDER, JSON, LINK, OUT_FILE, OUT_FILES, OUT_FOLDER, REAL, TEXT, Good
from model_goods import MODEL_GOODS, PAIR

_FAST = f"{R}/links/tiny/fast_align/offline/all"


GOODS = (
    Good(
        "score",
        (
            "score",
            "--gold",
            f"{DATA}/test.gold",
            "--links",
            f"{_FAST}/xa-xb.pharaoh",
            *bench.text_of(),
            "--trained-as",
            f"{R}/aligners/tiny/fast_align/offline/all/xa-xb/model",
            "--samples",
            "20",
            "--per-sentence",
            "new/s.csv",
            "--sentences",
            "new/s.npz",
            "--out",
            "new/m.json",
        ),
        {**PAIR, "--gold": LINK, "--links": LINK, "--versus": LINK, "--trained-as": FOLDER, "--level": REAL}
        | {"--samples": COUNT, "--seed": COUNT, "--per-sentence": OUT_FILE, "--out": OUT_FILE, "--about": JSON}
        | {"--sentences": OUT_FILE},
    ),
    Good(
        "score-methods",
        (
            "score-methods",
            "--cell",
            f"xa-xb={LINKS}={DATA}/test.gold",
            "--samples",
            "20",
            "--sentences",
            "new/s.npz",
            "--out",
            "new/m.json",
        ),
        {"--samples": COUNT, "--level": REAL, "--seed": COUNT, "--out": OUT_FILE, "--about": JSON}
        | {"--sentences": OUT_FILE},
    ),
    Good(
        "score-methods gather",
        (
            "score-methods",
            "--gather",
            *(f"{ATTRIBUTION}/metrics.shards/{k}.json" for k in "12"),
            "--gather-sentences",
            *(f"{ATTRIBUTION}/metrics.shards/{k}.npz" for k in "12"),
            "--out",
            "new/m.json",
            "--sentences",
            "new/s.npz",
        ),
        {"--gather": FILE, "--gather-sentences": FILE, "--out": OUT_FILE, "--sentences": OUT_FILE},
    ),
    Good(
        "symmetrize",
        (
            "symmetrize",
            "--forward",
            f"{_FAST}/xa-xb.pharaoh",
            "--reverse",
            f"{_FAST}/xb-xa.pharaoh",
            "--method",
            "grow-diag",
            "--out",
            "new/links.pharaoh",
        ),
        {"--forward": LINK, "--reverse": LINK, "--out": OUT_FILE, "--about": JSON},
    ),
    Good(
        "symmetrize folders",
        (
            "symmetrize",
            "--forward-dir",
            LINKS,
            "--reverse-dir",
            f"{ATTRIBUTION}/xb-xa/links",
            "--method",
            "grow-diag",
            "--out-dir",
            "new",
        ),
        {"--forward-dir": FOLDER, "--reverse-dir": FOLDER, "--out-dir": OUT_FOLDER},
        f"{ATTRIBUTION}/bidir/links",
    ),
    Good(
        "reference",
        (
            "reference",
            "--forward",
            f"{_FAST}/xa-xb.pharaoh",
            "--reverse",
            f"{_FAST}/xb-xa.pharaoh",
            "--out",
            "new/reference.gold",
        ),
        {"--forward": LINK, "--reverse": LINK, "--out": OUT_FILE},
    ),
    Good(
        "aligner",
        (
            "aligner",
            "fast_align",
            "--train-source",
            f"{DATA}/train.source",
            "--train-target",
            f"{DATA}/train.target",
            *bench.text_of(),
            "--seed",
            "1",
            "--model",
            "new",
            "--out",
            "links.pharaoh",
        ),
        {**PAIR, "--train-source": TEXT, "--train-target": TEXT, "--seed": COUNT, "--max-pairs": COUNT}
        | {"--model": OUT_FOLDER, "--out": OUT_FILE, "--about": JSON},
        f"{R}/aligners/tiny/fast_align/offline/all/xa-xb/model",
    ),
    Good(
        "aligner stored",
        (*bench.align_stored("hmm", "new/links.pharaoh"), "--text", "online"),
        {"--model": FOLDER, **PAIR},
    ),
    Good(
        "aligner parent",
        (
            "aligner",
            "hmm",
            "--train-source",
            f"{DATA}/train.source",
            "--train-target",
            f"{DATA}/train.target",
            "--parent",
            f"{R}/aligners/tiny/ibm1/offline/all/xa-xb/model",
            "--model",
            "new",
        ),
        {"--parent": FOLDER},
    ),
    Good(
        "bleu",
        (
            "bleu",
            "--hypothesis",
            f"{DATA}/test.source",
            "--reference",
            f"{DATA}/test.target",
            "--samples",
            "20",
            "--out",
            "new/bleu.json",
        ),
        {"--hypothesis": TEXT, "--reference": TEXT, "--level": REAL, "--samples": COUNT, "--seed": COUNT}
        | {"--out": OUT_FILE, "--about": JSON},
    ),
    Good(
        "data check",
        ("data", "check", *bench.text_of(), "--gold", f"{DATA}/test.gold", "--base", "0"),
        {**PAIR, "--gold": LINK, "--base": COUNT},
    ),
    Good(
        "data prepare",
        ("data", "prepare", "tiny", "--definition", json.dumps(bench.DEFINITION), "--settings", "{}", "--out", "new"),
        {"--settings": JSON, "--definition": JSON, "--out": OUT_FILES, "--datasets": FILE, "--manifest": FILE},
    ),
    Good(
        "subwords train",
        (
            "subwords",
            "train",
            "--source",
            f"{DATA}/train.source",
            "--target",
            f"{DATA}/train.target",
            "--vocab",
            "320",
            "--out",
            "new",
        ),
        {**PAIR, "--vocab": COUNT, "--coverage": REAL, "--limit": COUNT, "--out": OUT_FOLDER, "--about": JSON},
        SUBWORDS,
    ),
    Good(
        "subwords segment",
        (
            "subwords",
            "segment",
            "--model",
            f"{SUBWORDS}/source.model",
            "--input",
            f"{DATA}/test.source",
            "--out",
            "pieces",
            "--out-words",
            "words",
            "--tokens",
            "new",
        ),
        {"--model": FILE, "--input": TEXT, "--out": OUT_FILE, "--out-words": OUT_FILE, "--tokens": OUT_FOLDER},
        f"{TOKENS}/test.source",
    ),
    *MODEL_GOODS,
    Good(
        "select",
        (
            *("select", "--source", f"{DATA}/test.source", "--target", f"{DATA}/test.target"),
            *("--source-pieces", f"{PIECES}/test.source", "--target-pieces", f"{PIECES}/test.target"),
            *(
                "--common-length",
                "--pairs",
                "2",
                "--seed",
                "3",
                "--out-source",
                "new.source",
                "--out-target",
                "new.target",
            ),
        ),
        {**PAIR, "--source-pieces": TEXT, "--target-pieces": TEXT, "--pairs": COUNT, "--seed": COUNT}
        | {"--out-source": OUT_FILE, "--out-target": OUT_FILE, "--about": JSON},
    ),
    Good(
        "study",
        ("study", "kobayashi2020", "--results", R, "--out", "new"),
        {"--results": FOLDER, "--manifest": FILE, "--about": JSON},
    ),
    Good(
        "report",
        ("report", "--results", R, "--out", "new", "--page", "page.html"),
        {"--results": FOLDER, "--manifest": FILE, "--heatmaps": COUNT}
        | {"--page": OUT_FILE, "--browser": OUT_FOLDER, "--configfile": FILE},
    ),
    Good("track list", ("track", "list", "--results", "results"), {"--results": FOLDER, "--preset": FOLDER}),
)
BY_NAME = {good.name: good for good in GOODS}
