"""Parse the target of an output ``spark=FORMAT:LOCATION[?key=value&...]``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from substrait_agg.changes.targets.options import bad_target, parse_options
from substrait_agg.redaction import redacted_options, redacted_place, remember

_FORMAT = re.compile(r"([A-Za-z][A-Za-z0-9_.+-]*):(?!//)(.*)", re.S)
_HELP = "write spark=FORMAT:LOCATION?key=value, such as spark=parquet:out/ or spark=kafka:topic?kafka.bootstrap.servers=..."

TABLE, KAFKA, DELTA = "table", "kafka", "delta"
FOLDERS = frozenset({"parquet", "orc", "json", "csv", "avro", "text", "xml", DELTA})
"""Formats whose location is the path of a folder."""
NEEDS_LOCATION = FOLDERS | {TABLE}
"""Formats that need a path or a table; others may work without."""


@dataclass(frozen=True, slots=True)
class SparkTarget:
    """The arguments of a Spark DataFrameWriter.

    Attributes:
        format: Spark's name of the format, or ``table``.
        location: path, table or topic; may be empty for formats that need none.
        options: further options, as written.
    """

    format: str
    location: str = field(repr=False)
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def local_path(self) -> Path | None:
        """Return the path of a folder of files, without a scheme; None for any other target."""
        if self.format not in FOLDERS or "://" in self.location:
            return None
        return Path(self.location.removeprefix("file:"))

    @property
    def identity(self) -> str:
        """Return a text that does not change with options such as a password; a path is absolute."""
        location = self.location if self.local_path is None else self.local_path.absolute()
        return redacted_place(f"{self.format}:{location}")

    def __str__(self) -> str:
        options = redacted_options(self.options)
        place = redacted_place(f"{self.format}:{self.location}")
        return place + (f"?{options}" if options else "")


def parse_target(text: str) -> SparkTarget:
    """Parse ``FORMAT:LOCATION[?key=value&...]``; keys and values are percent-decoded.

    >>> parse_target("parquet:out/?compression=zstd").options
    (('compression', 'zstd'),)

    Raises:
        UsageError: OPTION_INVALID; messages do not quote options.
    """
    path, _, query = text.partition("?")
    match = _FORMAT.fullmatch(path)
    if match is None:
        raise bad_target(f"{redacted_place(path)!r} has no format", _HELP)
    name, location = match.groups()
    format_ = name if "." in name else name.lower()
    if format_ in NEEDS_LOCATION and not location:
        raise bad_target(f"format {format_} needs a location", f"write spark={format_}:LOCATION")
    remember([("", location)])
    return SparkTarget(format_, location, parse_options(query))
