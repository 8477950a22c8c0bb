"""The options of the JVMs that tests start, and an archive of loaded classes from which they start in half the time.

``python -m tests.jvm`` makes the archive if there is none for this Java and this PySpark. A JVM starts without it where
there is none, or where it does not fit.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLAN = ROOT / "plans" / "bench" / "count_sum_avg.bin"
NAMES = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")
"""Variables that Spark's launcher and ``spark-submit`` pass on to the JVM."""

QUICK = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    # One level has 48 MB for its code. A session of minutes fills them, and then compiles again and again.
    "-XX:ReservedCodeCacheSize=240m "
    # At the usual 21 MB every start has a full collection or two.
    "-XX:MetaspaceSize=256m "
    # Hadoop starts a chmod for each of the six files of a batch: through one process instead of two.
    "-Djdk.lang.Process.launchMechanism=VFORK "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""Code that runs for seconds only costs more to compile well, and to verify, than it gains."""


def archive() -> Path:
    """Return where the archive for this Java and this PySpark is; there need not be one."""
    java = Path(shutil.which("java", path=_java_path()) or "java").resolve()
    release = java.parents[1] / "release"
    described = release.read_bytes() if release.is_file() else str(java).encode()
    versions = f"{metadata.version('pyspark')} {QUICK} ".encode() + described
    return Path(sys.prefix) / f"spark-classes-{hashlib.sha256(versions).hexdigest()[:12]}.jsa"


def options() -> str:
    """Return the options of a JVM of a test."""
    return f"{QUICK} -XX:SharedArchiveFile={archive()} -Xlog:cds=off -Xlog:cds+dynamic=off"


def _java_path() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin") if home else os.environ.get("PATH", os.defpath)


def _make(target: Path) -> None:
    """Run a stream as tests do, and have the JVM write the classes that it loaded."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as name:
        folder, draft = Path(name), target.with_suffix(f".{os.getpid()}")
        made = f"{QUICK} -XX:ArchiveClassesAtExit={draft} -Xlog:cds=off -Xlog:cds+dynamic=off"
        os.environ.update(dict.fromkeys(NAMES, made))
        import substrait_agg as sa
        from substrait_agg.spark.session.session import get_session

        (folder / "in").mkdir()
        for n in range(2):
            rows = pa.table({"k": [n, 7], "i": [n, 10], "x": [0.5, 0.25]})
            pq.write_table(rows, folder / "in" / f"{n}.parquet")
        with (folder / "log").open("w+b") as log:
            spark = get_session("local[2]", {"spark.substraitAgg.driverBytes": "0"}, log=log)
            source = {"t": f"parquet:{folder / 'in'}?batch-files=1"}
            sa.run(PLAN, source, checkpoint=folder / "checkpoint", spark=spark).wait()
            jvm = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
            spark.stop()
            jvm.stdin.close()
            jvm.wait()
        draft.replace(target)


def main() -> None:
    """Make the archive if it is missing, and delete those of other versions."""
    target = archive()
    if target.exists():
        return
    for other in target.parent.glob("spark-classes-*"):
        other.unlink()
    _make(target)


if __name__ == "__main__":
    main()
