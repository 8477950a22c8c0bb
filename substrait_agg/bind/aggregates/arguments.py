"""Match the arguments of a measure with the parameters of its function.

Values are converted, constants are read, and enumeration words become options.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import pack
from typing import Any

from substrait_agg.bind.bound import Argument, Constant, Conversion, Expr
from substrait_agg.bind.context import Schema
from substrait_agg.bind.conversions import convert
from substrait_agg.functions.aggregates.row import AggregateFunction, FunctionParameter
from substrait_agg.functions.aggregates.types import (
    ALL_NUMBERS,
    INTEGERS,
    LEAST_DEVIATION,
    MOST_DEVIATION,
)
from substrait_agg.functions.signatures.derive import FLOATS, TEXTS
from substrait_agg.plan.model import EnumArgument, TypeArgument
from substrait_agg.plan.types import FP64


@dataclass(frozen=True, slots=True)
class ConstantFault:
    """An argument for the parameter `name` that is not a constant or has an invalid value."""

    name: str
    argument: Expr
    reason: str


@dataclass(frozen=True, slots=True)
class Matched:
    """Arguments that match a function.

    Attributes:
        values: the aggregated values, converted to the types that the function takes.
        constants: values of the constant arguments, in order.
        words: (option, value) of the enumeration arguments, in upper case.
        faults: constant arguments that are not constant or have an invalid value.
        nullable_constant: whether the type of a constant argument is nullable.
        assumed: parameters of constant arguments that the plan leaves out; their defaults apply.
        state_of: types of the values whose intermediate state `values` are; None if they are the
            values.
    """

    values: tuple[Expr, ...] = ()
    constants: tuple[Any, ...] = ()
    words: tuple[tuple[str, str], ...] = ()
    faults: tuple[ConstantFault, ...] = ()
    nullable_constant: bool = False
    assumed: tuple[FunctionParameter, ...] = ()
    state_of: Schema | None = None

    @property
    def types(self) -> Schema:
        """The types of the values that are aggregated, in this phase or in an earlier one."""
        return self.state_of if self.state_of is not None else tuple(v.type for v in self.values)


Pair = tuple[FunctionParameter, Argument | None]


def match_arguments(
    row: AggregateFunction, arguments: tuple[Argument, ...], sorts: tuple[Expr, ...]
) -> Matched | None:
    """Match the arguments with a function. Return None if their number or types do not fit.

    Args:
        row: the function.
        arguments: the arguments of the plan.
        sorts: expressions of the measure's sort keys; ``WITHIN GROUP`` may give the aggregated
            value there.
    """
    pairs = _pairs(row.parameters, within_group(row, arguments, sorts))
    if pairs is None:
        return None
    values: list[Expr] = []
    constants: list[Any] = []
    words: list[tuple[str, str]] = []
    faults: list[ConstantFault] = []
    for parameter, argument in pairs:
        if isinstance(argument, EnumArgument):
            words.append((parameter.name.upper(), argument.value.upper()))
        elif parameter.role == "constant":
            _read_constant(parameter, argument, constants, faults)
        elif argument is not None and not isinstance(argument, TypeArgument):
            values.append(_as_taken(parameter, argument))
    assumed = (p for p, a in pairs if a is None and p.default is not None)
    nullable = any(p.role == "constant" and a is not None and _nullable(a) for p, a in pairs)
    return Matched(
        tuple(values), tuple(constants), tuple(words), tuple(faults), nullable, tuple(assumed)
    )


def _nullable(argument: Argument) -> bool:
    return not isinstance(argument, EnumArgument | TypeArgument) and argument.type.nullable


def within_group(
    row: AggregateFunction, arguments: tuple[Argument, ...], sorts: tuple[Expr, ...]
) -> tuple[Argument, ...]:
    """Put the aggregated value first if only the sort key contains it."""
    first = row.parameters[0] if row.parameters else None
    if first is None or first.role != "value" or not row.order_on_argument or len(sorts) != 1:
        return arguments
    required = sum(not p.optional for p in row.parameters)
    return (sorts[0], *arguments) if len(arguments) == required - 1 else arguments


def _pairs(
    parameters: tuple[FunctionParameter, ...], arguments: tuple[Argument, ...]
) -> tuple[Pair, ...] | None:
    pairs: list[Pair] = []
    rest = list(arguments)
    for parameter in parameters:
        if rest and fits(parameter, rest[0]):
            pairs.append((parameter, rest.pop(0)))
            while parameter.repeats and rest and fits(parameter, rest[0]):
                pairs.append((parameter, rest.pop(0)))
        elif parameter.optional:
            pairs.append((parameter, None))
        else:
            return None
    return None if rest else tuple(pairs)


def fits(parameter: FunctionParameter, argument: Argument) -> bool:
    """Return whether an argument is accepted for a parameter. Constants are checked later."""
    if isinstance(argument, EnumArgument):
        words = parameter.words
        return parameter.role == "enum" and argument.value.upper() in words
    if isinstance(argument, TypeArgument) or parameter.role == "enum":
        return False
    if parameter.role == "constant":
        return True
    return not parameter.kinds or argument.type.kind in parameter.kinds


def _as_taken(parameter: FunctionParameter, value: Expr) -> Expr:
    if value.type.kind in parameter.as_float:
        return convert(value, FP64)
    return value


# --- constants -------------------------------------------------------------------------------


def _read_constant(
    parameter: FunctionParameter,
    argument: Argument | None,
    constants: list[Any],
    faults: list[ConstantFault],
) -> None:
    if argument is None or isinstance(argument, EnumArgument | TypeArgument):
        if parameter.default is not None:
            constants.append(parameter.default)
        return
    constant = _constant_in(argument)
    if constant is None:
        faults.append(ConstantFault(parameter.name, argument, "it is not a literal"))
        return
    try:
        value = _READERS[parameter.rule](constant)
    except ValueError as error:
        faults.append(ConstantFault(parameter.name, argument, str(error)))
        return
    if not (parameter.optional and parameter.default is None):
        constants.append(value)


def _constant_in(expression: Expr) -> Constant | None:
    """Return the literal of a constant argument, ignoring conversions that keep its value."""
    if isinstance(expression, Constant):
        return expression
    if not isinstance(expression, Conversion) or expression.null_on_failure:
        return None
    inner = _constant_in(expression.input)
    if inner is None or (expression.type.kind in FLOATS and inner.type.kind in ALL_NUMBERS):
        # A conversion to float would lose digits of the literal.
        return inner
    converted = convert(inner, expression.type)
    return converted if isinstance(converted, Constant) else None


def without_widening(expression: Expr) -> Expr:
    """Remove outer conversions between numbers. They keep the order of values."""
    while isinstance(expression, Conversion) and not expression.null_on_failure:
        kinds = (expression.type.kind, expression.input.type.kind)
        if any(kind not in ALL_NUMBERS for kind in kinds):
            break
        expression = expression.input
    return expression


def _text(constant: Constant) -> str:
    if constant.type.kind not in TEXTS or constant.value is None:
        raise ValueError("it is not a string")
    return str(constant.value)


def _integer(constant: Constant) -> int:
    if constant.type.kind not in INTEGERS or constant.value is None:
        raise ValueError("it is not an integer")
    return int(constant.value)


def _count(constant: Constant) -> int | None:
    return None if constant.value is None else _integer(constant)


def _position(constant: Constant) -> int:
    position = _integer(constant)
    if position == 0:
        raise ValueError("positions start at 1, or at -1 from the end")
    return position


def _size(constant: Constant) -> int:
    size = _integer(constant)
    if size < 1:
        raise ValueError("it is below 1")
    return size


def _fraction(constant: Constant) -> float:
    kind, value = constant.type.kind, constant.value
    if kind not in ALL_NUMBERS or value is None:
        raise ValueError("it is not a number")
    fraction = value / 10 ** constant.type.params[1] if kind == "decimal" else float(value)
    if not 0 <= fraction <= 1:
        raise ValueError("it is not between 0 and 1")
    return _as_written(fraction) if kind == "fp32" else float(fraction)


def _deviation(constant: Constant) -> float:
    deviation = _fraction(constant)
    if not LEAST_DEVIATION <= deviation <= MOST_DEVIATION:
        raise ValueError(f"it is not between {LEAST_DEVIATION} and {MOST_DEVIATION}")
    return deviation


def _as_written(value: float) -> float:
    """Return the shortest decimal number that denotes this fp32: 0.3, not 0.30000001192092896."""
    packed = pack("f", value)
    shortest = (float(f"{value:.{digits}g}") for digits in range(1, 10))
    return next(number for number in shortest if pack("f", number) == packed)


_READERS: dict[str, Callable[[Constant], Any]] = {
    "text": _text,
    "integer": _integer,
    "count": _count,
    "position": _position,
    "size": _size,
    "fraction": _fraction,
    "deviation": _deviation,
}
"""Rule of a constant parameter -> reader of the literal.

Readers raise ValueError with the reason.
"""
