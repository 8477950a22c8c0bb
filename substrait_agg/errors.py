"""The exceptions of the package; each derives from `SubstraitAggError` and has a stable code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from substrait_agg.problems import Problem

Word = TypeVar("Word", bound=str)


class SubstraitAggError(Exception):
    """Base class of all errors: a stable `code`, a message, and a `help` line that says what to do.

    Args:
        code: stable word such as ``SOURCE_MISSING``.
        message: what is wrong, with the names concerned.
        help: what the user can do about it.
        path: the place of the error (a path in the plan, a file, an option).
    """

    def __init__(self, code: str, message: str, *, help: str = "", path: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.help = help
        self.path = path

    def __str__(self) -> str:
        where = f" at {self.path}" if self.path else ""
        return f"[{self.code}]{where}: {self.message}"


class PlanRefused(SubstraitAggError):
    """The plan cannot be run; `problems` lists every reason, in plan order."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        errors = [p for p in problems if p.level == "error"]
        first = errors[0] if errors else problems[0]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(first.code, f"{first.message}{more}", help=first.help, path=first.path)
        self.problems = problems


class PlanUnreadable(PlanRefused):
    """The bytes or the text cannot be decoded as a Substrait plan."""


class SqlRefused(SubstraitAggError):
    """SQL text cannot be planned.

    Attributes:
        line: number of the line, from 1; 0 if the place is not known.
        column: number of the character in the line, from 1; 0 if the place is not known.
        excerpt: the line with carets under the place; empty if the place is not known.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        help: str = "",
        path: str = "",
        line: int = 0,
        column: int = 0,
        excerpt: str = "",
    ) -> None:
        super().__init__(code, message, help=help, path=path)
        self.line = line
        self.column = column
        self.excerpt = excerpt

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.excerpt}".rstrip()


class InputRefused(SubstraitAggError):
    """A source was not given, does not exist, or does not fit the plan's schema."""


class StateRefused(SubstraitAggError):
    """A checkpoint belongs to another plan, is damaged, or has an unknown format."""


class CommitConflict(SubstraitAggError):
    """Another run published the next version of this checkpoint first."""


class RunFailed(SubstraitAggError):
    """A batch could not be computed; nothing of it was committed."""


class UsageError(SubstraitAggError):
    """The call is invalid: an option, a SPEC, a file name."""


def checked_choice(word: str, words: Sequence[Word], option: str) -> Word:
    """Return the known word that equals the value of an option.

    Raises:
        UsageError: OPTION_INVALID.
    """
    for candidate in words:
        if word == candidate:
            return candidate
    message = f"{option} {word!r} is not one of {', '.join(words)}"
    raise UsageError("OPTION_INVALID", message, help="choose one of them", path=option)
