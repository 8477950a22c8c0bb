"""Run random queries by their seeds: ``python -m tests.random_queries FIRST [LAST]``."""

from __future__ import annotations

import os
import sys
import time


def main(first: int, last: int) -> None:
    """Print what comes of the seeds from `first` to `last`."""
    os.environ["TZ"] = "UTC"
    from substrait_agg.spark.session.session import get_session
    from tests import jvm
    from tests.random_queries.checking import Outcomes, check

    for name in jvm.NAMES:
        os.environ.setdefault(name, jvm.options())
    spark = get_session(
        "local[2]", {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    )
    spark.sparkContext.setLogLevel("OFF")
    outcomes = Outcomes()
    begin = time.monotonic()
    for seed in range(first, last + 1):
        before = len(outcomes.wrong)
        check(seed, outcomes, spark, ask_spark=seed % 25 == 0 or first == last)
        for text in outcomes.wrong[before:]:
            sys.stdout.write(f"{text}\n\n")
            sys.stdout.flush()
        if seed % 50 == 49:
            sys.stderr.write(f"seed {seed}: {outcomes}\n")
    sys.stdout.write(f"{outcomes}\n{time.monotonic() - begin:.0f} s\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[-1]))
