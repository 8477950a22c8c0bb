"""Bind window functions: values of a row that are computed from the rows of its partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from substrait_agg.bind.aggregates.order import bind_order
from substrait_agg.bind.aggregates.rules import bind_measure
from substrait_agg.bind.aggregates.states import PARTIAL
from substrait_agg.bind.bound import (
    BoundMeasure,
    BoundWindowFunction,
    Column,
    Constant,
    Conversion,
    Expr,
    Frame,
    MeasureSort,
    WindowKind,
    value_arguments,
)
from substrait_agg.bind.context import BindContext, Schema, is_keyable, is_unknown, unknown
from substrait_agg.bind.conversions import convert, is_null
from substrait_agg.bind.expressions.binder import bind_arguments, bind_expression
from substrait_agg.bind.expressions.function_names import check_declared
from substrait_agg.bind.expressions.options import choose_options
from substrait_agg.bind.expressions.signatures import check_declaration, check_options
from substrait_agg.bind.joins.keys import is_comparable
from substrait_agg.bind.places import argument_place, expression_place
from substrait_agg.bind.plan.window_frames import MOST_DISTANCE, bind_frame
from substrait_agg.bind.plan.window_relations import BoundWindow
from substrait_agg.functions.aggregates.catalogue import (
    RANKINGS,
    STANDARD_URNS,
    find,
)
from substrait_agg.functions.aggregates.kinds import MeasureKind, kinds_of
from substrait_agg.functions.aggregates.parts import ARITHMETIC
from substrait_agg.functions.aggregates.types import ALL_NUMBERS, ORDERED
from substrait_agg.functions.signatures.declarations import Section, declarations
from substrait_agg.functions.signatures.derive import FLOATS
from substrait_agg.plan import model
from substrait_agg.plan.types import FP64, INTEGER_BITS, Type
from substrait_agg.required import require

_FRAMED: tuple[MeasureKind, ...] = (
    *kinds_of("number"), *kinds_of("condition"), *kinds_of("moment"),
    "min", "max", "any_value", "min_by", "max_by",
    *(kind for kind in kinds_of("multiset") if kind not in ("list_union_distinct", "nth_value")),
)  # fmt: skip
"""Measures of the rows of a frame: sums, extremes, and those that read every value."""


_Binder = Callable[[model.WindowCall, Schema | None, BindContext], BoundWindow | None]


def bind_window(node: model.WindowCall, schema: Schema | None, context: BindContext) -> Expr:
    """Return the value of a window function: a column that a relation below adds."""
    added = context.added
    # There is no window function within another.
    window = _bind(node, schema, context.adding(added))
    if added is None or not context.adds_windows or context.parameters:
        context.report("WINDOW_FUNCTION_MISPLACED", node.path, name=_name(node))
        return unknown()
    if window is None or schema is None:
        return unknown()
    added.append(window)
    return Column(window.type, len(schema) + len(added) - 1)


def _bind(
    node: model.WindowCall, schema: Schema | None, context: BindContext
) -> BoundWindow | None:
    partitions = tuple(_partition(e, schema, context) for e in node.partitions)
    order = bind_order(node.call, schema, context)
    for sort, place in zip(order.keys, order.places, strict=True):
        kind = sort.expression.type.kind
        if kind not in (*ORDERED, "unknown"):
            context.report(
                "ORDER_KEY_NOT_SUPPORTED", place, name=_name(node), type=sort.expression.type
            )
    binder = _BINDERS.get(node.call.function.name)
    if binder is None:
        window = _measure(node, schema, context, order.keys)
    else:
        skips = _skips_nulls(node, context)
        window = binder(node, schema, context)
        window = _skip_nulls(window) if window is not None and skips else window
    if window is None or not order.known or is_unknown(*partitions):
        return None
    if _depends_on_order(window) and not order.keys:
        context.report("WINDOW_WITHOUT_SORT", node.call.path, name=_name(node))
    return replace(window, partitions=tuple(dict.fromkeys(partitions)), sorts=order.keys)


def _skips_nulls(node: model.WindowCall, context: BindContext) -> bool:
    """Choose the options of a function that is a window function only."""
    call, name = node.call, _name(node)
    honoured = _NULLS if name in _NEIGHBOURS else {}
    options = dict(choose_options(name, call.options, honoured, context, call.path))
    check_options(call, "window_functions", honoured, context)
    return options.get("IGNORE_NULLS") == "TRUE"


def _skip_nulls(window: BoundWindow) -> BoundWindow:
    """Return a function of other rows that counts only rows whose value is not null."""
    computed = require(window.computed)
    # Without nulls, and of the row itself, it is the same function.
    skips = computed.arguments[0].type.nullable and (
        computed.number != 0 or computed.frame is not None
    )
    return replace(window, computed=replace(computed, skip_nulls=skips))


def _name(node: model.WindowCall) -> str:
    return node.call.function.name or node.call.function.declared


def _partition(node: model.Expression, schema: Schema | None, context: BindContext) -> Expr:
    key = bind_expression(node, schema, context)
    if not is_unknown(key) and not (is_keyable(key.type) and is_comparable(key.type)):
        context.report("KEY_TYPE_NOT_SUPPORTED", expression_place(node), type=key.type)
        return unknown()
    return key


def _depends_on_order(window: BoundWindow) -> bool:
    """Return whether a function depends on the order of rows with equal sort keys."""
    return window.measure is None


def _bind_ranking(
    node: model.WindowCall, _schema: Schema | None, context: BindContext
) -> BoundWindow | None:
    """Bind a function of the position of a row, for which the frame has no meaning."""
    call, name = node.call, _name(node)
    if not _is_declared(node, context):
        return None
    if call.arguments:
        context.report(
            "ARGUMENT_COUNT", f"{call.path}.arguments",
            function=name, needed="no arguments", takes="no arguments", count=len(call.arguments),
        )  # fmt: skip
    type_ = _number_type(node, context)
    if call.function.name == "row_number":
        return BoundWindow((), (), type_, node.path)
    rank: WindowKind = "rank" if call.function.name == "rank" else "dense_rank"
    return _bind_computed(node, rank, (), 0, None, type_)


def _is_declared(node: model.WindowCall, context: BindContext) -> bool:
    """Check the declaration of a function that is a window function only, and what it cannot have."""
    call, name, path = node.call, _name(node), node.call.path
    if not check_declared(call.function, path, context):
        return False
    urn = call.function.urn
    if urn in STANDARD_URNS and urn != ARITHMETIC:
        place = call.function.path or path
        context.report("FUNCTION_URN_DIFFERS", place, name=name, urn=urn, expected=ARITHMETIC)
    else:
        check_declaration(call.function, "window_functions", path, context)
    if call.phase == "unspecified":
        context.report("PHASE_UNSPECIFIED", f"{path}.phase", name=name)
    _check_bounds_type(node, context)
    _check_phase(node, context)
    if call.invocation == "distinct":
        reason = "its rows are not aggregated"
        context.report("DISTINCT_NOT_SUPPORTED", f"{path}.invocation", name=name, reason=reason)
    return True


def _check_phase(node: model.WindowCall, context: BindContext) -> bool:
    """Return whether a window function has a partial phase, and report it."""
    call = node.call
    if call.phase in PARTIAL:
        context.report(
            "PHASE_NOT_SUPPORTED", f"{call.path}.phase",
            name=_name(node), phase=call.phase.upper(), reason="a window function returns final values",
        )  # fmt: skip
    return call.phase in PARTIAL


def _check_bounds_type(node: model.WindowCall, context: BindContext) -> None:
    """Report a frame from or to the current row of which the plan does not say what it counts."""
    if node.bounds_type == "unspecified" and "current_row" in (node.lower.kind, node.upper.kind):
        context.report("WINDOW_BOUNDS_TYPE_MISSING", node.call.path, name=_name(node))


_POSITION_KINDS = ("i64", "u64")


def _number_type(
    node: model.WindowCall, context: BindContext, kinds: Sequence[str] = _POSITION_KINDS
) -> Type:
    """Return the type of positions: the declared one, or that of the producer."""
    declared, path = node.call.output_type, f"{node.call.path}.output_type"
    kind = "u64" if context.profile.derivation == "arrow" else "i64"
    derived = Type(kind, nullable=False)
    if declared is None:
        context.report("OUTPUT_TYPE_MISSING", path, name=_name(node), type=derived)
        return derived
    if declared.kind not in kinds:
        context.report(
            "OUTPUT_TYPE_NOT_SUPPORTED", path,
            name=_name(node), argument="rows", declared=declared, derived=derived,
        )  # fmt: skip
    return declared


# --- functions of other rows ---------------------------------------------------------------------


def _neighbour(
    node: model.WindowCall, schema: Schema | None, context: BindContext
) -> BoundWindow | None:
    """Bind the value of a row at a distance: value, distance, default. The frame has no meaning."""
    written = node.call.arguments
    if len(written) == 3 and isinstance(written[2], model.Literal) and written[2].value is None:
        # The default is null anyway. The type of the literal may be one that no value can have.
        node = replace(node, call=replace(node.call, arguments=written[:2]))
    arguments = _values(node, schema, context, least=1, most=3)
    if arguments is None:
        return None
    value, *others = arguments
    distance = _constant(node, 1, others[0], context, "offset") if others else 1
    default = _default(node, value, others[1:], context)
    if default is None:
        return None
    nullable = not default or value.type.nullable or default[0].type.nullable
    type_ = _declared_type(node, value.type.as_nullable(nullable), context)
    if distance is None or type_ is None:
        return None
    name: WindowKind = "lag" if node.call.function.name == "lag" else "lead"
    return _bind_computed(node, name, (value, *default), distance, None, type_)


def _default(
    node: model.WindowCall, value: Expr, written: Sequence[Expr], context: BindContext
) -> list[Expr] | None:
    """Return the value where there is no row, in the type of the others; none for null."""
    if not any(not is_null(default) for default in written):
        return []
    (default,) = written
    converted = convert(default, value.type)
    as_float = isinstance(default, Constant) and value.type.kind in FLOATS
    if (
        default.type.same_kind(value.type)
        or isinstance(converted, Constant)
        or (as_float and default.type.kind in ALL_NUMBERS)
    ):
        return [converted]
    reason = f"its type is {default.type}, that of the value is {value.type}"
    context.report(
        "CONSTANT_ARGUMENT_INVALID", argument_place(node.call, 2),
        function=_name(node), argument="default", reason=reason,
    )  # fmt: skip
    return None


def _ntile(
    node: model.WindowCall, schema: Schema | None, context: BindContext
) -> BoundWindow | None:
    arguments = _values(node, schema, context, least=1, most=1)
    if arguments is None:
        return None
    number = _constant(node, 0, arguments[0], context, "x", least=1)
    type_ = _number_type(node, context, (*_POSITION_KINDS, "i32"))
    return None if number is None else _bind_computed(node, "ntile", (), number, None, type_)


def _distribution(
    node: model.WindowCall, schema: Schema | None, context: BindContext
) -> BoundWindow | None:
    """Bind the share of the rows of a partition that come before a row, or up to it."""
    if _values(node, schema, context, least=0, most=0) is None:
        return None
    type_ = _declared_type(node, FP64.as_nullable(False), context)
    name: WindowKind = "cume_dist" if _name(node) == "cume_dist" else "percent_rank"
    return None if type_ is None else _bind_computed(node, name, (), 0, None, type_)


def _values(
    node: model.WindowCall, schema: Schema | None, context: BindContext, *, least: int, most: int
) -> list[Expr] | None:
    """Bind the arguments of a function that is a window function only; None for a problem."""
    arguments = bind_arguments(node.call.arguments, schema, context)
    if not _is_declared(node, context) or is_unknown(*value_arguments(arguments)):
        return None
    values = list(value_arguments(arguments))
    if least <= len(values) <= most and len(values) == len(arguments):
        return values
    takes = (
        f"{least} to {most} arguments"
        if most > least
        else f"{most or 'no'} argument{'s'[most == 1 :]}"
    )
    context.report(
        "ARGUMENT_COUNT", f"{node.call.path}.arguments",
        function=_name(node), needed=takes, takes=takes, count=len(arguments),
    )  # fmt: skip
    return None


def _constant(
    node: model.WindowCall,
    position: int,
    value: Expr,
    context: BindContext,
    name: str,
    least: int = -MOST_DISTANCE,
) -> int | None:
    """Return an argument that is the same for all rows."""
    plain = value.input if isinstance(value, Conversion) else value
    reason = ""
    if (
        not isinstance(plain, Constant)
        or plain.type.kind not in INTEGER_BITS
        or plain.value is None
    ):
        reason = "it is not an integer literal"
    elif not least <= plain.value <= MOST_DISTANCE:
        reason = f"it is not between {least} and {MOST_DISTANCE}"
    else:
        return int(plain.value)
    context.report(
        "CONSTANT_ARGUMENT_INVALID", argument_place(node.call, position),
        function=_name(node), argument=name, reason=reason,
    )  # fmt: skip
    return None


def _declared_type(node: model.WindowCall, derived: Type, context: BindContext) -> Type | None:
    """Return the type of a value; where rows without a value exist, it is nullable."""
    declared, path = node.call.output_type, f"{node.call.path}.output_type"
    if declared is None:
        context.report("OUTPUT_TYPE_MISSING", path, name=_name(node), type=derived)
        return derived
    if not declared.same_kind(derived):
        context.report(
            "OUTPUT_TYPE_NOT_SUPPORTED", path,
            name=_name(node), argument="rows", declared=declared, derived=derived,
        )  # fmt: skip
        return None
    if derived.nullable and not declared.nullable:
        context.report("OUTPUT_NULLABILITY", path, name=_name(node), declared=declared)
    return declared.as_nullable(declared.nullable or derived.nullable)


def _bind_computed(
    node: model.WindowCall,
    function: WindowKind,
    arguments: Sequence[Expr],
    number: int,
    frame: Frame | None,
    type_: Type,
    measure: BoundMeasure | None = None,
) -> BoundWindow:
    computed = BoundWindowFunction(
        function, tuple(arguments), number, frame, measure, type_, _name(node), node.path
    )
    return BoundWindow((), (), type_, node.path, computed=computed)


# --- aggregate functions -------------------------------------------------------------------------


def _measure(
    node: model.WindowCall,
    schema: Schema | None,
    context: BindContext,
    sorts: Sequence[MeasureSort],
) -> BoundWindow | None:
    """Bind an aggregate function over the rows of a frame."""
    call = node.call if _follows_order(node) else replace(node.call, sorts=())
    if _check_phase(node, context):
        call = replace(call, phase="initial_to_result")
    declared = node.call.function.name in declarations(ARITHMETIC, "window_functions")
    section: Section = "window_functions" if declared else "aggregate_functions"
    measure = bind_measure(call, schema, context, section=section)
    if section == "window_functions":
        check_options(call, section, _NULLS, context)
    takes_first = measure is not None and measure.keep_nulls and _takes_first(node)
    whole = _whole_partition(node, takes_first=takes_first)
    if whole and measure is not None:
        _check_bounds_type(node, context)
    if whole and measure is not None and not _is_place(measure):
        return BoundWindow((), (), measure.type, node.path, measure=measure)
    widest = Frame(rows=True, lower=None, upper=0 if takes_first else None)
    frame = widest if whole else bind_frame(node, sorts, context)
    if measure is None or frame is None:
        return None
    if measure.kind in _PLACES:
        return _place(node, measure, frame, sorts, context)
    if measure.kind not in _FRAMED:
        _report_function(node, context)
        return None
    empty = not _has_row(frame) and measure.kind not in ("count", "sum0")
    type_ = measure.type.as_nullable(measure.type.nullable or empty)
    measure = replace(measure, type=type_)
    return _bind_computed(node, "aggregate", (), 0, frame, type_, measure)


def _follows_order(node: model.WindowCall) -> bool:
    """Return whether a function takes values in the order of the window.

    Percentiles have the order of the values, and different values have no other order.
    """
    entry = find(node.call.function.name)
    if entry is None or node.call.invocation == "distinct" or entry[1].distinct:
        return False
    row, _ = entry
    return row.order_by.handling == "honoured" and not row.order_on_argument


def _place(
    node: model.WindowCall,
    measure: BoundMeasure,
    frame: Frame,
    sorts: Sequence[MeasureSort],
    context: BindContext,
) -> BoundWindow | None:
    """Return the value of a row at a place of the frame."""
    function = _PLACES[measure.kind]
    if not _is_place(measure):
        _report_function(node, context)
        return None
    number = int(measure.constants[0]) if measure.constants else 0
    if measure.order != tuple(sorts):
        number = -number  # the measure counts from the end by the reversed order
    (value,) = measure.arguments
    missing = function == "nth_value" or not _has_row(frame)
    type_ = measure.type.as_nullable(measure.type.nullable or value.type.nullable or missing)
    value = convert(value, type_.as_nullable(value.type.nullable))
    window = _bind_computed(node, function, (value,), number, frame, type_)
    return window if measure.keep_nulls else _skip_nulls(window)


def _is_place(measure: BoundMeasure) -> bool:
    """Return whether a measure is the value of one row, which the order of the window chooses.

    A measure of a whole partition has an order of its own, so two measures could be values of two
    rows with equal sort keys.
    """
    return measure.kind in _PLACES and not measure.distinct


def _has_row(frame: Frame) -> bool:
    """Return whether the frame of every row has the row itself."""
    begins = (frame.lower or 0) <= 0 and frame.lower_rest <= 0
    return begins and (frame.upper or 0) >= 0 and frame.upper_rest >= 0


def _report_function(node: model.WindowCall, context: BindContext) -> None:
    context.report(
        "WINDOW_FUNCTION_NOT_SUPPORTED", node.call.path,
        name=_name(node), frame=node.frame,
    )  # fmt: skip


def _whole_partition(node: model.WindowCall, *, takes_first: bool) -> bool:
    """Return whether the frame of every row has the same result as its whole partition.

    Without an order all rows are peers, and a frame by range begins with the first peer and ends
    with the last one. The first value of a partition is that of every frame from its beginning.
    """
    peers = not node.call.sorts and node.bounds_type == "range"
    lower = ("missing", "unbounded", *(("current_row",) if peers else ()))
    upper = (*lower, "current_row") if takes_first else lower
    return node.lower.kind in lower and node.upper.kind in upper


def _takes_first(node: model.WindowCall) -> bool:
    """Return whether the value is that of the first row of the partition."""
    return node.call.function.name == "first_value" and node.lower.kind in ("missing", "unbounded")


_PLACES: dict[MeasureKind, WindowKind] = {
    "first_value": "first_value",
    "last_value": "last_value",
    "nth_value": "nth_value",
}
"""Measures that are the value of a row at a place of a frame."""

_NULLS = {"IGNORE_NULLS": ("FALSE", "TRUE")}
"""The option of functions of other rows; the standard has it for ``any_value`` only."""
_NEIGHBOURS = ("lag", "lead")

_BINDERS: Mapping[str, _Binder] = {
    **dict.fromkeys(RANKINGS, _bind_ranking),
    **dict.fromkeys(_NEIGHBOURS, _neighbour),
    "ntile": _ntile,
    "percent_rank": _distribution,
    "cume_dist": _distribution,
}
"""How each function is bound that is a window function only."""
