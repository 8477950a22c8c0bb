"""Plan SQL text in a child process, for a process that uses Spark Connect and so has no JVM.

The module is also the program of that child. Requests and answers are lines of JSON.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from io import FileIO
from typing import IO, Any

import pyarrow as pa

from substrait_agg import errors
from substrait_agg.checked_plan import Plan
from substrait_agg.errors import RunFailed, SubstraitAggError
from substrait_agg.scripts.planner import SqlPlanner
from substrait_agg.scripts.script import Statement
from substrait_agg.spark.catalyst.origin import SqlOrigin
from substrait_agg.spark.catalyst.sql import SparkSqlPlanner
from substrait_agg.spark.session.session import get_session

_OF_CALLER = frozenset(
    "SPARK_REMOTE SPARK_LOCAL_REMOTE SPARK_CONNECT_MODE SPARK_CONNECT_MODE_ENABLED SPARK_API_MODE "
    "PYSPARK_GATEWAY_PORT PYSPARK_GATEWAY_SECRET".split()
)
"""Variables of PySpark that would connect the child to the Spark of the caller."""

_ANSWER_SECONDS = 600
"""How long to wait for an answer. Before the first one, the child starts Spark."""
_END_SECONDS = 10


@contextmanager
def planner_in_child(
    master: str | None, conf: Mapping[str, str] | None, log: IO[bytes] | None
) -> Iterator[SqlPlanner]:
    """Provide a planner that plans in a child process, which ends with the context.

    Args:
        master: as in `get_session`, for the Spark of the child.
        conf: as in `get_session`.
        log: file for the output of the child and its Spark; None for stderr.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _OF_CALLER}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    child: Any = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env=environment,
        process_group=0,  # Ctrl-C comes to this process alone, which passes it on.
    )
    with child:
        try:
            options = {"master": master, "conf": dict(conf or {}), "has_log": log is not None}
            yield _ChildPlanner(child, options)
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)
            raise
        finally:
            _end(child)


def _end(child: Any) -> None:
    """End the child; it has some time to end its Spark and to remove its files."""
    try:
        with suppress(BrokenPipeError):
            child.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            child.wait(_END_SECONDS)
    finally:
        child.kill()


class _ChildPlanner:
    """Sends statements to the child, and raises the errors that it answers with."""

    def __init__(self, child: Any, options: Mapping[str, Any]) -> None:
        self._child = child
        self._options = options

    def columns(self, statement: Statement) -> pa.Schema:
        """Return the columns that a CREATE TABLE statement declares."""
        return _schema(self._ask({"statement": asdict(statement)})["columns"])

    def plan(self, statement: Statement, tables: Mapping[str, pa.Schema]) -> Plan:
        """Return the plan of a query, or of the query of CREATE VIEW."""
        texts = {name: _text(schema) for name, schema in tables.items()}
        answer = self._ask({"statement": asdict(statement), "tables": texts})
        places = {path: (start, stop) for path, (start, stop) in answer["places"].items()}
        collations = {int(place): column for place, column in answer["collations"].items()}
        origin = SqlOrigin(statement, places)
        return Plan(statement.file, answer["plan"], origin, collations=collations)

    def _ask(self, request: Mapping[str, Any]) -> Any:
        limit = threading.Timer(_ANSWER_SECONDS, self._child.kill)
        limit.daemon = True
        limit.start()
        try:
            self._child.stdin.write(json.dumps({**self._options, **request}).encode() + b"\n")
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            limit.cancel()
        if not line.endswith(b"\n"):
            message = (
                "the process that plans SQL text has ended without an answer, "
                f"or gave none within {_ANSWER_SECONDS} s"
            )
            raise RunFailed("SPARK_LOST", message, help="run again; --debug shows what it printed")
        answer = json.loads(line)
        if "error" in answer:
            raise getattr(errors, answer["error"])(**answer["fields"])
        return answer


def _text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode()


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def _planner(options: Mapping[str, Any]) -> SqlPlanner:
    log = FileIO(2, closefd=False) if options["has_log"] else None
    return SparkSqlPlanner(get_session(options["master"], options["conf"], log=log))


def _answer(planner: SqlPlanner, request: Mapping[str, Any]) -> dict[str, Any]:
    fields = request["statement"]
    lists = ("name", "modifiers", "columns")
    statement = Statement(**{**fields, **{key: tuple(fields[key]) for key in lists}})
    if "tables" not in request:
        return {"columns": _text(planner.columns(statement))}
    tables = {name: _schema(text) for name, text in request["tables"].items()}
    plan = planner.plan(statement, tables)
    origin: Any = plan.origin
    places, collations = dict(origin.places), dict(plan.collations)
    return {"plan": plan.content, "places": places, "collations": collations}


def main() -> None:
    """Answer the requests on stdin until it is closed. What Spark prints goes to stderr."""
    # The caller may end before its answer comes, or be interrupted.
    with (
        suppress(BrokenPipeError, KeyboardInterrupt),
        os.fdopen(os.dup(1), "w", encoding="utf-8") as answers,
    ):
        os.dup2(2, 1)
        planner: SqlPlanner | None = None
        for line in sys.stdin.buffer:
            request = json.loads(line)
            try:
                planner = planner or _planner(request)
                answer = _answer(planner, request)
            except SubstraitAggError as error:
                fields = {name: v for name, v in vars(error).items() if name[0] != "_"}
                answer = {"error": type(error).__name__, "fields": fields}
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
