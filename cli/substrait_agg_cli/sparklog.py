"""Redirect the output of Spark to a file, and keep the file only if it explains a failure."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from substrait_agg.errors import SubstraitAggError
from substrait_agg.redaction import clean

EXPLAINED_BY_SPARK = frozenset(
    "BATCH_FAILED RUN_NOT_STARTED SPARK_LOST SPARK_NOT_STARTED SOURCE_UNREADABLE".split()
)
"""Errors that Spark's log explains in more detail."""


@contextmanager
def spark_log(*, debug: bool) -> Iterator[IO[bytes] | None]:
    """Provide the file that Spark writes to; None with `debug`, which means stderr.

    The file has no name, so it never remains. If Spark's log explains a failure, the error gets a
    note with the name of a copy.
    """
    if debug:
        yield None
        return
    with tempfile.TemporaryFile() as log:
        try:
            yield log
        except BrokenPipeError:
            raise
        except Exception as error:
            code = error.code if isinstance(error, SubstraitAggError) else None
            if code is None or code in EXPLAINED_BY_SPARK:
                _keep(log, error)
            raise


def _keep(log: IO[bytes], error: Exception) -> None:
    # The JVM writes through the same file description. Its position is the end of the log.
    log.seek(0)
    with tempfile.NamedTemporaryFile(prefix="substrait-agg-", suffix=".log", delete=False) as copy:
        copy.writelines(clean(line.decode(errors="replace")).encode() for line in log)
    if Path(copy.name).stat().st_size:
        error.add_note(f"the output of Spark is in {copy.name}")
    else:
        Path(copy.name).unlink()
