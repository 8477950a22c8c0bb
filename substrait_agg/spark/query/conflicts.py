"""A run beside another one: what it stumbles on then is the other one, not damage."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.errors import CommitConflict


class Contender(Protocol):
    """Can tell what is behind an error."""

    def conflict(self, error: BaseException) -> CommitConflict | None:
        """That another run has gone on; None where none has, or the error says so itself."""


def conflict_behind(store: Checkpoint, version: int, error: BaseException) -> CommitConflict | None:
    """What is behind an error that making `version` ended with: another run has gone on; None where none has, or it says so itself."""
    # A version whose outcome is not known may be there, and be ours.
    known = isinstance(error, CommitConflict) or getattr(error, "code", "") == "COMMIT_UNKNOWN"
    return None if known else store.conflict(version)


C = TypeVar("C", bound=Contender)
P = ParamSpec("P")


def alone(method: Callable[Concatenate[C, P], None]) -> Callable[Concatenate[C, P], None]:
    """What fails because another run has gone on and swept away what this one needs is a conflict, not damage."""

    @wraps(method)
    def checked(self: C, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            conflict = self.conflict(error)
            if conflict is None:
                raise
            raise conflict from error

    return checked
