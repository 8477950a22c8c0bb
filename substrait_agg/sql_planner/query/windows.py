"""Let SQL call windows over time: register them in DataFusion, and read their calls in its plans.

DataFusion needs only the types of a function to plan a call. A function that it would compute while
it plans, such as a window of a constant, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from substrait_agg.functions.windows import GROUPING_WINDOWS, WINDOWS
from substrait_agg.sql_planner.query.tokens import QueryText, Token

if TYPE_CHECKING:
    from datafusion import SessionContext

BOUNDS = {"window_start": 0, "window_end": 1}
"""Function of SQL that returns a bound of a window -> position of the bound in the window."""

FIELDS = ("start", "end")
"""Names of the bounds in SQL: ``w['start']``, ``w.end``."""

_TIMES = (pa.timestamp("us"), pa.timestamp("us", "UTC"))


def register_windows(
    context: SessionContext, query: QueryText, tables: Mapping[Any, pa.Schema]
) -> None:
    """Register the functions of windows that a query calls.

    A function of DataFusion that Python registers has one list of types. So all windows of a query
    are over times of one type: that of all times in the tables if it is only one.

    Raises:
        SqlRefused: SQL_TYPES: a window function is called with different numbers of arguments.
    """
    calls = list(_calls(query.tokens))
    if not calls:
        return
    from datafusion import udf

    time = _time_type(query.tokens, tables)
    span, window = pa.month_day_nano_interval(), window_type(time)
    counts: dict[str, int] = {}
    for token, count in calls:
        name = token.text.lower()
        if name in BOUNDS:
            continue
        if counts.setdefault(name, count) != count:
            message = f"{name} is called with {counts[name]} and with {count} arguments"
            help = "give the same number of arguments in each call; the offset is INTERVAL '0 seconds' by default"
            raise query.refused_token("SQL_TYPES", token, message, help)
    for name, count in counts.items():
        result = time if name.endswith(("_start", "_end")) else window
        kind = "volatile" if name in GROUPING_WINDOWS else "immutable"
        types = [time, *[span] * (count - 1)]
        context.register_udf(udf(_not_computed, types, result, kind, name=name))
    for name in BOUNDS:
        context.register_udf(udf(_not_computed, [window], time, "immutable", name=name))


def window_type(time: pa.DataType) -> pa.DataType:
    """Return the type of a window over times of a type."""
    return pa.struct([pa.field(name, time) for name in FIELDS])


def _not_computed(*_: Any) -> NoReturn:
    raise ValueError("a window function needs a column of times, not a constant")


def _time_type(calls: Sequence[Token], tables: Mapping[Any, pa.Schema]) -> pa.DataType:
    """Return the type of the times in the calls: that of the columns they name, or of all columns."""
    schemas = list(tables.values())
    types = {t for schema in schemas for t in schema.types if pa.types.is_timestamp(t)}
    if len(types) > 1:
        names = {token.name for token in _first_arguments(calls)}
        types = {s.field(n).type for s in schemas for n in names & set(s.names)} & types
    return next(iter(types)) if len(types) == 1 else _TIMES[0]


def _first_arguments(calls: Sequence[Token]) -> Iterator[Token]:
    """Yield the last names of the columns that are first arguments of the calls."""
    for number, token in enumerate(calls):
        if token.is_word(*WINDOWS):
            place = number + 2
            while place + 2 < len(calls) and calls[place + 1].text == ".":
                place += 2
            yield from calls[place : place + 1]


def _calls(words: Sequence[Token]) -> Iterator[tuple[Token, int]]:
    """Yield each call of a window function, and its number of arguments."""
    for number, token in enumerate(words[:-1]):
        if token.is_word(*WINDOWS, *BOUNDS) and words[number + 1].text == "(":
            yield token, _arguments(words[number + 1 :])


def _arguments(rest: Sequence[Token]) -> int:
    depth, count = 0, 1
    for token in rest:
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if depth == 0:
            break
        count += depth == 1 and token.text == ","
    return count
