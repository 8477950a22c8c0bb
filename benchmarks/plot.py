"""Draw stored measurements as SVG: panels, lines over scales, a map of ratios, or ratios by engine.

``make pictures`` draws all files of ``docs/benchmarks``;
``python -m benchmarks.plot docs/benchmarks/batches.json --to docs/benchmarks/batches.svg`` draws one.
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
COLOURS = ("#3b82f6", "#d97706")
INK = "var(--md-typeset-color, #24292f)"
FAINT = "var(--md-default-fg-color--light, #57606a)"
GRID = "var(--md-default-fg-color--lightest, #d8dee4)"
PAPER = "var(--md-default-bg-color, #ffffff)"
"""Colours of the page that a picture is part of. A picture on its own has dark text on white."""
MIB = 1 << 20
PEER_COLOURS = {
    "default": "#e09f3e", "rocksdb": "#c44536", "flink-heap": "#8ecae6", "flink-rocksdb": "#3b82f6",
    "pathway": "#7c3aed", "duckdb": "#1f9d5a", "spark": "#57606a",
}  # fmt: skip
"""Engine -> its colour in the picture of peers."""


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


def picture(measured: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> str:
    """Return the picture of a file of measurements as SVG."""
    if not isinstance(measured, Mapping):
        return _panels(measured)
    if "scales" in measured:
        return _over_scales(measured["scales"])
    return _engines(measured) if "kind" in measured else _ratios(measured)


def _engines(measured: Mapping[str, Any]) -> str:
    """Draw the seconds of other engines to ours, on a logarithmic axis: a line per workload, a dot per engine."""
    rows = [row for row in measured["rows"] if row["seconds"].get("ours")]
    engines = [e for e in PEER_COLOURS if any(e in row["seconds"] for row in rows)]
    ratios = [
        {e: row["seconds"][e] / row["seconds"]["ours"] for e in engines if e in row["seconds"]}
        for row in rows
    ]
    values = [value for found in ratios for value in found.values()]
    low = math.floor(math.log2(min(values, default=1) or 1 / 64))
    high = max(math.ceil(math.log2(max(values, default=2))), low + 1)
    left, wide, line, top = 110, 560, 22, 64

    def at(ratio: float) -> float:
        return left + wide * (math.log2(ratio) - low) / (high - low)

    bottom = top + line * len(rows)
    parts = [f'<text x="8" y="18" font-size="13" fill="{INK}">{escape(measured["title"])}</text>']
    for tick in range(low, high + 1):
        x, name = at(2.0**tick), f"{2**tick:g}" if tick >= 0 else f"1/{2**-tick:g}"
        colour = INK if tick == 0 else GRID
        parts.append(
            f'<line x1="{x:.1f}" y1="{top - 6}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}"/>'
        )
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle" fill="{FAINT}">{name}</text>'
        )
    for i, engine in enumerate(engines):
        x = 8 + i * (left + wide) / max(len(engines), 1)
        parts.append(f'<circle cx="{x + 5:.1f}" cy="36" r="5" fill="{PEER_COLOURS[engine]}"/>')
        parts.append(f'<text x="{x + 14:.1f}" y="40" fill="{INK}">{escape(engine)}</text>')
    for i, (row, found) in enumerate(zip(rows, ratios, strict=True)):
        y = top + line * i + line / 2
        parts.append(
            f'<text x="{left - 10}" y="{y + 4}" text-anchor="end" fill="{INK}">{escape(row["name"])}</text>'
        )
        for engine, ratio in found.items():
            parts.append(
                f'<circle cx="{at(ratio):.1f}" cy="{y}" r="5" fill="{PEER_COLOURS[engine]}" fill-opacity="0.85"/>'
            )
    return _document(parts, left + wide + 24, bottom + 26)


def _panels(measured: Sequence[Mapping[str, Any]]) -> str:
    """Draw a list of measurements in the course of a run, with a panel per figure."""
    shown = [p for p in PANELS if any(c in measured[0] for c in p.lines.values())]
    parts = list[str]()
    for i, panel in enumerate(shown):
        parts.append(f'<g transform="translate({i % 2 * WIDTH},{i // 2 * HEIGHT})">')
        parts += _panel(panel, measured)
        parts.append("</g>")
    return _document(parts, 2 * WIDTH, math.ceil(len(shown) / 2) * HEIGHT)


def _document(parts: Sequence[str], width: int, height: int) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="measurements" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">'
    )
    paper = f'<rect width="100%" height="100%" fill="{PAPER}"/>'
    return "\n".join([head, paper, *parts, "</svg>", ""])


def _ratios(measured: Mapping[str, Any]) -> str:
    """Draw how many times faster ours is than the other engine, by groups (rows) and batch (columns)."""
    wide, high, left, top = 130, 52, 150, 44
    groups, sizes = measured["groups"][::-1], measured["rows"]
    parts = [f'<text x="8" y="18" font-size="13" fill="{INK}">{escape(measured["title"])}</text>']
    for x, size in enumerate(sizes):
        middle = left + x * wide + wide / 2
        name = f"{size:,} rows"
        parts.append(f'<text x="{middle}" y="38" text-anchor="middle" fill="{FAINT}">{name}</text>')
    for y, stored in enumerate(groups):
        name = f"{stored:,} groups"
        at = top + y * high + high / 2 + 4
        parts.append(
            f'<text x="{left - 10}" y="{at}" text-anchor="end" fill="{FAINT}">{name}</text>'
        )
        for x, (ours, other) in enumerate(measured["seconds"][str(stored)]):
            ratio = other / ours
            colour = "#1f9d5a" if ratio >= 1 else "#d97706"
            strength = min(0.55, 0.12 + 0.2 * abs(math.log2(ratio)))
            parts.append(
                f'<rect x="{left + x * wide + 2}" y="{top + y * high + 2}" width="{wide - 4}" height="{high - 4}" '
                f'rx="4" fill="{colour}" fill-opacity="{strength:.2f}"/>'
            )
            middle = left + x * wide + wide / 2
            shown = f"{ours:g} s, {other:g} s"
            parts.append(
                f'<text x="{middle}" y="{at - 7}" text-anchor="middle" font-size="14" fill="{INK}">{ratio:.2g} x</text>'
            )
            parts.append(
                f'<text x="{middle}" y="{at + 11}" text-anchor="middle" fill="{FAINT}">{shown}</text>'
            )
    return _document(parts, left + wide * len(sizes) + 8, top + high * len(groups) + 8)


ENGINES = {
    "ours": "#3b82f6", "DuckDB again": "#d97706", "Spark again": "#7c3aed", "Spark stream-stream": "#dc2626",
}  # fmt: skip
"""Label -> colour of the lines over scales."""

Line = Sequence[tuple[float, float]]


def _over_scales(scales: Sequence[Mapping[str, Any]]) -> str:
    """Draw seconds over the scale, both logarithmic, with a panel per query and join, or per batch of TPC-DI."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for one in scales:
        for r in one.get("batches", ()):
            engines = {"ours": "ours", "DuckDB again": "duckdb", "Spark again": "spark"}
            times = {label: r[engine] for label, engine in engines.items() if engine in r}
            _add_points(panels.setdefault(f"batch {r['batch']}, s", {}), one["scale"], times)
        for r in one.get("queries", ()):
            times = {"ours": r["refresh"], "DuckDB again": r["duckdb"], "Spark again": r["spark"]}
            _add_points(
                panels.setdefault(f"Q{r['query']}: a refresh pair, s", {}), one["scale"], times
            )
        for r in one.get("joins", ()):
            times = {"ours": r["ours"]["seconds"], "Spark stream-stream": r["spark"]["seconds"]}
            _add_points(
                panels.setdefault(f"join of Q{r['query']}, inserts, s", {}), one["scale"], times
            )
    parts = list[str]()
    labels = {label for lines in panels.values() for label in lines}
    for i, label in enumerate(label for label in ENGINES if label in labels):
        at, colour = LEFT + i * 160, ENGINES[label]
        parts.append(f'<text x="{at}" y="16" fill="{colour}">{escape(label)}</text>')
    for i, (title, lines) in enumerate(panels.items()):
        parts.append(f'<g transform="translate({i % 2 * WIDTH},{20 + i // 2 * HEIGHT})">')
        parts += _scale_panel(title, lines, [float(one["scale"]) for one in scales])
        parts.append("</g>")
    return _document(parts, 2 * WIDTH, 20 + math.ceil(len(panels) / 2) * HEIGHT)


