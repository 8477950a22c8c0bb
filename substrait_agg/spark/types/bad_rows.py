"""Rows that cannot be read or that break a rule of the plan: what is wrong with them, and what is kept where they are set aside.

A `Fault` is a condition and the text of its error, ``[CODE] message``. With ``bad-rows=fail`` the first fault of a row fails the
batch. With ``bad-rows=quarantine`` the source gives the row with a record in the column `BAD` instead, and the batch
leaves it out (`BadRows`).
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
"""Columns that readers add where bad rows are set aside: text that could not be parsed, the file, and the place in it."""

RECORD = ("file", "position", "row", "message")
_COUNT = "bad"
_CODE = r"^\[([A-Z_]+)\] "

Fault = tuple[Column, Column]
"""When a row is bad, and the text of the error."""


def error_text(code: str, text: str) -> Column:
    """The text of an error with its code, as `reasons.batch_failed` recognises it."""
    return F.lit(f"[{code}] {text}")


def _first(faults: Sequence[Fault]) -> Column:
    """The text of the first fault of a row; null where it has none."""
    text = F.lit(None).cast("string")
    for broken, told in reversed(faults):
        text = F.when(broken, told).otherwise(text)
    return text


def raise_on(faults: Sequence[Fault]) -> Column:
    """True, or the error of the first fault.

    Use it as a filter: Spark drops unused columns together with what is computed in them, but never a filter.
    """
    broken = reduce(lambda a, b: a | b, (F.coalesce(f, F.lit(False)) for f, _ in faults))
    return F.when(~broken, F.lit(True)).otherwise(F.raise_error(_first(faults)).cast("boolean"))


def record(faults: Sequence[Fault], row: Column) -> Column:
    """The value of `BAD`.

    Args:
        faults: of the rows of a frame with the columns `FILE` and `POSITION`.
        row: the row as text.
    """
    message = _first(faults)
    parts = (F.col(FILE), F.col(POSITION), F.coalesce(row, F.lit("")), message)
    made = F.struct(*(part.alias(name) for name, part in zip(RECORD, parts, strict=True)))
    return F.when(message.isNotNull(), made)


def is_good() -> Column:
    """Whether a row has no record in `BAD`.

    The test is on the text of the row, which holds every column. With a test that needs fewer columns, Spark would let its
    reader parse only those, and take a row for good whose fault is in another one.
    """
    return F.coalesce(F.length(F.col(BAD)["row"]), F.lit(-1)) < 0


def row_as_json(columns: Sequence[tuple[str, Column, st.DataType]]) -> Column:
    """Columns as a JSON object, nulls included: name, value and type of each."""
    parts = (
        (value.cast("string") if isinstance(type_, st.TimeType) else value).alias(name)
        for name, value, type_ in columns
    )
    return F.to_json(F.struct(*parts), {"ignoreNullFields": "false"})


class BadRows:
    """The bad rows of a table in one batch, split from the good ones.

    Args:
        table: name of the table.
        frame: its rows, with the column `BAD`.

    Attributes:
        table: as given.
        good: the other rows, without `BAD`.
    """

    def __init__(self, table: str, frame: DataFrame) -> None:
        self.table = table
        self._frame = frame
        self._observed = Observation()
        seen = frame.observe(self._observed, F.count_if(~is_good()).alias(_COUNT))
        self.good = seen.where(is_good()).drop(BAD)

    def count(self) -> int:
        """The number of bad rows, once the batch has been computed."""
        try:
            return int(self._observed.get[_COUNT])
        except SPARK_ERRORS:
            # Where Spark sees that a filter lets no row through it does not read them, and notes nothing.
            return self.rows().count()

    def rows(self) -> DataFrame:
        """The records of the bad rows."""
        bad = F.col(BAD)
        return self._frame.where(~is_good()).select(
            F.lit(self.table).alias("source"),
            bad["file"].alias("file"),
            bad["position"].alias("position"),
            F.regexp_extract(bad["message"], _CODE, 1).alias("code"),
            F.regexp_replace(bad["message"], _CODE, "").alias("reason"),
            bad["row"].alias("row"),
        )
