"""Describe the state of an operator, and the state that each measure reads, in words and bytes.

Sizes are computed from types alone. They are those of columns in Arrow format, in which runs are
stored without compression. A value of variable size counts with its offset. Null bitmaps are not
counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from substrait_agg.bind.bound import Expr
from substrait_agg.bind.deep_stack import deep_call
from substrait_agg.explanation.names import (
    Names,
    NodeNames,
    names_of,
    say,
    show_text,
    write_expression,
)
from substrait_agg.explanation.tree import (
    ExplainedAccumulator,
    ExplainedState,
    ExplainedTree,
    MeasureInput,
    NumberColumns,
    OperatorColumns,
    TreeColumns,
)
from substrait_agg.flow.graph.graph import (
    ARRIVAL_BATCH,
    ARRIVAL_POSITION,
    COMPUTED,
    WEIGHT_ALONE,
    StatePerGroup,
    TreeComponent,
    ValueTree,
    trees_together,
)
from substrait_agg.flow.graph.nodes import Flow, Node, Port
from substrait_agg.functions.aggregates import accumulators
from substrait_agg.functions.aggregates.accumulators import COUNT_DIGITS, DIGIT_BITS, Accumulator
from substrait_agg.plan.types import BOOL, I64, Type
from substrait_agg.required import require

ARRIVAL = {ARRIVAL_BATCH: "batch", ARRIVAL_POSITION: "position in the batch"}

DIGIT_BYTES = accumulators.DIGIT_BITS // 8

ROLES: dict[str, tuple[str, ...]] = {
    "count": ("count",),
    "sum": ("total", "count"),
    "sum0": ("total", "count"),
    "avg": ("total", "count"),
    "bool_and": ("true", "false"),
    "bool_or": ("true", "false"),
    "variance": ("count", "sum", "sum of squares"),
    "std_dev": ("count", "sum", "sum of squares"),
    "covar": ("count", "sum x", "sum y", "sum of products"),
    "corr": ("count", "sum x", "sum y", "sum of products", "sum xx", "sum yy"),
}
"""Roles of the accumulators of each kind of measure. Other kinds read a count, then totals."""


def readings(node: Node, ordinal: int) -> Iterator[MeasureInput]:
    """Yield the state that a measure is computed from."""
    groups = require(node.groups)
    read, measure = groups.reads[ordinal], groups.measures[ordinal]
    count = len(read.accumulators)
    roles = ROLES.get(measure.kind, ("count", *["total"] * max(0, count - 1)))[:count]
    for accumulator, role in zip(read.accumulators, roles, strict=True):
        yield MeasureInput("total weight" if accumulator is None else f"a{accumulator}", role)
    if read.side:
        yield MeasureInput(f"tree {read.tree}", f"{read.side} live entry")
    elif read.values:
        yield MeasureInput(f"tree {read.tree}", "live entries, in order")


def state_of(node: Node, names: NodeNames) -> ExplainedState:
    """Describe the state of an operator."""
    groups = node.groups
    if groups is None:
        ports = range(len(node.inputs))
        return ExplainedState(0, (), (), tuple(_arrangement(i, node, names) for i in ports))
    size = group_size(node, [show_text(n) for n in names.output])
    return ExplainedState(
        group_bytes=size.bytes,
        varies=size.varies,
        accumulators=tuple(
            _accumulator(a, i, node, names.inputs) for i, a in enumerate(groups.accumulators)
        ),
        trees=tuple(_tree(i, node, names.inputs) for i in range(len(groups.trees))),
    )


def stored_names(port: Port, names: Names) -> tuple[str, ...]:
    """Return the names of the columns that an operator stores of the rows of a port, as text."""
    return tuple("rows" if value is None else say(value, names) for value, _ in port.arguments)


def _arrangement(ordinal: int, node: Node, names: NodeNames) -> ExplainedTree:
    port, columns = node.inputs[ordinal], names.ports[ordinal]
    keys = [say(key, columns) for key in port.keys]
    values = stored_names(port, columns)
    by = f" by {', '.join(keys)}" if keys else ""
    stored = node.stored_ports[ordinal]
    size = row_size(port, [*keys, *values]) if stored else Size(0, ())
    return ExplainedTree(
        ordinal=ordinal,
        what=f"rows of input {ordinal}{by}: {', '.join(values) or 'keys only'}",
        use=node.describe().tree_uses[ordinal] if stored else _not_stored(1 - ordinal),
        measures=(),
        entry_bytes=size.bytes,
        varies=size.varies,
        ends_alone=False,
        stored=stored,
    )


def _not_stored(other: int) -> str:
    return f"not stored, because input {other} is static: no later row of it asks for them"


def _accumulator(
    accumulator: accumulators.Accumulator, ordinal: int, node: Node, names: Names
) -> ExplainedAccumulator:
    reads = require(node.groups).reads
    readers = tuple(m for m, read in enumerate(reads) if ordinal in read.accumulators)
    digits = None if accumulator.floating else accumulator.digits
    return ExplainedAccumulator(
        name=f"a{ordinal}",
        kind=accumulator.kind,
        what=_number(accumulator, node, names),
        digits=digits,
        bytes=None if digits is None else digits * DIGIT_BYTES,
        measures=readers,
    )


def _number(accumulator: accumulators.Accumulator, node: Node, names: Names) -> str:
    if accumulator.kind == "live":
        return f"live entries of tree {accumulator.tree}"
    if accumulator.kind == "entries":
        return f"entries of tree {accumulator.tree}"
    if accumulator.kind == "met":
        return f"whether tree {accumulator.tree} has had a value"
    if accumulator.port is not None:
        return f"copies of the row in input {accumulator.port}"
    of = "" if accumulator.tree is None else f", over the live entries of tree {accumulator.tree}"
    text = argument_text(require(accumulator.argument), node, names)
    word = "count" if accumulator.kind == "count" else "sum"
    if accumulator.other is not None:
        text += f" * {argument_text(accumulator.other, node, names)}"
    return f"{word} of {text}{of}"


def argument_text(ordinal: int, node: Node, names: Names) -> str:
    """Return a prepared argument as text."""
    if ordinal in ARRIVAL:
        return ARRIVAL[ordinal]
    if ordinal >= COMPUTED:
        column = require(node.groups).computed[ordinal - COMPUTED]
        arguments = ", ".join(argument_text(a, node, names) for a in column.arguments)
        return f"{column.implementation}.{column.column}({arguments})"
    return value_text(*node.arguments[ordinal], names)


def value_text(value: Expr | None, condition: Expr | None, names: Names) -> str:
    """Return the value of an argument as text, with its filter."""
    text = "rows" if value is None else write_expression(value, names)
    return show_text(
        text if condition is None else f"{text} where {write_expression(condition, names)}"
    )


def _tree(ordinal: int, node: Node, names: Names) -> ExplainedTree:
    groups = require(node.groups)
    tree = groups.trees[ordinal]
    parts = [argument_text(c.argument, node, names) for c in tree.components]
    size = entry_size(node, ordinal, parts)
    readers = tuple(m for m, read in enumerate(groups.reads) if read.tree == ordinal)
    return ExplainedTree(
        ordinal=ordinal,
        what=_tree_content(ordinal, node, names),
        use=_use(ordinal, node, readers),
        measures=readers,
        entry_bytes=size.bytes,
        varies=size.varies,
        ends_alone=tree.extremes_only,
        within=tree.within,
    )


def _tree_content(ordinal: int, node: Node, names: Names) -> str:
    groups = require(node.groups)
    tree = groups.trees[ordinal]
    keys = ", ".join(
        _component(component, node, names, nulls=i not in tree.skipped)
        for i, component in enumerate(tree.components)
    )
    if ordinal == groups.guard:
        return f"whole rows: {keys}"
    what = "elements of " if tree.elements else ""
    only = "" if tree.present is None else f", only {argument_text(tree.present, node, names)}"
    return f"ordered by {what}{keys}{only}"


def _component(component: TreeComponent, node: Node, names: Names, *, nulls: bool) -> str:
    text = argument_text(component.argument, node, names)
    way = " DESC" if component.descending else ""
    if not nulls or component.argument in ARRIVAL:
        return f"{text}{way}"
    return f"{text}{way} NULLS {'FIRST' if component.nulls_first else 'LAST'}"


def _use(ordinal: int, node: Node, readers: tuple[int, ...]) -> str:
    if readers:
        return measures_text(readers)
    groups = require(node.groups)
    if uses := node.describe().tree_uses:
        guards = ordinal == groups.guard and len(uses) == 1
        return uses[ordinal] + (" and early retractions" if guards else "")
    if ordinal == groups.guard:
        return "to detect early retractions"
    if groups.trees[ordinal].follows is not None:
        return "to find the arrival of a value"
    return "followed by the arrivals of its values"


def measures_text(readers: tuple[int, ...]) -> str:
    """Name the measures that read something."""
    listed = ", ".join(map(str, readers))
    return f"{'shared by measures' if len(readers) > 1 else 'of measure'} {listed}"


OFFSET_BITS = 32
WORD_BYTES = 8
HASH_BITS, DEAD_BITS, SHOWN_BITS, CHAIN_BITS, POWER_BITS = 64, 1, 64, 16, 16
WEIGHT_BITS, RUNNING_SUM_BITS = 64, 64

BITS: dict[str, int] = {
    "bool": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 16, "u16": 32, "u32": 64, "u64": 128,
    "fp32": 32, "fp64": 64, "date": 32, "interval_year": 32, "decimal": 128, "precision_time": 64,
    "precision_timestamp": 64, "precision_timestamp_tz": 64, "interval_day": 64,
}  # fmt: skip
"""Bits per value of each kind with a fixed size."""


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes of a row, and the names of its parts that take more, depending on their values."""

    bytes: int
    varies: tuple[str, ...]


