"""Bind grouping sets: the keys of each set, and the column layouts that producers address.

The specification's layout is: all grouping expressions, the measures, and with more than one set
the index of the set. DataFusion addresses another one: its distinct grouping expressions, a bitmask
of the keys that the set leaves out, the measures. The first key is the highest bit of the bitmask.
The bits above the keys number the repetitions of a set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundProject,
    Call,
    Column,
    Conditional,
    Constant,
    Expr,
)
from substrait_agg.bind.context import BindContext, GroupingInfo, is_unknown
from substrait_agg.bind.places import argument_place
from substrait_agg.bind.plan_size import too_large
from substrait_agg.bind.readings import aggregate_below, expressions_of, inputs_of
from substrait_agg.plan import model
from substrait_agg.plan.types import BOOL, I32, SIGNED, Type

Sets = tuple[tuple[int, ...], ...]
"""The ordinals of the keys of each grouping set."""

MOST_BITS = 64
"""Number of bits of the widest integer type of DataFusion's bitmask."""

INDEX_TYPE = I32.as_nullable(False)
"""Type of the set index in the specification's layout."""


def check_sets(node: model.AggregateRel, context: BindContext) -> Sets | None:
    """Return the grouping sets, each key once per set.

    An aggregate without grouping sets has one empty set.

    Returns:
        The sets, or None after an ordinal out of range, an unused key or an empty aggregate has
        been reported.
    """
    count = len(node.grouping_expressions)
    if not node.measures and not count and len(node.groupings) < 2:
        context.report("AGGREGATE_EMPTY", node.path)
        return None
    sets = tuple(tuple(dict.fromkeys(refs)) for refs in node.groupings) or ((),)
    wrong = 0
    for position, refs in enumerate(node.groupings):
        for place, ordinal in enumerate(refs):
            if 0 <= ordinal < count:
                continue
            wrong += 1
            context.report(
                "GROUPING_REFERENCE_OUT_OF_RANGE",
                f"{node.path}.groupings[{position}].expression_references[{place}]",
                ordinal=ordinal, count=count, last=max(count - 1, 0),
            )  # fmt: skip
    used = {ordinal for refs in sets for ordinal in refs}
    unused = [ordinal for ordinal in range(count) if ordinal not in used]
    # A reference out of range may mean the unused expression, so only surplus ones are reported.
    for ordinal in unused if len(unused) > wrong else ():
        path = f"{node.path}.grouping_expressions[{ordinal}]"
        context.report("GROUPING_EXPRESSION_UNUSED", path, ordinal=ordinal)
    return sets if not wrong and not unused else None


def report_repeated(
    node: model.AggregateRel, keys: tuple[Expr, ...], sets: Sets | None, context: BindContext
) -> None:
    """Report grouping expressions and grouping sets that are written twice."""
    first: dict[Expr, int] = {}
    for ordinal, key in enumerate(keys):
        other = first.setdefault(key, ordinal)
        # Expressions inside the sets have no path here; `with_repeated_keys` reports them.
        if other != ordinal and not is_unknown(key) and not node.inline:
            path = f"{node.path}.grouping_expressions[{ordinal}]"
            context.report("GROUPING_EXPRESSION_DUPLICATE", path, ordinal=ordinal, other=other)
    seen: dict[frozenset[int], int] = {}
    for position, refs in enumerate(sets or ()):
        other = seen.setdefault(frozenset(refs), position)
        if other != position:
            path = f"{node.path}.groupings[{position}]"
            context.report("GROUPING_SET_DUPLICATE", path, ordinal=position, other=other)


def with_repeated_keys(node: model.AggregateRel, context: BindContext) -> model.AggregateRel:
    """Give every repeated expression in an old-form grouping set a separate key, and report it."""
    keys: dict[tuple[int, int], int] = {}
    sets = []
    for position, refs in enumerate(node.groupings):
        seen: Counter[int] = Counter()
        ordinals = []
        for ordinal in refs:
            seen[ordinal] += 1
            ordinals.append(keys.setdefault((ordinal, seen[ordinal]), len(keys)))
        sets.append(tuple(ordinals))
        if len(seen) < len(refs):
            place = f"{node.path}.groupings[{position}].grouping_expressions"
            context.report("GROUPING_KEY_REPEATED", place, count=len(refs), distinct=len(seen))
    expressions = tuple(node.grouping_expressions[ordinal] for ordinal, _ in keys)
    return replace(node, grouping_expressions=expressions, groupings=tuple(sets))


def key_types(keys: tuple[Expr, ...], sets: Sets) -> tuple[Type, ...]:
    """Return the types of the key columns. A key is nullable if some set leaves it out."""
    present = Counter(ordinal for refs in sets for ordinal in refs)
    return tuple(
        key.type.as_nullable(key.type.nullable or present[ordinal] < len(sets))
        for ordinal, key in enumerate(keys)
    )


def merged_keys(keys: tuple[Expr, ...], sets: Sets) -> tuple[tuple[Expr, ...], Sets]:
    """Merge equal grouping expressions in order of first appearance, and renumber the sets."""
    distinct = tuple(dict.fromkeys(keys))
    place = {key: ordinal for ordinal, key in enumerate(distinct)}
    return distinct, tuple(tuple(dict.fromkeys(place[keys[o]] for o in refs)) for refs in sets)


# --- the layout with a bitmask -----------------------------------------------------------------


