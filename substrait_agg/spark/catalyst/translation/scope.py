"""What translated expressions share: the functions of the plan and the columns in scope."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from typing import Any

from substrait_agg.functions.scalars.catalogue import SCALARS
from substrait_agg.functions.spark_sql import SPARK_SQL, SPARK_URN, SPARK_VERSION
from substrait_agg.spark.catalyst.analyzed.refusals import Refusal
from substrait_agg.spark.catalyst.analyzed.tree import OutputColumn, SparkTree, without_definitions
from substrait_agg.spark.catalyst.translation.own_sources import OwnTables
from substrait_agg.spark.catalyst.translation.types import (
    MOST_DIGITS,
    ColumnOf,
    Relation,
    SparkType,
    Typed,
    collations,
    decimal,
    is_collated,
    type_of,
    type_refused,
)

_NUMBERED = ("first_value", "lag", "last_value", "lead", "nth_value")
"""Functions of values of any type, of which the second argument is a number."""


_NOT_OF_ROWS = frozenset(
    {
        "AggregateExpression", "DynamicPruningSubquery", "Exists", "InSubquery", "ListQuery",
        "LateralSubquery", "OuterReference", "ScalarSubquery", "WindowExpression", "PythonUDF",
        "ScalaUDF", "HiveGenericUDF", "HiveSimpleUDF", "CommonExpressionRef",
    }
)  # fmt: skip
"""Classes of expressions that are not computed from the columns of one row alone."""


_OF_ANY_COLLATION = frozenset(
    {
        "Alias", "AtLeastNNonNulls", "BitLength", "CaseWhen", "Cast", "Coalesce", "Collate",
        "CommonExpressionDef", "Concat", "GetArrayItem", "GetStructField", "If", "IsNotNull", "IsNull",
        "Length", "OctetLength", "ScalarSubquery", "With",
    }
)  # fmt: skip
"""Classes of expressions that give and test texts, but do not compare them."""
_MEASURES_OF_ANY_COLLATION = frozenset(
    {"Count", "CollectList", "First", "Last", "ListAgg", "MaxBy", "MaxMinByK", "MinBy"}
)
"""Classes of measures that do not compare their first argument."""


@dataclass(frozen=True)
class PlanContext:
    """What the translation of a plan needs everywhere.

    Attributes:
        makers: how each class of expression is translated.
        relation: translates a relation.
        print_text: returns a node as SQL over columns ``c0``, ``c1``, ..., which stand for the nodes of
            its second argument; None if Spark would not read the same expression again.
        read_ids: ids of the columns that expressions of the query name.
        spark_version: release of Spark, such as ``4.3``.
        loses_precision: whether Spark gives up decimal places of a result with more than 38 digits.
        anchors: the functions of the plan, each declared once.
        outer: in a subquery, the columns of the query around it by their ids in Spark.
        refusals: what cannot be maintained, as found so far.
        pivots: ids of the columns that are lists of the values of a pivot.
        places: parts of the plan, each with the offsets of its text in the query.
        tables: the tables that the plan reads, and where they come from.
        recursion_limits: Spark's limits of the levels of a recursion, and of its rows.
        recursions: id of a recursion in Spark -> its number in the plan.
    """

    makers: Mapping[str, Maker]
    relation: Callable[[SparkTree, PlanContext], Relation]
    print_text: Callable[[int, Sequence[int]], str | None]
    read_ids: frozenset[int] = frozenset()
    spark_version: str = ""
    loses_precision: bool = True
    anchors: dict[tuple[str, str], int] = field(default_factory=dict)
    outer: Mapping[int, Typed] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    pivots: set[int] = field(default_factory=set)
    places: list[tuple[dict[str, Any], int, int]] = field(default_factory=list)
    tables: OwnTables = field(default_factory=OwnTables)
    recursion_limits: tuple[int, int] = (100, 1_000_000)
    recursions: dict[int, int] = field(default_factory=dict)

    def recursion(self, loop: int) -> str:
        """Return the name of a recursion in the plan."""
        return str(self.recursions.setdefault(loop, len(self.recursions)))

    def place(self, message: dict[str, Any], tree: SparkTree) -> None:
        """Record the place of a part of the plan."""
        if tree.start >= 0:
            self.places.append((message, tree.start, tree.stop))

    def reference(self, urn: str, name: str, arguments: Iterable[Typed], before: str = "") -> int:
        """Return the anchor of a function for arguments of these types, after others (`before`)."""
        shorts = [a.type.short for a in arguments]
        if urn in ("comparison", "aggregate_generic") and name != "is_nan":
            shorts = ["any"] * len(shorts)
        if name in _NUMBERED:
            shorts = [s if place == 1 else "any" for place, s in enumerate(shorts)]
        row = SCALARS.get(name)
        if row is not None and row.overloads[0].variadic:
            shorts = shorts[: len(row.overloads[0].params)]
        signature = f"{name}:{before}{'_'.join(shorts)}"
        full = f"extension:{urn}" if ":" in urn else f"extension:io.substrait:functions_{urn}"
        return self.anchors.setdefault((full, signature), len(self.anchors) + 1)

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
        computed: expressions that are columns already, by `SparkTree.same`.
        natively: whether an expression that Spark computes from its text is refused.
    """

    context: PlanContext
    columns: Mapping[int, Typed]
    computed: Mapping[int, Typed] = field(default_factory=dict)
    natively: bool = False

    def value(self, tree: SparkTree) -> Typed:
        """Return an expression of Spark as one of Substrait, with the type that Spark gives it.

        An expression that cannot be translated is added to the refusals.
        """
        try:
            return self.translate(tree)
        except Refusal as refusal:
            self.context.refusals.append(refusal.at(tree))
            return placeholder(tree)

    def key(self, tree: SparkTree) -> Typed:
        """Return a key: an expression whose values are compared by their bytes."""
        if not is_collated(tree.type):
            return self.value(tree)
        self.context.refusals.append(refuse_collation(tree))
        return placeholder(tree)

    def translate(self, tree: SparkTree) -> Typed:
        """Return an expression of Spark as one of Substrait.

        A whole expression over columns that has a part without a function of the standard becomes an
        expression that Spark computes.

        Raises:
            Refusal: it cannot be translated.
        """
        value = self._translate(tree)
        if tree.kind != "AttributeReference":
            self.context.place(value.message, tree)
        return value

    def _translate(self, tree: SparkTree) -> Typed:
        whole = self._is_whole(tree)
        try:
            return (replace(self, natively=True) if whole else self).native(tree)
        except Refusal as refusal:
            if self.natively or not whole:
                raise
            return self._by_spark(tree, refusal)

    def native(self, tree: SparkTree) -> Typed:
        """Return an expression as functions of the standard; without `natively` only its root must be one."""
        computed = self.computed.get(tree.same)
        if computed is not None:
            return computed
        make = self.context.makers.get(tree.kind)
        try:
            if tree.kind not in _OF_ANY_COLLATION and any(map(_has_collation, tree.children)):
                raise refuse_collation(tree)
            if gives_null_for_errors(tree):
                raise not_supported(tree, "with a null where it fails")
            if make is not None:
                return _of_type(tree, make(self, tree))
        except Refusal as refusal:
            if tree.replacement is None:
                raise refusal.at(tree) from None
        if tree.replacement is not None:
            return self.translate(tree.replacement)
        raise not_supported(tree)

    def _is_whole(self, tree: SparkTree) -> bool:
        """Return whether an expression reads only columns: no measure, no window, no query."""
        if tree.same in self.computed:
            return True
        if tree.kind == "With":
            return self._is_whole(without_definitions(tree))
        if tree.kind in _NOT_OF_ROWS or not tree.deterministic:
            return False
        return all(map(self._is_whole, tree.children))

    def _leaves(self, tree: SparkTree, by_id: dict[int, SparkTree]) -> None:
        if tree.same in self.computed or tree.kind == "AttributeReference":
            by_id.setdefault(tree.same, tree)
            return
        for child in tree.children:
            self._leaves(child, by_id)

    def _by_spark(self, tree: SparkTree, refusal: Refusal) -> Typed:
        """Return an expression that Spark computes from its text."""
        if tree.kind == "Alias":
            return self.translate(tree.children[0])
        leaves: dict[int, SparkTree] = {}
        self._leaves(tree, leaves)
        if any(map(_in_other_zone, tree.walk())):
            raise in_other_zone(tree)
        if self.context.tables.zone != "UTC" and any(map(_is_instant, tree.walk())):
            raise in_other_zone(tree, self.context.tables.zone)
        if tree.type == "void":
            raise not_supported(tree, "its only value is null")
        text = self.context.print_text(tree.number, [leaf.number for leaf in leaves.values()])
        if text is None:
            raise refusal
        type_ = type_of(tree.type, nullable=tree.nullable)
        constant = Typed({"literal": {"string": text}}, SparkType("string", nullable=False))
        arguments = [constant, *(self.native(leaf) for leaf in leaves.values())]
        return self.by_text(arguments, type_)

    def by_text(self, arguments: Sequence[Typed], type_: SparkType) -> Typed:
        """Return an expression that Spark computes from a text, the first argument."""
        version = {SPARK_VERSION: self.context.spark_version}
        return self.call(SPARK_URN, SPARK_SQL, arguments, type_, **version)

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
        return [self.translate(child) for child in tree.children]


