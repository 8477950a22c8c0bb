"""What builders of scalar functions are given, and the small pieces they share."""

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
        """Type of an argument."""
        return self.call.arguments[ordinal].type

    def option(self, name: str, default: str = "") -> str:
        """The value that holds for an option."""
        return dict(self.call.options).get(name, default)

    def constant(self, ordinal: int) -> object:
        """Value of an argument that must be a constant.

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
"""Gives the column of a call; the caller converts it to the call's type."""


def plain(function: Callable[..., Column]) -> Builder:
    """A builder that hands all arguments to a Spark function."""
    return lambda a: function(*a.columns)


def double(column: Column) -> Column:
    """The column as fp64."""
    return column.cast("double")


def constant_double(text: str) -> Column:
    """An fp64 constant, also ``NaN``, ``Infinity``."""
    return F.lit(text).cast("double")


def failure(code: str, text: str) -> Column:
    """An expression that fails the batch with a code and a text."""
    return F.raise_error(F.lit(f"[{code}] {text}"))


def any_null(columns: tuple[Column, ...]) -> Column:
    """Whether any of the columns is null."""
    found = columns[0].isNull()
    for column in columns[1:]:
        found = found | column.isNull()
    return found
