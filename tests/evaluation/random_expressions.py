"""Random expressions of the subset that `substrait_agg.evaluation` supports."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from substrait_agg.bind.bound import (
    Call,
    Column,
    Conditional,
    Constant,
    Conversion,
    Expr,
    InList,
    NestedPart,
)
from substrait_agg.bind.expressions.windows import DURATION
from substrait_agg.functions.windows import duration_value
from substrait_agg.plan.types import BOOL, DATE, FP64, I32, I64, STRING, Type, decimal
from tests.evaluation.random_columns import (
    DAYS,
    DECIMALS,
    FLOATS,
    INTEGERS,
    MONTHS,
    TS,
    TS3,
    TSTZ,
    TYPES,
    VARCHAR,
    WORDS,
    text,
    value,
)

COMPARED = (
    "equal",
    "not_equal",
    "lt",
    "lte",
    "gt",
    "gte",
    "is_distinct_from",
    "is_not_distinct_from",
)
TESTS = (
    "is_true",
    "is_not_true",
    "is_false",
    "is_not_false",
    "is_unknown",
    "is_not_unknown",
    "not",
)
PATTERNS = (
    "%promo%",
    "PROMO%",
    "%s",
    "%special%requests%",
    "a_b%",
    "%",
    "",
    "_",
    "%%",
    "10\\%",
    "%é_",
    "(%",
    "\\",
    "a%b",
)
COMPONENTS = (
    "YEAR", "ISO_YEAR", "QUARTER", "MONTH", "DAY", "DAY_OF_YEAR", "MONDAY_DAY_OF_WEEK", "SUNDAY_DAY_OF_WEEK",
    "ISO_WEEK", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "SUBSECOND", "UNIX_TIME",
)  # fmt: skip
WORDS_OF_PART = (
    "year", "quarter", "month", "week", "day", "doy", "dow", "isodow", "hour", "minute", "second", "millisecond",
    "microsecond",
)  # fmt: skip
ROUNDING = (
    "TIE_AWAY_FROM_ZERO", "TIE_TO_EVEN", "TRUNCATE", "CEILING", "FLOOR", "AWAY_FROM_ZERO",
    "TIE_DOWN", "TIE_UP", "TIE_TOWARDS_ZERO", "TIE_TO_ODD",
)  # fmt: skip
POINTS = (DATE, TS, TSTZ)
COMPOUND = Type("interval_compound", params=(9,))
WHOLE_TEXTS = ("0", "-7", "007", "127", "-128", "9223372036854775807")
PLAIN_TEXTS = {
    **{t.kind: WHOLE_TEXTS for t in INTEGERS},
    "decimal": (*WHOLE_TEXTS, "0.05", "-1.25", "00.5", "1.500", "99999999.99"),
    "fp32": ("1.5", "-0.0", "NaN", "-Infinity", "16777216", "0.1"),
    "fp64": (*WHOLE_TEXTS, "0.1", "NaN", "Infinity", "-1.25", "1e19", "1.5E-7", "9007199254740993", "1e400", "-0.0", "123456789.123456789"),
    "precision_timestamp": (
        "2024-02-29 12:34:56.789", "9999-12-31 23:59:59.999999", "0001-01-01", "1969-12-31T23:59:59", "1582-10-10 00:00:00",
    ),
}  # fmt: skip
"""Kind -> texts that are cast to it. Those that do not fit are left to Spark."""
COMPARABLE = TYPES


class Maker:
    """Makes expressions over columns of known types.

    Args:
        rng: decides.
        types: the types of the columns.
    """

    def __init__(self, rng: random.Random, types: Sequence[Type]) -> None:
        self._rng = rng
        self._types = types
        self._makers: Mapping[str, tuple[Callable[[Type, int], Expr], ...]] = {
            "bool": (self._comparison, self._comparison, self._logic, self._test, self._membership, self._text_test,
                     self._float_test, self._cast_to_bool),
            **{t.kind: (self._integer, self._integer, self._measured, self._cast_to_integer) for t in INTEGERS},
            **{t.kind: (self._floating, self._cast_to_float) for t in FLOATS},
            "decimal": (self._decimal, self._decimal, self._round, self._cast_to_decimal),
            "string": (self._text, self._cast_to_text),
            "varchar": (self._cast_to_text,),
            "date": (self._date,),
            "precision_timestamp": (self._timestamp,),
            "precision_timestamp_tz": (self._timestamp,),
        }  # fmt: skip

    def any(self, depth: int) -> Expr:
        return self.make(self._rng.choice(TYPES), depth)

    def make(self, type_: Type, depth: int) -> Expr:
        makers = self._makers.get(type_.kind, ())
        if depth <= 0 or not makers or self._rng.random() < 0.1:
            return self._leaf(type_)
        if self._rng.random() < 0.2:
            return self._choice(type_, depth - 1)
        return self._rng.choice(makers)(type_, depth - 1)

    def _leaf(self, type_: Type) -> Expr:
        ordinals = [i for i, t in enumerate(self._types) if t == type_]
        if ordinals and self._rng.random() < 0.8:
            return Column(type_, self._rng.choice(ordinals))
        if type_.kind in PLAIN_TEXTS and self._rng.random() < 0.3:
            return self._plain_text(type_)
        return self._constant(type_)

    def _constant(self, type_: Type, *, null: bool = True) -> Constant:
        if null and self._rng.random() < 0.1:
            return Constant(type_, None)
        return Constant(type_, value(self._rng, type_))

    def _call(self, type_: Type, function: str, *arguments: Expr, **more: Any) -> Call:
        words = tuple(enumerate(more.pop("enums", ())))
        options = tuple((name.upper(), text) for name, text in more.items())
        return Call(type_, function, arguments, words, options)

    def _choice(self, type_: Type, depth: int) -> Expr:
        parts = [self.make(type_, depth) for _ in range(3)]
        conditions = [self.make(BOOL, depth) for _ in range(2)]
        kind = self._rng.choice(
            (
                "if",
                "coalesce",
                "nullif",
                "least",
                "greatest",
                "least_skip_null",
                "greatest_skip_null",
            )
        )
        if kind == "if":
            clauses = tuple(zip(conditions, parts, strict=False))
            return Conditional(type_, clauses, parts[2])
        return self._call(type_, kind, *parts[: 2 if kind == "nullif" else 3])

    # --- booleans ---------------------------------------------------------------------------

    def _comparison(self, _type: Type, depth: int) -> Expr:
        of = self._rng.choice(COMPARABLE)
        parts = [self.make(of, depth) for _ in range(3)]
        if self._rng.random() < 0.15:
            return self._call(BOOL, "between", *parts)
        return self._call(BOOL, self._rng.choice(COMPARED), *parts[:2])

    def _logic(self, _type: Type, depth: int) -> Expr:
        function = self._rng.choice(("and", "or", "and", "or", "xor", "and_not"))
        count = self._rng.randint(2, 4) if function in ("and", "or") else 2
        return self._call(BOOL, function, *(self.make(BOOL, depth) for _ in range(count)))

    def _test(self, _type: Type, depth: int) -> Expr:
        if self._rng.random() < 0.4:
            return self._call(BOOL, self._rng.choice(("is_null", "is_not_null")), self.any(depth))
        return self._call(BOOL, self._rng.choice(TESTS), self.make(BOOL, depth))

    def _membership(self, _type: Type, depth: int) -> Expr:
        of, constants = self._rng.choice(COMPARABLE), self._rng.random() < 0.7
        count = self._rng.randint(0, 5)
        options = tuple(
            self._constant(of) if constants else self.make(of, depth - 1) for _ in range(count)
        )
        return InList(BOOL, self.make(of, depth), options)

    def _text_test(self, _type: Type, depth: int) -> Expr:
        function = self._rng.choice(("like", "like", "starts_with", "ends_with", "contains"))
        source = self.make(self._rng.choice((STRING, VARCHAR)), depth)
        if function != "like":
            return self._call(BOOL, function, source, Constant(STRING, self._rng.choice(WORDS)))
        pattern = self._rng.choice(PATTERNS)
        if self._rng.random() < 0.4:
            pattern = "".join(
                self._rng.choice(("%", "_", "a", "b", "\\", "é", "!")) for _ in range(4)
            )
        escape = [Constant(STRING, self._rng.choice("\\!a"))] if self._rng.random() < 0.3 else []
        return self._call(BOOL, function, source, Constant(STRING, pattern), *escape)

    def _float_test(self, _type: Type, depth: int) -> Expr:
        function = self._rng.choice(("is_nan", "is_finite", "is_infinite"))
        return self._call(BOOL, function, self.make(self._rng.choice(FLOATS), depth))

    def _cast_to_bool(self, type_: Type, depth: int) -> Expr:
        return self._cast(type_, depth, (*INTEGERS, *FLOATS, *DECIMALS))

    # --- numbers ----------------------------------------------------------------------------

    def _integer(self, type_: Type, depth: int) -> Expr:
        one, two = self.make(type_, depth), self.make(type_, depth)
        unary = ("negate", "abs", "sign", "ceil", "floor")
        function = self._rng.choice(("add", "subtract", "multiply", "divide", "modulus", *unary))
        if function == "divide" and self._rng.random() < 0.7:
            return self._call(type_, function, one, two, on_division_by_zero="NULL")
        if function == "modulus" and self._rng.random() < 0.7:
            return self._call(type_, function, one, two, on_domain_error="NULL")
        return self._call(type_, function, one, *(() if function in unary else (two,)))

    def _measured(self, type_: Type, depth: int) -> Expr:
        """An integer that is computed from a text or a point in time."""
        if type_ not in (I32, I64):
            return self._integer(type_, depth)
        kind = self._rng.choice(("length", "extract", "part"))
        if kind == "length":
            function = self._rng.choice(("char_length", "octet_length", "bit_length"))
            return self._call(type_, function, self.make(STRING, depth))
        point = self.make(self._rng.choice(POINTS), depth)
        if kind == "part":
            word = Constant(STRING, self._rng.choice(WORDS_OF_PART))
            return Conversion(type_, self._call(I32, "date_part", word, point))
        enums = (self._rng.choice(COMPONENTS), *self._rng.choice(((), ("ZERO",), ("ONE",))))
        zone = (Constant(STRING, "UTC"),) if point.type == TSTZ else ()
        return Conversion(
            type_, self._call(I64, "extract", point, *zone, enums=enums), null_on_failure=True
        )

    def _floating(self, type_: Type, depth: int) -> Expr:
        one, two = self.make(type_, depth), self.make(type_, depth)
        unary = ("negate", "abs", "ceil", "floor", "sqrt")
        function = self._rng.choice(("add", "subtract", "multiply", "divide", *unary))
        if type_ == FP64 and self._rng.random() < 0.1:
            return self._call(type_, "sqrt", self.make(self._rng.choice(INTEGERS), depth))
        if function == "divide":
            zero = self._rng.choice(("IEEE", "NULL"))
            return self._call(type_, function, one, two, on_division_by_zero=zero)
        return self._call(type_, function, one, *(() if function in unary else (two,)))

    def _some_decimal(self) -> Type:
        if self._rng.random() < 0.7:
            return self._rng.choice(DECIMALS)
        precision = self._rng.randint(1, 38)
        return decimal(precision, self._rng.randint(0, precision))

    def _decimal(self, type_: Type, depth: int) -> Expr:
        one, two = (self.make(self._some_decimal(), depth) for _ in range(2))
        unary = ("negate", "abs", "ceil", "floor")
        function = self._rng.choice(("add", "subtract", "multiply", "divide", "modulus", *unary))
        if function in ("negate", "abs"):
            return self._call(type_, function, self.make(type_, depth))
        if function in unary:
            precision, scale = one.type.params
            whole = decimal(min(precision - scale + 1, 38), 0)
            return Conversion(type_, self._call(whole, function, one), null_on_failure=True)
        options = {
            "divide": {"on_division_by_zero": "NULL"},
            "modulus": {"on_domain_error": "NULL"},
        }
        chosen = options.get(function, {}) if self._rng.random() < 0.8 else {}
        target = type_ if self._rng.random() < 0.5 else self._some_decimal()
        made = self._call(target, function, one, two, **chosen)
        return made if target == type_ else Conversion(type_, made, null_on_failure=True)

    def _round(self, type_: Type, depth: int) -> Expr:
        one = self.make(self._some_decimal(), depth)
        precision, scale = one.type.params
        digits = [Constant(I32, self._rng.randint(0, 12))] if self._rng.random() < 0.8 else []
        target = decimal(min(precision + 1, 38), scale)
        made = self._call(target, "round", one, *digits, rounding=self._rng.choice(ROUNDING))
        return Conversion(type_, made, null_on_failure=True)

    def _cast(self, type_: Type, depth: int, sources: Sequence[Type]) -> Expr:
        source = self.make(self._rng.choice(sources), depth)
        return Conversion(type_, source, null_on_failure=self._rng.random() < 0.7)

    def _cast_to_integer(self, type_: Type, depth: int) -> Expr:
        return self._cast(type_, depth, (*INTEGERS, *DECIMALS, *FLOATS, BOOL))

    def _cast_to_decimal(self, type_: Type, depth: int) -> Expr:
        return self._cast(type_, depth, (*INTEGERS, *DECIMALS, self._some_decimal(), BOOL))

    def _cast_to_float(self, type_: Type, depth: int) -> Expr:
        exact = DECIMALS if type_ == FP64 else ()
        return self._cast(type_, depth, (*INTEGERS, *FLOATS, *exact, BOOL))

    # --- texts and times --------------------------------------------------------------------

    def _text(self, _type: Type, depth: int) -> Expr:
        source = self.make(self._rng.choice((STRING, STRING, VARCHAR)), depth)
        numbers = [
            Constant(I32, self._rng.choice((-2, 0, 1, 2, 3, 10, 2**31 - 1))) for _ in range(2)
        ]
        size = Constant(I32, self._rng.choice((0, 1, 2, 7)))
        words = [Constant(STRING, w) for w in (self._rng.choice(WORDS[1:]), text(self._rng))]
        return self._rng.choice((
            self._call(STRING, "substring", source, *numbers),
            self._call(STRING, "substring", source, numbers[0]),
            self._call(STRING, "left", source, size),
            self._call(STRING, "right", source, size),
            self._call(STRING, "concat", source, self.make(STRING, depth)),
            self._call(STRING, "concat", source, self.make(STRING, depth), null_handling="IGNORE_NULLS"),
            self._call(STRING, self._rng.choice(("trim", "ltrim", "rtrim")), source),
            self._call(STRING, self._rng.choice(("upper", "lower")), source, char_set="ASCII_ONLY"),
            self._call(STRING, "replace", source, *words),
            self._call(STRING, "split_part", source, words[0], numbers[0]),
        ))  # fmt: skip

    def _cast_to_text(self, type_: Type, depth: int) -> Expr:
        points = (DATE, TS, TS3, TSTZ)
        return self._cast(type_, depth, (*INTEGERS, BOOL, STRING, VARCHAR, *points, *DECIMALS))

    def _date(self, type_: Type, depth: int) -> Expr:
        point = self.make(DATE, depth)
        words = [Constant(STRING, w) for w in ("year", "quarter", "month", "week", "day", "hour")]
        return self._rng.choice((
            self._moved(DATE, point),
            self._moved(DATE, point),
            self._call(DATE, "date_trunc", self._rng.choice(words), point),
            Conversion(DATE, self.make(self._rng.choice((TS, TSTZ)), depth)),
            Conversion(DATE, Constant(STRING, self._rng.choice(("1995-01-01", "2000-02-29", "9999-12-31")))),
        ))  # fmt: skip

    def _moved(self, type_: Type, point: Expr) -> Expr:
        days, micros = value(self._rng, DAYS)
        compound = Constant(COMPOUND, (value(self._rng, MONTHS), days, micros * 1000))
        interval = self._rng.choice((self._leaf(MONTHS), self._leaf(DAYS), compound))
        return self._call(type_, self._rng.choice(("add", "subtract")), point, interval)

    def _plain_text(self, type_: Type) -> Expr:
        """Cast a text that has the usual form of a value."""
        return Conversion(type_, Constant(STRING, self._rng.choice(PLAIN_TEXTS[type_.kind])))

    def _timestamp(self, type_: Type, depth: int) -> Expr:
        other = self.make(self._rng.choice((DATE, TS, TSTZ)), depth)
        if type_.params[0] < 6:
            return Conversion(type_, other)
        point = self.make(type_, depth)
        return self._rng.choice((
            self._moved(type_, point),
            self._moved(type_, point),
            Conversion(type_, other),
            self._window_edge(type_, point),
        ))  # fmt: skip

    def _window_edge(self, type_: Type, time: Expr) -> Expr:
        sizes = (duration_value(micros) for micros in (7_000_000, 86_400_000_000))
        offset = duration_value(self._rng.choice((0, 3_000_001, -60_000_000)))
        durations = [Constant(DURATION, self._rng.choice([*sizes])), Constant(DURATION, offset)]
        if self._rng.random() < 0.5:
            name = self._rng.choice(("tumble_start", "tumble_end"))
            return self._call(type_, name, time, *durations)
        edges = Type("struct", children=(type_, type_))
        window = self._call(edges, "tumble", time, *durations)
        return NestedPart(type_, window, self._rng.randrange(2))
