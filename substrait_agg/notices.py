"""What went wrong and does not end a run: told once, with a code, through the logger ``substrait_agg``."""

from __future__ import annotations

import logging
from dataclasses import dataclass

LOGGER = logging.getLogger("substrait_agg")


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning of a run: as an error of `substrait_agg.errors`, but nobody has to catch it."""

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
    """Log a warning; its record has the `Notice` as its message, and the traceback of `error` where one is given."""
    LOGGER.warning(Notice(code, message, help, path), exc_info=error)
