"""The result of validating a plan, as data for every format of a report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from substrait_agg.problems import Problem


@dataclass(frozen=True)
class PlanProblems:
    """The problems of one plan.

    Attributes:
        plan: name of the plan (its file), or empty.
        problems: all problems, in plan order.
        content: the plan as it was given, protobuf or protobuf-JSON; empty if it is too large to be
            read.
        hidden: problems not shown because their codes were not selected; they still count for `ok`.
    """

    plan: str
    problems: tuple[Problem, ...]
    content: bytes = field(default=b"", repr=False, compare=False)
    hidden: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether the plan can be run: no problem, shown or hidden, is an error."""
        return not any(p.level == "error" for p in (*self.problems, *self.hidden))

    def as_dict(self) -> Mapping[str, Any]:
        """Return the report as JSON-ready values: plan, valid, problems."""
        return {
            "plan": self.plan,
            "valid": self.ok,
            "problems": [p.as_dict() for p in self.problems],
        }


def json_document(document: Mapping[str, Any]) -> str:
    """Return JSON text that can be encoded in UTF-8; lone surrogates are escaped."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return text if _encodable(text) else json.dumps(document, indent=2)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
