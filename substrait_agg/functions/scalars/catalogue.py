"""Define the table of scalar functions: names, signatures, null handling and options.

A bound `Call` refers to one of these rows. Its arguments have the types of the chosen overload. Its
`options` contain every option of that overload with the effective value. Its `type` is the type of
the result. A decimal result is computed exactly and rounded once (half away from zero) to that
type.
"""

from __future__ import annotations

from collections.abc import Mapping

from substrait_agg.functions.scalars.forms import Fails, Nulls, Overload, ScalarFunction

_OVERFLOW = {"OVERFLOW": ("ERROR", "SILENT", "SATURATE")}
_STRICT_OVERFLOW = {"OVERFLOW": ("ERROR",)}
_ROUND_EVEN = {"ROUNDING": ("TIE_TO_EVEN",)}
_DOMAIN = {**_ROUND_EVEN, "ON_DOMAIN_ERROR": ("NAN", "ERROR")}
_LOG = {
    **_ROUND_EVEN,
    "ON_DOMAIN_ERROR": ("NAN", "NULL", "ERROR"),
    "ON_LOG_ZERO": ("MINUS_INFINITY", "NAN", "ERROR"),
}
_BY_ZERO = {"ON_DIVISION_BY_ZERO": ("ERROR", "NULL")}
_CASE = {"CASE_SENSITIVITY": ("CASE_SENSITIVE", "CASE_INSENSITIVE", "CASE_INSENSITIVE_ASCII")}
_CHARSET = {"CHAR_SET": ("UTF8", "ASCII_ONLY")}
_PATTERN = {
    **_CASE,
    "MULTILINE": ("MULTILINE_DISABLED", "MULTILINE_ENABLED"),
    "DOTALL": ("DOTALL_DISABLED", "DOTALL_ENABLED"),
}
_DIRECTION = {
    "DIRECTION": ("ASC_NULLS_LAST", "ASC_NULLS_FIRST", "DESC_NULLS_LAST", "DESC_NULLS_FIRST")
}
_ROUND = {
    "ROUNDING": (
        "TIE_AWAY_FROM_ZERO", "TIE_TO_EVEN", "TRUNCATE", "CEILING", "FLOOR", "AWAY_FROM_ZERO",
        "TIE_DOWN", "TIE_UP", "TIE_TOWARDS_ZERO", "TIE_TO_ODD",
    )
}  # fmt: skip
_NAN_EQUALITY = {"NAN_EQUALITY": ("NAN_IS_NAN", "NAN_IS_NOT_NAN")}
_PADDING = {"PADDING": ("RIGHT", "LEFT")}
_NEGATIVE_START = {"NEGATIVE_START": ("LEFT_OF_BEGINNING", "WRAP_FROM_END")}
_OF_PATTERN = {1: "pattern"}
_OF_REPLACEMENT = {**_OF_PATTERN, 2: "replacement"}
_CONCAT = {"NULL_HANDLING": ("ACCEPT_NULLS", "IGNORE_NULLS")}


def _equal(
    name: str,
    symbol: str,
    *aliases: str,
    nulls: Nulls = "mirror",
    true_for: tuple[int, ...] = (),
    family: str = "any",
) -> ScalarFunction:
    form = Overload((family, family), "bool", unify=True)
    return ScalarFunction(
        name, (form,), nulls, aliases, "never", compares=True, true_for=true_for, symbol=symbol
    )


def _compare(name: str, symbol: str, true_for: tuple[int, ...], *aliases: str) -> ScalarFunction:
    return _equal(name, symbol, *aliases, true_for=true_for, family="ordered")


def _test(
    name: str, family: str, *aliases: str, nulls: Nulls = "never", symbol: str = ""
) -> ScalarFunction:
    form = Overload((family,), "bool")
    return ScalarFunction(name, (form,), nulls, aliases, "never", symbol=symbol)


def _pair(family: str, result: str, options: Mapping[str, tuple[str, ...]]) -> Overload:
    return Overload((family, family), result, options, unify=family != "decimal")


def _to_unsigned(options: Mapping[str, tuple[str, ...]]) -> Overload:
    return _pair("unsigned", "unified", options)


def _to_floating(
    name: str, options: Mapping[str, tuple[str, ...]], *aliases: str, arity: int = 1
) -> ScalarFunction:
    wide = tuple(Overload((family,) * arity, "fp64", options) for family in ("integer", "decimal"))
    own = Overload(("float",) * arity, "unified", options, unify=True)
    return ScalarFunction(name, (own, *wide), "mirror", aliases)


