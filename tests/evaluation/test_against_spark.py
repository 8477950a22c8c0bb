"""Random expressions have the same values on Arrow and on Spark, and fail here where Spark fails."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from substrait_agg.bind.bound import Call, Column, Expr
from substrait_agg.errors import RunFailed
from substrait_agg.evaluation.expressions import KERNELS, evaluate, supports
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import Type
from substrait_agg.spark.expressions import to_column
from substrait_agg.spark.session.errors import SPARK_ERRORS
from substrait_agg.spark.types.schema import to_spark
from tests.evaluation.random_columns import table
from tests.evaluation.random_expressions import Maker
from tests.sampling import seeds

ROWS = 40
EXPRESSIONS = 120
AT_ONCE = 40
"""Expressions of one Spark job: more of them exceed what Spark compiles at once."""
FAILING = 4
"""Failing expressions of a case that are tried on Spark, each in a job of its own."""


def frame_of(spark: SparkSession, types: Sequence[Type], rows: pa.Table) -> DataFrame:
    fields = [StructField(f"c{i}", to_spark(t)) for i, t in enumerate(types)]
    return spark.createDataFrame(rows, schema=StructType(fields))


def spark_values(frame: DataFrame, exprs: Sequence[Expr]) -> pa.Table:
    columns = [frame[name] for name in frame.columns]
    return frame.select(
        *(to_column(e, columns).alias(f"v{i}") for i, e in enumerate(exprs))
    ).toArrow()


def equal(found: pa.Array, wanted: pa.Array) -> bool:
    """Compare bits, apart from the bits of NaN."""
    if found.type != wanted.type:
        return False
    if not pa.types.is_floating(found.type):
        return bool(found.equals(wanted))
    x, y = (c.to_numpy(zero_copy_only=False) for c in (found.fill_null(0), wanted.fill_null(0)))
    same = (x == y) & (np.signbit(x) == np.signbit(y)) | np.isnan(x) & np.isnan(y)
    return bool(found.is_valid().equals(wanted.is_valid()) and same.all())


def differing(frame: DataFrame, exprs: Sequence[Expr], found: Sequence[pa.Array]) -> Iterator[str]:
    """Describe each expression whose values differ, or that fails on Spark only."""
    try:
        wanted = spark_values(frame, exprs)
    except SPARK_ERRORS as error:
        if len(exprs) == 1:
            yield f"only Spark fails: {exprs[0]}: {str(error)[:300]}"
            return
        half = len(exprs) // 2
        yield from differing(frame, exprs[:half], found[:half])
        yield from differing(frame, exprs[half:], found[half:])
        return
    for i, (expr, mine) in enumerate(zip(exprs, found, strict=True)):
        theirs = wanted.column(i).combine_chunks()
        theirs = theirs if isinstance(theirs, pa.Array) else theirs.combine_chunks()
        theirs = theirs.cast(to_arrow(expr.type))
        if not equal(mine, theirs):
            rows = [
                (n, a, b)
                for n, (a, b) in enumerate(zip(mine.to_pylist(), theirs.to_pylist(), strict=True))
                if a != b
            ]
            yield f"{expr}: {rows[:3]} (row, here, Spark)"


@pytest.mark.parametrize("seed", seeds(2, 100))
def test_expressions_have_the_values_of_spark(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    types, rows = table(rng, ROWS)
    maker, columns = Maker(rng, types), [c.combine_chunks() for c in rows.columns]
    exprs: list[Expr] = []
    found: list[pa.Array] = []
    failing: list[Expr] = []
    unsupported = 0
    while len(exprs) < EXPRESSIONS:
        depth = rng.randint(1, 4)
        expr = maker.any(depth)
        if not supports(expr):
            unsupported += 1
            continue
        try:
            values = evaluate(expr, columns, ROWS)
        except RunFailed as error:
            # Where an argument is null, Spark does not always compute the others.
            if depth == 1 and "DECIMAL_TOO_WIDE" not in error.message:
                failing.append(expr)
            continue
        assert (values.type, len(values)) == (to_arrow(expr.type), ROWS), expr
        values.validate(full=True)
        exprs.append(expr)
        found.append(values)
    # Quotients and rounded values of very long decimals.
    assert unsupported < EXPRESSIONS // 4
    frame = frame_of(spark, types, rows)
    wrong = [
        text
        for i in range(0, EXPRESSIONS, AT_ONCE)
        for text in differing(frame, exprs[i : i + AT_ONCE], found[i : i + AT_ONCE])
    ]
    assert not wrong, "\n".join(wrong[:10])
    for expr in failing[:FAILING]:
        with pytest.raises(SPARK_ERRORS):
            spark_values(frame, [expr])


def test_every_kernel_is_drawn() -> None:
    drawn: Counter[str] = Counter()
    for seed in range(40):
        rng = random.Random(seed)
        types, _ = table(rng, 1)
        maker = Maker(rng, types)
        for _ in range(100):
            count(maker.any(4), drawn)
    assert not {*KERNELS, "and", "or", "and_not", "coalesce"} - set(drawn)


def count(expr: Expr, drawn: Counter[str]) -> None:
    if isinstance(expr, Call):
        drawn[expr.function] += 1
        for argument in expr.arguments:
            count(argument, drawn)
    elif not isinstance(expr, Column):
        for name in ("input", "value", "otherwise"):
            inner: Expr | None = getattr(expr, name, None)
            if inner is not None:
                count(inner, drawn)
