"""The table of workloads."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.data.bids import bids
from benchmarks.data.churn import churn, with_deletions
from benchmarks.data.lineitem import lineitem
from benchmarks.data.rows import lists, many, wide, with_key
from benchmarks.queries import NO_DELETES, NO_DISTINCT, NO_WEIGHTS
from benchmarks.workload import DataSource, Lane, Sizes, Workload, lanes

STREAMING = ("ours", "rocksdb", "default", "floor")
RECOMPUTING = ("spark", "duckdb")
TUNED = ("rocksdb-tuned", "default-tuned")
OTHERS = ("pathway", "flink-rocksdb", "flink-heap")
"""Incremental engines besides Spark."""
PEERS = (*TUNED, *OTHERS)
"""Take part only when they are named."""
MEASURED = "rows"
NO_NATIVE = ("rocksdb", "default")


def w1(sizes: Sizes) -> Workload:
    """Many random keys."""
    rows, count = sizes.rows(250_000, 500_000), sizes.count(16, 20)
    drawn = sizes.batches(MEASURED, count, rows)
    source = DataSource(
        with_key, {"keys": sizes.rows(500_000, 1_000_000), "held": 0, "batches": drawn}
    )
    return Workload(
        "W1", f"{count} batches x {rows:,} rows, {source.parameters['keys']:,} random keys: count, sum, avg",
        {"rows": source}, lanes("count_sum_avg", "rows", (*STREAMING, *RECOMPUTING, *PEERS)),
    )  # fmt: skip


def w2(sizes: Sizes) -> Workload:
    """The same small batches with more and more groups held."""
    held = {
        "x1": sizes.rows(200_000, 1_000_000), "x5": sizes.rows(1_000_000, 5_000_000),
        "x20": sizes.rows(4_000_000, 20_000_000), "x50": sizes.rows(10_000_000, 50_000_000),
    }  # fmt: skip
    rows = sizes.rows(50_000, 100_000)
    drawn = sizes.batches(MEASURED, sizes.count(12, 20), rows)
    made = {
        name: DataSource(with_key, {"keys": groups, "held": groups, "batches": drawn})
        for name, groups in held.items()
    }
    chosen = (
        *(("ours", name) for name in held), ("rocksdb", "x1"), ("rocksdb", "x20"), ("default", "x1"),
        ("floor", "x50"), ("spark", "x20"), ("duckdb", "x1"), ("duckdb", "x20"), ("duckdb", "x50"),
    )  # fmt: skip
    groups = ", ".join(f"{g:,}" for g in held.values())
    return Workload(
        "W2", f"{groups} groups held; batches x {rows:,} random rows", made,
        tuple(Lane(f"{engine}@{name}", engine, "count_sum_avg", name) for engine, name in chosen),
        absent={"default@x20": "its state does not fit in the memory of the JVM"},
    )  # fmt: skip


def w3(sizes: Sizes) -> Workload:
    """Latency."""
    count, rows = sizes.count(60, 200), sizes.rows(1_000, 1_000)
    drawn = sizes.batches(MEASURED, count, rows, warm=15)
    source = DataSource(with_key, {"keys": 100_000, "held": 0, "batches": drawn})
    return Workload(
        "W3", f"{count} batches x {rows:,} rows", {"rows": source},
        lanes("count_sum_avg", "rows", (*STREAMING, *PEERS)), rounds=3,
    )  # fmt: skip


def w4(sizes: Sizes) -> Workload:
    """Deletions of the greatest, and their return."""
    rows, batch = sizes.rows(1_000_000, 5_000_000), sizes.rows(50_000, 100_000)
    pairs = sizes.count(10, 14)
    source = DataSource(churn, {"rows": rows, "groups": rows // 20, "batch": batch, "pairs": pairs})
    return Workload(
        "W4", f"churn: {rows:,} rows; batches of {batch:,} deletions, half of them of the maximum, or insertions",
        {"rows": source}, lanes("churn", "rows", ("ours", "floor", *RECOMPUTING, *OTHERS)),
        absent=dict.fromkeys(NO_NATIVE, f"{NO_DELETES}, and {NO_DISTINCT}"),
    )  # fmt: skip


def w5(sizes: Sizes) -> Workload:
    """A hot group."""
    rows, count = sizes.rows(250_000, 500_000), sizes.count(10, 20)
    drawn = sizes.batches(MEASURED, count, rows)
    source = DataSource(with_key, {"keys": 100_000, "held": 0, "batches": drawn, "hot": 0.9})
    engines = ("ours", "rocksdb", "default", "floor", "batch", "duckdb")
    return Workload(
        "W5", f"one hot group: {rows:,} rows a batch, global, and 90 % in one key", {"rows": source},
        (*lanes("global", "rows", engines, "@global"), *lanes("count_sum_avg", "rows", engines, "@hot")),
    )  # fmt: skip


def w6(sizes: Sizes) -> Workload:
    """Wide."""
    rows, count = sizes.rows(100_000, 200_000), sizes.count(8, 20)
    drawn = sizes.batches(MEASURED, count, rows)
    source = DataSource(wide, {"keys": sizes.rows(50_000, 100_000), "batches": drawn})
    return Workload(
        "W6", f"wide: {rows:,} rows a batch, 1 and 30 FILTERed measures; cube of 4 columns",
        {"rows": source},
        (
            *lanes("wide_all", "rows", (*STREAMING, "duckdb"), "@30"),
            *lanes("wide_one", "rows", ("ours",), "@1"),
            *lanes("cube", "rows", (*STREAMING, "duckdb"), "@cube"),
        ),
    )  # fmt: skip


def w7(sizes: Sizes) -> Workload:
    """Lists and texts."""
    groups, values, each, count = sizes.rows(1_000, 10_000), 1_000, 10, sizes.count(8, 20)
    kinds = [kind for kind, _ in sizes.batches(MEASURED, count, each)]
    parameters = {"groups": groups, "values": values, "touched": groups // 100, "each": each}
    source = DataSource(lists, {**parameters, "kinds": kinds})
    engines = ("ours", "rocksdb", "floor", "duckdb")
    return Workload(
        "W7", f"{groups:,} groups of {values:,} values, 1 % of them touched: lists and texts",
        {"rows": source},
        (*lanes("list_agg", "rows", engines, "@list"), *lanes("string_agg", "rows", engines, "@text")),
    )  # fmt: skip


def w8(sizes: Sizes) -> Workload:
    """Auctions."""
    rows, count = sizes.rows(100_000, 500_000), sizes.count(8, 20)
    source = DataSource(bids, {"batches": sizes.batches(MEASURED, count, rows)})
    return Workload(
        "W8", f"Nexmark q15, q16, q17: {rows:,} bids a batch", {"rows": source},
        (
            *lanes("q15", "rows", ("ours", "floor", "duckdb", *OTHERS), "@q15"),
            *lanes("q16", "rows", ("ours", "floor", "duckdb", *OTHERS), "@q16"),
            *lanes("q17", "rows", (*STREAMING, "duckdb", *PEERS), "@q17"),
        ),
        absent={f"{e}@{q}": NO_DISTINCT for e in NO_NATIVE for q in ("q15", "q16")},
    )  # fmt: skip


def w9(sizes: Sizes) -> Workload:
    """TPC-H under refreshes."""
    scale = (1.0 if sizes.large else 0.1) * sizes.scale
    refreshes = sizes.count(12, 24)
    source = DataSource(lineitem, {"scale": scale, "refreshes": refreshes, "share": 0.005})
    engines = ("ours", "floor", *RECOMPUTING)
    return Workload(
        "W9", f"TPC-H Q1 and Q6 at scale {scale:g}; refreshes of 0.5 % of the orders in and out",
        {"rows": source}, (*lanes("q01", "rows", engines, "@q01"), *lanes("q06", "rows", engines, "@q06")),
        absent={f"{e}@{q}": NO_DELETES for e in NO_NATIVE for q in ("q01", "q06")},
    )  # fmt: skip


def w10(sizes: Sizes) -> Workload:
    """One large load."""
    rows, files = sizes.rows(5_000_000, 50_000_000), 25
    parameters = {"keys": rows, "rows": rows, "files": files, "kind": MEASURED}
    return Workload(
        "W10", f"initial load of {rows:,} rows in one batch", {"rows": DataSource(many, parameters)},
        lanes("count_sum_avg", "rows", ("ours", "floor", "duckdb")),
        rounds=1, batch_files=files, first=True,
    )  # fmt: skip


def w11(sizes: Sizes) -> Workload:
    """Retractions at the price of inserts."""
    rows, count = sizes.rows(250_000, 500_000), sizes.count(16, 20)
    drawn = sizes.batches(MEASURED, count, rows)
    keys = sizes.rows(500_000, 1_000_000)
    held, batch = sizes.rows(1_000_000, 5_000_000), sizes.rows(50_000, 100_000)
    churned = {"rows": held, "groups": held // 20, "batch": batch, "pairs": sizes.count(10, 14)}
    data = {
        "inserts": DataSource(with_key, {"keys": keys, "held": 0, "batches": drawn}),
        "changes": DataSource(with_deletions, {"keys": keys, "batches": drawn}),
        "churn": DataSource(churn, {**churned, "weighted": True}),
    }
    engines = ("ours", "duckdb")
    return Workload(
        "W11", f"W1 with {rows:,} rows a batch and W4, rows leaving by operation and by weight; a third deletions",
        data,
        (
            *lanes("count_sum_avg", "inserts", STREAMING, "@inserts"),
            *lanes("count_sum_avg", "changes", (*engines, *OTHERS), "@op"),
            *lanes("count_sum_avg", "changes", STREAMING, "@weight", weighted=True),
            *lanes("churn", "churn", engines, "@churn-op"),
            *lanes("churn", "churn", ("ours",), "@churn-weight", weighted=True),
        ),
        absent={
            **{f"{e}@op": NO_DELETES for e in NO_NATIVE},
            **{f"{e}@weight": NO_WEIGHTS for e in OTHERS},
            **{f"{e}@churn-{c}": f"{NO_DELETES}, and {NO_DISTINCT}" for e in NO_NATIVE for c in ("op", "weight")},
        },
    )  # fmt: skip


def exact(sizes: Sizes) -> Workload:
    """What exactness of float sums costs."""
    rows, count = sizes.rows(250_000, 500_000), sizes.count(10, 20)
    data = {
        name: DataSource(
            with_key, {"keys": keys, "held": 0, "batches": sizes.batches(MEASURED, count, rows)}
        )
        for name, keys in (("few", 1_000), ("many", sizes.rows(500_000, 1_000_000)))
    }
    return Workload(
        "X1", f"exact float sums: {rows:,} rows a batch, few and many keys; sum of a float, sum of an integer",
        data,
        tuple(
            Lane(f"ours@{kind}-{name}", "ours", f"sum_{kind}", name)
            for name in data for kind in ("float", "int")
        ),
    )  # fmt: skip


DELTAS = (1_000, 10_000, 100_000, 1_000_000)


def crossover(sizes: Sizes) -> Workload:
    """When incremental pays."""
    held = {
        f"{groups}": groups
        for groups in (
            sizes.rows(100_000, 100_000), sizes.rows(1_000_000, 1_000_000), sizes.rows(5_000_000, 10_000_000),
            *([sizes.rows(0, 50_000_000)] if sizes.large else []),
        )
    }  # fmt: skip
    deltas = [sizes.rows(rows, rows) for rows in DELTAS[: 4 if sizes.large else 3]]
    repeated = sorted(deltas * sizes.count(3, 5))
    drawn = [*sizes.warm(deltas[0], 3), *((f"{rows}", rows) for rows in repeated)]
    data = {
        name: DataSource(with_key, {"keys": groups, "held": groups, "batches": drawn})
        for name, groups in held.items()
    }
    return Workload(
        "X2", "crossover with recomputing by DuckDB, over groups held and rows of a batch", data,
        tuple(
            Lane(f"{engine}@{name}", engine, "count_sum_avg", name)
            for name in held for engine in ("ours", "duckdb")
        ),
        rounds=1, samples=len(repeated),
    )  # fmt: skip


WORKLOADS: dict[str, Callable[[Sizes], Workload]] = {
    "W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6, "W7": w7, "W8": w8, "W9": w9,
    "W10": w10, "W11": w11, "X1": exact, "X2": crossover,
}  # fmt: skip
"""Workload by its id; X1 and X2 measure what a target asks for besides."""
