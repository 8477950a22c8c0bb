"""Collect what the page of a run shows: texts, and the points of small lines.

The run's thread only notes its progress. Rows are read when somebody asks for them, at most once per version.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from math import isfinite
from typing import Any

import pyarrow as pa

from substrait_agg.changes.formats.encode import cell_texts, escape_controls, is_number
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.view.view import View
from substrait_agg.escape import cut
from substrait_agg.metrics.progress import Progress
from substrait_agg.metrics.summary import watermark_text
from substrait_agg.redaction import clean

SHOWN_ROWS = 50
"""Rows of a view that the page shows."""
HISTORY = 60
"""Versions that the page has in its list, and values in the line of a number."""
LINE_HEIGHT = 16
"""Height of the drawing of a line; a value takes a width of 1."""
MOST_CHARACTERS = 1_000
"""Characters of a cell; a longer text is cut."""
FREE_SECONDS = 0.1
BUSY_SHARE = 0.1
"""The share of time that is spent on reading versions, if reading one takes longer than `FREE_SECONDS`."""

Json = dict[str, Any]
RowKey = tuple[object, int]
"""What identifies a row, and how many rows above have the same."""


@dataclass(frozen=True)
class PageState:
    """What the page shows at one moment.

    Attributes:
        tag: a text that is the same as long as `data` is.
        data: the content of ``data.json``.
    """

    tag: str
    data: Json

    @cached_property
    def body(self) -> bytes:
        """Return the data as JSON."""
        return json.dumps(self.data, separators=(",", ":"), ensure_ascii=False).encode()


def table_data(names: Sequence[str], rows: Sequence[Sequence[str]], numbers: int) -> Json:
    """Return a table of the page.

    Args:
        names: names of the columns.
        rows: the cells of each row.
        numbers: the first column of numbers; all after it have numbers, too.
    """
    columns = [{"name": name, "number": at >= numbers} for at, name in enumerate(names)]
    return {"name": "", "columns": columns, "rows": rows, "lines": [], "more": False}


class ViewRows:
    """The first rows of a view, and the last values of each number in them.

    Args:
        name: name of the view.
        keys: ordinals of the columns that identify a row. None: a row is identified by its place.
    """

    def __init__(self, name: str, keys: tuple[int, ...] | None) -> None:
        self._name, self._keys = name, keys
        self._histories: dict[tuple[RowKey, int], deque[tuple[int, float]]] = {}
        self._reads = 0

    def table(self, head: pa.Table) -> Json:
        """Return the table of the page for the first rows of the next version.

        Args:
            head: the first rows of the view, one more than are shown if there are more.
        """
        self._reads += 1
        rows = head.slice(0, SHOWN_ROWS)
        numbers = [is_number(kind) for kind in rows.schema.types]
        cells = [[cut(text, MOST_CHARACTERS) for text in c.to_pylist()] for c in cell_texts(rows)]
        by_row = list(zip(*cells, strict=True))
        names = [cut(escape_controls(name), MOST_CHARACTERS) for name in rows.column_names]
        columns = [{"name": n, "number": is_n} for n, is_n in zip(names, numbers, strict=True)]
        drawn = [at for at, is_n in enumerate(numbers) if is_n and at not in (self._keys or ())]
        return {
            "name": self._name,
            "columns": columns,
            "rows": by_row,
            "lines": self._lines(by_row, drawn),
            "more": head.num_rows > SHOWN_ROWS,
        }

    def _lines(self, rows: list[tuple[str, ...]], drawn: list[int]) -> list[list[str]]:
        """Add the numbers of a version to their histories, and return the line of each cell."""
        lines = [[""] * len(row) for row in rows]
        for line, row, key in zip(lines, rows, self._row_keys(rows), strict=True):
            for at in drawn:
                values = self._histories.setdefault((key, at), deque(maxlen=HISTORY))
                value = _finite(row[at])
                if value is not None:
                    values.append((self._reads, value))
                line[at] = line_points(values, self._reads)
        oldest = self._reads - HISTORY
        self._histories = {
            cell: values
            for cell, values in self._histories.items()
            if values and values[-1][0] > oldest
        }
        return lines

    def _row_keys(self, rows: list[tuple[str, ...]]) -> list[RowKey]:
        if self._keys is None:
            return [(place, 0) for place in range(len(rows))]
        above: Counter[object] = Counter()
        keys: list[RowKey] = []
        for row in rows:
            key = tuple(row[at] for at in self._keys)
            keys.append((key, above[key]))
            above[key] += 1
        return keys


def _finite(text: str) -> float | None:
    """Return a number to draw; None for NULL, NaN and infinity."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


