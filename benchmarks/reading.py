"""Reading a view through the Spark data source against reading the same rows from Parquet, in turns in one Spark.

``python -m benchmarks.reading --rows 5000000 --json FILE`` makes a view of that many rows, changes a few of them in further
batches, writes its rows as Parquet, and prints the ratios of the reads. The third contender is a Python data source that hands
out constant batches of the same columns: the least time that Spark takes for rows of any such source.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
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


ACTIONS: dict[str, Callable[[DataFrame], None]] = {"all columns": _all_columns, "sums": _sums}


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


@dataclass(frozen=True)
class ReadTimes:
    """Times of an action, medians in seconds.

    Attributes:
        action: what reads the rows.
        view: through the data source.
        constant: from a Python data source of constant batches.
        parquet: from Parquet.
        ratio: median of the ratios of view and Parquet in a round.
        floor: median of the ratios of constant batches and Parquet in a round.
    """

    action: str
    view: float
    constant: float
    parquet: float
    ratio: float
    floor: float


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.reading", description=__doc__.partition("\n")[0]
    )
    made.add_argument("--rows", type=int, default=5_000_000, help="of the view")
    made.add_argument("--batches", type=int, default=3, help="after the first, of 1 %% of the rows")
    made.add_argument("--rounds", type=int, default=5, help="that count, after one that does not")
    made.add_argument("--json", type=Path, help="file that figures are kept in")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and show."""
    options = parser().parse_args(arguments)
    spark = on_spark.session()
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
        frames = {"view": source, "constant": constant, "parquet": parquet}
        times = [_measure(name, frames, options.rounds) for name in ACTIONS]
        runs = [len(files) for files in view.scan().trees]
    for found in times:
        print(
            f"{found.action}: view {found.view:.2f} s, constant batches {found.constant:.2f} s, Parquet "
            f"{found.parquet:.2f} s; view to Parquet {found.ratio:.2f}, constant batches to Parquet "
            f"{found.floor:.2f} (rows {options.rows}, runs {runs})"
        )
    if options.json:
        kept = {"machine": machine(), "rows": options.rows, "runs": runs}
        options.json.write_text(json.dumps({**kept, "times": [asdict(t) for t in times]}, indent=1))
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


def _measure(action: str, frames: dict[str, DataFrame], rounds: int) -> ReadTimes:
    """Time an action on all frames, every second round in the other order."""
    taken: dict[str, list[float]] = {name: [] for name in frames}
    for turn in range(rounds + 1):
        for name in list(frames) if turn % 2 else reversed(frames):
            start = time.perf_counter()
            ACTIONS[action](frames[name])
            taken[name].append(time.perf_counter() - start)
    counted = {name: seconds[1:] for name, seconds in taken.items()}
    medians = {name: statistics.median(seconds) for name, seconds in counted.items()}
    ratio, floor = (
        statistics.median(a / b for a, b in zip(counted[n], counted["parquet"], strict=True))
        for n in ("view", "constant")
    )
    return ReadTimes(action, medians["view"], medians["constant"], medians["parquet"], ratio, floor)


if __name__ == "__main__":
    sys.exit(main())
