"""Spark's analyzed logical plan as a tree."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from substrait_agg.errors import UsageError

_TRY = re.compile(r"\btry_\w+\(")
_FIELDS = "spark.sql.debug.maxToStringFields"
_ANSI = "spark.sql.ansi.enabled"
_PRECISION_LOSS = "spark.sql.decimalOperations.allowPrecisionLoss"


@dataclass(frozen=True)
class SparkTree:
    """A node of a plan or of an expression.

    Attributes:
        kind: name of its class in Spark, without packages.
        fields: its fields as Spark writes them.
    """

    kind: str
    fields: Mapping[str, Any]
    children: tuple[SparkTree, ...]

    def expressions(self, field: str) -> list[SparkTree]:
        """Return the expressions of a field that contains a list of them."""
        return [tree_of(nodes) for nodes in self.fields[field]]

    def expression(self, field: str) -> SparkTree | None:
        """Return the expression of a field; None if it has none."""
        nodes = self.fields.get(field)
        return tree_of(nodes) if nodes else None

    def walk(self) -> Iterator[SparkTree]:
        """Yield this node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def tree_of(nodes: Sequence[Mapping[str, Any]]) -> SparkTree:
    """Return the tree of nodes that are listed in preorder, each with its number of children."""
    return _next(iter(nodes))


def _next(nodes: Iterator[Mapping[str, Any]]) -> SparkTree:
    node = next(nodes)
    children = tuple(_next(nodes) for _ in range(node["num-children"]))
    return SparkTree(node["class"].rpartition(".")[2], node, children)


def analyzed_plan(frame: DataFrame) -> SparkTree:
    """Return the analyzed plan of a DataFrame of a classic session.

    Raises:
        UsageError: DATAFRAME_SETTING without ANSI mode, DATAFRAME_EXPRESSION for functions such as
            ``try_cast``, which Spark's JSON does not distinguish from those that raise errors.
    """
    conf = frame.sparkSession.conf
    if conf.get(_ANSI, "true") != "true":
        raise UsageError(
            "DATAFRAME_SETTING",
            f"{_ANSI} is false, so overflows and bad casts give other values than in a plan",
            help=f"set {_ANSI} to true",
        )
    analyzed = frame._jdf.queryExecution().analyzed()
    before = conf.get(_FIELDS, None)
    conf.set(_FIELDS, str(2**31 - 1))  # otherwise the text has only the first fields
    try:
        text = analyzed.toString()
    finally:
        conf.unset(_FIELDS) if before is None else conf.set(_FIELDS, before)
    match = _TRY.search(text)
    if match:
        raise UsageError(
            "DATAFRAME_EXPRESSION",
            f"the DataFrame uses {match[0][:-1]}, which returns null where a plan raises an error",
            help="use the function without try_",
        )
    return tree_of(json.loads(analyzed.toJSON()))


def loses_precision(frame: DataFrame) -> bool:
    """Return whether Spark gives up decimal places of a result with more than 38 digits."""
    return frame.sparkSession.conf.get(_PRECISION_LOSS, "true") == "true"
