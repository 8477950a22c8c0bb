"""Compute arithmetic: integers that fail on overflow, floats as in IEEE 754, exact decimals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.bind.bound import Call
from substrait_agg.evaluation import decimals
from substrait_agg.evaluation.columns import Numbers, null_unless, per_value
from substrait_agg.evaluation.constants import arrow_type
from substrait_agg.evaluation.kernels import (
    Kernel,
    KernelArguments,
    Kernels,
    Takes,
    all_of,
    constant_of,
    option,
    with_options,
)
from substrait_agg.plan.arrow import MAX_DECIMAL_PRECISION
from substrait_agg.plan.types import SIGNED

_FLOATS = ("fp32", "fp64")
_ALL_WHOLE_FROM = float(2**52)
"""From this magnitude on, every fp64 is a whole number."""
Params = decimals.Params


def _params(call: Call, ordinal: int) -> Params:
    precision, scale = call.arguments[ordinal].type.params
    return precision, scale


def _target(call: Call) -> Params:
    precision, scale = call.type.params
    return precision, scale


def _one_type(*kinds: str) -> Takes:
    """Return a test that arguments and result have the same type, of one of these kinds."""

    def takes(call: Call) -> bool:
        """Return whether the kernel computes a call."""
        types = {arrow_type(t) for t in (call.type, *(a.type for a in call.arguments))}
        return all_of(*kinds)(call) and len(types) == 1

    return takes


_EXACT_INTEGERS = with_options(_one_type(*SIGNED), overflow=("ERROR",))
_SAME_FLOATS = _one_type(*_FLOATS)
_DECIMALS = all_of("decimal")


def _integers(operate: Callable[..., pa.Array]) -> Kernel:
    return Kernel(_EXACT_INTEGERS, lambda args: operate(*args.columns))


def _floats(operate: Callable[..., Numbers]) -> Kernel:
    return Kernel(_SAME_FLOATS, lambda args: per_value(operate, args.result, *args.columns))


def _decimal(operate: Callable[[pa.Array, pa.Array, Params], pa.Array]) -> Kernel:
    return Kernel(_DECIMALS, lambda args: operate(args[0], args[1], _target(args.call)))


def _divisor(args: KernelArguments, *options: str) -> pa.Array:
    """Return the divisor, with null instead of zero if the value of an option is NULL."""
    if not any(option(args.call, name) == "NULL" for name in options):
        return args[1]
    if pa.types.is_decimal(args[1].type):
        return null_unless(pc.invert(decimals.is_zero(args[1])), args[1])
    return null_unless(pc.not_equal(args[1], pa.scalar(0, args[1].type)), args[1])


def _divide_integers(args: KernelArguments) -> pa.Array:
    return pc.divide_checked(args[0], _divisor(args, "ON_DIVISION_BY_ZERO", "ON_DOMAIN_ERROR"))


def _modulus_integers(args: KernelArguments) -> pa.Array:
    by = _divisor(args, "ON_DOMAIN_ERROR")
    by_zero = pc.equal(by, pa.scalar(0, by.type))
    if pc.any(pc.and_(by_zero, pc.is_valid(args[0]))).as_py():
        raise pa.ArrowInvalid("remainder by zero")
    return per_value(np.fmod, args.result, args[0], by)


def _divide_floats(args: KernelArguments) -> pa.Array:
    def quotient(x: Numbers, y: Numbers) -> Numbers:
        """Divide in 64 bits, then round to the type."""
        result: Numbers = x.astype(np.float64) / y.astype(np.float64)
        return result.astype(x.dtype)

    by = args[1]
    if option(args.call, "ON_DIVISION_BY_ZERO") == "NULL":
        by = null_unless(pc.not_equal(by, pa.scalar(0, by.type)), by)
    return per_value(quotient, args.result, args[0], by)


def _can_divide(call: Call) -> bool:
    return _DECIMALS(call) and decimals.can_divide(
        _params(call, 0), _params(call, 1), _target(call)
    )


def _can_take_remainder(call: Call) -> bool:
    return _DECIMALS(call) and decimals.can_take_remainder(_params(call, 0), _params(call, 1))


def _divide_decimals(args: KernelArguments) -> pa.Array:
    return decimals.divide(args[0], _divisor(args, "ON_DIVISION_BY_ZERO"), _target(args.call))


def _modulus_decimals(args: KernelArguments) -> pa.Array:
    return decimals.modulus(args[0], _divisor(args, "ON_DOMAIN_ERROR"), _target(args.call))


def _to_fitting(operate: Callable[[pa.Array], pa.Array]) -> Kernel:
    """Return a kernel of a function of one decimal."""
    return Kernel(
        _DECIMALS,
        lambda args: decimals.fit(operate(decimals.wide(args[0])), _target(args.call)),
    )


def _whole_floats(round_: Callable[[Numbers], Numbers]) -> Kernel:
    def compute(x: Numbers) -> Numbers:
        """Round to a whole number; greater floats are whole already."""
        # Spark's result is an integer, which has no negative zero.
        return np.where(np.abs(x) < _ALL_WHOLE_FROM, round_(x) + x.dtype.type(0), x)

    return Kernel(_SAME_FLOATS, lambda args: per_value(compute, args.result, args[0]))


_IDENTITY = Kernel(_one_type(*SIGNED), lambda args: args[0])

_ROUNDING = {
    "TIE_AWAY_FROM_ZERO": "half_towards_infinity",
    "TIE_TO_EVEN": "half_to_even",
    "TRUNCATE": "towards_zero",
    "CEILING": "up",
    "FLOOR": "down",
    "AWAY_FROM_ZERO": "towards_infinity",
    "TIE_DOWN": "half_down",
    "TIE_UP": "half_up",
    "TIE_TOWARDS_ZERO": "half_towards_zero",
    "TIE_TO_ODD": "half_to_odd",
}
"""Value of the option ROUNDING -> Arrow's rounding mode."""


