"""Match the fields of structs in files with those of the plan, by name.

Expressions refer to the fields of a struct by position. Spark's readers of files find them by name,
so a column is read with the names of the files in the order of the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as st

from substrait_agg.errors import InputRefused
from substrait_agg.plan.types import Type, field_name, names_width
from substrait_agg.spark.types.schema import to_spark

_Part = tuple[str, Type, Sequence[str]]
"""A part of a nested type: its name (empty in lists and maps), its type, the names inside it."""


def struct_of(parts: Iterable[Column]) -> Column:
    """Return a struct of its fields, which are named by their positions."""
    return F.struct(*(part.alias(field_name(i)) for i, part in enumerate(parts)))


def in_plan_order(
    actual: st.DataType, type_: Type, names: Sequence[str], column: str
) -> st.DataType:
    """Return the type of a column in files, with the struct fields of the plan in their order.

    Args:
        actual: the type in a file.
        type_: the type in the plan.
        names: the names of the struct fields inside the column in the plan, depth first; empty if
            the plan has none. If no field has the name in the plan, the positions stay.
        column: what to call the column in a message.

    Raises:
        InputRefused: COLUMN_MISSING: a struct has some of the fields, but not all.
    """
    parts = list(_parts(type_, names))
    match actual:
        case st.ArrayType() if type_.kind == "list":
            ((_, element, inner),) = parts
            inner_actual = in_plan_order(actual.elementType, element, inner, column)
            return st.ArrayType(inner_actual, actual.containsNull)
        case st.MapType() if type_.kind == "map":
            key, value = (
                in_plan_order(inner_actual, part, inner, column)
                for inner_actual, (_, part, inner) in zip(
                    (actual.keyType, actual.valueType), parts, strict=True
                )
            )
            return st.MapType(key, value, actual.valueContainsNull)
        case st.StructType() if type_.kind == "struct" and names:
            return _struct_in_plan_order(actual, parts, column)
    return actual


def _struct_in_plan_order(
    actual: st.StructType, parts: Sequence[_Part], column: str
) -> st.StructType:
    places = [_place(name, actual.names) for name, *_ in parts]
    if all(place is None for place in places):
        return actual
    fields = []
    for place, (name, type_, inner) in zip(places, parts, strict=True):
        if place is None:
            raise _refuse_missing(column, [name], actual.names)
        field = actual.fields[place]
        read = in_plan_order(field.dataType, type_, inner, f"{column}.{name}")
        fields.append(st.StructField(field.name, read, field.nullable))
    return st.StructType(fields)


def json_type(
    type_: Type, names: Sequence[str], actual: st.DataType | None, column: str
) -> st.DataType:
    """Return the type to parse the values of a JSON column with.

    A struct has the names of the plan, spelled as in the files. The names ``f0``, ``f1``, ... are
    read where no field has the name in the plan.

    Args:
        type_: the type in the plan.
        names: as for `in_plan_order`.
        actual: the type that Spark infers from files; None if there is no file.
        column: what to call the column in a message.

    Raises:
        InputRefused: COLUMN_MISSING: the files have a struct with other fields only.
    """
    parts = list(_parts(type_, names))
    if type_.kind == "list":
        ((_, element, inner),) = parts
        inner_actual = actual.elementType if isinstance(actual, st.ArrayType) else None
        return st.ArrayType(json_type(element, inner, inner_actual, column), element.nullable)
    if type_.kind == "map":
        _, value, inner = parts[1]
        key = to_spark(type_.children[0])
        return st.MapType(key, json_type(value, inner, None, column), value.nullable)
    if type_.kind != "struct":
        return to_spark(type_)
    actual_fields = actual.fields if isinstance(actual, st.StructType) else []
    spelled = [field.name for field in actual_fields]
    fields = []
    for name, (_, part, inner) in zip(_keys(parts, spelled, column), parts, strict=True):
        place = _place(name, spelled)
        inner_actual = None if place is None else actual_fields[place].dataType
        spelling = name if place is None else spelled[place]
        fields.append(
            st.StructField(spelling, json_type(part, inner, inner_actual, f"{column}.{name}"))
        )
    return st.StructType(fields)


def _keys(parts: Sequence[_Part], spelled: Sequence[str], column: str) -> list[str]:
    """Return the names of the fields of a struct in JSON files that have the names `spelled`."""
    by_position = list(map(field_name, range(len(parts))))
    planned = [name for name, *_ in parts] if all(name for name, *_ in parts) else by_position
    for names in (planned, by_position):
        if not spelled or any(_place(name, spelled) is not None for name in names):
            return names
    raise _refuse_missing(column, planned, spelled)


def _parts(type_: Type, names: Sequence[str]) -> list[_Part]:
    """Return the parts of a nested type; without `names`, the fields of structs have no names."""
    parts: list[_Part] = []
    end = 0
    for child in type_.children:
        start = end + (type_.kind == "struct")
        end = start + names_width(child) - 1
        own = names[start - 1] if names and type_.kind == "struct" else ""
        parts.append((own, child, names[start:end]))
    return parts


def _place(name: str, spelled: Sequence[str]) -> int | None:
    """Return the ordinal of a field, exactly or as the only one that differs in case alone."""
    exact = [i for i, other in enumerate(spelled) if other == name]
    places = exact or [i for i, other in enumerate(spelled) if other.lower() == name.lower()]
    return places[0] if len(places) == 1 else None


def _refuse_missing(column: str, names: Sequence[str], spelled: Sequence[str]) -> InputRefused:
    return InputRefused(
        "COLUMN_MISSING",
        f"the struct {column} has no field {' or '.join(names)} in the source (its fields: {', '.join(spelled)})",
        help="give a source with these fields, or write the plan for the fields of the source",
    )
