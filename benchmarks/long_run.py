"""One run over many small batches on Spark: memory, open files and threads of the driver and of its JVM as versions go by.

``python -m benchmarks.long_run --batches 300 --json FILE``; ``python -m benchmarks.plot FILE --to PICTURE`` draws what it kept.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import substrait_agg as sa
from tests.e2e import plans
from tests.e2e.files import write_in_order


@dataclass(frozen=True)
class RunSpan:
    """Some batches in a row.

    Attributes:
        batches: done by then.
        seconds: median of a batch, by the clock.
        cpu: the same, of processor time of all processes of the driver.
        open_files: of the Python process at its end.
        jvm_open_files: of the JVM.
        memory: resident, bytes, of the Python process.
        jvm_memory: the same of the JVM.
        threads: of the Python process.
        jvm_threads: of the JVM.
        folder_bytes: of the checkpoint.
        state_bytes: of its state.
    """

    batches: int
    seconds: float
    cpu: float
    open_files: int
    jvm_open_files: int
    memory: int
    jvm_memory: int
    threads: int
    jvm_threads: int
    folder_bytes: int
    state_bytes: int


class RunMeter:
    """Measures after every version, and tells of each stretch.

    Args:
        checkpoint: of the run.
        every: batches of a stretch.
    """

    def __init__(self, checkpoint: Path, every: int) -> None:
        self.told: list[RunSpan] = []
        self._checkpoint, self._every = checkpoint, every
        self._seconds: list[float] = []
        self._cpu: list[float] = []
        self._last = time.monotonic(), _cpu_seconds()

    def __call__(self, progress: Any) -> None:
        """A version was committed."""
        now = time.monotonic(), _cpu_seconds()
        self._seconds.append(now[0] - self._last[0])
        self._cpu.append(now[1] - self._last[1])
        self._last = now
        if progress.version and progress.version % self._every == 0:
            self._tell(progress.version)

    def _tell(self, version: int) -> None:
        jvm = _jvm()
        stretch = RunSpan(
            batches=version,
            seconds=round(float(np.median(self._seconds)), 4),
            cpu=round(float(np.median(self._cpu)), 4),
            open_files=_open_files("self"),
            jvm_open_files=_open_files(jvm),
            memory=_status("self", "VmRSS") << 10,
            jvm_memory=_status(jvm, "VmRSS") << 10,
            threads=_status("self", "Threads"),
            jvm_threads=_status(jvm, "Threads"),
            folder_bytes=_bytes(self._checkpoint),
            state_bytes=_bytes(self._checkpoint / "state"),
        )
        self.told.append(stretch)
        self._seconds, self._cpu = [], []
        print(json.dumps(asdict(stretch)), flush=True)


def _family() -> list[str]:
    """Process numbers of everything that this process has started, and of itself."""
    parents: dict[str, str] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[stat.parent.name] = stat.read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
    found = [str(os.getpid())]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def _cpu_seconds() -> float:
    ticks = 0
    for pid in _family():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))  # its own, and of children that have ended
    return ticks / os.sysconf("SC_CLK_TCK")


def _jvm() -> str:
    names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in _family()}
    return next(pid for pid, name in names.items() if name == "java")


def _open_files(pid: str) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _status(pid: str, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def _bytes(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def _plan() -> bytes:
    b = plans.Builder()
    table = plans.read("t", {"k": "i64", "x": "i64"})
    x = plans.column(1), "i64"
    measures = [
        b.measure("count", output="i64!"),
        b.measure("sum", x, output="i64"),
        b.measure("max", x, output="i64"),
    ]
    whole = plans.aggregate(table, [plans.column(0)], measures)
    return b.plan(whole, "k", "n", "s", "m").encode()


def _files(batches: int, rows: int, keys: int) -> list[pa.Table]:
    """Half of a batch comes, the other half takes back what came twenty batches before."""
    random = np.random.default_rng(1)
    came = [(random.integers(0, keys, rows // 2), random.integers(0, 1000, rows // 2)) for _ in range(batches)]  # fmt: skip
    files = []
    for number, new in enumerate(came):
        gone = came[number - 20] if number >= 20 else (new[0][:0], new[1][:0])
        k, x = (np.concatenate(pair) for pair in zip(new, gone, strict=True))
        operations = ["insert"] * len(new[0]) + ["delete"] * len(gone[0])
        files.append(pa.table({"k": k, "x": x, "op": operations}))
    return files


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--keys", type=int, default=2000)
    parser.add_argument("--stretches", type=int, default=15)
    parser.add_argument("--json", type=Path, help="file that keeps the lines")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_in_order(folder / "in", _files(given.batches, given.rows, given.keys))
        meter = RunMeter(folder / "ckpt", given.batches // given.stretches)
        sa.run(
            sa.load(_plan()),
            {"t": f"parquet:{folder / 'in'}?op=op&batch-files=1"},
            checkpoint=folder / "ckpt",
            master="local[2]",
            partitions=2,
            outputs=[f"stream-json={folder / 'out.jsonl'}"],
            conf={"spark.driver.memory": "1g"},
            progress=meter,
        ).wait()
    if given.json:
        lines = ",\n".join(json.dumps(asdict(stretch)) for stretch in meter.told)
        given.json.write_text(f"[\n{lines}\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
