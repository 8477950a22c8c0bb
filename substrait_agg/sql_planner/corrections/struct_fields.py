"""Read the fields of structs by their positions; DataFusion calls functions with their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from substrait import algebra_pb2

from substrait_agg.sql_planner.corrections.column_types import (
    CONSTRUCTORS,
    Tables,
    TypedCorrection,
    TypeOf,
    ValueType,
    constructor_fields,
)
from substrait_agg.sql_planner.corrections.functions import Functions
from substrait_agg.sql_planner.corrections.messages import messages
from substrait_agg.sql_planner.query.windows import BOUNDS, FIELDS


def read_fields(plan: Any, tables: Tables, functions: Functions) -> None:
    """Replace the calls in a plan that read fields of structs, or bounds of windows."""
    calls = {functions.name(c) for c in messages(plan, "substrait.Expression.ScalarFunction")}
    if calls.isdisjoint(("get_field", *BOUNDS)):
        return
    places = _field_places(plan, tables.values(), functions)

    def correct(expression: Any, type_of: TypeOf) -> None:
        name = functions.scalar(expression)
        if (name == "get_field" or name in BOUNDS) and not _read_bound(expression, name, functions):
            _read_field(expression, type_of, places, functions)

    correction = TypedCorrection(tables, functions, correct)
    for root in plan.relations:
        correction.apply(root.root.input)


def _field_places(
    plan: Any, schemas: Iterable[pa.Schema], functions: Functions
) -> Mapping[str, int | None]:
    """Return the position of each field of the structs that a query can have.

    A field is not in the result, or has no position, if it has several: the plan does not say of which
    struct a field is read.
    """
    if any(
        literal.HasField("struct") for literal in messages(plan, "substrait.Expression.Literal")
    ):
        return {}  # a constant of unknown names
    structs = [list(FIELDS)]
    for call in messages(plan, "substrait.Expression.ScalarFunction"):
        name = functions.name(call)
        if name in CONSTRUCTORS:
            structs.append(constructor_fields(name, [a.value for a in call.arguments]))
    for schema in schemas:
        structs.extend(_struct_names(schema.types))
    places: dict[str, int | None] = {}
    for fields in structs:
        for place, name in enumerate(fields):
            first = places.setdefault(name, place)
            places[name] = place if first == place else None
    return places


def _struct_names(types: Sequence[pa.DataType]) -> Iterator[list[str]]:
    """Yield the names of the fields of each struct in some types."""
    for type_ in types:
        inner = [type_.field(i) for i in range(type_.num_fields)]
        if pa.types.is_struct(type_):
            yield [field.name for field in inner]
        yield from _struct_names([field.type for field in inner])


def _read_bound(expression: Any, name: str, functions: Functions) -> bool:
    """Replace a bound of a tumbling window by its function. Return whether the call was a bound."""
    arguments = [a.value for a in expression.scalar_function.arguments]
    if functions.scalar(arguments[0]) != "tumble":
        return False
    key = arguments[1].literal.string if len(arguments) == 2 else name.removeprefix("window_")
    if key not in FIELDS:
        return False
    inner = [argument.value for argument in arguments[0].scalar_function.arguments]
    expression.CopyFrom(functions.call(f"tumble_{key}", *inner))
    return True


def _read_field(
    expression: Any, type_of: TypeOf, places: Mapping[str, int | None], functions: Functions
) -> None:
    """Replace a call of ``get_field`` or of a function of `BOUNDS`.

    Args:
        expression: the call; it is changed, unless it reads a map or a field of an unknown position.
        type_of: returns the type of a value.
        places: what `_field_places` returns.
        functions: the functions of the plan.
    """
    name = functions.scalar(expression)
    value, *keys = (a.value for a in expression.scalar_function.arguments)
    type_ = type_of(value)
    steps = [BOUNDS[name]] if name in BOUNDS else []
    for key in keys:
        text = key.literal.string
        part = None if steps else _part(value, text, functions)
        if part is not None:
            value, type_ = part, type_of(part)
            continue
        place = _place(type_, text, places)
        if place is None:
            return
        steps.append(place)
        type_ = type_.field(place).type if type_ is not None and pa.types.is_struct(type_) else None
    corrected_value = algebra_pb2.Expression()
    corrected_value.CopyFrom(value)
    if steps:
        _select(corrected_value, steps)
    expression.CopyFrom(corrected_value)


def _place(type_: ValueType, name: str, places: Mapping[str, int | None]) -> int | None:
    """Return the position of a field in values of a type, None if it is not known or there is none."""
    if type_ is None or pa.types.is_null(type_):
        return places.get(name)
    place = type_.get_field_index(name) if pa.types.is_struct(type_) else -1
    return place if place >= 0 else None


def _part(value: Any, text: str, functions: Functions) -> Any | None:
    """Return the argument of a constructor that is its field of a name, None if `value` is no constructor."""
    constructor = functions.scalar(value)
    if constructor not in CONSTRUCTORS:
        return None
    arguments = [a.value for a in value.scalar_function.arguments]
    own = constructor_fields(constructor, arguments)
    step = len(arguments) // len(own)
    return arguments[own.index(text) * step + step - 1] if text in own else None


def _select(expression: Any, places: Sequence[int]) -> None:
    """Read a field inside the value of an expression, given by its positions from outside inwards."""
    reference = algebra_pb2.Expression.FieldReference()
    if expression.HasField("selection"):
        reference.CopyFrom(expression.selection)
    else:
        reference.expression.CopyFrom(expression)
    segment = reference.direct_reference
    while segment.HasField("struct_field") and segment.struct_field.HasField("child"):
        segment = segment.struct_field.child
    for place in places:
        segment = segment.struct_field.child if segment.HasField("struct_field") else segment
        segment.struct_field.field = place
    expression.selection.CopyFrom(reference)
