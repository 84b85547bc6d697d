"""The numbers in print."""

from __future__ import annotations

from functools import cache

from alignlens.studies.claims import published_rows

STUDY = "kobayashi2020"
PAIR, DIRECTION = "de<>en", "de-en"  # what the translation model of the paper was measured on
TEXT, RELEASED = "paper text", "released run"


@cache
def error_rates() -> dict[tuple[str, str, str], dict[str, float]]:
    """Returns Table 3 and its counterpart in the released run: numbers by provenance, by row, selection and step.

    The text does not say which step it means; its numbers stand under step ``""``.
    """
    rates: dict[tuple[str, str, str], dict[str, float]] = {}
    for row in published_rows(STUDY, "table3.csv"):
        key = row["row"], row["selection"], row["step"]
        rates.setdefault(key, {})[row["provenance"]] = float(row["aer"])
    return rates
