"""The problems of a plan: collected by the stages as they go on, each a row of `problem_kinds.KINDS` at a place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from substrait_agg.problem_kinds import KINDS, MODES, Level, Mode, ProblemKind

__all__ = ["KINDS", "MODES", "Level", "Mode", "Problem", "ProblemKind", "Problems"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of one plan.

    Attributes:
        code: of its kind, a key of `KINDS`.
        level: how bad it is in the mode that the plan was checked in.
        path: the place in the plan message.
        message: what is wrong.
        help: what to do about it.
        producer: the producer whose profile says how the place is read; empty where no profile does.
    """

    code: str
    level: Level
    path: str
    message: str
    help: str
    producer: str = ""

    def as_dict(self) -> Mapping[str, str]:
        """The problem as JSON-ready strings: code, level, path, message, help."""
        return {
            "code": self.code,
            "level": self.level,
            "path": self.path,
            "message": self.message,
            "help": self.help,
        }


MAX_WORD = 1_000
"""Characters of one name, type or list in a message; of longer ones the beginning and the end are shown."""


def _shortened(value: object) -> str:
    text = str(value)
    if len(text) <= MAX_WORD:
        return text
    half = MAX_WORD // 2
    return f"{text[:half]} ... ({len(text) - 2 * half} characters) ... {text[-half:]}"


@dataclass(slots=True)
class Problems:
    """Collects problems; stages add to it and go on, so that all are reported at once."""

    mode: Mode = "lenient"
    found: list[Problem] = field(default_factory=list)
    _known: set[Problem] = field(default_factory=set)

    def add(
        self, code: str, path: str, note: str = "", producer: str = "", /, **params: object
    ) -> None:
        """Report the kind `code` of `KINDS` at `path`.

        Args:
            code: one of `KINDS`.
            path: the place in the plan message.
            note: what is particular to the plan's producer, appended to the message.
            producer: the producer whose profile the note comes from.
            params: fill the templates of message and help; one named ``producer`` counts as above.
        """
        kind = KINDS[code]
        level = kind.level(self.mode)
        words = {name: _shortened(value) for name, value in params.items()}
        message = kind.message.format(**words)
        problem = Problem(
            code,
            level,
            path,
            f"{message}, {note}" if note else message,
            kind.help.format(**words),
            producer or words.get("producer", ""),
        )
        self.copy(problem)

    def copy(self, problem: Problem) -> None:
        """Add a problem as it is, unless it is known."""
        if problem not in self._known:
            self._known.add(problem)
            self.found.append(problem)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Those that stop the plan from running."""
        return tuple(p for p in self.found if p.level == "error")
