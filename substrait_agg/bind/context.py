"""What every binding step needs: the problems so far, the producer's profile, and types that are not known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from substrait_agg.bind.bound import BoundRelation, Column, Constant, Expr
from substrait_agg.bind.profiles import Profile
from substrait_agg.plan.types import Type
from substrait_agg.problems import Problems

Schema = tuple[Type, ...]

UNKNOWN = Type("unknown")
"""Type of an expression whose problem has been reported: it fits everywhere, so that one mistake is reported once."""

MAX_TIME_DIGITS = 6

KEYABLE = frozenset(
    {
        "bool", "i8", "i16", "i32", "i64", "fp32", "fp64", "string", "varchar", "fixedchar",
        "binary", "fixedbinary", "date", "decimal", "precision_timestamp",
        "precision_timestamp_tz",
    }
)  # fmt: skip
"""Type kinds by which rows can be grouped and told apart."""

READABLE = KEYABLE | {"interval_year", "interval_day", "interval_compound", "list", "struct", "map"}
"""Type kinds that expressions may have."""

INSTEAD = {
    "u8": "i16", "u16": "i32", "u32": "i64", "u64": "decimal<20,0>", "uuid": "fixedbinary<16>",
    "precision_time": "i64", "precision_timestamp": "precision_timestamp<6>",
    "precision_timestamp_tz": "precision_timestamp_tz<6>",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Opaque:
    """Stands for a relation whose problem has been reported: its columns are not known."""

    path: str


Bound = BoundRelation | Opaque


@dataclass(slots=True)
class Context:
    """The state of one binding.

    Attributes:
        problems: takes what is wrong with the plan.
        profile: how the plan's producer is read.
        named: functions whose declaration has been reported.
        bound: identity of a decoded relation -> what it was bound to: relations that the plan shares are bound once.
    """

    problems: Problems
    profile: Profile
    named: set[str] = field(default_factory=set)
    bound: dict[int, Any] = field(default_factory=dict)

    def report(self, code: str, path: str, **params: object) -> None:
        """Report a problem of the plan."""
        self.problems.add(code, path, **params)

    def check_type(self, type_: Type, path: str) -> bool:
        """Report a type that expressions cannot have; True when it can."""
        if is_readable(type_):
            return True
        instead = INSTEAD.get(type_.kind, "a supported type")
        self.report("TYPE_NOT_SUPPORTED", path, type=type_, instead=instead)
        return False


def is_readable(type_: Type) -> bool:
    """Whether expressions may have the type; times finer than microseconds are not representable."""
    if type_.kind == "unknown":
        return True
    if type_.kind.startswith("precision_") and type_.params[0] > MAX_TIME_DIGITS:
        return False
    return type_.kind in READABLE and all(is_readable(child) for child in type_.children)


def is_keyable(type_: Type) -> bool:
    """Whether rows can be grouped by values of the type."""
    return type_.kind in KEYABLE or type_.kind == "unknown"


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
