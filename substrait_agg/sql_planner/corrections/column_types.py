"""Follow the Arrow types of tables through a plan. Types in a plan have no names of fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from substrait_agg.sql_planner.corrections.functions import Functions
from substrait_agg.sql_planner.corrections.messages import messages, outermost

ValueType: TypeAlias = "pa.DataType | None"
"""The type of a column or a value; None if it is not known."""

TypeOf = Callable[[Any], ValueType]
"""Returns the type of an expression over the columns of one relation."""

Correction = Callable[[Any, TypeOf], None]
"""Corrects an expression."""

Tables = Mapping[tuple[str, ...], pa.Schema]
"""Name of a table as in the plan -> its columns."""

CONSTRUCTORS = frozenset({"struct", "named_struct"})
"""Functions that make a struct of their arguments."""

_OF_ARGUMENT = frozenset(
    {
        "first_value", "last_value", "nth_value", "min", "max", "lag", "lead", "coalesce", "nullif",
    }
)  # fmt: skip
"""Functions whose result has the type of their first argument."""

_ONE_SIDE: Mapping[str, tuple[int, Sequence[None]]] = {
    "JOIN_TYPE_LEFT_SEMI": (0, ()),
    "JOIN_TYPE_LEFT_ANTI": (0, ()),
    "JOIN_TYPE_LEFT_MARK": (0, (None,)),
    "JOIN_TYPE_RIGHT_SEMI": (1, ()),
    "JOIN_TYPE_RIGHT_ANTI": (1, ()),
    "JOIN_TYPE_RIGHT_MARK": (1, (None,)),
}
"""Join with the columns of one input -> which, and the columns behind them."""


def constructor_fields(name: str, arguments: Sequence[Any]) -> list[str]:
    """Return the names of the fields of a struct that a function makes of its arguments."""
    if name == "struct":
        return [f"c{i}" for i in range(len(arguments))]
    return [argument.literal.string for argument in arguments[::2]]


class TypedCorrection:
    """A correction of all expressions of a plan that needs the types of their parts.

    Args:
        tables: the tables of the plan.
        functions: the functions of the plan.
        correct: the correction. It gets inner expressions first.
    """

    def __init__(self, tables: Tables, functions: Functions, correct: Correction) -> None:
        self._tables, self._functions, self._correct = tables, functions, correct

    def apply(self, relation: Any) -> list[ValueType]:
        """Correct the expressions in a relation; return the types of its columns."""
        kind = relation.WhichOneof("rel_type")
        body = getattr(relation, kind)
        inputs = [self.apply(inner) for inner in outermost(body, "substrait.Rel")]
        if kind == "read":
            inputs = [self._of_table(body)]
        row = [type_ for columns in inputs for type_ in columns]

        def type_of(expression: Any) -> ValueType:
            return self._type(expression, row)

        of_relation = messages(body, "substrait.Expression", outside="substrait.Rel")
        for expression in reversed(list(of_relation)):
            self._correct(expression, type_of)
        columns = self._columns(kind, body, inputs, type_of)
        if body.common.HasField("emit"):
            return [_at(columns, i) for i in body.common.emit.output_mapping]
        return columns

    def _columns(
        self, kind: str, body: Any, inputs: Sequence[list[ValueType]], type_of: TypeOf
    ) -> list[ValueType]:
        """Return the types of the columns of a relation without its output mapping."""
        row = [type_ for columns in inputs for type_ in columns]
        if kind == "read" and body.HasField("projection"):
            return [_at(row, item.field) for item in body.projection.select.struct_items]
        if kind == "project":
            return [*row, *map(type_of, body.expressions)]
        if kind == "aggregate":
            return [*self._of_aggregate(body, type_of)]
        if kind == "set":
            return inputs[0]
        if kind == "join":
            side, behind = _ONE_SIDE.get(body.JoinType.Name(body.type), (None, ()))
            return row if side is None else [*inputs[side], *behind]
        return row

    def _of_table(self, read: Any) -> list[ValueType]:
        table = self._tables.get(tuple(read.named_table.names))
        if table is None:
            return [None] * len(read.base_schema.struct.types)
        return list(table.types)

    def _of_aggregate(self, aggregate: Any, type_of: TypeOf) -> Iterator[ValueType]:
        keys = [type_of(expression) for expression in aggregate.grouping_expressions]
        if len(aggregate.groupings) == 1:
            keys = [keys[i] for i in aggregate.groupings[0].expression_references]
        yield from keys
        if len(aggregate.groupings) > 1:
            yield None  # the grouping set
        for measure in aggregate.measures:
            call = measure.measure
            yield self._of_call(self._functions.name(call), call.arguments, type_of)

    def _type(self, expression: Any, row: Sequence[ValueType]) -> ValueType:
        def type_of(inner: Any) -> ValueType:
            return self._type(inner, row)

        kind = expression.WhichOneof("rex_type")
        if kind == "selection":
            return _of_reference(expression.selection, row, type_of)
        if kind in ("scalar_function", "window_function"):
            call = getattr(expression, kind)
            return self._of_call(self._functions.name(call), call.arguments, type_of)
        if kind == "if_then":
            clauses = expression.if_then.ifs
            return _first(
                type_of, [*(c.then for c in clauses), getattr(expression.if_then, "else")]
            )
        return None

    def _of_call(self, name: str, arguments: Any, type_of: TypeOf) -> ValueType:
        values = [argument.value for argument in arguments]
        if name in CONSTRUCTORS:
            parts = values if name == "struct" else values[1::2]
            fields = zip(constructor_fields(name, values), map(type_of, parts), strict=True)
            return pa.struct([(field, type_ or pa.null()) for field, type_ in fields])
        if name in ("make_array", "array_agg"):
            element = _first(type_of, values)
            return None if element is None else pa.list_(element)
        if name in _OF_ARGUMENT:
            return _first(type_of, values)
        reads = name in ("get_field", "array_element") and len(values) == 2
        outer = type_of(values[0]) if reads else None
        if outer is not None and pa.types.is_map(outer):
            return outer.item_type
        return outer.value_type if outer is not None and pa.types.is_list(outer) else None


def _at(types: Sequence[ValueType], place: int) -> ValueType:
    return types[place] if place < len(types) else None


def _first(type_of: TypeOf, values: Sequence[Any]) -> ValueType:
    """Return the first type of some values that is known. DataFusion converts values to one type."""
    return next((type_ for type_ in map(type_of, values) if type_ is not None), None)


def _of_reference(reference: Any, row: Sequence[ValueType], type_of: TypeOf) -> ValueType:
    """Return the type of the value to which a reference leads."""
    segment = reference.direct_reference
    if reference.HasField("expression"):
        type_ = type_of(reference.expression)
    elif reference.HasField("root_reference"):
        type_ = _at(row, segment.struct_field.field)
        segment = segment.struct_field.child
    else:
        return None
    while segment.HasField("struct_field"):
        if type_ is None or not pa.types.is_struct(type_):
            return None
        type_ = type_.field(segment.struct_field.field).type
        segment = segment.struct_field.child
    return type_
