"""A standalone Spark cluster on this machine: a master and two workers in separate JVMs, and Spark's report of a run."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.kills.process_killer import strike
from tests.kills.run import QUICK, ROOT

PATIENCE = 90.0
TASKS = Path(__file__).parent / "tasks"
SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of all JVMs."""


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """The URL of a master with two workers; all their processes end with the block."""
    folder.mkdir(parents=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        daemons.append(_daemon(folder / "master.log", master))
        _await(folder / "master.log", "I have been elected leader")
        for number in range(2):
            log = folder / f"worker-{number}.log"
            # Spark starts a second copy of a task on another host only.
            host = f"127.0.0.{number + 1}"
            words = ["worker.Worker", "--host", host, "--webui-port", "0", "-c", "2", "-m", "1g", "-d", str(folder / f"work-{number}"), url]  # fmt: skip
            daemons.append(_daemon(log, words, host))
        for number in range(2):
            _await(folder / f"worker-{number}.log", "Successfully registered with master")
        yield url
    finally:
        for daemon in daemons:
            strike(daemon.pid, "all")
            daemon.wait()


def _daemon(log: Path, words: list[str], host: str = "127.0.0.1") -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": SMALL,
        # One executor after the other is killed here.
        "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",
        "SPARK_LOCAL_IP": host,
    }
    with log.open("ab") as sink:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{words[0]}", *words[1:]],
            stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=environment, start_new_session=True,
        )  # fmt: skip


def _await(log: Path, text: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.05)


def options(
    master: str, folder: Path, *, slow: bool = False, more: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Words of the command for a run on a cluster in which an executor is killed in every version.

    Args:
        master: of the cluster.
        folder: in which Spark notes what happens (``events``), and the kills are noted (``kills``).
        slow: whether some tasks are slow, and Spark starts second copies of them.
        more: further settings, instead of a path to the package.
    """
    for name in ("events", "kills"):
        (folder / name).mkdir(parents=True)
    conf = {
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": SMALL,
        "spark.executorEnv.TASK_KILLS": str(folder / "kills"),
        "spark.executorEnv.TASK_SLEEPS": "8" if slow else "0",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    conf |= more or {"spark.executorEnv.PYTHONPATH": f"{TASKS}{os.pathsep}{ROOT}"}
    if slow:
        conf |= {
            "spark.speculation": "true", "spark.speculation.interval": "50ms", "spark.speculation.multiplier": "1.2",
            "spark.speculation.quantile": "0.4", "spark.speculation.minTaskRuntime": "300ms",
            "spark.speculation.efficiency.enabled": "false",
        }  # fmt: skip
    words = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    return ("--master", master, "--partitions", "2", *QUICK, *words)


def event_counts(events: Path) -> Counter[str]:
    """What Spark noted: executors that were lost, tasks that failed for it, tasks that were started as a second copy."""
    counts: Counter[str] = Counter()
    for path in events.iterdir():
        for line in path.read_text().splitlines():
            event = json.loads(line)
            kind = event["Event"].removeprefix("SparkListener")
            counts["executors lost"] += kind == "ExecutorRemoved"
            counts["speculative"] += kind == "TaskStart" and event["Task Info"]["Speculative"]
            if kind == "TaskEnd" and event["Task End Reason"]["Reason"] != "Success":
                counts[event["Task End Reason"]["Reason"]] += 1
    return counts
