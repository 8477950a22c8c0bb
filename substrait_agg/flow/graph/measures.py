"""Decompose each kind of measure into accumulators and trees.

For append-only input, trees are reduced to their extremes: without deletions, the least and greatest
value answer all that `min` and `max` read. The group's row stores the extremes, as it does for every
tree, and a number that is above zero once the group has a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

from substrait_agg.bind.bound import BoundMeasure, Call, Conditional, Constant, Expr
from substrait_agg.flow.graph.graph import MeasureState, Side, StatePerGroup, ValueTree
from substrait_agg.flow.graph.state_layout import Argument, StateLayoutBuilder
from substrait_agg.functions.aggregates.accumulators import (
    MET,
    TREE_COUNTERS,
    Accumulator,
    WeightKind,
    tree_counters,
)
from substrait_agg.functions.aggregates.kinds import KINDS, Input, complete
from substrait_agg.functions.aggregates.registry import implementation_of
from substrait_agg.functions.aggregates.user import AdditiveMeasure
from substrait_agg.plan.types import BOOL, INTEGER_BITS
from substrait_agg.required import require

Arguments = tuple[Argument, ...]
Decompose = Callable[[BoundMeasure, StateLayoutBuilder], MeasureState]


def state_layout(
    measures: tuple[BoundMeasure, ...],
    weight: WeightKind,
    *,
    guarded: bool = False,
    keys: tuple[Expr, ...] = (),
) -> tuple[Arguments, StatePerGroup]:
    """Return the arguments and the state from which all measures are computed, without duplicates.

    Args:
        measures: over one input.
        weight: what is known about the weights of that input.
        guarded: whether to add a last tree over all arguments, which detects early retractions.
        keys: further columns of that tree: in a grouping set that leaves keys out, rows still
            differ in them.
    """
    sharing = StateLayoutBuilder(weight)
    reads = tuple(_DECOMPOSE[KINDS[measure.kind].input](measure, sharing) for measure in measures)
    if guarded:
        sharing.whole_rows(keys)
    arguments = tuple(sharing.arguments)
    groups = StatePerGroup(
        measures,
        reads,
        tuple(sharing.trees),
        tuple(sharing.accumulators),
        tuple(sharing.computed),
        len(sharing.trees) - 1 if guarded else None,
    )
    if weight == "append_only":
        groups = extremes_only(groups, arguments)
    return arguments, with_filters(groups, arguments)


def _present(value: Expr) -> Expr:
    return Call(BOOL.as_nullable(False), "is_not_null", (value,))


def _and(conditions: Sequence[Expr]) -> Expr | None:
    if not conditions:
        return None
    return reduce(lambda a, b: Call(BOOL, "and", (a, b)), conditions)


def _filter_and(condition: Expr | None, *more: Expr) -> Expr | None:
    """Return the conjunction of the filter and further conditions."""
    return _and([*([] if condition is None else [condition]), *more])


def _rows_counted(measure: BoundMeasure, sharing: StateLayoutBuilder) -> int | None:
    """Return the accumulator that counts the rows in which no argument is null."""
    if len(measure.arguments) > 1:
        present = [_present(a) for a in measure.arguments if a.type.nullable]
        return sharing.count(None, _filter_and(measure.filter, *present))
    return sharing.count(measure.argument, measure.filter)


def _count(measure: BoundMeasure, sharing: StateLayoutBuilder) -> MeasureState:
    if measure.distinct:
        tree = sharing.values(measure, measure.arguments)
        return MeasureState((sharing.live(tree),), tree)
    return MeasureState((_rows_counted(measure, sharing),))


def _sum(measure: BoundMeasure, sharing: StateLayoutBuilder) -> MeasureState:
    value = measure.arguments[0]
    if measure.distinct:
        tree = sharing.values(measure, measure.arguments)
        return MeasureState((sharing.total(value, measure.filter, tree), sharing.live(tree)), tree)
    total = sharing.total(value, measure.filter)
    if len(measure.arguments) > 1:  # the sums of other groups, and how many values each has
        return MeasureState((total, sharing.total(measure.arguments[1], measure.filter)))
    return MeasureState((total, sharing.count(value, measure.filter)))


def _boolean(measure: BoundMeasure, sharing: StateLayoutBuilder) -> MeasureState:
    value = measure.arguments[0]
    negated = Call(value.type, "not", (value,))
    holds = sharing.count(None, _filter_and(measure.filter, value))
    fails = sharing.count(None, _filter_and(measure.filter, negated))
    return MeasureState((holds, fails))


def _pair(value: Expr, other: Expr) -> Expr:
    """Return the value where the other value is not null, else null."""
    if not other.type.nullable:
        return value
    type_ = value.type.as_nullable()
    return Conditional(type_, ((_present(other), value),), Constant(type_, None))


def _moments(measure: BoundMeasure, sharing: StateLayoutBuilder) -> MeasureState:
    """Read count, sums and sums of products: of x alone, or of x and y as (n, x, y, xy, xx, yy)."""
    tree = sharing.values(measure, measure.arguments) if measure.distinct else None
    values = measure.arguments
    if len(values) == 2 and tree is None:
        values = (_pair(values[0], values[1]), _pair(values[1], values[0]))
    condition = measure.filter
    count = sharing.count(values[0], condition) if tree is None else sharing.live(tree)
    sums = [sharing.total(v, condition, tree) for v in values]
    products = [sharing.product(values[0], values[-1], condition, tree)]
    if measure.kind == "corr":
        products += [sharing.product(v, v, condition, tree) for v in values]
    return MeasureState((count, *sums, *products), tree)


def _extreme(measure: BoundMeasure, sharing: StateLayoutBuilder, *, side: Side) -> MeasureState:
    return MeasureState((), sharing.values(measure, measure.arguments), (0,), side)


def _order_measure(
    measure: BoundMeasure, sharing: StateLayoutBuilder
) -> tuple[int, tuple[int, ...]]:
    """Return the tree of a measure in its order, and the components that are its arguments."""
    keys = [(s.expression, s.descending, s.nulls_first) for s in measure.order]
    places = []
    for value in measure.arguments:
        written = [repr(k) for k, _, _ in keys]
        if repr(value) not in written:
            # By default a null comes before all values, as in nested values.
            keys.append((value, False, measure.keep_nulls))
            written.append(repr(value))
        places.append(written.index(repr(value)))
    skipped = () if measure.keep_nulls else tuple(places)
    return sharing.tree(measure, keys, skipped), tuple(places)


def _scan(measure: BoundMeasure, sharing: StateLayoutBuilder) -> MeasureState:
    tree, places = _order_measure(measure, sharing)
    return MeasureState((), tree, places)


def _rank(measure: BoundMeasure, sharing: StateLayoutBuilder) -> MeasureState:
    """Add the number of values, so that ranks are found without reading the whole group."""
    counted = None if measure.keep_nulls else measure.argument
    tree, places = _order_measure(measure, sharing)
    return MeasureState((sharing.count(counted, measure.filter),), tree, places)


def _user(measure: BoundMeasure, sharing: StateLayoutBuilder) -> MeasureState:
    declared = implementation_of(measure.implementation)
    implementation = declared.implementation
    if not isinstance(implementation, AdditiveMeasure):
        return _scan(measure, sharing)
    tree = sharing.values(measure, measure.arguments) if measure.distinct else None
    arguments = tuple(require(sharing.argument(a, measure.filter)) for a in measure.arguments)
    totals = [
        sharing.add_contributed(declared.key, column, arguments, tree)
        for column in implementation.columns
    ]
    count = _rows_counted(measure, sharing) if tree is None else sharing.live(tree)
    return MeasureState((count, *totals), tree)


def _end(measure: BoundMeasure, sharing: StateLayoutBuilder, *, side: Side) -> MeasureState:
    tree, places = _order_measure(measure, sharing)
    return MeasureState((), tree, places, side)


def _by(measure: BoundMeasure, sharing: StateLayoutBuilder, *, side: Side) -> MeasureState:
    value, by = measure.arguments
    skipped = (0, 1) if ("IGNORE_NULLS", "TRUE") in measure.options else (0,)
    tree = sharing.tree(measure, [(by, False, False), (value, False, True)], skipped)
    return MeasureState((), tree, (1,), side)


def _order_by_arrival(
    measure: BoundMeasure, sharing: StateLayoutBuilder, *, side: Side
) -> MeasureState:
    tree = sharing.arrivals(measure, latest=side == "last")
    return MeasureState((), tree, (2,), side)


def _union(measure: BoundMeasure, sharing: StateLayoutBuilder) -> MeasureState:
    components = [(measure.arguments[0], False, True)]
    tree = sharing.tree(measure, components, (0,), elements=True)
    return MeasureState((), tree, (0,))


_DECOMPOSE: Mapping[Input, Decompose] = complete(
    {
        "count": _count,
        "total": _sum,
        "conditions": _boolean,
        "moments": _moments,
        "least": partial(_extreme, side="first"),
        "greatest": partial(_extreme, side="last"),
        "multiset": _scan,
        "ranked": _rank,
        "first in order": partial(_end, side="first"),
        "last in order": partial(_end, side="last"),
        "first by": partial(_by, side="first"),
        "last by": partial(_by, side="last"),
        "earliest": partial(_order_by_arrival, side="first"),
        "latest": partial(_order_by_arrival, side="last"),
        "elements": _union,
        "user": _user,
        "none": lambda _measure, _sharing: MeasureState(),
    },
    Input,
)


_ORDERED_BY_SPARK = frozenset({
    *INTEGER_BITS, "bool", "date", "decimal", "fp32", "fp64", "precision_timestamp", "precision_timestamp_tz",
})  # fmt: skip
"""Kinds of values of fixed size. For other kinds Spark would sort the rows of a batch."""


def extremes_only(shared: StatePerGroup, arguments: Arguments) -> StatePerGroup:
    """Return the state layout of an aggregate without deletions in its input.

    A tree of which only extremes are read keeps only these.
    """
    alone = {i for i, tree in enumerate(shared.trees) if _reads_only_extremes(i, tree, shared)}
    if not alone:
        return shared
    stored = list(_stored_accumulators(shared.accumulators, alone))
    places = {old: new for new, (old, _) in enumerate(stored)}
    return replace(
        shared,
        trees=tuple(
            replace(tree, extremes_only=True, partial=_is_partial(tree, arguments))
            if i in alone
            else tree
            for i, tree in enumerate(shared.trees)
        ),
        accumulators=tuple(accumulator for _, accumulator in stored),
        reads=tuple(_move(read, places) for read in shared.reads),
    )


def _reads_only_extremes(ordinal: int, tree: ValueTree, shared: StatePerGroup) -> bool:
    readers = [read for read in shared.reads if read.tree == ordinal]
    if tree.follows or not readers or not all(read.side for read in readers):
        return False
    followed = (t.follows.tree for t in shared.trees if t.follows)
    summed = (a.tree for a in shared.accumulators if a.kind not in TREE_COUNTERS)
    return ordinal not in (*followed, *summed)


def with_filters(shared: StatePerGroup, arguments: Arguments) -> StatePerGroup:
    """Return the state layout with the trees of FILTERs in the runs of the tree without one.

    The trees have the same values, of which only counts and sums are read. A search, a write and a
    merge then serve all of them.
    """
    counted = {i for i, tree in enumerate(shared.trees) if _is_only_counted(i, tree, shared)}
    places: dict[str, int] = {}
    for i in sorted(counted):
        values, filtered = _values(shared.trees[i], arguments)
        if not filtered:
            places[repr(values)] = i
    trees = []
    for i, tree in enumerate(shared.trees):
        values, filtered = _values(shared.trees[i], arguments) if i in counted else ((), False)
        within = places.get(repr(values)) if filtered else None
        trees.append(replace(tree, within=within))
    return replace(shared, trees=tuple(trees))


def _is_only_counted(ordinal: int, tree: ValueTree, shared: StatePerGroup) -> bool:
    """Return whether all that is read of a tree are counts and sums over its live entries."""
    whole = len(tree.skipped) == len(tree.components) and tree.present is None
    plain = whole and not tree.elements and not tree.follows and not tree.extremes_only
    followed = any(t.follows and t.follows.tree == ordinal for t in shared.trees)
    readers = [read for read in shared.reads if read.tree == ordinal]
    return plain and not followed and all(read.accumulators and not read.values for read in readers)


def _values(tree: ValueTree, arguments: Arguments) -> tuple[tuple[object, ...], bool]:
    """Return the components of a tree without its FILTER, and whether it has one."""
    read = [arguments[c.argument] for c in tree.components]
    values = tuple(
        (value, c.descending, c.nulls_first)
        for c, (value, _) in zip(tree.components, read, strict=True)
    )
    return values, any(condition is not None for _, condition in read)


def _is_partial(tree: ValueTree, arguments: Arguments) -> bool:
    """Return whether Spark can find the extremes of a group while it sums.

    It can if it orders the values as the tree does.
    """
    if len(tree.components) > 1 or not tree.skipped or tree.components[0].descending:
        return False
    value, _ = arguments[tree.components[0].argument]
    return value is not None and value.type.kind in _ORDERED_BY_SPARK


def _stored_accumulators(
    accumulators: tuple[Accumulator, ...], alone: set[int]
) -> Iterator[tuple[int, Accumulator]]:
    """Yield the accumulators with their old ordinals; a tree of extremes keeps one of its two."""
    for ordinal, accumulator in enumerate(accumulators):
        if accumulator.tree not in alone:
            yield ordinal, accumulator
        elif accumulator == tree_counters(accumulator.tree)[0]:
            yield ordinal, replace(accumulator, kind=MET)


def _move(read: MeasureState, places: dict[int, int]) -> MeasureState:
    return replace(
        read, accumulators=tuple(None if a is None else places.get(a, a) for a in read.accumulators)
    )
