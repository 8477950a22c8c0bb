"""Compute window functions by relations: positions, values of other rows, aggregates of partitions.

Positions are those of a fetch that numbers the rows of each partition. An aggregate of a whole
partition is computed once per partition and joined with the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundFetch,
    BoundMeasure,
    BoundProject,
    BoundRelation,
    BoundWindowFunction,
    BoundWindowValues,
    Column,
    Expr,
    JoinKey,
    MeasureSort,
)
from substrait_agg.bind.context import SameRows, columns
from substrait_agg.bind.joins.keys import make_join
from substrait_agg.bind.rewrite import columns_in, renumber, renumber_measure, renumber_sorts
from substrait_agg.bind.subqueries.joins import BoundSubquery
from substrait_agg.plan.types import Type


@dataclass(frozen=True, slots=True)
class BoundWindow:
    """A window function of an expression, whose value is a column that a relation below adds.

    It is the position of the row, if it is neither a measure nor computed from other rows.

    Attributes:
        partitions: rows with equal values of these expressions are one partition.
        sorts: the order of the rows of a partition.
        type: the type of the value.
        path: path in the plan.
        measure: the measure of a partition, whose value all its rows have.
        computed: the function of the rows around a row.
    """

    partitions: tuple[Expr, ...]
    sorts: tuple[MeasureSort, ...]
    type: Type
    path: str
    measure: BoundMeasure | None = None
    computed: BoundWindowFunction | None = None

    @property
    def name(self) -> str:
        """Return the name of the function."""
        read = self.measure or self.computed
        return "row_number" if read is None else read.name

    @property
    def is_position(self) -> bool:
        """Return whether the function is the position of the row."""
        return self.measure is None and self.computed is None

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Return every expression that the function reads."""
        read = self.measure or self.computed
        own = () if read is None else read.expressions
        return (*self.partitions, *(s.expression for s in self.sorts), *own)

    def renumber(self, places: Mapping[int, int]) -> BoundWindow:
        """Return the function over a row in which column `o` has the ordinal ``places[o]``."""
        return replace(
            self,
            partitions=tuple(renumber(p, places) for p in self.partitions),
            sorts=renumber_sorts(self.sorts, places),
            measure=None if self.measure is None else renumber_measure(self.measure, places),
            computed=None if self.computed is None else _renumber(self.computed, places),
        )


def _renumber(function: BoundWindowFunction, places: Mapping[int, int]) -> BoundWindowFunction:
    measure = function.measure
    return replace(
        function,
        arguments=tuple(renumber(a, places) for a in function.arguments),
        measure=None if measure is None else renumber_measure(measure, places),
    )


def with_values(
    base: BoundRelation, added: Sequence[BoundSubquery | BoundWindow], same_rows: SameRows
) -> tuple[BoundRelation, dict[int, int]]:
    """Return a relation with the values of subqueries and window functions as further columns.

    Returns:
        The relation, and the place of each column: while expressions are bound, value `i` is column
        ``width + i``.

    Raises:
        NotDecorrelatedError: no join computes the value of a subquery.
    """
    relation, width = base, len(base.types)
    places = {ordinal: ordinal for ordinal in range(width)}
    relation = _with_subqueries(relation, added, width, places)
    windows = {n: value for n, value in enumerate(added) if isinstance(value, BoundWindow)}
    if windows:
        values = tuple(window.renumber(places) for window in windows.values())
        read = (c.ordinal for w in values for e in w.expressions for c in columns_in(e))
        base = relation if max(read, default=0) >= width else base
        relation, ordinals = _with_windows(relation, base, values, same_rows)
        places.update({width + n: o for n, o in zip(windows, ordinals, strict=True)})
    return _with_subqueries(relation, added, width, places), places


def _with_subqueries(
    relation: BoundRelation,
    added: Sequence[BoundSubquery | BoundWindow],
    width: int,
    places: dict[int, int],
) -> BoundRelation:
    """Add the values of the subqueries that read only columns in `places`, and put them there."""
    for ordinal, value in enumerate(added, width):
        if isinstance(value, BoundWindow) or ordinal in places:
            continue
        if value.reads <= places.keys():
            relation = value.add_column(relation, places)
            places[ordinal] = len(relation.types) - 1
    return relation


def _with_windows(
    relation: BoundRelation,
    base: BoundRelation,
    windows: Sequence[BoundWindow],
    same_rows: SameRows,
) -> tuple[BoundRelation, list[int]]:
    """Return a relation with the values of window functions as further columns.

    Args:
        relation: the rows; its first columns are those of `base`.
        base: the same rows, over whose columns the functions are.
        windows: the functions.
        same_rows: relations with further columns, to which the result is added.

    Returns:
        The relation, and the column of each function.
    """
    places: dict[int, int] = {}
    measured: dict[tuple[object, ...], list[int]] = {}
    for numbers in _in_one_order(windows):
        # Positions come first: they are then the last tie-break of functions with the same order, so that
        # equal rows have the same order for all of them.
        order = _order(windows[numbers[0]])
        for number, window in enumerate(windows):
            if window.is_position and number not in places and _order(window) == order:
                relation = _number_rows(window, relation)
                places[number] = len(relation.types) - 1
        first = len(relation.types)
        together = [windows[number] for number in numbers]
        relation = _moved_down(together, relation) or _with_computed(together, relation)
        places.update({number: first + i for i, number in enumerate(numbers)})
    for number, window in enumerate(windows):
        if window.measure is not None:
            source, _ = _source(window, base, same_rows)
            measured.setdefault((id(source), window.partitions), []).append(number)
        elif window.is_position and number not in places:
            relation = _number_rows(window, relation)
            places[number] = len(relation.types) - 1
    for numbers in measured.values():
        first = len(relation.types)
        sources = [_source(windows[number], base, same_rows) for number in numbers]
        relation = _join_values(relation, windows[numbers[0]].partitions, _measure(sources))
        places.update({number: first + i for i, number in enumerate(numbers)})
    same_rows[id(relation)] = (relation, base)
    return relation, [places[number] for number in range(len(windows))]


