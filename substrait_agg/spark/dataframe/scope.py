"""What translated expressions share: the functions of the plan and the columns in scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from substrait_agg.errors import UsageError
from substrait_agg.spark.dataframe.analyzed import SparkTree
from substrait_agg.spark.dataframe.types import Relation, SparkType, Typed, decimal

_VARIADIC = ("and", "coalesce", "concat", "or")
"""Functions whose signatures name a repeated argument once."""
_NUMBERED = ("first_value", "lag", "last_value", "lead", "nth_value")
"""Functions of values of any type, of which the second argument is a number."""


@dataclass(frozen=True)
class PlanContext:
    """What the translation of a plan needs everywhere.

    Attributes:
        makers: how each class of expression is translated.
        relation: translates a relation.
        loses_precision: whether Spark gives up decimal places of a result with more than 38 digits.
        anchors: the functions of the plan, each declared once.
        outer: in a subquery, the columns of the query around it by their ids in Spark.
    """

    makers: Mapping[str, Maker]
    relation: Callable[[SparkTree, PlanContext], Relation]
    loses_precision: bool = True
    anchors: dict[tuple[str, str], int] = field(default_factory=dict)
    outer: Mapping[int, Typed] = field(default_factory=dict)

    def reference(self, urn: str, name: str, arguments: Iterable[Typed], before: str = "") -> int:
        """Return the anchor of a function for arguments of these types, after others (`before`)."""
        shorts = [a.type.short for a in arguments]
        if urn in ("comparison", "aggregate_generic") and name != "is_nan":
            shorts = ["any"] * len(shorts)
        if name in _NUMBERED:
            shorts = [s if place == 1 else "any" for place, s in enumerate(shorts)]
        if name in _VARIADIC:
            shorts = shorts[:1]
        signature = f"{name}:{before}{'_'.join(shorts)}"
        return self.anchors.setdefault(
            (f"extension:io.substrait:functions_{urn}", signature), len(self.anchors) + 1
        )

    def declarations(self) -> dict[str, Any]:
        """Return the declarations of a plan as JSON."""
        urns = {urn: i + 1 for i, urn in enumerate(dict.fromkeys(urn for urn, _ in self.anchors))}
        return {
            "extensionUrns": [{"extensionUrnAnchor": i, "urn": urn} for urn, i in urns.items()],
            "extensions": [
                {
                    "extensionFunction": {
                        "extensionUrnReference": urns[urn],
                        "functionAnchor": anchor,
                        "name": name,
                    }
                }
                for (urn, name), anchor in self.anchors.items()
            ],
        }


@dataclass(frozen=True)
class Scope:
    """What expressions may refer to.

    Attributes:
        context: the functions of the plan, and how expressions are translated.
        columns: type and ordinal of each column by its id in Spark.
        computed: expressions that are columns already, by `identity`.
    """

    context: PlanContext
    columns: Mapping[int, Typed]
    computed: Mapping[str, Typed] = field(default_factory=dict)

    def typed(self, tree: SparkTree) -> Typed:
        """Return an expression of Spark as one of Substrait.

        Raises:
            UsageError: DATAFRAME_EXPRESSION, DATAFRAME_TYPE.
        """
        computed = self.computed.get(identity(tree))
        if computed is not None:
            return computed
        make = self.context.makers.get(tree.kind)
        if make is None:
            raise not_supported(tree)
        return make(self, tree)

    def call(
        self, urn: str, name: str, arguments: Sequence[Typed], type_: SparkType, **options: str
    ) -> Typed:
        """Return a call of a scalar function."""
        called = {
            "functionReference": self.context.reference(urn, name, arguments),
            "arguments": [{"value": a.message} for a in arguments],
            "outputType": type_.message(),
            "options": [{"name": n, "preference": [v]} for n, v in options.items()],
        }
        return Typed({"scalarFunction": called}, type_)

    def arguments(self, tree: SparkTree) -> list[Typed]:
        """Return the children of an expression."""
        return [self.typed(child) for child in tree.children]


Maker = Callable[[Scope, SparkTree], Typed]
"""Translates an expression of one class."""


def identity(tree: SparkTree) -> str:
    """Return a text that is the same for equal expressions."""
    if tree.kind == "Alias":
        return identity(tree.children[0])
    if tree.kind == "AttributeReference":
        return f"#{id_of(tree)}"
    own = [tree.fields.get(n) for n in ("value", "dataType", "isDistinct", "plan")]
    return f"{tree.kind}{own}({','.join(map(identity, tree.children))})"


def id_of(tree: SparkTree) -> int:
    """Return the id of an attribute or an alias."""
    return int(tree.fields["exprId"]["id"])


def field_reference(ordinal: int, type_: SparkType) -> Typed:
    """Return a reference to a column of the input."""
    reference = {"directReference": {"structField": {"field": ordinal}}, "rootReference": {}}
    return Typed({"selection": reference}, type_)


def not_supported(tree: SparkTree, reason: str = "") -> UsageError:
    """Return the error for an expression that cannot be translated."""
    return UsageError(
        "DATAFRAME_EXPRESSION",
        f"the expression {tree.kind} of the DataFrame cannot be turned into a plan{reason and ': '}{reason}",
        help="write it with other functions, or write the query in SQL; docs/dataframes.md lists the supported ones",
    )


def cast(value: Typed, name: str) -> Typed:
    """Return a value as another type; an error where it does not fit."""
    if value.type.name == name:
        return value
    type_ = SparkType(name, value.type.nullable)
    body = {
        "type": type_.message(),
        "input": value.message,
        "failureBehavior": "FAILURE_BEHAVIOR_THROW_EXCEPTION",
    }
    return Typed({"cast": body}, type_)


def decimal_cast(value: Typed, precision: int, scale: int) -> Typed:
    """Return a value as a decimal; an error where it has more digits."""
    return cast(value, decimal(precision, scale, nullable=value.type.nullable).name)


def null(name: str) -> Typed:
    """Return a null of a type."""
    type_ = SparkType(name)
    return Typed({"literal": {"null": type_.message()}}, type_)


def any_nullable(values: Iterable[Typed]) -> bool:
    """Return whether one of the values may be null."""
    return any(value.type.nullable for value in values)