def line_points(values: Sequence[tuple[int, float]], newest: int) -> str:
    """Return the points of an SVG polyline, empty for fewer than two.

    Args:
        values: numbers of the versions that were read, ascending, and the values in them.
        newest: number of the newest version that was read.
    """
    drawn = [(HISTORY - 1 - newest + read, v / 2) for read, v in values if read > newest - HISTORY]
    if len(drawn) < 2:
        return ""
    least, most = min(v for _, v in drawn), max(v for _, v in drawn)
    room = LINE_HEIGHT - 2
    # Halves: the difference of two doubles may be infinite.
    heights = ((x, (v - least) / (most - least) if most > least else 0.5) for x, v in drawn)
    return " ".join(f"{x},{1 + room * (1 - height):.1f}" for x, height in heights)


class RunContent:
    """The content of the page of a run.

    Args:
        store: the checkpoint.
        names: names of its views.
        clock: returns the time in seconds, for how long reading takes.
    """

    def __init__(
        self,
        store: Checkpoint,
        names: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.title = str(store.folder)
        self._store, self._names, self._clock = store, tuple(names), clock
        self._run = uuid.uuid4().hex[:12]
        self._progress: Callable[[], Progress] = Progress
        self._before = Progress()
        self._newest = -1
        self._versions: tuple[tuple[str, ...], ...] = ()
        # The fields below belong to threads of the server, one at a time.
        self._reading = threading.Lock()
        self._views: list[tuple[View, ViewRows]] = []
        self._tables: list[Json] = []
        self._version, self._problem, self._rest_until = -1, "", 0.0
        self._shown = PageState("", {})

    def begin(self, progress: Callable[[], Progress]) -> None:
        """Show the run whose progress a function returns."""
        self._newest = progress().version
        self._progress = progress

    def committed(self, progress: Progress) -> None:
        """Note a committed version; nothing is read."""
        before, self._before = self._before, progress
        version = (
            str(progress.version),
            _time_text(progress.committed),
            f"{progress.input_rows - before.input_rows:,}",
            f"{progress.changes - before.changes:,}",
            f"{progress.batch_seconds * 1000:,.1f}",
        )
        self._versions = (version, *self._versions[: HISTORY - 1])
        self._newest = progress.version

    def current(self) -> PageState:
        """Return what the page shows now."""
        with self._reading:
            self._read_newest()
            progress, versions = self._progress(), self._versions
            outputs = _outputs(progress)
            seen = repr((self._problem, versions[:1], outputs))
            digest = hashlib.blake2s(seen.encode(), digest_size=6).hexdigest()
            tag = f'"{self._run}-{self._version}-{digest}"'
            if tag != self._shown.tag:
                self._shown = PageState(tag, self._data(progress, versions, outputs))
            return self._shown

    def _read_newest(self) -> None:
        """Read the first rows of the newest version, if they are not read yet."""
        version, begun = self._newest, self._clock()
        if version in (-1, self._version) or begun < self._rest_until:
            return
        try:
            if not self._views:
                views = [View(self._store, name or None) for name in self._names]
                self._views = [(view, ViewRows(view.name, view.key_columns)) for view in views]
            heads = [view.head(SHOWN_ROWS + 1, version) for view, _ in self._views]
        except Exception as error:  # noqa: BLE001 - the page shows it, and the run goes on
            self._problem = clean(f"version {version} could not be read: {error}")
        else:
            rows = (rows for _, rows in self._views)
            self._tables = [each.table(head) for each, head in zip(rows, heads, strict=True)]
            self._version, self._problem = version, ""
        seconds = self._clock() - begun
        if seconds > FREE_SECONDS:
            self._rest_until = begun + seconds / BUSY_SHARE

    def _data(
        self,
        progress: Progress,
        versions: Sequence[Sequence[str]],
        outputs: Sequence[Sequence[str]],
    ) -> Json:
        names = ("version", "time", "rows in", "changes", "milliseconds")
        return {
            "run": f"{self._run}.{len(self._tables)}",
            "version": self._version,
            "problem": self._problem,
            "facts": _facts(progress, self._version),
            "views": self._tables,
            "versions": table_data(names, versions, 2),
            "outputs": table_data(("output", "version", "lag", "failures"), outputs, 1),
        }


def _facts(progress: Progress, version: int) -> list[tuple[str, str]]:
    """Return the names and values above the tables."""
    facts = [
        ("version", str(version) if version >= 0 else "none yet"),
        ("rows per second", f"{progress.rows_per_second:,.0f}"),
        ("rows in", f"{progress.input_rows:,}"),
        ("changes", f"{progress.changes:,}"),
        ("watermark", watermark_text(progress.watermark)),
        ("late rows", f"{progress.late_rows:,}" if progress.late_rows else ""),
        ("bad rows", f"{progress.bad_rows:,}" if progress.bad_rows else ""),
        ("started", _time_text(progress.started)),
    ]
    return [(name, text) for name, text in facts if text]


def _outputs(progress: Progress) -> list[tuple[str, ...]]:
    return [
        (cut(escape_controls(s.sink), MOST_CHARACTERS), str(s.version), str(s.lag), str(s.failures))
        for s in progress.sinks
    ]


def _time_text(seconds: float) -> str:
    """Return seconds since 1970 as ISO 8601 in UTC; empty for 0."""
    if not seconds:
        return ""
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
