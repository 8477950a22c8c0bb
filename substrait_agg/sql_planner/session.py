"""Set DataFusion up to plan queries over tables of given schemas, and refuse what it would read otherwise than SQL."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from substrait_agg.bind.bound import Conversion
from substrait_agg.errors import SqlRefused
from substrait_agg.optional_packages import require
from substrait_agg.plan.arrow import MAX_DECIMAL_PRECISION
from substrait_agg.plan.plannable import plannable
from substrait_agg.report.checked_plan import Plan
from substrait_agg.sql_planner.query.names import TableNames
from substrait_agg.sql_planner.query.tokens import QueryText, Token
from substrait_agg.sql_planner.simplification import expressions_below

if TYPE_CHECKING:
    from datafusion import SessionContext

SETTINGS = {
    # A scalar subquery becomes a join; the physical form has no form in Substrait.
    "datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery": "false",
    "datafusion.sql_parser.map_string_types_to_utf8view": "false",
    "datafusion.execution.time_zone": "UTC",
    # Statistics of the empty tables must not decide anything.
    "datafusion.execution.collect_statistics": "false",
}
"""Settings of DataFusion -> value."""

DECIMAL_LITERALS = "datafusion.sql_parser.parse_float_as_decimal"
"""Setting: whether a literal such as 0.05 is a decimal, as in the standard, or a float."""

REMOVED_RULES = ("single_distinct_aggregation_to_group_by", "push_down_filter")
"""Rules of the optimizer that are not used, besides `JOIN_RULE`.

The first replaces count(DISTINCT x) by two aggregates, which cost more state than one. The others change results:
`push_down_filter` makes ``1 = x AND x = 1`` false, which joins infer, and moves a constant condition below an aggregate
that has a row without input. When a plan is bound, conditions and cross products become joins with keys anyway
(`bind.joins.normal_form`).
"""

JOIN_RULE = "eliminate_cross_join"
"""A rule of the optimizer that makes IS NOT DISTINCT FROM an equality.

