"""Find the place in SQL text that a problem of its plan is about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from google.protobuf.message import Message
from substrait import plan_pb2

from substrait_agg.problems import Problem
from substrait_agg.sql_planner.query.tokens import QueryText, Token, place_at

_STEP = re.compile(r"(\w+)(?:\[(\d+)\])?")

KEYWORDS: dict[str, tuple[str, ...]] = {
    "JoinRel": ("join", "exists", "in"),
    "CrossRel": ("join", "cross"),
    "FetchRel": ("limit", "offset", "fetch"),
    "SortRel": ("order",),
    "SetRel": ("union", "except", "intersect"),
    "ConsistentPartitionWindowRel": ("over",),
    "Expression.WindowFunction": ("over",),
    "Expression.Cast": ("cast", "try_cast"),
    "AggregateRel": ("group", "distinct"),
    "FilterRel": ("where", "having"),
}
"""Message of a plan -> keywords that it can come from."""

SPELLINGS = {
    "modulus": ("%",), "concat_ws": ("concat_ws",), "is_null": ("null",), "like": ("like", "ilike"),
    "regexp_like": ("~",), "regex_match": ("~", "regexp_like"), "make_array": ("array", "["), "array_element": ("[",), "string_concat": ("||",),
}  # fmt: skip
"""Function in a plan -> how SQL writes it, if not by its name."""


@dataclass(frozen=True)
class SqlOrigin:
    """The SQL text that a plan comes from."""

    query: QueryText
    content: bytes

    def located(self, problem: Problem) -> Problem:
        """Return a problem with a place in the SQL text, if one is known.

        The path is then that place, and the path in the plan is at the end of the message.
        """
        token = self._token(problem.path)
        if token is None:
            return problem
        place = place_at(self.query.script, token.start, token.end)
        message = f"{problem.message} (at {problem.path} of the plan)"
        path = place.path(self.query.file)
        return replace(problem, path=path, message=message, excerpt=place.excerpt)

    def mentions(self, table: str) -> bool:
        """Return whether the query has a name that can mean a table."""
        last = table.rpartition(".")[2].lower()
        return any(
            t.kind in ("word", "quoted") and t.name.lower() == last for t in self.query.tokens
        )

    @cached_property
    def _plan(self) -> Any:
        return plan_pb2.Plan.FromString(self.content)

    @cached_property
    def _functions(self) -> dict[int, str]:
        declared = (e.extension_function for e in self._plan.extensions)
        return {f.function_anchor: f.name.partition(":")[0] for f in declared}

    def _token(self, path: str) -> Token | None:
        """Return the token that the innermost message of a path comes from."""
        for message in reversed(list(self._messages(path))):
            for word in self._words(message):
                for token in self.query.tokens:
                    if token.kind != "string" and token.name == word:
                        return token
        return None

    def _messages(self, path: str) -> Iterator[Any]:
        """Yield the messages along a path of the plan, as far as the path exists."""
        message = self._plan
        for name, number in _STEP.findall(path):
            if name not in message.DESCRIPTOR.fields_by_name:
                return
            value = getattr(message, name)
            if number and int(number) < len(value):
                value = value[int(number)]
            if not isinstance(value, Message):
                return
            message = value
            yield message
        if message.DESCRIPTOR.full_name == "substrait.Expression" and message.WhichOneof(
            "rex_type"
        ):
            yield getattr(message, message.WhichOneof("rex_type"))

    def _words(self, message: Any) -> tuple[str, ...]:
        name = message.DESCRIPTOR.full_name.removeprefix("substrait.")
        words = KEYWORDS.get(name, ())
        if name == "ReadRel":
            return (*words, *(part.lower() for part in message.named_table.names[-1:]))
        if name.endswith("SimpleExtensionDeclaration.ExtensionFunction"):
            return _spellings(message.name)
        if "function_reference" in message.DESCRIPTOR.fields_by_name:
            return (*_spellings(self._functions.get(message.function_reference, "")), *words)
        return words


def _spellings(function: str) -> tuple[str, ...]:
    name = function.partition(":")[0].lower()
    return (name, *SPELLINGS.get(name, ()))
