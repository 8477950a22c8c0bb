"""All peers in one run: Spark's own streaming, PyFlink, Pathway and recomputation, against ours.

``python -m benchmarks.peers --flink flink/bin/python --pathway pathway/bin/python`` measures the workloads, stores the
figures in ``docs/benchmarks/peers.json`` with their picture, and writes the table of ``docs/peers.md`` again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import plot, refresh
from benchmarks.conduct import EngineSettings, run
from benchmarks.data import refreshes
from benchmarks.data.data_sets import FOLDER
from benchmarks.peers import summary
from benchmarks.results import machine
from benchmarks.workload import Sizes, Workload
from benchmarks.workloads import OTHERS, WORKLOADS

DOCS = Path(__file__).parents[2] / "docs"
WORKLOADS_OF_PEERS = ("W1", "W4", "W8", "W11", "W3")
QUERIES_OF_PEERS = (1, 3, 5, 6, 10)
ENGINES = ("ours", "rocksdb", "default", "duckdb", *OTHERS)
LEAST_TURN = 3
"""Batches of a turn at least: the first one of a turn is not measured."""
OMITTED = ("@inserts", "@churn-op", "@churn-weight")
"""Lanes that measure what W1 and W4 measure."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__.partition("\n")[0]
    )
    made.add_argument("--flink", help="Python with apache-flink; without it, Flink is left out")
    made.add_argument("--pathway", help="Python with pathway; without it, Pathway is left out")
    made.add_argument("--only", default=",".join((*WORKLOADS_OF_PEERS, "TPC-H")), help="workloads")
    made.add_argument("--scale", type=float, default=1.0, help="factor on rows and groups")
    made.add_argument("--batches", type=int, default=6, help="measured batches at most, of a kind")
    made.add_argument("--tpch", type=float, default=0.1, help="scale factor of TPC-H")
    made.add_argument(
        "--pairs", type=int, default=8, help="refresh pairs; the first are not counted"
    )
    made.add_argument("--memory", default="3g", help="of each JVM")
    made.add_argument("--json", type=Path, default=DOCS / "benchmarks" / "peers.json")
    made.add_argument("--page", type=Path, default=DOCS / "peers.md", help="page with the table")
    made.add_argument(
        "--keep",
        type=Path,
        nargs="*",
        default=[],
        metavar="JSON",
        help="add the rows of earlier runs",
    )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, store and show."""
    options = parser().parse_args(arguments)
    pythons = {
        "pathway": options.pathway,
        "flink-heap": options.flink,
        "flink-rocksdb": options.flink,
    }
    present = {name: python for name, python in pythons.items() if python}
    setting = EngineSettings(
        FOLDER, {n: str(Path(p).absolute()) for n, p in present.items()}, options.memory
    )
    engines = [e for e in ENGINES if e not in OTHERS or e in present]
    given = {n: getattr(options, n) for n in ("scale", "batches", "tpch", "pairs")}
    on = machine()
    table = ""
    rows = [
        summary.SummaryRow(**row)
        for kept in options.keep
        for row in json.loads(kept.read_text())["rows"]
    ]
    for name in options.only.split(","):
        began = time.monotonic()
        if name == "TPC-H":
            rows += _refresh_pairs(options, [e for e in engines if e in OTHERS], setting)
        else:
            sizes = Sizes(scale=options.scale, most=options.batches)
            workload = _with_engines(WORKLOADS[name](sizes), engines)
            workload = replace(workload, rounds=max(1, min(2, options.batches // LEAST_TURN)))
            print(f"{workload.id}: {workload.what}", file=sys.stderr, flush=True)
            rows += summary.rows_of(run(workload, setting))
        print(f"  {name} took {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        # What is done is kept, whatever becomes of the rest.
        table = _store(summary.stored(rows, on, given), options)
    print(table)
    return 0


def _store(body: dict[str, Any], options: argparse.Namespace) -> str:
    """Write the figures, their picture and the page; returns the table."""
    options.json.write_text(json.dumps(body, indent=1) + "\n")
    options.json.with_suffix(".svg").write_text(plot.picture(body))
    table = summary.markdown(body)
    if options.page.exists():
        options.page.write_text(summary.with_table(options.page.read_text(), table))
    return table


def _with_engines(workload: Workload, engines: Sequence[str]) -> Workload:
    lanes = tuple(
        lane
        for lane in workload.lanes
        if lane.engine in engines and not lane.name.endswith(OMITTED)
    )
    used = {lane.data for lane in lanes}
    absent = {
        name: why
        for name, why in workload.absent.items()
        if name.partition("@")[0] in engines and not name.endswith(OMITTED)
    }
    data = {name: source for name, source in workload.data.items() if name in used}
    return replace(workload, lanes=lanes, absent=absent, data=data)


def _refresh_pairs(
    options: argparse.Namespace, peers: Sequence[str], setting: EngineSettings
) -> list[summary.SummaryRow]:
    data = refreshes.make(options.tpch, options.pairs, 0.001)
    rows = []
    for query in QUERIES_OF_PEERS:
        result = refresh.measure(query, data, peers, setting)
        print(f"  {result}", file=sys.stderr, flush=True)
        rows.append(summary.row_of_query(result))
    return rows


if __name__ == "__main__":
    sys.exit(main())