Maker = Callable[[Scope, SparkTree], Typed]
"""Translates an expression of one class."""


def _of_type(tree: SparkTree, value: Typed) -> Typed:
    """Return a value that has the type that Spark gives it, but for nulls in its parts."""
    if tree.type in (None, "void") or value.type.name == "void":
        return value
    if value.type.without_nulls() == type_of(tree.type).without_nulls():
        return value
    raise not_supported(tree, f"its type {value.type.name} is not {tree.type}")


def field_reference(ordinal: int, type_: SparkType) -> Typed:
    """Return a reference to a column of the input."""
    reference = {"directReference": {"structField": {"field": ordinal}}, "rootReference": {}}
    return Typed({"selection": reference}, type_)


def not_supported(tree: SparkTree, reason: str = "") -> Refusal:
    """Return the error for an expression that cannot be translated."""
    return Refusal(
        "expression",
        f"{tree.name or tree.kind} cannot be maintained{reason and ': '}{reason}",
        "write it with other functions; docs/sql.md lists what is supported",
        tree.start,
        tree.stop,
    )


def _has_collation(tree: SparkTree) -> bool:
    return is_collated(tree.type)


def refuse_collation(tree: SparkTree) -> Refusal:
    """Return the error for texts with a collation that a plan would compare by their bytes."""
    types = [tree.type, *(c.type for c in tree.children), *(c.type for c in tree.output)]
    name = next((name for type_ in types for name in collations(type_)), "")
    return Refusal(
        "type",
        f"texts with a collation would be compared by their bytes: {name}",
        "cast them to STRING COLLATE UTF8_BINARY; docs/sql.md lists what is supported",
        tree.start,
        tree.stop,
    )


