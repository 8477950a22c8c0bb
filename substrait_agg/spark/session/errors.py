"""Convert exceptions of Spark to errors with one line of reason and a code."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import suppress

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from substrait_agg.errors import RunFailed
from substrait_agg.redaction import clean
from substrait_agg.runtime.in_process import (
    NOTHING_COMMITTED,
    REFUSALS,
    computation_failed,
    not_written,
)

GONE_ERRORS = (Py4JError, ConnectionRefusedError, ConnectionResetError)
"""Exceptions of calls into the JVM. They include those raised if the JVM has ended."""
SPARK_ERRORS = (PySparkException, *GONE_ERRORS)
"""Exceptions that PySpark raises if Spark fails: its own, plain Java ones, and `GONE_ERRORS`."""

_NO_PACKAGE = re.compile(
    r"No module named '(substrait_agg(?:_\w+)?|google|pyarrow|numpy|fsspec|s3fs|pyspark)(?:\.[\w.]+)?'"
    r"|\[PACKAGE_NOT_INSTALLED\] (\w+)"
)
_OTHER_VERSION = re.compile(
    r"\[PYTHON_VERSION_MISMATCH\] .*?worker has different version: ([\d.]+) .*?driver: ([\d.]+)",
    re.DOTALL,
)
"""The message of a worker that runs another Python version than the driver."""
_SET_PYTHON = (
    f"set PYSPARK_PYTHON={sys.executable}, or another Python with the same packages, in the environment "
    "before Spark starts"
)
_MAX_CAUSES = 30
_HELP: dict[str, str] = {
    "NULL_IN_REQUIRED_COLUMN": "correct the row, or declare the column nullable in the plan",
    "WEIGHT_IS_NULL": "give every row a weight",
    "OPERATION_UNKNOWN": "write one of these words in every row",
    "ENVELOPE_INVALID": "write one change event per line or message, with values of the types in the plan",
    "ROW_BEFORE_MISSING": "name the primary key in the source (key=COLUMN[,COLUMN]), so that the old row is looked "
    "up, or configure the database to write whole rows (PostgreSQL: REPLICA IDENTITY FULL)",
    "KEY_IS_NULL": "correct the row, or name columns in key= that are never null",
    "ORDER_IS_NULL": "correct the row, or name a column in order= that every row has",
    "VALUE_UNAVAILABLE": (
        "if events come in order, remove order= so that the value is looked up; or configure the "
        "database to write whole rows (PostgreSQL: REPLICA IDENTITY FULL)"
    ),
    "ROW_AFTER_MISSING": "correct the event",
    "VALUE_OUT_OF_RANGE": "correct the value, or declare a wider type in the plan",
    "CAST_INVALID": "correct the value, or make the cast in the plan return null on failure",
}
"""Error code of our own Spark expressions -> what the user can do."""

_OWN = re.compile(
    r"\[USER_RAISED_EXCEPTION\] \[([A-Z][A-Z_]+)\] (.+?)(?: SQLSTATE: \w+)?\s*(?:\n|$)"
)
_FRAMES = re.compile(r"\n\s+at [\w$.]|\n\s+\.\.\. \d+ more|\nJVM stacktrace|\nDriver stacktrace")
_CAUSE = re.compile(r"(?:^|\n)(?:Caused by: |: )(?=[\w$]+(?:\.[\w$]+)+)")
_CLASS = re.compile(r"^(?:[\w$]+\.)+[\w$]+(?:: |$)")
_WRAPPERS: tuple[tuple[str, str], ...] = (
    ("a call from Python", r"An error occurred while calling [\w$.:]+\s*"),
    ("a future", r"(?:Exception|Boxed Exception) thrown in awaitResult:?\s*"),
    ("a job", r"Job aborted due to stage failure:?\s*|Job aborted\.\s*|Writing job aborted\.?\s*"),
    (
        "a task",
        r"Task \d+ in stage [\d.]+ failed \d+ times?, most recent failure: Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \([^)]*\):\s*",
    ),
    ("a stream", r"\[STREAM_FAILED\] Query \[[^\]]*\] terminated(?: with exception)?:\s*"),
    (
        "a function of foreachBatch",
        r"\[FOREACH_BATCH_USER_FUNCTION_ERROR\] An error occurred in the user provided function in foreach batch sink\.(?: Reason:)?\s*",
    ),
    ("a call into Python", r"An exception was raised by the Python Proxy\. Return Message:\s*"),
    ("a worker", r"An exception was thrown from the Python worker[:.]\s*"),
    ("stages side by side", r"Multiple failures in stage materialization\.\s*"),
)
"""Wrappers of a cause: name, and pattern of the message's beginning.

