"""A look at the keys of a first large batch, before it is computed: whether they repeat decides what is exchanged (`care`).

Later batches are taken to be like the one before. Before the first one nothing is known, and to sum up 50 million rows by 50 million
keys, before they are exchanged and summed again, takes as long as all else.
"""

from __future__ import annotations

import math
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from substrait_agg.operator.spec import InputSpec
from substrait_agg.spark.care import Care, better_raw, may_be_raw, row_cells
from substrait_agg.spark.reasons import SPARK_ERRORS, batch_failed

LOOKED_AT = 1 << 16
"""Rows whose keys are looked at."""
LARGE_BYTES = 1 << 26
"""Bytes of a batch, as far as Spark knows, from which on it is worth a job of its own."""
_UNKNOWN_BYTES = 1 << 50
"""Spark says of what it knows nothing that it is this large, or larger."""
_CELL_BYTES = 8


def foreseen(spec: InputSpec, frame: DataFrame, care: Care) -> Care:
    """The care for a batch of which no batch before tells anything.

    Args:
        spec: the operator.
        frame: its rows, with the keys ``k*``.
        care: for a batch of this size.

    Raises:
        RunFailed: Spark could not read the rows.
    """
    known = care.row_bytes or care.raw or not may_be_raw(spec)
    if known or not LARGE_BYTES <= care.size < _UNKNOWN_BYTES or _is_observed(frame):
        return care
    try:
        drawn, distinct = _drawn(frame, len(spec.keys))
    except SPARK_ERRORS as error:
        raise batch_failed(error) from error
    rows = max(drawn, care.size // (_CELL_BYTES * row_cells(spec)))
    groups = expected_groups(rows, drawn, distinct)
    return replace(care, raw=better_raw(spec, rows, groups, raw=False))


def _is_observed(frame: DataFrame) -> bool:
    """Whether it is noted what is read, such as event times: then the rows may be read once only, and all of them."""
    return "CollectMetrics" in str(frame._jdf.queryExecution().analyzed().toString())


def _drawn(frame: DataFrame, keys: int) -> tuple[int, int]:
    """How many rows were looked at, and how many different keys they have."""
    names = [f"k{i}" for i in range(keys)]
    # In one task, which stops reading when it has them.
    first = frame.select(*names).coalesce(1).limit(LOOKED_AT)
    per_key = first.groupBy(*names).count()
    found = per_key.agg(F.sum("count"), F.count("count")).collect()[0]
    return int(found[0] or 0), int(found[1])


def expected_groups(rows: int, drawn: int, distinct: int) -> int:
    """How many different keys `rows` rows have, of which `drawn` have `distinct`, if all keys come as often.

    Where the keys drawn hardly repeat, how many there are shows in how often they do: of K keys, n rows are expected to have
    K (1 - exp(-n / K)).
    """
    if not drawn:
        return 0

    def met(keys: float, n: int) -> float:
        return -keys * math.expm1(-n / keys)

    low, high = float(distinct), float(max(distinct, 1)) * drawn  # with more, not even one repeats
    for _ in range(64):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if met(middle, drawn) < distinct else (low, middle)
    return round(met(high, rows))
