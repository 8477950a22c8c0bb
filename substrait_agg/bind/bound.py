"""Define the bound plan: typed expressions, resolved functions, relations with their schemas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from substrait_agg.functions.aggregates.kinds import MeasureKind
from substrait_agg.plan.files import PlanFile
from substrait_agg.plan.model import EnumArgument, SetOperationKind, TypeArgument
from substrait_agg.plan.types import Type

# --- expressions: each has `.type`; column ordinals refer to the input row of the relation ----


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal. `value` has the form of `plan.model.Literal` (None for null)."""

    type: Type
    value: Any


@dataclass(frozen=True, slots=True)
class Column:
    """Column `ordinal` of the input row."""

    type: Type
    ordinal: int


@dataclass(frozen=True, slots=True)
class NestedPart:
    """A part of a nested value: a field ordinal, a list offset, or a map key (`Constant`)."""

    type: Type
    input: Expr
    step: Any


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar function by its canonical name (a key of `functions.scalars.catalogue.SCALARS`).

    `arguments` contains the expressions. `enums` contains the enumeration arguments by position, in
    upper case. `options` contains (name, chosen preference) in upper case.
    """

    type: Type
    function: str
    arguments: tuple[Expr, ...]
    enums: tuple[tuple[int, str], ...] = ()
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Conversion:
    """A cast to `type`.

    A value that does not convert fails the batch, or becomes null with `null_on_failure`.
    """

    type: Type
    input: Expr
    null_on_failure: bool = False


@dataclass(frozen=True, slots=True)
class Conditional:
    """An if-then: pairs of condition and value, and a default. A switch is bound to equalities."""

    type: Type
    clauses: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class InList:
    """SQL IN with three-valued logic."""

    type: Type
    value: Expr
    options: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class BoundNestedValue:
    """A list, struct or map of expressions; the kind of `type` decides. It is never null.

    A map has its keys and values in turns.
    """

    type: Type
    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class BoundLambda:
    """A lambda argument of a call. `type` is a ``func`` of the result, then of the parameters."""

    type: Type
    body: Expr


@dataclass(frozen=True, slots=True)
class LambdaParameter:
    """A parameter of an enclosing lambda; `steps_out` counts lambdas outwards, from 0."""

    type: Type
    steps_out: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class OuterColumn:
    """A column of the row of the query around a subquery.

    `bind.subqueries` writes subqueries as joins, so bound plans have none.
    """

    type: Type
    ordinal: int


Expr = (
    Constant
    | Column
    | NestedPart
    | Call
    | Conversion
    | Conditional
    | InList
    | BoundNestedValue
    | BoundLambda
    | LambdaParameter
    | OuterColumn
)

Argument = Expr | EnumArgument | TypeArgument
"""An argument of a call during binding: a value, a word or a type."""


def value_arguments(arguments: Iterable[Argument]) -> tuple[Expr, ...]:
    """Return the arguments that are values."""
    return tuple(a for a in arguments if not isinstance(a, EnumArgument | TypeArgument))


@dataclass(frozen=True, slots=True)
class MeasureSort:
    """A sort key of a measure. `clustered` keys become ascending keys."""

    expression: Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class BoundMeasure:
    """A measure that can be maintained.

    Attributes:
        kind: the kind of measure (see the catalogue of aggregate functions).
        arguments: the values, in the kind's order; empty if rows are counted. `constants` has the
            constant arguments.
        filter: a boolean expression; only rows for which it is true count.
        type: the type of the measure's column: as declared, or as derived for the producer.
        name: the function's name as the plan writes it.
        path: path in the plan.
        distinct: whether equal values count once; False if that does not change the result.
        order: the order of the values, if the measure depends on it; without keys it is the order
            of the values themselves.
        options: (name, effective value) of every option of the function (OVERFLOW, DISTRIBUTION,
            ...), in upper case; also those that the plan gives as enumeration arguments.
        constants: constant arguments in order: separator, n, fraction.
        keep_nulls: whether null values count, as in ``array_agg``.
        implementation: key of a user-defined measure in `functions.aggregates.registry`, else
            empty.
    """

    kind: MeasureKind
    arguments: tuple[Expr, ...]
    filter: Expr | None
    type: Type
    name: str
    path: str
    distinct: bool = False
    order: tuple[MeasureSort, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    constants: tuple[Any, ...] = ()
    keep_nulls: bool = False
    implementation: str = ""

    @property
    def argument(self) -> Expr | None:
        """The first argument, or None if rows are counted."""
        return self.arguments[0] if self.arguments else None

    @property
    def overflow(self) -> str:
        """What happens to a result that does not fit: ``ERROR``, ``SATURATE`` or ``SILENT``."""
        return dict(self.options).get("OVERFLOW", "ERROR")

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Every expression that is computed per row: arguments, sort keys, filter."""
        condition = () if self.filter is None else (self.filter,)
        return (*self.arguments, *(s.expression for s in self.order), *condition)


