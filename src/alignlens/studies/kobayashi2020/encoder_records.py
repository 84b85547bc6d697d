"""Tables 1, 2 and 4, singular values and frequency of all encoders in long form."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from alignlens.studies.kobayashi2020.encoder_published import stated
from alignlens.studies.kobayashi2020.encoder_tables import is_pretrained, singular_table, table1, table2, table4

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alignlens.studies.kobayashi2020.encoder_tables import Statistics
    from alignlens.studies.kobayashi2020.encoders import EncoderResult

COLUMNS = ("encoder", "table", "row", "layer", "head", "number", "published", "ours", "exact", "triples_used")


def records(encoders: Sequence[EncoderResult]) -> list[dict[str, Any]]:
    """Returns one record per number, keys in the order of COLUMNS; None where there is none.

    Print is of an encoder that learned a language, so it does not stand beside encoders that learned to translate.
    """
    rows = [
        dict(zip(COLUMNS, (encoder.name, *values), strict=True))
        for encoder in encoders
        for values in _numbers(encoder.statistics)
    ]
    alone = {encoder.name for encoder in encoders if not is_pretrained(encoder.statistics)}
    return [{**record, "published": None} if record["encoder"] in alone else record for record in rows]


def _numbers(statistics: Statistics) -> Iterator[tuple[Any, ...]]:
    for table, rows in (("1", table1(statistics)), ("4", table4(statistics))):
        for row in rows:
            for name in ("mean", "deviation", "cv", "max", "min"):
                values = (_known(getattr(placed.spread, name)) for placed in (row.printed, row.ours))
                yield table, row.name, row.ours.layer, row.ours.head, name, *values, True, None
    for correlation in table2(statistics):
        printed = correlation.printed.rho if correlation.printed else None
        about = ("2", correlation.category, None, None, "rho")
        yield *about, printed, _known(correlation.rho), correlation.exact, correlation.used
    for singular in singular_table(statistics):
        for name in ("largest", "smallest", "smallest_ratio", "mean_ratio", "largest_ratio"):
            printed = singular.printed_smallest_ratio if name == "smallest_ratio" else None
            place = "all" if singular.layer is None else "layer"
            yield "singular", place, singular.layer, None, name, printed, _known(getattr(singular, name)), True, None
    for name in ("weights", "norms"):
        rho = _known(statistics["frequency"][f"rho_{name}"])
        yield "frequency", name, None, None, "rho", stated()[f"frequency_rho_{name}"], rho, True, None


def _known(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else round(value, 6)
