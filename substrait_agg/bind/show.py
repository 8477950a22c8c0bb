"""Format bound expressions as SQL-like text, with column names where they are known.

The syntax is stated here once: the ``..._text`` functions also write the messages of a plan (`report.tree`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

from substrait_agg.bind.bound import (
    BoundLambda,
    BoundNestedValue,
    Call,
    Column,
    Conditional,
    Constant,
    Conversion,
    Expr,
    InList,
    LambdaParameter,
    NestedPart,
    OuterColumn,
)
from substrait_agg.escape import ELIDED, clip
from substrait_agg.functions.scalars.catalogue import SCALARS
from substrait_agg.functions.spark_sql import SPARK_SQL
from substrait_agg.plan.types import Type

_ALL_DIGITS = Context(prec=38)
"""What keeps all digits of a decimal."""

_PART = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|\bc(\d+)\b")
"""A quoted text, or a column in the text of an expression that Spark computes."""

INTERVAL_UNITS: dict[str, tuple[str, ...]] = {
    "interval_year": ("MONTHS",),
    "interval_day": ("DAYS", "clock"),
    "interval_compound": ("MONTHS", "DAYS", "clock"),
}

LONGEST = 500
"""Maximum number of characters of a name or constant in the text."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def show(expression: Expr, names: Sequence[str] = ()) -> str:
    """Return the expression as text.

    Args:
        expression: an expression over a row whose columns have the names `names`.
        names: column names; a column without one appears as ``#ordinal``.
    """
    match expression:
        case Column(ordinal=ordinal):
            return clip(names[ordinal], LONGEST) if ordinal < len(names) else f"#{ordinal}"
        case Constant():
            return constant_text(expression.type, expression.value)
        case Call():
            return _call(expression, names)
        case Conversion(type=type_, input=inner, null_on_failure=to_null):
            target = str(type_.as_nullable(False))
            return cast_text(show(inner, names), target, null_on_failure=to_null)
        case NestedPart(input=inner, step=step):
            part = str(step) if isinstance(step, int) else show(step, names)
            return f"{show(inner, names)}[{part}]"
        case Conditional(clauses=clauses, otherwise=otherwise):
            whens = [(show(c, names), show(v, names)) for c, v in clauses]
            return case_text(whens, show(otherwise, names))
        case InList(value=value, options=options):
            return in_text(show(value, names), ", ".join(show(o, names) for o in options))
        case OuterColumn(ordinal=ordinal):
            return f"outer.{ordinal}"
        case BoundNestedValue() | BoundLambda() | LambdaParameter():
            return _value(expression, names)


def _value(
    expression: BoundNestedValue | BoundLambda | LambdaParameter, names: Sequence[str]
) -> str:
    match expression:
        case BoundLambda(body=body):
            return f"(x -> {show(body, names)})"
        case LambdaParameter(steps_out=out, ordinal=ordinal):
            return "x" + (f"{ordinal}" if ordinal else "") + "^" * out
        case BoundNestedValue(type=type_, parts=inner_parts):
            return nested_text(type_.kind, ", ".join(show(p, names) for p in inner_parts))


def _call(call: Call, names: Sequence[str]) -> str:
    words = [show(a, names) for a in call.arguments]
    arguments = [_inside(a, word) for a, word in zip(call.arguments, words, strict=True)]
    symbolic = _with_symbol(call, arguments)
    if symbolic:
        return symbolic
    if call.function == SPARK_SQL:
        return _spark_sql(call, arguments[1:])
    for position, word in call.enums:
        words.insert(position, word)
    return f"{call.function}({', '.join(words)})"


def _with_symbol(call: Call, operands: Sequence[str]) -> str:
    row = SCALARS.get(call.function)
    return row.write(operands) if row is not None else ""


def _spark_sql(call: Call, columns: Sequence[str]) -> str:
    """Return the text of the expression, with its columns in the place of ``c0``, ``c1``, ..."""
    text = call.arguments[0]
    written = str(text.value) if isinstance(text, Constant) else ""

    def column(part: re.Match[str]) -> str:
        return columns[int(part[1])] if part[1] and int(part[1]) < len(columns) else part[0]

    return _PART.sub(column, clip(written, LONGEST))


