"""Sample plans of real producers over the tables they were made for give what DataFusion gave."""

from __future__ import annotations

import datetime as dt
import json
import math
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import substrait_agg as sa
from substrait_agg.bind.rewrite import table_reads
from tests.e2e.running import starting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
TINY = ROOT / "tests" / "data" / "tiny"
EXPECTED = json.loads((TINY / "expected.json").read_text())["results"]
AVERAGE_UNIT = Decimal("0.000001")


def runnable() -> Iterator[Any]:
    """The samples that can be run and have an expected result."""
    for path in sorted((ROOT / "plans" / "samples").rglob("*.bin")):
        if path.stem in EXPECTED and sa.validate(path).ok:
            yield pytest.param(path, id=f"{path.parent.name}-{path.stem}")


PRODUCERS = {path.values[0].parent.name: path for path in runnable()}


@pytest.mark.parametrize("path", list(runnable()))
def test_a_sample_gives_the_recorded_result(path: Path, tmp_path: Path) -> None:
    """Every column of every row; averages of decimals are rounded where DataFusion cuts them off."""
    _check(None, path, tmp_path)


@pytest.mark.parametrize("path", PRODUCERS.values())
def test_a_sample_of_each_producer_on_spark(
    path: Path, spark: SparkSession, tmp_path: Path
) -> None:
    _check(spark, path, tmp_path)


def _check(spark: SparkSession | None, path: Path, folder: Path) -> None:
    sources = {}
    for name in {read.table[0] for read in table_reads(sa.load(path).bind().root)}:
        (folder / name).mkdir()
        shutil.copy(TINY / f"{name}.parquet", folder / name)
        sources[name] = f"parquet:{folder / name}"
    starting(spark)(path, sources, checkpoint=folder / "ckpt").wait()
    found = sa.open_view(folder / "ckpt").to_arrow().to_pydict()
    wanted = EXPECTED[path.stem]
    rows = sorted(zip(*found.values(), strict=True), key=_order)
    recorded = sorted((tuple(map(_value, row)) for row in wanted["rows"]), key=_order)
    assert len(rows) == len(recorded)
    for mine, theirs in zip(rows, recorded, strict=True):
        assert all(map(_same, mine, theirs)), (mine, theirs)


def test_there_are_samples_to_run() -> None:
    """There are samples, so that the test above is meaningful."""
    assert len(list(runnable())) >= 11


def _value(written: Any) -> Any:
    if not isinstance(written, dict):
        return written
    return Decimal(written["dec"]) if "dec" in written else written["t"]


def _order(row: tuple[Any, ...]) -> list[tuple[bool, str]]:
    return [(value is not None, str(_plain(value))) for value in row]


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.date) else value


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, float):
        return math.isclose(mine, theirs, rel_tol=1e-15)
    if isinstance(mine, Decimal) and mine.as_tuple().exponent == AVERAGE_UNIT.as_tuple().exponent:
        return bool(0 <= mine - theirs <= AVERAGE_UNIT)
    return bool(_plain(mine) == theirs)
