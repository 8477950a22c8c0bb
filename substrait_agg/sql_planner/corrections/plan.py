"""Correct the plans of DataFusion: state what Substrait has no place for, or DataFusion leaves out."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from typing import Any

import pyarrow as pa
from substrait import algebra_pb2, plan_pb2, type_pb2

from substrait_agg.sql_planner.corrections.expressions import correct_expressions
from substrait_agg.sql_planner.corrections.functions import number_functions
from substrait_agg.sql_planner.corrections.messages import messages
from substrait_agg.sql_planner.corrections.not_in import rewrite_not_in
from substrait_agg.sql_planner.corrections.set_operations import count_copies
from substrait_agg.sql_planner.query.frames import value_frames
from substrait_agg.sql_planner.query.logical_plans import below, subquery_text
from substrait_agg.sql_planner.query.names import TableNames, column_name
from substrait_agg.sql_planner.query.tokens import QueryText

PRODUCER = "substrait-agg with datafusion"
"""Producer of the plans; the release of DataFusion follows. `bind.profiles` has its profile."""


_VARIED = frozenset(
    kind.full_name
    for kind in type_pb2.Type.DESCRIPTOR.nested_types
    if "type_variation_reference" in kind.fields_by_name
)
"""Messages of types that can have a variation."""


def corrected(
    content: bytes,
    optimized: Any,
    query: QueryText,
    names: TableNames,
    outputs: Sequence[str],
    written: Container[tuple[int, int]],
) -> bytes:
    """Return a plan of DataFusion as the query means it.

    Args:
        content: the plan as DataFusion writes it.
        optimized: the logical plan that it was made from.
        query: the query.
        names: the tables of the query.
        outputs: what `output_names` returns for the query.
        written: digits of the decimal types that the query writes.

    Raises:
        SqlRefused: SQL_NOT_IN, SQL_NOT_PLANNED.
    """
    import datafusion

    plan = plan_pb2.Plan.FromString(content)
    plan.version.producer = f"{PRODUCER} {datafusion.__version__}"
    for read in messages(plan, "substrait.ReadRel"):
        _name_source(read, names)
    for grouping in messages(plan, "substrait.AggregateRel.Grouping"):
        # The form of older releases, which repeats the expressions.
        grouping.DiscardUnknownFields()
    for function in messages(plan, "substrait.AggregateFunction"):
        function.phase = algebra_pb2.AGGREGATION_PHASE_INITIAL_TO_RESULT
    for type_ in messages(plan, *_VARIED):
        type_.type_variation_reference = 0  # how Arrow stores the values
    for join in messages(plan, "substrait.JoinRel"):
        if not join.HasField("expression"):
            join.expression.literal.boolean = True  # a cross product
    for fetch in messages(plan, "substrait.FetchRel"):
        if fetch.count_expr.literal.i64 < 0:
            fetch.ClearField("count_expr")  # limit plus offset, beyond 63 bits
    _check_frames(plan, optimized, query)
    frames = value_frames(query)
    frames.restore(list(messages(plan, "substrait.Expression.WindowFunction")))
    rewrite_not_in(plan, optimized, query)
    count_copies(plan, query)
    tables = {names.tables[key]: schema for key, schema in names.schemas.items()}
    correct_expressions(plan, tables, written)
    root = plan.relations[0].root
    root.names[:] = map(frames.original_name, root.names)
    _name_result(plan, names, outputs)
    number_functions(plan)
    return bytes(plan.SerializeToString(deterministic=True))


def _name_source(read: Any, names: TableNames) -> None:
    """Give a table and its columns their own names, which DataFusion has in lower case."""
    written = tuple(read.named_table.names)
    key = names.key(written) if written else None
    if key is None:
        return
    read.named_table.names[:] = names.tables[key]
    own_names = list(_deep_names(names.schemas[key]))
    own = iter(names.columns[key])
    read.base_schema.names[:] = [next(own) if top else name for name, top in own_names]


def _deep_names(schema: pa.Schema) -> Iterator[tuple[str, bool]]:
    """Yield the names of columns and of the fields in them depth first, and which are columns."""
    for field in schema:
        yield field.name, True
        yield from ((name, False) for name in _inner_names(field.type))


def _inner_names(type_: pa.DataType) -> Iterator[str]:
    children = type_.fields if pa.types.is_struct(type_) else []
    for child in children:
        yield child.name
        yield from _inner_names(child.type)
    if pa.types.is_list(type_):
        yield from _inner_names(type_.value_type)
    if pa.types.is_map(type_):
        yield from _inner_names(type_.key_type)
        yield from _inner_names(type_.item_type)


def _name_result(plan: Any, names: TableNames, outputs: Sequence[str]) -> None:
    """Name the columns of the result as the query writes them."""
    root = plan.relations[0].root
    if len(outputs) == len(root.names):
        root.names[:] = [column_name(t, n) for t, n in zip(outputs, root.names, strict=True)]
    else:
        root.names[:] = map(names.own_column, root.names)


_BOUND = r"(?:UNBOUNDED (?:PRECEDING|FOLLOWING)|CURRENT ROW|(.+?) (?:PRECEDING|FOLLOWING))"
_WINDOW = "WindowAggr: "
_RANGE = re.compile(f"RANGE BETWEEN {_BOUND} AND {_BOUND}")


def _check_frames(plan: Any, optimized: Any, query: QueryText) -> None:
    """Refuse distances between values that DataFusion writes as unbounded, and `value_frames` does not replace."""
    inner = subquery_text(optimized)
    relations = (relation.display() for relation in below(optimized))
    shown = [text for text in relations if text.startswith(_WINDOW)]
    shown += [inner] if _WINDOW in inner else []
    distances = [
        bound
        for text in shown
        for frame in _RANGE.finditer(text)
        for bound in frame.groups()
        if bound is not None
    ]
    calls = messages(plan, "substrait.Expression.WindowFunction")
    bounds = [
        bound.WhichOneof("kind")
        for call in calls
        if call.bounds_type == call.BOUNDS_TYPE_RANGE
        for bound in (call.lower_bound, call.upper_bound)
    ]
    if len(distances) == sum(bound in ("preceding", "following") for bound in bounds):
        return
    place = next((t for t in query.tokens if t.is_word("range")), query.tokens[0])
    message = "RANGE by a distance of this form cannot be planned: it would be lost"
    help = "write an interval, or a number of at most 38 digits"
    raise query.refused_token("SQL_NOT_PLANNED", place, message, help)
