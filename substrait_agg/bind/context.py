"""What every binding step needs: the problems so far, the producer's profile, and types that are not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from substrait_agg.bind.bound import BoundRelation, Column, Constant, Expr
from substrait_agg.bind.plan_size import PlanLimitExceeded, PlanSizeLimiter
from substrait_agg.bind.profiles import Profile
from substrait_agg.bind.readings import BY_THE_SPECIFICATION, Reading
from substrait_agg.plan.decoding.context import MAX_PROBLEMS
from substrait_agg.plan.types import Type
from substrait_agg.problems import Problems

Schema = tuple[Type, ...]

UntypedTable = tuple[tuple[str, ...], tuple[str, ...]]
"""A table that is read without column types: its name's parts, and the column names, depth first."""

SourceSchemas = Mapping[UntypedTable, tuple[tuple[str, ...], Schema]]
"""Table without types in the plan -> names and types of its top-level columns, as its source has them."""

UNKNOWN = Type("unknown")
"""Type of an expression whose problem has been reported: it fits everywhere, so that one mistake is reported once."""

MAX_TIME_DIGITS = 6
"""Digits of a second that are kept."""

KEYABLE = frozenset(
    {
        "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "fp32", "fp64", "string",
        "varchar", "fixedchar", "binary", "fixedbinary", "uuid", "date", "decimal",
        "precision_time", "precision_timestamp", "precision_timestamp_tz", "interval_year",
        "interval_day", "list", "struct", "map",
    }
)  # fmt: skip
"""Type kinds of columns: rows can be grouped by them and told apart (`docs/semantics.md` has their order)."""

READABLE = KEYABLE | {"interval_compound"}
"""Type kinds that expressions may have. A compound interval has no order: a month is no number of days."""

INSTEAD = {"interval_compound": "interval_year or interval_day"}

