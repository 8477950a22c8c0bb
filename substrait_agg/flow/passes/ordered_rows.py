"""Lower the relations whose operators keep rows in order: fetches and window functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from substrait_agg.bind.bound import (
    BoundFetch,
    BoundRelation,
    BoundWindowValues,
    Column,
    Constant,
    Expr,
    MeasureSort,
)
from substrait_agg.bind.context import columns
from substrait_agg.flow.graph.aggregate import Aggregate
from substrait_agg.flow.graph.graph import Branch, ProjectStep, TreeComponent
from substrait_agg.flow.graph.measures import state_layout
from substrait_agg.flow.graph.nodes import Argument, Node, Port
from substrait_agg.flow.graph.top_k import TopK, row_trees
from substrait_agg.flow.graph.window import Window, WindowColumn
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction, WeightKind


@dataclass(frozen=True, slots=True)
class _OrderedColumns:
    """The columns of rows in order: the sort keys, then the others.

    Attributes:
        values: the columns.
        directions: per column whether it is descending, and whether nulls come first.
        sorts: number of sort keys.
        row: per column of the relation, its ordinal.
    """

    values: tuple[Expr, ...]
    directions: tuple[tuple[bool, bool], ...]
    sorts: int
    row: tuple[int, ...]

    @staticmethod
    def of(source: BoundRelation, sorts: tuple[MeasureSort, ...]) -> _OrderedColumns:
        """Return the columns of a relation in an order.

        Rows with equal sort keys are ordered by their other columns, ascending, nulls last.
        """
        order: dict[Expr, tuple[bool, bool]] = {}
        for sort in sorts:
            order.setdefault(sort.expression, (sort.descending, sort.nulls_first))
        row = columns(source.types)
        rest: dict[Expr, tuple[bool, bool]] = {c: (False, False) for c in row if c not in order}
        values = (*order, *rest)
        directions = (*order.values(), *rest.values())
        return _OrderedColumns(values, directions, len(order), tuple(map(values.index, row)))


def ordered_columns(relation: BoundFetch | BoundWindowValues, node: Node) -> ProjectStep:
    """Return the step from the output of the operator, which begins with keys, to the columns of the relation.

    If only one position is fetched, it is a constant; positions that nothing reads are null.
    """
    keys, width = len(relation.partitions), len(relation.input.types)
    output: list[Expr] = [Column(type_, keys + o) for o, type_ in enumerate(relation.types)]
    if isinstance(relation, BoundFetch) and len(node.types) < keys + len(relation.types):
        position = relation.offset + 1 if relation.count == 1 else None
        output[width:] = [Constant(relation.types[-1].as_nullable(position is None), position)]
    return ProjectStep(tuple(output))


def ordered_rows_node(
    number: int,
    inputs: tuple[Branch, ...],
    properties: tuple[WeightKind, EarlyRetraction],
    relation: BoundFetch | BoundWindowValues,
) -> TopK | Window:
    """Return the operator of a fetch or of window functions.

    Args:
        number: its id.
        inputs: branches with exactly the columns of the input.
        properties: the weights of these branches, and the early-retraction policy.
        relation: the fetch, or the rows with values.
    """
    ordered = _OrderedColumns.of(relation.input, relation.sorts)
    # Rows without columns are all equal: the tree has one entry, the constant true.
    arguments: list[Argument] = [(value, None) for value in ordered.values] or [(None, None)]
    own: dict[str, Any]
    if isinstance(relation, BoundFetch):
        node: type[TopK] | type[Window] = TopK
        own = {name: getattr(relation, name) for name in ("offset", "count", "numbered")}
    else:
        node, own = Window, _window_fields(relation, arguments)
    weight, early = properties
    further = [(False, False)] * (len(arguments) - len(ordered.directions))
    ways = (*ordered.directions, *further)
    components = tuple(TreeComponent(i, *way) for i, way in enumerate(ways))
    return node(
        id=number,
        inputs=(Port(inputs, relation.partitions, tuple(arguments)),),
        types=(*(key.type for key in relation.partitions), *relation.types),
        weight=weight,
        path=relation.path,
        early=early,
        groups=row_trees(components, guarded=early != "carry"),
        sorts=ordered.sorts,
        row=ordered.row,
        **own,
    )


def _window_fields(relation: BoundWindowValues, arguments: list[Argument]) -> dict[str, Any]:
    """Return the fields that only a window node has; append the arguments that it needs."""
    measures = [f for f in relation.functions if f.measure is not None]
    functions = tuple(
        WindowColumn(
            function=function.function,
            arguments=tuple(_place((e, None), arguments) for e in function.arguments),
            number=function.number,
            frame=function.frame,
            measure=measures.index(function) if function.measure is not None else None,
            name=function.name,
            skip_nulls=function.skip_nulls,
        )
        for function in relation.functions
    )
    frames = _frames(relation) if measures else None
    return {
        "functions": functions,
        "frames": frames,
        "frame_arguments": tuple(_place(a, arguments) for a in frames.arguments) if frames else (),
        "last": relation.last,
    }


def _place(argument: Argument, arguments: list[Argument]) -> int:
    """Return the ordinal of an argument; append a new one."""
    # Equal written forms compute the same, as in `StateLayoutBuilder`.
    written = [repr(other) for other in arguments]
    if repr(argument) not in written:
        arguments.append(argument)
        return len(written)
    return written.index(repr(argument))


def _frames(relation: BoundWindowValues) -> Aggregate:
    """Return the aggregate functions over frames as an aggregate of which each frame is a group.

    The rows of a frame are each inserted once.
    """
    measures = tuple(f.measure for f in relation.functions if f.measure is not None)
    arguments, groups = state_layout(measures, "append_only")
    return Aggregate(
        id=0,
        inputs=(Port((), (), arguments),),
        groups=groups,
        types=tuple(measure.type for measure in measures),
        weight="append_only",
        path=relation.path,
    )
