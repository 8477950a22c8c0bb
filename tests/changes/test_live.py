"""Live outputs show the newest version, in a terminal as much of it as fits."""

from __future__ import annotations

import io
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.cells import cell_len
from rich.console import Console, Group

from substrait_agg.changes import Delivery
from substrait_agg.changes.outputs.screen import FRAMES, Screen, fit_widths
from substrait_agg.metrics import Progress

ALTERNATE_SCREEN, MAIN_SCREEN = "\x1b[?1049h", "\x1b[?1049l"


@dataclass
class Counted:
    """A view of `version` rows."""

    version: int

    def versions(self) -> list[int]:
        return list(range(1, self.version + 1))

    def changes(self, since: int | None = None, until: int | None = None) -> Any:
        extra = {"__version": pa.array([until]), "__weight": pa.array([1])}
        return pa.table({"n": pa.array([until]), **extra})

    def evolutions(self) -> list[Any]:
        return []

    def retractions(self, version: int) -> Any:
        raise NotImplementedError

    def to_arrow(self, version: int | None = None) -> Any:
        return pa.table({"n": pa.array(range(version or self.version), pa.int64())})


TOLD = Progress(input_rows=1_234_567, changes=9, rows_per_second=2_000.4, watermark=1_500_000)


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def shown(output: str, stdout: io.StringIO, tmp_path: Path, versions: tuple[int, ...]) -> str:
    delivery = Delivery([output], checkpoint=tmp_path / "ckpt", stdout=stdout)
    with closing(delivery):
        for version in versions:
            view: Any = Counted(version)
            delivery.deliver(view, progress=TOLD)
        delivery.finish(view)
    return stdout.getvalue()


def test_every_version_is_shown_once_where_there_is_no_terminal(tmp_path: Path) -> None:
    assert shown("live-csv", io.StringIO(), tmp_path, (1, 2)) == "n\n0\n\nn\n0\n1\n"
    table = shown("live-table", io.StringIO(), tmp_path, (1, 2))
    assert table.count("(1 row)") == table.count("(2 rows)") == 1


def test_what_is_there_is_shown_when_a_run_begins(tmp_path: Path) -> None:
    """A continued run shows the stored view at once, before new rows arrive."""
    stdout = io.StringIO()
    view: Any = Counted(2)
    delivery = Delivery(["live-csv"], checkpoint=tmp_path / "ckpt", since=2, stdout=stdout)
    with closing(delivery):
        delivery.deliver(view)
        delivery.deliver(view)
    assert stdout.getvalue() == "n\n0\n1\n"


def test_a_file_has_the_newest_version_alone(tmp_path: Path) -> None:
    location = tmp_path / "now.csv"
    assert shown(f"live-csv={location}", io.StringIO(), tmp_path, (1, 3)) == ""
    assert location.read_text() == "n\n0\n1\n2\n"


