"""Determine the names of the columns of relations from a plan's message, for display only."""

from __future__ import annotations

from collections.abc import Callable

from substrait_agg.plan.messages.node import MessageNode, preorder
from substrait_agg.plan.messages.schema import enum_names

Names = tuple[str, ...]
"""Names of columns by ordinal; an empty name is unknown."""

MAX_COLUMNS = 2_000
"""Columns of one relation that get a name."""

MAX_NAMES = 20_000
"""Expressions of one plan that may name a column; further columns are shown as numbers."""

_SIDES = ("input", "left", "right", "inputs")
_FIRST_SIDE_ONLY = {"SetRel"}
_JOINS = {
    "JoinRel", "LateralJoinRel", "HashJoinRel", "MergeJoinRel", "NestedLoopJoinRel",
}  # fmt: skip
_SAME_ROW = {"FilterRel", "SortRel", "FetchRel", "TopNRel", "CrossRel", "SetRel"}
_ADDED = {"ProjectRel": "expressions", "ConsistentPartitionWindowRel": "window_functions"}


def body_of(node: MessageNode) -> MessageNode | None:
    """Return the one message inside another, such as the ``AggregateRel`` of a ``Rel``."""
    return next((value for value in node.values.values() if isinstance(value, MessageNode)), None)


def inputs_of(body: MessageNode) -> list[MessageNode]:
    """Return the ``Rel`` messages that feed a relation, in order."""
    messages: list[MessageNode] = []
    for side in _SIDES:
        value = body.values.get(side)
        messages += value if isinstance(value, list) else [value] if value is not None else []
    return [item for item in messages if isinstance(item, MessageNode) and item.shape.name == "Rel"]


class Columns:
    """The names of columns of one plan, computed per relation on first use by `name_of`."""

    def __init__(self, name_of: Callable[[MessageNode], str]) -> None:
        self.name_of = name_of
        self._known: dict[int, Names] = {}
        self._left = MAX_NAMES

    def visible_columns(self, node: MessageNode) -> Names:
        """Return the columns that references inside the relation around `node` refer to."""
        at: MessageNode | None = node
        while at is not None and (at.parent is None or at.parent.shape.name != "Rel"):
            at = at.parent
        return () if at is None else self._row(at)

    def output(self, relation: MessageNode) -> Names:
        """Return the output columns of a ``Rel`` message."""
        pending = [relation]
        while pending:
            item = pending[-1]
            body = body_of(item)
            missing = (
                [] if body is None else [i for i in inputs_of(body) if id(i) not in self._known]
            )
            if missing and id(item) not in self._known:
                pending += missing
                continue
            pending.pop()
            if id(item) not in self._known:
                self._known[id(item)] = () if body is None else self._emit(body)
        return self._known[id(relation)]

    def _row(self, body: MessageNode) -> Names:
        """Return the columns that a relation's own expressions see: those of its inputs or of its table."""
        if body.shape.name == "ReadRel":
            if id(body) not in self._known:
                self._known[id(body)] = _table_columns(body)
            return self._known[id(body)]
        sides = inputs_of(body)
        if body.shape.name in _FIRST_SIDE_ONLY:
            sides = sides[:1]
        rows = [self.output(side) for side in sides]
        return rows[0] if len(rows) == 1 else tuple(n for row in rows for n in row)[:MAX_COLUMNS]

    def _emit(self, body: MessageNode) -> Names:
        names = self._list_columns(body)
        common = body.values.get("common")
        emit = common.values.get("emit") if common is not None else None
        if emit is None:
            return names
        mapping = emit.values.get("output_mapping", ())[:MAX_COLUMNS]
        return tuple(names[at] if 0 <= at < len(names) else "" for at in mapping)

    def _list_columns(self, body: MessageNode) -> Names:
        """Return the columns of a relation before its output mapping; empty for unknown kinds."""
        kind = body.shape.name
        if kind == "AggregateRel":
            return self._aggregate(body)
        row = self._row(body)
        if kind == "ReadRel":
            return _mask(body, row)
        if kind in _JOINS:
            return self._join(body, row)
        if kind in _ADDED:
            added = body.values.get(_ADDED[kind], ())
            return row + tuple(map(self._name_item, added[: max(0, MAX_COLUMNS - len(row))]))
        return row if kind in _SAME_ROW else ()

    def _name_item(self, item: MessageNode) -> str:
        self._left -= 1
        return self.name_of(item) if self._left >= 0 else ""

    def _join(self, body: MessageNode, row: Names) -> Names:
        """Return the columns of a join: semi and anti joins give one side, mark joins add a column."""
        kind = enum_name(body, "type")
        if kind.endswith(("_SEMI", "_ANTI")):
            side = body.values.get("right" if "_RIGHT_" in kind else "left")
            return self.output(side) if side is not None else ()
        return (*row, "") if kind.endswith("_MARK") else row

    def _aggregate(self, body: MessageNode) -> Names:
        measures = tuple(map(self._name_item, body.values.get("measures", ())[:MAX_COLUMNS]))
        keys = body.values.get("grouping_expressions", ())
        if keys:
            return (*map(self._name_item, keys[:MAX_COLUMNS]), *measures)
        # The older form: each grouping has its own expressions, and equal ones are one column.
        inline = [
            self._name_item(key)
            for grouping in body.values.get("groupings", ())[:MAX_COLUMNS]
            for key in grouping.values.get("grouping_expressions", ())[:MAX_COLUMNS]
        ]
        sets = len(body.values.get("groupings", ()))
        return () if sets > 1 and "" in inline else (*dict.fromkeys(inline), *measures)


def enum_name(node: MessageNode, field: str) -> str:
    """Return the name of an enum value in a field, such as ``JOIN_TYPE_INNER``."""
    return enum_names(node.shape.by_json_name[field].type).get(node.values.get(field, 0), "")


def _mask(read: MessageNode, row: Names) -> Names:
    """Return the columns of a table that a read keeps."""
    projection = read.values.get("projection")
    select = projection.values.get("select") if projection is not None else None
    if select is None:
        return row
    fields = [item.values.get("field", 0) for item in select.values.get("struct_items", ())]
    return tuple(row[at] if 0 <= at < len(row) else "" for at in fields[:MAX_COLUMNS])


def _table_columns(read: MessageNode) -> Names:
    """Return the names of the columns of a table, without the names of nested fields."""
    schema = read.values.get("base_schema")
    if schema is None:
        return ()
    names: list[str] = schema.values.get("names", [])
    struct = schema.values.get("struct")
    types = struct.values.get("types", ()) if struct is not None else ()
    columns, at = [], 0
    for column in types[:MAX_COLUMNS]:
        columns.append(names[at] if at < len(names) else "")
        at += 1 + sum(
            len(inner.values.get("types", ()))
            for inner in preorder(column)
            if inner.shape.name == "Type.Struct"
        )
    return tuple(columns)
