"""What the columns of an operator's state mean: written into the plan document, so that state can be shown without the plan."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class NumberShape:
    """An accumulator.

    Attributes:
        what: the number in words.
        kind: as in `functions.accumulators.Accumulator`.
        digits: of 32 bits behind one another in the column ``fixed``; 0 where it keeps as many as its values need.
        scale: decimal places of its unit.
        tree: the tree whose entries it counts or sums, -1 for none.
    """

    what: str
    kind: str
    digits: int
    scale: int = 0
    tree: int = -1


@dataclass(frozen=True, slots=True)
class TreeShape:
    """An ordered tree.

    Attributes:
        what: what it is ordered by, or holds.
        values: what each component of its key is called.
    """

    what: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OperatorShape:
    """An operator.

    Attributes:
        kind: what it is: ``aggregate``, ``distinct rows``, ``rows of the view``, ``sessions`` or ``upserts``.
        keys: names of its key columns.
        values: names of its other output columns.
        numbers: its accumulators, in the order of their digits.
        trees: its ordered trees.
    """

    kind: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    numbers: tuple[NumberShape, ...] = ()
    trees: tuple[TreeShape, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)
