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

    def to_json(self) -> str:
        """The report in the format of ``substrait-agg validate --format json``."""
        return reports_json((self,))

    def to_sarif(self) -> str:
        """The report as a SARIF 2.1.0 log, as ``substrait-agg validate --format sarif`` writes it."""
        from substrait_agg.report.sarif import reports_sarif  # noqa: PLC0415 - only who asks for it waits for it

        return reports_sarif((self,))

    def to_html(self) -> str:
        """The report as one HTML page, as ``substrait-agg validate --format html`` writes it."""
        from substrait_agg.report.html import reports_html  # noqa: PLC0415 - the same

        return reports_html((self,))


def reports_json(reports: Iterable[Report], *, complete: bool = True) -> str:
    """Several reports as one JSON document: ``{"valid": bool, "plans": [...]}``.

    Args:
        reports: of all plans.
        complete: whether every plan could be read; what could not be is not valid.
    """
    found = tuple(reports)
    valid = complete and all(r.ok for r in found)
    document = {"valid": valid, "plans": [r.as_dict() for r in found]}
    return json_document(document)


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
