"""The state schema: what an operator stores, in terms that another plan can be compared with.

Fingerprints name everything, down to the columns of tables (`flow.graph.identity`). Two plans over
the same rows store the same content under the same fingerprint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from substrait_agg.bind.joins.conjunctions import is_true
from substrait_agg.bind.plan.fingerprint import digest
from substrait_agg.document_fields import (
    DOCUMENT_KEY,
    DOCUMENT_OMITTED,
    DOCUMENT_VALUES,
    OPTIONAL_ORDINAL,
)
from substrait_agg.flow.graph.graph import (
    ARRIVAL_BATCH,
    COMPUTED,
    WEIGHT_ALONE,
    FeedbackOrigin,
    OperatorOrigin,
    StatePerGroup,
    TableOrigin,
    ValueTree,
    trees_together,
)
from substrait_agg.flow.graph.identity import Identity, identities
from substrait_agg.flow.graph.nodes import Flow, Node, shown_operators
from substrait_agg.functions.aggregates.accumulators import (
    STORED_WEIGHT_KINDS,
    Accumulator,
    WeightKind,
    tree_counters,
)
from substrait_agg.required import require


@dataclass(frozen=True, slots=True)
class ArgumentSchema:
    """A column that is read from the input rows.

    Attributes:
        value: fingerprint of its value; empty for the constant true, which only shows that the
            condition is true.
        condition: fingerprint of the filter; the column is null where it is not true; empty for
            none.
        nullable: whether the value itself can be null.
    """

    value: str
    condition: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class AccumulatorSchema:
    """The schema of an accumulator.

    Attributes:
        print: fingerprint.
        digits: number of digits per group, 0 for as many as its values need.
        arguments: ordinals of the arguments that it sums.
        tree: ordinal of the tree whose entries it sums or counts; None for rows.
    """

    print: str
    digits: int
    arguments: tuple[int, ...]
    tree: int | None = field(metadata=OPTIONAL_ORDINAL)


@dataclass(frozen=True, slots=True)
class TreeSchema:
    """The schema of an ordered tree.

    Attributes:
        print: fingerprint.
        arguments: per component the ordinal of its argument; None for a time of arrival.
        skipped: components whose nulls exclude a row.
        present: ordinal of the argument that is null in excluded rows; None without one.
        holds: ``rows``, ``whole rows`` (all columns that are read, of all rows), ``elements`` of
            lists, ``arrivals``, or ``ends`` (no entries: only the extremes of its values are kept).
        entries: ordinal of the accumulator that counts its entries; None without one.
        within: ordinal of the tree whose runs have its weights; None if it has runs of its own.
    """

    print: str
    arguments: tuple[int | None, ...] = field(metadata=OPTIONAL_ORDINAL)
    skipped: tuple[int, ...]
    present: int | None = field(metadata=OPTIONAL_ORDINAL)
    holds: str
    entries: int | None = field(metadata=OPTIONAL_ORDINAL)
    within: int | None = field(default=None, metadata=OPTIONAL_ORDINAL | {DOCUMENT_OMITTED: True})

    def check(self) -> None:
        """Check that `holds` and `entries` agree, and that skipped components exist.

        Raises:
            ValueError: they do not.
        """
        if any(i not in range(len(self.arguments)) for i in self.skipped):
            raise ValueError("a tree refers to a component that it does not have")
        if (self.entries is None) not in _WITHOUT_ENTRIES.get(self.holds, ()):
            raise ValueError("a tree has unknown content")


_WITHOUT_ENTRIES: dict[str, tuple[bool, ...]] = {
    "rows": (False,), "whole rows": (False,), "elements": (False,), "arrivals": (False, True), "ends": (True,),
}  # fmt: skip
"""Per kind of content: whether a tree may be without entries."""
_SIDES = ("first", "last")


@dataclass(frozen=True, slots=True)
class ExtremeSchema:
    """An extreme of a tree that a group stores."""

    tree: int
    side: str


@dataclass(frozen=True, slots=True)
class MeasureSchema:
    """The schema of a measure.

    Attributes:
        print: fingerprint.
        kind: kind of the measure.
        numbers: ordinals of the accumulators that it reads.
        tree: ordinal of the tree that it reads; None without one.
    """

    print: str
    kind: str
    numbers: tuple[int, ...]
    tree: int | None = field(metadata=OPTIONAL_ORDINAL)


@dataclass(frozen=True, slots=True)
class OperatorSchema:
    """The state schema of an operator.

    Attributes:
        rows: fingerprint of its input rows and of their grouping.
        kind: ``groups``, ``rows``, ``sessions``, ``upserts``, ``ordered rows`` or
            ``rows of both sides``.
        below: ids of the operators that it reads.
        reads: whether it reads tables, or rows written in the plan.
        weight: kind of its weights.
        early: the treatment of early retractions.
        forget: the treatment of idle groups.
        shown: whether the view shows its groups, so that they may wait to be emitted.
        ports: if it stores the rows of each port, the number of arguments of each.
    """

    rows: str
    kind: str
    below: tuple[int, ...]
    reads: bool
    weight: WeightKind = field(metadata={DOCUMENT_VALUES: STORED_WEIGHT_KINDS})
    early: str
    forget: str
    shown: bool
    arguments: tuple[ArgumentSchema, ...]
    numbers: tuple[AccumulatorSchema, ...]
    trees: tuple[TreeSchema, ...]
    extremes: tuple[ExtremeSchema, ...] = field(metadata={DOCUMENT_KEY: "ends"})
    measures: tuple[MeasureSchema, ...]
    ports: tuple[int, ...] = field(default=(), metadata={DOCUMENT_OMITTED: True})

    def runs_of(self, tree: int) -> tuple[int, int]:
        """Return the tree whose runs have the weights of a tree, and the ordinal of their column."""
        together = trees_together([other.within for other in self.trees], tree)
        return together[0], together.index(tree)

    def arguments_of(self, port: int) -> tuple[ArgumentSchema, ...]:
        """Return the arguments of a port."""
        first = sum(self.ports[:port])
        return self.arguments[first : first + self.ports[port]]

    def check(self) -> None:
        """Check that every ordinal refers to an existing part.

        Raises:
            ValueError: one does not.
        """
        for what, ordinals, optional in (
            (self.arguments, [a for n in self.numbers for a in n.arguments], False),
            (self.arguments, [a for t in self.trees for a in (*t.arguments, t.present)], True),
            (self.trees, [n.tree for n in self.numbers] + [m.tree for m in self.measures], True),
            (self.trees, [e.tree for e in self.extremes], False),
            (self.trees, [t.within for t in self.trees], True),
            (self.numbers, [t.entries for t in self.trees], True),
            (self.numbers, [n for m in self.measures for n in m.numbers], False),
        ):
            if any(not optional if o is None else o not in range(len(what)) for o in ordinals):
                raise ValueError("an operator refers to a part that it does not have")
        if self.ports and (sum(self.ports) != len(self.arguments) or min(self.ports) < 0):
            raise ValueError("the ports of an operator have other arguments than it has")
        for ordinal, tree in enumerate(self.trees):
            tree.check()
            if tree.within is not None and self.runs_of(tree.within) != (tree.within, 0):
                raise ValueError("a tree is within a tree that has no runs")
            if tree.entries is None and all(end.tree != ordinal for end in self.extremes):
                raise ValueError("a tree has no stored content")
        if len(set(self.extremes)) < len(self.extremes) or any(
            e.side not in _SIDES for e in self.extremes
        ):
            raise ValueError("an extreme of a tree is repeated or unknown")


@dataclass(frozen=True, slots=True)
class InputSchema:
    """A table that a plan reads, and the columns that it reads of it."""

    table: str
    columns: tuple[str, ...]


def readings(flow: Flow) -> tuple[InputSchema, ...]:
    """Return the tables with the columns that are read of them, in the order in which the plan reads them."""
    origins = (
        branch.origin
        for node in flow.operators
        for branch in node.branches
        if isinstance(branch.origin, TableOrigin)
    )
    return tuple(InputSchema(".".join(o.table), o.names) for o in dict.fromkeys(origins))


def state_schemas(flow: Flow) -> tuple[OperatorSchema, ...]:
    """Return the state schemas of the operators of a flow, by id."""
    shown = shown_operators(flow)
    pairs = zip(flow.operators, identities(flow), strict=True)
    return tuple(_operator(node, identity, node.id in shown) for node, identity in pairs)


def _operator(node: Node, identity: Identity, shown: bool) -> OperatorSchema:
    below = [b.origin.operator for b in node.branches if isinstance(b.origin, OperatorOrigin)]
    arguments = tuple(
        ArgumentSchema(
            # Whole rows have the constant true as their only value if no columns are read.
            "" if value is None or is_true(value) else print_,
            condition,
            value is not None and value.type.nullable,
        )
        for (print_, condition), (value, _) in zip(identity.arguments, node.arguments, strict=True)
    )
    groups = node.groups or WEIGHT_ALONE
    trees = _trees(groups, arguments)
    ends = dict.fromkeys((read.tree, read.side) for read in groups.reads if read.side)
    return OperatorSchema(
        rows=identity.rows,
        kind=node.describe().keeps,
        below=tuple(dict.fromkeys(below)),
        reads=any(not isinstance(b.origin, OperatorOrigin | FeedbackOrigin) for b in node.branches),
        weight=node.weight,
        early=node.early,
        forget=node.forget,
        shown=shown,
        arguments=arguments,
        numbers=tuple(_number(groups, a, arguments, trees) for a in groups.accumulators),
        trees=trees,
        extremes=tuple(ExtremeSchema(require(tree), side) for tree, side in ends),
        measures=tuple(
            MeasureSchema(
                print_,
                measure.kind,
                tuple(n for n in read.accumulators if n is not None),
                read.tree,
            )
            for print_, measure, read in zip(
                identity.measures, groups.measures, groups.reads, strict=True
            )
        ),
        ports=() if node.groups is not None else tuple(len(port.arguments) for port in node.inputs),
    )


def _trees(groups: StatePerGroup, arguments: Sequence[ArgumentSchema]) -> tuple[TreeSchema, ...]:
    schemas: list[TreeSchema] = []
    for ordinal, tree in enumerate(groups.trees):
        holds = _holds(tree, whole=groups.stores_whole_rows(ordinal))
        columns = tuple(c.argument if c.argument < ARRIVAL_BATCH else None for c in tree.components)
        follows = tree.follows and [
            schemas[tree.follows.tree].print,
            tree.follows.latest,
            tree.follows.by_value,
        ]
        parts = [
            [_argument_digests(arguments, a), c.descending, c.nulls_first]
            for a, c in zip(columns, tree.components, strict=True)
        ]
        present = _argument_digests(arguments, tree.present)
        print_ = digest([holds, parts, list(tree.skipped), present, follows])
        entries = (
            None if tree.extremes_only else groups.accumulators.index(tree_counters(ordinal)[1])
        )
        schemas.append(
            TreeSchema(print_, columns, tree.skipped, tree.present, holds, entries, tree.within)
        )
    return tuple(schemas)


def _holds(tree: ValueTree, *, whole: bool) -> str:
    if tree.follows is not None or any(c.argument >= ARRIVAL_BATCH for c in tree.components):
        return "arrivals"
    if tree.elements:
        return "elements"
    if tree.extremes_only:
        return "ends"
    return "whole rows" if whole else "rows"


def _argument_digests(arguments: Sequence[ArgumentSchema], ordinal: int | None) -> list[str]:
    return [] if ordinal is None else [arguments[ordinal].value, arguments[ordinal].condition]


def _number(
    groups: StatePerGroup,
    accumulator: Accumulator,
    arguments: Sequence[ArgumentSchema],
    trees: Sequence[TreeSchema],
) -> AccumulatorSchema:
    read = tuple(a for a in (accumulator.argument, accumulator.other) if a is not None)
    by: list[str] = []
    if accumulator.argument is not None and accumulator.argument >= COMPUTED:
        computed = groups.computed[accumulator.argument - COMPUTED]
        read, by = computed.arguments, [computed.implementation, computed.column]
    tree = trees[accumulator.tree].print if accumulator.tree is not None else ""
    what = [accumulator.kind, accumulator.bits, accumulator.digits, by]
    what += [] if accumulator.port is None else [accumulator.port]
    print_ = digest([what, [_argument_digests(arguments, a) for a in read], tree])
    return AccumulatorSchema(print_, accumulator.digits, read, accumulator.tree)
