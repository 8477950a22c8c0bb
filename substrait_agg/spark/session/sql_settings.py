"""Set SQL settings of a session for the duration of a run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from pyspark.sql import SparkSession

from substrait_agg.errors import SubstraitAggError
from substrait_agg.spark.session.errors import SPARK_ERRORS
from substrait_agg.spark.session.session import SESSION_CONF, is_of_session, prepare

PARTITIONS = "spark.sql.shuffle.partitions"


class SqlSettings:
    """The SQL settings of a session during a run. `restore` brings back the caller's settings."""

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
        """Set one setting."""
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
