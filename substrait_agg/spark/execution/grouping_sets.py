"""Turn rows with all keys into one row per grouping set.

The rows have the keys ``k*`` and any other columns. Afterwards the last key is the index of the set,
and the keys outside of the set are null.
"""

from __future__ import annotations

from pyspark.sql import functions as F

from substrait_agg.operator.common.spec import InputSpec
from substrait_agg.spark.types.cached_transform import RecordedTransform


def lacks_sets(frame: RecordedTransform, spec: InputSpec) -> bool:
    """Return whether each row of a frame represents one row per grouping set."""
    return bool(spec.sets) and _index(spec) not in frame.columns


def with_sets(frame: RecordedTransform, spec: InputSpec) -> RecordedTransform:
    """Repeat rows that represent one row per grouping set; return other rows unchanged."""
    if not lacks_sets(frame, spec):
        return frame
    every = F.array(*(F.lit(index).cast("int") for index in range(len(spec.sets))))
    rows = frame.select(*map(F.col, frame.columns), F.explode(every).alias(_index(spec)))
    index, masked = F.col(_index(spec)), {}
    # Spark computes this faster than rows from an array of structs.
    for ordinal in range(len(spec.keys) - 1):
        inside = [i for i, keys in enumerate(spec.sets) if ordinal in keys]
        if len(inside) < len(spec.sets):
            masked[f"k{ordinal}"] = F.when(index.isin(inside), F.col(f"k{ordinal}"))
    return rows.withColumns(masked)


def _index(spec: InputSpec) -> str:
    return f"k{len(spec.keys) - 1}"