The cause follows in the same message, or in the next one.
"""
_UNWRAPPED = re.compile("|".join(f"(?:{begins})" for _, begins in _WRAPPERS))
_REFUSED = re.compile(
    rf"^(?:OSError|PermissionError): \[Errno (?:{'|'.join(map(str, REFUSALS))})\]"
)
"""The message of a Python worker that may not write. Java's messages differ."""
_NOTES_REFUSED = re.compile(
    r"/runs/[0-9a-f]{32}/\S+(?: \(|: )(?:Read-only file system|Permission denied|Operation not permitted)"
    r"|No space left on device|Disk quota exceeded|File too large"
)
"""Messages of Java, and of the ``chmod`` that it starts, if Spark cannot write its logs of streams."""
_OF_A_TASK = "Job aborted due to stage failure"
_READ_FAILED = re.compile(
    r"\[FAILED_READ_FILE[\w.]*\] Encountered error while reading file (\S+)\.(?:\s+(.*)|$)"
)
ROW_OF_FILE = "a row of the file "
"""The beginning of a message of our own that a row cannot be read; the file follows."""
_MALFORMED = "[MALFORMED_RECORD_IN_PARSING"
_QUOTE_INSIDE = "Unescaped quote character"
_ADVICE = re.compile(
    r" Use [`']try_\w+[`'] [^.]*\.| If necessary set \"[\w.]+\" to \"false\" to bypass this error[^.]*\."
    r"|\s*SQLSTATE: \w+"
)
"""Spark's advice, which is left out because it concerns SQL that the user did not write."""


def spark_gone() -> bool:
    """Return whether the JVM of this process no longer answers. Exceptions alone do not show it."""
    gateway = SparkContext._gateway
    try:
        return gateway is None or gateway.jvm.java.lang.System.nanoTime() is None
    except (Py4JError, OSError):
        return True


def spark_lost() -> RunFailed:
    """Return the error for a JVM that ended during a run."""
    return RunFailed(
        "SPARK_LOST",
        "the process of Spark has ended: it was killed, or it crashed",
        help=(
            f"{NOTHING_COMMITTED}; run again; if the system killed Spark for lack of memory, give it more "
            "(--conf spark.driver.memory=4g)"
        ),
    )


def batch_failed(error: Exception) -> RunFailed:
    """Return the error for a batch that Spark could not compute.

    If one of our own expressions failed, the error has the code that the expression raised.
    """
    if isinstance(error, GONE_ERRORS) and spark_gone():
        return spark_lost()
    text = "\n".join(texts_of(error))
    own = _OWN.search(text)
    if own is not None:
        code, message = own.group(1), clean(own.group(2))
        if code == "ROW_UNREADABLE" and message.startswith(ROW_OF_FILE):
            return row_unreadable(message, message.removeprefix(ROW_OF_FILE).partition(" ")[0])
        help = _HELP.get(code, "correct the value in the source, or the plan")
        return RunFailed(code, message, help=f"{NOTHING_COMMITTED}; {help}")
    specific = _workers_failed(text)
    if specific is not None:
        return specific
    reason = reason_of(error)
    read = next(filter(None, map(_READ_FAILED.search, texts_of(error))), None)
    if read is not None and _MALFORMED in text:
        return row_unreadable(f"a row cannot be read: {reason}", read[1])
    if read is not None and _QUOTE_INSIDE in text:
        return RunFailed(
            "ROW_UNREADABLE",
            "a quoted value contains a quote that is not written twice",
            help=f"{NOTHING_COMMITTED}; add escape=%5C if backslashes escape the quotes, as Spark writes them, or "
            "unescapedQuoteHandling=STOP_AT_DELIMITER to read such values as they stand, with their quotes",
            path=read[1],
        )
    if _REFUSED.match(reason) or getattr(error, "errno", None) in REFUSALS:
        return not_written(reason)
    if _UNWRAPPED.match(str(error)) and _NOTES_REFUSED.search(reason) and _OF_A_TASK not in text:
        return RunFailed(
            "BATCH_FAILED",
            f"Spark could not write its logs of streams in the folder for temporary files: {reason}",
            help=f"check the free space there, or set SUBSTRAIT_AGG_CACHE to another folder; {NOTHING_COMMITTED}",
        )
    return computation_failed(reason)