def check_measure(tree: SparkTree) -> None:
    """Check that a measure compares no texts with a collation.

    Raises:
        Refusal: it does.
    """
    (function, *_) = tree.children
    of = function.replacement or function
    free = 0
    if of.kind in _MEASURES_OF_ANY_COLLATION and not tree.fields["isDistinct"]:
        free = len(of.children) if of.kind == "Count" else 1
    if any(_has_collation(c) and c.kind != "Literal" for c in of.children[free:]):
        raise refuse_collation(of)


_WITH_ZONE = re.compile(r"\btimestamp\b")
"""A type with instants; those without a zone are `timestamp_ntz`."""


def _in_other_zone(tree: SparkTree) -> bool:
    """Return whether the value of an expression depends on a time zone other than UTC."""
    if tree.zone in ("", "UTC"):
        return False
    types = (tree.type, *(child.type for child in tree.children))
    return tree.kind != "Cast" or any(_WITH_ZONE.search(str(type_)) for type_ in types)


def _is_instant(tree: SparkTree) -> bool:
    """Return whether an expression is a constant instant, whose text has the zone of the session."""
    return tree.kind == "Literal" and _WITH_ZONE.search(str(tree.type)) is not None


def in_other_zone(tree: SparkTree, zone: str = "") -> Refusal:
    """Return the error for an expression that depends on a time zone other than UTC."""
    zone = zone or next((node.zone for node in tree.walk() if node.zone not in ("", "UTC")), "")
    return Refusal(
        "expression",
        f"{tree.name or tree.kind} depends on the time zone of the session, {zone}",
        "set spark.sql.session.timeZone to UTC, and name the zone in the query (from_utc_timestamp)",
        tree.start,
        tree.stop,
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


def decimal_value(value: Decimal, precision: int, scale: int) -> dict[str, Any]:
    """Return the value of a decimal literal."""
    whole = int(value.scaleb(scale, Context(prec=MOST_DIGITS)))
    content = whole.to_bytes(16, "little", signed=True)
    text = base64.b64encode(content).decode()
    return {"value": text, "precision": precision, "scale": scale}


def decimal_constant(value: Decimal, type_: SparkType) -> Typed:
    """Return a decimal constant."""
    precision, scale = type_.digits or (MOST_DIGITS, 0)
    return Typed({"literal": {"decimal": decimal_value(value, precision, scale)}}, type_)


_FLOATS = ("NaN", "Infinity", "-Infinity")


def _time(value: str, _type: Mapping[str, Any]) -> dict[str, Any]:
    return {"precision": 6, "value": value}


_LITERALS: dict[str, Callable[[str, Mapping[str, Any]], Any]] = {
    "bool": lambda v, _: v.lower() == "true",
    "i8": lambda v, _: int(v),
    "i16": lambda v, _: int(v),
    "i32": lambda v, _: int(v),
    "i64": lambda v, _: v,
    "fp32": lambda v, _: v if v in _FLOATS else float(v),
    "fp64": lambda v, _: v if v in _FLOATS else float(v),
    "string": lambda v, _: v,
    "binary": lambda v, _: v,
    "date": lambda v, _: int(v),
    "decimal": lambda v, t: decimal_value(Decimal(v), t["precision"], t["scale"]),
    "precisionTimestamp": _time,
    "precisionTimestampTz": _time,
    "intervalYear": lambda v, _: {"months": int(v)},
    "intervalDay": lambda v, _: duration(int(v)),
}
"""Kind of a Substrait type -> the value of a literal, from its text in Spark."""

_NAMES = {
    "bool": "boolean",
    "intervalYear": "intervalYearToMonth",
    "intervalDay": "intervalDayToSecond",
}
"""Kind of a Substrait type -> the field of a literal, if it has another name."""


def constant(type_: SparkType, value: Any) -> Typed | None:
    """Return a constant from its text in Spark; None for a type that literals do not have.

    Raises:
        Refusal: a type that a plan does not have.
    """
    if value is None:
        return null(type_.name)
    required = SparkType(type_.name, nullable=False)
    message = required.message()
    (kind,) = message
    make = _LITERALS.get(kind)
    if make is None:
        return None
    return Typed({"literal": {_NAMES.get(kind, kind): make(str(value), message[kind])}}, required)


def duration(micros: int) -> dict[str, object]:
    """Return the value of a literal of an interval of days to microseconds."""
    days, rest = divmod(micros, DAY)
    seconds, subseconds = divmod(rest, 1_000_000)
    return {"days": days, "seconds": seconds, "precision": 6, "subseconds": str(subseconds)}


DAY = 86_400_000_000
"""Microseconds of a day."""


def write_literal(type_: SparkType, value: Any) -> dict[str, Any]:
    """Return the literal of a constant in a row, also of a nested one, from its parts in Spark.

    Raises:
        Refusal: a type that a plan does not have.
    """
    nested = type_.nested
    if nested is None or value is None:
        single = constant(type_, value)
        if single is None:
            raise type_refused(type_.name)
        literal: dict[str, Any] = single.message["literal"]
        return literal
    if nested["type"] == "struct":
        types = (type_of(field["type"]) for field in nested["fields"])
        return {"struct": {"fields": list(map(write_literal, types, value))}}
    if nested["type"] == "array":
        items = [write_literal(type_of(nested["elementType"]), item) for item in value]
        return {"list": {"values": items}} if items else {"emptyList": _body_of_type(type_, "list")}
    keys, items = (
        [write_literal(type_of(nested[part]), item) for item in items]
        for part, items in zip(("keyType", "valueType"), value, strict=True)
    )
    pairs = [{"key": key, "value": item} for key, item in zip(keys, items, strict=True)]
    return {"map": {"keyValues": pairs}} if pairs else {"emptyMap": _body_of_type(type_, "map")}


def _body_of_type(type_: SparkType, kind: str) -> Any:
    return SparkType(type_.name, nullable=False).message()[kind]


def null(name: str) -> Typed:
    """Return a null of a type."""
    type_ = SparkType(name)
    return Typed({"literal": {"null": type_.message()}}, type_)


def placeholder(tree: SparkTree) -> Typed:
    """Return what stands for a refused expression, so that its only problem is its own."""
    return Typed({"literal": {}}, type_of(tree.type))


def gives_null_for_errors(tree: SparkTree) -> bool:
    """Return whether an operation is one of a function such as ``try_add``."""
    return any("TRY" in str(tree.fields.get(name)) for name in ("evalContext", "evalMode"))


def any_nullable(values: Iterable[Typed]) -> bool:
    """Return whether one of the values may be null."""
    return any(value.type.nullable for value in values)


_DIRECTIONS = {
    ("Ascending", "NullsFirst"): "SORT_DIRECTION_ASC_NULLS_FIRST",
    ("Ascending", "NullsLast"): "SORT_DIRECTION_ASC_NULLS_LAST",
    ("Descending", "NullsFirst"): "SORT_DIRECTION_DESC_NULLS_FIRST",
    ("Descending", "NullsLast"): "SORT_DIRECTION_DESC_NULLS_LAST",
}


def sorts(scope: Scope, orders: Sequence[SparkTree]) -> list[dict[str, Any]]:
    """Return the sort fields of an order."""
    return [
        {
            "expr": scope.key(order.children[0]).message,
            "direction": _DIRECTIONS[order.fields["direction"], order.fields["nullOrdering"]],
        }
        for order in orders
    ]


def scope_of(context: PlanContext, columns: Sequence[ColumnOf]) -> Scope:
    """Return the scope of expressions over the columns of a relation."""
    return Scope(context, {c.id: field_reference(i, c.type) for i, c in enumerate(columns)})


def emit_only(below: Relation, values: Sequence[Typed]) -> dict[str, Any]:
    """Return the projection of a relation that has only these values as columns."""
    width = len(below.columns)
    emit = {"emit": {"outputMapping": list(range(width, width + len(values)))}}
    body = {"common": emit, "input": below.message, "expressions": [v.message for v in values]}
    return {"project": body}


def emit_rows(
    below: Relation, output: Sequence[OutputColumn], rows: Sequence[Sequence[Typed]]
) -> Relation:
    """Return every row of a relation once per list of values, which are its columns."""
    nullable = [any_nullable(values) for values in zip(*rows, strict=True)]
    columns = tuple(
        ColumnOf(column.id, column.name, type_of(column.type, nullable=is_null))
        for column, is_null in zip(output, nullable, strict=True)
    )
    inputs = [emit_only(below, row) for row in rows]
    if len(inputs) == 1:
        return Relation(inputs[0], columns)
    return Relation({"set": {"inputs": inputs, "op": "SET_OP_UNION_ALL"}}, columns)
