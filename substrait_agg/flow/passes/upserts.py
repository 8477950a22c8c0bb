"""Add upsert operators, which turn the newest row per key into changes.

The flow of the plan is built first, as if its tables contained changes. Then every table whose
source declares a key gets one operator. It keeps all columns of the table that the plan reads, and
the readers of the table read this operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from substrait_agg.bind.bound import BoundRead, Column
from substrait_agg.errors import InputRefused
from substrait_agg.flow.graph.graph import (
    Branch,
    FeedbackOrigin,
    OperatorOrigin,
    ProjectStep,
    TableOrigin,
    UpsertSource,
)
from substrait_agg.flow.graph.nodes import Flow, Node, Port
from substrait_agg.flow.graph.upsert import Upsert
from substrait_agg.plan.types import BOOL, Type

Table = tuple[str, ...]

_NUMBER, _TEXT = Type("i64"), Type("string")

ENVELOPE_FIELDS: dict[str, Type] = {
    "ts_ms": _NUMBER,
    "ts_us": _NUMBER,
    "ts_ns": _NUMBER,
    "source.ts_ms": _NUMBER,
    "source.ts_us": _NUMBER,
    "source.ts_ns": _NUMBER,
    "source.lsn": _NUMBER,
    "source.txId": _NUMBER,
    "source.file": _TEXT,
    "source.pos": _NUMBER,
    "source.row": _NUMBER,
    "source.scn": _NUMBER,
    "source.commit_scn": _NUMBER,
    "source.commit_lsn": _TEXT,
    "source.change_lsn": _TEXT,
    "source.event_serial_no": _NUMBER,
    "transaction.total_order": _NUMBER,
    "transaction.data_collection_order": _NUMBER,
}
"""Fields of a Debezium envelope that can order the events of a row, with the types by which they
compare.

