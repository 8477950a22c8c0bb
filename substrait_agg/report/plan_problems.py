"""The problems that validation found in a plan, as data that every form of a report is made from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from substrait_agg.problems import Problem


@dataclass(frozen=True)
class PlanProblems:
    """What validation found in one plan.

    Attributes:
        plan: the name the plan was given by (its file), or empty.
        problems: in plan order; every one, not only the first.
        content: the plan as it was given, protobuf or protobuf-JSON; empty where it is too large to be read.
        hidden: problems that are not shown because their codes were not asked for; the plan has them all the same.
    """

    plan: str
    problems: tuple[Problem, ...]
    content: bytes = field(default=b"", repr=False, compare=False)
    hidden: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the plan can be run: no problem is an error, shown or not."""
        return not any(p.level == "error" for p in (*self.problems, *self.hidden))

    def as_dict(self) -> Mapping[str, Any]:
        """The report as JSON-ready values: plan, valid, problems."""
        return {
            "plan": self.plan,
            "valid": self.ok,
            "problems": [p.as_dict() for p in self.problems],
        }


def json_document(document: Mapping[str, Any]) -> str:
    """JSON text that UTF-8 can hold: names with half a character in them are escaped."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return text if _encodable(text) else json.dumps(document, indent=2)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
