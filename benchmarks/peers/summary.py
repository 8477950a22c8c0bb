"""The table of all peers, from the results of a run: stored as JSON, shown as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.refresh import QueryResult
from benchmarks.results import WorkloadResult

KIND = "peers"
"""Says what a stored file is."""

SHOWN = ("ours", "default", "rocksdb", "flink-heap", "flink-rocksdb", "pathway", "duckdb", "spark")
"""Engines in the order of the columns."""

NAMES = {
    "ours": "ours", "default": "Spark, default store", "rocksdb": "Spark, RocksDB", "flink-heap": "Flink, heap",
    "flink-rocksdb": "Flink, RocksDB", "pathway": "Pathway", "duckdb": "DuckDB, again", "spark": "Spark, again",
}  # fmt: skip
"""Engine -> what the table calls it."""

BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"
"""Enclose the table in a page."""


@dataclass(frozen=True)
class SummaryRow:
    """A workload.

    Attributes:
        name: such as ``W8 q15``.
        seconds: engine -> median seconds of a batch.
        cpu: engine -> seconds of processor time of a batch.
        absent: engine -> why it has none.
    """

    name: str
    seconds: Mapping[str, float]
    cpu: Mapping[str, float] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)


def rows_of(workload: WorkloadResult) -> Iterator[SummaryRow]:
    """Yield a row per query and kind of batch of a workload."""
    specials = dict.fromkeys(_special(lane.lane) for lane in workload.lanes)
    for special in specials:
        lanes = [lane for lane in workload.lanes if _special(lane.lane) == special]
        kinds = dict.fromkeys(kind for lane in lanes for kind in lane.kinds)
        for kind in kinds:
            name = " ".join(filter(None, (workload.id, special, kind if len(kinds) > 1 else "")))
            yield SummaryRow(
                name,
                {lane.engine: lane.median(kind) or 0.0 for lane in lanes},
                {lane.engine: lane.cpu for lane in lanes if lane.cpu is not None},
                {_engine(n): why for n, why in workload.absent.items() if _special(n) == special},
            )


def row_of_query(result: QueryResult) -> SummaryRow:
    """Return the row of refresh pairs of a query."""
    seconds = {"ours": result.refresh, "duckdb": result.duckdb, "spark": result.spark}
    return SummaryRow(f"TPC-H Q{result.query}", {**seconds, **result.peers}, {}, result.absent)


def _special(lane: str) -> str:
    return lane.partition("@")[2]


def _engine(lane: str) -> str:
    return lane.partition("@")[0]


def stored(
    rows: Sequence[SummaryRow], machine: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return rows as JSON."""
    return {
        "kind": KIND,
        "title": "seconds of a batch, to ours",
        "machine": dict(machine),
        "options": dict(options),
        "rows": [asdict(row) for row in rows],
    }


def markdown(body: Mapping[str, Any]) -> str:
    """Return stored rows as Markdown: seconds, ratios to ours, processor time, reasons."""
    rows = [SummaryRow(**row) for row in body["rows"]]
    engines = [e for e in SHOWN if any(e in row.seconds for row in rows)]
    parts = [
        "Seconds of a batch (median), and the ratio to ours:",
        _table(["workload", *(NAMES[e] for e in engines)], [_seconds(r, engines) for r in rows]),
    ]
    timed = [e for e in engines if any(e in row.cpu for row in rows)]
    with_cpu = [row for row in rows if row.cpu]
    if with_cpu:
        cells = [[r.name, *(_number(r.cpu.get(e)) for e in timed)] for r in with_cpu]
        parts += [
            "Seconds of processor time of a batch, of all processes of an engine:",
            _table(["workload", *(NAMES[e] for e in timed)], cells),
        ]
    reasons = dict.fromkeys(
        (NAMES.get(e, e), why) for row in rows for e, why in row.absent.items() if e in SHOWN
    )
    by_reason = {
        (name, why): [r.name for r in rows if why in r.absent.values()] for name, why in reasons
    }
    if reasons:
        cells = [[name, ", ".join(where), why] for (name, why), where in by_reason.items()]
        parts += ["Not measured:", _table(["engine", "workloads", "reason"], cells)]
    return "\n\n".join([*parts, _machine(body)])


def _seconds(row: SummaryRow, engines: Sequence[str]) -> list[str]:
    ours = row.seconds.get("ours")
    cells = [row.name]
    for engine in engines:
        seconds = row.seconds.get(engine)
        ratio = f" ({seconds / ours:.2g})" if seconds and ours and engine != "ours" else ""
        cells.append(f"{_number(seconds)}{ratio}")
    return cells


def _number(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2f}"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _machine(body: Mapping[str, Any]) -> str:
    machine, options = body["machine"], body["options"]
    given = ", ".join(f"`{name}` {value}" for name, value in options.items())
    return (
        f"Measured on {machine.get('cores')} cores with a load average of {machine.get('load')} before the run"
        f" ({given})."
    )


def with_table(page: str, table: str) -> str:
    """Return a page with another table.

    Raises:
        ValueError: the page has no place for it.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} and {END}")
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"
