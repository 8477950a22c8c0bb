"""Runs all cases, records the counts, and writes the page: ``python -m tests.conformance.report``."""

from __future__ import annotations

import os
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conformance.aggregate import run_aggregate
from tests.conformance.cases import all_cases
from tests.conformance.outcomes import Outcome
from tests.conformance.reasons import aggregate_complaints, complaints
from tests.conformance.scalar import run_scalar
from tests.conformance.summary import counted, record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main() -> int:
    """Run, write the page, and print complaints; return their number."""
    spark = _session()
    with tempfile.TemporaryDirectory() as folder:
        scalar = run_scalar(spark, list(all_cases("scalar")), compiled=1)
        aggregate = run_aggregate(spark, list(all_cases("aggregate")), Path(folder))
    spark.stop()
    found: list[str] = []
    by_scalar, by_aggregate = _by_file(scalar), _by_file(aggregate)
    for name, outcomes in by_scalar.items():
        found += [f"{name}: {c}" for c in complaints(name, outcomes)]
    for name, outcomes in by_aggregate.items():
        found += [f"{name}: {c}" for c in aggregate_complaints(name, outcomes)]
    record({name: counted(o) for name, o in (by_scalar | by_aggregate).items()})
    sys.stdout.write("".join(f"{line}\n" for line in found))
    return len(found)


def _by_file(outcomes: list[Outcome]) -> dict[str, list[Outcome]]:
    return {name: list(group) for name, group in groupby(outcomes, lambda o: o.case.file)}


def _session() -> SparkSession:
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "TZ": "UTC"}
    from substrait_agg.spark.session.session import get_session

    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    }
    session = get_session(master="local[2]", conf=conf)
    session.sparkContext.setLogLevel("OFF")
    return session


if __name__ == "__main__":
    sys.exit(min(main(), 1))
