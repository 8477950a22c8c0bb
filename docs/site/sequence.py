"""Draw a sequence of messages, written as a sequence diagram in a part of Mermaid's language."""

from __future__ import annotations

import itertools
import re

import drawing
from drawing import Rect
from flowchart import NotDrawn

ROW = 40
PARTICIPANT = re.compile(r"participant (\w+) as (.+)$")
MESSAGE = re.compile(r"(\w+)->>(\w+): (.+)$")
NOTE = re.compile(r"Note over (\w+): (.+)$")


def draw(text: str, title: str = "sequence of messages") -> str:
    """Draw participants as columns, and messages as arrows from column to column.

    Raises:
        NotDrawn: for a statement of another form.
    """
    names: dict[str, str] = {}
    rows: list[tuple[str, str, str]] = []
    for line in (line.strip() for line in text.strip().splitlines()[1:]):
        if found := PARTICIPANT.match(line):
            names[found[1]] = found[2]
        elif found := MESSAGE.match(line):
            rows.append((found[1], found[2], found[3]))
        elif found := NOTE.match(line):
            rows.append((found[1], "", found[2]))
        else:
            raise NotDrawn(line)
    return _draw(names, rows, title)


def _draw(names: dict[str, str], rows: list[tuple[str, str, str]], title: str) -> str:
    order = {name: i for i, name in enumerate(names)}
    column = [max(drawing.block_size([text])[0], 90) for text in names.values()]
    gaps = _gaps(order, rows, column)
    x = [column[0] / 2 + 60]
    for gap in gaps:
        x.append(x[-1] + gap)
    bottom = 60 + ROW * len(rows)
    parts = []
    for i, name in enumerate(names.values()):
        parts.append(f'<path class="edge dotted" d="M{x[i]:.1f},38 V{bottom}"/>')
        parts += drawing.box(Rect(x[i] - column[i] / 2, 6, column[i], 32), [name], "operator")
    right = x[-1] + column[-1] / 2
    for number, (start, end, words) in enumerate(rows):
        y = 72 + ROW * number
        a = x[order[start]]
        if end in {"", start}:
            width, height = drawing.block_size([words])
            left = max(4.0, a - width / 2)
            kind = "view" if not end else ""
            parts.append(
                f'<rect class="halo" x="{left:.1f}" y="{y - 16}" width="{width:.1f}" height="30"/>'
            )
            parts += drawing.box(Rect(left, y - 16, width, height), [words], kind)
            right = max(right, left + width)
            continue
        b = x[order[end]]
        sign = 1.0 if b > a else -1.0
        parts.append(f'<path class="edge" d="M{a:.1f},{y} H{b - 6 * sign:.1f}"/>')
        parts.append(drawing.arrow_head((b, y), (sign, 0.0)))
        parts += drawing.label((a + b) / 2, y - 10, words)
    return drawing.picture(parts, right + 8, bottom + 8, title)


def _gaps(
    order: dict[str, int], rows: list[tuple[str, str, str]], column: list[float]
) -> list[float]:
    """Return the distances of the columns: enough for the texts of the messages between them."""
    gaps = [(a + b) / 2 + 30 for a, b in itertools.pairwise(column)]
    for start, end, words in rows:
        if end and end != start:
            first, last = sorted((order[start], order[end]))
            room = (drawing.text_width(words, 11.5) + 30) / (last - first)
            for i in range(first, last):
                gaps[i] = max(gaps[i], room)
    return gaps
