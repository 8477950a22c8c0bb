"""The decoded plan as written, with paths in the message: functions have their declared names and types."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from typing import Literal as OneOf

from substrait_agg.plan.files import PlanFile
from substrait_agg.plan.types import Type


@dataclass(frozen=True, slots=True)
class FunctionName:
    """A function as the plan's extension declarations name it.

    Attributes:
        name: lower-case name without signature (``sum``).
        signature: the part after the colon of the declared name (``i32``); None without a colon.
        urn: the last part of the declared URN or URI without ``.yaml`` (``functions_arithmetic``),
            or None; ``owner:id`` for URNs with another owner than ``io.substrait``.
        declared: the name exactly as declared, or ``anchor N`` without a declaration.
        known: False if the plan declares no function under this anchor.
        path: place of the declaration in the plan message, or empty; not part of the identity.
        undeclared_extension: whether the declaration refers to an extension that the plan does not
            declare, which is reported.
    """

    name: str
    signature: str | None
    urn: str | None
    declared: str
    known: bool = True
    path: str = field(default="", compare=False)
    undeclared_extension: bool = field(default=False, compare=False)


NO_FUNCTION = FunctionName("", None, None, "no function", known=False)
"""A function that is missing in a call or declared without a name.

The problem has been reported.
"""


@dataclass(frozen=True, slots=True)
class OptionPreferences:
    """One function option with its preferences, in descending order."""

    name: str
    preferences: tuple[str, ...]
    path: str


# --- expressions -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; `value` is None for null, else a Python value.

    Values by kind: bool, int, float, str, bytes; date = days since 1970-01-01 (int); times and
    timestamps = ticks of 10^-precision s (int); decimal = unscaled int; interval_year = months
    (int); interval_day = (days, ticks of 10^-precision s); interval_compound = (months, days,
    ticks); uuid = bytes; list / struct = tuple of values; map = tuple of (key, value).
    """

    type: Type
    value: Any
    path: str


@dataclass(frozen=True, slots=True)
class FieldRef:
    """A reference to a column of the input row, or to a value nested in it.

    The first step is always a column ordinal of the relation's input. Each further step is an int
    (struct field or list offset) or ``("key", Literal)`` (map key).
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
    options: tuple[OptionPreferences, ...]
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
    """An expression with conditions: pairs of condition and value, and a value otherwise (None = null)."""

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
class NestedExpression:
    """A list, struct or map whose parts are expressions.

    Attributes:
        kind: ``list``, ``struct`` or ``map``.
        parts: elements or fields; for a map, keys and values alternate.
        nullable: whether the plan declares its type nullable.
    """

    kind: str
    parts: tuple[Expression, ...]
    nullable: bool
    path: str


@dataclass(frozen=True, slots=True)
class LambdaExpression:
    """A function as an argument: the types of its parameters, and its body."""

    parameters: tuple[Type, ...]
    body: Expression
    path: str


@dataclass(frozen=True, slots=True)
class ParameterRef:
    """A reference to a parameter of an enclosing lambda, or to a part of the parameter.

    Attributes:
        steps_out: number of lambdas between the reference and the lambda that has the parameter.
        steps: ordinal of the parameter, then steps as in `FieldRef`.
        path: path of its message.
    """

    steps_out: int
    steps: tuple[Any, ...]
    path: str


@dataclass(frozen=True, slots=True)
class OuterRef:
    """A reference, within a subquery, to a column of an enclosing query.

    Attributes:
        steps_out: number of subqueries between the column and the reference; 1 for the nearest.
        steps: as in `FieldRef`, over the row of the expression that contains the subquery.
    """

    steps_out: int
    steps: tuple[Any, ...]
    path: str


@dataclass(frozen=True, slots=True)
class ExpressionPart:
    """A reference to a value nested in the value of an expression.

    Attributes:
        input: the expression.
        steps: from its value inwards, as the further steps of `FieldRef`.
    """

    input: Expression
    steps: tuple[Any, ...]
    path: str


SubqueryKind = OneOf["scalar", "in", "not_in", "exists"]


@dataclass(frozen=True, slots=True)
class Subquery:
    """A value that is computed from the rows of a relation.

    Attributes:
        kind: ``scalar``: the only value; ``in``: whether the row of `values` is among the rows;
            ``not_in``: the opposite; ``exists``: whether there are rows.
        values: of ``in`` and ``not_in``.
        relation: the relation; its expressions may have an `OuterRef`.
    """

    kind: SubqueryKind
    values: tuple[Expression, ...]
    relation: Relation
    path: str


@dataclass(frozen=True, slots=True)
class ContextVariable:
    """A value of the execution: ``current_timestamp`` or ``current_date``."""

    name: str
    type: Type
    path: str


@dataclass(frozen=True, slots=True)
class WindowBound:
    """A bound of the frame of a window function.

    Attributes:
        kind: what it is; ``missing`` if the plan does not write it.
        distance: of ``preceding`` and ``following``, the distance from the row; None if it is not a
            constant integer.
        written: the constant that the plan writes as an expression; None for others.
    """

    kind: OneOf["missing", "unbounded", "current_row", "preceding", "following"]
    distance: int | None = 0
    written: Literal | None = None


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A window function call: a value of a row that is computed from the rows of its partition.

    Attributes:
        call: the function with its arguments; `sorts` is the order of the rows of a partition.
        partitions: rows with equal values of these expressions are one partition.
        bounds_type: unspecified, rows, range, or invalid, which has been reported.
        lower: the first row of the frame.
        upper: the last row of the frame.
        path: path of the expression.
    """

    call: MeasureCall
    partitions: tuple[Expression, ...]
    bounds_type: str
    lower: WindowBound
    upper: WindowBound
    path: str

    @property
    def frame(self) -> str:
        """Return the bounds of the frame in words."""
        return " to ".join(bound.kind.replace("_", " ") for bound in (self.lower, self.upper))


