"""Define the state that all binding steps share, and the types of columns and expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from substrait_agg.bind.bound import BoundRelation, Column, Constant, Expr
from substrait_agg.bind.plan_size import PlanLimitExceeded, PlanSizeLimiter
from substrait_agg.bind.profiles import Profile
from substrait_agg.bind.readings import BY_THE_SPECIFICATION, PlanReading
from substrait_agg.plan.decoding.context import MAX_PROBLEMS
from substrait_agg.plan.types import Type
from substrait_agg.problems import Problems

Schema = tuple[Type, ...]

UntypedTable = tuple[tuple[str, ...], tuple[str, ...]]
"""A table that is read without column types: its name's parts, and its column names depth first."""

SourceSchemas = Mapping[UntypedTable, tuple[tuple[str, ...], Schema]]
"""Table without types in the plan -> names and types of its top-level columns in its source."""

UNKNOWN = Type("unknown")
"""Type of an expression with a reported problem.

It is accepted everywhere, so that an error is reported once.
"""

MAX_TIME_DIGITS = 6
"""Maximum number of digits of a second that values have."""

SameRows = dict[int, tuple[BoundRelation, BoundRelation]]
"""Identity of a relation -> the relation, and one with the same rows and its first columns only."""

KEYABLE = frozenset(
    {
        "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "fp32", "fp64", "string",
        "varchar", "fixedchar", "binary", "fixedbinary", "uuid", "date", "decimal",
        "precision_time", "precision_timestamp", "precision_timestamp_tz", "interval_year",
        "interval_day", "list", "struct", "map",
    }
)  # fmt: skip
"""Type kinds of columns.

Rows can be grouped by their values (`docs/semantics.md` defines the order).
"""

READABLE = KEYABLE | {"interval_compound"}
"""Type kinds of expressions. A compound interval has no order, because months differ in length."""

INSTEAD = {"interval_compound": "interval_year or interval_day"}

FRACTIONAL = frozenset(
    {"precision_time", "precision_timestamp", "precision_timestamp_tz", "interval_day"}
)
"""Kinds whose parameter is their number of digits of a second."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A relation with a reported problem. Its columns are unknown."""

    path: str


Bound = BoundRelation | Opaque


