"""Open a source as a DataFrame of changes: the plan's columns by position and a weight per row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st

from substrait_agg.errors import InputRefused
from substrait_agg.flow.graph.graph import TableOrigin
from substrait_agg.functions.aggregates.accumulators import WeightKind
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.plan.types import INTEGER_BITS, Type
from substrait_agg.redaction import safe_cause
from substrait_agg.spark.session.errors import reason_of
from substrait_agg.spark.sources import specs
from substrait_agg.spark.sources.connected import given_schema
from substrait_agg.spark.sources.debezium import VALUE, change_rows
from substrait_agg.spark.sources.parquet_reader import ParquetReader, check_types, parquet_reader
from substrait_agg.spark.sources.parse_faults import TextColumn, parse_faults, row_options
from substrait_agg.spark.sources.readers import FilesReader, read_source
from substrait_agg.spark.sources.specs import OPERATIONS, SourceSpec, as_spec
from substrait_agg.spark.sources.text_files import text_check
from substrait_agg.spark.sources.upserts import (
    checked_order,
    further_columns,
    null_faults,
    without_preimages,
)
from substrait_agg.spark.types.bad_rows import (
    BAD,
    CORRUPT,
    FILE,
    POSITION,
    Fault,
    error_text,
    raise_on,
    record,
    row_as_json,
)
from substrait_agg.spark.types.schema import column_name
from substrait_agg.spark.types.source_columns import (
    check_type,
    convert,
    find_column,
    misfit,
    misfit_text,
)

_ADDED = frozenset({CORRUPT, FILE, POSITION, BAD})
"""Columns that readers add to those of the source."""


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """An opened source.

    Attributes:
        frame: columns ``c0`` ... in the plan's types, then ``__weight`` (bigint, never null; the
            literal 1 if `weight` is ``append_only``). For upserts, the columns of
            `further_columns` precede the weight. If bad rows go to the quarantine, the column
            `BAD` comes last.
        weight: which weights are possible.
        streaming: False for a static source, which is one batch.
        reader: reads files of the source without Spark; None if Spark has to.
        of_files: returns the rows of some files of the source, as `frame` has them; None if the
            source has no files.
        of_given: returns rows of a connector as `frame` has them; None if no connector reads the source.
        check: raises for files that Spark would silently read as other rows or values; None if the
            format has no check.
    """

    frame: DataFrame
    weight: WeightKind
    streaming: bool
    reader: ParquetReader | None = None
    of_files: Callable[[SparkSession, Sequence[str]], DataFrame] | None = None
    check: Callable[[Sequence[str]], None] | None = None
    of_given: Callable[[DataFrame], DataFrame] | None = None

    def check_files(self, uris: Sequence[str]) -> None:
        """Check files of the source; see `parquet_reader.check_types` and `text_files`.

        Raises:
            InputRefused: COLUMN_TYPE_MISMATCH, ROW_UNREADABLE, TEXT_ENCODING_INVALID, SOURCE_UNREADABLE.
        """
        if self.check is not None:
            self.check(uris)

    def check_static_files(self) -> None:
        """Check all files of a static source, as `check_files`."""
        if self.check is not None and not self.streaming:
            self.check(self.frame.inputFiles())


def weight_kind(source: str | SourceSpec | DataFrame) -> WeightKind:
    """Return which weights are possible in a source.

    A DataFrame has weights of kind ``weighted`` if it has a column ``__weight``, and
    ``append_only`` otherwise.
    """
    if isinstance(source, DataFrame):
        return "weighted" if WEIGHT in source.columns else "append_only"
    return specs.weight_kind(source)


def is_static(source: str | SourceSpec | DataFrame) -> bool:
    """Return whether all rows of a source are read once, in the first version."""
    if isinstance(source, DataFrame):
        return not source.isStreaming
    return as_spec(source).static


def sets_aside(source: str | SourceSpec | DataFrame) -> bool:
    """Return whether bad rows of a source go to the quarantine."""
    return not isinstance(source, DataFrame) and as_spec(source).bad_rows == "quarantine"


def open_source(
    spark: SparkSession, source: str | SourceSpec | DataFrame, origin: TableOrigin
) -> SourceFrame:
    """Open the source of a table.

    Args:
        spark: session prepared with `SESSION_CONF`. A DataFrame keeps its own session.
        source: a specification, or a streaming or static DataFrame. A column ``__weight`` of a
            DataFrame gives the weights of its rows.
        origin: the columns to read, by name. A name matches exactly, or else the only column that
            differs from it in case alone.

    Raises:
        InputRefused: ``SOURCE_NOT_FOUND``, ``SOURCE_EMPTY``, ``SOURCE_UNREADABLE``,
            ``COLUMN_MISSING``, ``COLUMN_AMBIGUOUS``, ``COLUMN_TYPE_MISMATCH``,
            ``CSV_HEADER_MISSING``, ``ENCODING_MISSING``, ``ENCODING_NOT_SUPPORTED``,
            ``ORDER_UNKNOWN``.
        UsageError: the specification is bad, or ``TYPE_NOT_SUPPORTED``.

    The following errors fail the batch while Spark reads the rows. Spark's message contains the
    code: ``NULL_IN_REQUIRED_COLUMN``, ``WEIGHT_IS_NULL``, ``OPERATION_UNKNOWN``,
    ``VALUE_OUT_OF_RANGE``; for upserts also ``KEY_IS_NULL`` and ``ORDER_IS_NULL``.
    """
    table = ".".join(origin.table)
    if isinstance(source, DataFrame):
        weighted = WEIGHT in source.columns
        spec = SourceSpec(
            "dataframe", "", (), "weight" if weighted else "none", WEIGHT if weighted else ""
        )
        frame, of_files = source, None
    elif as_spec(source).schema is not None:
        return _open_connected(spark, as_spec(source), origin)
    else:
        spec = checked_order(spark, as_spec(source), table)
        frame, of_files = _read(spark, spec, origin, table)
        if spec.change == "debezium":
            spec = replace(spec, change="weight", change_column=WEIGHT)
    shaped, check = _shape(frame, spec, origin, table), _check_of(frame, source, table)
    reader = parquet_reader(spec, frame.schema, origin)
    return SourceFrame(
        shaped,
        weight_kind(source),
        frame.isStreaming,
        reader,
        _then(of_files, lambda rows: _shape(rows, spec, origin, table)),
        check,
    )


def _open_connected(spark: SparkSession, spec: SourceSpec, origin: TableOrigin) -> SourceFrame:
    """Open a source that a connector reads: only its columns are known here."""
    table = ".".join(origin.table)
    if spec.schema is None:
        raise TypeError(table)
    rows = given_schema(spec.schema.append(pa.field(WEIGHT, pa.int64())))

    def of_given(frame: DataFrame) -> DataFrame:
        return _shape(frame, spec, origin, table)

    none = of_given(spark.createDataFrame([], rows))
    return SourceFrame(none, weight_kind(spec), streaming=True, of_given=of_given)


def _check_of(
    frame: DataFrame, source: str | SourceSpec | DataFrame, table: str
) -> Callable[[Sequence[str]], None] | None:
    """Return the check of the files of a source; None if it has none."""
    if isinstance(source, DataFrame):
        return None
    spec = as_spec(source)
    if spec.format == "parquet":
        return lambda uris: check_types(frame.schema, uris, lambda: frame.sparkSession)
    text = text_check(spec, frame.schema, table)
    return None if text is None else text.files


def _read(
    spark: SparkSession, spec: SourceSpec, origin: TableOrigin, table: str
) -> tuple[DataFrame, FilesReader | None]:
    """Return the rows of a source, and what reads them from some of its files."""
    if spec.change != "debezium":
        return _open(spark, spec, columns_to_read(spec, origin), table)
    # Spark reads the lines as text, so that an event that is not JSON gets an error of ours.
    lines = replace(spec, format="text") if spec.is_files else spec
    events, of_files = _open(spark, lines, {VALUE: Type("string")}, table)
    rows_of_files = _then(of_files, lambda rows: change_rows(rows, origin, spec))
    return change_rows(events, origin, spec), rows_of_files


def _then(
    of_files: FilesReader | None, change: Callable[[DataFrame], DataFrame]
) -> FilesReader | None:
    """Return what reads the rows of some files and changes them; None if nothing reads them."""
    if of_files is None:
        return None
    return lambda session, uris: change(of_files(session, uris))


def columns_to_read(spec: SourceSpec, origin: TableOrigin) -> dict[str, Type]:
    """Return the columns to read from a source: name -> type.

    They are the plan's columns and, if there is one, the column of weights or operations.
    """
    extra = {"weight": Type("i64"), "op": Type("string")}.get(spec.change)
    columns = dict(zip(origin.names, origin.types, strict=True))
    if extra is not None:
        columns.setdefault(spec.change_column, extra)
    return columns


def _open(
    spark: SparkSession, spec: SourceSpec, columns: Mapping[str, Type], table: str
) -> tuple[DataFrame, FilesReader | None]:
    try:
        return read_source(spark, spec, columns, table)
    except (PySparkException, Py4JJavaError) as error:
        raise unreadable(spec, table, error) from safe_cause(error)


def unreadable(
    spec: SourceSpec, table: str, error: PySparkException | Py4JJavaError
) -> InputRefused:
    """Return the error for a source that Spark cannot open."""
    # Some file formats raise plain Java exceptions, which have no error condition.
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    if condition == "COLUMN_ALREADY_EXISTS":
        return InputRefused(
            "COLUMN_AMBIGUOUS",
            f"the source of {table} ({spec.redact()}) has two columns whose names differ in case alone: {reason_of(error)}",
            help="give every column a name of its own; Spark compares names without regard to case",
        )
    absent, reason = condition in ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND"), reason_of(error)
    return InputRefused(
        "SOURCE_NOT_FOUND" if absent else "SOURCE_UNREADABLE",
        f"the source of {table} ({spec.redact()}) cannot be opened: {reason}",
        help="check the location, the format and its options",
    )


def _shape(frame: DataFrame, spec: SourceSpec, origin: TableOrigin, table: str) -> DataFrame:
    names = [name for name in frame.columns if name not in _ADDED]
    fields = frame.schema.fields
    # Names by position stay unique where names are equal or differ only in case.
    plain = frame.toDF(*(f"s{i}" for i in range(len(names))), *frame.columns[len(names) :])
    columns, misfits, read = [], [], []
    for name, type_ in zip(origin.names, origin.types, strict=True):
        ordinal = find_column(name, names, table)
        actual, column = fields[ordinal].dataType, F.col(f"s{ordinal}")
        _check(spec, name, actual, type_, table)
        what = f"column {name} of table {table}"
        columns.append(convert(column, actual, type_, what))
        test = misfit(column, actual, type_)
        if test is not None:
            misfits.append((test[0], misfit_text(what, test[1])))
        read.append(TextColumn(names[ordinal], ordinal, column, type_))
    if origin.upsert is not None:
        if spec.change == "op":
            plain = without_preimages(
                plain, F.col(f"s{find_column(spec.change_column, names, table)}")
            )
        columns += [F.col(f"s{names.index(f)}") for f in further_columns(origin.upsert)]
    weight = _weight(spec, names, fields, table)
    if spec.bad_rows == "fail":
        return _fail_on_bad(plain, columns, weight, origin, table)
    if weight.read is not None:
        read.append(weight.read)
    row = _row(plain, spec, names, fields, read)
    faults = [
        *([] if BAD in plain.columns else parse_faults(spec, read, len(names), table)),
        *misfits,
        *weight.faults,
        *null_faults(origin, table, columns, weight.value),
    ]
    return _setting_aside(plain, columns, weight, faults, row)


def _to_columns(columns: Sequence[Column]) -> list[Column]:
    return [column.alias(column_name(i)) for i, column in enumerate(columns)]


def _fail_on_bad(
    plain: DataFrame, columns: Sequence[Column], weight: _Weight, origin: TableOrigin, table: str
) -> DataFrame:
    """Return the rows of a source; a bad row fails the batch.

    A null in a column that the plan declares as required is also an error. Measures over required
    columns share a counter of rows, which such a null would make wrong.
    """
    value = weight.value
    for _, text in weight.faults:  # the weight of a bad row is null, so it is computed only once
        value = F.coalesce(value, F.raise_error(text).cast("bigint"))
    shaped = plain.select(*_to_columns(columns), value.cast("bigint").alias(WEIGHT))
    inputs = [F.col(column_name(i)) for i in range(len(columns))]
    faults = null_faults(origin, table, inputs, F.col(WEIGHT))
    return shaped.filter(raise_on(faults)) if faults else shaped


def _setting_aside(
    plain: DataFrame,
    columns: Sequence[Column],
    weight: _Weight,
    faults: Sequence[Fault],
    row: Column,
) -> DataFrame:
    """Return the rows of a source with the column `BAD`; bad rows are null with weight 0."""
    bad_columns = [F.col(BAD)] if BAD in plain.columns else []
    marked = plain.withColumn(BAD, F.coalesce(*bad_columns, record(faults, row)))
    good = F.col(BAD).isNull()
    value = F.coalesce(F.when(good, weight.value.cast("bigint")), F.lit(0).cast("bigint"))
    return marked.select(
        *_to_columns([F.when(good, column) for column in columns]),
        (value if weight.faults or bad_columns else weight.value.cast("bigint")).alias(WEIGHT),
        F.col(BAD),
    )


def _row(
    plain: DataFrame,
    spec: SourceSpec,
    names: Sequence[str],
    fields: Sequence[st.StructField],
    read: Sequence[TextColumn],
) -> Column:
    """Return a row as text: the text of the source if it is known, else the parsed values."""
    texts = [F.col(CORRUPT)] if CORRUPT in plain.columns else []
    if spec.format == "csv":
        every = F.struct(*(F.col(f"s{i}") for i in range(len(names))))
        return F.coalesce(*texts, F.to_csv(every, row_options(spec.options)))
    used = range(len(names)) if spec.is_files else dict.fromkeys(c.ordinal for c in read)
    values = [(names[i], F.col(f"s{i}"), fields[i].dataType) for i in used]
    return F.coalesce(*texts, row_as_json(values)) if values else F.coalesce(*texts, F.lit("{}"))


def _check(spec: SourceSpec, name: str, actual: st.DataType, type_: Type, table: str) -> None:
    # Readers of files check the types of integers, and then read them as a wider type.
    if not (spec.is_files and type_.kind in INTEGER_BITS and type_.kind != "u64"):
        check_type(name, actual, type_, table)


@dataclass(frozen=True, slots=True)
class _Weight:
    """The weight of a row.

    Attributes:
        value: the weight; null if it is invalid.
        faults: the conditions under which the weight is invalid.
        read: the column that the weight is computed from; None if every row has weight 1.
    """

    value: Column
    faults: tuple[Fault, ...] = ()
    read: TextColumn | None = None


def _weight(
    spec: SourceSpec, names: Sequence[str], fields: Sequence[st.StructField], table: str
) -> _Weight:
    if spec.change == "none":
        return _Weight(F.lit(1))
    ordinal = find_column(spec.change_column, names, table)
    kind = {"weight": Type("i64"), "op": Type("string")}[spec.change]
    _check(spec, spec.change_column, fields[ordinal].dataType, kind, table)
    column, what = F.col(f"s{ordinal}"), f"column {spec.change_column} of table {table}"
    read = TextColumn(names[ordinal], ordinal, column, kind)
    build = {"weight": _plain_weight, "op": _sign}[spec.change]
    value, fault = build(column, what)
    return _Weight(value, (fault,), read)


def _plain_weight(column: Column, what: str) -> tuple[Column, Fault]:
    text = error_text("WEIGHT_IS_NULL", f"{what}, the weight, is null")
    return column.cast("bigint"), (column.isNull(), text)


def _sign(column: Column, what: str) -> tuple[Column, Fault]:
    words = ", ".join(OPERATIONS)
    shown = F.coalesce(F.concat(F.lit("'"), column, F.lit("'")), F.lit("null"))
    text = F.concat(
        F.lit(f"[OPERATION_UNKNOWN] {what} is "), shown, F.lit(f", which is not one of {words}")
    )
    plus = [word for word, sign in OPERATIONS.items() if sign > 0]
    minus = [word for word, sign in OPERATIONS.items() if sign < 0]
    value = F.when(column.isin(plus), F.lit(1)).when(column.isin(minus), F.lit(-1)).cast("bigint")
    return value, (value.isNull(), text)