def _add_points(
    lines: dict[str, list[tuple[float, float]]], scale: float, times: Mapping[str, float]
) -> None:
    for label, seconds in times.items():
        lines.setdefault(label, []).append((scale, seconds))


def _scale_panel(title: str, lines: Mapping[str, Line], scales: Sequence[float]) -> list[str]:
    values = [value for line in lines.values() for _, value in line]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    decades = max(high - low, 1)
    first, last = math.log10(scales[0]), math.log10(scales[-1])
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(scale: float) -> float:
        return LEFT + wide * ((math.log10(scale) - first) / (last - first) if last > first else 0.5)

    def y(value: float) -> float:
        return TOP + tall * (1 - (math.log10(value) - low) / decades)

    parts = [f'<text x="{LEFT}" y="18" font-size="13" fill="{INK}">{escape(title)}</text>']
    for power in range(low, low + decades + 1):
        at = y(10**power)
        parts.append(
            f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="{GRID}"/>'
        )
        parts.append(
            f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end" fill="{FAINT}">{10.0**power:g}</text>'
        )
    parts += [
        f'<text x="{x(scale):.1f}" y="{HEIGHT - 10}" text-anchor="middle" fill="{FAINT}">SF {scale:g}</text>'
        for scale in scales
    ]
    for label, line in lines.items():
        colour = ENGINES[label]
        points = " ".join(f"{x(scale):.1f},{y(value):.1f}" for scale, value in line)
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        )
        parts += [
            f'<circle cx="{x(scale):.1f}" cy="{y(value):.1f}" r="2.5" fill="{colour}"/>'
            for scale, value in line
        ]
    return parts


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

    parts = [f'<text x="{LEFT}" y="16" font-size="13" fill="{INK}">{escape(panel.title)}</text>']
    for tick in range(5):
        value = top * tick / 4
        y = TOP + high * (1 - tick / 4)
        parts.append(
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="{GRID}"/>'
        )
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="{FAINT}">{value:g}</text>'
        )
    for tick in range(5):
        batches = most * tick // 4
        x = LEFT + wide * tick / 4
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - 10}" text-anchor="middle" fill="{FAINT}">{batches:,}</text>'
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
