"""Failures of Spark are reported in one line with the useful part, and with the log only if it helps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from substrait_agg.errors import InputRefused, RunFailed
from substrait_agg_cli.sparklog import spark_log

SQL_STATE = " SQLSTATE: 22018\n== DataFrame ==\n"
READ = """An error occurred while calling o63.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///d/a.csv.  SQLSTATE: KD001
\tat org.apache.spark.sql.Some.method(Some.scala:1)
Caused by: org.apache.spark.SparkException: [MALFORMED] Malformed records: [null,y].
Parse Mode: FAILFAST. SQLSTATE: 22023
\tat org.apache.spark.Other.method(Other.scala:1)
\t... 3 more
Caused by: java.lang.NumberFormatException: For input string: "q"
\tat java.base/java.lang.Long.parseLong(Long.java:1)
"""
WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "a.py", line 1, in work
    boom()
    ^^^^^^

ValueError: boom"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "[CAST_INVALID_INPUT] The value 'x' cannot be cast. Use `try_cast` to tolerate it and return NULL instead."
            + SQL_STATE,
            "[CAST_INVALID_INPUT] The value 'x' cannot be cast.",
        ),
        (
            '[NUMERIC_VALUE_OUT_OF_RANGE] 9.99 cannot be represented as Decimal(2, 2). If necessary set "spark.sql.ansi.enabled" '
            'to "false" to bypass this error, and return NULL instead.' + SQL_STATE,
            "[NUMERIC_VALUE_OUT_OF_RANGE] 9.99 cannot be represented as Decimal(2, 2).",
        ),
        (READ, 'file file:///d/a.csv cannot be read: [MALFORMED] Malformed records: [null,y]. (For input string: "q")'),
        (WORKER, "ValueError: boom"),
        ("", "Exception"),
    ],
)  # fmt: skip
def test_the_reason_is_one_line_without_stack_and_wrappers(text: str, reason: str) -> None:
    from substrait_agg.spark.session.errors import batch_failed, reason_of

    assert reason_of(Exception(text)) == reason
    failed = batch_failed(Exception(text))
    assert (failed.code, failed.message) == (
        "BATCH_FAILED", f"Spark could not compute the batch: {reason}",
    )  # fmt: skip


WRAPPED = {
    "a call from Python": "An error occurred while calling o63.collectToPython.\n",
    "a future": "Exception thrown in awaitResult: ",
    "a job": "Job aborted due to stage failure: ",
    "a task": "Task 0 in stage 7.0 failed 4 times, most recent failure: Lost task 0.3 in stage 7.0 (TID 9) (10.0.0.7 executor 1): ",
    "a stream": "[STREAM_FAILED] Query [id = 0, runId = 1] terminated with exception: ",
    "a function of foreachBatch": "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink. Reason: ",
    "a call into Python": "An exception was raised by the Python Proxy. Return Message: ",
    "a worker": "An exception was thrown from the Python worker: ",
    "stages side by side": "Multiple failures in stage materialization.\n",
}  # fmt: skip
"""How Spark and Py4J wrap a cause on its way to the driver: the beginning of their message."""
CAUSE = "[DIVIDE_BY_ZERO] Division by zero."


class Captured(Exception):
    """An exception as PySpark captures it: its message, and the cause beside it."""

    def __init__(self, message: str, cause: Exception | None) -> None:
        super().__init__(message)
        self._cause = cause


def test_every_wrapper_has_an_example() -> None:
    from substrait_agg.spark.session import errors

    assert [what for what, _ in errors._WRAPPERS] == list(WRAPPED)


@pytest.mark.parametrize("outer", list(WRAPPED))
@pytest.mark.parametrize("inner", [None, *WRAPPED])
def test_a_wrapper_never_hides_the_cause(inner: str | None, outer: str) -> None:
    """The cause is found in the message of a wrapper, after it, next to it, and nested."""
    from substrait_agg.spark.session.errors import reason_of

    begins = WRAPPED[outer]
    between = WRAPPED[inner] if inner else ""
    assert reason_of(Exception(f"{begins}{between}{CAUSE}")) == CAUSE
    stack = "\n\tat org.apache.spark.Some.method(Some.scala:1)\n"
    printed = f"{begins}{stack}Caused by: org.apache.spark.SparkException: {between}{CAUSE}{stack}"
    assert reason_of(Exception(printed)) == CAUSE
    beside = Captured(begins, Captured(between or begins, Captured(CAUSE, None)))
    assert reason_of(beside) == CAUSE


@pytest.mark.parametrize("outer", list(WRAPPED))
def test_codes_and_refusals_are_found_in_any_wrapper(outer: str) -> None:
    """Codes are found in any wrapper, also if only the cause has them."""
    from substrait_agg.spark.session.errors import batch_failed

    begins = WRAPPED[outer]
    for message, code in (
        ("[USER_RAISED_EXCEPTION] [KEY_IS_NULL] column k of table t is null SQLSTATE: P0001", "KEY_IS_NULL"),
        ("ModuleNotFoundError: No module named 'google'", "PACKAGE_NOT_ON_WORKERS"),
        ("ModuleNotFoundError: No module named 'substrait_agg.commit'", "PACKAGE_NOT_ON_WORKERS"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, no", "WORKER_PYTHON_DIFFERS"),
        ("ModuleNotFoundError: No module named 'their_own'", "BATCH_FAILED"),
    ):  # fmt: skip
        for error in (Exception(begins + message), Captured(begins, Captured(message, None))):
            assert batch_failed(error).code == code


def test_causes_that_name_themselves_end() -> None:
    from substrait_agg.spark.session.errors import reason_of

    around = Captured("Exception thrown in awaitResult: ", None)
    around._cause = around
    assert reason_of(around) == "Captured"


def test_a_cause_without_a_message_is_named_by_its_class() -> None:
    from substrait_agg.spark.session.errors import reason_of

    bare = "java.lang.UnsupportedOperationException"
    waited = "org.apache.spark.SparkException: Exception thrown in awaitResult: "
    called = f"An error occurred while calling o1.toPython.\n: {waited}\n\tat a.B.c(B.scala:1)\n"
    assert reason_of(Exception(f"{called}Caused by: {bare}\n\tat a.B.c(B.scala:2)\n")) == bare
    assert reason_of(Captured(called, Captured(bare, None))) == bare


def test_a_file_that_cannot_be_read_is_named_where_a_future_was_waited_for() -> None:
    from substrait_agg.spark.session.errors import reason_of

    number = Captured('For input string: "abc"', None)
    row = Captured(
        "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected: [1,null].\nParse Mode: FAILFAST.",
        number,
    )
    read = Captured(
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///d/a.csv.  SQLSTATE: KD001",
        row,
    )
    assert reason_of(Captured("Exception thrown in awaitResult: ", read)) == (
        "file file:///d/a.csv cannot be read: [MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected: [1,null]."
        ' (For input string: "abc")'
    )  # fmt: skip


def test_a_code_of_our_own_expressions_is_the_code_of_the_error() -> None:
    from substrait_agg.spark.session.errors import batch_failed

    text = "[USER_RAISED_EXCEPTION] [NULL_IN_REQUIRED_COLUMN] column k of table t is null SQLSTATE: P0001\n"
    failed = batch_failed(Exception(text))
    assert (failed.code, failed.message) == (
        "NULL_IN_REQUIRED_COLUMN", "column k of table t is null",
    )  # fmt: skip
    assert failed.help.startswith("nothing of the batch was committed; ")


def test_a_task_that_may_not_write_is_told_as_that() -> None:
    """A full disk, a read-only disk and missing permissions of a task have their own message."""
    from substrait_agg.spark.session.errors import batch_failed

    for raised in ("OSError: [Errno 28] No space", "OSError: [Errno 30] Read-only", "OSError: [Errno 27] File too large", "PermissionError: [Errno 13] no"):  # fmt: skip
        failed = batch_failed(Exception(WORKER.replace("ValueError: boom", raised)))
        assert failed.code == "CHECKPOINT_NOT_WRITTEN"
        assert raised in failed.message
    assert (
        batch_failed(OSError(28, "No space", "f")).code == "CHECKPOINT_NOT_WRITTEN"
    )  # on the driver
    assert batch_failed(OSError(5, "Input/output error", "f")).code == "BATCH_FAILED"
    for raised in ("OSError: [Errno 5] Input/output error", "FileNotFoundError: [Errno 2] none"):
        assert batch_failed(Exception(WORKER.replace("ValueError: boom", raised))).code == "BATCH_FAILED"  # fmt: skip


LOG = f"/tmp/substrait-agg-0/runs/{'0' * 32}/offsets"


@pytest.mark.parametrize(
    ("told", "of_logs"),
    [
        (f"terminated with exception: {LOG}/..2.tmp.crc (Read-only file system)", True),
        (f"terminated with exception: chmod: changing permissions of '{LOG}/.2.tmp': Operation not permitted", True),
        ("terminated with exception: No space left on device", True),
        ("terminated with exception: File too large", True),
        ("terminated with exception: /data/in/a.csv (Permission denied)", False),
        ("terminated: Job aborted due to stage failure: No space left on device", False),
    ],
)  # fmt: skip
def test_logs_of_streams_that_spark_may_not_write_are_told_as_that(
    told: str, of_logs: bool
) -> None:
    """The folder for temporary files is named, unlike for an unreadable source or full local folders
    of executors.
    """
    from substrait_agg.spark.session.errors import batch_failed

    failed = batch_failed(Exception(f"[STREAM_FAILED] Query [id = 0, runId = 1] {told}"))
    assert failed.code == "BATCH_FAILED"
    assert failed.message.startswith("Spark could not write its logs of streams") == of_logs
    assert ("SUBSTRAIT_AGG_CACHE" in failed.help) == of_logs


def test_a_jvm_that_is_gone_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exceptions of a dead JVM are reported as such; if the JVM answers, they are failures of the
    batch.
    """
    from py4j.protocol import Py4JError, Py4JNetworkError

    from substrait_agg.spark.session import errors

    raised = (Py4JNetworkError("no"), ConnectionRefusedError(111, "refused"), Py4JError("called o1"))  # fmt: skip
    for gone, code in ((True, "SPARK_LOST"), (False, "BATCH_FAILED")):
        monkeypatch.setattr(errors, "spark_gone", lambda gone=gone: gone)
        assert {errors.batch_failed(error).code for error in raised} == {code}
    monkeypatch.setattr(errors, "spark_gone", lambda: True)
    assert errors.batch_failed(ValueError("of ours")).code == "BATCH_FAILED"


def fail(failure: Exception, printed: bytes) -> None:
    with spark_log(debug=False) as log:
        assert log is not None
        log.write(printed)
        log.flush()
        raise failure


def test_what_spark_printed_is_kept_for_a_failure_that_it_explains() -> None:
    failure = RunFailed("BATCH_FAILED", "no")
    with pytest.raises(RunFailed):
        fail(failure, b"the cause")
    (note,) = failure.__notes__
    found = re.fullmatch(r"the output of Spark is in (.*\.log)", note)
    assert found
    copy = Path(found[1])
    assert copy.read_text() == "the cause"
    copy.unlink()


def test_what_spark_printed_is_not_kept_else() -> None:
    """The log of Spark is not stored for a refusal, nor if it is empty."""
    for failure, printed in (
        (InputRefused("SOURCE_MISSING", "no"), b"noise"),
        (RunFailed("BATCH_FAILED", "no"), b""),
    ):
        with pytest.raises(type(failure)):
            fail(failure, printed)
        assert not hasattr(failure, "__notes__")


def test_with_debug_spark_prints_where_it_likes() -> None:
    with spark_log(debug=True) as log:
        assert log is None
