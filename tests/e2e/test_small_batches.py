"""Batches of a few rows are computed on the driver, others on Spark; each continues the state of
the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import substrait_agg as sa
from tests.e2e.feeds import Feed, Grouping, check
from tests.sampling import sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

COLUMNS = {"k": "i64", "x": "fp64"}
DRIVER, SUMS, SPARK = "rows on the driver", "sums on the driver", "tasks on Spark"
PATTERNS = {
    "driver": [DRIVER] * 8,
    "spark": [SPARK] * 8,
    "sums": [SPARK] + [SUMS] * 7,
    "in turns": [DRIVER, SPARK] * 4,
    "all in turns": [DRIVER, SUMS, SPARK, SUMS, SPARK, DRIVER, SPARK, SUMS],
    "driver first": [DRIVER] * 4 + [SPARK] * 4,
    "spark first": [SPARK] * 4 + [DRIVER] * 4,
}


BY_KEY, OF_ALL = (
    Grouping(COLUMNS, keys, (("sum", 1, "fp64"), ("count", 1, "i64!"))) for keys in ((0,), ())
)


def feed() -> Feed:
    """Batches that insert rows and delete half of the rows of the previous batch."""
    batches: list[list[tuple[tuple[Any, ...], int]]] = []
    for number in range(8):
        new = [((key % 13, key * 0.1 + number), 1) for key in range(number, 40)]
        old = [(row, -1) for row, weight in batches[-1][::2] if weight > 0] if batches else []
        batches.append([*new, *old])
    return Feed("t", COLUMNS, "op", batches)


@contextmanager
def sides(pattern: list[str], *, collects: bool = True) -> Iterator[list[int]]:
    """Compute each batch where a pattern says; collect the number of tasks of each.

    Args:
        pattern: where versions 1, 2 and so on are computed.
        collects: whether Spark hands rows over.
    """
    from substrait_agg.spark.execution.driver import Driver
    from tests.executors import drivers, watched

    tasks, done = list[int](), [0]

    class TurnsDriver(Driver):
        def takes_rows(self, *_: Any, **_options: Any) -> bool:
            return pattern[done[0]] == DRIVER

        def takes_sums(self, *_: Any) -> bool:
            return pattern[done[0]] == SUMS

        def collect_table(self, frame: DataFrame) -> Any:
            return super().collect_table(frame) if collects else None

    def watch(_: object, job: Any, result: Any) -> None:
        tasks.append(len(result.tasks))
        done[0] = job.version

    with drivers(TurnsDriver()), watched(watch):
        yield tasks


@pytest.mark.parametrize(
    ("pattern", "keys"),
    sample(
        [(pattern, keys) for keys in (True, False) for pattern in PATTERNS],
        ("sums", True), ("all in turns", True), ("driver first", True), ("all in turns", False),
    ),
)  # fmt: skip
def test_both_sides_give_the_same_versions(
    spark: SparkSession, tmp_path: Path, pattern: str, keys: bool
) -> None:
    """The view and the sum of changes at every version, whichever side computed which batch."""
    with sides(PATTERNS[pattern]) as tasks:
        groups = BY_KEY if keys else OF_ALL
        check(spark, tmp_path, groups.plan(), [feed()], groups.wanted)
    wide = [2 if side == SPARK else 1 for side in PATTERNS[pattern]]
    assert tasks[-8:] == (wide if keys else [1] * 8), "something was computed elsewhere"


def test_the_setting_says_which_batches_are_small(spark: SparkSession) -> None:
    """The setting limits the bytes of batches that the driver computes; 0 means none."""
    from substrait_agg.commit.documents.snapshot import OperatorState
    from substrait_agg.spark.execution.driver import Driver, size_of
    from substrait_agg.spark.session.session import DRIVER_BYTES_SETTING

    size, none, driver = size_of(spark.range(1)), OperatorState(), Driver(batch_bytes=0)
    assert not driver.takes_rows(spark, size, none), "the default is 0 here"
    spark.conf.set(DRIVER_BYTES_SETTING, "1000")
    try:
        assert driver.takes_rows(spark, size, none)
        assert not driver.takes_rows(spark, size_of(spark.range(1_000_000)), none)
    finally:
        spark.conf.unset(DRIVER_BYTES_SETTING)


@pytest.mark.parametrize(
    ("name", "value"), [("driverBytes", "many"), ("driverBytes", "-1"), ("driverBites", "1")]
)
def test_a_setting_that_is_none_is_refused(
    spark: SparkSession, tmp_path: Path, name: str, value: str
) -> None:
    """An invalid setting is refused before anything is written."""
    with pytest.raises(sa.SubstraitAggError) as refused:
        sa.run(
            BY_KEY.plan().encode(),
            {"t": feed().write(tmp_path)},
            checkpoint=tmp_path / "checkpoint",
            spark=spark,
            conf={f"spark.substraitAgg.{name}": value},
        )
    assert refused.value.code == "SETTING_REFUSED"
    assert not (tmp_path / "checkpoint").exists()


def test_a_setting_holds_for_its_run(spark: SparkSession, tmp_path: Path) -> None:
    """A setting applies to one run only, also in a running Spark."""
    from substrait_agg.spark.execution.driver import Driver
    from tests.executors import drivers

    used: list[bool] = []

    class NotingDriver(Driver):
        def collect_table(self, frame: DataFrame) -> Any:
            used.append(True)
            return super().collect_table(frame)

    with drivers(NotingDriver()):
        run = sa.run(
            BY_KEY.plan().encode(),
            {"t": feed().write(tmp_path)},
            checkpoint=tmp_path / "checkpoint",
            spark=spark,
            conf={"spark.substraitAgg.driverBytes": "0"},
        )
        run.wait()
    assert not used
    assert spark.conf.get("spark.substraitAgg.driverBytes", None) is None


@pytest.mark.parametrize("side", [DRIVER, SUMS])
def test_what_spark_does_not_hand_over_is_computed_there(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    """A batch, or its partial sums, that is too large for the driver is computed on Spark."""
    monkeypatch.setattr("substrait_agg.spark.sources.open.parquet_reader", lambda *_: None)
    with sides([side] * 8, collects=False) as tasks:
        check(spark, tmp_path, BY_KEY.plan(), [feed()], BY_KEY.wanted)
    assert set(tasks[-8:]) == {2}


def test_too_large_a_result_is_told_from_other_failures() -> None:
    """Spark may report that a result is too large; every other failure is an error."""
    from pyspark.errors import PySparkException

    from substrait_agg.errors import RunFailed
    from substrait_agg.spark.execution.driver import Driver

    class Frame:
        def __init__(self, message: str) -> None:
            self.message = message

        def toArrow(self) -> Any:  # noqa: N802 - Spark's name
            raise PySparkException(self.message)

    for message, refused in (
        (
            "Total size of serialized results (1.1 GiB) is bigger than spark.driver.maxResultSize",
            False,
        ),
        ("Job aborted due to stage failure", True),
    ):
        frame: Any = Frame(message)
        if refused:
            with pytest.raises(RunFailed):
                Driver().collect(frame)
        else:
            assert Driver().collect(frame) is None
