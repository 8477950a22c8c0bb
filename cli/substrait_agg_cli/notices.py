"""Show warnings on stderr, in the form of errors."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from substrait_agg.notices import LOGGER, Notice
from substrait_agg_cli.terminal import show

if TYPE_CHECKING:
    from substrait_agg_cli.progress import ProgressMeter


class _NoticeHandler(logging.Handler):
    """A handler that shows notices immediately, or stores them until the terminal is free."""

    def __init__(self, meter: ProgressMeter | None, *, later: bool) -> None:
        super().__init__()
        self._meter = meter
        self._later = later
        self._kept: list[Notice] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Show or store the notice of a record."""
        notice = record.msg
        if not isinstance(notice, Notice):
            notice = Notice(record.levelname, record.getMessage())
        if self._later:
            self._kept.append(notice)
        else:
            self._show(notice)

    def _show(self, notice: Notice) -> None:
        if self._meter is not None:
            self._meter.end()
        show("warning", notice.code, notice.path, notice.message, notice.help)

    def show_stored(self) -> None:
        """Show the stored notices."""
        while self._kept:
            self._show(self._kept.pop(0))


@contextmanager
def notices_shown(meter: ProgressMeter | None = None, *, later: bool = False) -> Iterator[None]:
    """Show the notices of a block on stderr.

    Args:
        meter: the display of progress on stderr, if any.
        later: show them at the end of the block, because an output draws on the terminal until
            then.
    """
    handler = _NoticeHandler(meter, later=later)
    before = LOGGER.propagate
    LOGGER.addHandler(handler)
    LOGGER.propagate = False
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.propagate = before
        handler.show_stored()