def _sqrt() -> ScalarFunction:
    # The declaration for decimals has no options, so a negative decimal fails.
    forms = (
        Overload(("float",), "first", _DOMAIN),
        Overload(("integer",), "fp64", _DOMAIN),
        Overload(("decimal",), "fp64"),
    )
    return ScalarFunction("sqrt", forms)


def _power() -> ScalarFunction:
    forms = (
        Overload(("float", "float"), "unified", unify=True),
        Overload(("integer", "integer"), "i64", _STRICT_OVERFLOW),
        # The result is an fp64, which has infinities.
        Overload(
            ("decimal", "decimal"),
            "fp64",
            {"OVERFLOW": ("SILENT", "ERROR"), "COMPLEX_NUMBER_RESULT": ("NAN", "ERROR")},
        ),
    )
    return ScalarFunction("power", forms, aliases=("pow",))


def _factorial() -> ScalarFunction:
    forms = (
        Overload(("integer",), "first", _STRICT_OVERFLOW),
        Overload(("decimal:0",), "decimal_widest", _STRICT_OVERFLOW),
    )
    return ScalarFunction("factorial", forms)


def _bitwise(name: str, *aliases: str) -> ScalarFunction:
    forms = (
        _pair("integer", "unified", {}),
        _pair("unsigned_bits", "unified", {}),
        Overload(("decimal:0", "decimal:0"), "decimal_longest"),
    )
    return ScalarFunction(name, forms, "mirror", aliases, "never")


def _shift(name: str, *aliases: str) -> ScalarFunction:
    counts = ("integer", "unsigned_bits")
    forms = tuple(Overload((bits, count), "first") for bits in counts for count in counts)
    return ScalarFunction(name, forms, "mirror", aliases)


def _strings(
    name: str,
    *params: str,
    result: str = "first",
    options: Mapping[str, tuple[str, ...]] | None = None,
    aliases: tuple[str, ...] = (),
    fails: Fails = "maybe",
    symbol: str = "",
    spark: str = "",
    checks: Mapping[int, str] | None = None,
) -> ScalarFunction:
    """Return a function of strings. Trailing parameters that start with ``?`` are optional."""
    shortest = next((i for i, p in enumerate(params) if p.startswith("?")), len(params))
    plain = tuple(p.lstrip("?") for p in params)
    forms = tuple(
        Overload(plain[:count], result, options or {}, checks=checks or {})
        for count in range(shortest, len(params) + 1)
    )
    return ScalarFunction(name, forms, "mirror", aliases, fails, symbol=symbol, spark=spark)


def _list_shifts() -> tuple[Overload, ...]:
    """Return overloads of `add` and `subtract` for a point in time and an interval."""
    return (
        Overload(("date", "months"), "date"),
        Overload(("date", "days"), "date_and_days"),
        Overload(("date", "months_days"), "date_and_days"),
        Overload(("timestamp", "months"), "first"),
        Overload(("timestamp", "days"), "first"),
        Overload(("timestamp", "months_days"), "first"),
        Overload(("timestamp_tz", "months"), "first"),
        Overload(("timestamp_tz", "months", "text"), "first"),
        Overload(("timestamp_tz", "days"), "first"),
        Overload(("timestamp_tz", "months_days"), "first"),
    )


def _arithmetic(name: str, symbol: str, decimal_rule: str, *more: Overload) -> ScalarFunction:
    return ScalarFunction(
        name,
        (
            _pair("integer", "unified", _OVERFLOW),
            _pair("float", "unified", _ROUND_EVEN),
            _pair("decimal", decimal_rule, _STRICT_OVERFLOW),
            *more,
        ),
        fails="overflow",
        symbol=symbol,
    )


_DIVIDE = ScalarFunction(
    "divide",
    (
        _pair("integer", "unified", {**_OVERFLOW, "ON_DOMAIN_ERROR": ("ERROR", "NULL"), **_BY_ZERO}),
        _pair(
            "float", "unified",
            {**_ROUND_EVEN, "ON_DOMAIN_ERROR": ("NAN",), "ON_DIVISION_BY_ZERO": ("IEEE", "NULL")},
        ),
        _pair("decimal", "decimal_divide", {"OVERFLOW": ("ERROR",), **_BY_ZERO}),
        _to_unsigned(_BY_ZERO),
    ),
    symbol="/",
)  # fmt: skip

