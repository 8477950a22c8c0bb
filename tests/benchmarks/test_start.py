"""The table of starts."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.start import MeasuredStart, processor_seconds, table


def test_ratios_are_those_of_a_round_to_the_fastest_of_sparks_own() -> None:
    starts = [
        MeasuredStart("ours", 1_000, 0, 1.0, 3.0, 0.2, 8.0),
        MeasuredStart("default", 1_000, 0, 4.0, 6.0, 0.5),
        MeasuredStart("rocksdb", 1_000, 0, 2.0, 8.0, 0.5),
        MeasuredStart("ours", 1_000, 1, 3.0, 9.0, 0.2, 9.0),
        MeasuredStart("default", 1_000, 1, 3.0, 9.0, 0.5),
        MeasuredStart("before", 50_000, 0, 3.0, 9.0, 0.5),
    ]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table(starts).splitlines()[2:]
    ]
    assert rows[0] == ["1,000", "ours", "2.00", "0.20", "10.0", "6.00", "0.75", "0.75", "8.5"]
    assert rows[1][:3] == ["1,000", "default", "3.50"]
    assert rows[3] == ["50,000", "before", "3.00", "0.50", "6.0", "9.00", "-", "-", "0.0"]


def test_processor_time_includes_that_of_other_processes() -> None:
    before = processor_seconds(os.getpid())
    code = "import time\nwhile time.process_time() < 0.4: pass\nprint(1, flush=True)\ninput()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as busy:
        assert busy.stdout is not None
        busy.stdout.readline()
        assert (
            processor_seconds(os.getpid()) - before >= 0.3
        )  # counted in hundredths, of each process
        busy.communicate(b"\n")
