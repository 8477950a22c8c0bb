"""The command over a stream, started again and again, and the check of all that it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

import substrait_agg as sa
from tests.e2e.rows import Bag, bag, changes_by_version, running_sums
from tests.kills.process_killer import strike
from tests.kills.stream import Stream
from tests.local.run import run

ROOT = Path(__file__).parents[2]
INSIDE = Path(__file__).parent / "inside"
PATIENCE = 240.0
QUICK = (
    "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "--conf", "spark.substraitAgg.driverBytes=0",
)  # fmt: skip
"""Most of what a short run takes is the JVM compiling itself; and small batches go to workers, so that there are some to be killed."""


@dataclass(frozen=True)
class Place:
    """A folder in which the command keeps its checkpoint and its two outputs.

    Attributes:
        folder: it.
        stream: what is read.
        options: further words of the command.
        log_folder: where what the runs print is collected; the folder itself where None.
    """

    folder: Path
    stream: Stream
    options: tuple[str, ...] = ("--master", "local[2]", *QUICK)
    log_folder: Path | None = None

    @property
    def checkpoint(self) -> Path:
        """Of the runs."""
        return self.folder / "checkpoint"

    @property
    def log(self) -> Path:
        """The output of the runs."""
        return (self.log_folder or self.folder) / "log"

    def start(self, kill: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start the command in a session of its own.

        Args:
            kill: variables that ``inside/sitecustomize.py`` reads; None: it is not there.
        """
        with suppress(OSError):  # a disk may be read-only
            self.folder.mkdir(exist_ok=True)
        paths = [str(ROOT), str(ROOT / "cli"), *([str(INSIDE)] if kill else [])]
        environment = {**os.environ, **(kill or {}), "PYTHONPATH": os.pathsep.join(paths)}
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "substrait_agg_cli.main", *self.words()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def words(self) -> tuple[str, ...]:
        """The arguments, the same every time."""
        return (
            "run", str(self.stream.plan), *(word for source in self.stream.sources for word in ("--source", source)),
            "--checkpoint", str(self.checkpoint),
            *(word for output in self.outputs for word in ("--output", output)),
            "--no-progress", *self.options,
        )  # fmt: skip

    def finish(self) -> None:
        """Run to the end; fails unless it ends well."""
        process = self.start()
        try:
            status = process.wait(PATIENCE)
        finally:
            strike(process.pid, "all")
            process.wait()
        assert status == 0, self.log.read_text()[-3000:]

    def finish_locally(self) -> None:
        """Run to the end on the local executor, which needs no JVM."""
        self.folder.mkdir(exist_ok=True)
        sources = dict(source.split("=", 1) for source in self.stream.sources)
        plan = sa.load(self.stream.plan.read_bytes())
        run(plan, sources, checkpoint=self.checkpoint, outputs=self.outputs).wait()

    @property
    def outputs(self) -> list[str]:
        """Of the runs."""
        return [
            f"stream-json={self.folder / 'out.jsonl'}",
            f"changes-parquet={self.folder / 'out'}",
        ]

    def newest(self) -> int:
        """The newest version, -1 for none."""
        names = (path.stem for path in (self.checkpoint / "snapshots").glob("[0-9]*.json"))
        return max((int(name) for name in names), default=-1)


def check_now(place: Place) -> None:
    """Committed data is always correct: there are no faults, and the view matches its version."""
    if place.newest() < 0:
        return
    verdict = sa.open_state(place.checkpoint).verify()
    assert verdict.ok, verdict.errors
    view = sa.open_view(place.checkpoint)
    version = view.version
    assert bag(view.to_arrow(version)) == place.stream.views[version], f"view of version {version}"


def check_end(place: Place, whole: Place) -> None:
    """At the end all results equal those of the model and of an undisturbed run."""
    check_now(place)
    stream = place.stream
    view = sa.open_view(place.checkpoint)
    versions = list(range(stream.last + 1))
    assert view.versions() == versions
    changes = view.changes()
    running_sums(changes, versions)
    wanted = {v: stream.changes(v) for v in versions if stream.changes(v)}
    assert changes_by_version(changes) == wanted
    assert _lines(place.folder / "out.jsonl") == _json_of(wanted, changes.schema.names)
    assert _files(place.folder / "out") == {v: wanted[v] for v in versions if v in wanted}
    undisturbed = sa.open_view(whole.checkpoint)
    assert changes_by_version(undisturbed.changes()) == wanted
    for name in ("out.jsonl",):
        lines = [sorted((p.folder / name).read_text().splitlines()) for p in (place, whole)]
        assert lines[0] == lines[1]
    names = [sorted(p.name for p in (q.folder / "out").iterdir()) for q in (place, whole)]
    assert names[0] == names[1]


def _lines(path: Path) -> Counter[tuple[int, int, str]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    versions = [line["version"] for line in lines]
    assert versions == sorted(versions), "lines of versions are out of order"
    return Counter((o["version"], o["weight"], json.dumps(o["row"])) for o in lines)


def _json_of(wanted: Mapping[int, Bag], names: list[str]) -> Counter[tuple[int, int, str]]:
    columns = [name for name in names if not name.startswith("__")]
    told: Counter[tuple[int, int, str]] = Counter()
    for version, rows in wanted.items():
        for row, weight in rows.items():
            cells = {n: v if isinstance(v, str | float | None) else int(v) for n, v in zip(columns, row, strict=True)}  # fmt: skip
            told[version, weight, json.dumps(cells)] += 1
    return told


def _files(folder: Path) -> dict[int, Bag]:
    found: dict[int, Bag] = {}
    for path in sorted(folder.iterdir()):
        assert path.suffix == ".parquet", path
        here = changes_by_version(pq.read_table(path))
        assert not here.keys() & found.keys(), "a version stands in two files"
        found |= here
    return found
