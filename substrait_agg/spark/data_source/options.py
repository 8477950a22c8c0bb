"""The options of the data source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal as OneOf

from substrait_agg.errors import UsageError

KNOWN = {
    "path": "folder or URL of the checkpoint",
    "view": "name of the view, where a checkpoint has several",
    "version": "the version whose rows are read; the newest by default",
    "changes": "read changes instead of rows: all, those after a version, or the rows as insertions",
    "until": "the last version of the changes",
    "numPartitions": "number of partitions; by default one per core, of a million to eight million rows",
    "maxVersionsPerTrigger": "most versions in a micro-batch of a stream",
}
"""Options of the data source. Spark ignores the case of their names."""

Content = OneOf["rows", "changes", "rows as changes"]
"""What a read returns.

``rows``: the rows of a version. ``changes``: the changes after a version. ``rows as changes``: the
rows of a version as insertions; a stream then returns the changes after that version.
"""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a read.

    Attributes:
        path: folder or URL of the checkpoint.
        view: name of the view; None means the only view.
        content: what is read.
        version: the version whose rows are read; None means the newest.
        since: the changes after this version are read; None means all.
        until: the last version of the changes; None means the newest.
        partitions: number of partitions; None chooses one by the number of rows.
        versions_per_batch: most versions in a micro-batch of a stream; None means all.
    """

    path: str
    view: str | None
    content: Content
    version: int | None
    since: int | None
    until: int | None
    partitions: int | None
    versions_per_batch: int | None

    @staticmethod
    def of(raw: Mapping[str, str]) -> ReadOptions:
        """Read the options as Spark passes them.

        Raises:
            UsageError: OPTION_INVALID for an unknown option, a missing path or an invalid value,
                OPTION_CONFLICT.
        """
        spellings = {name.lower(): name for name in KNOWN}
        options = {spellings.get(name.lower(), name): value for name, value in raw.items()}
        unknown = sorted(options.keys() - KNOWN.keys())
        if unknown:
            raise _invalid(unknown[0], "is not an option of substrait_agg")
        if not options.get("path"):
            raise _invalid("path", "is missing: give the folder of a checkpoint to load()")
        content, since = _content(options.get("changes"))
        for name in _WITHOUT[content]:
            if name in options:
                raise _conflict(name, options.get("changes"))
        return ReadOptions(
            options["path"],
            options.get("view"),
            content,
            _number(options, "version", 0),
            since,
            _number(options, "until", 0),
            _number(options, "numPartitions", 1),
            _number(options, "maxVersionsPerTrigger", 1),
        )


_WITHOUT: dict[Content, tuple[str, ...]] = {
    "rows": ("until", "maxVersionsPerTrigger"),
    "changes": ("version",),
    "rows as changes": ("until",),
}
"""What is read -> the options that have no meaning then."""


def _content(changes: str | None) -> tuple[Content, int | None]:
    if changes is None:
        return "rows", None
    if changes == "rows":
        return "rows as changes", None
    # The changes after version -1 are those of version 0 and later.
    return "changes", None if changes == "all" else _parse("changes", changes, -1)


def _number(options: Mapping[str, str], name: str, least: int) -> int | None:
    return _parse(name, options[name], least) if name in options else None


def _parse(name: str, text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise _invalid(name, f"cannot be {text!r}") from None
    if number < least:
        raise _invalid(name, f"must be at least {least}, not {number}")
    return number


def _invalid(name: str, reason: str) -> UsageError:
    help = f"the options are {', '.join(KNOWN)}; changes is all, rows or the number of a version"
    return UsageError("OPTION_INVALID", f"{name} {reason}", help=help, path=name)


def _conflict(name: str, changes: str | None) -> UsageError:
    read = "rows are read" if changes is None else f"changes is {changes}"
    message = f"{name} has no meaning where {read}"
    help = "remove one of them; docs/reading-views.md lists the options of each kind of read"
    return UsageError("OPTION_CONFLICT", message, help=help, path=name)
