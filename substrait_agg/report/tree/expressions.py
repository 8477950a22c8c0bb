"""Format expressions and measures of a plan's message as short texts, with the plan's own names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from substrait_agg.bind.show import case_text, cast_text, in_text, nested_text
from substrait_agg.escape import clip
from substrait_agg.functions.scalars.catalogue import SCALARS
from substrait_agg.plan.messages.node import MessageNode
from substrait_agg.plan.messages.schema import enum_names
from substrait_agg.report.tree.columns import Columns, Names, body_of
from substrait_agg.report.tree.constants import literal_text, type_text

MAX_PIECES = 48
"""Nested expressions that a text shows; further ones are an ellipsis."""

MAX_NAME = 60
"""Longest name of a column or function, in characters."""

MAX_LENGTH = 160
"""Longest text, in characters."""

_DISTINCT = 2
_DIRECTIONS = {
    1: "ascending, nulls first", 2: "ascending, nulls last", 3: "descending, nulls first",
    4: "descending, nulls last", 5: "clustered",
}  # fmt: skip


class Speech:
    """Formats the messages of one plan, within limits of depth, breadth and length."""

    def __init__(self, plan: MessageNode) -> None:
        self.functions = function_names(plan)
        self.columns = Columns(self.column_name)

    def say(self, node: MessageNode) -> str:
        """Return an ``Expression``, ``AggregateFunction``, ``Measure`` or ``SortField`` message as text."""
        return clip(_Saying(self, self.columns.visible_columns(node)).any(node), MAX_LENGTH)

    def column_name(self, node: MessageNode) -> str:
        """Return a column name for an expression or measure; empty if it would be too long."""
        text = self.say(node)
        return text if len(text) <= MAX_NAME else ""

    def function(self, anchor: int) -> str:
        """Return the name of a function without its signature; its anchor if it is not declared."""
        name = self.functions.get(anchor, "").partition(":")[0]
        return clip(name, MAX_NAME) or f"function {anchor}"


class _Saying:
    """Formats one text and counts its nested expressions."""

    def __init__(self, speech: Speech, names: Names) -> None:
        self.speech = speech
        self.names = names
        self.left = MAX_PIECES

    def any(self, node: MessageNode | None) -> str:
        """Return the text of a message of any kind."""
        self.left -= 1
        if node is None:
            return "nothing"
        if self.left < 0:
            return "…"
        maker = _SAYINGS.get(node.shape.name)
        return node.shape.name.rpartition(".")[2].lower() if maker is None else maker(self, node)

    def expression(self, node: MessageNode) -> str:
        """Return an ``Expression`` as text."""
        member = next(iter(node.values.items()), None)
        if member is None:
            return "nothing"
        name, value = member
        return self.any(value) if isinstance(value, MessageNode) else f"{name} {value}"

    def inside(self, node: MessageNode | None) -> str:
        """Return an operand as text, in parentheses if it contains operators."""
        text = self.any(node)
        return f"({text})" if node is not None and self._has_operators(node) else text

    def _has_operators(self, node: MessageNode) -> bool:
        """Return whether an expression's text is more than one word or call."""
        at: Any = node
        for name in ("value", "scalar_function"):
            at = at.values.get(name, at)
        if at.shape.name != "Expression.ScalarFunction":
            return "singular_or_list" in at.values
        name = self.speech.function(at.values.get("function_reference", 0))
        return name in SCALARS and bool(SCALARS[name].symbol)

    def all(self, nodes: list[MessageNode]) -> str:
        """Return texts separated by commas; an ellipsis replaces those that do not fit."""
        texts: list[str] = []
        for node in nodes:
            if self.left <= 0:
                texts.append(f"… {len(nodes) - len(texts):,} more")
                break
            texts.append(self.any(node))
        return ", ".join(texts)

    def argument(self, node: MessageNode) -> str:
        """Return a ``FunctionArgument`` as text: its expression, type or enum value."""
        if "enum" in node.values:
            return clip(node.values["enum"], MAX_NAME)
        return self.any(node.values.get("value") or node.values.get("type"))

    def call(self, node: MessageNode) -> str:
        """Return a ``ScalarFunction`` as text, with operators as in SQL."""
        name = self.speech.function(node.values.get("function_reference", 0))
        operands: list[MessageNode] = node.values.get("arguments") or node.values.get("args", [])
        row = SCALARS.get(name)
        if row is not None and row.symbol and len(operands) <= MAX_PIECES:
            written = row.write([self.inside(operand) for operand in operands])
            if written:
                return written
        return f"{name}({self.all(operands)})"

    def aggregate(self, node: MessageNode) -> str:
        """Return an aggregate or window function as text, with DISTINCT and ORDER BY."""
        name = self.speech.function(node.values.get("function_reference", 0))
        operands: list[MessageNode] = node.values.get("arguments") or node.values.get("args", [])
        inside = self.all(operands) or ("*" if name == "count" else "")
        if node.values.get("invocation") == _DISTINCT:
            inside = f"DISTINCT {inside}"
        if node.values.get("sorts"):
            inside = f"{inside} ORDER BY {self.all(node.values['sorts'])}"
        over = " OVER (…)" if node.shape.name != "AggregateFunction" else ""
        return f"{name}({inside}){over}"

    def measure(self, node: MessageNode) -> str:
        """Return a ``Measure`` as text: its function and its filter."""
        text = self.any(node.values.get("measure"))
        condition = node.values.get("filter")
        return f"{text} FILTER (WHERE {self.any(condition)})" if condition is not None else text

    def sort(self, node: MessageNode) -> str:
        """Return a ``SortField`` as text."""
        text = self.any(node.values.get("expr"))
        if "comparison_function_reference" in node.values:
            compared = self.speech.function(node.values["comparison_function_reference"])
            return f"{text} compared by {compared}"
        return f"{text} {_DIRECTIONS.get(node.values.get('direction', 0), 'in no direction')}"

    def reference(self, node: MessageNode) -> str:
        """Return a ``FieldReference`` as text: the column's name if it is known, else ``#ordinal``."""
        segment = node.values.get("direct_reference")
        if segment is None:
            return "masked columns" if "masked_reference" in node.values else "a reference"
        path, at = self._steps(segment)
        if "expression" in node.values:
            return f"{self.inside(node.values['expression'])}{path}"
        for kind, word in (("outer_reference", "outer"), ("lambda_parameter_reference", "lambda")):
            if kind in node.values:
                return f"{word}{path}"
        if at is None:
            return f"row{path}"
        name = self.names[at] if 0 <= at < len(self.names) else ""
        rest = path.partition("]")[2]
        return f"{clip(name, MAX_NAME) or f'#{at}'}{rest}"

    def _steps(self, segment: MessageNode | None) -> tuple[str, int | None]:
        """Return the steps of a reference as text, and the ordinal of the first if it is a field."""
        steps: list[str] = []
        first: int | None = None
        while segment is not None and len(steps) < 6:
            body = body_of(segment)
            if body is None:
                break
            key: Any = body.values.get("map_key")
            at = body.values.get("field", body.values.get("offset", 0))
            if not steps and body.shape.name.endswith("StructField"):
                first = at
            steps.append(f"[{at if key is None else literal_text(key)}]")
            segment = body.values.get("child")
        return "".join(steps) + ("…" if segment is not None else ""), first

    def cast(self, node: MessageNode) -> str:
        """Return a ``Cast`` as text."""
        type_ = node.values.get("type")
        target = "no type" if type_ is None else type_text(type_)
        return cast_text(self.any(node.values.get("input")), target)

    def conditional(self, node: MessageNode) -> str:
        """Return an ``IfThen`` or ``SwitchExpression`` as text."""
        match = self.any(node.values["match"]) if "match" in node.values else ""
        whens = [
            (self.any(clause.values.get("if")), self.any(clause.values.get("then")))
            for clause in node.values.get("ifs", ())[: max(self.left, 0)]
        ]
        otherwise = self.any(node.values["else"]) if "else" in node.values else ""
        return case_text(whens, otherwise, match)

    def in_list(self, node: MessageNode) -> str:
        """Return a ``SingularOrList`` as text."""
        value = self.inside(node.values.get("value"))
        return in_text(value, self.all(node.values.get("options", [])))

    def write_nested(self, node: MessageNode) -> str:
        """Return a ``Nested`` message as text: a list, struct or map of expressions."""
        kind = next((k for k in ("struct", "list", "map") if k in node.values), None)
        if kind is None:
            return "NESTED"
        inner = node.values[kind].values
        parts = [*inner.get("fields", ()), *inner.get("values", ())]
        pairs = list(inner.get("key_values", ()))[: max(self.left, 0)]
        parts += [p.values.get(name) for p in pairs for name in ("key", "value")]
        return nested_text(kind, self.all(parts))


