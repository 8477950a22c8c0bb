"""Cache the columns of DataFrame transformations for all batches of a stream.

PySpark builds every part of a column by a separate call to the JVM. For a batch of a few rows,
these calls take longer than the batch. The cache keeps the columns in the JVM, so that a batch
needs one call per step.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

Step = Callable[[Any], Any]
"""A function from one DataFrame of the JVM to the next."""


class RecordedTransform:
    """A DataFrame with the steps that derive it from another, and some of its methods."""

    def __init__(self, frame: DataFrame, steps: tuple[Step, ...] = ()) -> None:
        self._frame: Any = frame
        self._steps = steps

    @property
    def schema(self) -> StructType:
        """Return ``DataFrame.schema``."""
        schema: StructType = self._frame.schema
        return schema

    @property
    def columns(self) -> list[str]:
        """Return ``DataFrame.columns``."""
        return list(self._frame.columns)

    def withColumns(self, columns: Mapping[str, Column]) -> RecordedTransform:  # noqa: N802 - the name in `DataFrame`
        """Apply ``DataFrame.withColumns``; return itself if `columns` is empty."""
        if not columns:
            return self
        names, java_columns = (
            self._frame._jseq(list(columns)),
            self._frame._jcols(*columns.values()),
        )
        return self._then(lambda frame: frame.withColumns(names, java_columns))

    def select(self, *columns: Column) -> RecordedTransform:
        """Apply ``DataFrame.select``."""
        java_columns = self._frame._jcols(*columns)
        return self._then(lambda frame: frame.select(java_columns))

    def group(self, keys: tuple[str, ...], first: Column, *others: Column) -> RecordedTransform:
        """Apply ``DataFrame.groupBy`` and then ``agg``."""
        by, sums = self._frame._jcols(*keys), self._frame._jcols(*others)
        one = first._jc
        return self._then(lambda frame: frame.groupBy(by).agg(one, sums))

    def repartitionById(self, partitions: int, place: Column) -> RecordedTransform:  # noqa: N802 - the name in `DataFrame`
        """Apply ``DataFrame.repartitionById``."""
        java_column = place._jc
        return self._then(lambda frame: frame.repartitionById(partitions, java_column))

    def coalesce(self, partitions: int) -> RecordedTransform:
        """Apply ``DataFrame.coalesce``."""
        return self._then(lambda frame: frame.coalesce(partitions))

    def repartition(self, partitions: int) -> RecordedTransform:
        """Apply ``DataFrame.repartition``."""
        return self._then(lambda frame: frame.repartition(partitions))

    @property
    def result(self) -> tuple[DataFrame, tuple[Step, ...]]:
        """Return the DataFrame and its steps."""
        return self._frame, self._steps

    def _then(self, step: Step) -> RecordedTransform:
        return RecordedTransform(_wrap(step(self._frame._jdf), self._frame), (*self._steps, step))


def _wrap(java_frame: Any, frame: DataFrame) -> DataFrame:
    whole: DataFrame = type(frame)(java_frame, frame.sparkSession)
    return whole


class TransformCache:
    """A cache of the steps of transforms, by their purpose and the schema of their input."""

    def __init__(self) -> None:
        self._steps: dict[Hashable, tuple[Step, ...]] = {}

    def over(
        self,
        frame: DataFrame,
        made_for: Hashable,
        make: Callable[[RecordedTransform], RecordedTransform],
    ) -> DataFrame:
        """Apply the steps of `make` to a DataFrame, from the cache if they are there.

        Args:
            frame: the DataFrame.
            made_for: everything that the steps depend on besides the schema of `frame`.
            make: builds the steps if the cache does not contain them.
        """
        key = (made_for, str(frame._jdf.schema().json()))
        if key not in self._steps:
            whole, self._steps[key] = make(RecordedTransform(frame)).result
            return whole
        java_frame = frame._jdf
        for step in self._steps[key]:
            java_frame = step(java_frame)
        return _wrap(java_frame, frame)
