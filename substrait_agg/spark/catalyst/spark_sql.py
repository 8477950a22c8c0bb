"""Compute the function `spark_sql`: an expression of Spark from its text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from py4j.java_collections import ListConverter
from pyspark.sql import Column as SparkColumn
from pyspark.sql import SparkSession

from substrait_agg.bind.bound import Call, Constant
from substrait_agg.errors import UsageError
from substrait_agg.functions.spark_sql import SPARK_VERSION
from substrait_agg.spark.catalyst.analyzed.checks import check_tree
from substrait_agg.spark.catalyst.analyzed.tree import SparkTree, tree_of
from substrait_agg.spark.catalyst.jvm import new_helper, release_of
from substrait_agg.spark.catalyst.translation.types import type_of
from substrait_agg.spark.types.schema import to_spark

_OF_ROWS = frozenset({"Exists", "InSubquery", "ListQuery", "ScalarSubquery", "WindowExpression", "AggregateExpression"})  # fmt: skip


def spark_expression(call: Call, arguments: Sequence[SparkColumn]) -> SparkColumn:
    """Return the column of a call of `spark_sql`.

    Args:
        call: the call; its first argument is the text.
        arguments: the columns of the other arguments.

    Raises:
        UsageError: SPARK_EXPRESSION_REFUSED: this Spark does not read the text, another release has
            planned it, it has another type than the plan declares, or it is not computed from the
            row alone.
    """
    (constant, *values) = call.arguments
    text = str(constant.value) if isinstance(constant, Constant) else ""
    spark = SparkSession.active()
    jvm: Any = spark._jvm
    client = jvm._gateway_client
    types = [to_spark(argument.type).json() for argument in values]
    helper = new_helper(spark)
    expression = helper.expression(
        spark._jsparkSession, text, ListConverter().convert(types, client)
    )
    if expression is None:
        raise _refuse(text, "this release of Spark does not read it")
    tree = tree_of(helper.json(expression), [])
    planned = dict(call.options).get(SPARK_VERSION, release_of(spark))
    if planned != release_of(spark):
        raise _refuse(text, f"Spark {planned} planned it, and this is Spark {release_of(spark)}")
    _check(text, tree, call)
    columns = ListConverter().convert([argument._jc for argument in arguments], client)
    return SparkColumn(helper.column(expression, columns))


def _check(text: str, tree: SparkTree, call: Call) -> None:
    refusals = check_tree(tree, has_clock=False)
    if refusals:
        raise _refuse(text, refusals[0].message)
    if any(node.kind in _OF_ROWS for node in tree.walk()):
        raise _refuse(text, "it reads more than one row")
    declared = type_of(to_spark(call.type).jsonValue()).without_nulls()
    if type_of(tree.type).without_nulls() != declared:
        raise _refuse(text, f"its type is {tree.type}, and the plan declares {call.type}")


def _refuse(text: str, reason: str) -> UsageError:
    shown = text if len(text) <= 200 else text[:200] + "..."
    return UsageError(
        "SPARK_EXPRESSION_REFUSED",
        f"Spark cannot compute {shown}: {reason}",
        help="plan the query again with this release of Spark",
    )