Source: https://debezium.io/documentation/reference/stable/connectors/, the `source` block of each
connector."""


LARGE = ("string", "varchar", "fixedchar", "binary", "fixedbinary")
"""Kinds of values that an event may omit because they did not change."""


@dataclass(frozen=True, slots=True)
class UpsertDeclaration:
    """The declaration of a source with upserts.

    Attributes:
        keys: columns of the primary key.
        order: columns that order the rows of one key, most important first; empty for the order of
            arrival.
        envelope: whether `order` names fields of the envelope of change events instead of columns.
        partial: whether rows may omit large values that did not change.
        stored_columns: columns that are kept whether or not the plan reads them.
    """

    keys: tuple[str, ...]
    order: tuple[str, ...] = ()
    envelope: bool = False
    partial: bool = False
    stored_columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        order = f"&order={','.join(self.order)}" if self.order else ""
        return f"key={','.join(self.keys)}{order}"


Upserts = Mapping[Table, UpsertDeclaration]


def upserts_of(flow: Flow) -> tuple[str, ...]:
    """Return the declaration of each upsert operator of a flow as text: table, key and order."""
    return tuple(
        _declaration_text(branch.origin, branch.origin.upsert)
        for node in flow.operators
        for branch in node.branches
        if isinstance(branch.origin, TableOrigin) and branch.origin.upsert is not None
    )


def _declaration_text(origin: TableOrigin, keyed: UpsertSource) -> str:
    names = (*origin.names, *keyed.paths)
    order = tuple(names[o] for o in keyed.order)
    return (
        f"{'.'.join(origin.table)}: {UpsertDeclaration(tuple(names[k] for k in keyed.keys), order)}"
    )


def with_upserts(flow: Flow, upserts: Upserts, reads: Sequence[BoundRead]) -> Flow:
    """Return the flow with an operator for every table of `upserts`, before all others.

    Args:
        flow: the flow of the plan alone.
        upserts: declarations by table.
        reads: the reads of tables in the plan, which declare all columns.

    Raises:
        InputRefused: KEY_COLUMN_UNKNOWN, COLUMN_AMBIGUOUS, TABLE_READS_DIFFER.
    """
    if not upserts:
        return flow
    read = {b.origin.table for b in _branches(flow) if isinstance(b.origin, TableOrigin)}
    tables = [table for table in upserts if table in read]
    nodes: dict[Table, Node] = {}
    for table in tables:
        nodes[table] = _operator(len(nodes), _origin(flow, table, upserts[table], reads))
    moved = (_behind(node, nodes) for node in flow.operators)
    views = (replace(view, operator=view.operator + len(nodes)) for view in flow.views)
    return replace(flow, operators=(*nodes.values(), *moved), views=tuple(views))


def _branches(flow: Flow) -> Iterator[Branch]:
    return (branch for node in flow.operators for branch in node.branches)


# --- the operator of a table --------------------------------------------------------------------


def _origin(
    flow: Flow, table: Table, upsert: UpsertDeclaration, reads: Sequence[BoundRead]
) -> TableOrigin:
    """Return the one read of a table: its key, its order, and all columns that the plan reads."""
    types = _types(table, reads)
    keys = _columns_named(upsert.keys, "key", types, table)
    order = () if upsert.envelope else _columns_named(upsert.order, "order", types, table)
    origins = [b.origin for b in _branches(flow) if isinstance(b.origin, TableOrigin)]
    used = [name for o in origins if o.table == table for name in o.names]
    names = tuple(dict.fromkeys((*keys, *order, *used, *upsert.stored_columns)))
    paths = upsert.order if upsert.envelope else ()
    place = {name: i for i, name in enumerate(names)}
    ordinals = tuple(place[name] for name in order) or tuple(
        range(len(names), len(names) + len(paths))
    )
    large = (n for n in names if types[n].kind in LARGE and n not in keys)
    partial = tuple(place[n] for n in large) if upsert.partial else ()
    keyed = UpsertSource(tuple(place[name] for name in keys), ordinals, paths, partial)
    return TableOrigin(table, names, tuple(types[n] for n in names), keyed)


def _types(table: Table, reads: Sequence[BoundRead]) -> dict[str, Type]:
    """Return the columns of a table as the plan declares them."""
    types: dict[str, Type] = {}
    for read in reads:
        for name, type_ in zip(read.names, read.types, strict=True) if read.table == table else ():
            if types.setdefault(name, type_) != type_:
                raise InputRefused(
                    "TABLE_READS_DIFFER",
                    f"the plan reads column {name} of {'.'.join(table)} as {types[name]} and as {type_}, but a "
                    "source with key= needs one type per column",
                    help="declare the table in the same way in every read",
                )
    return types


def _columns_named(
    names: Sequence[str], word: str, types: Mapping[str, Type], table: Table
) -> tuple[str, ...]:
    """Return the plan's columns with these names.

    A name that no column matches exactly may match a single column that differs only by letter
    case.
    """
    return tuple(dict.fromkeys(_column(name, word, types, table) for name in names))


def _column(given_name: str, word: str, types: Mapping[str, Type], table: Table) -> str:
    if given_name in types:
        return given_name
    close = [name for name in types if name.lower() == given_name.lower()]
    if len(close) == 1:
        return close[0]
    shown = ", ".join(types) or "none"
    if close:
        raise InputRefused(
            "COLUMN_AMBIGUOUS",
            f"{word}={given_name} matches several columns of {'.'.join(table)} (in the plan: {shown})",
            help="write the name exactly as the plan does",
        )
    raise InputRefused(
        "KEY_COLUMN_UNKNOWN",
        f"{word}={given_name} is not a column of {'.'.join(table)} in the plan (its columns there: {shown})",
        help="name columns that the plan declares for the table; the plan need not use them",
    )


def _operator(id_: int, origin: TableOrigin) -> Upsert:
    keyed = origin.upsert
    if keyed is None:
        raise TypeError(origin)
    types = (*origin.types, *(ENVELOPE_FIELDS[path] for path in keyed.paths))
    values = [i for i in range(len(origin.types)) if i not in keyed.keys]
    columns = [Column(types[i], i) for i in (*keyed.keys, *values, *keyed.order)]
    columns += [Column(BOOL, len(types) + i) for i in range(len(keyed.partial))]
    labels = tuple(f"column {origin.names[i]} of {'.'.join(origin.table)}" for i in keyed.partial)
    keys, rest = columns[: len(keyed.keys)], columns[len(keyed.keys) :]
    return Upsert(
        id=id_,
        inputs=(Port((Branch(origin, ()),), tuple(keys), tuple((c, None) for c in rest)),),
        types=tuple(types[i] for i in (*keyed.keys, *values)),
        weight="changelog",
        path="",
        values=len(values),
        partial=tuple(values.index(i) for i in keyed.partial),
        labels=labels,
    )


# --- readers of a table -------------------------------------------------------------------------


def _behind(node: Node, nodes: Mapping[Table, Node]) -> Node:
    """Return a node of the plan with its id after the new operators."""
    ports = (
        replace(port, branches=tuple(_rewire(branch, nodes) for branch in port.branches))
        for port in node.inputs
    )
    return replace(node, id=node.id + len(nodes), inputs=tuple(ports))


def _rewire(branch: Branch, nodes: Mapping[Table, Node]) -> Branch:
    origin = branch.origin
    if isinstance(origin, OperatorOrigin | FeedbackOrigin):
        return replace(branch, origin=replace(origin, operator=origin.operator + len(nodes)))
    if not isinstance(origin, TableOrigin) or origin.table not in nodes:
        return branch
    node = nodes[origin.table]
    place = {name: i for i, name in enumerate(output_names(node))}
    ordinals = tuple(place[name] for name in origin.names)
    steps = branch.steps
    if ordinals != tuple(range(len(node.types))):
        columns = tuple(Column(node.types[i], i) for i in ordinals)
        steps = (ProjectStep(columns), *steps)
    return replace(branch, origin=OperatorOrigin(node.id, node.types), steps=steps)


def output_names(node: Node) -> list[str]:
    """Return the table's columns in the output order of its operator: those of the key first."""
    origin = node.branches[0].origin
    if not isinstance(origin, TableOrigin) or origin.upsert is None:
        raise TypeError(origin)
    keys = origin.upsert.keys
    rest = (i for i in range(len(origin.names)) if i not in keys)
    return [origin.names[i] for i in (*keys, *rest)]
