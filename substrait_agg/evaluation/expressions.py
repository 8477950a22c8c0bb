"""Evaluate bound expressions on Arrow columns.

An expression is compiled to an evaluator: a function of rows. As on Spark, the values of a
condition are not computed where the condition is not true, nor later terms of a conjunction where
an earlier one is false, so that they cannot fail there.

Where an argument of a function is null, Spark computes the other arguments in some cases only.
Here they are always computed, so an evaluation fails for all values for which Spark fails. It may
fail for others, in expressions that can fail in several places, and where a kernel leaves values to
Spark. Then Spark computes the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.bind.bound import (
    BoundNestedValue,
    Call,
    Column,
    Conditional,
    Constant,
    Conversion,
    Expr,
    InList,
    NestedPart,
)
from substrait_agg.bind.joins.failing import operation_can_fail
from substrait_agg.bind.rewrite import subexpressions
from substrait_agg.errors import RunFailed
from substrait_agg.evaluation.columns import Mask, Rows, null_unless, refuse_value, scatter
from substrait_agg.evaluation.comparisons import COMPARISONS, comparable, equal, is_in
from substrait_agg.evaluation.constants import MAX_DIGITS, arrow_type, scalar
from substrait_agg.evaluation.conversions import cast_of, fold
from substrait_agg.evaluation.kernels import Kernel, KernelArguments, Kernels
from substrait_agg.evaluation.numbers import NUMBERS
from substrait_agg.evaluation.texts import TEXT
from substrait_agg.evaluation.times import MOVES, TIME, WINDOWS
from substrait_agg.plan.types import Type


@dataclass(frozen=True, slots=True)
class Evaluator:
    """A compiled expression.

    Attributes:
        compute: returns the values of rows.
        fails: whether it can fail for some values.
    """

    compute: Callable[[Rows], pa.Array]
    fails: bool = False

    def where(self, rows: Rows, selected: Mask) -> pa.Array:
        """Return the values where `selected` is true; elsewhere any values, which never fail."""
        if not self.fails or selected.all():
            return self.compute(rows)
        ordinals = pa.array(np.flatnonzero(selected))
        return scatter(self.compute(rows.at(ordinals)), ordinals, rows.count)


class ExpressionFailed(RunFailed):
    """The value of an expression cannot be computed."""

    def __init__(self, error: RunFailed, expression: Expr) -> None:
        super().__init__(error.code, error.message, help=error.help, path=error.path)
        self.expression = expression


class _Unsupported(Exception):
    """Raised during compilation if an expression is not supported."""


def supports(expr: Expr) -> bool:
    """Return whether `evaluate` computes an expression as Spark does; it may fail where Spark does not."""
    try:
        _compile(expr)
    except _Unsupported:
        return False
    return True


def supports_all_values(expr: Expr) -> bool:
    """Return whether `evaluate` computes an expression for all values for which Spark does."""
    kernels = (_kernel(part) for part in subexpressions(expr) if isinstance(part, Call))
    return supports(expr) and all(kernel is None or kernel.all_values for kernel in kernels)


def evaluate(expr: Expr, columns: Sequence[pa.Array], rows: int) -> pa.Array:
    """Return the values of an expression that `supports` accepts.

    Args:
        expr: the expression.
        columns: the columns that its ordinals refer to, in the types of `plan.arrow.to_arrow`.
        rows: number of rows.

    Returns:
        An array of `rows` values in the Arrow type of the expression's type.

    Raises:
        ExpressionFailed: ``BATCH_FAILED``, if Spark fails for these values or may fail.
    """
    try:
        return _compile(expr).compute(Rows(columns, rows))
    except RunFailed as error:
        raise ExpressionFailed(error, expr) from error


def _compile(expr: Expr) -> Evaluator:
    compile_ = _COMPILE.get(type(expr))
    if compile_ is None or arrow_type(expr.type) is None:
        raise _Unsupported
    return compile_(expr)


def _type(expr: Expr) -> pa.DataType:
    return arrow_type(expr.type)


def _true(column: pa.Array) -> Mask:
    """Return where a boolean column is true."""
    mask: Mask = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return mask


def _mask_known(column: pa.Array) -> Mask:
    mask: Mask = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return mask


def _column(expr: Column) -> Evaluator:
    return Evaluator(lambda rows: rows.column(expr.ordinal))


def _constant(expr: Constant) -> Evaluator:
    value = scalar(expr)
    if value is None:
        raise _Unsupported
    # Arrow repeats no list zero times.
    return Evaluator(lambda rows: pa.repeat(value, max(rows.count, 1))[: rows.count])


def _field(expr: NestedPart) -> Evaluator:
    """Compile a reference to a field of a struct."""
    if expr.input.type.kind != "struct":
        raise _Unsupported
    whole = _compile(expr.input)
    return Evaluator(lambda rows: pc.struct_field(whole.compute(rows), [expr.step]), whole.fails)


def _struct(expr: BoundNestedValue) -> Evaluator:
    """Compile a struct of expressions."""
    type_ = _type(expr)
    if expr.type.kind != "struct":
        raise _Unsupported
    parts = [_compile(part) for part in expr.parts]
    return Evaluator(
        lambda rows: pa.StructArray.from_arrays([p.compute(rows) for p in parts], fields=[*type_]),
        any(part.fails for part in parts),
    )


def _guard(what: str, compute: Callable[[], pa.Array]) -> pa.Array:
    try:
        return compute()
    except (pa.ArrowInvalid, OverflowError) as error:
        raise refuse_value(what, str(error)) from error


def _in_steps(expr: Call) -> Expr:
    """Return a point in time plus or minus a constant of months, days and a clock time as one step for each."""
    interval = expr.arguments[-1]
    if interval.type.kind != "interval_compound":
        return expr
    value = interval.value if isinstance(interval, Constant) else None
    digits = interval.type.params[0] if interval.type.params else MAX_DIGITS
    if value is None or len(expr.arguments) != 2:
        raise _Unsupported
    months, days, ticks = value
    micros, finer = divmod(ticks * 10**MAX_DIGITS, 10**digits)
    if finer:
        raise _Unsupported
    moved = expr.arguments[0]
    if months:
        by_months = Constant(Type("interval_year"), months)
        moved = replace(expr, type=moved.type, arguments=(moved, by_months))
    if not months or days or micros or moved.type.kind != expr.type.kind:
        by_days = Constant(Type("interval_day", params=(MAX_DIGITS,)), (days, micros))
        moved = replace(expr, arguments=(moved, by_days))
    return moved


def _kernel(expr: Call) -> Kernel | None:
    return next((k for k in KERNELS.get(expr.function, ()) if k.takes(expr)), None)


def _call(expr: Call) -> Evaluator:
    if expr.function in MOVES and expr.arguments:
        steps = _in_steps(expr)
        if steps is not expr:
            return _compile(steps)
    lazy = LAZY.get(expr.function)
    if lazy is not None:
        if any(_type(a) != _type(expr) for a in expr.arguments):
            raise _Unsupported
        parts = [_compile(a) for a in expr.arguments]
        return Evaluator(lambda rows: lazy(parts, rows), any(p.fails for p in parts))
    kernel = _kernel(expr)
    if kernel is None:
        raise _Unsupported
    parts = [_compile(a) for a in expr.arguments]

    def compute(rows: Rows) -> pa.Array:
        """Compute the arguments, then the function; an error names the function."""
        columns = tuple(part.compute(rows) for part in parts)
        arguments = KernelArguments(expr, columns, rows.count)
        return _guard(expr.function, lambda: kernel.compute(arguments))

    return Evaluator(compute, operation_can_fail(expr) or any(p.fails for p in parts))


def _conjunction(parts: Sequence[Evaluator], rows: Rows) -> pa.Array:
    result = parts[0].compute(rows)
    for part in parts[1:]:
        undecided = _true(pc.fill_null(result, True))
        result = pc.and_kleene(result, part.where(rows, undecided))
    return result


def _disjunction(parts: Sequence[Evaluator], rows: Rows) -> pa.Array:
    result = parts[0].compute(rows)
    for part in parts[1:]:
        result = pc.or_kleene(result, part.where(rows, ~_true(result)))
    return result


def _and_not(parts: Sequence[Evaluator], rows: Rows) -> pa.Array:
    result = parts[0].compute(rows)
    other = parts[1].where(rows, _true(pc.fill_null(result, True)))
    return pc.and_kleene(result, pc.invert(other))


def _coalesce(parts: Sequence[Evaluator], rows: Rows) -> pa.Array:
    result = parts[0].compute(rows)
    for part in parts[1:]:
        result = pc.coalesce(result, part.where(rows, ~_mask_known(result)))
    return result


def _conversion(expr: Conversion) -> Evaluator:
    constant = fold(expr)
    if constant is not None:
        return _constant(constant)
    cast = cast_of(expr)
    if cast is None:
        raise _Unsupported
    part = _compile(expr.input)
    return Evaluator(
        lambda rows: _guard("cast", lambda: cast(part.compute(rows), expr)),
        part.fails or operation_can_fail(expr),
    )


def _conditional(expr: Conditional) -> Evaluator:
    values = [*(value for _, value in expr.clauses), expr.otherwise]
    if any(_type(value) != _type(expr) for value in values):
        raise _Unsupported
    clauses = [(_compile(c), _compile(v)) for c, v in expr.clauses]
    otherwise = _compile(expr.otherwise)

    def compute(rows: Rows) -> pa.Array:
        """Evaluate each value only for the rows whose first true condition selects it."""
        rest = np.ones(rows.count, np.bool_)
        branches: list[tuple[Mask, pa.Array]] = []
        for condition, value in clauses:
            holds = rest & _true(condition.where(rows, rest))
            branches.append((holds, value.where(rows, holds)))
            rest = rest & ~holds
        result = otherwise.where(rows, rest)
        for holds, value_ in reversed(branches):
            result = pc.if_else(pa.array(holds), value_, result)
        return result

    parts = [otherwise, *(part for clause in clauses for part in clause)]
    return Evaluator(compute, any(part.fails for part in parts))


def _in_list(expr: InList) -> Evaluator:
    if not expr.options:
        return Evaluator(lambda rows: pa.repeat(pa.scalar(False), rows.count))
    types = {_type(part) for part in (expr.value, *expr.options)}
    if len(types) > 1 or not comparable(_type(expr.value)):
        raise _Unsupported
    value = _compile(expr.value)
    constants = [scalar(o) if isinstance(o, Constant) else None for o in expr.options]
    if all(constant is not None for constant in constants):
        options = pa.concat_arrays([pa.repeat(constant, 1) for constant in constants])
        return Evaluator(lambda rows: is_in(value.compute(rows), options), value.fails)
    parts = [value, *map(_compile, expr.options)]
    return Evaluator(lambda rows: _in_turn_equal(parts, rows), any(p.fails for p in parts))


def _in_turn_equal(parts: Sequence[Evaluator], rows: Rows) -> pa.Array:
    """Return whether the first value equals one of the others, which are evaluated in turn."""
    value = parts[0].compute(rows)
    equals = pa.repeat(pa.scalar(False), rows.count)
    for part in parts[1:]:
        undecided = _mask_known(value) & ~_true(equals)
        equals = pc.or_kleene(equals, equal(value, part.where(rows, undecided)))
    return null_unless(pc.is_valid(value), equals)


Lazy = Callable[[Sequence[Evaluator], Rows], pa.Array]

LAZY: dict[str, Lazy] = {
    "and": _conjunction,
    "or": _disjunction,
    "and_not": _and_not,
    "coalesce": _coalesce,
}
"""Functions that evaluate an argument only where the earlier ones do not decide the result."""


def _merge_kernels(*tables: Kernels) -> dict[str, tuple[Kernel, ...]]:
    names = {name for table in tables for name in table}
    return {name: tuple(k for t in tables for k in t.get(name, ())) for name in names}


KERNELS = _merge_kernels(COMPARISONS, NUMBERS, TEXT, TIME, MOVES, WINDOWS)
"""Function -> its kernels, for functions that evaluate all arguments."""

_COMPILE: dict[type, Callable[[Any], Evaluator]] = {
    Column: _column,
    Constant: _constant,
    NestedPart: _field,
    BoundNestedValue: _struct,
    Call: _call,
    Conversion: _conversion,
    Conditional: _conditional,
    InList: _in_list,
}
"""Class of an expression -> its compiler."""
