"""Standard scalar functions on Spark against Python: edge values, as constants and in columns, in few Spark jobs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from substrait_agg.bind.bound import Call, Column, Constant, Expr
from substrait_agg.functions.scalars.catalogue import SCALARS
from substrait_agg.plan.types import Type
from tests.conformance.evaluating import Comparison, Failed, evaluate, interpreted
from tests.spark.evaluating import over_rows
from tests.spark.samples import FAILS, Sample
from tests.spark.samples_numbers import intervals, lists, logarithms, roundings
from tests.spark.samples_texts import cases, patterns, slices, texts
from tests.spark.samples_times import (
    components,
    formats,
    odd_roundings,
    parsed,
    rounded_clocks,
    rounded_times,
    zones,
)

GROUPS = {
    "logarithms": logarithms, "roundings": roundings, "intervals": intervals, "texts": texts, "slices": slices,
    "cases": cases, "patterns": patterns, "lists": lists, "formats": formats, "parsed": parsed, "zones": zones,
    "components": components, "rounded times": rounded_times, "odd roundings": odd_roundings, "rounded clocks": rounded_clocks,
}  # fmt: skip


def same(found: Any, wanted: Any) -> bool:
    if isinstance(found, Failed):
        return bool(wanted == FAILS)
    if isinstance(wanted, float) and isinstance(found, float):
        both_nan = math.isnan(found) and math.isnan(wanted)
        return both_nan or found == wanted or math.isclose(found, wanted, rel_tol=4e-16)
    return bool(found == wanted) and (found is None) == (wanted is None)


CONSTANT = {"strftime": (1,), "strptime_date": (1,), "strptime_time": (1, 2), "like": (2,)}
"""Function -> arguments that must be constants."""

ALL = 8
"""Samples of a group that run as constants as well; of a larger group as many of all."""


MANY = 16
"""Expressions of a group that all run in `make test`; of more, one of `STEP` per type of the first argument."""
STEP = 3

CELLS = 300
"""Rows times expressions of one job over rows."""


def moved(expression: Expr, held: list[Constant]) -> Expr:
    """The expression with its constants in columns, but for those that must be constants."""
    if isinstance(expression, Constant):
        held.append(expression)
        return Column(expression.type, len(held) - 1)
    if not isinstance(expression, Call):
        return expression
    count = len(expression.arguments)
    last = (1, count - 1) if expression.function == "strptime_timestamp" else ()
    fixed = CONSTANT.get(expression.function, last)
    arguments = tuple(
        a if i in fixed else moved(a, held) for i, a in enumerate(expression.arguments)
    )
    return replace(expression, arguments=arguments)


Rows = list[list[Constant]]
"""The arguments of calls that are one expression over columns."""


def in_columns(
    spark: SparkSession, samples: Sequence[Sample], compiled: int
) -> Iterator[tuple[Sample, Any]]:
    """Values of samples: calls that differ in their constants only are one expression over many rows.

    Args:
        spark: the session.
        samples: the calls.
        compiled: Spark compiles one of so many jobs, and interprets the others.
    """
    shapes: dict[Expr, list[tuple[Sample, list[Constant]]]] = {}
    for sample in samples:
        held: list[Constant] = []
        shapes.setdefault(moved(sample.call, held), []).append((sample, held))
    chunks = together(sorted(shapes.items(), key=lambda shape: len(shape[1])))
    for number, chunk in enumerate(chunks):
        # To compile an expression takes longer than to compute all of its values.
        with nullcontext() if number % compiled == 0 else interpreted(spark):
            values = beside(spark, [(e, [held for _, held in group]) for e, group in chunk])
        for (_, group), column in zip(chunk, values, strict=True):
            for (sample, _), value in zip(group, column, strict=True):
                yield sample, value


def together(shapes: Sequence[tuple[Expr, list[Any]]]) -> Iterator[list[tuple[Expr, list[Any]]]]:
    """Put expressions over about as many rows into one job, fewer expressions where there are many rows."""
    chunk: list[tuple[Expr, list[Any]]] = []
    for shape in shapes:
        rows = len(shape[1])
        if chunk and (rows > 2 * len(chunk[0][1]) or (len(chunk) + 1) * rows > CELLS):
            yield chunk
            chunk = []
        chunk.append(shape)
    yield chunk


def beside(spark: SparkSession, shapes: Sequence[tuple[Expr, Rows]]) -> list[list[Any]]:
    """Values of expressions, each over its own rows, in one job; the rows of shorter ones repeat."""
    expressions, types, columns = list[Expr](), list[Type](), list[list[Any]]()
    longest = max(len(rows) for _, rows in shapes)
    for expression, rows in shapes:
        expressions.append(shifted(expression, len(types)))
        types += [c.type for c in rows[0]]
        columns += [
            [rows[n % len(rows)][i].value for n in range(longest)] for i in range(len(rows[0]))
        ]
    cells = [list(row) for row in zip(*columns, strict=True)] or [[]] * longest
    found = over_rows(spark, expressions, types, cells)
    return [[found[n][i] for n in range(len(rows))] for i, (_, rows) in enumerate(shapes)]


def shifted(expression: Expr, by: int) -> Expr:
    """The expression with its columns further on."""
    if isinstance(expression, Column):
        return replace(expression, ordinal=expression.ordinal + by)
    if not isinstance(expression, Call):
        return expression
    return replace(expression, arguments=tuple(shifted(a, by) for a in expression.arguments))


def as_constants(spark: SparkSession, samples: Sequence[Sample]) -> Iterator[tuple[Sample, Any]]:
    """Values of samples whose arguments are constants, which Spark folds."""
    with interpreted(spark):
        answers = evaluate(spark, [Comparison(s.call, None) for s in samples], in_columns=False)
    for sample, answer in zip(samples, answers, strict=True):
        yield sample, answer if isinstance(answer, Failed) else answer[0]


def fails(sample: Sample) -> bool:
    return isinstance(sample.wanted, str) and sample.wanted == FAILS


def every_third(samples: Sequence[Sample]) -> list[Sample]:
    """Take one of `STEP` expressions per function and type of its first argument, where there are many: Spark plans each of them.

    The types take turns, so that every option is there with some of them.
    """
    kinds: dict[str, list[Expr]] = {}
    for sample in samples:
        expression = moved(sample.call, [])
        known = kinds.setdefault(expression_kind(sample.call), [])
        if expression not in known:
            known.append(expression)
    if sum(map(len, kinds.values())) <= MANY:
        return list(samples)
    left = {
        e
        for turn, known in enumerate(kinds.values())
        for e in known[turn % min(STEP, len(known)) :: STEP]
    }
    return [sample for sample in samples if moved(sample.call, []) in left]


def expression_kind(call: Call) -> str:
    """The function, and the type of its first argument."""
    return f"{call.function} {call.arguments[0].type.kind}"


def check(spark: SparkSession, samples: Sequence[Sample], *, compiled: int) -> None:
    """Compute samples over columns, some of them as constants, and compare the values."""
    valued = [s for s in samples if not fails(s)]
    found = [
        *in_columns(spark, valued, compiled),
        *as_constants(spark, valued[:: len(valued) // ALL + 1]),
    ]
    for sample in samples:
        if fails(sample):
            found += as_constants(spark, [sample])
    wrong = [
        f"{sample.call}: {value!r}, not {sample.wanted!r}"
        for sample, value in found
        if not same(value, sample.wanted)
    ]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(samples)}", *wrong[:20]])


@pytest.mark.parametrize("group", GROUPS)
def test_values_are_those_of_python(spark: SparkSession, group: str) -> None:
    check(spark, every_third(list(GROUPS[group]())), compiled=12)


@pytest.mark.soak
@pytest.mark.parametrize("group", GROUPS)
def test_all_values_are_those_of_python(spark: SparkSession, group: str) -> None:
    check(spark, list(GROUPS[group]()), compiled=1)


def test_the_calls_are_of_known_functions() -> None:
    assert {s.call.function for group in GROUPS.values() for s in group()} <= set(SCALARS)
