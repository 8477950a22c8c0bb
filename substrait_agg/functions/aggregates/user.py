"""Measures of an embedding program: what a class has to give, and how it is made known.

A measure is vectorised: it sees whole Arrow columns, never a row or a group at a time. FILTER, DISTINCT, grouping sets, retractions
and recovery are the engine's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from substrait_agg.functions.aggregates.registry import UserMeasure, register, unregister
from substrait_agg.plan.types import Type

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class GroupedValues:
    """The values of n groups, one behind the other.

    Attributes:
        offsets: int64, n + 1 of them; values offsets[i] to offsets[i + 1] - 1 belong to group i.
        columns: one Arrow array per argument of the measure.
        weights: int64, how often each value is there; all 1 under DISTINCT.
    """

    offsets: npt.NDArray[np.int64]
    columns: tuple[pa.Array, ...]
    weights: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1


class Measure(ABC):
    """What all measures of an embedding program have.

    Attributes:
        urn: of the extension that declares it: ``extension:OWNER:ID``, not one of the standard's.
        names: its names in plans, lower case.
        arguments: per argument the kinds of type it takes (``"fp64"``, ``"i64"``, ...); empty for any.
        version: of what it computes. It is part of a plan's identity: a checkpoint made with another version is refused.
    """

    urn: str
    names: tuple[str, ...]
    arguments: tuple[tuple[str, ...], ...]
    version: str = ""

    @abstractmethod
    def result(self, types: tuple[Type, ...]) -> Type:
        """The type of the measure's values for arguments of these types."""


class AdditiveMeasure(Measure):
    """A measure whose state is a few totals.

    The totals are exact integers: what a deletion takes away is exactly what the insertion had added.

    Attributes:
        columns: names of the totals, with the decimal digits behind the point that each one keeps (0: integers).
    """

    columns: Mapping[str, int]

    @abstractmethod
    def contribute(self, arguments: Sequence[pa.Array]) -> Mapping[str, pa.Array]:
        """What each row adds to each total.

        Args:
            arguments: one array per argument, without nulls: rows with a null or outside the FILTER do not come here.

        Returns:
            Per name in `columns` an array of the same length without nulls: integers, or decimals of at most the
            column's digits behind the point. What a row contributes must depend on nothing but the values of that row:
            a deletion takes away what is computed for it then.
        """

    @abstractmethod
    def value(self, count: pa.Array, totals: Mapping[str, pa.Array]) -> pa.Array:
        """The values of n groups.

        Args:
            count: int64, rows that contributed, never below 0.
            totals: per name in `columns` a decimal128(38, digits) array, 0 where the count is.

        Returns:
            n values that can be cast to the result's Arrow type.
        """


class OrderedMeasure(Measure):
    """A measure that is computed from the values of a group in order."""

    @abstractmethod
    def value(self, groups: GroupedValues) -> pa.Array:
        """The values of the groups, from their values in the measure's ORDER BY, else in the order of the values themselves.

        Rows with a null among the arguments, or outside the FILTER, are not among them.
        """


def register_measure(measure: AdditiveMeasure | OrderedMeasure) -> None:
    """Make a measure known to every plan that is validated, explained or run from now on.

    Raises:
        ValueError: its URN is a standard one, a name is missing or taken, or it takes no argument.
    """
    register(_declaration(measure))


def unregister_measure(measure: AdditiveMeasure | OrderedMeasure) -> None:
    """Forget a measure."""
    unregister(_declaration(measure))


def _declaration(measure: AdditiveMeasure | OrderedMeasure) -> UserMeasure:
    return UserMeasure(
        urn=measure.urn,
        names=measure.names,
        arguments=measure.arguments,
        result=measure.result,
        state="additive" if isinstance(measure, AdditiveMeasure) else "ordered",
        implementation=measure,
        version=measure.version,
    )
