"""Convert Debezium change events to weighted rows: `before` at weight -1, `after` at weight 1.

For a table with a declared key, `after` replaces the row of its key. A row of weight -1 then comes
only from a delete, or from an update that changes the key.

An event is one JSON text, with or without a schema part around it. The event does not say how its
values are encoded (a decimal as bytes or text, a timestamp as a number of some unit). The SPEC has
to say it if the table has such columns.

Source: https://debezium.io/documentation/reference/stable/connectors/postgresql.html ("Change event
values", "Data type mappings").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from substrait_agg.errors import InputRefused
from substrait_agg.flow.graph.graph import TableOrigin, UpsertSource
from substrait_agg.flow.passes.upserts import LARGE
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.plan.types import Type
from substrait_agg.spark.sources.specs import SourceSpec
from substrait_agg.spark.sources.upserts import order_types, unchanged_column
from substrait_agg.spark.types.bad_rows import (
    BAD,
    CORRUPT,
    FILE,
    POSITION,
    Fault,
    error_text,
    raise_on,
    record,
)
from substrait_agg.spark.types.literals import zoneless
from substrait_agg.spark.types.schema import in_text, to_spark
from substrait_agg.spark.types.source_columns import misfit, misfit_text

VALUE = "value"
"""The column of events, both in text files and in Kafka messages."""

TOOK, BROUGHT = ("u", "d"), ("c", "r", "u")
"""Operations whose event has a row `before`, and those whose event has a row `after`."""

PER_MICROSECOND = {"ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}
"""Unit of a number -> factor and divisor that convert it to microseconds."""

WHOLE_NUMBER = "^-?[0-9]+$"
_CORRUPT = "__corrupt"
_MORE_THAN_ONE = r'^\s*\[|\}\s*(?:"|,?\s*[^\s,"}\]])'
"""Matches lists, and texts in which something else than a key or an end follows an object."""
_ASIDE = (CORRUPT, FILE, POSITION, BAD)
_SHOWN_CHARACTERS = 200
"""Characters of an event that a message shows."""
_WHOLE = "decimal(38,0)"
_LOWER_DIGITS = 19


@dataclass(frozen=True, slots=True)
class FieldReader:
    """How a column is read from events.

    Attributes:
        parsed: the type as which Spark parses the column.
        convert: converts a parsed value to the plan's type, or fails.
        broken: whether `convert` fails for a value that is not null; None if it never fails.
    """

    parsed: st.DataType
    convert: Callable[[Column], Column] = lambda column: column
    broken: Callable[[Column], Column] | None = None


def change_rows(events: DataFrame, origin: TableOrigin, spec: SourceSpec) -> DataFrame:
    """Return the rows that change events remove and add.

    Args:
        events: the column ``value``, a JSON text or its bytes. A null value (a tombstone) is
            ignored, except where `texts` turns it into a delete.
        origin: the columns to read.
        spec: the specification, which gives the encoding of decimals and times.

    Returns:
        The columns by name, the columns that order the events of a key, the columns of `unchanged`,
        and ``__weight``, 1 or -1. If bad rows go to the quarantine, also the text of the event
        (`CORRUPT`), `FILE`, `POSITION` and `BAD`; a bad event is then one row of weight 0. An event
        is bad if one of these errors occurs while Spark reads it: ``TEXT_ENCODING_INVALID``,
        ``ENVELOPE_INVALID``, ``OPERATION_UNKNOWN``, ``ROW_BEFORE_MISSING``, ``ROW_AFTER_MISSING``, ``COLUMN_MISSING``,
        ``VALUE_OUT_OF_RANGE``, ``VALUE_UNAVAILABLE``.

    Raises:
        InputRefused: ``ENCODING_MISSING``, ``ENCODING_NOT_SUPPORTED``.
    """
    table = ".".join(origin.table)
    readings = [
        _choose_reader(n, t, spec, table) for n, t in zip(origin.names, origin.types, strict=True)
    ]
    row = st.StructType(
        [st.StructField(n, r.parsed) for n, r in zip(origin.names, readings, strict=True)]
    )
    keyed = origin.upsert
    present = texts(events, VALUE, keyed).where(~F.trim("t").isin("", "null"))
    fields = [*_fields(row), *order_fields(keyed)]
    opened = _open(present, fields)
    faults = _envelope_faults(origin, table)
    if spec.bad_rows == "quarantine":
        faults += _value_faults(origin, readings, table)
        opened = opened.withColumn(BAD, record(faults, F.make_valid_utf8("t")))
    else:
        placed = _place_of_event(opened.columns)
        opened = opened.where(raise_on([(broken, F.concat(t, placed)) for broken, t in faults]))
    exploded = _explode(opened, origin, row)
    bad_columns = [name for name in exploded.columns if name in _ASIDE]
    columns = [
        r.convert(F.col("s.row").getField(n)).alias(n)
        for n, r in zip(origin.names, readings, strict=True)
    ]
    further: list[Column | str] = [
        *(name for name in exploded.columns[1:] if name not in _ASIDE),
        *unchanged_columns(origin, F.col("s.row")),
    ]
    weight = F.coalesce(F.col("s.weight"), F.lit(0).cast("bigint")).alias(WEIGHT)
    return exploded.select(*columns, *further, weight, *bad_columns)


def _explode(opened: DataFrame, origin: TableOrigin, row: st.StructType) -> DataFrame:
    """Return one row per removed or added row ``s``, with the columns that order the events.

    A bad event gives one row without values.
    """
    keyed = origin.upsert
    removed_rows = _side("before", TOOK, -1) if keyed is None else remove_key(origin, keyed, row)
    sides = F.array_compact(F.array(removed_rows, _side("after", BROUGHT, 1)))
    bad_columns = []
    if BAD in opened.columns:
        bad_columns = [F.col("t").alias(CORRUPT), *(F.col(name) for name in (FILE, POSITION, BAD))]
        none = F.array(F.lit(None).cast(_side_type(row)))
        sides = F.when(F.col(BAD).isNull(), sides).otherwise(none)
    order = order_columns(keyed)
    return opened.select(F.explode(sides).alias("s"), *order, *bad_columns)


def _open(present: DataFrame, fields: list[st.StructField]) -> DataFrame:
    """Return the events without their schema part.

    The columns are ``t``, the text; ``corrupt``, not null if the text is not an event; the fields
    of the event; `FILE` and `POSITION` if they are present.
    """
    place = present.columns[1:]
    options = {"columnNameOfCorruptRecord": _CORRUPT}
    parsed = present.withColumn("e", F.from_json("t", _envelope(fields), options))
    event = F.col("e")
    inner = F.coalesce(event["payload"], F.struct(*(event[field.name] for field in fields)))
    corrupt = F.coalesce(event[_CORRUPT], F.when(~_is_one_object(F.col("t")), F.col("t")))
    unwrapped = parsed.select("t", corrupt.alias("corrupt"), inner.alias("e"), *place)
    return unwrapped.select("t", "corrupt", "e.*", *place)


def _is_one_object(text: Column) -> Column:
    """Return whether a JSON text is one object. Spark reads the first of several, or of a list.

    Only texts that may have more are parsed again.
    """
    parts = F.from_json(F.concat(F.lit("["), text, F.lit("]")), "array<string>")
    is_one = (F.size(parts) == 1) & F.get(parts, F.lit(0)).startswith("{")
    return ~text.rlike(_MORE_THAN_ONE) | F.coalesce(is_one, F.lit(False))


def _fields(row: st.StructType) -> list[st.StructField]:
    sides = [st.StructField("before", row), st.StructField("after", row)]
    return [*sides, st.StructField("op", st.StringType())]


def _envelope(fields: list[st.StructField]) -> st.StructType:
    corrupt = st.StructField(_CORRUPT, st.StringType())
    return st.StructType([st.StructField("payload", st.StructType(fields)), *fields, corrupt])


def _side_type(row: st.StructType) -> st.StructType:
    return st.StructType([st.StructField("row", row), st.StructField("weight", st.LongType())])


def _side(name: str, operations: Sequence[str], weight: int) -> Column:
    row = F.struct(F.col(name).alias("row"), F.lit(weight).cast("bigint").alias("weight"))
    return F.when(F.col("op").isin(*operations), row)


# --- faults of events -----------------------------------------------------------------------------


def _envelope_faults(origin: TableOrigin, table: str) -> list[Fault]:
    op = F.col("op")
    is_known = F.coalesce(op.isin(*TOOK, *BROUGHT), F.lit(False))
    shown = F.coalesce(F.concat(F.lit("'"), op, F.lit("'")), F.lit("none"))
    return [
        (~F.is_valid_utf8("t"), _message("TEXT_ENCODING_INVALID", table, "an event is not UTF-8")),
        (F.col("corrupt").isNotNull(), _message("ENVELOPE_INVALID", table, "an event is not JSON, or one of its values does not fit its column")),
        (~is_known, F.concat(_message("OPERATION_UNKNOWN", table, "an event has the operation "), shown, F.lit("; supported operations are c, r, u and d"))),
        (op.isin(*_needs_before(origin)) & F.col("before").isNull(), _message("ROW_BEFORE_MISSING", table, "an update or delete event does not contain the old row")),
        (op.isin(*BROUGHT) & F.col("after").isNull(), _message("ROW_AFTER_MISSING", table, "an insert or update event does not contain the new row")),
        *_omission_faults(origin, table),
    ]  # fmt: skip


def _place_of_event(columns: Sequence[str]) -> Column:
    """Return the file or the position of an event, and the beginning of its text, in brackets."""
    names = {FILE: "file ", POSITION: "position "}
    places = [F.concat(F.lit(text), F.col(n)) for n, text in names.items() if n in columns]
    line = F.regexp_replace(F.make_valid_utf8("t"), r"\s+", " ")
    event = F.concat(F.lit("event "), F.substr(line, F.lit(1), F.lit(_SHOWN_CHARACTERS)))
    return F.concat(F.lit(" ("), F.concat_ws(", ", *places, event), F.lit(")"))


def _value_faults(origin: TableOrigin, readings: Sequence[FieldReader], table: str) -> list[Fault]:
    """Return the faults of the values in an event.

    They are found before the event is split into rows, because a bad event is left out as a whole.
    """
    keyed = origin.upsert
    keys = set() if keyed is None else {origin.names[k] for k in keyed.keys}
    faults: list[Fault] = []
    for side, operations in (("before", _needs_before(origin)), ("after", BROUGHT)):
        has_side = F.col("op").isin(*operations) & F.col(side).isNotNull()
        for name, type_, reading in zip(origin.names, origin.types, readings, strict=True):
            if side == "after" or keyed is None or name in keys:
                value, what = F.col(side).getField(name), f"column {name} of table {table}"
                faults_of_value = _faults_of_value(value, type_, reading, what, is_key=name in keys)
                faults += [(has_side & broken, text) for broken, text in faults_of_value]
    order = zip(keyed.paths if keyed else (), order_columns(keyed), strict=True)
    return [
        *faults,
        *(
            (column.isNull(), error_text("ORDER_IS_NULL", f"{path} of table {table}, which orders the rows of a key, is null"))
            for path, column in order
        ),
    ]  # fmt: skip


def _faults_of_value(
    value: Column, type_: Type, reading: FieldReader, what: str, *, is_key: bool
) -> Iterator[Fault]:
    test = misfit(value, reading.parsed, type_) if reading.broken is None else None
    if reading.broken is not None:
        text = error_text(
            "ROW_UNREADABLE",
            f"{what} has a value that is not a valid {replace(type_, nullable=False)}",
        )
        yield value.isNotNull() & reading.broken(value), text
    if test is not None:
        yield test[0], misfit_text(what, test[1])
    if is_key:
        yield value.isNull(), error_text("KEY_IS_NULL", f"{what}, part of its key, is null")
    if not type_.nullable:
        text = error_text(
            "NULL_IN_REQUIRED_COLUMN", f"{what} is null, but the plan declares it as required"
        )
        yield value.isNull(), text


def _needs_before(origin: TableOrigin) -> Sequence[str]:
    return TOOK if origin.upsert is None else ("d",)


def _omission_faults(origin: TableOrigin, table: str) -> list[Fault]:
    """Return the faults of columns that an event lacks or whose value it omits."""
    after = [_absent("after", name, table) for name in origin.names]
    if origin.upsert is None:
        return [*(_absent("before", name, table) for name in origin.names), *after]
    for name in (origin.names[k] for k in origin.upsert.keys):
        fault, message = _absent("before", name, table)
        after.append(((F.col("op") == "d") & fault, message))
    # With a declared order, the event with the value may be missing when this event arrives.
    large = [n for n, t in zip(origin.names, origin.types, strict=True) if t.kind in LARGE]
    partial = {origin.names[k] for k in origin.upsert.partial}
    text = "an update event omits a value that did not change"
    message = _message("VALUE_UNAVAILABLE", table, text)
    row = F.col("after")
    return [
        *after,
        *((unavailable(row, n), message) for n in large if n not in partial),
    ]


def _message(code: str, table: str, text: str) -> Column:
    return error_text(code, f"table {table}: {text}")


def _absent(side: str, name: str, table: str) -> Fault:
    """Return the fault of a column that a row lacks.

    Only null values are looked up in the text, because the lookup is slow.
    """
    inside = F.coalesce(*(F.get_json_object("t", f"$.{p}{side}") for p in ("payload.", "")))
    has_key = F.array_contains(F.json_object_keys(inside), name)
    fault = F.col(side).isNotNull() & F.col(side).getField(name).isNull() & ~has_key
    return fault, _message(
        "COLUMN_MISSING", table, f"the field {side!r} of an event has no column {name}"
    )


# --- encodings of values --------------------------------------------------------------------------


def _choose_reader(name: str, type_: Type, spec: SourceSpec, table: str) -> FieldReader:
    special = _SPECIAL.get(type_.kind)
    if special is not None:
        return special(name, type_, spec, table)
    if type_.kind in ("struct", "map", "interval_day", "interval_year", "list"):
        raise InputRefused(
            "ENCODING_NOT_SUPPORTED",
            f"column {name} of table {table} has type {type_}, which cannot be read from change events",
            help="remove the column from the plan, or flatten the events and give op=COLUMN",
        )
    return FieldReader(to_spark(in_text(type_)))


def _encoding(key: str, encoding: str, name: str, type_: Type, table: str, forms: str) -> str:
    if encoding:
        return encoding
    raise InputRefused(
        "ENCODING_MISSING",
        f"events do not state how they encode column {name} of table {table}, which has type {type_}",
        help=f"add {key}= to the source: {forms}",
    )


def _decimal(name: str, type_: Type, spec: SourceSpec, table: str) -> FieldReader:
    forms = "bytes (Debezium's default), or text for strings and numbers"
    if _encoding("decimals", spec.decimals, name, type_, table, forms) == "text":
        return FieldReader(to_spark(type_))
    what = f"column {name} of table {table}"
    return FieldReader(
        st.BinaryType(),
        lambda column: _unscale(column, type_, what),
        lambda column: F.when(
            _has_digits(column), _unscaled_text(column, type_).try_cast(to_spark(type_)).isNull()
        ).otherwise(F.lit(True)),
    )


def _has_digits(column: Column) -> Column:
    return F.octet_length(column).between(1, 16)


def _unscale(column: Column, type_: Type, what: str) -> Column:
    """Convert bytes, a signed big-endian unscaled number, to a decimal."""
    error = F.raise_error(F.lit(f"[VALUE_OUT_OF_RANGE] {what} has a decimal of more than 16 bytes"))
    digits = _unscaled_text(column, type_)
    text = F.when(_has_digits(column), digits).otherwise(error.cast("string"))
    return F.when(column.isNotNull(), text).cast(to_spark(type_))


def _unscaled_text(column: Column, type_: Type) -> Column:
    digits = _magnitude(F.hex(column))
    scale = type_.params[1]
    zeros = F.repeat(F.lit("0"), F.greatest(F.lit(scale + 1) - F.length(digits), F.lit(0)))
    padded = F.concat(zeros, digits)
    cut = F.length(padded) - scale
    sign = F.when(_negative(F.hex(column)), "-").otherwise("")
    before, after = F.substr(padded, F.lit(1), cut), F.substr(padded, cut + 1)
    return F.concat(sign, before, F.lit("."), after)


def _negative(digits: Column) -> Column:
    return F.substr(digits, F.lit(1), F.lit(1)) >= "8"


def _magnitude(digits: Column) -> Column:
    """Return the decimal digits of the magnitude of a two's complement number of up to 16 bytes.

    `digits` is the number in hexadecimal. The computation goes over words of 32 bits and represents
    the value as upper * 10^19 + lower. No product then has more than 30 digits, and Spark keeps 34.
    """
    flipped = F.translate(digits, "0123456789ABCDEF", "FEDCBA9876543210")
    filled = F.lpad(F.when(_negative(digits), flipped).otherwise(digits), 32, "0")
    words = [F.conv(F.substr(filled, F.lit(8 * i + 1), F.lit(8)), 16, 10) for i in range(4)]
    # In two's complement, the negative of a number is its flipped bits plus one.
    last = words[3].cast(_WHOLE) + F.when(_negative(digits), 1).otherwise(0)
    listed = F.array(*(w.cast(_WHOLE) for w in (*words[:3], last)))
    zero = F.lit(0).cast(_WHOLE)
    base = F.lit(str(10**_LOWER_DIGITS)).cast(_WHOLE)

    def add(sum_: Column, word: Column) -> Column:
        """Multiply the digits so far by 2^32, and add a word."""
        lower = (sum_["lower"] * F.lit(1 << 32) + word).cast(_WHOLE)
        carry = F.call_function("div", lower, base)
        upper = (sum_["upper"] * F.lit(1 << 32) + carry).cast(_WHOLE)
        return F.struct(upper.alias("upper"), (lower % base).cast(_WHOLE).alias("lower"))

    start = F.struct(zero.alias("upper"), zero.alias("lower"))
    total = F.aggregate(listed, start, add)
    lower = F.lpad(total["lower"].cast("string"), _LOWER_DIGITS, "0")
    return F.ltrim(F.concat(total["upper"].cast("string"), lower), F.lit("0"))


def _date(_name: str, _type: Type, _spec: SourceSpec, _table: str) -> FieldReader:
    """Read a date: an integer is days since 1970-01-01, anything else is ISO text."""

    def convert(column: Column) -> Column:
        """Return the date."""
        days = F.date_add(F.lit("1970-01-01").cast("date"), column.try_cast("int"))
        return F.when(column.rlike(WHOLE_NUMBER), days).otherwise(
            _unless_number(column).cast("date")
        )

    def is_broken(column: Column) -> Column:
        """Return whether a text or number is no date."""
        number = column.rlike(WHOLE_NUMBER)
        days = column.try_cast("int").isNull()
        return F.when(number, days).otherwise(column.try_cast("date").isNull())

    return FieldReader(st.StringType(), convert, is_broken)


def _unless_number(column: Column) -> Column:
    return F.when(~column.rlike(WHOLE_NUMBER), column)


def _ticks(column: Column, unit: str, what: str) -> Column:
    """Convert a number of `unit` to microseconds; fail if it is not a whole number of them."""
    times, by = PER_MICROSECOND[unit]
    number = column.cast("bigint")
    error = F.raise_error(
        F.lit(f"[VALUE_OUT_OF_RANGE] {what} has a value finer than a microsecond")
    )
    exact = (
        F.when(number.isNull() | (number % by == 0), number).otherwise(error.cast("bigint"))
        if by > 1
        else number
    )
    # The operator `/` would divide as doubles.
    return exact * times if by == 1 else F.call_function("div", exact, F.lit(by))


def _instant(name: str, type_: Type, spec: SourceSpec, table: str) -> FieldReader:
    """Read a timestamp without a zone or a time of day: a number of some unit, or ISO text."""
    what, target = f"column {name} of table {table}", to_spark(type_)
    unit = _encoding("times", spec.times, name, type_, table, "ms, us, ns for numbers, or text")

    def convert(column: Column) -> Column:
        """Convert a number of units, or ISO text."""
        if unit == "text":
            return column.cast(target)
        ticks = _ticks(column, unit, what)
        instant = (
            zoneless(ticks)
            if type_.kind == "precision_timestamp"
            else F.call_function("time_from_micros", ticks)
        )
        return instant.cast(target)

    def is_broken(column: Column) -> Column:
        """Return whether a value is no time."""
        if unit == "text":
            return column.try_cast(target).isNull()
        return _no_ticks(column, unit, day=type_.kind == "precision_time")

    return FieldReader(st.StringType(), convert, is_broken)


def _no_ticks(column: Column, unit: str, *, day: bool) -> Column:
    """Return whether a text is not a number of `unit` that is a whole number of microseconds.

    With `day`, a number outside of one day is also not valid.
    """
    times, by = PER_MICROSECOND[unit]
    number = column.try_cast("bigint")
    ticks = F.try_multiply(number, F.lit(times))
    broken = F.coalesce(number % by != 0, F.lit(True)) | ticks.isNull()
    return broken | ~ticks.between(0, 86_400_000_000 * by - 1) if day else broken


def _to_zoned(_name: str, type_: Type, _spec: SourceSpec, _table: str) -> FieldReader:
    target = to_spark(type_)
    return FieldReader(
        st.StringType(),
        lambda column: column.cast(target),
        lambda column: column.try_cast(target).isNull(),
    )


_SPECIAL: dict[str, Callable[[str, Type, SourceSpec, str], FieldReader]] = {
    "decimal": _decimal,
    "date": _date,
    "precision_timestamp": _instant,
    "precision_time": _instant,
    "precision_timestamp_tz": _to_zoned,
}
"""Type kind -> its reader, for types whose encoding must be declared or differs from plain JSON."""


MESSAGE_KEY = "key"
"""The column of Kafka message keys."""

UNAVAILABLE = "__debezium_unavailable_value"
"""Placeholder of Debezium for a large PostgreSQL value that an update did not change."""


def texts(events: DataFrame, value: str, keyed: UpsertSource | None) -> DataFrame:
    """Return the events as JSON texts ``t``, with `FILE` and `POSITION` if they are present.

    A tombstone whose message key contains the key of a row becomes a delete event. Any other
    tombstone has a null text. If envelope fields order the events, every tombstone has a null text,
    because it has no envelope.
    """
    text = F.col(value).cast("string")
    place = [F.col(name) for name in (FILE, POSITION) if name in events.columns]
    if keyed is None or keyed.paths or MESSAGE_KEY not in events.columns:
        return events.select(text.alias("t"), *place)
    key = F.col(MESSAGE_KEY).cast("string")
    inner = F.when(
        F.get_json_object(key, "$.schema").isNotNull(), F.get_json_object(key, "$.payload")
    ).otherwise(key)
    fault = F.when(
        F.json_object_keys(inner).isNotNull(),
        F.concat(F.lit('{"op":"d","before":'), inner, F.lit("}")),
    )
    return events.select(F.coalesce(text, fault).alias("t"), *place)


def order_fields(keyed: UpsertSource | None) -> list[st.StructField]:
    """Return the envelope fields that order events, all of type string."""
    fields: dict[str, list[str]] = {}
    for path in keyed.paths if keyed else ():
        block, _, name = path.rpartition(".")
        fields.setdefault(block or name, []).extend([name] if block else [])
    return [
        st.StructField(
            name,
            st.StructType([st.StructField(n, st.StringType()) for n in dict.fromkeys(inside)])
            if inside
            else st.StringType(),
        )
        for name, inside in fields.items()
    ]


def order_columns(keyed: UpsertSource | None) -> list[Column]:
    """Return the columns that order events.

    A value is null if it is missing, or if it is not a number and must be one.
    """
    if keyed is None:
        return []
    return [
        F.col(path).try_cast(type_).alias(name)
        for path, (name, type_) in zip(keyed.paths, order_types(keyed), strict=True)
    ]


def remove_key(origin: TableOrigin, keyed: UpsertSource, row: st.StructType) -> Column:
    """Return the removed key of an event as a row of weight -1 with null in all other columns.

    A delete removes its key. An update that changes the key removes the old key. For other events
    the result is null.
    """
    names = [origin.names[k] for k in keyed.keys]
    before, after = F.col("before"), F.col("after")
    complete = reduce(lambda a, b: a & b, (before.getField(n).isNotNull() for n in names))
    moved = reduce(
        lambda a, b: a | b, (~before.getField(n).eqNullSafe(after.getField(n)) for n in names)
    )
    other = (F.col("op") == "u") & F.coalesce(complete & moved, F.lit(False))
    parts = (
        (before.getField(f.name) if f.name in names else F.lit(None).cast(f.dataType)).alias(f.name)
        for f in row.fields
    )
    removed_row = F.struct(F.struct(*parts).alias("row"), F.lit(-1).cast("bigint").alias("weight"))
    return F.when((F.col("op") == "d") | other, removed_row)


def unavailable(row: Column, name: str) -> Column:
    """Return whether a row omits a column because it did not change; never null."""
    return F.coalesce(row.getField(name).cast("string") == UNAVAILABLE, F.lit(False))


def unchanged_columns(origin: TableOrigin, row: Column) -> list[Column]:
    """Return for each column of ``UpsertSource.partial`` whether the event omits it."""
    partial = origin.upsert.partial if origin.upsert else ()
    return [
        unavailable(row, origin.names[place]).alias(unchanged_column(i))
        for i, place in enumerate(partial)
    ]
