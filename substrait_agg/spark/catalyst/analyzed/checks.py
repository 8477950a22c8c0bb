"""Check what a query may not contain, before rules of Spark compute constants away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from substrait_agg.spark.catalyst.analyzed.refusals import Refusal
from substrait_agg.spark.catalyst.analyzed.tree import SparkTree, type_names

_CHANGING: Mapping[str, str] = {
    "CurrentTime": "current_time",
    "LocalTimestamp": "localtimestamp",
    "UnixTimestamp": "unix_timestamp",
    "CurrentBatchTimestamp": "current_timestamp",
    "CurrentTimeZone": "current_timezone",
    "CurrentUser": "current_user",
    "CurrentDatabase": "current_database",
    "CurrentCatalog": "current_catalog",
    "InputFileName": "input_file_name",
    "SparkVersion": "version",
}
"""Class of an expression that changes although no table does -> its name in SQL."""
_CLOCK: Mapping[str, str] = {
    "CurrentDate": "current_date",
    "CurrentTimestamp": "current_timestamp",
    "Now": "now",
}
"""The same for what the clock of a run tells, but not Spark when it computes a text of a plan."""
_NEEDS_ARGUMENT = ("UnixTimestamp",)

_USER_FUNCTIONS = (
    "PythonUDF", "PythonUDAF", "PythonUDTF", "ScalaUDF", "ScalaUDAF", "ScalaAggregator", "HiveGenericUDF", "HiveSimpleUDF",
    "HiveUDAFFunction", "ApplyFunctionExpression", "V2Aggregator", "CallMethodViaReflection",
)  # fmt: skip


def check_tree(tree: SparkTree, *, has_clock: bool) -> list[Refusal]:
    """Return refusals for values that change without a table, and for functions of users.

    Args:
        tree: a plan or an expression.
        has_clock: whether the clock of a run gives the time.
    """
    return list(_refusals(tree, _CHANGING if has_clock else {**_CHANGING, **_CLOCK}, set()))


def _refusals(tree: SparkTree, changing: Mapping[str, str], seen: set[int]) -> Iterator[Refusal]:
    if tree.number in seen:
        return
    seen.add(tree.number)
    if tree.kind == "AggregateExpression":  # first(x) counts as changing in Spark; its rows do not
        seen.add(tree.children[0].number)
        if tree.fields["isDistinct"] and any(
            "variant" in type_names(c.type) for c in tree.children[0].children
        ):
            yield Refusal(
                "expression",
                f"{tree.children[0].name} of distinct variants cannot be maintained: Spark does not compare them",
                "compare their texts: to_json(v)",
                tree.start,
                tree.stop,
            )
        for child in tree.children[0].children:
            yield from _refusals(child, changing, seen)
    if tree.kind in changing and not (tree.kind in _NEEDS_ARGUMENT and tree.children):
        yield _refuse_changing(tree, changing[tree.kind])
    elif tree.kind in _USER_FUNCTIONS:
        yield Refusal(
            "function",
            f"{tree.fields.get('name') or tree.name} is a function that a user wrote; it may give other values later",
            "write it with functions of Spark, or compute the column before the rows are stored",
            tree.start,
            tree.stop,
        )
    elif (
        tree.type is not None
        and "plan" not in tree.fields
        and not tree.deterministic
        and all(child.deterministic for child in tree.children)
    ):
        yield _refuse_changing(tree, tree.name)
    for child in (*tree.children, *_inner(tree)):
        yield from _refusals(child, changing, seen)


def _inner(tree: SparkTree) -> Iterator[SparkTree]:
    """Yield the expressions of a relation, and the relation of a subquery."""
    waiting = list(tree.fields.values())
    while waiting:
        value = waiting.pop()
        if isinstance(value, SparkTree):
            yield value
        elif isinstance(value, list):
            waiting.extend(value)


def _refuse_changing(tree: SparkTree, name: str) -> Refusal:
    return Refusal(
        "changing",
        f"{name} changes although no table does, so no view of it can be kept",
        "compare with a literal, or add the value to the rows of a table",
        tree.start,
        tree.stop,
    )
