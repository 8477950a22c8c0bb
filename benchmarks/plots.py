"""Results as pictures: seconds per batch, where our time goes, and from which size on incremental pays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.phases import PHASES
from benchmarks.report import profiles
from benchmarks.results import Results, WorkloadResult

COLOURS = {
    "ours": "#0b6e4f", "rocksdb": "#c44536", "default": "#e09f3e", "floor": "#9aa5b1", "batch": "#6c757d",
    "spark": "#5e548e", "duckdb": "#f4d35e", "pathway": "#3d5a80", "flink-rocksdb": "#ee6c4d", "flink-heap": "#f2a65a",
}  # fmt: skip


def save(results: Results, folder: Path) -> list[Path]:
    """Draw everything there are figures for; returns the files (SVG).

    Raises:
        ModuleNotFoundError: matplotlib is not installed (extra ``bench``).
    """
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "substrait-agg"  # the same figures give the same file
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    drawings: list[tuple[str, Callable[[Any], None]]] = [
        (w.id.lower(), _bars(w)) for w in results.workloads if w.id != "X2" and w.lanes
    ]
    if profiles(results):
        drawings.append(("phases", lambda axes: _phases(axes, results)))
    for workload in (w for w in results.workloads if w.id == "X2"):
        drawings += [("crossover", _crossover(workload)), ("crossover-map", _map(workload))]
    return [_draw(plt, draw, folder / f"{name}.svg") for name, draw in drawings]


def _draw(plt: Any, draw: Callable[[Any], None], path: Path) -> Path:
    figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
    draw(axes)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path


def _bars(workload: WorkloadResult) -> Callable[[Any], None]:
    def draw(axes: Any) -> None:
        names = [lane.lane for lane in workload.lanes][::-1]
        medians = [lane.median() or 0.0 for lane in workload.lanes][::-1]
        colours = [COLOURS.get(lane.engine, "#888888") for lane in workload.lanes][::-1]
        drawn = axes.barh(names, medians, color=colours)
        axes.bar_label(drawn, fmt="%.3g s", padding=3)
        axes.set_xlabel("seconds per batch (median)")
        axes.set_title(f"{workload.id}: {workload.what}", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)

    return draw


def _phases(axes: Any, results: Results) -> None:
    lanes = profiles(results)[::-1]
    names = [name for name, _ in lanes]
    left = [0.0] * len(lanes)
    import matplotlib as mpl

    colours = mpl.colormaps["tab20"](range(20))
    for ordinal, phase in enumerate(PHASES):
        sizes = [parts.get(phase, 0.0) / (sum(parts.values()) or 1) for _, parts in lanes]
        axes.barh(names, sizes, left=left, label=phase, color=colours[ordinal % 20])
        left = [a + b for a, b in zip(left, sizes, strict=True)]
    axes.set_xlabel("share of the batch")
    axes.legend(bbox_to_anchor=(1, 1), loc="upper left", fontsize=7)
    axes.tick_params(axis="y", labelsize=7)


def _crossover(workload: WorkloadResult) -> Callable[[Any], None]:
    """Seconds over rows of a batch, a line per engine and state size: where lines cross, the other engine wins."""

    def draw(axes: Any) -> None:
        sizes = sorted({lane.held for lane in workload.lanes})
        for lane in workload.lanes:
            kinds = sorted(lane.kinds, key=int)
            shade = 0.35 + 0.65 * (sizes.index(lane.held) + 1) / len(sizes)
            axes.plot(
                [int(kind) for kind in kinds], [lane.median(kind) for kind in kinds], marker="o",
                color=COLOURS.get(lane.engine, "#888888"), alpha=shade,
                label=f"{lane.engine}, {lane.held:,} groups held",
            )  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="rows of a batch", ylabel="seconds per batch")
        axes.set_title("Incremental, and recomputing with DuckDB", fontsize=9)
        axes.grid(alpha=0.2)
        axes.legend(fontsize=7)

    return draw


def _map(workload: WorkloadResult) -> Callable[[Any], None]:
    """How many times faster than recomputing, by groups held and rows of a batch."""

    def draw(axes: Any) -> None:
        held = sorted({lane.held for lane in workload.lanes})
        kinds = sorted({kind for lane in workload.lanes for kind in lane.kinds}, key=int)
        medians = {
            (lane.engine, lane.held, kind): lane.median(kind)
            for lane in workload.lanes
            for kind in kinds
        }
        times = [[_times(medians, size, kind) for kind in kinds] for size in held]
        limit = max(1.0, *(abs(math.log2(t)) for row in times for t in row if t))
        shown = [[math.log2(t) if t else math.nan for t in row] for row in times]
        axes.imshow(shown, cmap="PiYG", vmin=-limit, vmax=limit, aspect="auto", origin="lower")
        for y, row in enumerate(times):
            for x, value in enumerate(row):
                axes.text(x, y, f"{value:.2g} x" if value else "", ha="center", va="center")
        axes.set_xticks(range(len(kinds)), [f"{int(kind):,}" for kind in kinds])
        axes.set_yticks(range(len(held)), [f"{size:,}" for size in held])
        axes.set(xlabel="rows of a batch", ylabel="groups held")
        axes.set_title("Times faster than recomputing with DuckDB", fontsize=9)

    return draw


def _times(
    medians: Mapping[tuple[str, int, str], float | None], held: int, kind: str
) -> float | None:
    ours, recomputed = (medians.get((engine, held, kind)) for engine in ("ours", "duckdb"))
    return recomputed / ours if ours and recomputed else None
