"""The study of Ding, Xu and Koehn (2019) as the rest of alignlens sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alignlens.io.limits import COPIES, SEED, SIGMA
from alignlens.io.typed import setting
from alignlens.studies.contract import Study, tables
from alignlens.studies.ding2019.runs import requests

_LISTED: dict[str, Any] = {"minItems": 1, "maxItems": 100, "uniqueItems": True}


@dataclass(frozen=True)
class Ding2019Settings:
    """What varies the noise of its tables and figures."""

    sigmas: tuple[float, ...] = setting(
        (0.05, 0.15, 0.3),
        "Noise levels of the entropy table and of AER against sigma. Each one other than `attribution.sigma` "
        "costs another sweep.",
        SIGMA._replace(above=True),
        "nothing of a sentence is left at that noise",
        **_LISTED,
    )
    samples_curve: tuple[int, ...] = setting(
        (1, 5, 10, 20, 30),
        "Numbers of copies for the curve of AER against that number; those up to `attribution.samples` cost "
        "nothing extra.",
        COPIES._replace(most=COPIES.most // 2),
        "the error of a mean of copies falls with the root of their number",
        **_LISTED,
    )
    noise_seeds: tuple[int, ...] = setting(
        (1, 2, 3),
        "Seeds of the noise: the first is used for the tables, all together give the spread. Each costs another "
        "sweep over the test text.",
        SEED,
        "what every random generator takes",
        **_LISTED,
    )


STUDY = Study(
    name="ding2019",
    about="Ding, Xu and Koehn 2019, saliency as word alignment",
    title="Ding, Xu and Koehn 2019: word saliency for alignment",
    lead="Saliency-driven word alignment interpretation for neural machine translation (WMT 2019), repeated: printed "
    "numbers, ours, and a verdict on every claim.",
    files=(
        "index.html",
        "claims.csv",
        "comparisons.csv",
        "samples.csv",
        "summary.json",
        *tables("table1", "table2", "table3", "variants"),
    ),
    settings=Ding2019Settings,
    requests=requests,
    front="Noise",
)
