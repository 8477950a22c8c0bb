"""Report errors caused by a concurrent run as conflicts, not as damage."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.errors import CommitConflict


class Contender(Protocol):
    """An object that can attribute an error to a concurrent run."""

    def conflict(self, error: BaseException) -> CommitConflict | None:
        """Return the conflict that caused an error.

        None if no other run has committed, or if the error already says so.
        """


def conflict_behind(store: Checkpoint, version: int, error: BaseException) -> CommitConflict | None:
    """Return the conflict that caused an error while `version` was made.

    None if no other run has committed, or if the error already says so.
    """
    # After COMMIT_UNKNOWN the version may exist and be our own.
    is_final = isinstance(error, CommitConflict) or getattr(error, "code", "") == "COMMIT_UNKNOWN"
    return None if is_final else store.conflict(version)


C = TypeVar("C", bound=Contender)
P = ParamSpec("P")


def alone(method: Callable[Concatenate[C, P], None]) -> Callable[Concatenate[C, P], None]:
    """Make a method raise a conflict if it fails because another run has committed.

    The other run may have deleted files that this one needs.
    """

    @wraps(method)
    def check(self: C, /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call the method; raise the conflict behind its error, if there is one."""
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            conflict = self.conflict(error)
            if conflict is None:
                raise
            raise conflict from error

    return check
