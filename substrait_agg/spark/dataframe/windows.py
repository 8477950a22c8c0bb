"""Window functions of Spark as window functions of Substrait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from substrait_agg.spark.dataframe.aggregates import is_measure, measure
from substrait_agg.spark.dataframe.analyzed import SparkTree
from substrait_agg.spark.dataframe.scope import Scope, cast, not_supported
from substrait_agg.spark.dataframe.types import SparkType, Typed

RANKINGS: Mapping[str, str] = {"DenseRank": "dense_rank", "Rank": "rank", "RowNumber": "row_number"}
"""Class of a function of positions in Spark -> its name in Substrait."""

_BOUNDS: Mapping[str, Mapping[str, Any]] = {
    "UnboundedPreceding": {"unbounded": {}},
    "CurrentRow": {"currentRow": {}},
    "UnboundedFollowing": {"unbounded": {}},
}
_FRAMES = {"RowFrame": "BOUNDS_TYPE_ROWS", "RangeFrame": "BOUNDS_TYPE_RANGE"}


def window_function(
    scope: Scope, tree: SparkTree, partitions: list[Any], sorts: list[dict[str, Any]]
) -> Typed:
    """Return the value of a window function.

    Args:
        scope: the columns of the rows.
        tree: a function over a specification of a window.
        partitions: the keys of the partitions.
        sorts: the order of the rows.

    Raises:
        UsageError: DATAFRAME_EXPRESSION, DATAFRAME_TYPE.
    """
    if tree.kind != "WindowExpression":
        raise not_supported(tree, "in place of a window function")
    function, specification = tree.children
    make = _measure if is_measure(function) else _ranking
    body, type_, finish = make(scope, function)
    window = {
        **body,
        **_frame(specification),
        "partitions": partitions,
        "sorts": sorts,
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
    }
    return finish(Typed({"windowFunction": window}, type_))


_Function = tuple[dict[str, Any], SparkType, Callable[[Typed], Typed]]
"""The call, its type, and what turns its value into that of Spark."""


def _ranking(scope: Scope, tree: SparkTree) -> _Function:
    if tree.kind not in RANKINGS:
        raise not_supported(tree, "as a window function")
    type_ = SparkType("long", nullable=False)
    reference = scope.context.reference("arithmetic", RANKINGS[tree.kind], ())
    body = {"functionReference": reference, "arguments": [], "outputType": type_.message()}
    return body, type_, lambda value: cast(value, "integer")


def _measure(scope: Scope, tree: SparkTree) -> _Function:
    if bool(tree.fields["isDistinct"]) or len(tree.children) > 1:
        raise not_supported(tree.children[0], "with DISTINCT or FILTER over a window")
    aggregate = measure(scope, tree)
    return aggregate.message["measure"], aggregate.type, aggregate.result


def _frame(specification: SparkTree) -> dict[str, Any]:
    frame = next(t for t in specification.walk() if t.kind.endswith("WindowFrame"))
    bounds = [_BOUNDS.get(bound.kind.rstrip("$")) for bound in frame.children]
    if frame.kind != "SpecifiedWindowFrame" or None in bounds:
        raise not_supported(
            frame, "only frames between the current row and the ends of the partition"
        )
    kind = str(frame.fields["frameType"]["object"]).rpartition(".")[2].rstrip("$")
    lower, upper = bounds
    return {"lowerBound": lower, "upperBound": upper, "boundsType": _FRAMES[kind]}
