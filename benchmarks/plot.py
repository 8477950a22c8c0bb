"""Draws what ``benchmarks.batches`` and ``benchmarks.long_run`` have measured: one picture with a panel per figure.

``python -m benchmarks.plot docs/benchmarks/batches.json --to docs/benchmarks/batches.svg``
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 380, 170
"""Of a panel, pixels."""
LEFT, RIGHT, TOP, BOTTOM = 58, 26, 30, 28
COLOURS = ("#1f6feb", "#bf5700")
MIB = 1 << 20


@dataclass(frozen=True)
class Panel:
    """What one panel shows.

    Attributes:
        title: with the unit.
        lines: label -> column of the measurements; those that are not there are left out.
        factor: what a value is multiplied with.
    """

    title: str
    lines: Mapping[str, str]
    factor: float = 1


PANELS = (
    Panel("processor time of a batch, ms", {"": "cpu"}, 1000),
    Panel("open files", {"Python": "open_files", "JVM": "jvm_open_files"}),
    Panel("folder, MiB", {"all": "folder_bytes", "state": "state_bytes"}, 1 / MIB),
    Panel("memory, MiB", {"Python": "memory", "JVM": "jvm_memory"}, 1 / MIB),
    Panel("threads", {"Python": "threads", "JVM": "jvm_threads"}),
)


def picture(measured: Sequence[Mapping[str, Any]]) -> str:
    """The picture as SVG."""
    shown = [p for p in PANELS if any(c in measured[0] for c in p.lines.values())]
    rows = math.ceil(len(shown) / 2)
    size = f'width="{2 * WIDTH}" height="{rows * HEIGHT}" viewBox="0 0 {2 * WIDTH} {rows * HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for i, panel in enumerate(shown):
        parts.append(f'<g transform="translate({i % 2 * WIDTH},{i // 2 * HEIGHT})">')
        parts += _panel(panel, measured)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, measured: Sequence[Mapping[str, Any]]) -> list[str]:
    most = measured[-1]["batches"]
    lines = {
        label: [(m["batches"], m[column] * panel.factor) for m in measured]
        for label, column in panel.lines.items()
        if column in measured[0]
    }
    top = _round_up(max(value for line in lines.values() for _, value in line))
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(batches: float, value: float) -> str:
        return f"{LEFT + wide * batches / most:.1f},{TOP + high * (1 - value / top):.1f}"

    parts = [f'<text x="{LEFT}" y="16" font-size="13" fill="#24292f">{escape(panel.title)}</text>']
    for tick in range(5):
        value = top * tick / 4
        y = TOP + high * (1 - tick / 4)
        parts.append(
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#d8dee4"/>'
        )
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#57606a">{value:g}</text>'
        )
    for tick in range(5):
        batches = most * tick // 4
        x = LEFT + wide * tick / 4
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - 10}" text-anchor="middle" fill="#57606a">{batches:,}</text>'
        )
    for i, (label, line) in enumerate(lines.items()):
        points = " ".join(at(*point) for point in line)
        colour = COLOURS[i]
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        )
        if label and len(lines) > 1:
            x = WIDTH - RIGHT - 60 * (len(lines) - 1 - i)
            parts.append(
                f'<text x="{x}" y="16" text-anchor="end" fill="{colour}">{escape(label)}</text>'
            )
    return parts


def _round_up(value: float) -> float:
    """The next of 1, 2, 4, 6, 8 times a power of ten."""
    power = 10 ** math.floor(math.log10(value)) if value > 0 else 1
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path)
    parser.add_argument("--to", type=Path, required=True)
    given = parser.parse_args(arguments)
    given.to.write_text(picture(json.loads(given.measured.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
