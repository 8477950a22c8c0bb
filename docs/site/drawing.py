"""Write SVG: boxes, arrows and text in colours that follow the light or dark mode of the page.

The drawings stand inside the pages, so they use the colours of the theme. As files of their own they
use the colours that the reader's system prefers.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LINE = 17
"""Height of a line of text, pixels."""
SIZE = 13
"""Size of the text, pixels."""
PADDING = 10
NARROW, WIDE = frozenset("iljtfrI.,:;'|()[]!/ -"), frozenset("mwMW@%")

STYLE = """
.drawing { --ink: var(--md-typeset-color, #1f2328); --paper: var(--md-default-bg-color, #ffffff);
  --faint: var(--md-default-fg-color--lighter, #8c959f);
  font-family: var(--md-text-font, system-ui), "DejaVu Sans", sans-serif; font-size: 13px }
@media (prefers-color-scheme: dark) {
  .drawing { --ink: var(--md-typeset-color, #e6edf3); --paper: var(--md-default-bg-color, #0d1117) } }
.drawing text { fill: var(--ink) }
.drawing .first { font-weight: 600 }
.drawing .label { font-size: 11.5px }
.drawing .edge { fill: none; stroke: var(--ink); stroke-opacity: .6; stroke-width: 1.3 }
.drawing .dotted { stroke-dasharray: 3 3 }
.drawing .head { fill: var(--ink); fill-opacity: .7 }
.drawing .halo { fill: var(--paper); fill-opacity: .85 }
.drawing .box { fill: var(--ink); fill-opacity: .04; stroke: var(--ink); stroke-opacity: .55 }
.drawing .frame { fill: none; stroke: var(--ink); stroke-opacity: .35; stroke-dasharray: 5 4 }
.drawing .source { fill: #6b7a90; fill-opacity: .16; stroke: #7b8aa0; stroke-opacity: 1 }
.drawing .spark { fill: #2f7fe0; fill-opacity: .14; stroke: #4a8fe0; stroke-opacity: 1 }
.drawing .operator { fill: #7a67e0; fill-opacity: .14; stroke: #8a7af0; stroke-opacity: 1 }
.drawing .state { fill: #e09a20; fill-opacity: .18; stroke: #c98a1a; stroke-opacity: 1 }
.drawing .view { fill: #1f9d5a; fill-opacity: .16; stroke: #2aa866; stroke-opacity: 1 }
"""
"""Colours are translucent over the page, so one set is readable on a light and on a dark page."""


@dataclass(frozen=True)
class Rect:
    """The place of a box: its left upper corner and its size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        """Return the centre."""
        return self.x + self.width / 2, self.y + self.height / 2

    def moved(self, dx: float, dy: float) -> Rect:
        """Return the box at another place."""
        return Rect(self.x + dx, self.y + dy, self.width, self.height)


def text_width(text: str, size: float = SIZE) -> float:
    """Estimate the width of a text. Fonts differ, so the estimate is that of a wide one."""
    units = sum(0.38 if c in NARROW else 0.95 if c in WIDE else 0.64 for c in text)
    return units * size


def block_size(lines: Sequence[str]) -> tuple[float, float]:
    """Return width and height of a box with these lines. The first is in bold type."""
    width = max(text_width(line) * (1.06 if i == 0 else 1) for i, line in enumerate(lines))
    return width + 2 * PADDING, len(lines) * LINE + 2 * PADDING - 4


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "middle") -> str:
    """Return a line of text whose baseline is at `y`."""
    named = f' class="{kind}"' if kind else ""
    return (
        f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(content)}</text>'
    )


def box(at: Rect, lines: Sequence[str], kind: str, shape: str = "box") -> list[str]:
    """Return a box with lines of text, the first in bold type where more follow."""
    x, y, w, h = at.x, at.y, at.width, at.height
    if shape == "hexagon":
        points = f"{x},{y + h / 2:.1f} {x + 9},{y} {x + w - 9},{y} {x + w},{y + h / 2:.1f} {x + w - 9},{y + h} {x + 9},{y + h}"
        parts = [f'<polygon class="box {kind}" points="{points}"/>']
    else:
        radius = 12 if shape == "store" else 4
        parts = [
            f'<rect class="box {kind}" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{radius}"/>'
        ]
    top = y + (h - len(lines) * LINE) / 2 + LINE - 4.5
    for i, line in enumerate(lines):
        first = "first" if i == 0 and len(lines) > 1 else ""
        parts.append(text(x + w / 2, top + i * LINE, line, first))
    return parts


def label(x: float, y: float, content: str) -> list[str]:
    """Return a small text on a background that covers the line behind it."""
    width = text_width(content, 11.5) + 6
    halo = f'<rect class="halo" x="{x - width / 2:.1f}" y="{y - 9:.1f}" width="{width:.1f}" height="14"/>'
    return [halo, text(x, y + 2.5, content, "label")]


def arrow_head(tip: tuple[float, float], direction: tuple[float, float]) -> str:
    """Return the head of an arrow. `direction` is a unit vector along an axis."""
    (x, y), (dx, dy) = tip, direction
    corners = [
        (x, y),
        (x - 8 * dx - 4 * dy, y - 8 * dy - 4 * dx),
        (x - 8 * dx + 4 * dy, y - 8 * dy + 4 * dx),
    ]
    return f'<polygon class="head" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in corners)}"/>'


def picture(parts: Iterable[str], width: float, height: float, title: str) -> str:
    """Return a whole SVG document that ends with a line break."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing" role="img" aria-label="{html.escape(title)}" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">'
    )
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>", ""])