@dataclass(frozen=True, slots=True)
class Unsupported:
    """An expression or relation of a kind that is not supported; the problem has been reported.

    Attributes:
        kind: the kind in words.
        inputs: relations inside it, which are checked as well.
        expressions: expressions inside it, but outside of `inputs`; they are checked as well.
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
    | NestedExpression
    | LambdaExpression
    | ParameterRef
    | OuterRef
    | ExpressionPart
    | Subquery
    | ContextVariable
    | WindowCall
    | Unsupported
)


def parts_of(expression: Any) -> tuple[Any, ...]:
    """Return the expressions directly inside an expression, but not those in the relation of a subquery."""
    match expression:
        case Subquery(values=parts) | ScalarCall(arguments=parts) | NestedExpression(parts=parts):
            return parts
        case Cast(input=source) | LambdaExpression(body=source) | ExpressionPart(input=source):
            return (source,)
        case IfThen(clauses=clauses, otherwise=otherwise):
            return (*(e for clause in clauses for e in clause), otherwise)
        case Switch(match=value, cases=cases, otherwise=otherwise):
            return (value, *(e for _, e in cases), otherwise)
        case SingularOrList(value=value, options=options):
            return (value, *options)
        case WindowCall(call=call, partitions=partitions):
            return (*call.arguments, *partitions, *(s.expression for s in call.sorts))
        case _:
            return ()


# --- relations -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadRel:
    """A read of a named table, of files, or of rows written in the plan.

    Attributes:
        table: parts of the table's name; empty for a virtual table.
        names: column names of the base schema, top level.
        types: column types of the base schema, top level.
        rows: rows of a virtual table (each a tuple of expressions), else None.
        filter: condition that keeps a row only when true.
        projection: ordinals of the remaining columns, in order; None for all.
        files: the files that the plan names itself; else empty.
        emit: output mapping; None if direct.
        best_effort_filter: a condition that is checked, but not applied.
        fields: per column, the names of the struct fields inside it, depth first; empty if the plan
            does not give them.
    """

    table: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[Type, ...]
    rows: tuple[tuple[Expression, ...], ...] | None
    filter: Expression | None
    projection: tuple[int, ...] | None
    files: tuple[PlanFile, ...]
    emit: tuple[int, ...] | None
    path: str
    best_effort_filter: Expression | None = None
    fields: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class FilterRel:
    """The rows for which `condition` is true."""

    input: Relation
    condition: Expression
    emit: tuple[int, ...] | None
    path: str


@dataclass(frozen=True, slots=True)
class ProjectRel:
    """The input's columns, then one column per expression."""

    input: Relation
    expressions: tuple[Expression, ...]
    emit: tuple[int, ...] | None
    path: str


@dataclass(frozen=True, slots=True)
class SortField:
    """A sort key.

    `direction` is asc_nulls_first, asc_nulls_last, desc_nulls_first, desc_nulls_last, clustered,
    unspecified, ``comparison`` (then `comparison` names the function), or invalid, which has been
    reported.
    """

    expression: Expression
    direction: str
    comparison: FunctionName | None
    path: str


@dataclass(frozen=True, slots=True)
class MeasureCall:
    """One measure with all its fields; `path` is that of its ``AggregateFunction`` message.

    `phase` is unspecified, initial_to_intermediate, intermediate_to_intermediate, initial_to_result
    or intermediate_to_result. `invocation` is unspecified, all or distinct. Either may be invalid,
    which has been reported.
    """

    function: FunctionName
    arguments: tuple[Expression | EnumArgument | TypeArgument, ...]
    options: tuple[OptionPreferences, ...]
    output_type: Type | None
    phase: str
    invocation: str
    sorts: tuple[SortField, ...]
    filter: Expression | None
    path: str


