"""What validation found in a plan: what every form of a report is made from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from substrait_agg.problems import Problem


@dataclass(frozen=True)
class Report:
    """What validation found in one plan.

    Attributes:
        plan: the name the plan was given by (its file), or empty.
        problems: in plan order; every one, not only the first.
        content: the plan as it was given, protobuf or protobuf-JSON.
    """

    plan: str
    problems: tuple[Problem, ...]
    content: bytes = field(default=b"", repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether the plan can be run: no problem is an error."""
        return not any(p.level == "error" for p in self.problems)

    def as_dict(self) -> Mapping[str, Any]:
        """The report as JSON-ready values: plan, valid, problems."""
        return {
            "plan": self.plan,
            "valid": self.ok,
            "problems": [p.as_dict() for p in self.problems],
        }

    def to_json(self) -> str:
        """The report in the format of ``substrait-agg validate --format json``."""
        return reports_json((self,))


def reports_json(reports: Iterable[Report]) -> str:
    """Several reports as one JSON document: ``{"valid": bool, "plans": [...]}``."""
    found = tuple(reports)
    document = {"valid": all(r.ok for r in found), "plans": [r.as_dict() for r in found]}
    return json.dumps(document, indent=2, ensure_ascii=False)