def _workers_failed(text: str) -> RunFailed | None:
    """Return the error for workers with another Python version or without a package, or None."""
    version, package = _OTHER_VERSION.search(text), _NO_PACKAGE.search(text)
    if version is not None:
        what = f"run Python {version[1]}, but this process runs {version[2]}"
        return python_differs(f"the Python workers of Spark {what}")
    if package is None:
        return None
    return RunFailed(
        "PACKAGE_NOT_ON_WORKERS",
        f"the Python workers of Spark cannot import the package {package[1] or package[2]}",
        help=f"install it in the Python of the executors, under the same path as here; {_SET_PYTHON}",
    )


def row_unreadable(message: str, file: str) -> RunFailed:
    """Return the error for a row of a text file that cannot be parsed."""
    help = (
        f"{NOTHING_COMMITTED}; correct the row, declare another type in the plan, or move such rows to the "
        "quarantine with bad-rows=quarantine in the source, then run again"
    )
    return RunFailed("ROW_UNREADABLE", clean(message), help=help, path=file)


def python_differs(message: str) -> RunFailed:
    """Return the error for workers that run another Python version than the driver."""
    return RunFailed("WORKER_PYTHON_DIFFERS", message, help=_SET_PYTHON)


def texts_of(error: BaseException) -> list[str]:
    """Return the messages of an error and of its causes, the outermost first.

    PySpark keeps the causes of a Java exception outside of its message. The message of a failed
    future, for example, does not contain the reason.
    """
    texts: list[str] = []
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        texts.append(str(following))
        if isinstance(following, Py4JJavaError):
            texts += _java_texts(following)
        following = getattr(following, "_cause", None)
    return list(dict.fromkeys(text.strip() for text in texts if text.strip()))


def _java_texts(error: Py4JJavaError) -> Iterator[str]:
    """Yield the messages of a Java exception and of its causes; none if the JVM has ended."""
    with suppress(*GONE_ERRORS):
        cause, depth = error.java_exception, 0
        while cause is not None and depth < _MAX_CAUSES:
            yield str(cause.toString())
            cause, depth = cause.getCause(), depth + 1


def reason_of(error: BaseException) -> str:
    """Return the reason of a Spark exception on one line.

    Stack traces, wrappers, secrets and advice about SQL are left out.
    """
    reasons = list(dict.fromkeys(r for text in texts_of(error) for r in _reasons_in(text)))
    if not reasons:
        return _innermost_class(error) or _one_line(str(error)) or type(error).__name__
    read = _READ_FAILED.match(reasons[0])
    if read is None:
        return reasons[0]
    file, why = read.groups()
    causes = list(dict.fromkeys([why, *reasons[1:]] if why else reasons[1:]))
    cause = f": {causes[0]}" if causes else ""
    return f"file {file} cannot be read{cause}" + (f" ({causes[-1]})" if len(causes) > 1 else "")


def _innermost_class(error: BaseException) -> str:
    """Return the class of the innermost Java cause: it may have no message."""
    classes = [
        match[0].rstrip(": ")
        for text in texts_of(error)
        for part in _CAUSE.split(text)
        if (match := _CLASS.match(_FRAMES.split(part)[0].strip())) is not None
    ]
    return classes[-1] if classes else ""


def _reasons_in(text: str) -> Iterator[str]:
    """Yield the reasons in a message and in its causes, each on one line."""
    text = clean(text)
    if "Traceback (most recent call last)" in text:
        text = _after_traceback(text)
    for part in _CAUSE.split(text):
        reason = _one_line(_FRAMES.split(part)[0])
        if reason:
            yield reason


def _after_traceback(text: str) -> str:
    """Return the text after the indented lines of the last Python traceback: the exception."""
    lines = text[text.rindex("Traceback (most recent call last)") :].split("\n")[1:]
    rest = [i for i, line in enumerate(lines) if line.strip() and not line.startswith((" ", "\t"))]
    return "\n".join(lines[rest[0] :]) if rest else text


def _one_line(text: str) -> str:
    """Return the first line of a message without the wrappers at its beginning."""
    before, text = "", text.strip()
    while text != before:
        before = text
        text = _CLASS.sub("", text).strip()
        wrapper = _UNWRAPPED.match(text)
        text = text[wrapper.end() :].strip() if wrapper else text
    return _ADVICE.sub("", text.split("\n")[0]).strip()
