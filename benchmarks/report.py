"""Results as tables: on the terminal, and as Markdown for the documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table as Drawn

from benchmarks.phases import PHASES
from benchmarks.results import LaneResult, Results, WorkloadResult
from benchmarks.targets import TARGETS, written

NONE = "-"


@dataclass(frozen=True)
class ReportTable:
    """Cells as text; every row is as long as `columns`."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """As Markdown."""
        lines = [f"### {self.title}", "", _line(self.columns), "|---" * len(self.columns) + "|"]
        return "\n".join([*lines, *map(_line, self.rows)])

    def drawn(self) -> Drawn:
        """For the terminal."""
        table = Drawn(title=self.title, title_justify="left")
        for ordinal, column in enumerate(self.columns):
            table.add_column(column, justify="left" if ordinal == 0 else "right")
        for row in self.rows:
            table.add_row(*row)
        return table


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def tables(results: Results) -> Iterator[ReportTable]:
    """Targets, workloads, phases."""
    yield _targets(results)
    for workload in results.workloads:
        yield _workload(workload)
    yield _profile(results)


def _targets(results: Results) -> ReportTable:
    words = {True: "met", False: "missed", None: "not measured"}
    rows = []
    for target in TARGETS:
        value = target.value(results)
        shown = NONE if value is None else f"{value:.3g}{target.unit}"
        limit = f"{'at most' if target.most else 'at least'} {target.limit:g}{target.unit}"
        rows.append((target.what, shown, limit, words[target.met(results)]))
    return ReportTable("Targets", ("what", "measured", "target", ""), tuple(rows))


COLUMNS = (
    "lane", "batches of", "median s", "fastest", "slowest", "times ours", "cpu s", "k rows/s/core", "written/in",
    "JVM MB", "driver MB", "workers MB",
)  # fmt: skip


def _workload(workload: WorkloadResult) -> ReportTable:
    rows = [
        _lane(workload, lane, kind if len(lane.kinds) > 1 else None)
        for lane in workload.lanes
        for kind in lane.kinds
    ]
    rows += [
        (name, why, *[NONE] * (len(COLUMNS) - 2)) for name, why in sorted(workload.absent.items())
    ]
    return ReportTable(f"{workload.id}: {workload.what}", COLUMNS, tuple(rows))


def _lane(workload: WorkloadResult, lane: LaneResult, kind: str | None) -> tuple[str, ...]:
    taken = sorted(lane.seconds(kind))
    own = _own(workload, lane)
    median, base = lane.median(kind), own.median(kind) if own is not None else None
    rate, amplified = lane.rate(kind), written(lane)
    return (
        lane.lane,
        f"{kind or lane.kinds[0]} ({len(taken)})",
        *(f"{s:.3f}" if s is not None else NONE for s in (median, taken[0], taken[-1])),
        f"{median / base:.2f}" if median and base else NONE,
        f"{lane.cpu:.2f}" if lane.cpu is not None else NONE,
        f"{rate / 1000:.1f}" if rate else NONE,
        f"{amplified:.2f}" if amplified is not None else NONE,
        *(_megabytes(lane.memory.get(part)) for part in ("jvm", "driver", "workers")),
    )


def _own(workload: WorkloadResult, lane: LaneResult) -> LaneResult | None:
    """Our lane with what the other has behind its ``@``."""
    _, at, special = lane.lane.partition("@")
    return workload.lane(f"ours{at}{special}")


def _megabytes(size: int | None) -> str:
    return f"{size / 2**20:.0f}" if size else NONE


def profiles(results: Results) -> list[tuple[str, dict[str, float]]]:
    """The phases of each of our lanes that has them."""
    lanes = [(w.id, lane) for w in results.workloads for lane in w.lanes if lane.engine == "ours"]
    return [(f"{id} {lane.lane}", lane.phases()) for id, lane in lanes if lane.phases()]


def _profile(results: Results) -> ReportTable:
    rows = [
        (name, *(_ms(parts.get(phase, 0.0)) for phase in PHASES), _ms(sum(parts.values())))
        for name, parts in profiles(results)
    ]
    return ReportTable(
        "Where our time goes: mean ms per batch", ("lane", *PHASES, "all"), tuple(rows)
    )


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f}"


def show(results: Results, console: Console | None = None) -> None:
    """Print all tables."""
    target = console or Console(width=200)
    for table in tables(results):
        target.print(table.drawn())


def markdown(results: Results) -> str:
    """All tables as Markdown, with what they were measured on."""
    machine = results.machine
    head = (
        f"Measured with {machine.get('processor') or 'unknown processor'}, {machine.get('cores')} cores,"
        f" {machine.get('memory', 0) / 2**30:.0f} GiB; load before: {machine.get('load')}; options"
        f" {results.options}"
    )
    return "\n\n".join([head, *(table.markdown() for table in tables(results))]) + "\n"
