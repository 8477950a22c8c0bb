"""Detect bad rows, which are unreadable or violate the plan, and record them for the quarantine.

A `Fault` is a condition and the text of its error, ``[CODE] message``. With ``bad-rows=fail``, the
first fault of a row fails the batch. With ``bad-rows=quarantine``, the source writes a record to
the column `BAD` of the row, and `BadRows` removes the row from the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql import types as st

from substrait_agg.spark.session.errors import SPARK_ERRORS

BAD = "__bad"
"""The record of a bad row, null for a good one: a struct of `RECORD`."""

CORRUPT, FILE, POSITION = "__corrupt", "__file", "__position"
"""Columns that readers add for the quarantine: text that cannot be parsed, file, position in it."""

RECORD = ("file", "position", "row", "message")
_COUNT = "bad"
_CODE = r"^\[([A-Z_]+)\] "

Fault = tuple[Column, Column]
"""The condition under which a row is bad, and the text of the error."""


def error_text(code: str, text: str) -> Column:
    """Return the text of an error with its code, in the form that `batch_failed` recognises."""
    return F.lit(f"[{code}] {text}")


def first_fault(faults: Sequence[Fault]) -> Column:
    """Return the text of the first fault of a row; null if the row has no fault."""
    text = F.lit(None).cast("string")
    for broken, reason in reversed(faults):
        text = F.when(broken, reason).otherwise(text)
    return text


def raise_on(faults: Sequence[Fault]) -> Column:
    """Return a column that is true for good rows and raises the first fault of bad rows.

    Use it as a filter. Spark removes unused columns with their computations, but never a filter.
    """
    broken = reduce(lambda a, b: a | b, (F.coalesce(f, F.lit(False)) for f, _ in faults))
    return F.when(~broken, F.lit(True)).otherwise(
        F.raise_error(first_fault(faults)).cast("boolean")
    )


def record(faults: Sequence[Fault], row: Column) -> Column:
    """Return the value of `BAD`.

    Args:
        faults: the faults of rows. The frame has the columns `FILE` and `POSITION`.
        row: the row as text.
    """
    message = first_fault(faults)
    parts = (F.col(FILE), F.col(POSITION), F.coalesce(row, F.lit("")), message)
    fields = F.struct(*(part.alias(name) for name, part in zip(RECORD, parts, strict=True)))
    return F.when(message.isNotNull(), fields)


def is_good() -> Column:
    """Return whether a row has no record in `BAD`.

    The test reads the text of the row, which depends on every column. If it depended on fewer
    columns, Spark would parse only those and miss faults in the others.
    """
    return F.coalesce(F.length(F.col(BAD)["row"]), F.lit(-1)) < 0


def row_as_json(columns: Sequence[tuple[str, Column, st.DataType]]) -> Column:
    """Return columns, given by name, value and type, as a JSON object that includes nulls."""
    parts = (
        (value.cast("string") if isinstance(type_, st.TimeType) else value).alias(name)
        for name, value, type_ in columns
    )
    return F.to_json(F.struct(*parts), {"ignoreNullFields": "false"})


class BadRows:
    """The bad rows of a table in one batch, separated from the good rows."""

    def __init__(self, table: str, frame: DataFrame) -> None:
        self.table = table
        self._frame = frame
        self._observed = Observation()
        seen = frame.observe(self._observed, F.count_if(~is_good()).alias(_COUNT))
        self.good = seen.where(is_good()).drop(BAD)

    def count(self) -> int:
        """Return the number of bad rows, after the batch has been computed."""
        try:
            return int(self._observed.get[_COUNT])
        except SPARK_ERRORS:
            # Spark records no observation if it finds that a filter drops all rows.
            return self.rows().count()

    def rows(self) -> DataFrame:
        """Return the records of the bad rows.

        Columns: ``source``, ``file``, ``position``, ``code``, ``reason``, ``row``; all are strings.
        """
        bad = F.col(BAD)
        return self._frame.where(~is_good()).select(
            F.lit(self.table).alias("source"),
            bad["file"].alias("file"),
            bad["position"].alias("position"),
            F.regexp_extract(bad["message"], _CODE, 1).alias("code"),
            F.regexp_replace(bad["message"], _CODE, "").alias("reason"),
            bad["row"].alias("row"),
        )
