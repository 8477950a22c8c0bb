"""Generators of Spark, which make rows of lists, as projections with the elements of a list."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from substrait_agg.functions.spark_sql import SPARK_URN, UNNEST
from substrait_agg.spark.catalyst.analyzed.refusals import Refusal
from substrait_agg.spark.catalyst.analyzed.tree import OutputColumn, SparkTree
from substrait_agg.spark.catalyst.translation.scope import Scope, emit_only, field_reference
from substrait_agg.spark.catalyst.translation.types import (
    ColumnOf,
    Relation,
    SparkType,
    Typed,
    type_of,
)


@dataclass(frozen=True)
class _List:
    """A list whose elements become rows.

    Attributes:
        text: SQL of the list over ``c0``, ``c1``, ...
        values: what these stand for.
        plain: whether an element is the only new column; else its fields are the new columns.
    """

    text: str
    values: tuple[Typed, ...]
    plain: bool = False


def unnest(tree: SparkTree, below: Relation, scope: Scope) -> Relation:
    """Return the rows of a relation once per row that a generator makes of them.

    Raises:
        Refusal: a generator that has no list.
    """
    generator = tree.fields["generator"]
    make = _LISTS.get(generator.kind)
    if make is None:
        raise Refusal(
            "relation",
            f"{generator.name} cannot be maintained as a table function",
            "write it with explode, posexplode, inline or stack",
            generator.start,
            generator.stop,
        )
    elements = make(scope, generator)
    columns = [
        OutputColumn(c.id, c.fields["name"], c.type, True) for c in tree.fields["generatorOutput"]
    ]
    element = type_of(columns[0].type) if elements.plain else _struct(columns)
    text = elements.text
    if tree.fields["outer"]:
        text = f"CASE WHEN cardinality({text}) > 0 THEN {text} ELSE array(get({text}, -1)) END"
    return _rows(tree, below, scope, _List(text, elements.values, elements.plain), element)


def _rows(
    tree: SparkTree, below: Relation, scope: Scope, elements: _List, element: SparkType
) -> Relation:
    others = [c for c in below.columns if any(c.id == o.id for o in tree.output)]
    references = [scope.columns[c.id] for c in others]
    call = scope.call(SPARK_URN, UNNEST, (_compute_list(scope, elements, element),), element)
    project = emit_only(below, [*references, call])
    generated = tree.fields["generatorOutput"]
    if elements.plain:
        new = ColumnOf(generated[0].id, generated[0].fields["name"], element)
        return Relation(project, (*others, new))
    return _fields(Relation(project, (*others, ColumnOf(-1, "", element))), generated)


def _fields(below: Relation, generated: Sequence[SparkTree]) -> Relation:
    """Return a relation with the fields of its last column in place of it."""
    *others, _ = below.columns
    new = [ColumnOf(c.id, c.fields["name"], type_of(c.type)) for c in generated]
    values = [field_reference(i, c.type) for i, c in enumerate(others)]
    for place, column in enumerate(new):
        step = {"structField": {"field": len(others), "child": {"structField": {"field": place}}}}
        message = {"selection": {"directReference": step, "rootReference": {}}}
        values.append(Typed(message, column.type))
    return Relation(emit_only(below, values), (*others, *new))


def _compute_list(scope: Scope, elements: _List, element: SparkType) -> Typed:
    text = Typed({"literal": {"string": elements.text}}, SparkType("string", nullable=False))
    array = {"type": "array", "elementType": element.nested or element.name, "containsNull": True}
    return scope.by_text((text, *elements.values), SparkType(json.dumps(array)))


def _struct(columns: Sequence[OutputColumn]) -> SparkType:
    fields = [{"name": c.name, "type": c.type, "nullable": True} for c in columns]
    return type_of({"type": "struct", "fields": fields})


def _explode(scope: Scope, tree: SparkTree, *, position: bool) -> _List:
    """Return the list of an array or a map, with the positions of its elements if they are wanted."""
    (child,) = tree.children
    value = scope.translate(child)
    nested: dict[str, Any] = value.type.nested or {}
    if nested.get("type") == "map":
        if not position:
            return _List("map_entries(c0)", (value,))
        fields = "named_struct('pos', i, 'key', x.key, 'value', x.value)"
        return _List(f"transform(map_entries(c0), (x, i) -> {fields})", (value,))
    if not position:
        return _List("c0", (value,), plain=True)
    return _List("transform(c0, (x, i) -> named_struct('pos', i, 'col', x))", (value,))


def _inline(scope: Scope, tree: SparkTree) -> _List:
    return _List("c0", (scope.translate(tree.children[0]),))


def _stack(scope: Scope, tree: SparkTree) -> _List:
    """Return the rows that `stack` makes of its values; the last row may lack some."""
    number, *values = tree.children
    rows = int(number.fields["value"])
    width = -(-len(values) // rows)
    typed = tuple(scope.translate(value) for value in values)
    names = [f"c{i}" for i in range(len(values))] + ["NULL"] * (rows * width - len(values))
    structs = [
        "named_struct(" + ", ".join(f"'col{i}', {n}" for i, n in enumerate(names[r * width : (r + 1) * width])) + ")"
        for r in range(rows)
    ]  # fmt: skip
    return _List(f"array({', '.join(structs)})", typed)


def _json_tuple(scope: Scope, tree: SparkTree) -> _List:
    """Return the one row with some fields of an object in JSON.

    `get_json_object` has the first value of a field that is there twice, `json_tuple` the last one.
    """
    values = tuple(scope.translate(child) for child in tree.children)
    fields = ", ".join(f"'c{i}', {_field_text(f'c{i + 1}')}" for i in range(len(values) - 1))
    return _List(f"array(named_struct({fields}))", values)


def _variant(scope: Scope, tree: SparkTree) -> _List:
    """Return the fields or elements of a variant."""
    fields = "named_struct('pos', x.pos, 'key', x.key, 'value', parts_of_variant(x.value))"
    text = f"transform(rows_of_variant(variant_of_parts(c0)), x -> {fields})"
    return _List(text, (scope.translate(tree.children[0]),))


def _field_text(name: str) -> str:
    read = "map_entries(from_json(c0, 'MAP<STRING, STRING>'))"
    same = f"filter({read}, e -> e.key = {name} AND e.value IS NOT NULL)"
    last = f"get(reverse({same}), 0).value"
    nested = f"IF(left({last}, 1) IN ('[', '{{'), get_json_object({last}, '$'), NULL)"
    return (
        f"""CASE WHEN {name} RLIKE "^[^'?*]+$" AND coalesce(cardinality({same}), 0) < 2 """
        f"""THEN get_json_object(c0, concat("$['", {name}, "']")) ELSE coalesce({nested}, {last}) END"""
    )


def long_range(below: Relation, scope: Scope, numbers: range) -> dict[str, Any]:
    """Return the rows of a relation once per number of a long range, which is two lists of numbers."""
    long, step, last = SparkType("long", nullable=False), numbers.step * _NUMBERS, numbers[-1]
    firsts = _List(f"sequence({numbers[0]}L, {last}L, {step}L)", ())
    end = f"{'least' if step > 0 else 'greatest'}(c0 + {step - numbers.step}L, {last}L)"
    rest = _List(f"sequence(c0, {end}, {numbers.step}L)", (field_reference(0, long),))
    for elements in (firsts, rest):
        call = scope.call(SPARK_URN, UNNEST, (_compute_list(scope, elements, long),), long)
        below = Relation(emit_only(below, [call]), (ColumnOf(-1, "", long),))
    return below.message


_NUMBERS = 10_000
"""Numbers of a list in a long range."""

_LISTS: Mapping[str, Callable[[Scope, SparkTree], _List]] = {
    "Explode": partial(_explode, position=False),
    "Inline": _inline,
    "JsonTuple": _json_tuple,
    "PosExplode": partial(_explode, position=True),
    "Stack": _stack,
    "VariantExplode": _variant,
}
"""Class of a generator in Spark -> the list that it makes rows of."""
