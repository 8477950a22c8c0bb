"""Expressions of Spark as expressions of Substrait."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from substrait_agg.errors import UsageError
from substrait_agg.spark.dataframe.analyzed import SparkTree
from substrait_agg.spark.dataframe.types import INTEGERS, SparkType, Typed, decimal

BOOLEAN, INTEGER, LONG, STRING = (SparkType(n) for n in ("boolean", "integer", "long", "string"))
_EPOCH = date(1970, 1, 1)
_VARIADIC = ("and", "coalesce", "concat", "or")
"""Functions whose signatures name a repeated argument once."""


@dataclass
class Functions:
    """The functions of a plan, each declared once."""

    anchors: dict[tuple[str, str], int] = field(default_factory=dict)

    def reference(self, urn: str, name: str, arguments: Iterable[Typed], before: str = "") -> int:
        """Return the anchor of a function for arguments of these types, after others (`before`)."""
        shorts = [a.type.short for a in arguments]
        if urn == "comparison" and name != "is_nan":
            shorts = ["any"] * len(shorts)
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
        functions: the functions of the plan.
        columns: type and ordinal of each column by its id in Spark.
        computed: expressions that are columns already, by `identity`.
    """

    functions: Functions
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
        make = _EXPRESSIONS.get(tree.kind)
        if make is None:
            raise not_supported(tree)
        return make(self, tree)

    def call(
        self, urn: str, name: str, arguments: Sequence[Typed], type_: SparkType, **options: str
    ) -> Typed:
        """Return a call of a scalar function."""
        called = {
            "functionReference": self.functions.reference(urn, name, arguments),
            "arguments": [{"value": a.message} for a in arguments],
            "outputType": type_.message(),
            "options": [{"name": n, "preference": [v]} for n, v in options.items()],
        }
        return Typed({"scalarFunction": called}, type_)


def identity(tree: SparkTree) -> str:
    """Return a text that is the same for equal expressions."""
    if tree.kind == "Alias":
        return identity(tree.children[0])
    if tree.kind == "AttributeReference":
        return f"#{id_of(tree)}"
    own = [tree.fields.get(n) for n in ("value", "dataType", "isDistinct")]
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


def _attribute(scope: Scope, tree: SparkTree) -> Typed:
    column = scope.columns.get(id_of(tree))
    if column is None:
        raise not_supported(tree, f"column {tree.fields['name']} is not one of its inputs")
    return column


def literal(tree: SparkTree) -> Typed:
    """Return a constant."""
    name, value = tree.fields["dataType"], tree.fields["value"]
    if value is None:
        return _null(name)
    type_ = SparkType(name, nullable=False)
    message = type_.message()
    (kind,) = message
    make = _LITERALS.get(kind)
    if make is None:
        raise not_supported(tree, f"a constant of type {name}")
    name_of_field = "boolean" if kind == "bool" else kind
    return Typed({"literal": {name_of_field: make(value, message[kind])}}, type_)


def _null(name: str) -> Typed:
    type_ = SparkType(name)
    return Typed({"literal": {"null": type_.message()}}, type_)


def _decimal_literal(value: str, type_: Mapping[str, Any]) -> dict[str, Any]:
    unscaled = int(Decimal(value).scaleb(type_["scale"]))
    content = base64.b64encode(unscaled.to_bytes(16, "little", signed=True)).decode()
    return {"value": content, "precision": type_["precision"], "scale": type_["scale"]}


def _days(value: str) -> int:
    return int(value) if value.lstrip("-").isdigit() else (date.fromisoformat(value) - _EPOCH).days