def _source(
    window: BoundWindow, base: BoundRelation, same_rows: SameRows
) -> tuple[BoundRelation, BoundWindow]:
    """Return the lowest relation with the same rows that has the columns of a function.

    Producers write one projection per function over the one before. Read from the projection, rows
    would be computed twice for each function below it.
    """
    places = {c.ordinal: c.ordinal for e in window.expressions for c in columns_in(e)}
    lowest, relation, through = base, base, places
    while True:
        if id(relation) in same_rows:
            _, relation = same_rows[id(relation)]
            if any(place >= len(relation.types) for place in through.values()):
                break
            lowest, places = relation, through
        elif isinstance(relation, BoundProject):
            outputs = {o: relation.expressions[place] for o, place in through.items()}
            through = {o: e.ordinal for o, e in outputs.items() if isinstance(e, Column)}
            if len(through) < len(outputs):
                break
            relation = relation.input
        else:
            break
    return lowest, window.renumber(places)


def _in_one_order(windows: Sequence[BoundWindow]) -> list[list[int]]:
    """Return the ordinals of the functions of other rows, together where one operator computes them."""
    together: dict[tuple[object, ...], list[int]] = {}
    for number, window in enumerate(windows):
        if window.computed is not None:
            together.setdefault(_order(window), []).append(number)
    return list(together.values())


def _order(window: BoundWindow) -> tuple[object, ...]:
    """Return what functions have in common that see rows in one order."""
    return window.partitions, window.sorts


def _with_computed(windows: Sequence[BoundWindow], source: BoundRelation) -> BoundWindowValues:
    """Return the rows with the values of functions of the same partitions and order."""
    functions = tuple(w.computed for w in windows if w.computed is not None)
    types = (*source.types, *(f.type for f in functions))
    first = windows[0]
    return BoundWindowValues(source, first.sorts, first.partitions, functions, types, first.path)


def _moved_down(windows: Sequence[BoundWindow], source: BoundRelation) -> BoundRelation | None:
    """Add functions to the operator below projections that has their partitions and order.

    Above it they would see equal rows in the order of the values of its functions.

    Returns:
        The rows with the values as further columns; None if there is no such operator, if the functions
        read values that it computes, or if equal sort keys have equal values.
    """
    if all(w.computed is not None and w.computed.function in _OF_SORT_KEYS for w in windows):
        return None
    if isinstance(source, BoundProject):
        read = {c.ordinal for w in windows for e in w.expressions for c in columns_in(e)}
        outputs = {ordinal: source.expressions[ordinal] for ordinal in read}
        places = {o: e.ordinal for o, e in outputs.items() if isinstance(e, Column)}
        if len(places) < len(read):
            return None
        below = _moved_down([w.renumber(places) for w in windows], source.input)
        if below is None:
            return None
        added = columns(below.types)[len(source.input.types) :]
        expressions = (*source.expressions, *added)
        return replace(
            source, input=below, expressions=expressions, types=tuple(e.type for e in expressions)
        )
    if not isinstance(source, BoundWindowValues) or source.last is not None:
        return None
    if _order(windows[0]) != (source.partitions, source.sorts):
        return None
    width = len(source.input.types)
    if any(c.ordinal >= width for w in windows for e in w.expressions for c in columns_in(e)):
        return None
    functions = tuple(w.computed for w in windows if w.computed is not None)
    return replace(
        source,
        functions=(*source.functions, *functions),
        types=(*source.types, *(f.type for f in functions)),
    )


_OF_SORT_KEYS = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})
"""Functions whose values are the same for rows with equal sort keys."""


def _number_rows(window: BoundWindow, source: BoundRelation) -> BoundFetch:
    """Return the rows with their position in their partition."""
    types = (*source.types, window.type)
    return BoundFetch(
        source, window.sorts, 0, None, types, window.path, window.partitions, numbered=True
    )


def _measure(sources: Sequence[tuple[BoundRelation, BoundWindow]]) -> BoundAggregate:
    """Return the measures of functions with the same partitions, for each partition."""
    source, first = sources[0]
    measures = tuple(w.measure for _, w in sources if w.measure is not None)
    keys = first.partitions
    types = (*(key.type for key in keys), *(measure.type for measure in measures))
    return BoundAggregate(source, keys, measures, types, first.path)


def _join_values(
    relation: BoundRelation, keys: tuple[Expr, ...], values: BoundAggregate
) -> BoundRelation:
    """Return the rows with the values of their keys; `values` has the keys, then the values."""
    pairs = tuple(
        JoinKey(key, Column(key.type, ordinal), null_safe=True) for ordinal, key in enumerate(keys)
    )
    join = make_join("inner", relation, values, pairs, None, values.path)
    width = len(relation.types)
    every = columns(join.types)
    output = (*every[:width], *every[width + len(keys) :])
    return BoundProject(join, output, tuple(e.type for e in output), values.path)
