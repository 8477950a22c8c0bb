"""A row of the table of problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

Level = OneOf["error", "warning", "info"]
Mode = OneOf["lenient", "strict"]
Area = OneOf["plans", "relations", "expressions", "aggregates"]
MODES: tuple[Mode, ...] = ("lenient", "strict")
LEVELS: tuple[Level, ...] = ("error", "warning", "info")
"""From the worst to the mildest."""


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A kind of problem.

    Attributes:
        area: the part of the table it stands in.
        code: stable word, such as ``DISTINCT_NOT_SUPPORTED``.
        lenient: its level in lenient mode.
        strict: its level in strict mode.
        message: template of the message; its fields are the offending names and types.
        help: template of what to do about it.
        why: for the documents: what the rule is, whose it is (section of the specification), and what would go
            wrong without it.
    """

    area: Area
    code: str
    lenient: Level
    strict: Level
    message: str
    help: str
    why: str

    def level(self, mode: Mode) -> Level:
        """How bad the problem is in `mode`."""
        return self.strict if mode == "strict" else self.lenient


def kinds(area: Area, *rows: tuple[str, Level, Level, str, str, str]) -> tuple[ProblemKind, ...]:
    """The rows of one area: code, level when lenient, level when strict, message, help, why."""
    return tuple(ProblemKind(area, *row) for row in rows)
