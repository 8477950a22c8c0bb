"""The problems of a plan: collected by the stages as they go on, each a row of `problem_kinds.KINDS` at a place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from substrait_agg.problem_kinds import KINDS, MODES, Level, Mode, ProblemKind

__all__ = ["KINDS", "MODES", "Level", "Mode", "Problem", "ProblemKind", "Problems"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of one plan: `path` names the place in the plan message."""

    code: str
    level: Level
    path: str
    message: str
    help: str

    def as_dict(self) -> Mapping[str, str]:
        """The problem as JSON-ready strings: code, level, path, message, help."""
        return {
            "code": self.code,
            "level": self.level,
            "path": self.path,
            "message": self.message,
            "help": self.help,
        }


@dataclass(slots=True)
class Problems:
    """Collects problems; stages add to it and go on, so that all are reported at once."""

    mode: Mode = "lenient"
    found: list[Problem] = field(default_factory=list)

    def add(self, code: str, path: str, **params: object) -> None:
        """Report the kind `code` of `KINDS` at `path`; `params` fill the message template."""
        kind = KINDS[code]
        level = kind.level(self.mode)
        problem = Problem(
            code, level, path, kind.message.format(**params), kind.help.format(**params)
        )
        if problem not in self.found:
            self.found.append(problem)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Those that stop the plan from running."""
        return tuple(p for p in self.found if p.level == "error")
