"""What a task on an executor tells the driver: one line of JSON, its result or the error that it failed with."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pyspark.sql.types import StringType, StructField, StructType

from substrait_agg.errors import RunFailed, SubstraitAggError

ANSWER = StructType([StructField("result", StringType())])
"""What Spark takes from such a task."""


def answer(work: Callable[[], str]) -> str:
    """The result of some work as JSON, or its error."""
    try:
        return work()
    except SubstraitAggError as error:
        told = {"code": error.code, "message": error.message, "help": error.help}
        return json.dumps({"error": {**told, "path": error.path}})


def checked(text: str) -> str:
    """The result that `answer` told.

    Raises:
        RunFailed: the error that it told.
    """
    body: dict[str, Any] = json.loads(text)
    if "error" in body:
        error = body["error"]
        raise RunFailed(error["code"], error["message"], help=error["help"], path=error["path"])
    return text
