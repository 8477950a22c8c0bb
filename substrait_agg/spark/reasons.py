"""What a failure inside Spark means, in one line: the useful part of its exceptions, and our own codes in them."""

from __future__ import annotations

import re
from errno import EACCES, EDQUOT, ENOSPC, EPERM, EROFS

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from substrait_agg.errors import RunFailed
from substrait_agg.redaction import cleaned

GONE_ERRORS = (Py4JError, ConnectionRefusedError, ConnectionResetError)
"""Among them what a call into a JVM raises that is gone."""
SPARK_ERRORS = (PySparkException, *GONE_ERRORS)
"""What PySpark raises when Spark fails: exceptions that it knows, plain Java ones that it does not, and those of a JVM that is gone."""

_NO_PACKAGE = "No module named 'substrait_agg'"
_NOTHING_COMMITTED = "nothing of the batch was committed"
_HELP: dict[str, str] = {
    "NULL_IN_REQUIRED_COLUMN": "correct the row, or declare the column nullable in the plan",
    "WEIGHT_IS_NULL": "give every row a weight",
    "OPERATION_UNKNOWN": "write one of these words in every row",
    "ENVELOPE_INVALID": "one change event per line or message; columns as the plan types them",
    "ROW_BEFORE_MISSING": "name the primary key in the source (key=COLUMN[,COLUMN]), so that the row before is looked up,"
    " or have the database write whole rows (PostgreSQL: REPLICA IDENTITY FULL)",
    "KEY_IS_NULL": "correct the row, or name columns in key= that are never null",
    "ORDER_IS_NULL": "correct the row, or name something in order= that every row has",
    "VALUE_UNAVAILABLE": "leave order= out where events come in order, so that the value is looked up, or have the database write whole rows (PostgreSQL: REPLICA IDENTITY FULL)",
    "ROW_AFTER_MISSING": "correct the event",
    "VALUE_OUT_OF_RANGE": "correct the value, or declare a wider type in the plan",
    "CAST_INVALID": "correct the value, or let the cast of the plan return null on failure",
}
"""Codes that our own Spark expressions fail with: what to do."""

_OWN = re.compile(
    r"\[USER_RAISED_EXCEPTION\] \[([A-Z][A-Z_]+)\] (.+?)(?: SQLSTATE: \w+)?\s*(?:\n|$)"
)
_FRAMES = re.compile(r"\n\s+at [\w$.]|\n\s+\.\.\. \d+ more|\nJVM stacktrace|\nDriver stacktrace")
_CAUSE = re.compile(r"(?:^|\n)(?:Caused by: |: )(?=[\w$]+(?:\.[\w$]+)+)")
_CLASS = re.compile(r"^(?:[\w$]+\.)+[\w$]+(?:: |$)")
_WRAPPER = re.compile(
    r"^(?:An error occurred while calling |Job aborted due to stage failure|\[STREAM_FAILED\]"
    r"|\[FOREACH_BATCH_USER_FUNCTION_ERROR\])"
)
_REFUSALS = (EPERM, EACCES, ENOSPC, EROFS, EDQUOT)
_REFUSED = re.compile(
    rf"^(?:OSError|PermissionError): \[Errno (?:{'|'.join(map(str, _REFUSALS))})\]"
)
"""What a Python worker says where the system does not let it write: Java says it otherwise."""
_NOTES_REFUSED = re.compile(
    r"/spark/\S+(?: \(|: )(?:Read-only file system|Permission denied|Operation not permitted)"
    r"|No space left on device|Disk quota exceeded"
)
"""What Java, and the ``chmod`` that it starts, say where Spark may not write down how far its query is."""
_OF_A_TASK = "Job aborted due to stage failure"
_READ_FAILED = re.compile(
    r"\[FAILED_READ_FILE[\w.]*\] Encountered error while reading file (\S+)\.(?:\s+(.*)|$)"
)
_ADVICE = re.compile(
    r" Use [`']try_\w+[`'] [^.]*\.| If necessary set \"[\w.]+\" to \"false\" to bypass this error[^.]*\."
    r"|\s*SQLSTATE: \w+"
)
"""Spark's advice is about SQL that the user did not write."""


