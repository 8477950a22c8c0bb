"""Tell the time: a table with one row, the instant of the version and its date."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from substrait_agg.arguments import microseconds
from substrait_agg.connect.protocol import CLOCK_COLUMNS, WEIGHT, ConnectedTable, TableSource
from substrait_agg.errors import InputRefused, UsageError

SCHEMA = pa.schema(zip(CLOCK_COLUMNS, (pa.timestamp("us", "UTC"), pa.date32()), strict=True))
DEFAULT_EVERY = "1m"
_CHANGES = "the row of the instant before, and that of the new one, at most every {every}"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def group(source: TableSource) -> str:
    """Return the zone: a run has one instant per zone."""
    return source.options.get("zone", "UTC")


def connect(tables: Mapping[str, TableSource]) -> Clock:
    """Open the clock.

    Raises:
        UsageError: SPEC_OPTION_BAD.
    """
    options = next(iter(tables.values())).options
    every = options.get("every", DEFAULT_EVERY)
    micros = microseconds(every)
    if not micros:
        raise _bad("every", every, "a duration such as 10s, 1m or 1h")
    zone = options.get("zone", "UTC")
    try:
        return Clock(micros, ZoneInfo(zone), options.get("at"))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise _bad("zone", zone, "a time zone such as Europe/Berlin") from None


class Clock:
    """A connector (`substrait_agg.connect.protocol.Connector`) to the time of this machine.

    A position is an instant, in microseconds since 1970. It never goes back.

    Args:
        every: least distance of two instants, in microseconds.
        zone: the zone of the date.
        at: an instant that stands still; None for the time of this machine.
    """

    def __init__(self, every: int, zone: ZoneInfo, at: str | None) -> None:
        self._every, self._zone = every, zone
        self._at = None if at is None else _instant(at)
        self._columns: dict[str, list[str]] = {}

    def table(self, name: str) -> ConnectedTable:
        """Return the columns; a new instant retracts the one before."""
        return ConnectedTable(
            SCHEMA, (), _CHANGES.format(every=timedelta(microseconds=self._every))
        )

    def begin(
        self, columns: Mapping[str, Sequence[str]], checkpoint: str, position: str | None
    ) -> None:
        """Begin to tell the time.

        Raises:
            InputRefused: SOURCE_POSITION_GONE: the position is no instant.
        """
        self._columns = {name: list(read) for name, read in columns.items()}
        if position is not None and not position.lstrip("-").isdigit():
            raise InputRefused(
                "SOURCE_POSITION_GONE",
                f"the position {position} is not an instant of the clock",
                help="use a new checkpoint",
            )

    def latest(self, after: str | None, most_bytes: float) -> str | None:
        """Return the present instant, unless the last one is as new as `every` allows."""
        now = time.time_ns() // 1000 if self._at is None else self._at
        step = self._every if self._at is None else 1
        return None if after is not None and now < int(after) + step else str(now)

    def read(self, after: str | None, until: str) -> Mapping[str, pa.Table]:
        """Return the row of an instant, and the retraction of the one before."""
        instants = [(int(until), 1)] if after is None else [(int(after), -1), (int(until), 1)]
        times = [_EPOCH + timedelta(microseconds=micros) for micros, _ in instants]
        days = [moment.astimezone(self._zone).date() for moment in times]
        rows = pa.table([pa.array(times, SCHEMA.types[0]), pa.array(days)], schema=SCHEMA)
        rows = rows.append_column(WEIGHT, pa.array([weight for _, weight in instants], pa.int64()))
        return {name: rows.select([*read, WEIGHT]) for name, read in self._columns.items()}

    def committed(self, position: str) -> None:
        """Note nothing: an instant can be read again at any time."""

    def lag(self) -> Mapping[str, float]:
        """Return nothing: time does not wait."""
        return {}

    def close(self) -> None:
        """Release nothing."""


def _instant(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _bad("at", text, "an instant such as 2026-01-31T12:00:00Z") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _bad(key: str, value: str, expected: str) -> UsageError:
    return UsageError(
        "SPEC_OPTION_BAD", f"{key}={value} is not {expected}", help=f"write {key}={expected}"
    )