It is used only for JOIN ... USING and NATURAL JOIN, which have no plan without it.
"""


def new_session(
    tables: Mapping[tuple[str, ...], pa.Schema],
    *,
    decimal_literals: bool = True,
    joins_by_name: bool = False,
) -> SessionContext:
    """Return a session of DataFusion that has tables of these schemas.

    Args:
        joins_by_name: whether `JOIN_RULE` is used.
        tables: name -> schema. A name has up to three parts: catalog, schema and table.
        decimal_literals: whether a literal such as 0.05 is a decimal, not a float.
    """
    require("datafusion")
    from datafusion import SessionConfig, SessionContext

    literals = "true" if decimal_literals else "false"
    context = SessionContext(SessionConfig({**SETTINGS, DECIMAL_LITERALS: literals}))
    for rule in REMOVED_RULES if joins_by_name else (*REMOVED_RULES, JOIN_RULE):
        context.remove_optimizer_rule(rule)
    for name, schema in tables.items():
        _create_schema(context, name)
        empty = pa.RecordBatch.from_pylist([], schema=plannable(schema))
        context.register_record_batches(".".join(map(quoted, name[-3:])), [[empty]])
    return context


def has_joins_by_name(query: QueryText) -> bool:
    """Return whether a query joins by USING or NATURAL, and `JOIN_RULE` changes no condition of it."""
    words = [token.text.lower() for token in query.tokens]
    keeps_nulls = any(pair == ("not", "distinct") for pair in pairwise(words)) or "<=>" in words
    return not keeps_nulls and not {"using", "natural"}.isdisjoint(words)


def _create_schema(context: SessionContext, name: tuple[str, ...]) -> None:
    if len(name) > 2:
        context.sql(f"CREATE DATABASE IF NOT EXISTS {quoted(name[-3])}")
    if len(name) > 1:
        folder = ".".join(map(quoted, name[-3:-1]))
        context.sql(f"CREATE SCHEMA IF NOT EXISTS {folder}")


def quoted(name: str) -> str:
    """Return a name in quotes, as SQL reads it."""
    return '"' + name.replace('"', '""') + '"'


def declared_schema(create: str, name: tuple[str, ...]) -> pa.Schema:
    """Return the columns that a CREATE TABLE statement declares.

    Raises:
        Exception: DataFusion refuses the statement.
    """
    context = new_session({})
    _create_schema(context, name)
    context.sql(create)
    return plannable(context.table(".".join(map(quoted, name))).schema())


# --- literals with a point ----------------------------------------------------------------------

# A literal with a point is a decimal in the standard, and beside a decimal column it has to be one.
# Where DataFusion combines a decimal with a float, it casts the float to a decimal of 15 digits
# after the point: this rounds small numbers, and fails for large ones, infinity and NaN.

_CAST = re.compile(r"\bDecimal128\((\d+), ?(\d+)\)")
_DIGITS_OF_FLOATS = {"fp32": 7, "fp64": 15}
"""Type -> least digits after the point of the decimals that DataFusion casts it to."""
_NUMBER_WORDS = ("decimal", "numeric", "dec")
_LARGEST = 2**64 - 1
"""The largest integer of DataFusion. It reads larger ones like literals with a point."""


def has_decimal_literals(query: QueryText, names: TableNames) -> bool:
    """Return whether literals with a point are decimals.

    They are floats only where the tables have floats, and nothing in the query is a decimal or a large integer.
    """
    types = {type_ for schema in names.schemas.values() for type_ in schema.types}
    has_decimal = any(map(pa.types.is_decimal, types))
    named = any(token.is_word(*_NUMBER_WORDS) for token in query.tokens)
    large = any(t.text.isdigit() and int(t.text) > _LARGEST for t in query.tokens)
    return has_decimal or named or large or not any(map(pa.types.is_floating, types))


def without_exponents(text: str, tokens: Sequence[Token]) -> str:
    """Return a query that writes 1e19 with its digits, and 1e100 as a float.

    DataFusion reads 1e19 as a decimal of the scale -19, which neither casts nor plans support. A decimal has no more than 38 digits.

    Args:
        text: the query.
        tokens: its tokens.
    """
    for token in reversed(tokens):
        if token.kind == "number" and "e" in token.text.lower():
            text = text[: token.start] + _without_exponent(token.text) + text[token.end :]
    return text


def _without_exponent(number: str) -> str:
    _, digits, exponent = Decimal(number).as_tuple()
    whole, fraction = max(len(digits) + int(exponent), 0), max(-int(exponent), 0)
    if whole + fraction > MAX_DECIMAL_PRECISION:
        return f"CAST('{number}' AS DOUBLE)"
    plain = format(Decimal(number), "f")
    return plain if fraction else f"{plain}."


_UNSIGNED_CALLS = (
    "row_number", "rank", "dense_rank", "ntile", "approx_distinct", "array_length", "list_length", "cardinality",
)  # fmt: skip
"""Functions whose result is an unsigned integer in DataFusion."""


def with_signed_results(text: str, tokens: Sequence[Token]) -> str:
    """Return a query that divides the results of functions that count as integers.

    DataFusion makes decimals of unsigned integers in arithmetic, so ``rank() / 2`` would be 0.5. Other
    operators have the same value for decimals.

    Args:
        text: the query.
        tokens: its tokens.
    """
    if not any(token.text == "/" for token in tokens):
        return text
    inserted: list[tuple[int, str]] = []
    for place in range(len(tokens) - 2):
        is_part = place and tokens[place - 1].text == "."
        if is_part or not tokens[place].is_word(*_UNSIGNED_CALLS) or tokens[place + 1].text != "(":
            continue
        end = _end_of_call(tokens, place)
        inserted += [(tokens[place].start, "CAST("), (tokens[end - 1].end, " AS BIGINT)")]
    for offset, added in sorted(inserted, reverse=True):
        text = text[:offset] + added + text[offset:]
    return text


def _end_of_call(tokens: Sequence[Token], place: int) -> int:
    """Return the place after a call: after its arguments, FILTER and OVER."""
    end = _after_parentheses(tokens, place + 1)
    while end + 1 < len(tokens) and tokens[end].is_word("filter", "over"):
        is_list = tokens[end + 1].text == "("
        end = _after_parentheses(tokens, end + 1) if is_list else end + 2
    return end


def _after_parentheses(tokens: Sequence[Token], opening: int) -> int:
    depth = 0
    for place in range(opening, len(tokens)):
        depth += (tokens[place].text == "(") - (tokens[place].text == ")")
        if depth == 0:
            return place + 1
    return len(tokens)


def written_decimals(logical: Any) -> Counter[tuple[int, int]]:
    """Return how often a logical plan names a decimal type, by its digits and those after the point.

    Before it is optimized, these are the types that the query writes.
    """
    matches = _CAST.finditer(logical.display_indent())
    return Counter((int(m[1]), int(m[2])) for m in matches)


def check_casts_of_floats(logical: Any, optimized: Any, content: bytes, query: QueryText) -> None:
    """Refuse a plan that casts floats to decimals although the query does not.

    Args:
        logical: the logical plan before it was optimized.
        optimized: the optimized plan.
        content: the corrected plan. It compares float columns with literals as floats.
        query: the query.

    Raises:
        SqlRefused: SQL_TYPES.
    """
    bound = Plan("", content).check().bound
    if bound is None:
        return
    written = written_decimals(logical)
    added = written_decimals(optimized) - written
    for cast in expressions_below(bound.root):
        if not isinstance(cast, Conversion) or cast.type.kind != "decimal":
            continue
        digits = _DIGITS_OF_FLOATS.get(cast.input.type.kind)
        type_ = (cast.type.params[0], cast.type.params[1])
        # The query can write the type that DataFusion casts another float to.
        if digits and (not written[type_] or (type_[1] >= digits and added[type_])):
            first = query.tokens[0]
            message = f"a float is combined with a decimal, which would round the float to {type_[1]} digits after the point"
            help = "cast the decimal: CAST(0.5 AS double)"
            raise query.refused_token("SQL_TYPES", first, message, help)


# --- types ----------------------------------------------------------------------------------------

_INTERVAL = r'IntervalMonthDayNano\("IntervalMonthDayNano \{ months: -?\d+, days: -?\d+, nanoseconds: (-?\d+) \}"\)'
_DATE = r"(?:AS Date32\)|\bto_date\((?:[^()]|\([^()]*\))*\))"
_MOVED_DATE = re.compile(rf"{_DATE}(?: [+-] {_INTERVAL})+")
_MOVE = re.compile(_INTERVAL)
_DAY = 86_400 * 10**9
_TYPES = (
    (
        re.compile(r'Timestamp\(\w+, (?:Some\()?"(?!(?:UTC|GMT|Z|Etc/UTC|[+-]00(?::?00)?)")([^"]*)"'), "zone",
        "a timestamp in the zone {} has no Substrait type: timestamps with a zone are instants, shown in UTC",
        "convert the zone in the source, or add the difference as an interval",
    ),
    (
        re.compile(r'(?:AS |arrow_cast\(.*?Utf8\(")(UInt\d+)'), "unsigned",
        "a cast to {} has no Substrait type: integers have a sign", "cast to bigint or to decimal(20,0)",
    ),
)  # fmt: skip
"""Type in a logical plan, the word of the query that names it, the message and what to do."""


def check_types(logical: Any, query: QueryText) -> None:
    """Refuse types whose values DataFusion computes in another way than SQL, or cannot write as Substrait.

    Dates in columns are checked when the plan is bound.

    Args:
        logical: the logical plan before it was optimized.
        query: the query.

    Raises:
        SqlRefused: SQL_TYPES.
    """
    shown = logical.display_indent()
    chains = _MOVED_DATE.finditer(shown)
    if any(int(move[1]) % _DAY for chain in chains for move in _MOVE.finditer(chain[0])):
        raise _refused_type(
            query, "interval",
            "an interval with a time of day is added to a date, which has none",
            "write TIMESTAMP '2024-01-31 00:00:00', or cast the date to a timestamp",
        )  # fmt: skip
    for type_, word, message, help in _TYPES:
        match = type_.search(shown)
        if match is not None:
            raise _refused_type(query, word, message.format(match[1]), help)


def _refused_type(query: QueryText, word: str, message: str, help: str) -> SqlRefused:
    place = next((t for t in query.tokens if t.is_word(word)), query.tokens[0])
    return query.refused_token("SQL_TYPES", place, message, help)


# --- clauses that DataFusion ignores --------------------------------------------------------------

_IGNORED: Mapping[tuple[tuple[str, ...], ...], tuple[str, str]] = {
    (("ignore",), ("nulls",)): ("it would be lost", "add FILTER (WHERE ... IS NOT NULL)"),
    (("tablesample", "sample"), ("bernoulli", "system", "reservoir", "block", "(", "number")): (
        "a sample of a table changes although the table does not", "write a condition in WHERE",
    ),
    (("with",), ("rollup", "cube", "totals")): ("it would be lost", "write GROUP BY ROLLUP (...) or GROUP BY CUBE (...)"),
    (("connect",), ("by",)): ("it would be lost", "write joins"),
    (("prewhere",), ("word", "quoted", "number", "string", "(")): ("it would be lost", "write WHERE"),
    (("partition",), ("(",)): ("it would be lost", "write a condition in WHERE"),
}  # fmt: skip
"""Two words, or kinds of tokens, that follow each other -> why they are refused, and what to write instead."""
_BEFORE_NAMES = (
    "select", "distinct", "where", "and", "or", "not", "on", "by", "having", "when", "then", "else", "case", "in", "like", "between",
    "is", "as", "from", "join",
)  # fmt: skip
"""Words after which a name follows, also one that is the first word of a clause."""


def check_clauses(query: QueryText) -> None:
    """Refuse clauses that DataFusion reads, and then computes something else.

    Raises:
        SqlRefused: SQL_NOT_PLANNED.
    """
    words = query.tokens
    for number, (first, second) in enumerate(pairwise(words)):
        before = words[number - 1] if number else None
        if first.kind != "word" or before is None or before.is_word(*_BEFORE_NAMES):
            continue
        if before.kind == "symbol" and before.text not in (")", "]", "*"):
            continue
        kind = "" if second.is_word(*_CLAUSES, *_SIDES, *_CONNECTIVES) else second.kind
        for (opening, following), (why, help) in _IGNORED.items():
            if first.is_word(*opening) and not {second.text.lower(), kind}.isdisjoint(following):
                shown = " ".join(
                    t.text.upper() for t in (first, second) if t.is_word(*opening, *following)
                )
                message = f"{shown} cannot be planned: {why}"
                raise query.refused("SQL_NOT_PLANNED", first.start, second.end, message, help)


def check_scalar_calls(context: SessionContext, query: QueryText) -> None:
    """Refuse DISTINCT, ORDER BY, FILTER and OVER of scalar functions, which DataFusion leaves out.

    Args:
        context: the session, for the names of its functions.
        query: the query.

    Raises:
        SqlRefused: SQL_NOT_PLANNED.
    """
    scalar = set(context.udfs()) - set(context.udafs())
    open_calls: list[str] = []
    closed = ""
    for number, token in enumerate(query.tokens[1:], 1):
        before = query.tokens[number - 1]
        follows_call = before.text == ")" and token.is_word("filter", "over")
        called = closed if follows_call else (open_calls or [""])[-1]
        starts = before.text == "(" and token.is_word("distinct")
        if called in scalar and (follows_call or starts or token.is_word("order")):
            message = f"{called} is no aggregate function, so its call has no {token.text.upper()}"
            help = "leave it out, or call an aggregate function"
            raise query.refused_token("SQL_NOT_PLANNED", token, message, help)
        if token.text == "(":
            open_calls.append(before.name if before.kind in ("word", "quoted") else "")
        elif token.text == ")" and open_calls:
            closed = open_calls.pop()


_AFTER_PARENTHESIS = (
    "partition", "order", "rows", "range", "groups", "select", "with", "values", "table", "from",
)  # fmt: skip
"""Words with which a window, or the query of a view or a WITH clause, can begin."""


def check_window_calls(query: QueryText) -> None:
    """Refuse DISTINCT, ORDER BY and FILTER of window functions, which the plan of DataFusion lacks.

    Windows that extend a named one, ``OVER (w ROWS ...)``, are refused too: DataFusion leaves out the name.

    Raises:
        SqlRefused: SQL_NOT_PLANNED.
    """
    for before, opened, token in zip(
        query.tokens, query.tokens[1:], query.tokens[2:], strict=False
    ):
        named = token.kind in ("word", "quoted") and not token.is_word(*_AFTER_PARENTHESIS)
        if before.is_word("over", "as") and opened.text == "(" and named:
            message = f"a window that extends {token.name} cannot be planned: {token.name} would be left out"
            help = "write PARTITION BY and ORDER BY in each window"
            raise query.refused_token("SQL_NOT_PLANNED", token, message, help)
    opening: list[int] = []
    calls: dict[int, int] = {}  # last parenthesis of a call -> its first one
    for number, token in enumerate(query.tokens):
        if token.text == "(":
            opening.append(number)
        elif token.text == ")" and opening:
            first = opening.pop()
            filters = first > 0 and query.tokens[first - 1].is_word("filter")
            calls[number] = calls.get(first - 2, first) if filters else first
        elif token.is_word("over") and number - 1 in calls:
            _check_window_call(query, range(calls[number - 1], number))


def _check_window_call(query: QueryText, call: range) -> None:
    """Refuse parts of a window function call; `call` begins with its opening parenthesis."""
    depth = 0
    for number in call:
        token = query.tokens[number]
        depth += (token.text == "(") - (token.text == ")")
        starts = number == call.start + 1 and token.is_word("distinct")
        orders = depth == 1 and number > call.start + 1 and token.is_word("order")
        if starts or orders or (depth == 0 and token.is_word("filter")):
            message = (
                f"{token.text.upper()} of a window function cannot be planned: it would be lost"
            )
            help = "compute the aggregate in a subquery with GROUP BY, and join it"
            raise query.refused_token("SQL_NOT_PLANNED", token, message, help)


# --- operands of IS DISTINCT FROM ---------------------------------------------------------------

# DataFusion reads ``a IS DISTINCT FROM b AND c`` as ``a IS DISTINCT FROM (b AND c)``. In SQL, AND, OR
# and IS bind less tightly, so the condition is ``(a IS DISTINCT FROM b) AND c``.

_OPENING, _CLOSING = ("(", "["), (")", "]")
_CLAUSES = (
    "select", "all", "where", "on", "having", "qualify", "by", "when", "then", "else", "values", "limit", "offset", "group", "order",
    "union", "except", "intersect", "minus", "join", "full", "inner", "cross", "natural", "lateral", "as", "from", "fetch",
    "window", "asc", "desc", "nulls", "filter", "over", "using",
)  # fmt: skip
"""Words that end a condition, on both sides."""
_SIDES = ("left", "right")
"""Kinds of joins that are functions, too."""
_CONNECTIVES = ("and", "or", "is")
"""Operators that do not belong to the right operand."""
_NEGATED = ("between", "in", "like", "ilike", "similar", "regexp", "rlike")
"""Words that NOT can precede as a part of an operator."""


def with_parentheses(text: str, tokens: Sequence[Token]) -> str:
    """Return a query in which DataFusion reads every IS [NOT] DISTINCT FROM as SQL defines it.

    Args:
        text: the query.
        tokens: its tokens.
    """
    inserted: list[tuple[int, str]] = []
    for place in range(len(tokens) - 2):
        right = _right_operand(tokens, place)
        if right is None:
            continue
        end = _end(tokens, right)
        if end < len(tokens) and tokens[end].is_word(*_CONNECTIVES):
            inserted += [(tokens[_start(tokens, place)].start, "("), (tokens[end - 1].end, ")")]
    for offset, parenthesis in sorted(inserted, reverse=True):
        text = text[:offset] + parenthesis + text[offset:]
    return text


def _right_operand(tokens: Sequence[Token], place: int) -> int | None:
    """Return where the right operand of the IS at a place begins; None if it is another word."""
    if not tokens[place].is_word("is"):
        return None
    negated = tokens[place + 1].is_word("not")
    after = place + 2 + negated
    words = tokens[after - 1 : after + 1]
    if len(words) < 2 or not (words[0].is_word("distinct") and words[1].is_word("from")):
        return None
    return after + 1


def _end(tokens: Sequence[Token], right: int) -> int:
    """Return the place after the right operand that begins at a place."""
    ranges = 0
    for place in _outside(tokens, range(right, len(tokens))):
        token = tokens[place]
        if token.is_word("between"):
            ranges += 1
        elif token.is_word("and") and ranges:
            ranges -= 1
        elif token.is_word(*_CONNECTIVES) or (place > right and _ends_condition(tokens, place)):
            return place
    return len(tokens)


def _start(tokens: Sequence[Token], place: int) -> int:
    """Return where the left operand of the IS at a place begins."""
    first = place
    ands: list[int] = []
    for before in _outside(tokens, range(place - 1, -1, -1)):
        token = tokens[before]
        if token.is_word("between") and ands:
            ands.pop()
        elif token.is_word("and"):
            ands.append(first)
        elif before < place - 1 and _begins_condition(tokens, before):
            break
        first = before
    return ands[0] if ands else first


def _begins_condition(tokens: Sequence[Token], place: int) -> bool:
    """Return whether a condition begins after a place."""
    token, before = tokens[place], tokens[place - 1] if place else None
    following = tokens[place + 1]
    if token.is_word("not"):
        infix = following.is_word(*_NEGATED) or (before is not None and before.is_word("is"))
        return not infix
    if token.is_word("from"):
        return before is None or not before.is_word("distinct")
    if token.is_word("distinct"):
        return not following.is_word("from")
    return token.is_word("or") or _ends_condition(tokens, place)


def _ends_condition(tokens: Sequence[Token], place: int) -> bool:
    """Return whether a condition before or after a place ends there."""
    token = tokens[place]
    if place and tokens[place - 1].text == ".":
        return False
    if token.is_word(*_SIDES):
        return [t.text for t in tokens[place + 1 : place + 2]] != ["("]
    return token.text in (",", ";") or token.is_word(*_CLAUSES)


def _outside(tokens: Sequence[Token], places: range) -> Iterator[int]:
    """Yield the places outside of parentheses and CASE, up to the one around the first place."""
    forward = places.step > 0
    opening, closing = (_OPENING, _CLOSING) if forward else (_CLOSING, _OPENING)
    begin, end = ("case", "end") if forward else ("end", "case")
    depth = 0
    for place in places:
        token = tokens[place]
        enters = token.text in opening or token.is_word(begin)
        leaves = token.text in closing or token.is_word(end)
        if leaves and depth == 0:
            return
        depth += enters - leaves
        if depth == 0 or (enters and depth == 1):
            yield place