def group_size(node: Node, names: Sequence[str]) -> Size:
    """Return the size of a group's row in a run of the group tree."""
    groups = require(node.groups)
    fixed = sum(a.digits for a in groups.accumulators if not a.floating) + COUNT_DIGITS
    bits = HASH_BITS + DEAD_BITS + SHOWN_BITS + fixed * DIGIT_BITS
    bits += sum(POWER_BITS + OFFSET_BITS for a in groups.accumulators if a.floating)
    stored = node.stored_types
    bits += sum(map(type_bits, stored)) + (CHAIN_BITS if groups.trees else 0)
    varies = [n for n, t in zip(names, stored, strict=False) if not is_fixed(t)]
    varies += [f"digits of a{i}" for i, a in enumerate(groups.accumulators) if a.floating]
    for ordinal, side in _stored_extremes(groups):
        types = component_types(node, groups.trees[ordinal])
        bits += sum(map(type_bits, types))
        if not all(map(is_fixed, types)):
            varies.append(f"{side} entry of tree {ordinal}")
    return Size(-(-bits // 8), tuple(dict.fromkeys(varies)))


def row_size(port: Port, names: Sequence[str]) -> Size:
    """Return the size of a row in a run of the rows of a port: hash, weight, keys and arguments."""
    types = [key.type for key in port.keys]
    types += [BOOL if value is None else value.type for value, _ in port.arguments]
    varies = tuple(n for n, t in zip(names, types, strict=True) if not is_fixed(t))
    bits = HASH_BITS + WEIGHT_BITS + sum(map(type_bits, types))
    return Size(-(-bits // 8), tuple(dict.fromkeys(varies)))


def entry_size(node: Node, ordinal: int, names: Sequence[str]) -> Size:
    """Return the size of a tree entry in a run; 0 if the tree has no entries.

    An entry consists of its group, its key in order-preserving form, its values, and its weight in
    each tree that shares the runs.
    """
    trees = require(node.groups).trees
    tree = trees[ordinal]
    if tree.extremes_only or tree.within is not None:
        return Size(0, ())
    types = component_types(node, tree)
    bits = HASH_BITS + CHAIN_BITS + RUNNING_SUM_BITS + sum(map(type_bits, types))
    bits += WEIGHT_BITS * len(trees_together([other.within for other in trees], ordinal))
    varies = tuple(n for n, t in zip(names, types, strict=True) if not is_fixed(t))
    bits += 8 * WORD_BYTES + OFFSET_BITS if varies else 8 * WORD_BYTES * _words(node, ordinal)
    return Size(-(-bits // 8), tuple(dict.fromkeys(varies)))


def _words(node: Node, ordinal: int) -> int:
    """Return the 8-byte words of a key of fixed size.

    A key has the bytes of its values, and a flag for each value that may be null.
    """
    tree = require(node.groups).trees[ordinal]
    size = 0
    for i, (type_, component) in enumerate(
        zip(component_types(node, tree), tree.components, strict=True)
    ):
        size += _key_bytes(type_) + _has_flag(node, ordinal, i, component)
    return max(1, -(-size // WORD_BYTES))


def _has_flag(node: Node, ordinal: int, place: int, component: TreeComponent) -> bool:
    groups = require(node.groups)
    tree = groups.trees[ordinal]
    if component.argument in (ARRIVAL_BATCH, ARRIVAL_POSITION):
        return False
    condition = node.arguments[component.argument][1]
    type_ = _component_type(node, tree, component)
    nullable = groups.stores_whole_rows(ordinal) or type_.nullable or condition is not None
    return nullable and (tree.elements or place not in tree.skipped)


def _stored_extremes(groups: StatePerGroup) -> tuple[tuple[int, str], ...]:
    """Return the extremes that are stored with a group as (tree, side), each once."""
    return tuple(dict.fromkeys((require(r.tree), r.side) for r in groups.reads if r.side))


def component_types(node: Node, tree: ValueTree) -> tuple[Type, ...]:
    """Return the types of the components of a tree."""
    return tuple(_component_type(node, tree, c) for c in tree.components)


def _component_type(node: Node, tree: ValueTree, component: TreeComponent) -> Type:
    if component.argument in (ARRIVAL_BATCH, ARRIVAL_POSITION):
        return I64
    value, _ = node.arguments[component.argument]
    type_ = BOOL if value is None else value.type
    return type_.children[0] if tree.elements else type_


def type_bits(type_: Type) -> int:
    """Return the bits of a value of this type, or of the offset of a value of variable size."""
    if type_.kind == "struct":
        return sum(map(type_bits, type_.children))
    return BITS.get(type_.kind, OFFSET_BITS)


def is_fixed(type_: Type) -> bool:
    """Return whether all values of the type have the same size."""
    if type_.kind == "struct":
        return all(map(is_fixed, type_.children))
    return type_.kind in BITS


def _key_bytes(type_: Type) -> int:
    """Return the bytes of a value of fixed size in a key; each field of a struct has a flag."""
    if type_.kind == "struct":
        return sum(1 + _key_bytes(child) for child in type_.children)
    return max(1, BITS[type_.kind] // 8)


def state_columns(flow: Flow) -> tuple[OperatorColumns, ...]:
    """Return the state columns of every operator, recursing as deep as expressions are nested."""
    return deep_call(_columns_of_flow, flow)


def _columns_of_flow(flow: Flow) -> tuple[OperatorColumns, ...]:
    pairs = zip(flow.operators, names_of(flow), strict=True)
    return tuple(_operator_columns(node, names) for node, names in pairs)


def _operator_columns(node: Node, names: NodeNames) -> OperatorColumns:
    state, groups = state_of(node, names), node.groups or WEIGHT_ALONE
    keys, values = _key_and_value_names(node, names)
    return OperatorColumns(
        kind=node.describe().kind,
        keys=tuple(keys),
        values=tuple(values),
        numbers=tuple(
            NumberColumns(
                described.what, a.kind, 0 if a.floating else a.digits, _scale(node, a), a.tree
            )
            for described, a in zip(state.accumulators, groups.accumulators, strict=True)
        ),
        trees=tuple(
            TreeColumns(described.what, values, described.within)
            for described, values in zip(state.trees, _tree_columns(node, names), strict=True)
        ),
    )


def _key_and_value_names(node: Node, names: NodeNames) -> tuple[list[str], list[str]]:
    columns = [show_text(name) for name in names.output]
    if node.groups is None:
        return [say(key, names.inputs) for key in node.keys], columns
    keys, values = columns[: len(node.keys)], columns[len(node.keys) :]
    if node.sets:  # the set index is the last output column, and the last state key
        return [*keys, values[-1]], values[:-1]
    return keys, values


def _tree_columns(node: Node, names: NodeNames) -> tuple[tuple[str, ...], ...]:
    """Return the names of the values of every tree."""
    if node.groups is None:
        return tuple(map(stored_names, node.inputs, names.ports))
    return tuple(
        tuple(argument_text(c.argument, node, names.inputs) for c in tree.components)
        for tree in node.groups.trees
    )


def _scale(node: Node, accumulator: Accumulator) -> int:
    """Return the decimal places of the unit of a decimal total."""
    if accumulator.kind != "decimal":
        return 0
    argument = require(accumulator.argument)
    if argument >= len(node.arguments):  # a column that a user-defined measure computes
        return 0
    value, _ = node.arguments[argument]
    if value is None or value.type.kind != "decimal":
        return 0
    return value.type.params[1]