@dataclass(frozen=True, slots=True)
class GroupingInfo:
    """The aggregate that ``grouping()`` refers to.

    Its grouping expressions, and the ordinals of the keys of each grouping set.
    """

    keys: tuple[Expr, ...]
    sets: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class BindContext:
    """What all steps of one binding share, and what is around the bound part.

    Its collections are caches and lists of what is still to be reported or bound.

    Attributes:
        problems: collects the problems of the plan.
        profile: the profile of the plan's producer.
        reading: the chosen meaning of what the plan leaves open.
        source_schemas: columns of the tables whose types the plan leaves out.
        release: number of the release of Substrait that the plan states (`bind.readings`); None if
            it states none.
        named: functions whose declaration has been reported although its place is unknown.
        bound: identity of a decoded relation -> its bound relation; shared relations are bound
            once.
        uncounted: identities of the aggregates whose readers do not count the index of the grouping
            set.
        wider: identities of the aggregates with one grouping set whose readers use the layout of
            several.
        cut: types whose digits finer than a microsecond have been reported.
        size_limiter: counts the size of the plan.
        apart: relations that do not contribute to the result and are still to be checked.
        windows: path of a call -> a window call that must be a grouping expression; None when it
            has been found to be one.
        parameters: types of the parameters of the enclosing lambdas, the innermost last.
        outer: columns of the rows around the enclosing subqueries, the innermost last.
        added: collects the subqueries and window functions of the expressions that are bound, whose
            values relations below add; None where none can be computed.
        adds_windows: whether `added` takes window functions.
        same_rows: relations to which window functions have added columns.
        bind_input: binds a relation within an expression.
        bind_window: binds a window function within an expression.
    """

    problems: Problems
    profile: Profile
    reading: PlanReading = BY_THE_SPECIFICATION
    source_schemas: SourceSchemas = field(default_factory=dict)
    release: int | None = None
    named: set[str] = field(default_factory=set)
    bound: dict[int, Any] = field(default_factory=dict)
    uncounted: frozenset[int] = frozenset()
    wider: frozenset[int] = frozenset()
    cut: set[str] = field(default_factory=set)
    size_limiter: PlanSizeLimiter = field(default_factory=PlanSizeLimiter)
    apart: list[Any] = field(default_factory=list)
    windows: dict[str, Expr | None] = field(default_factory=dict)
    parameters: tuple[Schema, ...] = ()
    outer: tuple[Schema | None, ...] = ()
    added: list[Any] | None = None
    adds_windows: bool = False
    same_rows: SameRows = field(default_factory=dict)
    bind_input: Callable[[Any, BindContext], Bound] | None = None
    bind_window: Callable[[Any, Schema | None, BindContext], Expr] | None = None

    def report(self, code: str, path: str, **params: object) -> None:
        """Report a problem, with the producer's meaning if the problem is a habit of the producer.

        Strict mode makes no assumptions, so its messages have no such note. What the producer may
        leave out is not reported.

        Raises:
            PlanLimitExceeded: there are too many problems.
        """
        if code in self.profile.accepted:
            return
        lenient = self.problems.mode == "lenient"
        note = self.profile.note(code, params) if lenient else ""
        if len(self.problems.items) >= MAX_PROBLEMS:
            raise PlanLimitExceeded("TOO_MANY_PROBLEMS", path, limit=MAX_PROBLEMS)
        self.problems.add(code, path, note, self.profile.producer if note else "", **params)

    def adding(self, added: list[Any] | None, *, windows: bool = False) -> BindContext:
        """Return the context of expressions whose subqueries and window functions `added` collects."""
        return replace(self, added=added, adds_windows=windows)

    def reported_at(self, path: str) -> bool:
        """Return whether a problem is reported at exactly this path.

        The value there is then meaningless.
        """
        return any(problem.path == path for problem in self.problems.items)

    def check_type(self, type_: Type, path: str) -> bool:
        """Return whether expressions may have a type. Report a type that they cannot have."""
        return self._check_supported(type_, path, is_readable(type_))

    def check_column(self, type_: Type, path: str) -> bool:
        """Return whether columns may have a type. Report a type that they cannot have."""
        return self._check_supported(type_, path, is_keyable(type_))

    def _check_supported(self, type_: Type, path: str, supported: bool) -> bool:
        if not supported:
            instead = INSTEAD.get(type_.kind, "a supported type")
            self.report("TYPE_NOT_SUPPORTED", path, type=type_, instead=instead)
        return supported

    def in_range(self, schema: Schema, ordinal: int, path: str) -> bool:
        """Return whether a row has a column with this ordinal. Report one that it does not have."""
        inside = 0 <= ordinal < len(schema)
        if not inside:
            last = max(len(schema) - 1, 0)
            self.report("FIELD_OUT_OF_RANGE", path, ordinal=ordinal, count=len(schema), last=last)
        return inside

    def column_type(self, schema: Schema | None, ordinal: int, path: str) -> Type | None:
        """Return the type of a column of a row; None if it is unknown or has been reported."""
        if schema is None or not self.in_range(schema, ordinal, path):
            return None
        type_ = schema[ordinal]
        return type_ if type_.kind != "unknown" and self.check_column(type_, path) else None

    def limit_time_digits(self, type_: Type, path: str, *, said: bool = False) -> Type:
        """Return the type with at most `MAX_TIME_DIGITS` digits of a second.

        Report lost digits once per type. Report nothing if `said` is true.
        """
        if type_.kind in FRACTIONAL and type_.params[0] > MAX_TIME_DIGITS:
            name = str(type_.as_nullable(False))
            if not said and name not in self.cut:
                self.cut.add(name)
                self.report("TIME_DIGITS_NOT_KEPT", path, type=name)
            return replace(type_, params=(MAX_TIME_DIGITS,))
        children = tuple(self.limit_time_digits(child, path, said=said) for child in type_.children)
        return type_ if children == type_.children else replace(type_, children=children)


def is_readable(type_: Type) -> bool:
    """Return whether expressions may have the type."""
    if type_.kind == "unknown":
        return True
    return type_.kind in READABLE and _has_parts(type_)


def is_keyable(type_: Type) -> bool:
    """Return whether a column may have the type, so that rows can be grouped by its values."""
    if type_.kind == "unknown":
        return True
    return type_.kind in KEYABLE and _has_parts(type_)


def _has_parts(type_: Type) -> bool:
    """Return whether all inner types may be columns. Files cannot store a struct without fields."""
    empty = type_.kind == "struct" and not type_.children
    return not empty and all(map(is_keyable, type_.children))


def unknown() -> Expr:
    """Return a placeholder for an expression whose problem has been reported."""
    return Constant(UNKNOWN, None)


def is_unknown(*expressions: Expr) -> bool:
    """Return whether any of the expressions has an unknown type."""
    return any(e.type.kind == "unknown" for e in expressions)


def schema_of(relation: Bound) -> Schema | None:
    """Return the column types of a relation; None if they are unknown."""
    return None if isinstance(relation, Opaque) else relation.types


def columns(types: Schema) -> tuple[Expr, ...]:
    """Return references to all columns of a row."""
    return tuple(Column(type_, ordinal) for ordinal, type_ in enumerate(types))


def list_types(types: Schema) -> str:
    """List types for a message: ``i64, string?``."""
    return ", ".join(str(t) for t in types)