def grouping_ids(count: int, sets: Sets) -> tuple[int, ...]:
    """Return the bitmask of each set: one bit per key that it leaves out.

    The bits above the `count` keys contain the number of earlier equal sets.
    """
    seen: dict[frozenset[int], int] = {}
    ids = []
    for refs in sets:
        present = frozenset(refs)
        earlier = seen.get(present, 0)
        seen[present] = earlier + 1
        absent = sum(1 << (count - 1 - o) for o in range(count) if o not in present)
        ids.append(earlier << count | absent)
    return tuple(ids)


def _id_type(count: int, ids: tuple[int, ...]) -> Type:
    bits = max(count, *(value.bit_length() for value in ids))
    kind = next(f"u{size}" for size in (8, 16, 32, 64) if bits <= size or size == 64)
    return Type(kind, nullable=False)


def with_bitmask(aggregate: BoundAggregate) -> BoundProject:
    """Project the aggregate to DataFusion's layout: keys, bitmask, measures."""
    count, measures = len(aggregate.keys), len(aggregate.measures)
    ids = grouping_ids(count, aggregate.sets or (tuple(range(count)),))
    if max(count, *(value.bit_length() for value in ids)) > MOST_BITS:
        raise too_large(aggregate.path, f"{MOST_BITS} grouping keys in a bitmask of DataFusion")
    columns = [Column(type_, ordinal) for ordinal, type_ in enumerate(aggregate.types)]
    bitmask = _bitmask(ids, _id_type(count, ids), columns[-1] if aggregate.sets else None)
    expressions = (*columns[:count], bitmask, *columns[count : count + measures])
    types = tuple(e.type for e in expressions)
    return BoundProject(aggregate, expressions, types, aggregate.path)


def _bitmask(ids: tuple[int, ...], type_: Type, index: Column | None) -> Expr:
    values = [Constant(type_, value) for value in ids]
    if index is None:
        return values[0]
    clauses = []
    for position, value in enumerate(values[:-1]):
        here = Constant(INDEX_TYPE, position)
        clauses.append((Call(BOOL.as_nullable(False), "equal", (index, here)), value))
    return Conditional(type_, tuple(clauses), values[-1])


# --- aggregates with one grouping set that are addressed as if they had several -----------------


def addressed_wider(relations: Iterable[Any]) -> frozenset[int]:
    """Return identities of the aggregates whose readers address one column too many.

    Only aggregates with one grouping set are considered. DataFusion writes a plain grouping for
    ``GROUPING SETS ((a, b))``, but refers to the columns of its own layout.

    Args:
        relations: all relations of the plan.
    """
    wider: set[int] = set()
    for node in relations:
        inputs = inputs_of(node)
        source = aggregate_below(inputs[0]) if len(inputs) == 1 else None
        if source is not None and len(source.groupings) == 1 and _reaches(node, source):
            wider.add(id(source))
    return frozenset(wider)


def _reaches(node: Any, source: model.AggregateRel) -> bool:
    """Return whether `node` refers to the column after the last one of `source`."""
    width = len(source.grouping_expressions) + len(source.measures)
    expressions = tuple(expressions_of(node))
    if (
        isinstance(node, model.ProjectRel)
        and node.emit
        and max(node.emit) == width + len(expressions)
    ):
        return True
    return any(ordinal == width for e in expressions for ordinal in columns_read(e))


def columns_read(expression: Any) -> Iterator[int]:
    """Yield the ordinals of the input columns of a decoded expression (None: no expression)."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        if isinstance(part, model.FieldRef):
            yield part.steps[0]
        waiting.extend(model.parts_of(part))


MOST_ARGUMENTS = 31
"""Maximum number of bits of the result. Every producer's type for it has that many."""


def grouping_values(
    arguments: tuple[Expr, ...],
    info: GroupingInfo | None,
    measure: model.MeasureCall,
    context: BindContext,
) -> tuple[int, ...] | None:
    """Return a bitmask per grouping set for ``grouping()``.

    Bit i is set if the i-th argument from the right is not a key of the set. An argument is an
    expression equal to a key or, in plans of DuckDB, the ordinal of a key.

    Returns:
        The bitmasks, or None after an argument that is not a grouping key has been reported.
    """
    keys = info.keys if info else ()
    places = [_ordinals(argument, keys) for argument in arguments]
    if info is None or not all(places) or len(arguments) > MOST_ARGUMENTS:
        position = next((i for i, found in enumerate(places) if not found), 0)
        missing = info is None or not all(places)
        context.report(
            "GROUPING_ARGUMENT",
            argument_place(measure, position) if missing else f"{measure.path}.arguments",
            name=measure.function.name, position=position + 1, most=MOST_ARGUMENTS,
        )  # fmt: skip
        return None
    sets = info.sets or (tuple(range(len(keys))),)
    return tuple(_bits(places, frozenset(refs)) for refs in sets)


def _ordinals(argument: Expr, keys: tuple[Expr, ...]) -> frozenset[int]:
    """Return the ordinals of the keys that the argument denotes."""
    equal = frozenset(ordinal for ordinal, key in enumerate(keys) if key == argument)
    if equal or not isinstance(argument, Constant) or argument.type.kind not in SIGNED:
        return equal
    return frozenset({argument.value}) if argument.value in range(len(keys)) else frozenset()


def _bits(places: list[frozenset[int]], refs: frozenset[int]) -> int:
    last = len(places) - 1
    return sum(1 << (last - i) for i, ordinals in enumerate(places) if not ordinals & refs)