def test_a_terminal_is_drawn_on_and_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames are drawn on the alternate screen; the last frame is printed to the main screen."""
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "10")
    monkeypatch.setenv("TERM", "xterm")
    text = shown("live-table", Terminal(), tmp_path, (2, 50))
    _, _, drawn = text.partition(ALTERNATE_SCREEN)
    live, _, left = drawn.partition(MAIN_SCREEN)
    assert "version 2 |" in live
    assert "version 50 | 1,234,567 rows, 9 changes | 2,000 rows/s" in left
    assert "44 more rows" in left
    assert left.count("\n") == 9  # one line is for the prompt


def test_a_failed_run_gives_the_terminal_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stdout = Terminal()
    delivery = Delivery(["live-table"], checkpoint=tmp_path / "ckpt", stdout=stdout)
    view: Any = Counted(1)
    delivery.deliver(view)
    delivery.close()
    delivery.close()
    assert stdout.getvalue().count(ALTERNATE_SCREEN) == stdout.getvalue().count(MAIN_SCREEN) == 1


def lines_of(kind: str, view: pa.Table, cells: int, lines: int) -> tuple[list[str], str]:
    frame, left_out = FRAMES[kind](view, cells, lines)
    console = Console(file=io.StringIO(), width=cells, color_system=None)
    console.print(Group(frame))
    return console.file.getvalue().splitlines(), left_out  # type: ignore[attr-defined]


HOSTILE = pa.table(
    {
        "region\n": ["north", "東京", "[bold]x[/bold]", "a\tb", None],
        "text": ["x" * 300] * 5,
        **{f"n{i}": pa.array([10**9] * 5, pa.int64()) for i in range(12)},
    }
)


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("cells", [1, 8, 20, 80, 200])
@pytest.mark.parametrize("lines", [1, 2, 4, 40])
def test_a_frame_fits_its_space(kind: str, cells: int, lines: int) -> None:
    """No frame is larger than the terminal for any values: one line more would scroll, one cell
    more would wrap.
    """
    drawn, _ = lines_of(kind, HOSTILE, cells, lines)
    assert len(drawn) <= lines
    assert max(map(cell_len, drawn)) <= cells


def test_what_is_left_out_is_counted() -> None:
    drawn, left_out = lines_of("live-table", HOSTILE, 80, 4)
    assert len(drawn) == 4
    assert left_out.startswith("2 more rows, ")
    assert left_out.endswith(" more columns")


def test_values_are_no_markup() -> None:
    drawn, _ = lines_of("live-table", HOSTILE.select([0]), 80, 10)
    assert "[bold]x[/bold]" in "\n".join(drawn)
    assert "a\\tb" in "\n".join(drawn)


@pytest.mark.parametrize("kind", FRAMES)
def test_a_terminal_is_told_nothing_by_values(kind: str) -> None:
    """Escape sequences in values are escaped, so that they cannot redraw, retitle or confuse the
    terminal.
    """
    drawn, _ = lines_of(kind, pa.table({"\x1b[1m": ["\x1b[2J", "\x9b2J", "a\rb", "\x07"]}), 80, 10)
    text = "\n".join(drawn)
    assert not set(text) & {"\x1b", "\x9b", "\r", "\x07"}
    assert "\\u001b[2J" in text


@pytest.mark.parametrize("kind", FRAMES)
def test_huge_views_are_drawn_quickly(kind: str) -> None:
    """Only the visible rows and cells of a view are formatted, because frames are drawn repeatedly."""
    wide = pa.table([pa.array([1])] * 3000, names=[f"c{i}" for i in range(3000)])
    long = pa.table({"text": ["x" * 2_000_000] * 3})
    before = time.process_time()
    for view in (wide, long):
        lines_of(kind, view, 80, 20)
    assert time.process_time() - before < 1.5


def test_a_frame_is_made_once_per_version_and_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frame is cached per version and size, because a terminal is redrawn several times a second."""
    monkeypatch.setenv("TERM", "xterm")
    made: list[int] = []

    def frame(view: Any, _cells: int, _lines: int) -> tuple[str, str]:
        made.append(view.num_rows)
        return "", ""

    screen = Screen(Terminal(), frame)
    for version in (1, 2):
        screen.finish(Counted(version).to_arrow(), version)
        screen.finish(Counted(version).to_arrow(), version)
    screen.close()
    assert made == [1, 2]


@pytest.mark.parametrize(("term", "encoding"), [("dumb", "utf-8"), ("xterm", "iso-8859-1")])
def test_a_terminal_that_cannot_be_drawn_on_gets_one_table_below_the_other(
    term: str, encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal without cursor control or without the ellipsis sign gets one table after another."""
    monkeypatch.setenv("TERM", term)
    stdout = Terminal()
    monkeypatch.setattr(Terminal, "encoding", encoding, raising=False)
    text = shown("live-table", stdout, tmp_path, (1, 2))
    assert text.count("(1 row)") == text.count("(2 rows)") == 1
    assert "\x1b" not in text


def test_the_widest_columns_are_cut_first() -> None:
    assert fit_widths([5, 10], 40) == [5, 10]
    assert fit_widths([5, 50], 30) == [5, 23]
    assert fit_widths([9, 9, 9, 9, 9], 18) == [8, 8]
    assert fit_widths([50], 3) == [3]
    assert fit_widths([], 10) == []
