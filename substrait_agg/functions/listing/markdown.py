"""Format sections as Markdown, and as aligned text that wraps at the width of a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from textwrap import wrap

from substrait_agg.functions.listing.catalogue_tables import CatalogueTable

_FIXED = "\N{NO-BREAK SPACE}"
_NOTED = re.compile(r" \[\d+\]")

GAP = "  "
NARROWEST = 8
"""Minimum width of a column in characters, unless its content is narrower."""

LONGEST = 120
"""Characters of a line of prose in Markdown."""


def fold(text: str, first: str = "") -> str:
    """Break a paragraph of Markdown into lines; `first` is the mark of an item of a list."""
    return "\n".join(
        wrap(
            text,
            LONGEST,
            initial_indent=first,
            subsequent_indent=" " * len(first),
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def markdown(sections: Sequence[CatalogueTable], level: int = 3) -> str:
    """Format sections as Markdown tables."""
    return "\n\n".join(_markdown(section, level) for section in sections)


def _markdown(section: CatalogueTable, level: int) -> str:
    lines = [f"{'#' * level} {section.title}", "", _row(section.headers)]
    lines.append("|" + "---|" * len(section.headers))
    lines += [_row(row) for row in section.rows]
    if section.notes:
        lines += ["", *(fold(note, f"{i}. ") for i, note in enumerate(section.notes, 1))]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


# --- text ------------------------------------------------------------------------------------


def text(sections: Sequence[CatalogueTable], width: int) -> str:
    """Format sections as aligned columns, or as a block per row if columns do not fit the width."""
    return "\n\n".join(_text(section, width) for section in sections).replace(_FIXED, " ")


def _text(section: CatalogueTable, width: int) -> str:
    title = "\n".join(wrap(section.title.upper(), width))
    rows = [tuple(map(plain, row)) for row in section.rows]
    # Keep the number of a note with its word if there is room.
    together = [tuple(_NOTED.sub(_stay, cell) for cell in row) for row in rows]
    body = _columns(section, together, width) or _columns(section, rows, width)
    if body is None:
        pairs = (zip(section.headers, row, strict=True) for row in rows)
        body = "\n\n".join(record(row, width) for row in pairs)
    return "\n".join((title, "", body, *_notes(section.notes, width)))


def _columns(section: CatalogueTable, rows: Sequence[Sequence[str]], width: int) -> str | None:
    widths = _widths([section.headers, *rows], width)
    if widths is None:
        return None
    rule = tuple("-" * w for w in widths)
    return "\n".join(_line(row, widths) for row in (section.headers, rule, *rows))


def _stay(match: re.Match[str]) -> str:
    return _FIXED + match[0][1:]


def plain(cell: str) -> str:
    """Convert a Markdown cell to text."""
    return cell.replace("`", "")


def _notes(notes: Sequence[str], width: int) -> list[str]:
    lines = [""] if notes else []
    for number, note in enumerate(notes, 1):
        mark = f"[{number}]".ljust(5)
        lines += wrap(plain(note), width, initial_indent=mark, subsequent_indent=" " * len(mark))
    return lines


def _widths(rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return the widths of columns that fit, or None if their longest words do not."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    least = [
        min(w, max(NARROWEST, *map(_longest, c))) for w, c in zip(widths, columns, strict=True)
    ]
    room = width - len(GAP) * (len(columns) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        # Shrink the widest column that can still shrink.
        spare = [w - low for w, low in zip(widths, least, strict=True)]
        widths[max(range(len(widths)), key=lambda i: (spare[i] > 0, widths[i]))] -= 1
    return widths


def _longest(cell: str) -> int:
    return max(map(len, cell.split(" ")))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Format a row of a table, with as many lines as its highest cell needs."""
    parts = [
        wrap(cell, w, break_long_words=False, break_on_hyphens=False) or [""]
        for cell, w in zip(cells, widths, strict=True)
    ]
    height = max(map(len, parts))
    padded = [[*p, *[""] * (height - len(p))] for p in parts]
    return "\n".join(
        GAP.join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip()
        for line in zip(*padded, strict=True)
    )


def record(pairs: Iterable[tuple[str, str]], width: int) -> str:
    """Format names and values below each other, wrapped in their columns, without empty values."""
    shown = [(name, value) for name, value in pairs if value]
    margin = min(max((len(name) for name, _ in shown), default=0), width // 3) + len(GAP)
    lines: list[str] = []
    for name, value in shown:
        first = name.ljust(margin) if len(name) < margin else f"{name}{GAP}"
        for at, paragraph in enumerate(value.split("\n")):
            lines += wrap(
                paragraph,
                width,
                initial_indent=" " * margin if at else first,
                subsequent_indent=" " * margin,
                break_long_words=False,
                break_on_hyphens=False,
            )
    return "\n".join(lines)
