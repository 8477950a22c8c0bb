"""Define the arguments of function builders, and helpers that builders share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.bind.bound import Call, Constant
from substrait_agg.errors import UsageError
from substrait_agg.plan.types import Type


@dataclass(frozen=True, slots=True)
class Arguments:
    """A call and its arguments as columns."""

    call: Call
    columns: tuple[Column, ...]

    def __getitem__(self, ordinal: int) -> Column:
        return self.columns[ordinal]

    def __len__(self) -> int:
        return len(self.columns)

    def type(self, ordinal: int) -> Type:
        """Return the type of an argument."""
        return self.call.arguments[ordinal].type

    def option(self, name: str, default: str = "") -> str:
        """Return the value of an option of the call."""
        return dict(self.call.options).get(name, default)

    def constant(self, ordinal: int) -> object:
        """Return the value of an argument that must be a constant.

        Raises:
            UsageError: ``ARGUMENT_NOT_CONSTANT``.
        """
        argument = self.call.arguments[ordinal]
        if not isinstance(argument, Constant):
            raise UsageError(
                "ARGUMENT_NOT_CONSTANT",
                f"argument {ordinal} of {self.call.function} must be a constant",
                help="write it as a literal in the plan",
            )
        return argument.value


Builder = Callable[[Arguments], Column]
"""Returns the column of a call. The caller converts the column to the type of the call."""


def plain(function: Callable[..., Column]) -> Builder:
    """Return a builder that passes all arguments to a Spark function."""
    return lambda args: function(*args.columns)


def double(column: Column) -> Column:
    """Convert a column to fp64."""
    return column.cast("double")


def constant_double(text: str) -> Column:
    """Return an fp64 constant; `text` may be ``NaN`` or ``Infinity``."""
    return F.lit(text).cast("double")


def failure(code: str, text: str) -> Column:
    """Return an expression that fails the batch with a code and a text."""
    return F.raise_error(F.lit(f"[{code}] {text}"))


def any_null(columns: tuple[Column, ...]) -> Column:
    """Return whether any of the columns is null."""
    result = columns[0].isNull()
    for column in columns[1:]:
        result = result | column.isNull()
    return result
