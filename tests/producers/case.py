"""A row of the table of producers, and the parts that plans of several producers share."""

from __future__ import annotations

from dataclasses import dataclass

from tests.producers.plans import (
    ARITHMETIC,
    BOOL,
    COMPARISON,
    DECIMALS,
    GENERIC,
    I64,
    STRINGS,
    Json,
    at,
    call,
    filtered,
    lit,
    measure,
    of,
    project,
    read,
)


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the table.

    Attributes:
        producer: as the table names it, with its releases where it matters.
        written: what it writes.
        read_as: how that is read.
        plan: a plan that has it.
        codes: what is reported about it in lenient mode, other than for the plan's other habits.
        types: of the result's columns; empty where the plan is refused.
        shown: texts in `explain` or in the messages that show the meaning where the types do not.
    """

    producer: str
    written: str
    read_as: str
    plan: Json | bytes
    codes: tuple[str, ...] = ()
    types: str = ""
    shown: tuple[str, ...] = ()


SUM, SUM_DECIMAL, COUNT = (ARITHMETIC, "sum:i64"), (DECIMALS, "sum:dec"), (GENERIC, "count:any")
MULTIPLY, UPPER = (ARITHMETIC, "multiply:i64_i64"), (STRINGS, "upper:str")
EQUAL, GT = (COMPARISON, "equal:any_any"), (COMPARISON, "gt:any_any")
LEAST, IS_NOT_NULL = (COMPARISON, "least:any"), (COMPARISON, "is_not_null:any")
COUNTED = of("i64", "NULLABILITY_REQUIRED")
SAMPLES = "plans/samples"


def square(output: Json | None = I64) -> Json:
    return call(1, at(1), at(1), output=output)


def named(name: str, column: Json) -> Json:
    source = read({"a": column})
    return {"read": {**source["read"], "namedTable": {"names": [name]}}}


def anti_join(column: Json) -> Json:
    return _anti_join(column, call(1, at(0), at(1), output=BOOL))


def null_aware_anti_join(column: Json) -> Json:
    """NOT IN by ``equal``, ``is_null`` and ``or``, the functions 1, 2 and 3."""
    equal = call(1, at(0), at(1), output=BOOL)
    is_null = call(2, equal, output=of("bool", "NULLABILITY_REQUIRED"))
    return _anti_join(column, call(3, equal, is_null, output=BOOL))


def _anti_join(column: Json, condition: Json) -> Json:
    sides = {"left": named("t", column), "right": named("u", column)}
    return {"join": {**sides, "expression": condition, "type": "JOIN_TYPE_LEFT_ANTI"}}


def crossed() -> Json:
    sides = {"left": named("t", I64), "right": named("u", I64)}
    join = {"join": {**sides, "expression": lit("boolean", True), "type": "JOIN_TYPE_INNER"}}
    return filtered(join, call(1, at(0), at(1), output=BOOL))


DIRECT = project(read(), square())
TOTAL = measure(2, at(2))
ROLLUP = ((0, 1), (0,), ())
