"""Redraw the view in place in a terminal, cut to the terminal's size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TextIO

import pyarrow.compute as pc
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table as Grid
from rich.text import Text

from substrait_agg.changes.formats.encode import cell_texts, csv_lines, escape_controls, is_number
from substrait_agg.changes.outputs.sinks import Sink
from substrait_agg.metrics.summary import status_line

Table = Any
"""A `pyarrow.Table`."""

REDRAWS_PER_SECOND = 4
GAP = 2
NARROWEST = 6
"""Cells between two columns, and the width to which columns are cut before any is left out."""
MOST_PER_CELL = 8
"""Characters read per terminal cell.

Values may be long, and several characters may share a cell.
"""


class Screen(Sink):
    """Shows the newest version on the alternate screen, like `top`.

    The last frame stays after closing.

    Args:
        stdout: a terminal.
        frame: draws the view into a given number of cells and lines (`FRAMES`).
    """

    takes_view = True
    shows_every_version = True
    live = True

    def __init__(self, stdout: TextIO, frame: Frame) -> None:
        self._stdout = self.stream = stdout
        self._frame = frame
        self._progress: Any = None
        self._view: Table = None
        self._version = -1
        self._cached: tuple[object, tuple[RenderableType, str]] | None = None
        self._live: Live | None = None

    def note(self, progress: Any) -> None:
        """Store the progress for the first line."""
        self._progress = progress

    def finish(self, view: Table, version: int) -> None:
        """Draw the view."""
        self._view, self._version = view, version
        if self._live is None:
            self._live = self._start()
        self._live.refresh()

    def close(self) -> None:
        """Leave the alternate screen, and print the last frame."""
        if self._live is None:
            return
        self._live.stop()
        self._live.console.print(self._draw(self._live.console))
        self._live = None

    def _start(self) -> Live:
        console = Console(file=self._stdout, highlight=False, force_terminal=True)
        drawn = Live(
            console=console,
            screen=True,
            get_renderable=lambda: self._draw(console),
            refresh_per_second=REDRAWS_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        drawn.start()
        return drawn

    def _draw(self, console: Console) -> RenderableType:
        head = Text(status_line(self._version, self._progress), style="bold", no_wrap=True)
        head.overflow = "ellipsis"
        frame, left_out = self._fit(console.width, max(1, console.height - 3))
        foot = Text(left_out, style="dim", no_wrap=True, overflow="ellipsis")
        return Group(head, frame, foot)

    def _fit(self, cells: int, lines: int) -> tuple[RenderableType, str]:
        """Return the frame for the current version and size, computed once for each.

        The frame is redrawn several times a second.
        """
        key = (self._version, cells, lines)
        cached = self._cached
        if cached is None or cached[0] != key:
            cached = self._cached = key, self._frame(self._view, cells, lines)
        return cached[1]


Frame = Callable[[Table, int, int], "tuple[RenderableType, str]"]
"""(view, cells, lines) -> what is drawn, and a text that says what was left out."""


def _table_frame(view: Table, cells: int, lines: int) -> tuple[RenderableType, str]:
    rows = view.slice(0, max(0, lines - 1)).select(range(min(view.num_columns, cells // GAP + 1)))
    most = cells * MOST_PER_CELL
    columns = [pc.utf8_slice_codeunits(t, 0, most).to_pylist() for t in cell_texts(rows)]
    names = [escape_controls(name)[:most] for name in rows.column_names]
    natural = [
        min(cells, max(map(cell_len, (name, *texts))))
        for name, texts in zip(names, columns, strict=True)
    ]
    widths = fit_widths(natural, cells)
    grid = Grid(box=None, padding=(0, GAP, 0, 0), pad_edge=False, show_header=True)
    for name, kind, width in zip(names, rows.schema.types, widths, strict=False):
        grid.add_column(
            Text(name),
            justify="right" if is_number(kind) else "left",
            width=width,
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in zip(*columns[: len(widths)], strict=True):
        grid.add_row(*(Text(text, overflow="ellipsis", no_wrap=True) for text in row))
    return grid, omitted_text(view, rows.num_rows, len(widths))


def _csv_frame(view: Table, cells: int, lines: int) -> tuple[RenderableType, str]:
    rows = view.slice(0, max(0, lines - 1))
    shown = "".join(csv_lines(rows)).split("\n")[:lines]
    cut = (escape_controls(line[: cells * MOST_PER_CELL]) for line in shown)
    text = Text("\n".join(cut).removesuffix("\n"), no_wrap=True, overflow="ellipsis")
    return text, omitted_text(view, rows.num_rows, view.num_columns)


def omitted_text(view: Table, rows: int, columns: int) -> str:
    """Return a note about the rows and columns of a view that are not shown; empty if all are."""
    counts = ((view.num_rows - rows, "row"), (view.num_columns - columns, "column"))
    texts = [f"{n:,} more {what}{'s' if n > 1 else ''}" for n, what in counts if n > 0]
    return ", ".join(texts)


def fit_widths(widths_wanted: list[int], cells: int) -> list[int]:
    """Return the widths of the columns that fit into `cells`.

    The widest columns are cut first; if that is not enough, the last columns are left out.

    >>> fit_widths([4, 20], 16)
    [4, 10]
    """
    widths = list(widths_wanted)
    while len(widths) > 1 and sum(min(w, NARROWEST) + GAP for w in widths) - GAP > cells:
        widths.pop()
    excess = sum(widths) + GAP * (len(widths) - 1) - cells
    while widths and excess > 0:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= 1:
            break
        widths[widest] -= 1
        excess -= 1
    return widths


FRAMES: dict[str, Frame] = {"live-table": _table_frame, "live-csv": _csv_frame}
"""Output kind -> how it is drawn."""
