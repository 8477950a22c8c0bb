"""The decoded plan: relations and expressions as written, free of protobuf, each with its path in the message.

Nothing is resolved here: functions are the names that the plan declares, output types are what it declares (or None).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from substrait_agg.plan.types import Type


@dataclass(frozen=True, slots=True)
class FunctionName:
    """A function as the plan's extension declarations name it.

    Attributes:
        name: lower-case name without signature (``sum``).
        signature: what follows the colon of the declared name (``i32``), None for a bare name.
        urn: the last part of the declared URN or URI without ``.yaml`` (``functions_arithmetic``), or None; of
            URNs with another owner than ``io.substrait``, ``owner:id``.
        declared: the name exactly as declared, or ``anchor N`` where no declaration exists.
        known: False where the plan declares no function under this anchor.
        path: place of the declaration in the plan message, or empty; it says nothing about what the function is.
        undeclared_extension: whether the declaration refers to an extension that the plan does not declare, which is reported.
    """

    name: str
    signature: str | None
    urn: str | None
    declared: str
    known: bool = True
    path: str = field(default="", compare=False)
    undeclared_extension: bool = field(default=False, compare=False)


NO_FUNCTION = FunctionName("", None, None, "no function", known=False)
"""Stands for a function that a call does not say, or that is declared without a name; the problem has been reported."""


@dataclass(frozen=True, slots=True)
class Option:
    """One function option with its preferences, most wanted first."""

    name: str
    preferences: tuple[str, ...]
    path: str


# --- expressions -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; `value` is None for null, else a Python value.

    They are bool, int, float, str, bytes; date = days since 1970-01-01 (int); times and timestamps = ticks of 10^-precision s (int);
    decimal = unscaled int; interval_year = months (int); interval_day = (days, ticks of 10^-precision s);
    interval_compound = (months, days, ticks); uuid = bytes; list / struct = tuple of values; map = tuple of (key, value).
    """

    type: Type
    value: Any
    path: str


@dataclass(frozen=True, slots=True)
class FieldRef:
    """A reference into the input row: the first step is a column ordinal, further ones go into nested values.

    Each step is an int (struct field or list offset) or ``("key", Literal)`` (map key);
    `steps[0]` is always a column ordinal of the relation's input.
    """

    steps: tuple[Any, ...]
    path: str


@dataclass(frozen=True, slots=True)
class EnumArgument:
    """An enumeration argument of a function, as written."""

    value: str
    path: str


@dataclass(frozen=True, slots=True)
class TypeArgument:
    """A type argument of a function."""

    type: Type
    path: str


@dataclass(frozen=True, slots=True)
class ScalarCall:
    """A scalar function call."""

    function: FunctionName
    arguments: tuple[Expression | EnumArgument | TypeArgument, ...]
    options: tuple[Option, ...]
    output_type: Type | None
    path: str


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion; `failure` is ``throw``, ``null`` or ``unspecified``."""

    input: Expression
    type: Type
    failure: str
    path: str


@dataclass(frozen=True, slots=True)
class IfThen:
    """Pairs of condition and value, and the value when none holds (None = null)."""

    clauses: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None
    path: str


@dataclass(frozen=True, slots=True)
class Switch:
    """The value of the first case whose literal equals `match`."""

    match: Expression
    cases: tuple[tuple[Literal, Expression], ...]
    otherwise: Expression | None
    path: str


@dataclass(frozen=True, slots=True)
class SingularOrList:
    """Whether `value` equals one of `options` (SQL IN)."""

    value: Expression
    options: tuple[Expression, ...]
    path: str


@dataclass(frozen=True, slots=True)
class NestedValue:
    """A list, struct or map whose parts are expressions.

    Attributes:
        kind: ``list``, ``struct`` or ``map``.
        parts: elements or fields; of a map keys and values in turns.
        nullable: whether the plan declares its type nullable.
        path: of its message.
    """

    kind: str
    parts: tuple[Expression, ...]
    nullable: bool
    path: str


@dataclass(frozen=True, slots=True)
class Lambda:
    """A function as an argument: the types of its parameters and the expression that it computes of them."""

    parameters: tuple[Type, ...]
    body: Expression
    path: str


@dataclass(frozen=True, slots=True)
class ParameterRef:
    """A parameter of a lambda around it, or a part of one.

    Attributes:
        steps_out: lambdas between the reference and the one that is meant.
        steps: ordinal of the parameter, then steps as in `FieldRef`.
        path: of its message.
    """

    steps_out: int
    steps: tuple[Any, ...]
    path: str


@dataclass(frozen=True, slots=True)
class Unsupported:
    """An expression or relation kind that is not read; its problem has already been reported.

    Attributes:
        kind: in words.
        path: of its message.
        inputs: relations inside it, which are checked all the same.
        expressions: those inside it, but not inside these relations; they are checked as well.
    """

    kind: str
    path: str
    inputs: tuple[Relation, ...] = ()
    expressions: tuple[Expression, ...] = ()


Expression = (
    Literal
    | FieldRef
    | ScalarCall
    | Cast
    | IfThen
    | Switch
    | SingularOrList
    | NestedValue
    | Lambda
    | ParameterRef
    | Unsupported
)

# --- relations -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Read:
    """A read of a named table, or of rows written in the plan.

    Attributes:
        table: the name's parts, empty for a virtual table.
        names: column names of the base schema, top level.
        types: column types of the base schema, top level.
        rows: rows of a virtual table (each a tuple of expressions), else None.
        filter: keeps a row only when true.
        projection: column ordinals that remain, in order, or None for all.
        files: True when the plan names local files itself (`table` then holds their URIs).
        emit: output mapping, None when direct.
        best_effort_filter: a condition that is checked, but not applied.
    """

    table: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[Type, ...]
    rows: tuple[tuple[Expression, ...], ...] | None
    filter: Expression | None
    projection: tuple[int, ...] | None
    files: bool
    emit: tuple[int, ...] | None
    path: str
    best_effort_filter: Expression | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """Rows for which `condition` is true."""

    input: Relation
    condition: Expression
    emit: tuple[int, ...] | None
    path: str


@dataclass(frozen=True, slots=True)
class Project:
    """The input's columns, then one per expression."""

    input: Relation
    expressions: tuple[Expression, ...]
    emit: tuple[int, ...] | None
    path: str


