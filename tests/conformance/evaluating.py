"""Values of many bound expressions in few Spark jobs; a failing expression is found by bisection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from substrait_agg.bind.bound import Call, Column, Constant, Conversion, Expr
from substrait_agg.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import SparkSession

CHUNK = 64
"""Expressions per job: the code that Spark compiles for one grows faster than their number."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The error of Spark instead of a value."""

    message: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """An expression without columns, and a constant that it is compared with."""

    expression: Expr
    wanted: Constant | None


Answer = tuple[Any, Any] | Failed
"""The value of the expression and that of the constant, as Spark hands them over."""


@contextmanager
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Have Spark interpret expressions: to compile them costs seconds per plan and gains nothing on a handful of rows."""
    conf = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    before = {name: spark.conf.get(name, None) for name in conf}
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def evaluate(spark: SparkSession, asked: Sequence[Comparison], *, in_columns: bool) -> list[Answer]:
    """Values of all expressions.

    Args:
        spark: the session.
        asked: what is computed.
        in_columns: whether the arguments of calls are values of columns, as in a stream of rows; otherwise they are
            constants, which Spark folds before it runs anything.
    """
    answers: list[Answer] = []
    for start in range(0, len(asked), CHUNK):
        answers += _evaluate(spark, asked[start : start + CHUNK], in_columns)
    return answers


def _evaluate(spark: SparkSession, asked: Sequence[Comparison], in_columns: bool) -> list[Answer]:
    from pyspark.errors import PySparkException

    try:
        return _in_one_job(spark, asked, in_columns)
    except (PySparkException, UsageError) as error:
        if len(asked) == 1:
            return [Failed(str(error).partition("\n")[0])]
    half = len(asked) // 2
    return [
        *_evaluate(spark, asked[:half], in_columns),
        *_evaluate(spark, asked[half:], in_columns),
    ]


def _in_one_job(spark: SparkSession, asked: Sequence[Comparison], in_columns: bool) -> list[Answer]:
    from pyspark.sql import functions as F

    from substrait_agg.spark.types.literals import literal

    held: list[Constant] = []
    cells_read: list[SparkColumn] = []
    columns: list[SparkColumn] = []
    for number, item in enumerate(asked):
        value = _column(item.expression, held, cells_read, in_columns)
        columns.append(value.alias(f"v{number}"))
        if item.wanted is not None:
            columns.append(literal(item.wanted.value, item.wanted.type).alias(f"w{number}"))
    cells = [literal(c.value, c.type).alias(f"c{i}") for i, c in enumerate(held)]
    row = F.struct(F.lit(0).alias("n"), *cells)
    # An explode keeps the optimiser from folding the row away.
    frame = spark.range(1, numPartitions=1).select(F.explode(F.array(row)).alias("r"))
    found = frame.select(*columns).collect()[0]
    return [
        (found[f"v{i}"], found[f"w{i}"] if item.wanted is not None else None)
        for i, item in enumerate(asked)
    ]


def _column(
    expression: Expr, held: list[Constant], cells: list[SparkColumn], in_columns: bool
) -> SparkColumn:
    """The column of an expression; `cells` are the columns of the constants in `held`, extended as needed."""
    from pyspark.sql import functions as F

    from substrait_agg.spark.expressions import to_column

    if not in_columns:
        return to_column(expression, ())
    before = len(held)
    moved = with_columns(expression, held)
    cells += [F.col(f"r.c{i}") for i in range(len(cells), len(held))]
    try:
        return to_column(moved, cells)
    except UsageError:
        # Some argument must be a constant: then all of them stay constants.
        del held[before:]
        return to_column(expression, ())


def with_columns(expression: Expr, held: list[Constant]) -> Expr:
    """The expression with the constants among arguments of calls moved into `held`."""
    if isinstance(expression, Call):
        arguments = tuple(with_columns(a, held) for a in expression.arguments)
        return replace(expression, arguments=arguments)
    if isinstance(expression, Constant):
        held.append(expression)
        # A null may come at any row.
        return Column(expression.type, len(held) - 1)
    if isinstance(expression, Conversion):
        return replace(expression, input=with_columns(expression.input, held))
    return expression