_MODULUS = ScalarFunction(
    "modulus",
    (
        _pair(
            "integer", "unified",
            {"DIVISION_TYPE": ("TRUNCATE", "FLOOR"), "OVERFLOW": ("ERROR",), "ON_DOMAIN_ERROR": ("ERROR", "NULL")},
        ),
        _pair("float", "unified", _ROUND_EVEN),
        _pair("decimal", "decimal_modulus", {"OVERFLOW": ("ERROR",), "ON_DOMAIN_ERROR": ("ERROR", "NULL")}),
    ),
    aliases=("mod", "modulo", "rem"),
    symbol="%",
)  # fmt: skip


def _same_number(name: str, overflow: bool, *aliases: str, spark: str = "") -> ScalarFunction:
    forms = (
        Overload(("integer",), "first", _OVERFLOW if overflow else {}),
        Overload(("float",), "first"),
        Overload(("decimal",), "first"),
    )
    return ScalarFunction(name, forms, "mirror", aliases, spark=spark)


def _whole(name: str, *aliases: str) -> ScalarFunction:
    forms = (
        Overload(("float",), "first"),
        Overload(("decimal",), "decimal_whole"),
        Overload(("integer",), "first"),
    )
    return ScalarFunction(name, forms, "mirror", aliases)


def _round() -> ScalarFunction:
    rules = {"integer": "first", "float": "first", "decimal": "decimal_round"}
    forms = [Overload((f, "integer"), r, _ROUND) for f, r in rules.items()]
    forms += [Overload((f,), r, _ROUND) for f, r in rules.items()]
    return ScalarFunction("round", tuple(forms))


def _choice(
    name: str, nulls: Nulls, *aliases: str, family: str = "ordered", spark: str = ""
) -> ScalarFunction:
    form = Overload((family,), "unified", unify=True, variadic=True)
    return ScalarFunction(name, (form,), nulls, aliases, "never", spark=spark)


def _logic(name: str, symbol: str = "", arity: int = 0) -> ScalarFunction:
    """Return a function of booleans; without `arity` it takes any number of them."""
    form = Overload(("bool",) * (arity or 1), "bool", variadic=not arity)
    return ScalarFunction(name, (form,), fails="never", symbol=symbol)


def _regular(name: str, result: str, *rest: str) -> ScalarFunction:
    """Return a function of a text and a pattern, without or with all of the arguments `rest`."""
    forms = tuple(
        Overload(("text", "text", *more), result, _PATTERN, checks=_OF_PATTERN)
        for more in ((), rest)
    )
    return ScalarFunction(name, forms)


def _replacements() -> tuple[ScalarFunction, ...]:
    three = ("text", "text", "text")
    forms = tuple(
        Overload(params, "first_text", _PATTERN, checks=_OF_REPLACEMENT)
        for params in (three, (*three, "integer", "integer"))
    )
    return (
        ScalarFunction("regexp_replace", forms),
        # DataFusion and DuckDB call this regexp_replace.
        ScalarFunction("regexp_replace_first", forms[:1]),
    )


def _round_temporal() -> ScalarFunction:
    forms = tuple(
        Overload((x, "enum:rounding", f"enum:{unit}", "integer", x), "first")
        for x, unit in _UNITS.items()
    )
    return ScalarFunction("round_temporal", forms)


def _round_calendar() -> ScalarFunction:
    forms = tuple(
        Overload((x, "enum:floor", f"enum:{unit}", f"enum:{x}_origin", "integer"), "first")
        for x, unit in _CALENDAR_UNITS.items()
    )
    return ScalarFunction("round_calendar", forms)


_UNITS = {"date": "date_unit", "timestamp": "timestamp_unit", "time": "time_unit"}
_CALENDAR_UNITS = {**_UNITS, "time": "time_of_day_unit"}
"""Family of points in time -> the set of units for rounding."""


def _extract() -> ScalarFunction:
    zoned = ("enum:zoned_component", "timestamp_tz", "text")
    points = (
        ("enum:component", "date"),
        ("enum:component", "timestamp"),
        zoned,
        ("enum:clock_component", "time"),
    )
    forms = [
        Overload((component, *indexing, *point), "i64")
        for component, *point in points
        for indexing in ((), ("enum:indexing",))
    ]
    return ScalarFunction("extract", tuple(forms), fails="never")


