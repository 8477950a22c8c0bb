"""Declare and call functions in a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from substrait import algebra_pb2

from substrait_agg.functions.windows import WINDOWS, WINDOWS_URN
from substrait_agg.sql_planner.corrections.messages import messages

CALLS = frozenset(
    f"substrait.{name}"
    for name in (
        "AggregateFunction",
        "Expression.ScalarFunction",
        "Expression.WindowFunction",
        "ConsistentPartitionWindowRel.WindowRelFunction",
    )
)
"""Messages that call a function by its ``function_reference``."""

_NO_URN = 2**32 - 1
"""DataFusion's reference to the URN of a function that belongs to no extension."""


class Functions:
    """The functions that a plan declares; those that are called anew are declared too."""

    def __init__(self, plan: Any) -> None:
        self._plan = plan
        declared = [e.extension_function for e in plan.extensions]
        self._names: dict[int, str] = {f.function_anchor: f.name for f in declared}

    def name(self, call: Any) -> str:
        """Return the name of the function that a message calls, "" if it is not declared."""
        return self._names.get(call.function_reference, "")

    def scalar(self, expression: Any) -> str:
        """Return the name of the scalar function that an expression calls, "" if it calls none."""
        return self.name(expression.scalar_function) if expression.HasField("scalar_function") else ""  # fmt: skip

    def anchor(self, name: str) -> int:
        """Return the anchor of a function; declare the function if it is not declared."""
        anchor = next((a for a, declared in self._names.items() if declared == name), None)
        if anchor is None:
            anchor = 1 + max(self._names, default=0)
            self._names[anchor] = name
            declaration = self._plan.extensions.add().extension_function
            declaration.function_anchor, declaration.name = anchor, name
            declaration.extension_urn_reference = _NO_URN
        return anchor

    def call(self, name: str, *arguments: Any) -> Any:
        """Return a call of a scalar function."""
        expression = algebra_pb2.Expression()
        expression.scalar_function.function_reference = self.anchor(name)
        for argument in arguments:
            expression.scalar_function.arguments.add().value.CopyFrom(argument)
        return expression

    def conjuncts(self, condition: Any) -> Iterator[Any]:
        """Yield the parts of a condition that AND connects, in their order."""
        if self.scalar(condition) != "and":
            yield condition
            return
        for argument in condition.scalar_function.arguments:
            yield from self.conjuncts(argument.value)


def declare_windows(plan: Any) -> None:
    """Declare the window functions under the URN of their extension."""
    used = [e.extension_function for e in plan.extensions if e.extension_function.name in WINDOWS]
    if not used:
        return
    anchor = 1 + max((u.extension_urn_anchor for u in plan.extension_urns), default=0)
    urn = plan.extension_urns.add()
    urn.extension_urn_anchor, urn.urn = anchor, f"extension:{WINDOWS_URN}"
    for function in used:
        function.extension_urn_reference = anchor


def number_functions(plan: Any) -> None:
    """Number the declared functions in the order of their calls. DataFusion has no fixed order."""
    declared = {
        e.extension_function.function_anchor: e
        for e in plan.extensions
        if e.HasField("extension_function")
    }
    numbers: dict[int, int] = {}
    for call in messages(plan, *CALLS):
        number = numbers.setdefault(call.function_reference, len(numbers) + 1)
        call.function_reference = number
    numbered = []
    for anchor, number in numbers.items():
        declaration = type(declared[anchor]).FromString(declared[anchor].SerializeToString())
        declaration.extension_function.function_anchor = number
        numbered.append(declaration)
    others = [e for e in plan.extensions if not e.HasField("extension_function")]
    del plan.extensions[:]
    plan.extensions.extend([*others, *numbered])
