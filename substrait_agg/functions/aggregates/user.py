"""Define the interface for measures of an embedding program, and register them.

A measure is vectorised: it receives whole Arrow columns, never a single row or group. The engine
implements FILTER, DISTINCT, grouping sets, retractions and recovery.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from substrait_agg.errors import UsageError
from substrait_agg.functions.aggregates.registry import UserMeasure, register, unregister
from substrait_agg.plan.types import Type

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class GroupedValues:
    """The values of n groups, concatenated.

    Attributes:
        offsets: int64, n + 1 values; values offsets[i] to offsets[i + 1] - 1 belong to group i.
        columns: one Arrow array per argument of the measure.
        weights: int64, the number of occurrences of each value; all 1 under DISTINCT.
    """

    offsets: npt.NDArray[np.int64]
    columns: tuple[pa.Array, ...]
    weights: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1


class BaseMeasure(ABC):
    """The base class of all measures of an embedding program.

    Attributes:
        urn: URN of the extension that declares it: ``extension:OWNER:ID``, not a standard one.
        names: its names in plans, in lower case.
        arguments: the accepted type kinds per argument (``"fp64"``, ``"i64"``, ...); empty for any.
        version: version of the computation. It is part of a plan's identity: a checkpoint made with
            another version is refused.
    """

    urn: str
    names: tuple[str, ...]
    arguments: tuple[tuple[str, ...], ...]
    version: str = ""

    @abstractmethod
    def result(self, types: tuple[Type, ...]) -> Type:
        """Return the type of the measure's values for arguments of these types."""


class AdditiveMeasure(BaseMeasure):
    """A measure whose state is a few totals.

    The totals are exact integers. A deletion subtracts exactly what the insertion added.

    Attributes:
        columns: name of each total -> number of decimal digits after the point (0: integers).
    """

    columns: Mapping[str, int]

    @abstractmethod
    def contribute(self, arguments: Sequence[pa.Array]) -> Mapping[str, pa.Array]:
        """Return the contribution of each row to each total.

        Args:
            arguments: one array per argument, without nulls: rows with a null or outside the FILTER
                are excluded.

        Returns:
            Per name in `columns` an array of the same length without nulls: integers, or decimals
            with at most the column's digits after the point. The contribution of a row must depend
            only on the values of that row, because a deletion computes it again and subtracts it.
        """

    @abstractmethod
    def value(self, count: pa.Array, totals: Mapping[str, pa.Array]) -> pa.Array:
        """Return the values of n groups.

        Args:
            count: int64, number of rows that contributed, never below 0.
            totals: per name in `columns` a decimal128(38, digits) array, 0 where the count is.

        Returns:
            n values that can be cast to the result's Arrow type.
        """


class OrderedMeasure(BaseMeasure):
    """A measure that is computed from the ordered values of a group."""

    @abstractmethod
    def value(self, groups: GroupedValues) -> pa.Array:
        """Return one value per group.

        The values of a group come in the measure's ORDER BY, or else in their own order. Rows with
        a null among the arguments, or outside the FILTER, are excluded.
        """


def register_measure(measure: AdditiveMeasure | OrderedMeasure) -> None:
    """Register a measure for every plan that is validated, explained or run from now on.

    Raises:
        ValueError: its URN is a standard one, a name is missing or taken, or it takes no argument.
        UsageError: OPTION_INVALID: it is not a measure.
    """
    register(_declaration(measure))


def unregister_measure(measure: AdditiveMeasure | OrderedMeasure) -> None:
    """Unregister a measure."""
    unregister(_declaration(measure))


def _declaration(measure: object) -> UserMeasure:
    if not isinstance(measure, BaseMeasure):
        message = f"an object of type {type(measure).__name__} is not a measure"
        help = "give an instance of a class that extends AdditiveMeasure or OrderedMeasure"
        raise UsageError("OPTION_INVALID", message, help=help, path="measure")
    return UserMeasure(
        urn=measure.urn,
        names=measure.names,
        arguments=measure.arguments,
        result=measure.result,
        state="additive" if isinstance(measure, AdditiveMeasure) else "ordered",
        implementation=measure,
        version=measure.version,
    )
