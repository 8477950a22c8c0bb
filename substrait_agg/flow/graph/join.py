"""The node of a join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from substrait_agg.bind.bound import Expr, JoinKind
from substrait_agg.bind.joins.ranges import JoinRange, find_range
from substrait_agg.flow.graph.nodes import NodeDescription, Port, Probe, RowNode
from substrait_agg.plan.types import Type

KEPT_SIDES: Mapping[JoinKind, tuple[bool, bool]] = {
    "inner": (False, False),
    "left": (True, False),
    "single": (True, False),
    "full": (True, True),
    "semi": (False, False),
    "anti": (True, False),
    "mark": (True, False),
}
"""Whether rows of the left and of the right side without a match are in the output of a join."""


PAIRED: frozenset[JoinKind] = frozenset({"inner", "left", "single", "full"})
"""Kinds whose output has a row per pair of matching rows."""


def follows_matches(kind: JoinKind, port: int) -> bool:
    """Return whether the output has rows of a side depending on whether they have a match."""
    return KEPT_SIDES[kind][port] or (kind == "semi" and port == 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(RowNode):
    """The join of the rows of two ports by their keys.

    The arguments of each port are the columns that are stored besides the keys.

    Attributes:
        null_safe: per key whether null equals null.
        residual: a further condition over the columns of the left and then of the right side.
        columns_of_sides: per column of the left and of the right side its position among the keys
            and the arguments of its port.
        chosen: per output column its ordinal among the columns of the left side, of the right side,
            and the mark.
        nested_loop: whether there is no key, and no side has at most one row. Without a range, one
            side then has few rows (`operator.join.spec.NESTED_LOOP_ROWS`).
    """

    kind: JoinKind
    null_safe: tuple[bool, ...]
    residual: Expr | None
    columns_of_sides: tuple[tuple[int, ...], tuple[int, ...]]
    chosen: tuple[int, ...]
    nested_loop: bool = False
    groups: None = None

    stored_types = ()
    timed_by = ()  # a row may match a row of any time

    @property
    def key_types(self) -> tuple[Type, ...]:
        """See `Node`."""
        return tuple(key.type for key in self.keys)

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Node`: the keys are columns like all others."""
        return tuple(f"v{i}" for i in range(len(self.types)))

    @property
    def range(self) -> JoinRange | None:
        """Return the range by which rows find each other; None if there are keys."""
        width = len(self.columns_of_sides[0])
        return None if self.keys else find_range(self.residual, width)

    @property
    def few_ports(self) -> tuple[int, ...]:
        """Return the sides of which one has few rows: the static one, else either."""
        if not self.nested_loop or self.range is not None:
            return ()
        static = tuple(port for port, fixed in enumerate(self.static_ports) if fixed)
        return static or (0, 1)

    @property
    def emits_together(self) -> bool:
        """See `Node`: a row with a match replaces the row without one, if matches come later."""
        return self.lookup_port is None

    @property
    def stored_ports(self) -> tuple[bool, ...]:
        """Return per side whether its rows are stored.

        The rows of a side are read later if the rows of the other side change, and if the first or
        the last match of a row of the other side can come from this side. So a side that is joined
        with a static one is stored only where the output has rows of the static side that depend on
        their matches.
        """
        left, right = (not static for static in self.static_ports)
        return (
            right or (left and follows_matches(self.kind, 1)),
            left or (right and follows_matches(self.kind, 0)),
        )

    @property
    def pair_condition(self) -> Expr | None:
        """See `Node`."""
        return self.residual

    @property
    def probes(self) -> tuple[Probe, ...]:
        """See `Node`: only sides that change later are looked up, in sides that are stored."""
        probes = []
        if self.kind in PAIRED:
            probes += [
                Probe(0, 1, "for pairs, as they are after the batch"),
                Probe(1, 0, "for pairs, as they were before the batch"),
            ]
        for port in range(2):
            if follows_matches(self.kind, port):
                probes += [
                    Probe(port, 1 - port, "to see whether they have a match"),
                    Probe(
                        1 - port, port, "for rows whose first match came or whose last one is gone"
                    ),
                ]
        changing = [not static for static in self.static_ports]
        return tuple(p for p in probes if changing[p.changed] and self.stored_ports[p.stored])

    @property
    def lookup_port(self) -> int | None:
        """See `Node`: the rows of a side that is not stored find all their matches at once."""
        sides = enumerate(zip(self.static_ports, self.stored_ports, strict=True))
        return next((i for i, (static, stored) in sides if not static and not stored), None)

    @property
    def port_columns(self) -> tuple[tuple[int, Expr | None], ...]:
        """See `Node`: the mark is no column of a port."""
        columns: list[tuple[int, Expr | None]] = [*self.row_columns, (0, None)]
        return tuple(columns[ordinal] for ordinal in self.chosen)

    def describe(self) -> NodeDescription:
        """See `Node`."""
        return NodeDescription(
            "join",
            "rows of both sides",
            ("to find the rows that match",) * 2,
            emits=f"the changes of the {self.kind} join: matches of the changed rows",
        )

    @property
    def row_columns(self) -> tuple[tuple[int, Expr | None], ...]:
        """See `Node`: the columns of the left side, then those of the right side."""
        sides = zip(self.inputs, self.columns_of_sides, strict=True)
        return tuple(
            (number, _find_stored(port, place))
            for number, (port, places) in enumerate(sides)
            for place in places
        )

    def identity(self) -> tuple[object, ...]:
        """See `Node`: which further columns of the rows are read does not matter."""
        return (False, (), self.residual, ("JoinRows", self.kind, self.null_safe))


def _find_stored(port: Port, place: int) -> Expr | None:
    """Return the expression of a stored column: a key, or an argument."""
    count = len(port.keys)
    return port.keys[place] if place < count else port.arguments[place - count][0]
