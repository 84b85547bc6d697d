"""Commands that work on the bench, and what each of their options takes. Bad input is one bad value in one of them."""

from __future__ import annotations

import json

import bench
from bench import ATTRIBUTION, DATA, LINKS, MODEL, MODEL_FOLDER, PIECES, SCORES, SUBWORDS, TOKENS, R
from good import COUNT, FILE, FOLDER, JSON, LINK, OUT_FILE, OUT_FILES, OUT_FOLDER, REAL, TEXT, Good

_MODEL = {"--model": FOLDER, "--batch-tokens": COUNT, "--threads": COUNT}
_PAIR = {"--source": TEXT, "--target": TEXT}
_SUBWORDS = ("--source-subwords", f"{SUBWORDS}/source.model", "--target-subwords", f"{SUBWORDS}/target.model")
_TOY = json.dumps({"words": 4, "dim": 8, "hidden": 8, "batch": 4, "steps": 2, "evaluate_samples": 4, "seeds": 1})
_FAST = f"{R}/links/tiny/fast_align/offline/all"


def _plain(arguments: list[str]) -> tuple[str, ...]:
    """Returns a step without its journal: what people type."""
    end = arguments.index("--journal")
    return (*arguments[:end], *arguments[end + 4 :])


def _trained(place: str) -> tuple[str, ...]:
    return _plain(bench.train(place=place, max_updates=2, validate_every=2))


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
        {**_PAIR, "--gold": LINK, "--links": LINK, "--versus": LINK, "--trained-as": FOLDER, "--level": REAL}
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
        {**_PAIR, "--train-source": TEXT, "--train-target": TEXT, "--seed": COUNT, "--max-pairs": COUNT}
        | {"--model": OUT_FOLDER, "--out": OUT_FILE, "--about": JSON},
        f"{R}/aligners/tiny/fast_align/offline/all/xa-xb/model",
    ),
    Good(
        "aligner stored",
        (*bench.align_stored("hmm", "new/links.pharaoh"), "--text", "online"),
        {"--model": FOLDER, **_PAIR},
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
        {**_PAIR, "--gold": LINK, "--base": COUNT},
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
        {**_PAIR, "--vocab": COUNT, "--coverage": REAL, "--limit": COUNT, "--out": OUT_FOLDER, "--about": JSON},
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
    Good(
        "train",
        _trained("place"),
        {f"--{split}-{side}": FOLDER for split in ("train", "dev") for side in ("source", "target")}
        | {"--dev-text": TEXT, "--source-subwords": FILE, "--target-subwords": FILE, "--settings": JSON}
        | {"--seed": COUNT, "--threads": COUNT, "--out": OUT_FOLDER, "--work": OUT_FOLDER, "--about": JSON},
        MODEL_FOLDER,
    ),
    Good(
        "translate",
        ("translate", "--model", MODEL_FOLDER, "--source", f"{DATA}/test.source", "--out", "new/text"),
        {**_MODEL, "--source": TEXT, "--out": OUT_FILE, "--beam": COUNT, "--n-best": COUNT, "--samples": COUNT}
        | {"--temperature": REAL, "--length-penalty": REAL, "--max-ratio": REAL, "--max-offset": COUNT}
        | {"--seed": COUNT, "--about": JSON},
    ),
    Good(
        "translate tokens",
        (
            "translate",
            "--model",
            MODEL_FOLDER,
            *bench.tokens_of()[:2],
            "--out",
            "new/text",
            "--pieces",
            "new/pieces",
            "--tokens",
            "new/tokens",
        ),
        {"--pieces": OUT_FILE, "--tokens": OUT_FOLDER},
        f"{R}/translations/{MODEL}/test.tokens",
    ),
    Good(
        "force",
        ("force", "--model", MODEL_FOLDER, *bench.text_of(), "--out", "new/f.json", "--per-sentence", "new/f.tsv"),
        {**_MODEL, **_PAIR, "--out": OUT_FILE, "--per-sentence": OUT_FILE, "--about": JSON},
    ),
    Good(
        "align",
        ("align", "--model", MODEL_FOLDER, "--method", "attention", *bench.text_of(), "--out", "new/links"),
        {**_MODEL, **_PAIR, "--out": OUT_FILE, "--adaptive": REAL},
    ),
    Good(
        "align translated",
        (
            "align",
            "--model",
            MODEL_FOLDER,
            "--method",
            "attention",
            "--source",
            f"{DATA}/test.source",
            "--out",
            "new/links",
            "--translation-out",
            "new/text",
        ),
        {"--beam": COUNT, "--length-penalty": REAL, "--max-ratio": REAL, "--max-offset": COUNT}
        | {"--translation-out": OUT_FILE},
    ),
    Good(
        "attribute",
        ("attribute", "--model", MODEL_FOLDER, *bench.text_of(), "--methods", "attention", "--out", "new"),
        {**_MODEL, **_PAIR, "--out": OUT_FOLDER, "--adaptive": REAL, "--shard": COUNT, "--about": JSON},
        SCORES,
    ),
    Good(
        "attribute tokens",
        ("attribute", "--model", MODEL_FOLDER, *bench.tokens_of(), "--methods", "attention", "--out", "new"),
        {"--source": FOLDER, "--target": FOLDER},
    ),
    Good(
        "attribute gather",
        ("attribute", "--gather", *(f"{ATTRIBUTION}/xa-xb/matrices.shards/{k}" for k in "12"), "--out", "new"),
        {"--gather": FOLDER, "--out": OUT_FOLDER},
    ),
    Good(
        "contributions",
        (
            *("contributions", "--model", MODEL_FOLDER, *bench.text_of(), "--out", "new/steps.tsv"),
            *("--sentences", "new/sentences.tsv", "--picture", "new/shares.svg"),
        ),
        {**_MODEL, **_PAIR, "--out": OUT_FILE, "--sentences": OUT_FILE, "--top": COUNT},
    ),
    Good(
        "trajectory",
        ("trajectory", "--model", MODEL_FOLDER, *bench.text_of(), "--methods", "attention", "--out", "new"),
        {
            **_MODEL,
            **_PAIR,
            "--bleu": TEXT,
            "--beam": COUNT,
            "--out": OUT_FOLDER,
            "--work": OUT_FOLDER,
            "--about": JSON,
        },
    ),
    Good(
        "counts",
        ("counts", *bench.tokens_of(), *_SUBWORDS, "--words", "8", "--out", "new/counts.json"),
        {"--source": FOLDER, "--target": FOLDER, "--source-subwords": FILE, "--target-subwords": FILE}
        | {"--pairs": COUNT, "--words": COUNT, "--seed": COUNT, "--out": OUT_FILE, "--about": JSON},
    ),
    Good(
        "toy",
        ("toy", "permutation", "--settings", _TOY, "--work", "toy.work", "--out", "new/toy.json"),
        {"--settings": JSON, "--threads": COUNT, "--work": OUT_FOLDER, "--out": OUT_FILE, "--about": JSON},
    ),
    Good(
        "cost",
        (
            "cost",
            "--model",
            MODEL_FOLDER,
            *bench.text_of(),
            "--methods",
            "attention",
            "--sentences",
            "1",
            "--seconds",
            "0.1",
            "--out",
            "new/cost.json",
        ),
        {**_MODEL, **_PAIR, "--sentences": COUNT, "--seconds": REAL, "--adaptive": REAL, "--out": OUT_FILE},
    ),
    Good(
        "extract",
        (
            "extract",
            "--matrices",
            SCORES,
            "--source-pieces",
            f"{PIECES}/test.source",
            "--target-pieces",
            f"{PIECES}/test.target",
            "--out-dir",
            "new",
        ),
        {"--matrices": FOLDER, "--source-pieces": TEXT, "--target-pieces": TEXT, "--out-dir": OUT_FOLDER}
        | {"--about": JSON},
        LINKS,
    ),
    Good(
        "encoder",
        (
            "encoder",
            "--model",
            MODEL_FOLDER,
            *("--source", f"{DATA}/test.source", "--counts", f"{TOKENS}/train.source"),
            *("--sequences", "4", "--out", "new"),
        ),
        {**_MODEL, "--source": TEXT, "--counts": FOLDER, "--sequences": COUNT, "--tokens": COUNT}
        | {"--triples": COUNT, "--out": OUT_FOLDER, "--about": JSON},
        f"{R}/encoders/{bench.MODEL}",
    ),
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
        {**_PAIR, "--source-pieces": TEXT, "--target-pieces": TEXT, "--pairs": COUNT, "--seed": COUNT}
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
        {"--results": FOLDER, "--manifest": FILE, "--heatmaps": COUNT} | {"--page": OUT_FILE, "--configfile": FILE},
    ),
    Good("track list", ("track", "list", "--results", "results"), {"--results": FOLDER, "--preset": FOLDER}),
)
BY_NAME = {good.name: good for good in GOODS}
