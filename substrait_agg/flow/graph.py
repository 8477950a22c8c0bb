"""The dataflow: incremental operators, the linear steps that feed them, and how the view is read."""

from __future__ import annotations

from dataclasses import dataclass

from substrait_agg.bind.bound import BoundMeasure, Expr, SortKey
from substrait_agg.functions.accumulators import Accumulator, WeightKind
from substrait_agg.plan.types import Type


@dataclass(frozen=True, slots=True)
class TableOrigin:
    """Changes of a source table; only the columns `names` are read."""

    table: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class RowsOrigin:
    """Rows written in the plan: inserted once, in the first version."""

    types: tuple[Type, ...]
    rows: tuple[tuple[Expr, ...], ...]


@dataclass(frozen=True, slots=True)
class OperatorOrigin:
    """Changes of operator `operator` in the same batch."""

    operator: int
    types: tuple[Type, ...]


Origin = TableOrigin | RowsOrigin | OperatorOrigin


@dataclass(frozen=True, slots=True)
class FilterStep:
    """Keep the rows for which `condition` is true."""

    condition: Expr


@dataclass(frozen=True, slots=True)
class ProjectStep:
    """Replace the columns by `expressions`."""

    expressions: tuple[Expr, ...]


Step = FilterStep | ProjectStep


@dataclass(frozen=True, slots=True)
class Branch:
    """A linear path: rows of `origin`, then `steps` in order. Weights pass through unchanged."""

    origin: Origin
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class AggregateNode:
    """A stateful operator.

    Attributes:
        id: position in `Flow.operators`; operators come after those they read.
        inputs: branches whose rows are its input, all with the same columns.
        keys: grouping expressions over the input columns (empty for a global aggregate).
        measures: what is computed, in order.
        arguments: the distinct (value, filter) pairs that the accumulators read; value None counts rows.
        accumulators: the group's state, after its total weight: shared by measures that need the same number.
        reads: per measure, the ordinals of the accumulators it is computed from: (total or -1, count or -1);
            a count of -1 is the total weight of the group.
        types: output columns, keys first.
        weight: what is known of the weights of its input.
        multiset: True for the operator without measures that keeps the rows of a view and their weights.
        path: place in the plan.
    """

    id: int
    inputs: tuple[Branch, ...]
    keys: tuple[Expr, ...]
    measures: tuple[BoundMeasure, ...]
    arguments: tuple[tuple[Expr | None, Expr | None], ...]
    accumulators: tuple[Accumulator, ...]
    reads: tuple[tuple[int, int], ...]
    types: tuple[Type, ...]
    weight: WeightKind
    multiset: bool
    path: str


@dataclass(frozen=True, slots=True)
class Flow:
    """The whole dataflow.

    Attributes:
        operators: stateful operators in the order in which they run.
        output: ordinals of the last operator's columns that make up the view, in order.
        names: column names of the view.
        types: column types of the view.
        sorts: order in which the view is shown.
        fingerprint: identity of the plan.
    """

    operators: tuple[AggregateNode, ...]
    output: tuple[int, ...]
    names: tuple[str, ...]
    types: tuple[Type, ...]
    sorts: tuple[SortKey, ...]
    fingerprint: str