@dataclass(frozen=True, slots=True)
class SortField:
    """A sort key.

    `direction` is asc_nulls_first, asc_nulls_last, desc_nulls_first, desc_nulls_last, clustered, unspecified,
    ``comparison`` (then `comparison` names the function), or invalid once that has been reported.
    """

    expression: Expression
    direction: str
    comparison: FunctionName | None
    path: str


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure with every field it carries; `path` is that of its ``AggregateFunction`` message.

    `phase` is unspecified, initial_to_intermediate, intermediate_to_intermediate, initial_to_result or
    intermediate_to_result; `invocation` is unspecified, all or distinct; either is invalid once that has been reported.
    """

    function: FunctionName
    arguments: tuple[Expression | EnumArgument | TypeArgument, ...]
    options: tuple[Option, ...]
    output_type: Type | None
    phase: str
    invocation: str
    sorts: tuple[SortField, ...]
    filter: Expression | None
    path: str


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate: grouping expressions in declaration order, sets of ordinals into them, measures.

    Grouping expressions written inline in each set (before spec 0.57) are already gathered: equal ones once,
    in order of first appearance. Then `inline` is true, and a set that names an expression twice has its ordinal twice.
    """

    input: Relation
    grouping_expressions: tuple[Expression, ...]
    groupings: tuple[tuple[int, ...], ...]
    measures: tuple[Measure, ...]
    emit: tuple[int, ...] | None
    path: str
    inline: bool = False


@dataclass(frozen=True, slots=True)
class Union:
    """All rows of all inputs (set operation UNION ALL)."""

    inputs: tuple[Relation, ...]
    emit: tuple[int, ...] | None
    path: str


@dataclass(frozen=True, slots=True)
class Sort:
    """The order in which rows are shown."""

    input: Relation
    sorts: tuple[SortField, ...]
    emit: tuple[int, ...] | None
    path: str


Relation = Read | Filter | Project | Aggregate | Union | Sort | Unsupported


@dataclass(frozen=True, slots=True)
class DecodedPlan:
    """A whole plan.

    Attributes:
        root: the root relation.
        names: root names, depth first, or None where the plan has a bare relation.
        producer: ``version.producer`` in lower case, or empty.
        version: (major, minor, patch) as the plan states it, or None.
        raw: the plan as it was given, protobuf or protobuf-JSON in UTF-8; decoding it gives the same plan.
        place: path of the entry of ``relations`` that holds the root.
        others: relations of the plan that the root does not reach, which are checked all the same.
    """

    root: Relation
    names: tuple[str, ...] | None
    producer: str
    version: tuple[int, int, int] | None
    raw: bytes
    place: str = "relations[0]"
    others: tuple[Relation, ...] = ()
