"""Read ``Rel`` messages: one function per supported kind of relation; all others are refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

from substrait_agg.plan.decoding.context import DecodeContext, each
from substrait_agg.plan.decoding.expressions import (
    as_expression,
    expression,
    expressions,
    field_reference,
    function_call,
    inside,
    optional,
    sort_fields,
    window_call,
    word,
)
from substrait_agg.plan.decoding.files import paths_of, read_files
from substrait_agg.plan.files import PlanFile
from substrait_agg.plan.messages.node import MessageNode, structure
from substrait_agg.plan.model import (
    NO_FUNCTION,
    AggregateRel,
    ComparisonKey,
    Expression,
    FetchRel,
    FilterRel,
    JoinRel,
    Literal,
    MeasureCall,
    ProjectRel,
    ReadRel,
    Relation,
    SetOperationKind,
    SetRel,
    SortRel,
    Unsupported,
    WindowRel,
)
from substrait_agg.plan.types import I64, Type, names_by_column, names_width

_NULLABLE, _REQUIRED = 1, 2
"""Value of the enumeration of nullabilities."""

REFERENCES = ("reference", "detached_rel_ordinal")
"""Kinds of relation that refer to a relation written elsewhere in the plan."""

_SET_OPERATIONS: dict[int, SetOperationKind] = {
    1: "minus_primary", 2: "minus_multiset", 3: "intersection_primary", 4: "intersection_multiset",
    5: "union_distinct", 6: "union_all", 7: "minus_primary_all", 8: "intersection_multiset_all",
}  # fmt: skip

_ALL_ROWS = -1
"""The integer that means "no limit" in the removed field ``count`` of a fetch."""

_JOIN_TYPES = {
    0: "unspecified", 1: "inner", 2: "full", 3: "left", 4: "right", 5: "left_semi",
    6: "left_anti", 7: "left_single", 8: "right_semi", 9: "right_anti", 10: "right_single",
    11: "left_mark", 12: "right_mark",
}  # fmt: skip
_PHYSICAL_JOIN_TYPES = {
    0: "unspecified", 1: "inner", 2: "full", 3: "left", 4: "right", 5: "left_semi",
    6: "right_semi", 7: "left_anti", 8: "right_anti", 9: "left_single", 10: "right_single",
    11: "left_mark", 12: "right_mark",
}  # fmt: skip
"""Types of hash, merge and nested-loop joins, which are numbered in another order."""

_COMPARISONS = {0: "unspecified", 1: "equal", 2: "is_not_distinct_from", 3: "might_equal"}
_FETCH_MODES = {0: "unspecified", 1: "rows_only", 2: "with_ties"}


_Groupings = tuple[tuple[Expression, ...], tuple[tuple[int, ...], ...], bool]
"""Keys, the ordinals of keys per grouping set, and whether the keys are written inside the sets."""


def read_relation(node: MessageNode, context: DecodeContext) -> Relation:
    """Return the relation of a ``Rel`` message."""
    kind = node.which("rel_type")
    if kind is None:
        context.report_missing(node, "rel_type")
        return Unsupported("none", node.path)
    if kind in REFERENCES:
        return _refer(node, kind)
    body = node.message(kind)
    reader = _READERS.get(kind)
    if body is None or reader is None:
        return _refuse(node, kind, kind, context)
    return reader(body, context)


def _refuse(node: MessageNode, field: str, kind: str, context: DecodeContext) -> Unsupported:
    path = node.at(field)
    context.report("RELATION_NOT_SUPPORTED", path, kind=kind)
    body = node.message(field)
    if body is None:
        return Unsupported(kind, path)
    body.refuse()
    return Unsupported(kind, path, *inside(body))


def _refer(node: MessageNode, kind: str) -> Relation:
    """Return a relation that is written elsewhere; `result` was set before."""
    if kind == "reference":
        body = node.message(kind)
        if body is not None:
            body.take("subtree_ordinal")
    else:
        node.take(kind)
    target: Relation = node.result
    return target


def _input(node: MessageNode, context: DecodeContext, name: str = "input") -> Relation:
    child = node.message(name)
    if child is None:
        context.report_missing(node, name)
        return Unsupported("none", node.at(name))
    relation: Relation = child.result
    return relation


def _emit(node: MessageNode) -> tuple[int, ...] | None:
    """Return the output mapping in ``common``; None if the output is direct."""
    common = node.message("common")
    mapping = common.message("emit") if common is not None else None
    return None if mapping is None else tuple(mapping.scalars("output_mapping"))


def _filter(node: MessageNode, context: DecodeContext) -> Relation:
    condition = expression(node, "condition", context)
    return FilterRel(_input(node, context), condition, _emit(node), node.path)


def _project(node: MessageNode, context: DecodeContext) -> Relation:
    added = expressions(node, "expressions", context)
    return ProjectRel(_input(node, context), added, _emit(node), node.path)


def _window(node: MessageNode, context: DecodeContext) -> Relation:
    partitions = expressions(node, "partition_expressions", context)
    sorts = sort_fields(node, context)
    written = node.messages("window_functions")
    if not written:
        context.report_missing(node, "window_functions")
    calls = tuple(window_call(item, partitions, sorts, item.path, context) for item in written)
    return WindowRel(_input(node, context), calls, _emit(node), node.path)


def _sort(node: MessageNode, context: DecodeContext) -> Relation:
    return SortRel(_input(node, context), sort_fields(node, context), _emit(node), node.path)


def _set(node: MessageNode, context: DecodeContext) -> Relation:
    word(node, "op", {0: "unspecified", **_SET_OPERATIONS}, context)
    operation = _SET_OPERATIONS.get(node.number("op"))
    if operation is None:
        if not node.number("op"):
            context.report_missing(node, "op")
        node.refuse()
        return Unsupported("set", node.path, *inside(node))
    inputs = tuple(each(node, "inputs"))
    if not inputs:
        context.report_missing(node, "inputs")
    return SetRel(inputs, _emit(node), node.path, operation)


def _aggregate(node: MessageNode, context: DecodeContext) -> Relation:
    keys, sets, inline = groupings(node, context)
    measures = tuple(measure(item, context) for item in node.messages("measures"))
    return AggregateRel(_input(node, context), keys, sets, measures, _emit(node), node.path, inline)


# --- joins -------------------------------------------------------------------------------------


def _join(node: MessageNode, context: DecodeContext) -> Relation:
    kind = word(node, "type", _JOIN_TYPES, context)
    condition = optional(node, "expression", context)
    return _decode_join(node, "join", kind, condition, context)


def _nested_loop_join(node: MessageNode, context: DecodeContext) -> Relation:
    kind = word(node, "type", _PHYSICAL_JOIN_TYPES, context)
    condition = optional(node, "expression", context)
    return _decode_join(node, "nested_loop_join", kind, condition, context)


_BUILD_INPUTS = {0: "unspecified", 1: "left", 2: "right"}


def _keyed_join(form: str, node: MessageNode, context: DecodeContext) -> Relation:
    """Read a hash or merge join."""
    kind = word(node, "type", _PHYSICAL_JOIN_TYPES, context)
    condition = optional(node, "residual_expression", context)
    if form == "hash_join":
        word(node, "build_input", _BUILD_INPUTS, context)  # it changes no rows
    keys = tuple(_comparison_key(item, context) for item in node.messages("keys"))
    old = _removed_keys(node, context)
    if keys and old and not _same_keys(keys, old):
        context.report(
            "FIELD_CONFLICT", node.at("left_keys"), field="left_keys and right_keys", other="keys"
        )
    if not (keys or old):
        context.report_missing(node, "keys")
    return _decode_join(node, form, kind, condition, context, keys or old)


def _decode_join(
    node: MessageNode,
    form: str,
    kind: str,
    condition: Expression | None,
    context: DecodeContext,
    keys: tuple[ComparisonKey, ...] = (),
) -> JoinRel:
    return JoinRel(
        form=form,
        left=_input(node, context, "left"),
        right=_input(node, context, "right"),
        kind=kind,
        condition=condition,
        keys=keys,
        post_filter=optional(node, "post_join_filter", context)
        if "post_join_filter" in node.shape.by_json_name
        else None,
        emit=_emit(node),
        path=node.path,
    )


def _comparison_key(node: MessageNode, context: DecodeContext) -> ComparisonKey:
    left, right = (expression(node, name, context, field_reference) for name in ("left", "right"))
    type_ = node.message("comparison")
    kind = type_.which("inner_type") if type_ is not None else None
    if type_ is None or kind is None:
        context.report_missing(
            node if type_ is None else type_, "comparison" if type_ is None else "inner_type"
        )
        return ComparisonKey(left, right, "invalid", None, node.path)
    if kind == "custom_function_reference":
        function = context.function(type_.number(kind))
        return ComparisonKey(left, right, "custom", function, node.path)
    comparison = word(type_, "simple", _COMPARISONS, context)
    return ComparisonKey(left, right, comparison, None, node.path)


def _removed_keys(node: MessageNode, context: DecodeContext) -> tuple[ComparisonKey, ...]:
    """Return the keys in the removed fields, which are compared with ``equal``."""
    left, right = (
        [field_reference(item, context) for item in node.messages(name)]
        for name in ("left_keys", "right_keys")
    )
    if not (left or right):
        return ()
    context.report_removed(node, "left_keys" if left else "right_keys", "0.98")
    if len(left) != len(right):
        context.report("JOIN_KEYS_COUNT", node.path, left=len(left), right=len(right))
    pairs = zip(left, right, strict=False)
    return tuple(ComparisonKey(a, b, "equal", None, a.path) for a, b in pairs)


def _same_keys(keys: tuple[ComparisonKey, ...], old: tuple[ComparisonKey, ...]) -> bool:
    def steps(key: ComparisonKey) -> tuple[object, ...]:
        """Return what identifies the columns that a key compares."""
        sides = (getattr(side, "steps", None) for side in (key.left, key.right))
        return (*sides, key.comparison)

    return [*map(steps, keys)] == [*map(steps, old)]


# --- fetches -----------------------------------------------------------------------------------


def _fetch(node: MessageNode, context: DecodeContext) -> Relation:
    missing = not (node.has("count") or node.has("count_expr"))
    count = _amount(node, "count", context)
    if isinstance(count, Literal) and count.path == node.at("count") and count.value == _ALL_ROWS:
        count = None
    return FetchRel(
        form="fetch",
        input=_input(node, context),
        sorts=(),
        offset=_amount(node, "offset", context),
        count=count,
        mode="rows_only",
        count_missing=missing,
        emit=_emit(node),
        path=node.path,
    )


def _amount(node: MessageNode, name: str, context: DecodeContext) -> Expression | None:
    """Return the offset or count of a fetch; an integer of the removed form as a literal."""
    if not node.has(name):
        return optional(node, f"{name}_expr", context)
    context.report_removed(node, name, "0.98")
    return Literal(I64.as_nullable(False), node.number(name), node.at(name))


def _top_n(node: MessageNode, context: DecodeContext) -> Relation:
    return FetchRel(
        form="top_n",
        input=_input(node, context),
        sorts=sort_fields(node, context),
        offset=optional(node, "offset", context),
        count=optional(node, "count", context),
        mode=word(node, "mode", _FETCH_MODES, context),
        count_missing=False,
        emit=_emit(node),
        path=node.path,
    )


# --- reads -------------------------------------------------------------------------------------


def _read(node: MessageNode, context: DecodeContext) -> Relation:
    kind = node.which("read_type")
    if kind in ("iceberg_table", "extension_table"):
        node.refuse()
        return _refuse(node, kind, f"read ({kind})", context)
    body = node.message(kind) if kind else None
    if body is None:
        context.report_missing(node, "read_type")
        node.refuse()
        return Unsupported("read", node.path)
    names, types, fields = _schema(node, context)
    if node.has("best_effort_filter"):
        context.report("BEST_EFFORT_FILTER", node.at("best_effort_filter"))
    files = read_files(body, context) if kind == "local_files" else ()
    return ReadRel(
        table=_table(kind, body, files, context),
        names=names,
        types=types,
        rows=_rows(body, context) if kind == "virtual_table" else None,
        filter=optional(node, "filter", context),
        projection=_projection(node, context),
        files=files,
        emit=_emit(node),
        path=node.path,
        best_effort_filter=optional(node, "best_effort_filter", context),
        fields=fields,
    )


def _table(
    kind: str | None, body: MessageNode, files: tuple[PlanFile, ...], context: DecodeContext
) -> tuple[str, ...]:
    if kind == "named_table":
        return tuple(body.scalars("names"))
    return (context.file_tables[paths_of(files)],) if kind == "local_files" else ()


_Schema = tuple[tuple[str, ...], tuple[Type, ...], tuple[tuple[str, ...], ...]]


def _schema(node: MessageNode, context: DecodeContext) -> _Schema:
    """Return names and types of the columns, and the names of the fields inside each column."""
    schema = node.message("base_schema")
    if schema is None:
        context.report_missing(node, "base_schema")
        return (), (), ()
    struct = schema.message("struct")
    types: tuple[Type, ...] = ()
    if struct is not None:
        # The schema's struct is the row itself, which has no nulls and no variations. A struct of
        # unspecified nullability can only mean required.
        nullability = struct.number("nullability")
        if nullability == _NULLABLE:
            context.report("SCHEMA_NULLABLE", struct.path)
        elif nullability != _REQUIRED:
            context.report(
                "NULLABILITY_MISSING", struct.path, type="struct of the schema", read="required"
            )
        types = tuple(each(struct, "types"))
    names = tuple(schema.scalars("names"))
    if names and not types and not node.has("virtual_table"):
        # Binding takes the types from the source, or reports that there are none.
        return names, (), ()
    needed = sum(map(names_width, types))
    if len(names) == needed:
        columns = names_by_column(names, types)
        return tuple(c[0] for c in columns), types, tuple(c[1:] for c in columns)
    code = "NAMES_TOP_LEVEL" if len(names) == len(types) else "NAMES_COUNT"
    context.report(code, schema.path, count=len(names), needed=needed)
    return names, types, ()


def _rows(body: MessageNode, context: DecodeContext) -> tuple[tuple[Expression, ...], ...]:
    """Return the rows of a virtual table, from field ``expressions`` or the older ``values``."""
    new, old = body.messages("expressions"), body.messages("values")
    if old:
        context.report_removed(body, "values", "0.97")
    if new and old and not _same_rows(new, old):
        context.report("FIELD_CONFLICT", body.at("values"), field="values", other="expressions")
    of_new = tuple(expressions(row, "fields", context) for row in new)
    of_old = tuple(tuple(each(row, "fields")) for row in old)
    return of_new or of_old


def _same_rows(new: list[MessageNode], old: list[MessageNode]) -> bool:
    identities: dict[object, int] = {}

    def cells(rows: list[MessageNode]) -> list[list[int]]:
        """Return a number per cell that is equal for equal messages."""
        fields = [row.values.get("fields", []) for row in rows]
        return [
            [structure(cell.values.get("literal", cell), identities) for cell in row]
            for row in fields
        ]

    return cells(new) == cells(old)


def _projection(node: MessageNode, context: DecodeContext) -> tuple[int, ...] | None:
    """Return the columns that a mask keeps, in its order."""
    mask = node.message("projection")
    if mask is None:
        return None
    select = mask.message("select")
    items = select.messages("struct_items") if select is not None else []
    for item in items:
        child = item.message("child")
        if child is not None:
            child.refuse()
            context.report("EXPRESSION_NOT_SUPPORTED", child.path, kind="mask inside a column")
    ordinals = tuple(item.number("field") for item in items)
    if any(later <= earlier for earlier, later in pairwise(ordinals)):
        context.report("MASK_REORDERS", mask.path, columns=", ".join(map(str, ordinals)))
    return ordinals


_READERS: dict[str, Callable[[MessageNode, DecodeContext], Relation]] = {
    "read": _read,
    "filter": _filter,
    "project": _project,
    "sort": _sort,
    "set": _set,
    "aggregate": _aggregate,
    "join": _join,
    "cross": lambda node, context: _decode_join(node, "cross", "inner", None, context),
    "hash_join": partial(_keyed_join, "hash_join"),
    "merge_join": partial(_keyed_join, "merge_join"),
    "nested_loop_join": _nested_loop_join,
    "fetch": _fetch,
    "top_n": _top_n,
    "window": _window,
}


def groupings(node: MessageNode, context: DecodeContext) -> _Groupings:
    """Return the grouping expressions, the grouping sets, and whether the expressions are in the sets.

    If expressions are written in both forms, as by DataFusion, the references count.
    """
    keys = expressions(node, "grouping_expressions", context)
    sets = node.messages("groupings")
    inline = [item.messages("grouping_expressions") for item in sets]
    references = [tuple(item.scalars("expression_references")) for item in sets]
    if not any(inline):
        return keys, tuple(references), False
    first = next(item for item, found in zip(sets, inline, strict=True) if found)
    context.report_removed(first, "grouping_expressions", "0.88")
    if not keys and not any(references):
        return _gather(inline, context)
    identities: dict[Any, int] = {}
    numbers = [structure(key, identities) for key in node.messages("grouping_expressions")]
    for item, written, referred in zip(sets, inline, references, strict=True):
        if written and not _refers_to_written(written, referred, numbers, identities):
            context.report(
                "FIELD_CONFLICT",
                item.at("grouping_expressions"),
                field="grouping_expressions",
                other="expression_references",
            )
        elif written:
            context.drop_copied(item, "grouping_expressions")
    return keys, tuple(references), False


def _refers_to_written(
    written: list[MessageNode],
    referred: tuple[int, ...],
    keys: list[int],
    identities: dict[Any, int],
) -> bool:
    """Return whether the expressions inside a set are those that it refers to.

    Invalid references are ignored here; they are reported elsewhere.
    """
    return len(written) == len(referred) and all(
        structure(inner, identities) == keys[ordinal]
        for inner, ordinal in zip(written, referred, strict=True)
        if 0 <= ordinal < len(keys)
    )


def _gather(inline: list[list[MessageNode]], context: DecodeContext) -> _Groupings:
    """Return the expressions written inside the sets, without duplicates, in order of appearance.

    This is the rule of the release that introduced references (Substrait 0.57.0).
    """
    identities: dict[Any, int] = {}
    ordinals: dict[int, int] = {}
    keys: list[Expression] = []
    sets = []
    for written in inline:
        ordinals_here = []
        for item in written:
            ordinal = ordinals.setdefault(structure(item, identities), len(keys))
            if ordinal == len(keys):
                keys.append(as_expression(item, context))
            ordinals_here.append(ordinal)
        sets.append(tuple(ordinals_here))
    return tuple(keys), tuple(sets), True


def measure(node: MessageNode, context: DecodeContext) -> MeasureCall:
    """Return a measure with all its fields and the path of its ``AggregateFunction``."""
    condition = optional(node, "filter", context)
    body = node.message("measure")
    if body is None:
        context.report_missing(node, "measure")
        return MeasureCall(
            NO_FUNCTION, (), (), None, "unspecified", "unspecified", (), condition, node.path
        )
    return function_call(body, sort_fields(body, context), condition, context)
