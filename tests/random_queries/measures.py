"""Random aggregate functions and window functions."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.random_queries.dialects import SIMPLE, Column, Scope, Text, say, together
from tests.random_queries.expressions import Expressions

# Type of the result -> templates of Spark, type of the argument, template of DuckDB where it differs.
CALLS: dict[str, list[tuple[str, str, str]]] = {
    "int": [
        ("count(*){f}", "", ""), ("count({}){f}", "any", ""), ("count(DISTINCT {}){f}", "any", ""),
        ("sum({}){f}", "int", "CAST(sum({}){f} AS BIGINT)"), ("sum(DISTINCT {}){f}", "int", "CAST(sum(DISTINCT {}){f} AS BIGINT)"),
        ("min({}){f}", "int", ""), ("max({}){f}", "int", ""), ("bit_xor({}){f}", "int", ""), ("bit_or({}){f}", "int", ""),
        ("count_if({})", "bool", "CAST(coalesce(count_if({}), 0) AS BIGINT)"),
    ],
    "dec": [("sum({}){f}", "dec", ""), ("min({}){f}", "dec", ""), ("max({}){f}", "dec", ""), ("sum(DISTINCT {}){f}", "dec", "")],
    "dbl": [("sum({}){f}", "dbl", ""), ("min({}){f}", "dbl", ""), ("max({}){f}", "dbl", "")],
    "ratio": [
        ("avg({}){f}", "int", ""), ("avg({}){f}", "dbl", ""), ("avg(DISTINCT {}){f}", "int", ""), ("median({}){f}", "int", ""),
        ("percentile({}, 0.25){f}", "int", "quantile_cont({}, 0.25){f}"), ("max({}){f}", "ratio", ""), ("min({}){f}", "ratio", ""),
        ("round(stddev_samp({}){f}, 6)", "int", ""), ("round(var_pop({}){f}, 6)", "int", ""),
    ],
    "str": [
        ("min({}){f}", "str", ""), ("max({}){f}", "str", ""),
        ("listagg({0}, ',') WITHIN GROUP (ORDER BY {0}){f}", "str", "string_agg({0}, ',' ORDER BY {0}){f}"),
        ("listagg(DISTINCT {0}, ',') WITHIN GROUP (ORDER BY {0}){f}", "str", "string_agg(DISTINCT {0}, ',' ORDER BY {0}){f}"),
        ("max_by({0}, {0}){f}", "str", ""),
    ],
    "date": [("min({}){f}", "date", ""), ("max({}){f}", "date", "")],
    "ts": [("min({}){f}", "ts", ""), ("max({}){f}", "ts", "")],
    "bool": [("bool_and({}){f}", "bool", ""), ("bool_or({}){f}", "bool", "")],
    "list": [
        ("sort_array(collect_list({0}))", "int", "list_sort(coalesce(list({0}) FILTER (WHERE {0} IS NOT NULL), []))"),
        ("sort_array(collect_set({0}))", "int", "list_sort(coalesce(list(DISTINCT {0}) FILTER (WHERE {0} IS NOT NULL), []))"),
    ],
}  # fmt: skip


class Measures:
    """Makes random aggregate functions over a scope."""

    def __init__(self, rng: random.Random, expressions: Expressions) -> None:
        self._rng, self._expressions = rng, expressions

    def one(self, scope: Scope, types: Sequence[str] = tuple(CALLS)) -> tuple[Text, str]:
        """Return a call and the type of its result."""
        rng = self._rng
        type_ = rng.choice([t for t in types if t in CALLS])
        if rng.random() < 0.25 and "int" in types:
            type_ = "int"
        template, argument, duck = rng.choice(CALLS[type_])
        if argument == "any":
            argument = rng.choice(SIMPLE)
        value = (
            self._expressions.of(scope, argument, rng.choice((0, 0, 1, 2))) if argument else say("")
        )
        condition = say("")
        if "{f}" in template and rng.random() < 0.25:
            condition = say(" FILTER (WHERE {})", self._expressions.condition(scope, 1))
        spark = (
            template.replace("{f}", "{1}")
            if "{}" not in template
            else template.replace("{}", "{0}").replace("{f}", "{1}")
        )
        theirs = (duck or template).replace("{}", "{0}").replace("{f}", "{1}")
        return say(spark, value, condition, duck=theirs), type_


RANKS = ("row_number()", "rank()", "dense_rank()", "ntile(3)")
SHARES = ("percent_rank()", "cume_dist()")
SPANS = {"date": ("'2' DAY", "'1' MONTH"), "ts": ("'36' HOUR", "'1' MONTH", "'1' YEAR"), "int": ("2", "1"), "dec": ("1.5",), "dbl": ("1.5", "0.5")}  # fmt: skip


class WindowCalls:
    """Makes random window functions. The rows of a frame of rows are ordered by all columns."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def order(self, columns: Sequence[Column]) -> Text:
        """Return an order by columns in a random sequence."""
        shuffled = self._rng.sample(columns, len(columns))
        return together(self._key(column) for column in shuffled)

    def _key(self, column: Column) -> Text:
        return say(
            "{} {} NULLS {}",
            column.text,
            self._rng.choice(("ASC", "DESC")),
            self._rng.choice(("FIRST", "LAST")),
        )

    def some(
        self, columns: Sequence[Column], count: int, *, several: bool
    ) -> list[tuple[Text, str]]:
        """Return calls and the types of their results; `several` of them may depend on the places of equal rows."""
        made, placed = [], False
        for _ in range(count):
            call, type_, by_place = self._one(columns, peers=placed and not several)
            placed = placed or by_place
            made.append((call, type_))
        return made

    def _one(self, columns: Sequence[Column], *, peers: bool) -> tuple[Text, str, bool]:
        rng = self._rng
        by = rng.sample(columns, min(len(columns), rng.choice((0, 1, 1, 2))))
        partition = say("PARTITION BY {} ", together(c.text for c in by)) if by else say("")
        call, type_, kind = self._call(columns, 0.2 if peers else 1)
        if peers and kind != "peers":
            raise AssertionError(kind)
        if kind == "peers":  # equal for rows with equal keys
            some = rng.sample(columns, rng.randint(1, len(columns)))
            window = say("{}ORDER BY {}", partition, self.order(some))
        elif kind == "ordered":
            window = say("{}ORDER BY {}", partition, self.order(columns))
        else:
            window = say("{}{}", partition, self._frame(columns, total=kind == "values"))
        return say("{} OVER ({})", call, window), type_, kind != "peers"

    def _call(self, columns: Sequence[Column], most: float) -> tuple[Text, str, str]:
        rng = self._rng
        value = rng.choice(columns)
        kind = rng.random() * most
        if kind < 0.14:
            return say(rng.choice(("rank()", "dense_rank()"))), "int", "peers"
        if kind < 0.2:
            return say(rng.choice(SHARES)), "ratio", "peers"
        if kind < 0.35:
            return say(rng.choice(RANKS)), "int", "ordered"
        if kind < 0.5:
            name, n = rng.choice(("lag", "lead")), rng.randint(0, 3)
            nulls = rng.random() < 0.3
            return (
                say(f"{name}({{}}, {n}){' IGNORE NULLS' * nulls}", value.text, duck=f"{name}({{}}, {n}{' IGNORE NULLS' * nulls})"),
                value.type, "ordered",
            )  # fmt: skip
        if kind < 0.65:
            name = rng.choice(("first_value({})", "last_value({})", "nth_value({}, 2)"))
            nulls = rng.random() < 0.4
            return (
                say(
                    name + " IGNORE NULLS" * nulls,
                    value.text,
                    duck=name[:-1] + " IGNORE NULLS)" * nulls + ")" * (not nulls),
                ),
                value.type,
                "values",
            )
        return self._aggregate(columns)

    def _aggregate(self, columns: Sequence[Column]) -> tuple[Text, str, str]:
        rng = self._rng
        value = rng.choice(columns)
        condition = say("")
        if rng.random() < 0.25:
            other = rng.choice(columns)
            condition = say(" FILTER (WHERE {} IS NOT NULL)", other.text)
        forms = [("count({})", "int", ""), ("count(*)", "int", "")]
        if value.type not in ("bool",):
            forms += [("min({})", value.type, ""), ("max({})", value.type, "")]
        if value.type == "int":
            forms += [
                ("sum({})", "int", ""),
                ("avg({})", "ratio", ""),
                ("bit_xor({})", "int", ""),
                ("percentile({}, 0.5)", "ratio", "quantile_cont({}, 0.5)"),
            ]
        if value.type in ("dec", "dbl"):
            forms += [("sum({})", value.type, "")]
        if value.type == "bool":
            forms += [("bool_or({})", "bool", ""), ("bool_and({})", "bool", "")]
        template, type_, duck = rng.choice(forms)
        call = say(template, value.text, duck=duck)
        return say("{}{}", call, condition), type_, "frame"

    def _frame(self, columns: Sequence[Column], *, total: bool) -> Text:
        rng = self._rng
        measured = [c for c in columns if c.type in SPANS]
        kind = rng.random()
        if total or kind < 0.5:
            ends = (
                "UNBOUNDED PRECEDING",
                "3 PRECEDING",
                "1 PRECEDING",
                "CURRENT ROW",
                "1 FOLLOWING",
                "2 FOLLOWING",
                "UNBOUNDED FOLLOWING",
            )
            low, high = self._ends(len(ends))
            return say(
                f"ORDER BY {{}} ROWS BETWEEN {ends[low]} AND {ends[high]}", self.order(columns)
            )
        if kind < 0.65:
            return say("")
        if not measured or kind < 0.75:
            return say("ORDER BY {}", self.order(rng.sample(columns, rng.randint(1, len(columns)))))
        column = rng.choice(measured)
        span = rng.choice(SPANS[column.type])
        word = "INTERVAL " if column.type in ("date", "ts") else ""
        bounds = (
            "UNBOUNDED PRECEDING",
            f"{word}{span} PRECEDING",
            "CURRENT ROW",
            f"{word}{span} FOLLOWING",
            "UNBOUNDED FOLLOWING",
        )
        low, high = self._ends(len(bounds))
        return say(
            f"ORDER BY {{}} RANGE BETWEEN {bounds[low]} AND {bounds[high]}", self._key(column)
        )

    def _ends(self, count: int) -> tuple[int, int]:
        low = self._rng.randrange(count - 1)
        high = self._rng.randrange(max(low, 1), count)
        return low, high
