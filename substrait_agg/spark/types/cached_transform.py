"""Steps over DataFrames that are made once for a stream: of the columns of a batch only the plan is new.

A step as PySpark takes it makes every part of its columns in the JVM, by a call for each; a batch of a few rows takes less time
than those calls. So the columns are kept there, and a batch takes one call per step.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

Step = Callable[[Any], Any]
"""From a DataFrame of the JVM to the next."""


class CachedTransform:
    """A DataFrame, and the steps by which it was made of another; its methods are those of `DataFrame`."""

    def __init__(self, frame: DataFrame, steps: tuple[Step, ...] = ()) -> None:
        self._frame: Any = frame
        self._steps = steps

    @property
    def schema(self) -> StructType:
        """As of `DataFrame`."""
        schema: StructType = self._frame.schema
        return schema

    @property
    def columns(self) -> list[str]:
        """As of `DataFrame`."""
        return list(self._frame.columns)

    def withColumns(self, columns: Mapping[str, Column]) -> CachedTransform:  # noqa: N802 - as of `DataFrame`
        """As of `DataFrame`; nothing without columns."""
        if not columns:
            return self
        names, made = self._frame._jseq(list(columns)), self._frame._jcols(*columns.values())
        return self._then(lambda frame: frame.withColumns(names, made))

    def select(self, *columns: Column) -> CachedTransform:
        """As of `DataFrame`."""
        made = self._frame._jcols(*columns)
        return self._then(lambda frame: frame.select(made))

    def grouped(self, keys: tuple[str, ...], first: Column, *others: Column) -> CachedTransform:
        """``groupBy`` and ``agg``."""
        by, sums = self._frame._jcols(*keys), self._frame._jcols(*others)
        one = first._jc
        return self._then(lambda frame: frame.groupBy(by).agg(one, sums))

    def repartitionById(self, partitions: int, place: Column) -> CachedTransform:  # noqa: N802 - as of `DataFrame`
        """As of `DataFrame`."""
        made = place._jc
        return self._then(lambda frame: frame.repartitionById(partitions, made))

    def coalesce(self, partitions: int) -> CachedTransform:
        """As of `DataFrame`."""
        return self._then(lambda frame: frame.coalesce(partitions))

    def repartition(self, partitions: int) -> CachedTransform:
        """As of `DataFrame`."""
        return self._then(lambda frame: frame.repartition(partitions))

    @property
    def made(self) -> tuple[DataFrame, tuple[Step, ...]]:
        """The DataFrame, and the steps."""
        return self._frame, self._steps

    def _then(self, step: Step) -> CachedTransform:
        return CachedTransform(_wrapped(step(self._frame._jdf), self._frame), (*self._steps, step))


def _wrapped(made: Any, frame: DataFrame) -> DataFrame:
    whole: DataFrame = type(frame)(made, frame.sparkSession)
    return whole


class Recipes:
    """The steps of recipes, by what they are for and the columns that they are over."""

    def __init__(self) -> None:
        self._steps: dict[Hashable, tuple[Step, ...]] = {}

    def over(
        self,
        frame: DataFrame,
        made_for: Hashable,
        make: Callable[[CachedTransform], CachedTransform],
    ) -> DataFrame:
        """A DataFrame with the steps of `make` over it; `made_for` says what besides its columns they depend on."""
        key = (made_for, str(frame._jdf.schema().json()))
        if key not in self._steps:
            whole, self._steps[key] = make(CachedTransform(frame)).made
            return whole
        made = frame._jdf
        for step in self._steps[key]:
            made = step(made)
        return _wrapped(made, frame)
