"""Commands that train or ask a model on the bench, and what each of their options takes."""

from __future__ import annotations

import json

import bench
from bench import ATTRIBUTION, DATA, LINKS, MODEL, MODEL_FOLDER, PIECES, SCORES, SUBWORDS, TOKENS, R
from good import COUNT, FILE, FOLDER, JSON, LINK, OUT_FILE, OUT_FOLDER, REAL, TEXT, Good

PAIR = {"--source": TEXT, "--target": TEXT}
_MODEL = {"--model": FOLDER, "--batch-tokens": COUNT, "--threads": COUNT}
_SUBWORDS = ("--source-subwords", f"{SUBWORDS}/source.model", "--target-subwords", f"{SUBWORDS}/target.model")
_TOY = json.dumps({"words": 4, "dim": 8, "hidden": 8, "batch": 4, "steps": 2, "evaluate_samples": 4, "seeds": 1})


def plain(arguments: list[str]) -> tuple[str, ...]:
    """Returns a step without its journal: what people type."""
    end = arguments.index("--journal")
    return (*arguments[:end], *arguments[end + 4 :])


def _trained(place: str) -> tuple[str, ...]:
    return plain(bench.train(place=place, max_updates=2, validate_every=2))


MODEL_GOODS = (
    Good(
        "train",
        _trained("place"),
        {f"--{split}-{side}": FOLDER for split in ("train", "dev") for side in ("source", "target")}
        | {"--dev-text": TEXT, "--source-subwords": FILE, "--target-subwords": FILE, "--settings": JSON}
        | {"--seed": COUNT, "--threads": COUNT, "--out": OUT_FOLDER, "--work": OUT_FOLDER, "--about": JSON},
        MODEL_FOLDER,
    ),
    Good(
        "masks",
        plain(bench.masks("place", 2)),
        {"--model": FOLDER, **PAIR, "--settings": JSON, "--seed": COUNT, "--threads": COUNT}
        | {"--out": OUT_FOLDER, "--work": OUT_FOLDER, "--about": JSON},
        f"{R}/models/tiny/xb-xa/transformer/1/model",
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
        {**_MODEL, **PAIR, "--out": OUT_FILE, "--per-sentence": OUT_FILE, "--about": JSON},
    ),
    Good(
        "align",
        ("align", "--model", MODEL_FOLDER, "--method", "attention", *bench.text_of(), "--out", "new/links"),
        {**_MODEL, **PAIR, "--out": OUT_FILE, "--adaptive": REAL},
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
        "calibrate",
        (
            *("calibrate", "--model", MODEL_FOLDER, "--reverse", f"{R}/models/tiny/xb-xa/transformer/1/model"),
            *(*bench.text_of(), "--gold", f"{DATA}/test.gold", "--out", "new/recipe.json"),
        ),
        {**_MODEL, "--reverse": FOLDER, **PAIR, "--gold": LINK, "--pairs": COUNT, "--threshold": REAL}
        | {"--out": OUT_FILE},
    ),
    Good(
        "attribute",
        ("attribute", "--model", MODEL_FOLDER, *bench.text_of(), "--methods", "attention", "--out", "new"),
        {**_MODEL, **PAIR, "--out": OUT_FOLDER, "--adaptive": REAL, "--shard": COUNT, "--about": JSON},
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
        {**_MODEL, **PAIR, "--out": OUT_FILE, "--sentences": OUT_FILE, "--top": COUNT},
    ),
    Good(
        "trajectory",
        ("trajectory", "--model", MODEL_FOLDER, *bench.text_of(), "--methods", "attention", "--out", "new"),
        {
            **_MODEL,
            **PAIR,
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
        {**_MODEL, **PAIR, "--sentences": COUNT, "--seconds": REAL, "--adaptive": REAL, "--out": OUT_FILE},
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
)
