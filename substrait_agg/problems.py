"""Collect the problems of a plan: each is a row of `problem_kinds.KINDS` at a place in the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from substrait_agg.problem_kinds import KINDS, Level, Mode


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of one plan.

    Attributes:
        code: code of the kind, a key of `KINDS`.
        level: severity in the mode in which the plan was checked.
        path: the place in the plan message.
        message: what is wrong.
        help: what to do about it.
        producer: the producer whose profile determines how the place is read; empty if none does.
        excerpt: the lines of SQL text that the problem is about, with carets; empty for a plan that
            does not come from SQL text.
    """

    code: str
    level: Level
    path: str
    message: str
    help: str
    producer: str = ""
    excerpt: str = ""

    def as_dict(self) -> Mapping[str, str]:
        """Return the problem as JSON-ready strings: code, level, path, message, help."""
        return {
            "code": self.code,
            "level": self.level,
            "path": self.path,
            "message": self.message,
            "help": self.help,
        }


MAX_WORD = 1_000
"""Longest name, type or list in a message, in characters.

Longer ones are shortened in the middle.
"""


def _shorten(value: object) -> str:
    text = str(value)
    if len(text) <= MAX_WORD:
        return text
    half = MAX_WORD // 2
    return f"{text[:half]} ... ({len(text) - 2 * half} characters) ... {text[-half:]}"


@dataclass(slots=True)
class Problems:
    """Collects problems. Stages continue after adding one, so that all problems are reported at once."""

    mode: Mode = "lenient"
    items: list[Problem] = field(default_factory=list)
    _known: set[Problem] = field(default_factory=set)

    def add(
        self, code: str, path: str, note: str = "", producer: str = "", /, **params: object
    ) -> None:
        """Report the kind `code` of `KINDS` at `path`.

        Args:
            code: one of `KINDS`.
            path: the place in the plan message.
            note: remark about the plan's producer, appended to the message.
            producer: the producer whose profile the note comes from.
            params: values for the templates of message and help; ``producer`` among them also sets
                the producer of the problem.
        """
        kind = KINDS[code]
        level = kind.level(self.mode)
        words = {name: _shorten(value) for name, value in params.items()}
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
        """Add a problem, unless an equal one was added before."""
        if problem not in self._known:
            self._known.add(problem)
            self.items.append(problem)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Return the problems that prevent the plan from running."""
        return tuple(p for p in self.items if p.level == "error")
