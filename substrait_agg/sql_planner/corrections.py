"""Correct the plans of DataFusion: state what Substrait has no place for, or DataFusion leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from substrait import algebra_pb2, plan_pb2, type_pb2

from substrait_agg.functions.aggregates.catalogue import RANKINGS
from substrait_agg.functions.windows import WINDOWS, WINDOWS_URN
from substrait_agg.sql_planner.messages import messages
from substrait_agg.sql_planner.names import TableNames, column_name
from substrait_agg.sql_planner.not_in import rewrite_not_in
from substrait_agg.sql_planner.tokens import QueryText, Token
from substrait_agg.sql_planner.windows import BOUNDS, FIELDS

COMPARISONS = frozenset({"equal", "not_equal", "lt", "lte", "gt", "gte", "is_not_distinct_from", "is_distinct_from"})  # fmt: skip

BITWISE = frozenset({"bitwise_and", "bitwise_or", "shift_left", "shift_right"})

UNSIGNED = 1
"""Variation of an integer literal that DataFusion writes for an unsigned integer."""

FLOAT_AS_DECIMAL = {(14, 7), (30, 15)}
"""Precision and scale of the decimals in which DataFusion compares a float with a decimal."""

_NULLABLE, _REQUIRED = 1, 2


def correct_expressions(plan: Any, schemas: Iterable[pa.Schema]) -> None:
    """Correct all expressions of a plan.

    Args:
        plan: the plan; it is changed. Unsigned integers become signed: no table has any, and positions
            of rows are written as such.
        schemas: schemas of the tables of the query.
    """
    names = {e.extension_function.function_anchor: e.extension_function.name for e in plan.extensions}  # fmt: skip
    for literal in messages(plan, "substrait.Expression.Literal"):
        _keep_large_number(literal)
    structs = _field_places(plan, schemas, names)
    # Inner expressions come last, so they are corrected first.
    for expression in reversed(list(messages(plan, "substrait.Expression"))):
        if expression.HasField("if_then"):
            _compare_base(plan, expression.if_then, names)
        if not expression.HasField("scalar_function"):
            continue
        name = names.get(expression.scalar_function.function_reference, "")
        if (name == "get_field" or name in BOUNDS) and not _read_bound(
            plan, expression, name, names
        ):
            _read_field(expression, name, structs, names)
        elif name in BITWISE:
            _read_grouping_bits(expression.scalar_function)
        elif name in COMPARISONS:
            _compare_floats(expression.scalar_function)
    _sign_positions(plan, names)
    _declare_windows(plan)


def _sign_positions(plan: Any, names: dict[int, str]) -> None:
    """Make positions of rows, and what they are compared with, signed integers."""
    for literal in messages(plan, "substrait.Expression.Literal"):
        if literal.HasField("i64"):
            literal.type_variation_reference = 0
    for call in messages(plan, "substrait.Expression.WindowFunction"):
        if names.get(call.function_reference) in (*RANKINGS, "ntile"):
            call.output_type.i64.nullability = _REQUIRED


def _keep_large_number(literal: Any) -> None:
    """Write an unsigned integer that is too large for a signed one as a decimal."""
    if literal.type_variation_reference == UNSIGNED and literal.HasField("i64") and literal.i64 < 0:
        value = literal.i64 + 2**64
        literal.type_variation_reference = 0
        literal.decimal.value = value.to_bytes(16, "little")
        literal.decimal.precision, literal.decimal.scale = 20, 0


def _read_bound(plan: Any, expression: Any, name: str, names: dict[int, str]) -> bool:
    """Replace a bound of a tumbling window by its function. Return whether the call was a bound."""
    arguments = [a.value for a in expression.scalar_function.arguments]
    inner = arguments[0].scalar_function
    if (
        not arguments[0].HasField("scalar_function")
        or names.get(inner.function_reference) != "tumble"
    ):
        return False
    key = arguments[1].literal.string if len(arguments) == 2 else name.removeprefix("window_")
    if key not in FIELDS:
        return False
    anchor = _anchor(plan, f"tumble_{key}", names)
    call = algebra_pb2.Expression.ScalarFunction()
    call.CopyFrom(inner)
    call.function_reference = anchor
    call.ClearField("output_type")
    expression.scalar_function.CopyFrom(call)
    return True


def _anchor(plan: Any, name: str, names: dict[int, str]) -> int:
    """Return the anchor of a function; declare the function if it is not declared."""
    existing = next((anchor for anchor, declared in names.items() if declared == name), None)
    if existing is not None:
        return existing
    anchor = 1 + max(names, default=0)
    names[anchor] = name
    declared = plan.extensions.add().extension_function
    declared.function_anchor, declared.name = anchor, name
    return anchor


def _compare_base(plan: Any, case: Any, names: dict[int, str]) -> None:
    """Write ``CASE base WHEN value`` as comparisons; its base is a condition without result."""
    first = case.ifs[0]
    if first.HasField("then"):
        return
    base = algebra_pb2.Expression()
    base.CopyFrom(getattr(first, "if"))
    del case.ifs[0]
    equal = _anchor(plan, "equal", names)
    for clause in case.ifs:
        condition = getattr(clause, "if")
        value = algebra_pb2.Expression()
        value.CopyFrom(condition)
        condition.Clear()
        condition.scalar_function.function_reference = equal
        for side in (base, value):
            condition.scalar_function.arguments.add().value.CopyFrom(side)


def _read_field(
    expression: Any, name: str, structs: Mapping[str, int | None], names: dict[int, str]
) -> None:
    """Replace a call that reads fields of a struct by a field reference."""
    value, *keys = (a.value for a in expression.scalar_function.arguments)
    places = [BOUNDS[name]] if name in BOUNDS else []
    for key in keys:
        text = key.literal.string
        part = None if places else _part(value, text, names)
        if part is not None:
            value = part
            continue
        field_place = structs.get(text)
        if field_place is None:
            return  # a key of a map, or a field of an unknown place
        places.append(field_place)
    corrected_value = algebra_pb2.Expression()
    corrected_value.CopyFrom(value)
    if places:
        _select(corrected_value, places)
    expression.CopyFrom(corrected_value)


def _part(value: Any, text: str, names: dict[int, str]) -> Any | None:
    """Return the argument of a constructor that is its field of a name, None if `value` is no constructor."""
    if not value.HasField("scalar_function"):
        return None
    constructor = names.get(value.scalar_function.function_reference, "")
    arguments = [a.value for a in value.scalar_function.arguments]
    if constructor not in _CONSTRUCTORS:
        return None
    own = _constructor_fields(constructor, arguments)
    step = len(arguments) // len(own)
    return arguments[own.index(text) * step + step - 1] if text in own else None


def _select(expression: Any, places: Sequence[int]) -> None:
    """Read a field inside the value of an expression, given by its positions from outside inwards."""
    reference = algebra_pb2.Expression.FieldReference()
    if expression.HasField("selection"):
        reference.CopyFrom(expression.selection)
    else:
        reference.expression.CopyFrom(expression)
    segment = reference.direct_reference
    while segment.HasField("struct_field") and segment.struct_field.HasField("child"):
        segment = segment.struct_field.child
    for place in places:
        segment = segment.struct_field.child if segment.HasField("struct_field") else segment
        segment.struct_field.field = place
    expression.selection.CopyFrom(reference)


def _read_grouping_bits(call: Any) -> None:
    """Compute the bits of grouping() with integers of 32 bits, not with unsigned ones of 8."""
    sides = [argument.value for argument in call.arguments]
    masks = [s.literal for s in sides if s.HasField("literal") and s.literal.type_variation_reference == UNSIGNED]  # fmt: skip
    if not masks:
        return
    for literal in masks:
        value = getattr(literal, literal.WhichOneof("literal_type"))
        literal.type_variation_reference = 0
        literal.i32 = value
    call.output_type.i32.nullability = _NULLABLE
    for side in sides:
        if side.HasField("selection"):
            column = algebra_pb2.Expression()
            column.CopyFrom(side)
            side.cast.input.CopyFrom(column)
            side.cast.type.i32.nullability = _NULLABLE


def _compare_floats(call: Any) -> None:
    """Compare a float with a decimal as floats.

    DataFusion casts the float to a decimal, which fails for large numbers, infinity and NaN.
    """
    sides = [argument.value for argument in call.arguments]
    floats = [side for side in sides if _is_float_as_decimal(side)]
    others = [side for side in sides if not _is_float_as_decimal(side)]
    if len(floats) != 1 or not others[0].HasField("literal"):
        return
    inner = algebra_pb2.Expression()
    inner.CopyFrom(floats[0].cast.input)
    literal = others[0].literal
    if not literal.HasField("decimal"):
        return
    value = _decimal_value(literal.decimal)
    floats[0].CopyFrom(inner)
    literal.ClearField("decimal")
    literal.fp64 = value


def _is_float_as_decimal(expression: Any) -> bool:
    if not expression.HasField("cast"):
        return False
    type_ = expression.cast.type
    return type_.HasField("decimal") and (type_.decimal.precision, type_.decimal.scale) in FLOAT_AS_DECIMAL  # fmt: skip


def _decimal_value(decimal: Any) -> float:
    whole = int.from_bytes(decimal.value, "little", signed=True)
    return float(f"{whole}e-{decimal.scale}")


def _declare_windows(plan: Any) -> None:
    """Declare the window functions under the URN of their extension."""
    used = [e.extension_function for e in plan.extensions if e.extension_function.name in WINDOWS]
    if not used:
        return
    anchor = 1 + max((u.extension_urn_anchor for u in plan.extension_urns), default=0)
    urn = plan.extension_urns.add()
    urn.extension_urn_anchor, urn.urn = anchor, f"extension:{WINDOWS_URN}"
    for function in used:
        function.extension_urn_reference = anchor


_CONSTRUCTORS = frozenset({"struct", "named_struct"})


def _constructor_fields(name: str, arguments: Sequence[Any]) -> list[str]:
    """Return the names of the fields of a struct that a function makes of its arguments."""
    if name == "struct":
        return [f"c{i}" for i in range(len(arguments))]
    return [argument.literal.string for argument in arguments[::2]]


def _field_places(
    plan: Any, schemas: Iterable[pa.Schema], names: dict[int, str]
) -> Mapping[str, int | None]:
    """Return the position of each field of the structs that a query can have.

    A field is not in the result, or has no position, if it has several: the plan does not say of which
    struct a field is read.
    """
    if any(
        literal.HasField("struct") for literal in messages(plan, "substrait.Expression.Literal")
    ):
        return {}  # a constant of unknown names
    structs = [list(FIELDS)]
    for call in messages(plan, "substrait.Expression.ScalarFunction"):
        name = names.get(call.function_reference, "")
        if name in _CONSTRUCTORS:
            structs.append(_constructor_fields(name, [a.value for a in call.arguments]))
    for schema in schemas:
        structs.extend(_struct_names(schema.types))
    places: dict[str, int | None] = {}
    for fields in structs:
        for place, name in enumerate(fields):
            first = places.setdefault(name, place)
            places[name] = place if first == place else None
    return places


def _struct_names(types: Sequence[pa.DataType]) -> Iterator[list[str]]:
    """Yield the names of the fields of each struct in some types."""
    for type_ in types:
        inner = [type_.field(i) for i in range(type_.num_fields)]
        if pa.types.is_struct(type_):
            yield [field.name for field in inner]
        yield from _struct_names([field.type for field in inner])


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
    _check_frames(plan, optimized, query)
    rewrite_not_in(plan, optimized, query)
    count_copies(plan, query)
    correct_expressions(plan, names.schemas.values())
    _name_result(plan, names, outputs)
    _number_functions(plan)
    return bytes(plan.SerializeToString(deterministic=True))


_BOUND = r"(?:UNBOUNDED (?:PRECEDING|FOLLOWING)|CURRENT ROW|(.+?) (?:PRECEDING|FOLLOWING))"
_RANGE = re.compile(f"RANGE BETWEEN {_BOUND} AND {_BOUND}")


def _check_frames(plan: Any, optimized: Any, query: QueryText) -> None:
    """Refuse distances between values that DataFusion writes as unbounded: all but those of integers."""
    lines = [line.strip() for line in optimized.display_indent().splitlines()]
    distances = [
        bound
        for line in lines
        if line.startswith("WindowAggr: ")
        for frame in _RANGE.finditer(line)
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
    message = "RANGE by a distance that is no integer cannot be planned: it would be lost"
    help = "order by an integer, such as a number of seconds or cents, or write a Substrait plan"
    raise query.refused_token("SQL_NOT_PLANNED", place, message, help)


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


# --- INTERSECT ALL and EXCEPT ALL -----------------------------------------------------------------

# DataFusion plans them as semi and anti joins on all columns, which do not count the copies of a row. Such joins are
# replaced if the query has no others that they could be confused with.

_JOIN, _SET = algebra_pb2.JoinRel, algebra_pb2.SetRel
_OPERATIONS = {
    _JOIN.JOIN_TYPE_LEFT_SEMI: (("intersect",), _SET.SET_OP_INTERSECTION_MULTISET_ALL),
    _JOIN.JOIN_TYPE_LEFT_ANTI: (("except", "minus"), _SET.SET_OP_MINUS_PRIMARY_ALL),
}
"""Type of a join -> the words of its set operation, and the operation."""
_NULL_SAFE = "is_not_distinct_from"
_HELP = "cast the columns in a subquery, leave out ALL, or count the copies of both sides with GROUP BY and join the counts"


def count_copies(plan: Any, query: QueryText) -> None:
    """Replace the joins of INTERSECT ALL and EXCEPT ALL by set operations.

    Args:
        plan: the plan, without the corrections of NOT IN; it is changed.
        query: the query.

    Raises:
        SqlRefused: SQL_NOT_PLANNED: it is not clear which joins these are, because the query also has subqueries in conditions
            or set operations without ALL, columns of different types, or because DataFusion has changed a join.
    """
    pairs = pairwise(query.tokens)
    written = [(a, b) for a, b in pairs if _is_set_word(a) and b.is_word("all")]
    if not written:
        return
    names = {e.extension_function.function_anchor: e.extension_function.name for e in plan.extensions}  # fmt: skip
    relations = [r for r in messages(plan, "substrait.Rel") if r.join.type in _OPERATIONS]
    counts = {
        kind: (sum(a.is_word(*words) for a, _ in written), sum(r.join.type == kind for r in relations))
        for kind, (words, _) in _OPERATIONS.items()
    }  # fmt: skip
    triples = zip(query.tokens, query.tokens[1:], query.tokens[2:], strict=False)
    unclear = any(map(_makes_join, triples)) or any(a != b for a, b in counts.values())
    if unclear or not all(_compares_all(r.join, names) for r in relations):
        first, last = written[0]
        shown = f"{first.text.upper()} ALL"
        message = f"{shown} is planned only between columns of the same types, and without IN, EXISTS or set operations without ALL: DataFusion does not count the copies of a row"
        raise query.refused("SQL_NOT_PLANNED", first.start, last.end, message, _HELP)
    for relation in reversed(relations):
        operation = _SET(op=_OPERATIONS[relation.join.type][1])
        operation.inputs.add().CopyFrom(relation.join.left)
        operation.inputs.add().CopyFrom(relation.join.right)
        operation.common.CopyFrom(relation.join.common)
        relation.set.CopyFrom(operation)


def _is_set_word(token: Token) -> bool:
    return token.is_word("intersect", "except", "minus")


def _makes_join(tokens: tuple[Token, ...]) -> bool:
    """Return whether three tokens begin something else that can become a semi or an anti join."""
    first, second, third = tokens
    subquery = second.text == "(" and (third.text == "(" or third.is_word("select", "with", "values"))  # fmt: skip
    if first.is_word("exists", "semi", "anti", "any", "some") or (first.is_word("in") and subquery):
        return True
    return _is_set_word(first) and not second.is_word("all")


def _compares_all(join: Any, names: dict[int, str]) -> bool:
    """Return whether a join compares the columns of its sides in order, also nulls."""
    compared = list(_fields(join.expression, names))
    width = len(compared)
    return compared == [(i, i + width) for i in range(width)]


def _fields(condition: Any, names: dict[int, str]) -> Sequence[tuple[int, int] | None]:
    """Return the fields that a conjunction of comparisons compares; None for something else."""
    call = condition.scalar_function
    name = names.get(call.function_reference) if condition.HasField("scalar_function") else None
    sides = [argument.value for argument in call.arguments]
    if name == "and":
        return [pair for side in sides for pair in _fields(side, names)]
    references = [side.selection.direct_reference.struct_field for side in sides]
    plain = all(s.selection.HasField("root_reference") for s in sides) and not any(r.HasField("child") for r in references)  # fmt: skip
    if name != _NULL_SAFE or len(sides) != 2 or not plain:
        return [None]
    left, right = (reference.field for reference in references)
    return [(left, right)]