_SAYINGS: Mapping[str, Callable[[_Saying, MessageNode], str]] = {
    "Expression": _Saying.expression,
    "Expression.Literal": lambda _, node: literal_text(node),
    "Expression.FieldReference": _Saying.reference,
    "Expression.ScalarFunction": _Saying.call,
    "Expression.WindowFunction": _Saying.aggregate,
    "Expression.Cast": _Saying.cast,
    "Expression.IfThen": _Saying.conditional,
    "Expression.SwitchExpression": _Saying.conditional,
    "Expression.SingularOrList": _Saying.in_list,
    "Expression.Nested": _Saying.write_nested,
    "Expression.Enum": lambda _, node: clip(node.values.get("specified", "unspecified"), MAX_NAME),
    "FunctionArgument": _Saying.argument,
    "AggregateFunction": _Saying.aggregate,
    "AggregateRel.Measure": _Saying.measure,
    "ConsistentPartitionWindowRel.WindowRelFunction": _Saying.aggregate,
    "SortField": _Saying.sort,
    "Type": lambda _, node: type_text(node),
}


def enum_text(kind: str, value: int) -> str:
    """Return the name of an enum value with its number."""
    names = enum_names(kind)
    return f"{names[value]} ({value})" if value in names else f"{value}, which has no name"


def function_names(root: MessageNode) -> dict[int, str]:
    """Return names such as ``sum:dec`` by anchor, as a ``Plan`` message declares them.

    The first declaration of an anchor counts. The fields stay marked as unread by the decoder.
    """
    names: dict[int, str] = {}
    for declaration in root.values.get("extensions", ()):
        function = declaration.values.get("extension_function")
        if function is not None:
            anchor = function.values.get("function_anchor", 0)
            names.setdefault(anchor, function.values.get("name", ""))
    return names