def spark_gone() -> bool:
    """Whether the JVM that this process works with does not answer any more; its exceptions do not tell."""
    gateway = SparkContext._gateway
    try:
        return gateway is None or gateway.jvm.java.lang.System.nanoTime() is None
    except (Py4JError, OSError):
        return True


def spark_lost() -> RunFailed:
    """The error for a JVM that has ended in the middle of a run."""
    return RunFailed(
        "SPARK_LOST",
        "Spark's process has ended: it was killed, or it crashed",
        help=f"{_NOTHING_COMMITTED}; run again, with more --conf spark.driver.memory= where the system has killed it for want of memory",
    )


def batch_failed(error: Exception) -> RunFailed:
    """The error for a batch that Spark could not compute: with the code that our own expressions raised, if they did."""
    if isinstance(error, GONE_ERRORS) and spark_gone():
        return spark_lost()
    own = _OWN.search(str(error))
    if own is not None:
        code, message = own.group(1), cleaned(own.group(2))
        help = _HELP.get(code, "correct the value in the source, or the plan")
        return RunFailed(code, message, help=f"{_NOTHING_COMMITTED}; {help}")
    if _NO_PACKAGE in str(error):
        return RunFailed(
            "PACKAGE_NOT_ON_WORKERS",
            "the Python workers of Spark do not find the package substrait_agg",
            help="install it in the Python that the executors run, under the same path as here",
        )
    reason = reason_of(error)
    notes = _WRAPPER.match(str(error)) and _NOTES_REFUSED.search(reason)
    refused = _REFUSED.match(reason) or getattr(error, "errno", None) in _REFUSALS
    if refused or (notes and _OF_A_TASK not in str(error)):
        return RunFailed(
            "CHECKPOINT_NOT_WRITTEN",
            f"{'Spark could not write its notes' if notes else 'a task could not write'} in the checkpoint: {reason}",
            help=f"see to the space and the permissions of the folder, then run again; {_NOTHING_COMMITTED}",
        )
    return RunFailed(
        "BATCH_FAILED",
        f"Spark could not compute the batch: {reason}",
        help=f"{_NOTHING_COMMITTED}; correct the input or the plan and run again",
    )


def reason_of(error: BaseException) -> str:
    """The reason in an exception of Spark, on one line, without stack traces, wrappers, secrets and advice about SQL."""
    text = cleaned(str(error).strip())
    if "Traceback (most recent call last)" in text:
        text = _after_traceback(text)
    parts = [_FRAMES.split(part)[0].strip() for part in _CAUSE.split(text)]
    reasons = [_one_line(part) for part in parts if part and not _WRAPPER.match(part)]
    reasons = [r for r in reasons if r]
    if not reasons:
        return _one_line(parts[0]) or type(error).__name__
    read = _READ_FAILED.match(reasons[0])
    if read is None:
        return reasons[0]
    file, why = read.groups()
    causes = list(dict.fromkeys([why, *reasons[1:]] if why else reasons[1:]))
    told = f": {causes[0]}" if causes else ""
    return f"file {file} cannot be read{told}" + (f" ({causes[-1]})" if len(causes) > 1 else "")


def _after_traceback(text: str) -> str:
    """What follows the indented lines of the last Python traceback: the exception itself."""
    lines = text[text.rindex("Traceback (most recent call last)") :].split("\n")[1:]
    rest = [i for i, line in enumerate(lines) if line.strip() and not line.startswith((" ", "\t"))]
    return "\n".join(lines[rest[0] :]) if rest else text


def _one_line(text: str) -> str:
    first = _CLASS.sub("", text).strip().split("\n")[0]
    return _ADVICE.sub("", first).strip()
