"""The numbers in print."""

from __future__ import annotations

from functools import cache

from alignlens.results.paths import FORCED
from alignlens.studies.claims import published_rows
from alignlens.studies.tables import Printed

STUDY = "ding2019"


@cache
def error_rates(decoding: str) -> dict[tuple[str, str, str, str], Printed]:
    """Returns Table 1 (forced) or 2 (free) by architecture, method, language pair and column."""
    return {
        (row["architecture"], row["method"], row["pair"], row["column"]): Printed(
            float(row["aer"]), row["tuned"] == "yes", row["provenance"]
        )
        for row in published_rows(STUDY, "table1.csv" if decoding == FORCED else "table2.csv")
    }


@cache
def entropies() -> dict[tuple[str, str, str], float]:
    """Returns Table 3 by architecture, decoding and setting: ``attention`` or a noise level."""
    return {
        (row["architecture"], row["decoding"], row["setting"]): float(row["entropy"])
        for row in published_rows(STUDY, "table3.csv")
    }
