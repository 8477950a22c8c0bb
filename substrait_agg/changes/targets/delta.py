"""Parse the target of an output ``delta=PATH[?mode=changes|view]``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from substrait_agg.changes.targets.options import bad_target, parse_options
from substrait_agg.redaction import redacted_place, remember

CHANGES, VIEW = "changes", "view"


@dataclass(frozen=True, slots=True)
class DeltaTarget:
    """A Delta table that an output writes.

    Attributes:
        location: the path of a folder, or a URL.
        mode: ``changes`` to append the changes of every version, ``view`` to keep the rows of the
            newest.
    """

    location: str = field(repr=False)
    mode: str = CHANGES

    @property
    def local_path(self) -> Path | None:
        """Return the folder of the table; None for a URL."""
        return None if "://" in self.location else Path(self.location)

    @property
    def absolute(self) -> DeltaTarget:
        """Return the target with an absolute path: the working folder may change before a write."""
        path = self.local_path
        return self if path is None else DeltaTarget(str(path.absolute()), self.mode)

    @property
    def identity(self) -> str:
        """Return a text that names the table; a path is absolute."""
        path = self.local_path
        return redacted_place(self.location if path is None else str(path.absolute()))

    def __str__(self) -> str:
        return redacted_place(self.location) + (f"?mode={VIEW}" if self.mode == VIEW else "")


def parse_delta(text: str) -> DeltaTarget:
    """Parse ``PATH[?mode=changes|view]``.

    >>> str(parse_delta("lake/totals?mode=view"))
    'lake/totals?mode=view'

    Raises:
        UsageError: OPTION_INVALID; messages do not quote values.
    """
    location, _, query = text.partition("?")
    if location in ("", "-"):
        raise bad_target("it needs the folder of a table", "write delta=DIR", "delta")
    options = dict(parse_options(query, "delta"))
    mode = options.pop("mode", CHANGES)
    for key in options:
        raise bad_target(f"option {key} is not known", "use mode", "delta")
    if mode not in (CHANGES, VIEW):
        raise bad_target("mode is not one of changes, view", "write ?mode=view", "delta")
    remember([("", location)])
    return DeltaTarget(location.removeprefix("file://"), mode)
