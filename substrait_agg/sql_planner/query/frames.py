"""Frames by distances between values, which DataFusion writes as unbounded unless they are integers.

DataFusion plans such a frame as one of rows, whose distances are numbers that the query does not have.
In the plan, these numbers stand for the distances of the query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from substrait import algebra_pb2

from substrait_agg.plan.arrow import MAX_DECIMAL_PRECISION
from substrait_agg.sql_planner.query.tokens import QueryText, Token

_LEAST_MARK, _MOST_MARK = 10**8, 2**60
_NUMBER = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?", re.I)
_INTERVAL = re.compile(r"interval\b|'", re.I)
_WINDOW = algebra_pb2.Expression.WindowFunction


@dataclass(frozen=True, slots=True)
class Distance:
    """A distance between values, as a query writes it.

    Attributes:
        start: offset of its first character in the query.
        text: the distance as written.
        literal: its value.
        mark: the number that stands for it.
    """

    start: int
    text: str
    literal: algebra_pb2.Expression.Literal
    mark: int


@dataclass(frozen=True, slots=True)
class ValueFrames:
    """The frames by distances between values of a query.

    Attributes:
        starts: offsets of their words RANGE.
        distances: their distances.
    """

    starts: tuple[int, ...]
    distances: tuple[Distance, ...]

    def as_rows(self, text: str) -> str:
        """Return the query with frames of rows by the marks."""
        edits = [(start, len("range"), "ROWS ") for start in self.starts]
        edits += [(d.start, len(d.text), str(d.mark).ljust(len(d.text))) for d in self.distances]
        for start, length, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[start + length :]
        return text

    def restore(self, calls: Sequence[Any]) -> None:
        """Change window functions over the marked frames of rows to frames of values.

        Args:
            calls: messages ``WindowFunction``.
        """
        distances = {distance.mark: distance for distance in self.distances}
        for call in calls:
            if call.bounds_type != _WINDOW.BOUNDS_TYPE_ROWS:
                continue
            for bound in (call.lower_bound, call.upper_bound):
                kind = bound.WhichOneof("kind")
                side = getattr(bound, kind) if kind in ("preceding", "following") else None
                distance = None if side is None else distances.get(side.offset)
                if side is not None and distance is not None:
                    call.bounds_type = _WINDOW.BOUNDS_TYPE_RANGE
                    side.ClearField("offset")
                    side.offset_expr.literal.CopyFrom(distance.literal)

    def original_name(self, name: str) -> str:
        """Return a name that DataFusion makes of the text of a column, with the distances."""
        for distance in self.distances:
            name = re.sub(
                rf"\bROWS (BETWEEN (?:\S+ \S+ AND )?){distance.mark}\b",
                lambda match, text=distance.text: f"RANGE {match[1]}{text}",  # type: ignore[misc]
                name,
            )
            name = name.replace(str(distance.mark), distance.text)
        return name


def value_frames(query: QueryText) -> ValueFrames:
    """Return the frames by distances between values that a query has, with constant distances."""
    tokens = query.tokens
    numbers = [int(t.text) for t in tokens if t.text.isdecimal() and int(t.text) < _MOST_MARK]
    mark = max([_LEAST_MARK, *numbers]) + 1
    starts: list[int] = []
    distances: list[Distance] = []
    for place, token in enumerate(tokens):
        spans = list(_distances(tokens, place + 1)) if token.is_word("range") else []
        literals = [_literal(query.text[first.start : last.end]) for first, last in spans]
        if not spans or None in literals:
            continue  # DataFusion says what is wrong
        starts.append(token.start)
        for (first, last), literal in zip(spans, literals, strict=True):
            text = query.text[first.start : last.end]
            distances.append(Distance(first.start, text, literal, mark + len(distances)))
    return ValueFrames(tuple(starts), tuple(distances))


def _distances(tokens: Sequence[Token], place: int) -> Iterator[tuple[Token, Token]]:
    """Yield the first and the last token of the distances of the frame whose bounds begin at a place."""
    bounds = 1
    if tokens[place : place + 1] and tokens[place].is_word("between"):
        place, bounds = place + 1, 2
    for number in range(bounds):
        end = next((i for i in range(place, len(tokens)) if tokens[i].is_word(*_ENDS)), len(tokens))
        if end == place or end == len(tokens):
            return
        if not tokens[place].is_word("unbounded", "current"):
            yield tokens[place], tokens[end - 1]
        place = end + 1 + (number == 0)  # after AND


_ENDS = ("preceding", "following", "row")


def _literal(text: str) -> algebra_pb2.Expression.Literal | None:
    """Return a number without sign, an interval or its text as a literal; None for another expression."""
    if _NUMBER.fullmatch(text):
        return _number(Decimal(text))
    if not _INTERVAL.match(text):
        return None
    text = f"INTERVAL {text}" if text.startswith("'") else text
    from datafusion import SessionContext

    try:
        (batch,) = SessionContext().sql(f"SELECT {text}").collect()
        months, days, nanoseconds = batch.column(0)[0].as_py()
    except Exception:  # noqa: BLE001 - DataFusion has no class of its own
        return None
    literal = algebra_pb2.Expression.Literal()
    span = literal.interval_day_to_second
    if months:
        literal.interval_compound.interval_year_to_month.months = months
        span = literal.interval_compound.interval_day_to_second
    span.days, span.precision = days, 9
    span.subseconds = nanoseconds
    return literal


def _number(value: Decimal) -> algebra_pb2.Expression.Literal | None:
    literal = algebra_pb2.Expression.Literal()
    _, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    if max(len(digits) + int(exponent), 0) + scale > MAX_DECIMAL_PRECISION:
        return None
    if value == int(value) and value < 1 << 63:
        literal.i64 = int(value)
        return literal
    unscaled = int(value.scaleb(scale, Context(prec=MAX_DECIMAL_PRECISION)))
    literal.decimal.value = unscaled.to_bytes(16, "little", signed=True)
    literal.decimal.precision, literal.decimal.scale = MAX_DECIMAL_PRECISION, scale
    return literal