def _micros(value: str) -> str:
    if value.lstrip("-").isdigit():
        return value
    passed = datetime.fromisoformat(value) - datetime(1970, 1, 1)  # noqa: DTZ001 - a local time
    return str(passed // timedelta(microseconds=1))


_LITERALS: dict[str, Callable[[str, Mapping[str, Any]], Any]] = {
    "bool": lambda v, _: v == "true",
    "i8": lambda v, _: int(v),
    "i16": lambda v, _: int(v),
    "i32": lambda v, _: int(v),
    "i64": lambda v, _: v,
    "fp32": lambda v, _: v if v in ("NaN", "Infinity", "-Infinity") else float(v),
    "fp64": lambda v, _: v if v in ("NaN", "Infinity", "-Infinity") else float(v),
    "string": lambda v, _: v,
    "date": lambda v, _: _days(v),
    "decimal": _decimal_literal,
    "precisionTimestamp": lambda v, _: {"precision": 6, "value": _micros(v)},
}


def _arguments(scope: Scope, tree: SparkTree) -> list[Typed]:
    return [scope.typed(child) for child in tree.children]


def _nullable(values: Iterable[Typed]) -> bool:
    return any(value.type.nullable for value in values)


def _arithmetic(name: str, **options: str) -> Callable[[Scope, SparkTree], Typed]:
    def make(scope: Scope, tree: SparkTree) -> Typed:
        """Return a call for two decimals, or for two values of one type."""
        left, right = _arguments(scope, tree)
        if left.type.digits and right.type.digits:
            type_ = _decimal_result(
                tree, name, left.type.digits, right.type.digits, _nullable((left, right))
            )
            return scope.call("arithmetic_decimal", name, (left, right), type_, overflow="ERROR")
        if left.type.name != right.type.name:
            raise not_supported(tree, f"of {left.type.name} and {right.type.name}")
        type_ = SparkType(left.type.name, _nullable((left, right)))
        checked = options if left.type.name in INTEGERS else {}
        return scope.call("arithmetic", name, (left, right), type_, **checked)

    return make


def _decimal_result(
    tree: SparkTree,
    name: str,
    left: tuple[int, int],
    right: tuple[int, int],
    nullable: bool,
) -> SparkType:
    """Return the type of decimal arithmetic; both specifications agree up to 38 digits."""
    (p1, s1), (p2, s2) = left, right
    if name == "multiply":
        precision, scale = p1 + p2 + 1, s1 + s2
    elif name in ("add", "subtract"):
        scale = max(s1, s2)
        precision = scale + max(p1 - s1, p2 - s2) + 1
    else:
        raise not_supported(tree, "of decimals")
    if precision > 38:
        raise not_supported(tree, f"its result has {precision} digits, more than 38")
    return decimal(precision, scale, nullable=nullable)


def _shift_right(scope: Scope, tree: SparkTree) -> Typed:
    value, count = _arguments(scope, tree)
    return scope.call(
        "arithmetic",
        "shift_right",
        (value, count),
        SparkType(value.type.name, _nullable((value, count))),
    )


def _divide(scope: Scope, tree: SparkTree) -> Typed:
    left, right = _arguments(scope, tree)
    divisor = tree.children[1]
    while divisor.kind == "Cast":
        divisor = divisor.children[0]
    constant = divisor.kind == "Literal" and divisor.fields["value"] not in (None, "0", "0.0")
    if left.type.name != "double" or not constant:
        raise not_supported(tree, "only a double that is divided by a constant other than zero")
    return scope.call(
        "arithmetic", "divide", (left, right), SparkType("double", left.type.nullable)
    )


def _comparison(name: str) -> Callable[[Scope, SparkTree], Typed]:
    def make(scope: Scope, tree: SparkTree) -> Typed:
        """Return the comparison of two values of one type."""
        values = _arguments(scope, tree)
        if len({value.type.name for value in values}) != 1:
            raise not_supported(tree, "of different types")
        if values[0].type.name in ("float", "double"):
            return _float_comparison(scope, tree, name, values[0], values[1])
        nullable = name != "is_not_distinct_from" and _nullable(values)
        return scope.call("comparison", name, values, SparkType("boolean", nullable))

    return make


def _float_comparison(scope: Scope, tree: SparkTree, name: str, left: Typed, right: Typed) -> Typed:
    """Compare floats as Spark does: NaN equals NaN and is greater than all numbers."""
    type_ = SparkType("boolean", _nullable((left, right)))

    def logic(function: str, *values: Typed) -> Typed:
        return scope.call("boolean", function, values, type_)

    def is_nan(value: Typed) -> Typed:
        type_ = SparkType("boolean", value.type.nullable)
        return scope.call("comparison", "is_nan", (value,), type_)

    def greater(left_: Typed, right_: Typed) -> Typed:
        """Return whether a float is greater than another one, with NaN above all numbers."""
        plain = scope.call("comparison", "gt", (left_, right_), type_)
        no_nan = scope.call(
            "boolean", "not", (is_nan(right_),), SparkType("boolean", right_.type.nullable)
        )
        return logic("or", plain, logic("and", is_nan(left_), no_nan))

    if name == "is_not_distinct_from":
        same = _float_comparison(scope, tree, "equal", left, right)
        return _null_safe(scope, same, left, right)
    if name == "equal":
        plain = scope.call("comparison", "equal", (left, right), type_)
        return logic("or", plain, logic("and", is_nan(left), is_nan(right)))
    makers = {
        "gt": lambda: greater(left, right),
        "lt": lambda: greater(right, left),
        "gte": lambda: logic("not", greater(right, left)),
        "lte": lambda: logic("not", greater(left, right)),
    }
    if name not in makers:
        raise not_supported(tree, "of floats")
    return makers[name]()


def _null_safe(scope: Scope, same: Typed, left: Typed, right: Typed) -> Typed:
    """Return whether values are equal or both null, given a comparison that may be null."""
    type_ = SparkType("boolean", nullable=False)
    never = Typed({"literal": {"boolean": False}}, type_)
    equal = scope.call("comparison", "coalesce", (same, never), type_)
    nulls = [scope.call("comparison", "is_null", (value,), type_) for value in (left, right)]
    both = scope.call("boolean", "and", nulls, type_)
    return scope.call("boolean", "or", (equal, both), type_)


def _boolean(name: str) -> Callable[[Scope, SparkTree], Typed]:
    def make(scope: Scope, tree: SparkTree) -> Typed:
        values = _arguments(scope, tree)
        return scope.call("boolean", name, values, SparkType("boolean", _nullable(values)))

    return make


def _null_test(name: str) -> Callable[[Scope, SparkTree], Typed]:
    def make(scope: Scope, tree: SparkTree) -> Typed:
        return scope.call(
            "comparison", name, _arguments(scope, tree), SparkType("boolean", nullable=False)
        )

    return make


def _is_nan(scope: Scope, tree: SparkTree) -> Typed:
    """Spark's result is false for a null, that of the standard's function is null."""
    (value,) = _arguments(scope, tree)
    nullable = value.type.nullable
    call = scope.call("comparison", "is_nan", (value,), SparkType("boolean", nullable))
    never = Typed({"literal": {"boolean": False}}, SparkType("boolean", nullable=False))
    if not nullable:
        return call
    return scope.call("comparison", "coalesce", (call, never), never.type)


def _text(
    name: str, result: str, *, count: bool = False, **options: str
) -> Callable[[Scope, SparkTree], Typed]:
    def make(scope: Scope, tree: SparkTree) -> Typed:
        """Return the call of a text function whose arguments are all strings."""
        values = _arguments(scope, tree)
        if any(value.type.name != "string" for value in values):
            raise not_supported(tree, "of values that are not strings")
        type_ = SparkType("long" if count else result, _nullable(values))
        return cast(scope.call("string", name, values, type_, **options), result)

    return make


def _substring(scope: Scope, tree: SparkTree) -> Typed:
    text, start, length = _arguments(scope, tree)
    numbers = [c.fields["value"] for c in tree.children[1:] if c.kind == "Literal"]
    if (
        text.type.name != "string"
        or len(numbers) != 2
        or int(numbers[0]) < 1
        or int(numbers[1]) < 0
    ):
        raise not_supported(tree, "only of a string, with a constant position from 1 on and length")
    return scope.call(
        "string", "substring", (text, start, length), SparkType("string", text.type.nullable)
    )


def _like(scope: Scope, tree: SparkTree) -> Typed:
    pattern = tree.children[1]
    if pattern.kind != "Literal" or "\\" in str(pattern.fields["value"]):
        raise not_supported(tree, "only with a constant pattern without a backslash")
    # The third child is the escape character.
    return _text("like", "boolean")(scope, replace(tree, children=tree.children[:2]))


def _part_of_time(component: str) -> Callable[[Scope, SparkTree], Typed]:
    def make(scope: Scope, tree: SparkTree) -> Typed:
        """Return the call that extracts a part of a date."""
        (value,) = _arguments(scope, tree)
        if value.type.name != "date":
            raise not_supported(tree, "only of a date")
        called = {
            "functionReference": scope.functions.reference("datetime", "extract", (value,), "req_"),
            "arguments": [{"enum": component}, {"value": value.message}],
            "outputType": SparkType("long", value.type.nullable).message(),
        }
        return cast(
            Typed({"scalarFunction": called}, SparkType("long", value.type.nullable)), "integer"
        )

    return make


def _same_type(urn: str, name: str) -> Callable[[Scope, SparkTree], Typed]:
    def make(scope: Scope, tree: SparkTree) -> Typed:
        (value,) = _arguments(scope, tree)
        kind = f"{urn}_decimal" if value.type.digits else urn
        return scope.call(kind, name, (value,), value.type)

    return make


def _coalesce(scope: Scope, tree: SparkTree) -> Typed:
    values = _arguments(scope, tree)
    if len({value.type.name for value in values}) != 1:
        raise not_supported(tree, "of different types")
    type_ = SparkType(values[0].type.name, all(value.type.nullable for value in values))
    return scope.call("comparison", "coalesce", values, type_)


def _in(scope: Scope, tree: SparkTree) -> Typed:
    value, *options = _arguments(scope, tree)
    if {option.type.name for option in options} != {value.type.name}:
        raise not_supported(tree, "of different types")
    if value.type.name in ("float", "double"):
        # In a list of Substrait NaN equals nothing; in Spark it equals NaN.
        same = [_float_comparison(scope, tree, "equal", value, option) for option in options]
        return scope.call("boolean", "or", same, SparkType("boolean", _nullable(same)))
    body = {"value": value.message, "options": [option.message for option in options]}
    return Typed({"singularOrList": body}, SparkType("boolean", _nullable((value, *options))))


def _case(scope: Scope, tree: SparkTree) -> Typed:
    """Return a conditional for CASE WHEN and IF: conditions and values, then an optional ELSE."""
    values = _arguments(scope, tree)
    pairs = [(values[i], values[i + 1]) for i in range(0, len(values) - 1, 2)]
    results = [value for _, value in pairs]
    (other,) = values[-1:] if len(values) % 2 else (None,)
    name = results[0].type.name
    everything = [*results, *([other] if other else [])]
    if {value.type.name for value in everything} != {name}:
        raise not_supported(tree, "with values of different types")
    type_ = SparkType(name, other is None or _nullable(everything))
    last = other.message if other else {"literal": {"null": SparkType(name).message()}}
    clauses = [{"if": condition.message, "then": value.message} for condition, value in pairs]
    return Typed({"ifThen": {"ifs": clauses, "else": last}}, type_)


def _cast(scope: Scope, tree: SparkTree) -> Typed:
    (child,) = tree.children
    if child.kind == "Literal" and child.fields["value"] is None:
        return _null(tree.fields["dataType"])
    return cast(scope.typed(child), tree.fields["dataType"])


_ERROR = {"overflow": "ERROR"}
_EXPRESSIONS: dict[str, Callable[[Scope, SparkTree], Typed]] = {
    "Abs": _same_type("arithmetic", "abs"),
    "Add": _arithmetic("add", **_ERROR),
    "Alias": lambda scope, tree: scope.typed(tree.children[0]),
    "And": _boolean("and"),
    "AttributeReference": _attribute,
    "BitwiseAnd": _arithmetic("bitwise_and"),
    "CaseWhen": _case,
    "Cast": _cast,
    "Coalesce": _coalesce,
    "Concat": _text("concat", "string", null_handling="ACCEPT_NULLS"),
    "Contains": _text("contains", "boolean"),
    "DayOfMonth": _part_of_time("DAY"),
    "Divide": _divide,
    "EndsWith": _text("ends_with", "boolean"),
    "EqualNullSafe": _comparison("is_not_distinct_from"),
    "EqualTo": _comparison("equal"),
    "GreaterThan": _comparison("gt"),
    "GreaterThanOrEqual": _comparison("gte"),
    "If": _case,
    "In": _in,
    "IsNaN": _is_nan,
    "IsNotNull": _null_test("is_not_null"),
    "IsNull": _null_test("is_null"),
    "Length": _text("char_length", "integer", count=True),
    "LessThan": _comparison("lt"),
    "LessThanOrEqual": _comparison("lte"),
    "Like": _like,
    "Literal": lambda _, tree: literal(tree),
    "Lower": _text("lower", "string"),
    "Month": _part_of_time("MONTH"),
    "Multiply": _arithmetic("multiply", **_ERROR),
    "Not": _boolean("not"),
    "Or": _boolean("or"),
    "Remainder": _arithmetic("modulus", division_type="TRUNCATE", **_ERROR),
    "ShiftRight": _shift_right,
    "StartsWith": _text("starts_with", "boolean"),
    "Substring": _substring,
    "Subtract": _arithmetic("subtract", **_ERROR),
    "UnaryMinus": _same_type("arithmetic", "negate"),
    "Upper": _text("upper", "string"),
    "Year": _part_of_time("YEAR"),
}
"""Class of an expression in Spark -> how it is translated."""

SUPPORTED = tuple(sorted(_EXPRESSIONS))
