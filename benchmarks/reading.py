"""Reading a view through the Spark data source against reading the same rows from Parquet, in turns in one Spark.

``python -m benchmarks.reading --rows 5000000 --json FILE`` makes a view of that many rows, changes a few of them in further
batches, writes its rows as Parquet, and prints seconds, processor time and ratios of the reads. The third contender is a Python
data source that yields constant batches of the same columns: what Spark itself takes for the rows of any such source. `--conf` gives
Spark further settings.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import substrait_agg as sa
from benchmarks.data.data_sets import FOLDER, make
from benchmarks.data.rows import with_key
from benchmarks.engines import on_spark
from benchmarks.queries import plan_of
from benchmarks.results import machine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

QUERY = "count_sum_avg"


def _all_columns(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _sums(frame: DataFrame) -> None:
    frame.selectExpr(*(f"sum({name})" for name in frame.columns)).collect()


def _to_arrow(frame: DataFrame) -> None:
    frame.toArrow()


ACTIONS: dict[str, Callable[[DataFrame], None]] = {
    "all columns": _all_columns,
    "sums": _sums,
    "to Arrow": _to_arrow,
}
"""What is done with the rows of each source. All columns: Spark makes every row and drops it."""


class ConstantSource(DataSource):
    """A Python data source whose partitions are constant batches: options ``rows`` and ``parts``."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "constant_batches"

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the rows."""
        return ConstantReader(int(self.options["rows"]), int(self.options["parts"]))


class ConstantReader(DataSourceReader):
    """Reads constant batches of three integers and a float."""

    def __init__(self, rows: int, parts: int) -> None:
        self._rows = rows
        self._parts = parts

    def partitions(self) -> list[InputPartition]:
        """Parts of equal size."""
        return [InputPartition(part) for part in range(self._parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batches of a part."""
        numbers = pa.array(np.arange(BATCH_ROWS))
        columns = [numbers, numbers, numbers, numbers.cast(pa.float64())]
        batch = pa.RecordBatch.from_arrays(columns, names=COLUMNS)
        left = self._rows // self._parts
        while left > 0:
            yield batch.slice(0, min(left, BATCH_ROWS))
            left -= BATCH_ROWS


COLUMNS = ["k", "n", "s", "a"]
BATCH_ROWS = 1 << 17
PARQUET = "parquet"
WARM_UP = 2
"""Rounds that do not count: the JVM compiles, and workers verify the runs."""


