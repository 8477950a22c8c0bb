"""Random expressions over the columns of a scope."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.random_queries.dialects import NOW, TODAY, Scope, Text, say, together

LITERALS: dict[str, Sequence[str]] = {
    "int": ("CAST(0 AS BIGINT)", "CAST(1 AS BIGINT)", "CAST(3 AS BIGINT)", "CAST(-2 AS BIGINT)"),
    "dec": ("CAST(1.10 AS DECIMAL(10, 2))", "CAST(0 AS DECIMAL(10, 2))"),
    "dbl": ("CAST(0.5 AS DOUBLE)", "CAST(-2.25 AS DOUBLE)"),
    "ratio": ("CAST(1.5 AS DOUBLE)",),
    "str": ("'a'", "'ab'", "''", "'c d'"),
    "date": ("DATE '2024-02-29'", "DATE '1969-12-31'"),
    "bool": ("true", "false"),
}
SPANS = ("INTERVAL '1' DAY", "INTERVAL '90' MINUTE", "INTERVAL '-36' HOUR")
TYPE_NAMES = {
    "int": say("BIGINT"), "dec": say("DECIMAL(10, 2)"), "dbl": say("DOUBLE"), "ratio": say("DOUBLE"),
    "str": say("STRING"), "date": say("DATE"), "ts": say("TIMESTAMP_NTZ", duck="TIMESTAMP"), "bool": say("BOOLEAN"),
    "list": say("ARRAY<BIGINT>", duck="BIGINT[]"), "words": say("ARRAY<STRING>", duck="VARCHAR[]"),
    "struct": say("STRUCT<p: BIGINT, q: STRING>", duck="STRUCT(p BIGINT, q VARCHAR)"),
    "span": say("INTERVAL DAY TO SECOND", duck="INTERVAL"),
}  # fmt: skip

# Template of Spark, types of its arguments, template of DuckDB where it differs.
Form = tuple[str, tuple[str, ...], str]
FORMS: dict[str, list[Form]] = {
    "int": [
        ("({} + {})", ("int", "int"), ""), ("({} - {})", ("int", "int"), ""), ("({} * 2)", ("int",), ""),
        ("({} % 3)", ("int",), ""), ("({} div 2)", ("int",), "({} // 2)"), ("(- {})", ("int",), ""),
        ("abs({})", ("int",), ""), ("greatest({}, {})", ("int", "int"), ""), ("least({}, {})", ("int", "int"), ""),
        ("CAST(length({}) AS BIGINT)", ("str",), ""), ("CAST(year({}) AS BIGINT)", ("date",), ""),
        ("CAST(month({}) AS BIGINT)", ("ts",), ""), ("CAST(day({}) AS BIGINT)", ("date",), ""),
        ("CAST(hour({}) AS BIGINT)", ("ts",), ""), ("CAST({} AS BIGINT)", ("bool",), ""),
        ("CAST(datediff({}, {}) AS BIGINT)", ("date", "date"), "date_diff('day', {1}, {0})"),
        ("CAST(size({}) AS BIGINT)", ("list",), "len({})"), ("CAST(size({}) AS BIGINT)", ("words",), "len({})"),
        ("{}.p", ("struct",), "struct_extract({}, 'p')"), ("nullif({}, {})", ("int", "int"), ""),
        ("CAST(round({}) AS BIGINT)", ("dec",), ""), ("({} & {})", ("int", "int"), ""), ("sign({})", ("int",), ""),
        ("CAST(dayofweek({}) AS BIGINT)", ("date",), "(dayofweek({}) + 1)"),
        ("CAST(quarter({}) AS BIGINT)", ("date",), ""), ("CAST(position({}, {}) AS BIGINT)", ("str", "str"), "strpos({1}, {0})"),
    ],
    "dec": [
        ("({} + {})", ("dec", "dec"), ""), ("({} - {})", ("dec", "dec"), ""), ("abs({})", ("dec",), ""),
        ("round({}, 1)", ("dec",), ""), ("(- {})", ("dec",), ""), ("({} + {})", ("dec", "int"), ""),
        ("({} * CAST(2.5 AS DECIMAL(2, 1)))", ("dec",), ""),
        ("CAST({} % 100 AS DECIMAL(10, 2))", ("int",), ""),
    ],
    "dbl": [
        ("({} + {})", ("dbl", "dbl"), ""), ("({} - {})", ("dbl", "dbl"), ""), ("({} * CAST(0.5 AS DOUBLE))", ("dbl",), ""),
        ("CAST({} AS DOUBLE)", ("int",), ""), ("(CAST({} AS DOUBLE) / 4)", ("int",), ""), ("abs({})", ("dbl",), ""),
        ("nullif({}, {})", ("dbl", "dbl"), ""),
    ],
    "ratio": [
        ("CAST({} AS DOUBLE)", ("dec",), ""), ("(CAST({} AS DOUBLE) / 3)", ("int",), ""), ("({} / CAST(7 AS DOUBLE))", ("dbl",), ""),
        ("sqrt(CAST(abs({}) AS DOUBLE))", ("int",), ""), ("({} + {})", ("ratio", "ratio"), ""),
    ],
    "str": [
        ("({} || {})", ("str", "str"), ""), ("upper({})", ("str",), ""), ("lower({})", ("str",), ""),
        ("substr({}, 1, 2)", ("str",), ""), ("substr({}, 2)", ("str",), ""), ("CAST({} AS STRING)", ("int",), ""),
        ("trim({})", ("str",), ""), ("replace({}, 'b', 'xy')", ("str",), ""), ("CAST({} AS STRING)", ("date",), ""),
        ("{}.q", ("struct",), "struct_extract({}, 'q')"), ("reverse({})", ("str",), ""), ("lpad({}, 3, '*')", ("str",), ""),
        ("left({}, 1)", ("str",), ""), ("repeat({}, 2)", ("str",), ""), ("CAST({} AS STRING)", ("dec",), ""),
        ("CAST({} AS STRING)", ("bool",), ""), ("split_part({}, 'b', 1)", ("str",), ""),
    ],
    "date": [
        ("date_add({}, 3)", ("date",), "CAST({} + INTERVAL 3 DAY AS DATE)"), ("CAST({} AS DATE)", ("ts",), ""),
        ("add_months({}, -1)", ("date",), "CAST({} - INTERVAL 1 MONTH AS DATE)"), ("last_day({})", ("date",), ""),
        ("trunc({}, 'MM')", ("date",), "CAST(date_trunc('month', {}) AS DATE)"), ("greatest({}, {})", ("date", "date"), ""),
        ("({} + INTERVAL '2' MONTH)", ("date",), "CAST({} + INTERVAL 2 MONTH AS DATE)"),
    ],
    "ts": [
        *((f"({{}} + {span})", ("ts",), "") for span in SPANS), ("({} + INTERVAL '1' MONTH)", ("ts",), ""),
        ("CAST({} AS TIMESTAMP_NTZ)", ("date",), "CAST({} AS TIMESTAMP)"), ("({} + {})", ("ts", "span"), ""),
        ("({} - INTERVAL '90' MINUTE)", ("ts",), ""),
    ],
    "bool": [],
    "list": [
        ("array({}, {})", ("int", "int"), "[{}, {}]"), ("sort_array({})", ("list",), "list_sort({}, 'ASC', 'NULLS FIRST')"),
        ("slice({}, 1, 2)", ("list",), "{}[1:2]"),
    ],
    "words": [("array({}, {})", ("str", "str"), "[{}, {}]"), ("sort_array({})", ("words",), "list_sort({}, 'ASC', 'NULLS FIRST')")],
    "struct": [("named_struct('p', {}, 'q', {})", ("int", "str"), "struct_pack(p := {}, q := {})")],
    "span": [("({} - {})", ("ts", "ts"), ""), *((f"({{}} + {span})", ("span",), "") for span in SPANS)],
}  # fmt: skip
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
PATTERNS = ("a%", "%b%", "_", "%", "_b")


class Expressions:
    """Makes random expressions.

    Attributes:
        subquery: makes a condition with a subquery that may refer to a scope; None where none may be.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.subquery: Callable[[Scope], Text | None] | None = None

    def of(self, scope: Scope, type_: str, depth: int) -> Text:
        """Return an expression of a type."""
        rng = self.rng
        columns = scope.of(type_)
        if columns and (depth <= 0 or rng.random() < 0.45):
            return rng.choice(columns).text
        if depth <= 0 or (type_ in LITERALS and rng.random() < 0.1):
            return self._leaf(type_)
        if type_ == "bool" and rng.random() < 0.8:
            return say("({})", self.condition(scope, depth - 1))
        if rng.random() < 0.2 or not FORMS[type_]:
            return self._chosen(scope, type_, depth - 1)
        template, types, duck = rng.choice(FORMS[type_])
        return say(template, *(self.of(scope, t, depth - 1) for t in types), duck=duck)

    def _leaf(self, type_: str) -> Text:
        rng = self.rng
        if type_ in LITERALS and rng.random() < 0.85:
            return say(rng.choice(LITERALS[type_]))
        if type_ == "ts":
            return say(
                "TIMESTAMP_NTZ '2024-02-29 12:30:00'", duck="TIMESTAMP '2024-02-29 12:30:00'"
            )
        if type_ == "span":
            return say(rng.choice(SPANS))
        return say("CAST(NULL AS {})", TYPE_NAMES[type_])

    def _chosen(self, scope: Scope, type_: str, depth: int) -> Text:
        """Return one of two values."""
        first, second = self.of(scope, type_, depth), self.of(scope, type_, depth)
        if self.rng.random() < 0.5:
            return say("coalesce({}, {})", first, second)
        condition = self.condition(scope, depth)
        if self.rng.random() < 0.3:
            return say("CASE WHEN {} THEN {} END", condition, first)
        return say("CASE WHEN {} THEN {} ELSE {} END", condition, first, second)

    def condition(self, scope: Scope, depth: int) -> Text:
        """Return a condition without subqueries."""
        rng = self.rng
        if depth > 0 and rng.random() < 0.35:
            word = rng.choice(("AND", "OR", "AND NOT", "OR NOT"))
            return say(
                f"({{}} {word} {{}})",
                self.condition(scope, depth - 1),
                self.condition(scope, depth - 1),
            )
        type_ = rng.choice([c.type for c in scope.columns] or ["int"])
        value = self.of(scope, type_, depth)
        kind = rng.random()
        if kind < 0.15:
            return say("{} IS {}NULL", value, rng.choice(("", "NOT ")))
        if type_ == "str" and kind < 0.35:
            return say("{} {}LIKE '{}'", value, rng.choice(("", "NOT ")), rng.choice(PATTERNS))
        if type_ == "list" and kind < 0.6:
            return say(
                "array_contains({}, {})",
                value,
                say("CAST(2 AS BIGINT)"),
                duck="list_contains({}, {})",
            )
        if type_ in LITERALS and kind < 0.3:
            items = [self._leaf(type_) for _ in range(rng.randint(1, 3))]
            return say("{} {}IN ({})", value, rng.choice(("", "NOT ")), together(items))
        if type_ in ("int", "dec", "date", "ts", "str") and kind < 0.4:
            return say(
                "{} BETWEEN {} AND {}", value, self.of(scope, type_, 0), self.of(scope, type_, 0)
            )
        return self.comparison(scope, scope, type_, depth, left=value)

    def temporal(self, scope: Scope) -> Text:
        """Return a comparison with the time of the version."""
        value = self.rng.choice(scope.of("date", "ts"))
        now = NOW if value.type == "ts" else TODAY
        if self.rng.random() < 0.5:
            now = say(f"{{}} {self.rng.choice('+-')} INTERVAL '1' DAY", now)
        return say(f"{{}} {self.rng.choice(COMPARISONS)} {{}}", value.text, now)

    def comparison(
        self, one: Scope, other: Scope, type_: str, depth: int, left: Text | None = None
    ) -> Text:
        """Return a comparison of values of two scopes."""
        left = left or self.of(one, type_, depth)
        mixed = (
            {"int": "dec", "dec": "int"}.get(type_, type_) if self.rng.random() < 0.15 else type_
        )
        right = self.of(other, mixed, depth)
        if self.rng.random() < 0.15 or type_ in ("struct", "list", "words"):
            return say("{} <=> {}", left, right, duck="{} IS NOT DISTINCT FROM {}")
        return say(f"{{}} {self.rng.choice(COMPARISONS)} {{}}", left, right)
