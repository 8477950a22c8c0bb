"""Write the query by which a SQL engine computes the checksum of a view.

The texts of values are those of `row_text.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from substrait_agg.commit.checksums.row_text import NOT_A_NUMBER, SEPARATOR
from substrait_agg.commit.checksums.sums import MODULUS
from substrait_agg.errors import UsageError, checked_choice


@dataclass(frozen=True, slots=True)
class _Dialect:
    """How an engine writes the text of a value.

    Attributes:
        quote: the mark around names.
        text: its type of texts.
        number: a template of the first 60 bits of an MD5 as a number.
        fields: a template of a field of a struct.
        templates: per kind of type the text of a value ``{e}``; ``{inner}`` is the text of an element ``{v}``.
    """

    quote: str
    text: str
    number: str
    fields: str
    templates: Mapping[str, str] = field(default_factory=dict)


_DUCKDB = _Dialect(
    quote='"',
    text="VARCHAR",
    number="CAST('0x' || substr({md5}, 1, 15) AS BIGINT)",
    fields="struct_extract({e}, {literal})",
    templates={
        "float": "CAST(CAST(CAST({e} AS DOUBLE) AS BIT) AS BIGINT)",
        "decimal": "regexp_replace(CAST({e} AS VARCHAR), '^(-?)\\.', '\\10.')",
        "string": "strlen({e}) || ':' || {e}",
        "binary": "'x' || lower(hex({e}))",
        "date": "{e} - DATE '1970-01-01'",
        "time": "epoch_us({e})",
        "timestamp": "epoch_us({e})",
        "timestamp_ns": "epoch_ns({e})",
        "duration": "epoch_us({e})",
        "list": "len({e}) || '[' || array_to_string(list_transform({e}, lambda {v}: {inner}), ',') || ']'",
        "map": "cardinality({e}) || '{{' || array_to_string(list_sort("
        "list_transform(map_entries({e}), lambda {v}: {inner})), ',') || '}}'",
    },
)
_HEX = "format_string('%a', abs(CAST({e} AS DOUBLE)))"
_SPARK_BITS = (
    "(CASE WHEN {e} < 0 THEN CAST('-9223372036854775808' AS BIGINT) ELSE 0L END"
    f" + CASE WHEN {_HEX} = 'Infinity' THEN 2047L WHEN startswith({_HEX}, '0x1')"
    f" THEN CAST(split_part({_HEX}, 'p', 2) AS BIGINT) + 1023 ELSE 0L END * 4503599627370496"
    f" + CAST(conv(rpad(split_part(split_part({_HEX}, '.', 2), 'p', 1), 13, '0'), 16, 10) AS BIGINT))"
)
"""The bits of a float, from its text such as 0x1.8p-1: Spark has no function for them that lists can use."""
_SPARK = _Dialect(
    quote="`",
    text="STRING",
    number="CAST(conv(substr({md5}, 1, 15), 16, 10) AS DECIMAL(20, 0))",
    fields="{e}.{name}",
    templates={
        "float": _SPARK_BITS,
        "decimal": "CAST({e} AS STRING)",
        "string": "octet_length({e}) || ':' || {e}",
        "binary": "'x' || lower(hex({e}))",
        "date": "unix_date({e})",
        "timestamp": "unix_micros(CAST({e} AS TIMESTAMP))",
        "duration": "(((extract(DAY FROM {e}) * 24L + extract(HOUR FROM {e})) * 60 + extract(MINUTE FROM {e})) * 60000000"
        " + CAST(extract(SECOND FROM {e}) * 1000000 AS BIGINT))",
        "list": "size({e}) || '[' || array_join(transform({e}, {v} -> {inner}), ',') || ']'",
        "map": "size({e}) || '{{' || array_join(array_sort("
        "transform(map_entries({e}), {v} -> {inner})), ',') || '}}'",
    },
)
_DIALECTS = {"duckdb": _DUCKDB, "spark": _SPARK}

_KINDS: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("plain", pa.types.is_boolean),
    ("plain", pa.types.is_integer),
    ("decimal", pa.types.is_decimal),
    ("string", pa.types.is_string),
    ("float", pa.types.is_floating),
    ("date", pa.types.is_date),
    ("timestamp_ns", lambda t: bool(pa.types.is_timestamp(t) and t.unit == "ns")),
    ("timestamp", pa.types.is_timestamp),
    ("duration", lambda t: bool(pa.types.is_duration(t) and t.unit == "us")),
    ("time", pa.types.is_time),
    ("binary", pa.types.is_binary),
    ("list", pa.types.is_list),
    ("map", pa.types.is_map),
    ("struct", pa.types.is_struct),
)


def checksum_query(schema: pa.Schema, engine: str, table: str) -> str:
    """Return the query that computes the checksum of rows.

    Args:
        schema: the columns of the view.
        engine: ``duckdb`` or ``spark``.
        table: the table in the engine, as the query writes it.

    Raises:
        UsageError: OPTION_INVALID for an unknown engine, or a column that the engine has no type for.
    """
    dialect = _DIALECTS[checked_choice(engine, tuple(_DIALECTS), "engine")]
    writer = _QueryWriter(dialect, engine)
    texts = (writer.value(f.type, writer.quoted(f.name)) for f in schema)
    md5 = f"md5(concat_ws('{SEPARATOR}',\n  " + ",\n  ".join(texts) + "))"
    number = dialect.number.format(md5=md5)
    hashes = f"SELECT {number} AS hash\nFROM {table}"
    return f"SELECT coalesce(sum(hash), 0) % {MODULUS} AS checksum FROM (\n{hashes}\n) AS hashes"


class _QueryWriter:
    """Writes the texts of values in one dialect."""

    def __init__(self, dialect: _Dialect, engine: str) -> None:
        self._dialect, self._engine = dialect, engine

    def quoted(self, name: str) -> str:
        """Return a name in quotation marks."""
        mark = self._dialect.quote
        return mark + name.replace(mark, 2 * mark) + mark

    def value(self, type_: pa.DataType, expression: str, depth: int = 0) -> str:
        """Return the text of a value; that of a null is empty."""
        kind = next(name for name, fits in _KINDS if fits(type_))
        written = f"CAST({self._write(kind, type_, expression, depth)} AS {self._dialect.text})"
        if kind == "float":
            written = f"CASE WHEN {expression} = 0 THEN '0' WHEN isnan({expression}) THEN '{NOT_A_NUMBER}' ELSE {written} END"
        if kind in ("float", "struct"):
            return f"CASE WHEN {expression} IS NULL THEN '' ELSE {written} END"
        return f"coalesce({written}, '')"

    def _write(self, kind: str, type_: pa.DataType, expression: str, depth: int) -> str:
        if kind == "plain":
            return expression
        if kind == "struct":
            fields = ", ".join(
                self.value(part.type, self._field(expression, part.name), depth) for part in type_
            )
            return f"'(' || concat_ws('{SEPARATOR}', {fields}) || ')'"
        template = self._dialect.templates.get(kind)
        if template is None:
            raise UsageError(
                "OPTION_INVALID",
                f"{self._engine} has no type for a column of {type_}",
                help="compute the checksum with another engine",
                path="engine",
            )
        variable, inner = f"v{depth}", ""
        if kind == "list":
            inner = self.value(type_.value_type, variable, depth + 1)
        elif kind == "map":
            names = ("key", type_.key_type), ("value", type_.item_type)
            parts = (self.value(t, self._field(variable, name), depth + 1) for name, t in names)
            inner = " || '=' || ".join(parts)
        return template.format(e=expression, v=variable, inner=inner)

    def _field(self, expression: str, name: str) -> str:
        literal = "'" + name.replace("'", "''") + "'"
        return self._dialect.fields.format(e=expression, name=self.quoted(name), literal=literal)