def _window(
    name: str, *spans: str, result: str = "first", groups_only: bool = False
) -> ScalarFunction:
    """Return a window over time. A last duration that starts with ``?`` is optional."""
    counts = range(sum(not s.startswith("?") for s in spans), len(spans) + 1)
    forms = tuple(
        Overload((time, *["span:duration"] * count), result)
        for time in ("timestamp", "timestamp_tz")
        for count in counts
    )
    durations = tuple(span.removeprefix("?") for span in spans)
    return ScalarFunction(name, forms, durations=durations, groups_only=groups_only)


_POINTS = ("date", "timestamp", "timestamp_tz")

_SCALED_INTERVALS = (
    Overload(("integer", "days"), "second"),
    Overload(("integer", "months"), "second"),
)

_DATE_AND_TIME = (
    ScalarFunction(
        "extract_boolean",
        (
            Overload(("enum:boolean", "date"), "bool"),
            Overload(("enum:boolean", "timestamp"), "bool"),
            Overload(("enum:boolean", "timestamp_tz", "text"), "bool"),
        ),
    ),
    ScalarFunction(
        "assume_timezone",
        (
            Overload(("timestamp", "text"), "zoned_first"),
            Overload(("date", "text", "digits"), "digits:precision_timestamp_tz"),
        ),
    ),
    ScalarFunction("local_timestamp", (Overload(("timestamp_tz", "text"), "local_first"),)),
    ScalarFunction(
        "strftime",
        (
            Overload(("timestamp", "format"), "string"),
            Overload(("timestamp_tz", "format", "text"), "string"),
            Overload(("date", "format"), "string"),
            Overload(("time", "format"), "string"),
        ),
    ),
    ScalarFunction("strptime_date", (Overload(("text", "format"), "date"),)),
    ScalarFunction(
        "strptime_time", (Overload(("text", "format", "digits"), "digits:precision_time"),)
    ),
    ScalarFunction(
        "strptime_timestamp",
        (
            Overload(("text", "format", "digits"), "digits:precision_timestamp_tz"),
            Overload(("text", "format", "text", "digits"), "digits:precision_timestamp_tz"),
        ),
    ),
    _round_temporal(),
    _round_calendar(),
)

