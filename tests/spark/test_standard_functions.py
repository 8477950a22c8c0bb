"""Standard scalar functions on Spark against Python: edge values, as constants and in columns, in few Spark jobs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from substrait_agg.bind.bound import Call, Column, Constant, Expr
from substrait_agg.functions.scalars.catalogue import SCALARS
from tests.conformance.evaluating import Comparison, Failed, evaluate
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

ALL = 60
"""Samples of a group that run as constants as well; of a larger group as many of all."""


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


def in_columns(spark: SparkSession, samples: Sequence[Sample]) -> Iterator[tuple[Sample, Any]]:
    """Values of samples: calls that differ in their constants only are one expression over many rows."""
    shapes: dict[Expr, list[tuple[Sample, list[Constant]]]] = {}
    for sample in samples:
        held: list[Constant] = []
        shapes.setdefault(moved(sample.call, held), []).append((sample, held))
    for expression, group in shapes.items():
        types = [c.type for c in group[0][1]]
        rows = [[c.value for c in held] for _, held in group]
        for (sample, _), (value,) in zip(
            group, over_rows(spark, [expression], types, rows), strict=True
        ):
            yield sample, value


def as_constants(spark: SparkSession, samples: Sequence[Sample]) -> Iterator[tuple[Sample, Any]]:
    """Values of samples whose arguments are constants, which Spark folds."""
    answers = evaluate(spark, [Comparison(s.call, None) for s in samples], in_columns=False)
    for sample, answer in zip(samples, answers, strict=True):
        yield sample, answer if isinstance(answer, Failed) else answer[0]


def fails(sample: Sample) -> bool:
    return isinstance(sample.wanted, str) and sample.wanted == FAILS


@pytest.mark.parametrize("group", GROUPS)
def test_values_are_those_of_python(spark: SparkSession, group: str) -> None:
    samples = list(GROUPS[group]())
    valued = [s for s in samples if not fails(s)]
    found = [*in_columns(spark, valued), *as_constants(spark, valued[:: len(valued) // ALL + 1])]
    for sample in samples:
        if fails(sample):
            found += as_constants(spark, [sample])
    wrong = [
        f"{sample.call}: {value!r}, not {sample.wanted!r}"
        for sample, value in found
        if not same(value, sample.wanted)
    ]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(samples)}", *wrong[:20]])


def test_the_calls_are_of_known_functions() -> None:
    assert {s.call.function for group in GROUPS.values() for s in group()} <= set(SCALARS)