def _digits(call: Call) -> int | None:
    """Return the constant number of fraction digits that a call rounds to; None without one."""
    return 0 if len(call.arguments) == 1 else constant_of(call, 1)


def _read_rounding(call: Call) -> str:
    return option(call, "ROUNDING", "TIE_AWAY_FROM_ZERO")


def _rounds_fraction(call: Call) -> bool:
    digits = _digits(call)
    if (
        digits is None
        or digits < 0
        or not call.type.kind == call.arguments[0].type.kind == "decimal"
    ):
        return False
    # On Spark, the multiples around a number of 38 digits may not fit a decimal.
    precision, _ = _params(call, 0)
    nearest = _read_rounding(call) in ("TIE_AWAY_FROM_ZERO", "TIE_TO_EVEN")
    return nearest or precision < MAX_DECIMAL_PRECISION


def _round(args: KernelArguments) -> pa.Array:
    column, digits = decimals.wide(args[0]), _digits(args.call) or 0
    if digits < column.type.scale:
        column = pc.round(column, digits, _ROUNDING[_read_rounding(args.call)])
    return decimals.fit(column, _target(args.call))


def _integer_sign(x: Numbers) -> Numbers:
    return np.sign(x)


def _takes_root(call: Call) -> bool:
    floating = call.arguments[0].type.kind in _FLOATS and _SAME_FLOATS(call)
    return floating or (call.arguments[0].type.kind in SIGNED and call.type.kind == "fp64")


def _root(args: KernelArguments) -> pa.Array:
    def root(x: Numbers) -> Numbers:
        """Take the root in 64 bits, then round to the type."""
        result: Numbers = np.sqrt(x.astype(np.float64))
        return result.astype(args.result.to_pandas_dtype())

    return per_value(root, args.result, args[0])


NUMBERS: Kernels = {
    "add": (_integers(pc.add_checked), _floats(np.add), _decimal(decimals.add)),
    "subtract": (
        _integers(pc.subtract_checked), _floats(np.subtract), _decimal(decimals.subtract)
    ),
    "multiply": (
        _integers(pc.multiply_checked), _floats(np.multiply), _decimal(decimals.multiply)
    ),
    "divide": (
        Kernel(_EXACT_INTEGERS, _divide_integers),
        Kernel(_SAME_FLOATS, _divide_floats),
        Kernel(_can_divide, _divide_decimals),
    ),
    "modulus": (
        Kernel(
            with_options(_EXACT_INTEGERS, division_type=("TRUNCATE",)),
            _modulus_integers,
        ),
        Kernel(_can_take_remainder, _modulus_decimals),
    ),
    "negate": (_integers(pc.negate_checked), _floats(np.negative), _to_fitting(pc.negate)),
    "abs": (_integers(pc.abs_checked), _floats(np.abs), _to_fitting(pc.abs)),
    "sqrt": (Kernel(with_options(_takes_root, on_domain_error=("NAN",)), _root),),
    "sign": (Kernel(_one_type(*SIGNED), lambda args: per_value(_integer_sign, args.result, args[0])),),
    "ceil": (_IDENTITY, _whole_floats(np.ceil), _to_fitting(pc.ceil)),
    "floor": (_IDENTITY, _whole_floats(np.floor), _to_fitting(pc.floor)),
    "round": (Kernel(_rounds_fraction, _round),),
}  # fmt: skip
