"""How long validation takes: every sample plan in a warm process, one in a fresh process, and the import alone.

Run it with ``make bench`` or ``python -m benchmarks.validate``; it starts no Spark.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import substrait_agg

ROOT = Path(__file__).parents[1]
PLANS = ROOT / "plans"
TPCH = PLANS / "tpch" / "q01.bin"
MOST_PER_PLAN, MOST_IN_ALL = 0.150, 0.500
"""Seconds that a plan may take in a warm process, and the command with its start."""

IMPORTED = "import substrait_agg, sys; sys.exit(any(m.partition('.')[0] == 'pyspark' for m in sys.modules))"


def seconds(action: Callable[[], object], times: int) -> float:
    """Median time of an action."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def of_plans(times: int) -> dict[str, float]:
    """Per sample plan, the seconds that reading, decoding and checking it takes."""
    paths = sorted(p for suffix in ("bin", "json") for p in PLANS.rglob(f"*.{suffix}"))
    substrait_agg.validate(TPCH)
    return {
        str(path.relative_to(PLANS)): seconds(partial(substrait_agg.validate, path), times)
        for path in paths
    }


def of_command(arguments: Sequence[str], times: int) -> float:
    """Seconds of a fresh Python process with these arguments: the fastest, which is the least disturbed."""

    def run() -> None:
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True, cwd=ROOT)

    return min(seconds(run, 1) for _ in range(times))


def main() -> None:
    """Measure and print; the exit status is 1 where a target is missed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=7, help="each is measured so many times")
    times = options.parse_args().times
    plans = of_plans(times)
    slowest = sorted(plans, key=plans.__getitem__, reverse=True)[:5]
    command = of_command(["-m", "substrait_agg_cli.main", "validate", str(TPCH)], times)
    imported, python = of_command(["-c", IMPORTED], times), of_command(["-c", ""], times)
    print(
        f"{len(plans)} sample plans: median {1000 * statistics.median(plans.values()):.1f} ms each"
    )
    for name in slowest:
        print(f"  {1000 * plans[name]:6.1f} ms  {name}")
    print(
        f"substrait-agg validate {TPCH.relative_to(ROOT)}: {1000 * command:.0f} ms with its start"
    )
    print(f"import substrait_agg: {1000 * (imported - python):.0f} ms, without pyspark")
    sys.exit(plans[slowest[0]] > MOST_PER_PLAN or command > MOST_IN_ALL)


if __name__ == "__main__":
    main()
