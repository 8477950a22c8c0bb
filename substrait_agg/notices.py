"""Warnings about problems that do not end a run, logged through the logger ``substrait_agg``."""

from __future__ import annotations

import logging
from dataclasses import dataclass

LOGGER = logging.getLogger("substrait_agg")


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning with the parts of an error of `substrait_agg.errors`, logged and not raised."""

    code: str
    message: str
    help: str = ""
    path: str = ""

    def __str__(self) -> str:
        where = f" at {self.path}" if self.path else ""
        help = f" ({self.help})" if self.help else ""
        return f"[{self.code}]{where}: {self.message}{help}"


def notice(
    code: str, message: str, *, help: str = "", path: str = "", error: BaseException | None = None
) -> None:
    """Log a warning.

    Args:
        code: stable code such as ``LISTENER_FAILED``.
        message: what is wrong.
        help: what the user can do about it.
        path: the place the warning is about.
        error: exception whose traceback is logged, if any.
    """
    LOGGER.warning(Notice(code, message, help, path), exc_info=error)