FRACTIONAL = frozenset(
    {"precision_time", "precision_timestamp", "precision_timestamp_tz", "interval_day"}
)
"""Kinds whose parameter is their number of digits of a second."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """Stands for a relation whose problem has been reported: its columns are not known."""

    path: str


Bound = BoundRelation | Opaque


@dataclass(frozen=True, slots=True)
class GroupingInfo:
    """What ``grouping()`` asks about: grouping expressions, and per grouping set the ordinals of its keys."""

    keys: tuple[Expr, ...]
    sets: tuple[tuple[int, ...], ...]


@dataclass(slots=True)
class BindContext:
    """The state of one binding.

    Attributes:
        problems: takes what is wrong with the plan.
        profile: how the plan's producer is read.
        reading: which of the meanings is taken that the plan leaves open.
        source_schemas: columns of the tables whose types the plan leaves out.
        named: functions whose declaration, which has no place of its own, has been reported.
        bound: identity of a decoded relation -> what it was bound to: relations that the plan shares are bound once.
        uncounted: identities of the aggregates whose readers do not count the index of the grouping set.
        wider: identities of the aggregates of one grouping set that are addressed in the layout of several.
        cut: whether it has been reported that digits finer than a microsecond are not kept.
        placed: counts what the plan takes.
        apart: relations that the plan's result is not made of, which are still to be checked.
        incomplete: whether something stands for what could not be bound, so that the plan cannot be run.
        windows: place of a call -> the window that it is, which only a grouping expression can be; those found to be one are taken out.
        moved: whether one of them was moved up from a projection.
        parameters: types of the parameters of the lambdas around what is bound, the innermost last.
    """

    problems: Problems
    profile: Profile
    reading: Reading = BY_THE_SPECIFICATION
    source_schemas: SourceSchemas = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    bound: dict[int, Any] = field(default_factory=dict)
    uncounted: frozenset[int] = frozenset()
    wider: frozenset[int] = frozenset()
    cut: set[str] = field(default_factory=set)
    placed: PlanSizeLimiter = field(default_factory=PlanSizeLimiter)
    apart: list[Any] = field(default_factory=list)
    incomplete: bool = False
    windows: dict[str, Expr] = field(default_factory=dict)
    moved: bool = False
    parameters: list[Schema] = field(default_factory=list)

    def report(self, code: str, path: str, **params: object) -> None:
        """Report a problem of the plan; where it is a habit of the producer, the message says what that means.

        Strict mode assumes nothing, so that its messages have no such note.

        Raises:
            Exceeded: there are too many.
        """
        lenient = self.problems.mode == "lenient"
        note = self.profile.note(code, params) if lenient else ""
        if len(self.problems.found) >= MAX_PROBLEMS:
            raise PlanLimitExceeded("TOO_MANY_PROBLEMS", path, limit=MAX_PROBLEMS)
        self.problems.add(code, path, note, self.profile.producer if note else "", **params)

    def told(self, path: str) -> bool:
        """Whether a problem of the very place is known, so that its value says nothing."""
        return any(problem.path == path for problem in self.problems.found)

    def check_type(self, type_: Type, path: str) -> bool:
        """Report a type that expressions cannot have; True when it can."""
        return self._supported(type_, path, is_readable(type_))

    def check_column(self, type_: Type, path: str) -> bool:
        """Report a type that no column can have; True when it can."""
        return self._supported(type_, path, is_keyable(type_))

    def _supported(self, type_: Type, path: str, supported: bool) -> bool:
        if not supported:
            instead = INSTEAD.get(type_.kind, "a supported type")
            self.report("TYPE_NOT_SUPPORTED", path, type=type_, instead=instead)
        return supported

    def kept(self, type_: Type, path: str, *, said: bool = False) -> Type:
        """The type with the digits of a second that are kept.

        That finer ones are not is reported once per type, or not at all where it is already `said`.
        """
        if type_.kind in FRACTIONAL and type_.params[0] > MAX_TIME_DIGITS:
            name = str(type_.as_nullable(False))
            if not said and name not in self.cut:
                self.cut.add(name)
                self.report("TIME_DIGITS_NOT_KEPT", path, type=name)
            return replace(type_, params=(MAX_TIME_DIGITS,))
        children = tuple(self.kept(child, path, said=said) for child in type_.children)
        return type_ if children == type_.children else replace(type_, children=children)


def is_readable(type_: Type) -> bool:
    """Whether expressions may have the type."""
    if type_.kind == "unknown":
        return True
    return type_.kind in READABLE and _has_parts(type_)


def is_keyable(type_: Type) -> bool:
    """Whether a column may have the type; rows can then be grouped by its values and told apart."""
    if type_.kind == "unknown":
        return True
    return type_.kind in KEYABLE and _has_parts(type_)


def _has_parts(type_: Type) -> bool:
    """Whether all that is inside may be a column; no file holds a struct without fields."""
    empty = type_.kind == "struct" and not type_.children
    return not empty and all(map(is_keyable, type_.children))


def names_width(type_: Type) -> int:
    """Names that a column of the type takes in a depth-first list: its own, and one per struct field inside it."""
    inner = sum(names_width(child) for child in type_.children)
    if type_.kind == "struct":
        return 1 + inner
    # The elements of lists and maps have no names themselves.
    return 1 + inner - len(type_.children)


def unknown() -> Expr:
    """An expression whose problem has been reported."""
    return Constant(UNKNOWN, None)


def is_unknown(*expressions: Expr) -> bool:
    """Whether the type of any of the expressions is not known."""
    return any(e.type.kind == "unknown" for e in expressions)


def columns(types: Schema) -> tuple[Expr, ...]:
    """References to all columns of a row."""
    return tuple(Column(type_, ordinal) for ordinal, type_ in enumerate(types))


def listed(types: Schema) -> str:
    """Types for a message: ``i64, string?``."""
    return ", ".join(str(t) for t in types)