@dataclass(frozen=True, slots=True)
class AggregateRel:
    """An aggregate: grouping expressions in declaration order, sets of ordinals into them, measures.

    Before Substrait 0.57, grouping expressions were written in each set. Equal ones are merged, in
    order of first appearance, and `inline` is true. A set that contains an expression twice then
    has its ordinal twice.
    """

    input: Relation
    grouping_expressions: tuple[Expression, ...]
    groupings: tuple[tuple[int, ...], ...]
    measures: tuple[MeasureCall, ...]
    emit: tuple[int, ...] | None
    path: str
    inline: bool = False


SetOperationKind = OneOf[
    "minus_primary", "minus_primary_all", "minus_multiset", "intersection_primary",
    "intersection_multiset", "intersection_multiset_all", "union_distinct", "union_all",
]  # fmt: skip
"""The set operations of the specification."""


@dataclass(frozen=True, slots=True)
class SetRel:
    """A set operation over a primary input, the first one, and secondary inputs."""

    inputs: tuple[Relation, ...]
    emit: tuple[int, ...] | None
    path: str
    operation: SetOperationKind = "union_all"


@dataclass(frozen=True, slots=True)
class SortRel:
    """The order in which rows are shown."""

    input: Relation
    sorts: tuple[SortField, ...]
    emit: tuple[int, ...] | None
    path: str


@dataclass(frozen=True, slots=True)
class ComparisonKey:
    """A pair of keys of a physical join.

    Attributes:
        left: the key over the left input.
        right: the key over the right input.
        comparison: ``equal``, ``is_not_distinct_from``, ``might_equal``, ``custom`` (then
            `function` names it), ``unspecified``, or ``invalid``, which has been reported.
        path: path of its message; for the removed fields, path of the left key.
    """

    left: Expression
    right: Expression
    comparison: str
    function: FunctionName | None
    path: str


@dataclass(frozen=True, slots=True)
class JoinRel:
    """A join of two relations in any of its forms.

    Attributes:
        form: the kind of message: ``join``, ``cross``, ``hash_join``, ``merge_join`` or
            ``nested_loop_join``.
        left: the left input.
        right: the right input.
        kind: inner, full, left, right, left_semi, right_semi, left_anti, right_anti, left_single,
            right_single, left_mark, right_mark, unspecified, or invalid, which has been reported.
        condition: the condition over the columns of both inputs, beside the keys; None for none.
        keys: the keys of a hash or merge join.
        post_filter: the condition that result rows have to meet; None for none.
        emit: output mapping; None if direct.
    """

    form: str
    left: Relation
    right: Relation
    kind: str
    condition: Expression | None
    keys: tuple[ComparisonKey, ...]
    post_filter: Expression | None
    emit: tuple[int, ...] | None
    path: str


@dataclass(frozen=True, slots=True)
class FetchRel:
    """The rows from position `offset` on, at most `count` of them.

    Attributes:
        form: the kind of message: ``fetch`` or ``top_n``.
        sorts: sort keys of a top-n; empty for a fetch, which takes the order of its input.
        offset: number of rows to skip; None for none.
        count: largest number of rows; None for all.
        mode: of a top-n: rows_only, with_ties, unspecified, or invalid, which has been reported.
        count_missing: whether the message has no count at all.
        emit: output mapping; None if direct.
    """

    form: str
    input: Relation
    sorts: tuple[SortField, ...]
    offset: Expression | None
    count: Expression | None
    mode: str
    count_missing: bool
    emit: tuple[int, ...] | None
    path: str


@dataclass(frozen=True, slots=True)
class WindowRel:
    """The input's columns, then one column per window function.

    All functions have the same partitions and the same order.
    """

    input: Relation
    functions: tuple[WindowCall, ...]
    emit: tuple[int, ...] | None
    path: str


Relation = (
    ReadRel
    | FilterRel
    | ProjectRel
    | AggregateRel
    | SetRel
    | SortRel
    | JoinRel
    | FetchRel
    | WindowRel
    | Unsupported
)


@dataclass(frozen=True, slots=True)
class DecodedPlan:
    """A whole plan.

    Attributes:
        names: root names, depth first; None if the plan has a bare relation.
        producer: ``version.producer`` in lower case, or empty.
        version: (major, minor, patch) as the plan states it, or None.
        raw: the plan as it was given, protobuf or protobuf-JSON in UTF-8; decoding it gives the
            same plan.
        place: path of the entry of ``relations`` that contains the root.
        others: relations of the plan that the root does not reach, which are checked as well.
        roots: places of the roots, if the plan has several.
    """

    root: Relation
    names: tuple[str, ...] | None
    producer: str
    version: tuple[int, int, int] | None
    raw: bytes
    place: str = "relations[0]"
    others: tuple[Relation, ...] = ()
    roots: tuple[str, ...] = ()
