"""Create Spark sessions with the settings that plans rely on.

The output of a Spark that is started here, of its JVM and its Python workers, is kept apart from
our own output.

Unix sockets instead of TCP connect a local Spark and its Python workers. They are faster, and TCP
delays the end of a message by up to 40 ms. The path of a Unix socket is short, and whoever may open
the folder of the sockets may connect: the folder is private, and is deleted at the end of the
process.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from substrait_agg.errors import RunFailed, SubstraitAggError, UsageError
from substrait_agg.files.download_cache import new_work_folder
from substrait_agg.spark.session.class_archive import JAVA_OPTIONS, archive_options
from substrait_agg.spark.session.errors import SPARK_ERRORS, reason_of
from substrait_agg.spark.session.java import incomplete, missing_module, require_java

SESSION_CONF: dict[str, str] = {
    # Overflow, bad casts and division by zero are errors, never nulls.
    "spark.sql.ansi.enabled": "true",
    # Decimal operators keep the full scale of the exact result; `spark.types.decimals` needs it.
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.session.timeZone": "UTC",
    # The exchange has the requested number of partitions in every batch.
    "spark.sql.adaptive.enabled": "false",
    # Columns whose names differ in case between files are read instead of becoming null.
    "spark.sql.caseSensitive": "false",
    # A projection names its columns c0, c1, ... as its input does; a name means the input's column.
    "spark.sql.lateralColumnAlias.enableImplicitResolution": "false",
    # The row-at-a-time Parquet reader silently rounds decimals of another scale.
    "spark.sql.parquet.enableVectorizedReader": "true",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",
    "spark.sql.parquet.mergeSchema": "false",
    # A damaged file fails the batch, and so does a file deleted after it was listed.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.streaming.schemaInference": "false",
    # Spark's logs are in a local folder. The default manager starts about six processes (readlink,
    # chmod) for every file, and a batch writes three files.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""SQL settings of the sessions that this module creates. Other sessions keep their settings."""

_FREE = (
    "spark.sql.adaptive.enabled",
    "spark.sql.parquet.mergeSchema",
    "spark.sql.streaming.checkpointFileManagerClass",
)
"""Settings of `SESSION_CONF` that a user may change. The others decide which rows a plan has."""

OWN_SETTINGS = "spark.substraitAgg."
"""The prefix of our own settings."""
DRIVER_BYTES_SETTING = f"{OWN_SETTINGS}driverBytes"
"""The setting for the size in bytes up to which the driver computes a batch."""

_JVM_OPTIONS = "-XX:-DontCompileHugeMethods -XX:MetaspaceSize=192m -Xss16m"
"""Options of HotSpot.

The first compiles methods of more than 8,000 bytes. Spark generates such methods for sums of many
columns. Interpreted, they take several times as long. The second sets the size of class metadata from
which HotSpot collects garbage to unload classes. With its default of about 21 MB, the start of Spark
has several such collections, and they unload nothing. The third is the stack of a thread: Spark
recurses into expressions, and with the default of 1 MB it fails at some 200 levels.
"""

