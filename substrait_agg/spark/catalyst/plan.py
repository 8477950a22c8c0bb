"""Turn an analyzed plan of Spark into a Substrait plan."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from substrait_agg.spark.catalyst.analyzed.checks import check_tree
from substrait_agg.spark.catalyst.analyzed.refusals import Refusal
from substrait_agg.spark.catalyst.analyzed.tree import SparkTree, tree_of
from substrait_agg.spark.catalyst.jvm import new_helper, release_of
from substrait_agg.spark.catalyst.translation.expressions import EXPRESSIONS
from substrait_agg.spark.catalyst.translation.own_sources import OwnSource, OwnTables
from substrait_agg.spark.catalyst.translation.relations import relation
from substrait_agg.spark.catalyst.translation.scope import PlanContext
from substrait_agg.spark.catalyst.translation.types import flat_names, is_collated
from substrait_agg.spark.session.session import active_session

_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer."
_RULES = (
    "InlineCTE",
    "EliminateResolvedHint",
    "EliminateSQLFunctionNode",
    "ReplaceUpdateFieldsExpression",
    "OptimizeOneRowRelationSubquery",
    "PullOutGroupingExpressions",
    "PullupCorrelatedPredicates",
    # NOT IN is one within NOT (a IN (...) AND b), too.
    "BooleanSimplification",
    "RewritePredicateSubquery",
    "RewriteCorrelatedScalarSubquery",
    "RewriteLateralSubquery",
    # A key of a join that can fail, such as an element of a list, is computed for rows of the filters alone.
    "PushPredicateThroughJoin",
    "ConstantFolding",
)
"""Rules of Spark's optimizer that are applied to a plan, in order. They keep tables and their names."""


class NotMaintained(Exception):
    """What of a query cannot be maintained: all of it that was found."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__("; ".join(refusal.message for refusal in refusals))
        self.refusals = tuple(refusals)


@dataclass(frozen=True)
class PlannedTree:
    """A Substrait plan as JSON.

    Attributes:
        message: the plan.
        places: path in the plan -> offsets of the first and the last character of its text in the query.
        sources: name of a table -> where its rows come from.
        collations: place of a column whose texts have a collation -> its type as JSON of Spark.
    """

    message: dict[str, Any]
    places: Mapping[str, tuple[int, int]]
    sources: Mapping[str, OwnSource]
    collations: Mapping[int, str]


def plan_of_tree(spark: SparkSession, analyzed: Any, names: Sequence[str] = ()) -> PlannedTree:
    """Return the Substrait plan of an analyzed plan of Spark.

    Args:
        spark: the session that analyzed it.
        analyzed: the plan, as an object of the JVM.
        names: other names of its columns.

    Raises:
        NotMaintained: parts of it cannot be maintained.
    """
    with active_session(spark):
        return _plan(spark, analyzed, names)


def _plan(spark: SparkSession, analyzed: Any, names: Sequence[str]) -> PlannedTree:
    helper = new_helper(spark)
    nodes: list[SparkTree] = []
    refusals = check_tree(tree_of(helper.json(analyzed), nodes), has_clock=True)
    if refusals:
        raise NotMaintained(refusals)
    rules = " ".join(_OPTIMIZER + name for name in _RULES)
    tree = tree_of(helper.json(helper.normalized(analyzed, rules)), nodes)

    def print_text(number: int, leaves: Sequence[int]) -> str | None:
        """Return the SQL text of an expression over the columns `leaves`; None if it has none."""
        text: str | None = helper.text(spark._jsparkSession, number, " ".join(map(str, leaves)))
        return text

    conf = spark.conf.get("spark.sql.decimalOperations.allowPrecisionLoss", "true")
    tables = OwnTables(str(spark.conf.get("spark.sql.session.timeZone")))
    context = PlanContext(
        EXPRESSIONS, relation, print_text, _read_ids(tree),
        spark_version=release_of(spark), loses_precision=conf == "true", tables=tables,
        recursion_limits=_recursion_limits(spark),
    )  # fmt: skip
    try:
        root = relation(tree, context)
    except Refusal as refusal:
        raise NotMaintained([*context.refusals, refusal]) from None
    if context.refusals:
        raise NotMaintained(context.refusals)
    columns = root.columns
    if names:
        columns = tuple(replace(c, name=name) for c, name in zip(columns, names, strict=True))
    message = {
        "version": {"minorNumber": 106, "producer": "Spark plan of substrait-agg"},
        **context.declarations(),
        "relations": [{"root": {"input": root.message, "names": flat_names(columns)}}],
    }
    collations = {i: json.dumps(c.type) for i, c in enumerate(tree.output) if is_collated(c.type)}
    return PlannedTree(message, _places(message, context), tables.sources, collations)


def _recursion_limits(spark: SparkSession) -> tuple[int, int]:
    """Return how many levels and how many rows Spark lets a recursion have; -1 is no limit."""
    level = int(spark.conf.get("spark.sql.cteRecursionLevelLimit", "100") or -1)
    rows = int(spark.conf.get("spark.sql.cteRecursionRowLimit", "1000000") or -1)
    return level if level >= 0 else 2**31 - 1, rows if rows >= 0 else 2**63 - 1


_CAPITAL = re.compile(r"(?<!^)([A-Z])")


def _places(message: dict[str, Any], context: PlanContext) -> dict[str, tuple[int, int]]:
    """Return the places of the parts of a plan by their paths."""
    place_of = {id(part): (start, stop) for part, start, stop in context.places}
    places: dict[str, tuple[int, int]] = {}
    waiting: list[tuple[str, Any]] = [("", message)]
    while waiting:
        path, part = waiting.pop()
        if id(part) in place_of:
            places[path] = place_of[id(part)]
        if isinstance(part, dict):
            for name, inner in part.items():
                snake = _CAPITAL.sub(lambda m: f"_{m[1].lower()}", name)
                waiting.append((f"{path}.{snake}".lstrip("."), inner))
        elif isinstance(part, list):
            waiting.extend((f"{path}[{i}]", inner) for i, inner in enumerate(part))
    return places


def _read_ids(tree: SparkTree) -> frozenset[int]:
    """Return the ids of the columns that a plan uses: those in its expressions and in its result."""
    used = {column.id for column in tree.output}
    waiting, seen = [tree], set()
    while waiting:
        node = waiting.pop()
        if node.number in seen:
            continue
        seen.add(node.number)
        if node.kind == "AttributeReference":
            used.add(node.id)
        waiting.extend(node.children)
        if node.kind not in ("LocalRelation", "LogicalRDD", "LogicalRelation"):
            waiting.extend(_trees(list(node.fields.values())))
    return frozenset(used)


def _trees(value: Any) -> list[SparkTree]:
    if isinstance(value, SparkTree):
        return [value]
    return [tree for one in value for tree in _trees(one)] if isinstance(value, list) else []