@dataclass(frozen=True)
class ReadCost:
    """Cost of an action on a source, in seconds: medians of the rounds.

    Attributes:
        seconds: its time.
        jvm: processor time of Spark's JVM.
        python: processor time of the Python workers.
        ratio: its time by that of Parquet in the same round.
        processor_ratio: the same, of all processor time.
    """

    seconds: float
    jvm: float
    python: float
    ratio: float
    processor_ratio: float


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.reading", description=__doc__.partition("\n")[0]
    )
    made.add_argument("--rows", type=int, default=5_000_000, help="of the view")
    made.add_argument("--batches", type=int, default=3, help="after the first, of 1 %% of the rows")
    made.add_argument(
        "--rounds", type=int, default=5, help=f"that count, after {WARM_UP} that do not"
    )
    made.add_argument("--conf", action="append", default=[], help="a setting of Spark: KEY=VALUE")
    made.add_argument("--json", type=Path, help="file that figures are kept in")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and show."""
    options = parser().parse_args(arguments)
    spark = on_spark.session(dict(setting.split("=", 1) for setting in options.conf))
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        checkpoint = _view(spark, Path(folder), options.rows, options.batches)
        view = sa.open_view(str(checkpoint))
        copy = Path(folder) / "copy.parquet"
        source = spark.read.format("substrait_agg").load(str(checkpoint))
        source.write.parquet(str(copy))
        parquet = spark.read.parquet(str(copy))
        _check_same(source, parquet, view)
        spark.dataSource.register(ConstantSource)
        constant = (
            spark.read.format("constant_batches")
            .schema("k bigint, n bigint, s bigint, a double")
            .options(rows=options.rows, parts=source.rdd.getNumPartitions())
            .load()
        )
        frames = {"view": source, "constant batches": constant, PARQUET: parquet}
        runs = [len(files) for files in view.scan().trees]
        print(f"{options.rows} rows, runs {runs}", flush=True)
        costs = {name: _measure(name, frames, options.rounds) for name in ACTIONS}
    if options.json:
        kept = {
            "machine": machine(), "rows": options.rows, "runs": runs, "settings": options.conf,
            "costs": {a: {name: asdict(cost) for name, cost in of.items()} for a, of in costs.items()},
        }  # fmt: skip
        options.json.write_text(json.dumps(kept, indent=1))
    return 0


def _view(spark: SparkSession, folder: Path, rows: int, batches: int) -> Path:
    """Make a view of a row per key."""
    parameters: dict[str, Any] = {
        "keys": rows,
        "held": rows,
        "batches": [("rows", max(1, rows // 100))] * batches,
    }
    data = make("keyed", with_key, parameters)
    checkpoint = folder / "ckpt"
    source = f"parquet:{data.folder}?batch-files=1"
    sa.run(
        plan_of(QUERY), {"t": source}, checkpoint=checkpoint, spark=spark, outputs=["none"]
    ).wait()
    return checkpoint


def _check_same(source: DataFrame, parquet: DataFrame, view: Any) -> None:
    rows = view.to_arrow().num_rows
    counts = source.count(), parquet.count(), source.exceptAll(parquet).count()
    if counts != (rows, rows, 0):
        raise SystemExit(f"the rows differ: {counts}, and the view has {rows}")


def _measure(action: str, frames: dict[str, DataFrame], rounds: int) -> dict[str, ReadCost]:
    """Measure an action on all frames, every second round in the other order."""
    taken: dict[str, list[tuple[float, float, float]]] = {name: [] for name in frames}
    for turn in range(WARM_UP + rounds):
        for name in list(frames) if turn % 2 else reversed(frames):
            start, before = time.perf_counter(), _processor_seconds()
            ACTIONS[action](frames[name])
            seconds, after = time.perf_counter() - start, _processor_seconds()
            taken[name].append((seconds, after[0] - before[0], after[1] - before[1]))
    counted = {name: turns[WARM_UP:] for name, turns in taken.items()}
    costs = {name: _cost(turns, counted[PARQUET]) for name, turns in counted.items()}
    for name, cost in costs.items():
        print(
            f"{action}, {name}: {cost.seconds:.2f} s, processor time of the JVM {cost.jvm:.2f} s, of Python {cost.python:.2f} s; "
            f"by Parquet: time {cost.ratio:.2f}, processor time {cost.processor_ratio:.2f}",
            flush=True,
        )
    return costs


def _cost(
    turns: Sequence[tuple[float, float, float]], parquet: Sequence[tuple[float, float, float]]
) -> ReadCost:
    seconds, jvm, python = (statistics.median(turn[i] for turn in turns) for i in range(3))
    pairs = list(zip(turns, parquet, strict=True))
    ratio = statistics.median(turn[0] / other[0] for turn, other in pairs)
    processor = statistics.median(sum(turn[1:]) / sum(other[1:]) for turn, other in pairs)
    return ReadCost(seconds, jvm, python, ratio, processor)


def _processor_seconds() -> tuple[float, float]:
    """Return the processor time of the JVM, and that of its Python workers."""
    jvm = python = 0.0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            times = process.cpu_times()
            if process.name() == "java":
                jvm += times.user + times.system
            else:
                # A daemon forks the workers. Those that have ended count as its children.
                python += sum(times[:4])
    return jvm, python


if __name__ == "__main__":
    sys.exit(main())