def _inside(expression: Expr, text: str) -> str:
    symbolic = isinstance(expression, Call) and _with_symbol(
        expression, ["_"] * len(expression.arguments)
    )
    return f"({text})" if symbolic or isinstance(expression, InList) else text


def cast_text(inner: str, target: str, *, null_on_failure: bool = False) -> str:
    """Return a conversion to a type."""
    return f"{'TRY_' if null_on_failure else ''}CAST({inner} AS {target})"


def case_text(whens: Iterable[tuple[str, str]], otherwise: str = "", match: str = "") -> str:
    """Return a choice: conditions, or values of `match`, with their results."""
    words = ["CASE", match, *(f"WHEN {when} THEN {then}" for when, then in whens)]
    return " ".join(filter(None, (*words, otherwise and f"ELSE {otherwise}", "END")))


def in_text(value: str, options: str) -> str:
    """Return a search of a value among options."""
    return f"{value} IN ({options})"


def nested_text(kind: str, parts: str) -> str:
    """Return a list, struct or map of its parts."""
    return f"{kind.upper()}({parts})"


def constant_text(type_: Type, value: Any, limit: int = LONGEST) -> str:
    """Return a constant.

    Args:
        type_: its type; messages of a plan give only its kind and its parameters.
        value: as in `plan.model.Literal`.
        limit: characters of a text, and bytes, that are written.
    """
    kind = type_.kind
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if kind == "decimal":
        return f"{Decimal(value).scaleb(-type_.params[1], _ALL_DIGITS):f}"
    if kind == "date":
        return f"DATE '{_day(value)}'"
    if kind in ("precision_timestamp", "precision_timestamp_tz"):
        return f"TIMESTAMP '{_instant(value, type_.params[0])}'"
    if kind in INTERVAL_UNITS:
        amounts = value if isinstance(value, tuple) else (value,)
        return _interval(amounts, INTERVAL_UNITS[kind], (*type_.params, 6)[0])
    if isinstance(value, str):
        return quote(value, limit)
    return hexadecimal(value, limit) if isinstance(value, bytes) else clip(str(value), limit)


def quote(text: str, limit: int) -> str:
    """Return a string in single quotes, cut if it is long."""
    return "'" + clip(text, limit).replace("'", "''") + "'"


def hexadecimal(value: bytes, limit: int) -> str:
    """Return bytes as hexadecimal text, cut if they are long.

    >>> hexadecimal(b"ab", 9)
    "X'6162'"
    """
    more = f"{ELIDED} {len(value) - limit:,} more bytes" if len(value) > limit else ""
    return f"X'{value[:limit].hex()}{more}'"


def _interval(amounts: tuple[int, ...], units: tuple[str, ...], digits: int) -> str:
    said = [_amount(n, unit) for n, unit in zip(amounts, units, strict=False) if n]
    if len(amounts) > 1 and amounts[-1]:
        said = said[:-1] + _clock(amounts[-1], digits)
    return f"INTERVAL '{' '.join(said) or '0 DAYS'}'"


def _clock(ticks: int, digits: int) -> list[str]:
    """Return ticks of 10^-digits seconds as hours, minutes and seconds."""
    minutes, rest = divmod(abs(ticks), 60 * 10**digits)
    amounts = (*divmod(minutes, 60), Decimal(rest).scaleb(-digits).normalize())
    sign = "-" if ticks < 0 else ""
    units = zip(amounts, ("HOURS", "MINUTES", "SECONDS"), strict=True)
    return [sign + _amount(n, unit) for n, unit in units if n]


def _amount(number: int | Decimal, unit: str) -> str:
    written = f"{number:f}" if isinstance(number, Decimal) else str(number)
    return f"{written} {unit.removesuffix('S') if abs(number) == 1 else unit}"


def _day(days: int) -> str:
    try:
        return str(date(1970, 1, 1) + timedelta(days=days))
    except OverflowError:
        return f"1970-01-01 {days:+d} days"


def _instant(ticks: int, digits: int) -> str:
    seconds, rest = divmod(ticks, 10**digits)
    try:
        second = (EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None)
    except OverflowError:
        return f"1970-01-01 {ticks:+d} x 10^-{digits} s"
    return f"{second}.{rest:0{digits}d}" if rest else str(second)
