"""Take batches from the connectors of a run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import pyarrow as pa

from substrait_agg.metrics.progress import SourceProgress
from substrait_agg.spark.sources.connected import name_of, open_connectors
from substrait_agg.spark.sources.specs import Table

LAG_SECONDS = 5.0
"""Seconds for which the lag of a source is shown before it is asked again."""


@dataclass(frozen=True, slots=True)
class ConnectedBatch:
    """What a batch reads from connectors.

    Attributes:
        rows: the rows of each table that has some.
        positions: the position of each connector after the batch, by its group.
    """

    rows: Mapping[Table, pa.Table] = field(default_factory=dict)
    positions: Mapping[str, str] = field(default_factory=dict)


class Connectors:
    """The connectors of a run.

    Args:
        sources: the source of each table.
        columns: the columns to read of each table.
        checkpoint: id of the checkpoint.
        positions: the positions of the newest version, by group.
        closing: gets what has to be released at the end.

    Raises:
        InputRefused: SOURCE_RECREATED, SOURCE_POSITION_GONE, or as a connector says.
    """

    def __init__(
        self,
        sources: Mapping[Table, object],
        columns: Mapping[Table, Sequence[str]],
        checkpoint: str,
        positions: Mapping[str, str],
        closing: ExitStack,
    ) -> None:
        self._positions = dict(positions)
        self._tables = {name_of(table): table for table in columns}
        groups = closing.enter_context(open_connectors(sources))
        self._connectors = {name: group.connector for name, group in groups.items()}
        self._goals: dict[str, str | None] | None = None
        self._lag: tuple[SourceProgress, ...] = ()
        self._asked = -LAG_SECONDS
        for name, group in groups.items():
            read = {name_of(table): columns[table] for table in group.specs if table in columns}
            group.connector.begin(read, checkpoint, positions.get(name))

    def __bool__(self) -> bool:
        """Return whether there are connectors."""
        return bool(self._connectors)

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the names of the groups."""
        return tuple(self._connectors)

    def end_at_latest(self) -> None:
        """Read no further than what the sources have now."""
        self._goals = {
            group: connector.latest(self._positions.get(group), float("inf"))
            for group, connector in self._connectors.items()
        }

    def next(self, limits: Sequence[float]) -> ConnectedBatch:
        """Return what the next batch reads.

        Args:
            limits: about the most bytes of each group.
        """
        rows: dict[Table, pa.Table] = {}
        positions: dict[str, str] = {}
        for (group, connector), most in zip(self._connectors.items(), limits, strict=True):
            after = self._positions.get(group)
            if self._goals is None:
                until = connector.latest(after, most)
            else:
                until, self._goals[group] = self._goals[group], None
            if until is None or until == after:
                continue
            positions[group] = until
            for name, table in connector.read(after, until).items():
                if table.num_rows:
                    rows[self._tables[name]] = table
        return ConnectedBatch(rows, positions)

    @property
    def lag(self) -> tuple[SourceProgress, ...]:
        """Return how far each connector is behind; asked for again after `LAG_SECONDS`."""
        if self._connectors and time.monotonic() - self._asked > LAG_SECONDS:
            self._asked = time.monotonic()
            pairs = self._connectors.items()
            self._lag = tuple(SourceProgress(group, dict(c.lag())) for group, c in pairs)
        return self._lag

    @property
    def has_ended(self) -> bool:
        """Return whether all that there was at `end_at_latest` has been read."""
        return self._goals is not None and not any(self._goals.values())

    def commit(self, batch: ConnectedBatch) -> None:
        """Note that a version has a batch."""
        for group, position in batch.positions.items():
            self._positions[group] = position
            self._connectors[group].committed(position)
