"""Correct the plans of DataFusion: state what Substrait has no place for, or DataFusion leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from substrait import algebra_pb2, plan_pb2, type_pb2

from substrait_agg.sql_planner.expressions import correct_expressions, struct_fields
from substrait_agg.sql_planner.messages import messages
from substrait_agg.sql_planner.names import TableNames, column_name
from substrait_agg.sql_planner.not_in import rewrite_not_in
from substrait_agg.sql_planner.tokens import QueryText

PRODUCER = "substrait-agg with datafusion"
"""Producer of the plans; the release of DataFusion follows. `bind.profiles` has its profile."""


_VARIED = frozenset(
    kind.full_name
    for kind in type_pb2.Type.DESCRIPTOR.nested_types
    if "type_variation_reference" in kind.fields_by_name
)
"""Messages of types that can have a variation."""


def corrected(
    content: bytes, optimized: Any, query: QueryText, names: TableNames, outputs: Sequence[str]
) -> bytes:
    """Return a plan of DataFusion as the query means it.

    Args:
        content: the plan as DataFusion writes it.
        optimized: the logical plan that it was made from.
        query: the query.
        names: the tables of the query.
        outputs: what `output_names` returns for the query.

    Raises:
        SqlRefused: SQL_NOT_IN.
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
    rewrite_not_in(plan, optimized, query)
    correct_expressions(plan, struct_fields(names.schemas))
    _name_result(plan, names, outputs)
    _number_functions(plan)
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


# --- declarations of functions ------------------------------------------------------------------

CALLS = frozenset(
    f"substrait.{name}"
    for name in (
        "AggregateFunction",
        "Expression.ScalarFunction",
        "Expression.WindowFunction",
        "ConsistentPartitionWindowRel.WindowRelFunction",
    )
)
"""Messages that call a function by its ``function_reference``."""


def _number_functions(plan: Any) -> None:
    """Number the declared functions in the order of their calls. DataFusion has no fixed order."""
    declared = {
        e.extension_function.function_anchor: e
        for e in plan.extensions
        if e.HasField("extension_function")
    }
    numbers: dict[int, int] = {}
    for call in messages(plan, *CALLS):
        number = numbers.setdefault(call.function_reference, len(numbers) + 1)
        call.function_reference = number
    numbered = []
    for anchor, number in numbers.items():
        declaration = type(declared[anchor]).FromString(declared[anchor].SerializeToString())
        declaration.extension_function.function_anchor = number
        numbered.append(declaration)
    others = [e for e in plan.extensions if not e.HasField("extension_function")]
    del plan.extensions[:]
    plan.extensions.extend([*others, *numbered])
