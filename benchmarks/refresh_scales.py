"""Refresh pairs and stream-stream joins at several scales, stored as one file that is drawn as a picture.

``python -m benchmarks.refresh_scales --scales 0.01,0.1 --json FILE`` measures and draws; the scales of the call replace those
in the file. ``python -m benchmarks.refresh_scales --plots FILE`` only draws.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import plot, refresh, stream_joins
from benchmarks.check import WrongView
from benchmarks.data import refreshes
from benchmarks.results import machine


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.refresh_scales", description=__doc__.partition("\n")[0]
    )
    made.add_argument("--scales", default="0.01,0.1", help="scale factors")
    made.add_argument("--queries", default=",".join(map(str, refresh.CHOSEN)), help="their numbers")
    made.add_argument("--pairs", type=int, default=14, help="refresh pairs; some are not counted")
    made.add_argument("--share", type=float, default=0.001, help="of the orders, in and out")
    made.add_argument(
        "--json", type=Path, help="file that figures are kept in, and its picture beside it"
    )
    made.add_argument("--plots", type=Path, metavar="FILE", help="only draw this file")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, store and draw; the exit status is 1 if a view is wrong, 2 if the call is."""
    options = parser().parse_args(arguments)
    if options.plots is not None:
        draw(options.plots)
        return 0
    if options.pairs <= refresh.WARM:
        print(f"give more than {refresh.WARM} --pairs", file=sys.stderr)
        return 2
    queries = [int(query) for query in options.queries.split(",")]
    for scale in map(float, options.scales.split(",")):
        try:
            measured = measure(scale, queries, options.pairs, options.share)
        except WrongView as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        print(table(measured))
        if options.json:
            store(options.json, measured)
            draw(options.json)
    return 0


def measure(scale: float, queries: Sequence[int], pairs: int, share: float) -> dict[str, Any]:
    """Measure the queries at one scale, and their joins against Spark's where Spark can run them.

    Raises:
        WrongView: a view is not what DuckDB computes.
    """
    data = refreshes.make(scale, pairs, share)
    done = [asdict(refresh.measure(query, data)) for query in queries]
    joins = [
        asdict(stream_joins.measure(query, scale, pairs, share))
        for query in queries
        if query in stream_joins.QUERIES
    ]
    return {
        "scale": scale, "share": share, "pairs": pairs, "machine": machine(),
        "load": [round(load, 1) for load in os.getloadavg()], "queries": done, "joins": joins,
    }  # fmt: skip


def store(file: Path, measured: dict[str, Any]) -> None:
    """Write the measurements of a scale to a file; they replace those of the same scale."""
    scales = json.loads(file.read_text())["scales"] if file.exists() else []
    others = [one for one in scales if one["scale"] != measured["scale"]]
    content = {"scales": sorted([*others, measured], key=lambda one: float(one["scale"]))}
    file.write_text(json.dumps(content, indent=1) + "\n")


def draw(file: Path) -> None:
    """Draw the measurements of a file beside it."""
    file.with_suffix(".svg").write_text(plot.picture(json.loads(file.read_text())))


def table(measured: dict[str, Any]) -> str:
    """Return the times of a scale as Markdown."""
    lines = [
        "| at scale {}, load {} | ours, s | others, s |".format(
            measured["scale"], measured["load"][0]
        ),
        "|---|---|---|",
    ]
    lines += [
        f"| Q{r['query']}, a refresh pair | {r['refresh']:.3f} | DuckDB {r['duckdb']:.3f}, Spark {r['spark']:.3f} |"
        for r in measured["queries"]
    ]
    for r in measured["joins"]:
        ours, spark = r["ours"], r["spark"]
        lines.append(
            f"| the join of Q{r['query']}, inserts | {ours['seconds']:.3f} ({ours['cpu']:.2f} s of processors, "
            f"{ours['state'] / 1e6:.1f} MB) | Spark's stream-stream join {spark['seconds']:.3f} "
            f"({spark['cpu']:.2f} s, {spark['state'] / 1e6:.1f} MB) |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
