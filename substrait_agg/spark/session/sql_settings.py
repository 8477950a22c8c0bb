"""SQL settings of a session for the time of a run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from pyspark.sql import SparkSession

from substrait_agg.errors import SubstraitAggError
from substrait_agg.spark.session.errors import SPARK_ERRORS
from substrait_agg.spark.session.session import SESSION_CONF, is_of_session, prepare

PARTITIONS = "spark.sql.shuffle.partitions"


class SqlSettings:
    """SQL settings of a session for the time of a run; those of a caller's session come back afterwards."""

    def __init__(self, session: SparkSession, conf: Mapping[str, str] | None) -> None:
        self._session = session
        names = [*SESSION_CONF, *(conf or {}), PARTITIONS]
        self._before = {name: session.conf.get(name, None) for name in names}
        try:
            prepare(session, conf)
        except SubstraitAggError:
            self.restore()
            raise

    def put(self, name: str, value: str) -> None:
        """Set one."""
        self._session.conf.set(name, value)

    def restore(self) -> None:
        """Put back what the session had before."""
        # A Spark that is gone has no settings any more.
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
