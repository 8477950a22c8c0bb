"""The driver's own part of refresh pairs of TPC-H, without Spark: read the files, run all operators, commit.

``python -m benchmarks.refresh_driver --scale 0.1 --queries 3,5,10,18,21`` prints processor time and seconds per batch. To compare two
checkouts, run it in them in turns. ``--profile 40`` shows the functions with most processor time of their own.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as st
from pyspark.sql.pandas.types import from_arrow_schema

import substrait_agg as sa
from benchmarks.check import WrongView
from benchmarks.data import refreshes, tpch
from benchmarks.data.tpch import tables_of
from benchmarks.refresh import CHOSEN, WARM, check_view
from substrait_agg.api.runs import bound_to_run
from substrait_agg.bind.plan.views import one_view
from substrait_agg.flow.graph.graph import TableOrigin
from substrait_agg.functions.aggregates.accumulators import WeightKind
from substrait_agg.run_options import RunOptions
from substrait_agg.runtime.batch.microbatch import MicroBatches
from substrait_agg.runtime.batch.settings import BatchSettings
from substrait_agg.runtime.event_state import BatchTimes
from substrait_agg.spark.execution.driver import Driver
from substrait_agg.spark.execution.task_runner import keep_memory
from substrait_agg.spark.inputs.inputs import whole_origins
from substrait_agg.spark.inputs.table_batch import TableBatch, TableRows, TableUse
from substrait_agg.spark.query.spark_executor import SparkExecutor
from substrait_agg.spark.query.start import checked_run
from substrait_agg.spark.sources.files import FoundFile
from substrait_agg.spark.sources.open import SourceFrame
from substrait_agg.spark.sources.parquet_reader import parquet_reader
from substrait_agg.spark.sources.specs import as_spec

NO_SPARK: Any = SimpleNamespace(conf={})
"""In place of a session: the driver only asks for its settings."""
EVERYTHING = Driver(batch_bytes=1 << 50, state_bytes=1 << 50)
"""The driver computes every batch, the load too."""


@dataclass(frozen=True)
class BatchCosts:
    """What the batches that count have cost.

    Attributes:
        processor: seconds of processor time of this process, per batch.
        seconds: by the clock, per batch.
    """

    processor: tuple[float, ...]
    seconds: tuple[float, ...]


class DriverRun:
    """A run of a plan over Parquet files, in this process.

    Args:
        path: file of the plan.
        sources: the source of each table.
        file: returns the file of a table in a batch, given the name of the table and the number.
        checkpoint: a new folder.
    """

    def __init__(
        self,
        path: Path,
        sources: Mapping[str, str],
        file: Callable[[str, int], Path],
        checkpoint: Path,
    ) -> None:
        keep_memory()
        self._file = file
        options = RunOptions(checkpoint=checkpoint)
        plan = sa.load(path)
        checked = checked_run(one_view(bound_to_run(plan, sources, options)), sources, options)
        checked.store.create(checked.document)
        checked.store.claim()
        executor = SparkExecutor(NO_SPARK, EVERYTHING)
        self._batches = MicroBatches(
            BatchSettings(checked.flow, checked.store, executor, 2), lambda _: None
        )
        self._batches.run({})
        whole = whole_origins(checked.flow, {})
        self._uses = [
            TableUse(node, branch, origin, whole[origin.table])
            for node in checked.flow.operators
            for branch in node.branches
            if isinstance(origin := branch.origin, TableOrigin)
        ]
        opened = dict.fromkeys(use.opened for use in self._uses)
        self._sources = {
            origin: self._source(sources[origin.table[-1]], origin) for origin in opened
        }

    def _source(self, spec: str, origin: TableOrigin) -> SourceFrame:
        source = as_spec(spec)
        reader = parquet_reader(source, _spark_types(self._file(origin.table[-1], 0)), origin)
        none: Any = None
        weight: WeightKind = "append_only" if source.change == "none" else "changelog"
        return SourceFrame(none, weight, True, reader)

    def batch(self, number: int) -> None:
        """Compute the batch of the load (0) or of a refresh, and commit it."""
        found = {origin: self._found(origin, number) for origin in self._sources}
        none: Any = None
        batch = TableBatch(
            none, self._sources, {o: files for o, files in found.items() if files}, {}, {}, none
        )
        uses: dict[int, list[TableUse]] = {}
        for use in self._uses:
            if batch.has_rows(use.opened):
                uses.setdefault(use.node.id, []).append(use)
        rows = {node: TableRows(batch, own, _on_spark) for node, own in uses.items()}
        self._batches.run({}, BatchTimes(0), rows)

    def _found(self, origin: TableOrigin, number: int) -> list[FoundFile]:
        """Return the file of a table in a batch; none if the table has no rows in it."""
        file = self._file(origin.table[-1], number)
        if not file.exists():
            return []
        status = file.stat()
        return [FoundFile(f"file://{file}", status.st_mtime_ns // 1_000_000, status.st_size)]


def _on_spark() -> Any:
    raise RuntimeError("the driver cannot compute this batch")


def _spark_types(file: Path) -> st.StructType:
    """Return the columns of a file with the types that Spark finds in it."""
    fields = []
    for field in pq.read_schema(file):
        type_ = pa.int64() if pa.types.is_integer(field.type) else field.type
        fields.append(pa.field(field.name, type_))
    return from_arrow_schema(pa.schema(fields))


def measure(query: int, data: refreshes.Refreshes, profile: cProfile.Profile | None) -> BatchCosts:
    """Run a query over all batches.

    Raises:
        WrongView: the view is not what DuckDB computes.
    """
    processor, seconds = [], []
    with tempfile.TemporaryDirectory(dir=data.folder.parent) as folder:
        checkpoint = Path(folder) / "checkpoint"
        sources = {
            table: f"parquet:{data.changes(table)}?batch-files=1&op=op"
            for table in tables_of(query)
        }
        run = DriverRun(
            tpch.plan_path(query),
            sources,
            lambda table, number: data.changes(table) / f"{number:05d}.parquet",
            checkpoint,
        )
        for number in range(data.pairs + 1):
            began, used = time.perf_counter(), time.process_time()
            if profile is not None and number >= WARM:
                profile.runcall(run.batch, number)
            else:
                run.batch(number)
            processor.append(time.process_time() - used)
            seconds.append(time.perf_counter() - began)
        check_view(query, data, checkpoint)
    return BatchCosts(tuple(processor[WARM:]), tuple(seconds[WARM:]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status is 1 if a view is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1, help="scale factor, such as 0.1 or 1")
    parser.add_argument("--queries", default=",".join(map(str, CHOSEN)), help="numbers of queries")
    parser.add_argument("--pairs", type=int, default=14, help="refresh pairs; some are not counted")
    parser.add_argument("--share", type=float, default=0.001, help="of the orders, in and out")
    parser.add_argument("--profile", type=int, metavar="ROWS", help="show functions")
    options = parser.parse_args(arguments)
    data = refreshes.make(options.scale, options.pairs, options.share)
    for query in map(int, options.queries.split(",")):
        profile = cProfile.Profile(time.process_time) if options.profile else None
        try:
            costs = measure(query, data, profile)
        except WrongView as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        middle = [1000 * statistics.median(part) for part in (costs.processor, costs.seconds)]
        print(f"Q{query}: {middle[0]:.1f} ms of processor time, {middle[1]:.1f} ms", flush=True)
        if profile is not None:
            pstats.Stats(profile).sort_stats("tottime").print_stats(options.profile)
    return 0


if __name__ == "__main__":
    sys.exit(main())