_ROWS: tuple[ScalarFunction, ...] = (
    # comparison
    _equal("equal", "=", "eq", true_for=(0,)),
    _equal("not_equal", "<>", "neq", "ne", true_for=(-1, 1)),
    _compare("lt", "<", (-1,), "less", "less_than"),
    _compare("lte", "<=", (-1, 0), "less_equal", "less_than_or_equal"),
    _compare("gt", ">", (1,), "greater", "greater_than"),
    _compare("gte", ">=", (0, 1), "greater_equal", "greater_than_or_equal"),
    _equal("is_distinct_from", "IS DISTINCT FROM", nulls="never"),
    _equal("is_not_distinct_from", "IS NOT DISTINCT FROM", nulls="never"),
    ScalarFunction(
        "between", (Overload(("ordered",) * 3, "bool", unify=True),), fails="never", compares=True
    ),
    _test("is_null", "any", "isnull", symbol="_ IS NULL"),
    _test("is_not_null", "any", "isnotnull", symbol="_ IS NOT NULL"),
    _test("is_true", "bool", symbol="_ IS TRUE"),
    _test("is_not_true", "bool", symbol="_ IS NOT TRUE"),
    _test("is_false", "bool", symbol="_ IS FALSE"),
    _test("is_not_false", "bool", symbol="_ IS NOT FALSE"),
    _test("is_unknown", "bool"),
    _test("is_not_unknown", "bool"),
    _test("is_nan", "float", "isnan", nulls="mirror"),
    _test("is_finite", "float", nulls="mirror"),
    _test("is_infinite", "float", nulls="mirror"),
    ScalarFunction(
        "nullif", (Overload(("ordered", "ordered"), "unified", unify=True),), "always", fails="never"
    ),
    _choice("coalesce", "all", "ifnull", "nvl", family="any", spark="coalesce"),
    _choice("least", "mirror"),
    _choice("greatest", "mirror"),
    _choice("least_skip_null", "all"),
    _choice("greatest_skip_null", "all"),
    # boolean
    _logic("and", "AND"),
    _logic("or", "OR"),
    _logic("not", "NOT _", arity=1),
    _logic("xor", arity=2),
    _logic("and_not", arity=2),
    # arithmetic
    _arithmetic("add", "+", "decimal_add", _to_unsigned(_OVERFLOW), *_list_shifts()),
    _arithmetic("subtract", "-", "decimal_add", _to_unsigned(_OVERFLOW), *_list_shifts()),
    _arithmetic(
        "multiply", "*", "decimal_multiply",
        _to_unsigned({"OVERFLOW": ("ERROR", "SATURATE")}), *_SCALED_INTERVALS,
    ),
    _DIVIDE,
    _MODULUS,
    _same_number("negate", True, "negative"),
    _same_number("abs", True),
    _same_number("sign", False, "signum", spark="signum"),
    _sqrt(),
    _to_floating("exp", _ROUND_EVEN),
    _power(),
    _factorial(),
    _to_floating("sin", _ROUND_EVEN),
    _to_floating("cos", _ROUND_EVEN),
    _to_floating("tan", _ROUND_EVEN),
    _to_floating("sinh", _ROUND_EVEN),
    _to_floating("cosh", _ROUND_EVEN),
    _to_floating("tanh", _ROUND_EVEN),
    _to_floating("asinh", _ROUND_EVEN),
    _to_floating("acosh", _DOMAIN),
    _to_floating("atanh", _DOMAIN),
    _to_floating("asin", _DOMAIN),
    _to_floating("acos", _DOMAIN),
    _to_floating("atan", _ROUND_EVEN),
    _to_floating("atan2", {**_ROUND_EVEN, "ON_DOMAIN_ERROR": ("NAN",)}, arity=2),
    _to_floating("radians", _ROUND_EVEN),
    _to_floating("degrees", _ROUND_EVEN),
    _to_floating("ln", _LOG),
    _to_floating("log10", _LOG),
    _to_floating("log2", _LOG),
    _to_floating("log1p", _LOG),
    _to_floating("logb", _LOG, arity=2),
    ScalarFunction("bitwise_not", (Overload(("integer",), "first"),), fails="never"),
    _bitwise("bitwise_and"),
    _bitwise("bitwise_or"),
    _bitwise("bitwise_xor"),
    _shift("shift_left", "bitwise_shift_left"),
    _shift("shift_right", "bitwise_shift_right"),
    _shift("shift_right_unsigned"),
    # rounding
    _whole("ceil", "ceiling"),
    _whole("floor"),
    _round(),
    # strings
    _strings("upper", "text", options=_CHARSET, fails="never"),
    _strings("lower", "text", options=_CHARSET, fails="never"),
    _strings("initcap", "text", options=_CHARSET),
    _strings("swapcase", "text", options=_CHARSET),
    _strings("capitalize", "text", options=_CHARSET),
    _strings("reverse", "text", fails="never", spark="reverse"),
    _strings("substring", "text", "integer", "?integer", result="first_text", options=_NEGATIVE_START, aliases=("substr",), fails="never"),
    _strings("left", "text", "integer", result="first_text"),
    _strings("right", "text", "integer", result="first_text"),
    _strings("like", "text", "text", "?escape", result="bool", options=_CASE, fails="pattern", symbol="LIKE"),
    _strings("ilike", "text", "text", "?escape", result="bool", fails="pattern", symbol="ILIKE"),
    _strings("starts_with", "text", "text", result="bool", options=_CASE, fails="never"),
    _strings("ends_with", "text", "text", result="bool", options=_CASE, fails="never"),
    _strings("contains", "text", "text", result="bool", options=_CASE, fails="never"),
    _strings("strpos", "text", "text", result="length", options=_CASE, fails="never"),
    _strings("count_substring", "text", "text", result="i64", options=_CASE),
    _strings("ltrim", "text", "?text", result="first_text", fails="never"),
    _strings("rtrim", "text", "?text", result="first_text", fails="never"),
    _strings("trim", "text", "?text", result="first_text", aliases=("btrim",), fails="never"),
    _strings("lpad", "text", "integer", "?text", result="first_text"),
    _strings("rpad", "text", "integer", "?text", result="first_text"),
    _strings("center", "text", "integer", "text", result="first_text", options=_PADDING),
    _strings("replace", "text", "text", "text", result="first_text", options=_CASE),
    ScalarFunction(
        "replace_slice",
        (Overload(("text", "integer", "integer", "text"), "first_text"),),
        "undeclared",
    ),
    _strings("repeat", "text", "integer", result="first_text"),
    _strings("split_part", "text", "text", "integer", result="first_text"),
    _strings("char_length", "text", result="length", aliases=("character_length", "length"), fails="never", spark="char_length"),
    _strings("octet_length", "text", result="length", fails="never", spark="octet_length"),
    _strings("bit_length", "text", result="length", fails="never", spark="bit_length"),
    ScalarFunction(
        "concat", (Overload(("text",), "text", _CONCAT, variadic=True),), aliases=("str_concat",), fails="never"
    ),
    ScalarFunction("concat_ws", (Overload(("text", "text"), "joined_text", variadic=True),), fails="never", spark="concat_ws"),
    _regular("regexp_match_substring", "first", "integer", "integer", "integer"),
    ScalarFunction(
        "regexp_match_substring_all",
        (Overload(("text", "text", "integer", "integer"), "list_of_first", _PATTERN, checks=_OF_PATTERN),),
    ),
    _regular("regexp_count_substring", "i64", "integer"),
    ScalarFunction(
        "regexp_strpos", (Overload(("text", "text", "integer", "integer"), "i64", _PATTERN, checks=_OF_PATTERN),)
    ),
    *_replacements(),
    # lists
    _strings("string_split", "text", "text", result="list_of_first"),
    _strings("regexp_string_split", "text", "text", result="list_of_first", options=_PATTERN, checks=_OF_PATTERN),
    ScalarFunction("cardinality", (Overload(("list",), "i64"),), fails="never", spark="cardinality"),
    ScalarFunction("sort", (Overload(("list",), "first", _DIRECTION),)),
    ScalarFunction(
        "index_in", (Overload(("any", "list"), "i64", _NAN_EQUALITY, element=0),), "always", compares=True
    ),
    ScalarFunction("list_element", (Overload(("list", "integer"), "element"),), "always", fails="never"),
    ScalarFunction("list_contains", (Overload(("list", "any"), "bool", element=1),), fails="never", compares=True),
    ScalarFunction("list_min", (Overload(("list:ordered",), "element"),), "always", fails="never", spark="array_min"),
    ScalarFunction("list_max", (Overload(("list:ordered",), "element"),), "always", fails="never", spark="array_max"),
    ScalarFunction(
        "map_value",
        tuple(Overload(("map", key), "value", element=1) for key in ("text", "integer")),
        "always",
        fails="never",
    ),
    ScalarFunction("transform", (Overload(("list", "function"), "list_of_results", of_elements=True),)),
    ScalarFunction("filter", (Overload(("list", "function:bool"), "first", of_elements=True),)),
    ScalarFunction("any_match", (Overload(("list", "function:bool"), "bool", of_elements=True),), "always"),
    ScalarFunction("all_match", (Overload(("list", "function:bool"), "bool", of_elements=True),), "always"),
    # date and time
    ScalarFunction(
        "add_intervals", tuple(Overload((i, i), "first", unify=True) for i in ("months", "days"))
    ),
    _extract(),
    *_DATE_AND_TIME,
    ScalarFunction(
        "date_part", tuple(Overload(("word:part", p), "i32") for p in (*_POINTS, "time")), fails="never"
    ),
    _window("tumble", "size", "?offset", result="window"),
    _window("tumble_start", "size", "?offset"),
    _window("tumble_end", "size", "?offset"),
    _window("hop", "size", "slide", "?offset", result="window", groups_only=True),
    _window("session", "gap", result="window", groups_only=True),
    ScalarFunction("date_trunc", tuple(Overload(("word:unit", p), "second") for p in _POINTS)),
)  # fmt: skip

SCALARS: dict[str, ScalarFunction] = {row.name: row for row in _ROWS}
"""Canonical name -> row."""

SCALAR_NAMES: dict[str, str] = {
    spelling: row.name for row in _ROWS for spelling in (row.name, *row.aliases)
}
"""Every accepted spelling -> canonical name."""


def true_for(name: str) -> tuple[int, ...]:
    """Return `ScalarFunction.true_for` of a function; empty if it is no comparison."""
    return SCALARS[name].true_for if name in SCALARS else ()


def turn(comparison: str) -> str:
    """Return the comparison that is the same with its arguments exchanged."""
    signs = {-sign for sign in true_for(comparison)}
    return next(name for name, row in SCALARS.items() if signs and set(row.true_for) == signs)