_NEW_CONTEXT_CONF: dict[str, str] = {
    # The user's own options (`extraJavaOptions`) come after these.
    JAVA_OPTIONS: _JVM_OPTIONS,
    "spark.executor.defaultJavaOptions": _JVM_OPTIONS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
    # Otherwise PySpark records the Python line of every column function: five more calls of the JVM
    # for each. The lines are in this package and do not help a user.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""Additional settings of a Spark that this module starts."""

WORKER_PYTHON = "spark.pyspark.python"
"""The setting for the Python of the executors. Only Spark's own launcher applies it by itself."""


MAX_FOLDER = 103 - len("/.01234567-89ab-cdef-0123-456789abcdef.sock")
"""Longest path of a folder for sockets in bytes: a socket's path has at most 103 bytes on macOS, 107
on Linux, and Spark names sockets like this."""

_LOCAL = re.compile(r"local(\[.*\])?")


def isolate(spark: SparkSession, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Return a new session on the same Spark with `SESSION_CONF`; `spark` keeps its settings.

    Catalogue tables and global temporary views are shared; temporary views of `spark` are not
    visible. A DataFrame keeps the session that created it. Expressions over it need a session
    prepared with `prepare`, such as that of a run.
    """
    return prepare(spark.newSession(), conf)


def prepare(spark: SparkSession, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Apply `SESSION_CONF` and then `conf` to an otherwise unused session, and return it.

    Raises:
        UsageError: ``SETTING_REFUSED``.
    """
    check_settings(conf or {})
    for key, value in {**SESSION_CONF, **(conf or {})}.items():
        if key.startswith(OWN_SETTINGS):
            own_setting(key, value)
        elif not spark.conf.isModifiable(key):
            continue
        try:
            spark.conf.set(key, value)
        except SPARK_ERRORS as error:
            message = f"Spark refuses the setting {key}: {reason_of(error)}"
            raise UsageError(
                "SETTING_REFUSED", message, help="correct it", path="--conf"
            ) from error
    return spark


@contextmanager
def active_session(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one: Spark takes its settings, such as those of types of decimals."""
    sessions = _session_class(spark._jvm)
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


@cache
def _session_class(jvm: Any) -> Any:
    """Return the class of sessions; py4j asks the JVM about each part of its name."""
    return jvm.org.apache.spark.sql.classic.SparkSession


def check_settings(conf: Mapping[str, str]) -> None:
    """Check that settings do not change the values of expressions or the rows of sources.

    The driver computes small batches with the values of `SESSION_CONF`, so another value would hold
    for some batches only.

    Raises:
        UsageError: SETTING_REFUSED.
    """
    for key, value in conf.items():
        only = value if key in _FREE else SESSION_CONF.get(key, value)
        if value.lower() != only.lower():
            raise UsageError(
                "SETTING_REFUSED",
                f"{key}={value} would change the rows of the result",
                help=f"remove it: a run always has {key}={only}",
                path="--conf",
            )


def is_of_session(spark: SparkSession, key: str) -> bool:
    """Return whether a session can have a setting. Spark knows its own settings, but not ours."""
    return key.startswith(OWN_SETTINGS) or spark.conf.isModifiable(key)


def own_setting(key: str, value: str) -> int:
    """Return the value of one of our own settings as a number.

    Raises:
        UsageError: SETTING_REFUSED: the setting does not exist, or its value is not a number.
    """
    if key != DRIVER_BYTES_SETTING:
        message, help = (
            f"there is no setting {key}",
            f"{DRIVER_BYTES_SETTING} is the only setting of this kind",
        )
    elif value.isascii() and value.isdigit():
        return int(value)
    else:
        message = f"{key} must be a number of bytes, not {value!r}"
        help = "give a whole number; 0 disables it"
    raise UsageError("SETTING_REFUSED", message, help=help, path="--conf")


def get_session(
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    log: IO[bytes] | None = None,
) -> SparkSession:
    """Return a session with `SESSION_CONF` on `spark`, on the running Spark, or on a new Spark.

    Args:
        master: master URL for a new Spark; None means ``local[*]``.
        conf: additional Spark settings. A running Spark takes only those of SQL sessions.
        spark: the caller's session, which keeps its settings (see `isolate`).
        log: file for the output of a new Spark, see `start_spark`.

    Raises:
        UsageError: ``JAVA_MISSING``, ``JAVA_TOO_OLD``, ``JAVA_INCOMPLETE``.
        RunFailed: ``SPARK_NOT_STARTED``.
    """
    check_settings(conf or {})
    running = spark or SparkSession.getActiveSession()
    if running is not None:
        return isolate(running, conf)
    require_java()
    # Workers must run this interpreter or a shipped copy of it: the code sent to them depends on
    # the version.
    os.environ["PYSPARK_PYTHON"] = (conf or {}).get(WORKER_PYTHON, sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    own = {"spark.master": master or "local[*]", "spark.app.name": "substrait-agg"}
    settings = {**own, **_NEW_CONTEXT_CONF, **SESSION_CONF, **(conf or {})}
    if log is not None:
        # At the end, workers may print that Spark has closed their sockets.
        settings = {**socket_settings(settings["spark.master"]), **settings}
    archive = archive_options(settings, record=log is not None)
    settings[JAVA_OPTIONS] = f"{settings[JAVA_OPTIONS]} {archive}".strip()
    session = start_spark(settings, log)
    session.sparkContext.setLogLevel("ERROR")
    _write_no_checksums(session)
    # PySpark logs every failed query as a page of JSON in addition to the exception.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    return session


def _write_no_checksums(spark: SparkSession) -> None:
    """Have Hadoop write local files without files of checksums beside them.

    Without its native library, Hadoop starts a program (chmod) for each file that it writes.
    """
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop: Any = spark.sparkContext._jvm
    hadoop.org.apache.hadoop.fs.FileSystem.getLocal(conf).setWriteChecksum(False)


_CONNECT = "pyspark.sql.connect."


def connect_use(objects: Iterable[object] = ()) -> str:
    """Return how the caller uses Spark Connect; empty if it does not.

    Args:
        objects: sessions and DataFrames of the caller; other objects are ignored.
    """
    clients = [type(one) for one in objects if type(one).__module__.startswith(_CONNECT)]
    if clients:
        return f"a {clients[0].__name__} of Spark Connect was given"
    # With the variable, a JVM does not start; one that runs stays usable.
    is_client = "SPARK_REMOTE" in os.environ and SparkContext._active_spark_context is None
    return "this process uses Spark Connect" if is_client or is_remote() else ""


def require_classic(objects: Iterable[object] = ()) -> None:
    """Check that neither this process nor a given session or DataFrame uses Spark Connect.

    A run calls the JVM of the driver, which a client of Spark Connect does not have.

    Args:
        objects: as in `connect_use`.

    Raises:
        UsageError: ``CONNECT_NOT_SUPPORTED``.
    """
    reason = connect_use(objects)
    if not reason:
        return
    raise UsageError(
        "CONNECT_NOT_SUPPORTED",
        f"runs, DataFrames and sources that Spark opens need Spark in their own process, and {reason}",
        help="use a process without SPARK_REMOTE, with a classic session or none; SQL text with CREATE TABLE is "
        "planned here too, and a session of Spark Connect "
        'can read the view: spark.read.format("substrait_agg").load(checkpoint)',
    )


_ERROR_LINE = re.compile(
    r"^(?:Exception in thread \"[^\"]*\" )?(?:[\w.$]+(?:Exception|Error): |Error: |(?=Invalid ))(.+)$",
    re.MULTILINE,
)


def start_spark(conf: Mapping[str, str], log: IO[bytes] | None = None) -> SparkSession:
    """Start Spark.

    Args:
        conf: the configuration of Spark, including the master.
        log: file for the whole output of the JVM and the workers; None for stdout and stderr.

    Raises:
        RunFailed: ``SPARK_NOT_STARTED``.
        UsageError: ``JAVA_INCOMPLETE``.
    """
    settings = SparkConf()
    for key, value in conf.items():
        settings.set(key, value)
    try:
        if log is not None:
            _quiet_py4j()
        with _own_interrupt_handler():
            context = SparkContext(conf=settings, gateway=_gateway(settings, log))
        if log is not None and context._accumulatorServer is not None:
            # If the JVM is killed or Ctrl-C comes, the accumulator server prints tracebacks.
            server: Any = context._accumulatorServer
            server.handle_error = lambda *_: None
        session = SparkSession(context)
        # Spark validates SQL settings when it reads the first of them.
        session.conf.get("spark.app.name")
    except SPARK_ERRORS as error:
        printed = _read_output(log)
        module = missing_module(printed)
        if module is not None:
            raise incomplete((module,)) from error
        match = _ERROR_LINE.search(printed)
        raise RunFailed(
            "SPARK_NOT_STARTED",
            f"Spark could not start: {match[1].strip() if match else reason_of(error)}",
            help="check --master and --conf; --debug shows what Spark printed",
        ) from error
    return session


@contextmanager
def _own_interrupt_handler() -> Iterator[None]:
    """Keep the handler of SIGINT that the process has.

    PySpark's handler calls the JVM, also while the main thread waits for an answer of the JVM. The
    connection has no room for a second call.
    """
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


_PY4J_MESSAGES = (
    "Exception while sending command.",
    "KeyboardInterrupt while sending command.",
)
"""What py4j logs with a traceback when a call of the JVM ends early."""


def _quiet_py4j() -> None:
    """Suppress the error output of py4j. The errors that a run raises report the failures."""
    # py4j logs the traceback of every exception that a batch raises.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    # If the JVM is killed or Ctrl-C comes, py4j logs tracebacks.
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.msg not in _PY4J_MESSAGES


def _read_output(log: IO[bytes] | None) -> str:
    """Return the output of a JVM that failed to start."""
    if log is None or SparkContext._gateway is not None:
        return ""
    log.seek(0)
    return log.read().decode(errors="replace")


def _gateway(settings: SparkConf, log: IO[bytes] | None) -> Any:
    # A JVM that a stopped Spark left running keeps its output streams.
    if SparkContext._gateway is not None:
        return None
    streams = {} if log is None else {"stdout": log, "stderr": log}
    with _ended_if_interrupted():
        return launch_gateway(settings, streams)  # type: ignore[no-untyped-call]


@contextmanager
def _ended_if_interrupted() -> Iterator[None]:
    """End a JVM whose start is interrupted.

    PySpark removes the folder in which the JVM writes its address. A JVM that cannot write it never
    ends by itself.
    """
    processes: list[subprocess.Popen[bytes]] = []

    def start_recorded(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        """Start a process and record it."""
        processes.append(subprocess.Popen(*arguments, **options))
        return processes[-1]

    launcher: Any = java_gateway
    popen, launcher.Popen = launcher.Popen, start_recorded
    try:
        yield
    except BaseException:
        for process in processes:
            with process:
                process.kill()
        raise
    finally:
        launcher.Popen = popen


PARTITIONS = "spark.sql.shuffle.partitions"


def default_partitions(session: SparkSession) -> int:
    """Return the number of state partitions for a Spark: its cores, rounded up to a power of two."""
    cores = max(1, session.sparkContext.defaultParallelism)
    return 1 << (cores - 1).bit_length()


class SqlSettings:
    """The SQL settings of a session during a run. `restore` brings back the caller's settings."""

    def __init__(self, session: SparkSession, conf: Mapping[str, str] | None) -> None:
        self._session = session
        names = [*SESSION_CONF, *(conf or {})]
        self._before = {name: session.conf.get(name, None) for name in names}
        try:
            prepare(session, conf)
        except SubstraitAggError:
            self.restore()
            raise

    def put(self, name: str, value: str) -> None:
        """Set one setting."""
        self._before.setdefault(name, self._session.conf.get(name, None))
        self._session.conf.set(name, value)

    def restore(self) -> None:
        """Restore the settings that the session had before the run."""
        # A Spark that has ended has no settings to restore.
        with suppress(*SPARK_ERRORS):
            self._restore()

    def _restore(self) -> None:
        for name, value in self._before.items():
            if not is_of_session(self._session, name):
                continue
            if value is None:
                self._session.conf.unset(name)
            else:
                self._session.conf.set(name, value)


def socket_settings(master: str) -> dict[str, str]:
    """Return the settings with which a new Spark uses Unix sockets.

    Returns:
        The settings; none for a Spark with executors in other processes, and where there is no
        private folder with a short path.
    """
    folder = _folder(os.getpid()) if _LOCAL.fullmatch(master) else None
    if folder is None:
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(folder),
    }


@cache
def _folder(process: int) -> Path | None:
    """Return the folder for the sockets of this process; None if there is none."""
    with suppress(OSError):
        folder, delete = new_work_folder()
        if len(os.fsencode(folder)) > MAX_FOLDER:
            delete()
            return None
        # A forked process does not delete the folder of its parent.
        atexit.register(lambda: os.getpid() == process and delete())
        return folder
    return None
