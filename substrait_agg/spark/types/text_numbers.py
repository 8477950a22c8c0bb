"""Parse the numbers of text files (CSV, JSON) from their texts, as DuckDB and PostgreSQL read them.

Spark's readers drop every comma of a decimal, so that ``1,5`` is 15, and read ``1d`` and ``0x1p3``
as floats. They are therefore asked for texts, which are parsed here. Texts may be parts of lists,
maps and structs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as st

_DIGITS = r"(?:[0-9]+{sign}?[0-9]*|{sign}[0-9]+)"
_NUMBER = rf"[+-]?{_DIGITS}(?:[eE][+-]?[0-9]+)?"
_NO_NUMBER = "[+-]?(?:[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)|[nN][aA][nN]"
_FLOATS = (st.FloatType, st.DoubleType)


@dataclass(frozen=True, slots=True)
class NumberTexts:
    """How a source writes numbers.

    Attributes:
        floats: whether floats are texts; else only decimals are.
        comma: whether a comma is the decimal sign.
        named: texts that are floats, with the floats as Spark casts them from text.
    """

    floats: bool
    comma: bool = False
    named: Sequence[tuple[str, str]] = ()

    def in_file(self, type_: st.DataType) -> st.DataType:
        """Return the type to read values of type `type_` with: a string for each number."""
        match type_:
            case st.ArrayType():
                return st.ArrayType(self.in_file(type_.elementType), type_.containsNull)
            case st.MapType():
                value = self.in_file(type_.valueType)
                return st.MapType(type_.keyType, value, type_.valueContainsNull)
            case st.StructType():
                return st.StructType(
                    [
                        st.StructField(f.name, self.in_file(f.dataType), f.nullable)
                        for f in type_.fields
                    ]
                )
        return st.StringType() if self._is_number(type_) else type_

    def parse(self, column: Column, type_: st.DataType) -> Column:
        """Return a column that was read as `in_file` says in its type; null for what is no number."""
        if self.in_file(type_) == type_:
            return column
        match type_:
            case st.ArrayType():
                return F.transform(column, lambda each: self.parse(each, type_.elementType))
            case st.MapType():
                return F.transform_values(
                    column, lambda _, value: self.parse(value, type_.valueType)
                )
            case st.StructType():
                parts = (
                    self.parse(column.getField(f.name), f.dataType).alias(f.name)
                    for f in type_.fields
                )
                return F.when(column.isNotNull(), F.struct(*parts))
        return self._number(column, type_)

    def unreadable(self, column: Column, type_: st.DataType) -> Column:
        """Return whether a text in a column that was read as `in_file` says is no number."""
        if self.in_file(type_) == type_:
            return F.lit(False)
        match type_:
            case st.ArrayType():
                broken = F.exists(column, lambda each: self.unreadable(each, type_.elementType))
            case st.MapType():
                broken = F.exists(
                    F.map_values(column), lambda each: self.unreadable(each, type_.valueType)
                )
            case st.StructType():
                parts = [self.unreadable(column.getField(f.name), f.dataType) for f in type_.fields]
                broken = reduce(lambda a, b: a | b, parts)
            case _:
                return column.isNotNull() & self._number(column, type_).isNull()
        return F.coalesce(broken, F.lit(False))

    def _is_number(self, type_: st.DataType) -> bool:
        return isinstance(type_, st.DecimalType) or (self.floats and isinstance(type_, _FLOATS))

    def _number(self, column: Column, type_: st.DataType) -> Column:
        is_float = isinstance(type_, _FLOATS)
        number = _NUMBER.format(sign="," if self.comma else r"\.")
        pattern = f"{number}|{_NO_NUMBER}" if is_float else number
        text = F.replace(column, F.lit(","), F.lit(".")) if self.comma else column
        value = F.when(column.rlike(f"^[ \\t]*(?:{pattern})[ \\t]*$"), text.try_cast(type_))
        for name, meaning in self.named if is_float else ():
            value = F.when(column == name, F.lit(meaning).cast(type_)).otherwise(value)
        return value
