"""Changes of a table as a DataFrame: the plan's columns by position, and the weight of each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st

from substrait_agg.errors import InputRefused
from substrait_agg.flow.graph import TableOrigin
from substrait_agg.functions.accumulators import WeightKind
from substrait_agg.operator.names import WEIGHT
from substrait_agg.plan.types import INTEGER_BITS, Type
from substrait_agg.redaction import cleaned, safe_cause
from substrait_agg.spark import specs
from substrait_agg.spark.columns import check_type, converted, find_column
from substrait_agg.spark.debezium import VALUE, change_rows
from substrait_agg.spark.readers import read_stream
from substrait_agg.spark.schema import column_name
from substrait_agg.spark.specs import SourceSpec, as_spec, check_sources
from substrait_agg.spark.upserts import (
    checked_order,
    further_columns,
    null_faults,
    without_preimages,
)

__all__ = ["WEIGHT", "SourceFrame", "check_sources", "open_source", "weight_kind"]

OPERATIONS: dict[str, int] = {
    "insert": 1,
    "update_postimage": 1,
    "update_preimage": -1,
    "delete": -1,
    "+I": 1,
    "+U": 1,
    "-U": -1,
    "-D": -1,
    "c": 1,
    "r": 1,
    # A flat `u` row holds the new values; the old ones must come as a `d` row.
    "u": 1,
    "d": -1,
}
"""Values of an operation column and the weight of their row."""


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """An opened source.

    Attributes:
        frame: columns ``c0`` ... in the plan's types, then ``__weight`` (bigint, never null; the literal 1
            where `weight` is ``one``). Of upserts also the envelope fields that order them, and which
            values they leave out, before the weight.
        weight: what is known of the weights.
        streaming: False for a static DataFrame, which is one batch.
    """

    frame: DataFrame
    weight: WeightKind
    streaming: bool


def weight_kind(source: str | SourceSpec | DataFrame) -> WeightKind:
    """What is known of the weights of a source: of a SPEC, or of a DataFrame (``any`` if it has ``__weight``)."""
    if isinstance(source, DataFrame):
        return "any" if WEIGHT in source.columns else "one"
    return specs.weight_kind(source)


def open_source(
    spark: SparkSession, source: str | SourceSpec | DataFrame, origin: TableOrigin
) -> SourceFrame:
    """Open the source of a table.

    Args:
        spark: session prepared with `session.SESSION_CONF`; a DataFrame keeps its own.
        source: a specification, or a streaming or static DataFrame (weighted if it has a column ``__weight``).
        origin: the columns that are read, by name (exactly, else the only one that differs by case alone).

    Raises:
        InputRefused: ``SOURCE_NOT_FOUND``, ``SOURCE_EMPTY``, ``SOURCE_UNREADABLE``, ``COLUMN_MISSING``, ``COLUMN_AMBIGUOUS``,
            ``COLUMN_TYPE_MISMATCH``, ``CSV_HEADER_MISSING``, ``ENCODING_MISSING``, ``ENCODING_NOT_SUPPORTED``,
            ``ORDER_UNKNOWN``.
        UsageError: for a bad specification, or ``TYPE_NOT_SUPPORTED``.

    While rows are read, these fail the batch, with the code in Spark's message: ``NULL_IN_REQUIRED_COLUMN``,
    ``WEIGHT_IS_NULL``, ``OPERATION_UNKNOWN``, ``VALUE_OUT_OF_RANGE``; of upserts also ``KEY_IS_NULL`` and ``ORDER_IS_NULL``.
    """
    table = ".".join(origin.table)
    if isinstance(source, DataFrame):
        weighted = WEIGHT in source.columns
        spec = SourceSpec(
            "dataframe", "", (), "weight" if weighted else "none", WEIGHT if weighted else ""
        )
        frame = source
    else:
        spec = checked_order(spark, as_spec(source), table)
        frame = _read(spark, spec, origin, table)
        if spec.change == "debezium":
            frame = change_rows(frame, origin, spec)
            spec = replace(spec, change="weight", change_column=WEIGHT)
    shaped = _shaped(frame, spec, origin, table)
    return SourceFrame(shaped, weight_kind(source), frame.isStreaming)


def _read(spark: SparkSession, spec: SourceSpec, origin: TableOrigin, table: str) -> DataFrame:
    if spec.change == "debezium":
        wanted = {VALUE: Type("string")}
        # Lines of text: an event that is no JSON is told as such.
        spec = replace(spec, format="text") if spec.is_files else spec
        return _opened(spark, spec, wanted, table)
    extra = {"weight": Type("i64"), "op": Type("string")}.get(spec.change)
    wanted = dict(zip(origin.names, origin.types, strict=True))
    if extra is not None:
        wanted.setdefault(spec.change_column, extra)
    return _opened(spark, spec, wanted, table)


def _opened(
    spark: SparkSession, spec: SourceSpec, wanted: Mapping[str, Type], table: str
) -> DataFrame:
    try:
        return read_stream(spark, spec, wanted, table)
    except (PySparkException, Py4JJavaError) as error:
        raise unreadable(spec, table, error) from safe_cause(error)


def unreadable(
    spec: SourceSpec, table: str, error: PySparkException | Py4JJavaError
) -> InputRefused:
    """The error for a source that Spark cannot open."""
    if isinstance(error, PySparkException):
        absent = error.getCondition() in ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND")
        text = str(error)
    else:
        # Spark raises some errors of formats as plain Java exceptions.
        absent, text = False, str(error.java_exception.getMessage())
    reason = cleaned(text.strip().split("\n")[0])
    return InputRefused(
        "SOURCE_NOT_FOUND" if absent else "SOURCE_UNREADABLE",
        f"the source of {table} ({spec.redacted()}) cannot be opened: {reason}",
        help="check the location, the format and its options",
    )


def _shaped(frame: DataFrame, spec: SourceSpec, origin: TableOrigin, table: str) -> DataFrame:
    names = frame.columns
    fields = frame.schema.fields
    # Renamed by position, so that names that differ by case, or twice the same, can be told apart.
    plain = frame.toDF(*[f"s{i}" for i in range(len(names))])
    columns = []
    for ordinal, (name, type_) in enumerate(zip(origin.names, origin.types, strict=True)):
        found = find_column(name, names, table)
        actual = fields[found].dataType
        _check(spec, name, actual, type_, table)
        what = f"column {name} of table {table}"
        value = converted(F.col(f"s{found}"), actual, type_, what)
        columns.append(value.alias(column_name(ordinal)))
    if origin.keyed is not None:
        if spec.change == "op":
            plain = without_preimages(
                plain, F.col(f"s{find_column(spec.change_column, names, table)}")
            )
        for i, further in enumerate(further_columns(origin.keyed)):
            place = names.index(further)
            columns.append(F.col(f"s{place}").alias(column_name(len(origin.names) + i)))
    weight = _weight(spec, names, fields, table)
    shaped = plain.select(*columns, weight.cast("bigint").alias(WEIGHT))
    return _without_nulls(shaped, origin, table)


def _check(spec: SourceSpec, name: str, actual: st.DataType, type_: Type, table: str) -> None:
    # Integers of files were checked when their reader was chosen, which reads them wider than they are.
    if not (spec.is_files and type_.kind in INTEGER_BITS and type_.kind != "u64"):
        check_type(name, actual, type_, table)


def _weight(
    spec: SourceSpec, names: Sequence[str], fields: Sequence[st.StructField], table: str
) -> Column:
    if spec.change == "none":
        return F.lit(1)
    found = find_column(spec.change_column, names, table)
    kind = {"weight": Type("i64"), "op": Type("string")}[spec.change]
    _check(spec, spec.change_column, fields[found].dataType, kind, table)
    build: Mapping[str, Callable[[Column, str], Column]] = {"weight": _plain_weight, "op": _signed}
    return build[spec.change](F.col(f"s{found}"), f"column {spec.change_column} of table {table}")


def _plain_weight(column: Column, what: str) -> Column:
    error = F.raise_error(F.lit(f"[WEIGHT_IS_NULL] {what}, the weight, is null"))
    return F.coalesce(column.cast("bigint"), error.cast("bigint"))


def _signed(column: Column, what: str) -> Column:
    words = ", ".join(OPERATIONS)
    given = F.coalesce(F.concat(F.lit("'"), column, F.lit("'")), F.lit("null"))
    text = F.concat(
        F.lit(f"[OPERATION_UNKNOWN] {what} says "), given, F.lit(f", which is none of {words}")
    )
    plus = [word for word, sign in OPERATIONS.items() if sign > 0]
    minus = [word for word, sign in OPERATIONS.items() if sign < 0]
    return (
        F.when(column.isin(plus), F.lit(1).cast("bigint"))
        .when(column.isin(minus), F.lit(-1).cast("bigint"))
        .otherwise(F.raise_error(text).cast("bigint"))
    )


def _without_nulls(frame: DataFrame, origin: TableOrigin, table: str) -> DataFrame:
    """Fail on a null that the plan rules out: counters are shared on the strength of the plan's word.

    A filter, because Spark drops unused columns together with whatever is computed in them, but never a filter.
    """
    faults = null_faults(origin, table)
    if not faults:
        return frame
    message = F.lit("")
    for is_null, text in reversed(faults):
        message = F.when(is_null, F.lit(text)).otherwise(message)
    broken = reduce(lambda a, b: a | b, (is_null for is_null, _ in faults))
    return frame.filter(
        F.when(~broken, F.lit(True)).otherwise(F.raise_error(message).cast("boolean"))
    )
