"""Validation answers at once: in processor time, because other programs may be running beside the tests."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

import substrait_agg

ROOT = Path(__file__).parents[2]
SAMPLES = sorted(p for suffix in ("bin", "json") for p in (ROOT / "plans").rglob(f"*.{suffix}"))


def test_every_sample_plan_takes_less_than_150_ms() -> None:
    substrait_agg.validate(SAMPLES[0])
    taken = {}
    for path in SAMPLES:
        times = []
        for _ in range(2):
            start = time.process_time()
            substrait_agg.validate(path)
            times.append(time.process_time() - start)
        taken[str(path)] = min(times)
    assert {path: seconds for path, seconds in taken.items() if seconds > 0.150} == {}


@pytest.mark.parametrize("plan", ["tpch/q01.bin", "tpch/q01.json"])
def test_the_command_takes_less_than_half_a_second(plan: str) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    path = os.pathsep.join((str(ROOT), str(ROOT / "cli")))
    subprocess.run(
        [sys.executable, "-m", "substrait_agg_cli.main", "validate", str(ROOT / "plans" / plan)],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=True,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


def test_validating_imports_nothing_slow() -> None:
    """Neither Spark, nor YAML, nor what only reads and writes tables."""
    program = (
        "import sys, substrait_agg; substrait_agg.validate(sys.argv[1]);"
        "print(*{m.partition('.')[0] for m in sys.modules} & {'pyspark', 'pandas', 'yaml', 'pyarrow', 'numpy'})"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(ROOT / "plans/tpch/q01.bin")],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ended.stdout.split() == []