# --- relations: each has `.types`, its output columns ------------------------------------------


@dataclass(frozen=True, slots=True)
class BoundRead:
    """A table with the columns `names` of `types`. Relations above it filter and project.

    `fields` has per column the names of the struct fields inside it, depth first; it is empty if the
    plan does not give them. `files` has the files that the plan names for the table.
    """

    table: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[Type, ...]
    path: str
    fields: tuple[tuple[str, ...], ...] = field(default=(), compare=False)
    files: tuple[PlanFile, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class BoundRows:
    """Rows that the plan contains. After binding they are constants."""

    types: tuple[Type, ...]
    rows: tuple[tuple[Expr, ...], ...]
    path: str


@dataclass(frozen=True, slots=True)
class BoundFilter:
    """The rows for which `condition` is true."""

    input: BoundRelation
    condition: Expr
    types: tuple[Type, ...]
    path: str


@dataclass(frozen=True, slots=True)
class BoundProject:
    """A relation with exactly the columns `expressions`; emit and pass-through are resolved."""

    input: BoundRelation
    expressions: tuple[Expr, ...]
    types: tuple[Type, ...]
    path: str


@dataclass(frozen=True, slots=True)
class BoundUnnest:
    """A row per element of the list `values`: the columns of the input, then the element.

    A row whose list is null or empty is left out.
    """

    input: BoundRelation
    values: Expr
    types: tuple[Type, ...]
    path: str


class BoundInputs:
    """A relation of several `inputs` with the same column types.

    Nullability differs between inputs; `types` has that of the result.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class BoundUnion(BoundInputs):
    """All rows of all inputs."""

    inputs: tuple[BoundRelation, ...]
    types: tuple[Type, ...]
    path: str


@dataclass(frozen=True, slots=True)
class BoundRecursion(BoundInputs):
    """The rows of an anchor, then level by level those that a step makes of the rows of the last level.

    The last column is the level, a number from 0. Rows of level `limit` have no next level.

    Attributes:
        inputs: the anchor and the step, which reads `BoundRecursiveRows` of the same name.
        name: identifies what is computed.
        rows: how many changed rows a batch may make.
    """

    inputs: tuple[BoundRelation, ...]
    types: tuple[Type, ...]
    path: str
    name: str = field(compare=False)
    limit: int
    rows: int


@dataclass(frozen=True, slots=True)
class BoundRecursiveRows:
    """The rows of the last level of the recursion `recursion`, inside its step."""

    recursion: str
    types: tuple[Type, ...]
    path: str


@dataclass(frozen=True, slots=True)
class BoundSetOperation(BoundInputs):
    """A set operation other than union all. The first input is the primary one."""

    operation: SetOperationKind
    inputs: tuple[BoundRelation, ...]
    types: tuple[Type, ...]
    path: str


@dataclass(frozen=True, slots=True)
class BoundAggregate:
    """An aggregation by `keys`, once per grouping set.

    Attributes:
        input: the relation that is aggregated.
        keys: grouping expressions in declaration order.
        measures: in order.
        types: types of `keys` (nullable if a set leaves them out), of `measures`, and with more
            than one set of the index of the set that the row belongs to, a required i32.
        sets: ordinals of the keys of each grouping set; empty for the single set of all keys.
        path: path in the plan.
    """

    input: BoundRelation
    keys: tuple[Expr, ...]
    measures: tuple[BoundMeasure, ...]
    types: tuple[Type, ...]
    path: str
    sets: tuple[tuple[int, ...], ...] = ()


JoinKind = Literal["inner", "left", "full", "semi", "anti", "mark", "single"]
"""The kinds of joins. A right join is a left join of the swapped inputs under a projection."""


@dataclass(frozen=True, slots=True)
class JoinKey:
    """A pair of expressions that have equal values in matching rows.

    Attributes:
        left: an expression over the columns of the left input.
        right: an expression over the columns of the right input, of the same type apart from
            nullability.
        null_safe: whether two nulls are equal (``is_not_distinct_from``); else null matches
            nothing.
    """

    left: Expr
    right: Expr
    null_safe: bool


@dataclass(frozen=True, slots=True)
class BoundJoin:
    """A join of two relations.

    Two rows match if all keys are equal and the residual is true.

    Attributes:
        left: the left input.
        right: the right input.
        keys: the equalities between both sides.
        residual: a condition over the columns of the left input, then of the right input; None for
            none.
        types: inner, left, full and single joins have the columns of the left input, then those of
            the right input; columns of a side that may be padded with nulls are nullable. Semi and
            anti joins have the columns of the left input, mark joins also a nullable boolean.
        path: path in the plan.
    """

    left: BoundRelation
    right: BoundRelation
    kind: JoinKind
    keys: tuple[JoinKey, ...]
    residual: Expr | None
    types: tuple[Type, ...]
    path: str

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Every expression that is computed: both sides of the keys, and the residual."""
        sides = (side for key in self.keys for side in (key.left, key.right))
        return (*sides, *(() if self.residual is None else (self.residual,)))


@dataclass(frozen=True, slots=True)
class BoundFetch:
    """The rows from position `offset` on, at most `count` of them, of each partition.

    Attributes:
        sorts: the sort keys, over the columns of the input. Rows with equal keys are ordered by all
            columns; without keys, all rows are.
        offset: number of rows to skip.
        count: largest number of rows; None if there is no limit.
        types: the columns of the input; if rows are numbered, also the type of the number.
        path: path in the plan.
        partitions: rows with equal values of these expressions are one partition; without
            expressions, all rows are.
        numbered: whether the last column is the position of the row in its partition, from 1.
    """

    input: BoundRelation
    sorts: tuple[MeasureSort, ...]
    offset: int
    count: int | None
    types: tuple[Type, ...]
    path: str
    partitions: tuple[Expr, ...] = ()
    numbered: bool = False


WindowKind = Literal[
    "rank", "dense_rank", "lag", "lead", "first_value", "last_value", "nth_value", "ntile",
    "percent_rank", "cume_dist", "aggregate",
]  # fmt: skip
"""The window functions that are computed from the rows around a row."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows of a partition that a window function reads for a row.

    Attributes:
        rows: whether bounds count rows; else rows with the same sort keys belong together, and
            bounds are distances between values of the only sort key, in its least units.
        lower: distance of the first row from the row, below zero if it precedes the row; 0 for the
            row itself, or the first one with its sort keys; None for the first row of the
            partition. A float is added to the values of a sort key of floats.
        upper: distance of the last row, in the same way; None for the last row of the partition.
        months: whether distances are months, and not least units.
        lower_rest: least units that are added to the row after the months of `lower`.
        upper_rest: the same for `upper`.
    """

    rows: bool
    lower: int | float | None
    upper: int | float | None
    months: bool = False
    lower_rest: int = 0
    upper_rest: int = 0

    def __str__(self) -> str:
        unit = "rows" if self.rows else "range"
        lower, upper = (
            self._describe(self.lower, self.lower_rest, "preceding"),
            self._describe(self.upper, self.upper_rest, "following"),
        )
        return f"{unit} {lower} to {upper}"

    def _describe(self, distance: float | None, rest: int, end: str) -> str:
        first = distance or rest
        if not first:
            return "current row" if distance == 0 else f"unbounded {end}"
        sign = -1 if first < 0 else 1
        unit = " months" if self.months else ""
        further = f" {sign * rest:+} units" if rest else ""
        return f"{sign * (distance or 0)}{unit}{further} {'preceding' if sign < 0 else 'following'}"


@dataclass(frozen=True, slots=True)
class BoundWindowFunction:
    """A value of a row that is computed from the rows around it.

    Attributes:
        arguments: the value, then the default if there is one; empty for an aggregate function.
        number: the distance of ``lag`` and ``lead``, the position of ``nth_value``, the number of
            parts of ``ntile``; 0 for other functions.
        frame: the rows that it reads; None if it does not depend on a frame.
        measure: the aggregate function; None for other functions.
        name: the function's name as the plan writes it.
        path: path in the plan.
        skip_nulls: whether it counts only rows whose value is not null.
    """

    function: WindowKind
    arguments: tuple[Expr, ...]
    number: int
    frame: Frame | None
    measure: BoundMeasure | None
    type: Type
    name: str
    path: str
    skip_nulls: bool = False

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Every expression that is computed per row."""
        return (*self.arguments, *(() if self.measure is None else self.measure.expressions))


@dataclass(frozen=True, slots=True)
class BoundWindowValues:
    """The rows of the input with the values of window functions.

    Attributes:
        sorts: the sort keys, over the columns of the input. Rows with equal keys are ordered by all
            columns.
        partitions: rows with equal values of these expressions are one partition; without
            expressions, all rows are.
        functions: the functions.
        types: the columns of the input, then the types of the functions.
        path: path in the plan.
        last: the greatest value of the only function, a rank; rows with greater ones are left out.
            None if there is no limit.
    """

    input: BoundRelation
    sorts: tuple[MeasureSort, ...]
    partitions: tuple[Expr, ...]
    functions: tuple[BoundWindowFunction, ...]
    types: tuple[Type, ...]
    path: str
    last: int | None = None

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Every expression that is computed per row."""
        computed = (e for function in self.functions for e in function.expressions)
        return (*self.partitions, *(s.expression for s in self.sorts), *computed)


BoundRelation = (
    BoundRead
    | BoundRows
    | BoundFilter
    | BoundProject
    | BoundUnnest
    | BoundUnion
    | BoundRecursion
    | BoundRecursiveRows
    | BoundSetOperation
    | BoundAggregate
    | BoundJoin
    | BoundFetch
    | BoundWindowValues
)

GroupedRelation = BoundAggregate | BoundSetOperation
"""Relations whose rows are the groups of an operator, each of weight 1."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """A sort key of the view: a column of its root, with `descending` and `nulls_first` as in SQL."""

    ordinal: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class BoundPlan:
    """A plan that can run, with its column names (unique or not) and the order of the view.

    The root may have more columns than `names`. The further ones are hidden: the order of the view
    needs them, and the view does not show them.

    `fields` has per column the names of the struct fields inside it, depth first; it is empty if no
    column has any.
    """

    root: BoundRelation
    names: tuple[str, ...]
    sorts: tuple[SortKey, ...]
    producer: str
    fingerprint: str
    fields: tuple[tuple[str, ...], ...] = ()

    @property
    def types(self) -> tuple[Type, ...]:
        """Return the types of the columns with a name."""
        return self.root.types[: len(self.names)]
