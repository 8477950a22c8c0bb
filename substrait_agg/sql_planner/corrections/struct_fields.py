"""Read the fields of structs by their positions; DataFusion calls functions with their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from substrait import algebra_pb2

from substrait_agg.sql_planner.corrections.functions import Functions
from substrait_agg.sql_planner.corrections.messages import messages
from substrait_agg.sql_planner.query.windows import BOUNDS, FIELDS

_CONSTRUCTORS = frozenset({"struct", "named_struct"})


def field_places(
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
        if name in _CONSTRUCTORS:
            structs.append(_constructor_fields(name, [a.value for a in call.arguments]))
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


def _constructor_fields(name: str, arguments: Sequence[Any]) -> list[str]:
    """Return the names of the fields of a struct that a function makes of its arguments."""
    if name == "struct":
        return [f"c{i}" for i in range(len(arguments))]
    return [argument.literal.string for argument in arguments[::2]]


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


def read_field(
    expression: Any, field_places: Mapping[str, int | None], functions: Functions
) -> None:
    """Replace a call that reads fields of a struct, or a bound of a window.

    Args:
        expression: a call of ``get_field`` or of a function of `BOUNDS`; it is changed.
        field_places: what `field_places` returns.
        functions: the functions of the plan.
    """
    name = functions.scalar(expression)
    if _read_bound(expression, name, functions):
        return
    value, *keys = (a.value for a in expression.scalar_function.arguments)
    places = [BOUNDS[name]] if name in BOUNDS else []
    for key in keys:
        text = key.literal.string
        part = None if places else _part(value, text, functions)
        if part is not None:
            value = part
            continue
        field_place = field_places.get(text)
        if field_place is None:
            return  # a key of a map, or a field of an unknown place
        places.append(field_place)
    corrected_value = algebra_pb2.Expression()
    corrected_value.CopyFrom(value)
    if places:
        _select(corrected_value, places)
    expression.CopyFrom(corrected_value)


def _part(value: Any, text: str, functions: Functions) -> Any | None:
    """Return the argument of a constructor that is its field of a name, None if `value` is no constructor."""
    constructor = functions.scalar(value)
    if constructor not in _CONSTRUCTORS:
        return None
    arguments = [a.value for a in value.scalar_function.arguments]
    own = _constructor_fields(constructor, arguments)
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
