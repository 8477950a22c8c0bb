"""Define a row of the table of problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

Level = OneOf["error", "warning", "info"]
Mode = OneOf["lenient", "strict"]
Area = OneOf["plans", "relations", "expressions", "aggregates"]
MODES: tuple[Mode, ...] = ("lenient", "strict")
LEVELS: tuple[Level, ...] = ("error", "warning", "info")
"""From the most to the least severe."""


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A kind of problem.

    Attributes:
        area: the part of the table that contains it.
        code: stable word, such as ``DISTINCT_NOT_SUPPORTED``.
        lenient: its level in lenient mode.
        strict: its level in strict mode.
        message: template of the message; its fields are the offending names and types.
        help: template of what to do about it.
        why: text for the documents: the rule, its source (section of the specification), and the
            consequences without it.
    """

    area: Area
    code: str
    lenient: Level
    strict: Level
    message: str
    help: str
    why: str

    def level(self, mode: Mode) -> Level:
        """Return the level of the problem in `mode`."""
        return self.strict if mode == "strict" else self.lenient


def kinds(area: Area, *rows: tuple[str, Level, Level, str, str, str]) -> tuple[ProblemKind, ...]:
    """Return the rows of one area: code, lenient level, strict level, message, help, reason."""
    return tuple(ProblemKind(area, *row) for row in rows)
