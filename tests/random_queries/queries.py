"""Random queries of several relations. An answer never depends on the order of rows that are equal in it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.random_queries.dialects import SIMPLE, Column, Scope, Text, say, together
from tests.random_queries.expressions import COMPARISONS, Expressions
from tests.random_queries.measures import Measures, WindowCalls
from tests.random_queries.tables import NAMES, SCHEMAS

STEP_TYPES = {"int": "BIGINT", "str": "STRING", "date": "DATE", "bool": "BOOLEAN"}
KEYS = ("int", "str", "date", "dec", "dbl", "ts", "bool", "ratio")


@dataclass(frozen=True)
class Query:
    """A whole SELECT with the names and types of its columns."""

    text: Text
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class From:
    """A part of a FROM with the columns that it has."""

    text: Text
    columns: tuple[Column, ...]


class Queries:
    """Makes a random query of two to six relations.

    Args:
        seed: decides about everything.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.expressions = Expressions(self.rng)
        self.measures = Measures(self.rng, self.expressions)
        self.window_calls = WindowCalls(self.rng)
        self._left = self.rng.randint(2, 6)
        self._made = 0
        self._timed = True
        self._common: list[tuple[str, Query]] = []

    def whole(self) -> Text:
        """Return the query."""
        kind = self.rng.random()
        if kind < 0.2:
            self._common.append(("common", self.query(1)))
            query = self.query(2)
            return say("WITH common AS ({}) {}", self._common[0][1].text, query.text)
        if kind < 0.23:
            self._timed = False
            recursion = self._recursion()
            self._common.append(("common", recursion))
            query = self.query(1)
            names = together(say(name) for name, _ in recursion.columns)
            return say("WITH RECURSIVE common({}) AS ({}) {}", names, recursion.text, query.text)
        return self.query(2).text

    def query(self, depth: int, types: Sequence[str] | None = None) -> Query:
        """Return a SELECT; `types` are those of its columns where they are given."""
        rng = self.rng
        if types is not None:
            return self._plain(depth, types)
        shape = rng.random()
        if depth > 0:
            if shape < 0.25:
                return self._grouped(depth)
            if shape < 0.45:
                return self._windowed(depth)
            if shape < 0.6:
                return self._set(depth)
            if shape < 0.68:
                return self._top(depth)
        return self._plain(depth, None)

    # --- shapes

    def _plain(self, depth: int, types: Sequence[str] | None) -> Query:
        rng = self.rng
        source = self._from(depth)
        scope = Scope(source.columns)
        if types is None:
            types = [rng.choice(source.columns).type for _ in range(rng.randint(1, 4))]
        where = self._where(scope, depth)
        columns = [(self._name(), type_) for type_ in types]
        selected = [
            say("{} AS {}", self.expressions.of(scope, type_, rng.choice((0, 0, 1, 2))), name)
            for name, type_ in columns
        ]
        if columns[0][1] == "int" and self._left > 0 and rng.random() < 0.3:
            selected[0] = say("{} AS {}", self._scalar(scope), columns[0][0])
        distinct = "DISTINCT " if rng.random() < 0.15 else ""
        text = say(f"SELECT {distinct}{{}} FROM {{}}{{}}", together(selected), source.text, where)
        return Query(text, tuple(columns))

    def _grouped(self, depth: int) -> Query:
        rng = self.rng
        source = self._from(depth)
        scope = Scope(source.columns)
        where = self._where(scope, depth)
        candidates = scope.of(*SIMPLE, "list", "struct", "words")
        keys = [c.text for c in rng.sample(candidates, min(len(candidates), rng.randint(0, 3)))]
        types = {c.text: c.type for c in candidates}
        by = having = say("")
        extra: list[tuple[Text, str]] = []
        if keys:
            by = say(" GROUP BY {}", together(keys))
            if rng.random() < 0.3:
                by = self._grouping_sets(keys)
                # DuckDB has the row of all groups over no rows, too; Spark has it without other groups only.
                having = say("", duck=" HAVING count(*) > 0")
                extra = [(say("CAST(grouping({}) AS BIGINT)", keys[0]), "int")]
        calls = [self.measures.one(scope) for _ in range(rng.randint(1, 4))]
        values = [*((key, types[key]) for key in keys), *extra, *calls]
        if keys and rng.random() < 0.25:
            call, type_ = self.measures.one(scope, types=("int", "dec"))
            comparison = f"{{}} {rng.choice(COMPARISONS)} {{}}"
            value = self.expressions.of(Scope(()), type_, 0)
            having = say(
                f" HAVING {comparison}",
                call,
                value,
                duck=f"{having.duck} AND {comparison}" if having.duck else "",
            )
        return self._select(values, source.text, say("{}{}{}", where, by, having))

    def _grouping_sets(self, keys: Sequence[Text]) -> Text:
        rng = self.rng
        kind = rng.choice(("ROLLUP", "CUBE", "SETS"))
        if kind != "SETS":
            return say(" GROUP BY {}({})", kind, together(keys))
        sets = [rng.sample(keys, rng.randint(0, len(keys))) for _ in range(rng.randint(1, 3))]
        sets.append(list(keys))
        return say(" GROUP BY GROUPING SETS ({})", together(say("({})", together(s)) for s in sets))

    def _windowed(self, depth: int) -> Query:
        rng = self.rng
        query = self.query(depth - 1)
        alias = self._name()
        columns = [
            Column(say("{}.{}", alias, name), type_)
            for name, type_ in query.columns
            if type_ in SIMPLE
        ]
        if not columns:
            return query
        listed = together(say("{}", c.text) for c in columns)
        source = say("({}) AS {}", query.text, alias)
        # Rows that are equal have places in an order, but not the same ones in two orders.
        several = rng.random() < 0.6
        if several:
            source = say("(SELECT DISTINCT {} FROM {}) AS {}", listed, source, alias)
        calls = self.window_calls.some(columns, rng.randint(1, 3), several=several)
        values = [*((c.text, c.type) for c in columns), *calls]
        made = self._select(values, source, say(""))
        ints = [name for name, type_ in made.columns[len(columns) :] if type_ == "int"]
        if ints and rng.random() < 0.35:  # the first rows of each partition
            alias = self._name()
            text = say(
                f"SELECT * FROM ({{}}) AS {alias} WHERE {alias}.{ints[0]} {rng.choice(('=', '<=', '<', '>'))} 2",
                made.text,
            )
            return Query(text, made.columns)
        return made

    def _set(self, depth: int) -> Query:
        rng = self.rng
        types = [rng.choice((*SIMPLE, "list", "struct")) for _ in range(rng.randint(1, 3))]
        left, right = (self.query(depth - 1, types) for _ in range(2))
        word = rng.choice(
            ("UNION ALL", "UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")
        )
        alias = self._name()
        text = say(f"SELECT * FROM (({{}}) {word} ({{}})) AS {alias}", left.text, right.text)
        return Query(text, left.columns)

    def _top(self, depth: int) -> Query:
        rng = self.rng
        query = self.query(depth - 1)
        alias = self._name()
        columns = [(name, type_) for name, type_ in query.columns if type_ in SIMPLE]
        if not columns:
            return query
        names = [name for name, _ in columns]
        order = self.window_calls.order([Column(say("{}.{}", alias, name), "") for name in names])
        limit = f" LIMIT {rng.randint(1, 5)}" + rng.choice(("", f" OFFSET {rng.randint(1, 3)}"))
        listed = together(say("{}.{} AS {}", alias, name, name) for name in names)
        text = say(
            "SELECT {} FROM ({}) AS {} ORDER BY {}{}", listed, query.text, alias, order, limit
        )
        return Query(text, tuple(columns))

    def _select(self, values: Sequence[tuple[Text, str]], source: Text, rest: Text) -> Query:
        columns = tuple((self._name(), type_) for _, type_ in values)
        listed = together(
            say("{} AS {}", value, name)
            for (value, _), (name, _) in zip(values, columns, strict=True)
        )
        return Query(say("SELECT {} FROM {}{}", listed, source, rest), columns)

    def _recursion(self) -> Query:
        """Return a recursion of three levels; the last column is the level."""
        rng = self.rng
        types = [rng.choice(tuple(STEP_TYPES)) for _ in range(rng.randint(1, 2))]
        columns = (*((self._name(), t) for t in types), (self._name(), "int"))
        first = self._item(0)
        anchor = self._step(types, Scope(first.columns), say("CAST(1 AS BIGINT)"))
        alias = self._name()
        own = _columns(alias, columns)
        source, scope = say("common AS {}", alias), Scope(own)
        right = self._item(0)
        keys = [t for t in types if Scope(right.columns).of(t)]
        if keys and rng.random() < 0.8:
            key = rng.choice(keys)
            sides = (
                rng.choice(part.of(key)).text for part in (Scope(own[:-1]), Scope(right.columns))
            )
            kind = rng.choice(("JOIN", "JOIN", "LEFT JOIN"))
            source = say(f"{{}} {kind} {{}} ON {{}} = {{}}", source, right.text, *sides)
            scope = Scope((*own, *right.columns))
        step = self._step(types, scope, say("{} + 1", own[-1].text))
        text = say(
            "SELECT {} FROM {} UNION ALL SELECT {} FROM {} WHERE {} < 3",
            anchor, first.text, step, source, own[-1].text,
        )  # fmt: skip
        return Query(text, columns)

    def _step(self, types: Sequence[str], scope: Scope, level: Text) -> Text:
        values = [
            say("CAST({} AS {})", self.expressions.of(scope, t, 1), STEP_TYPES[t]) for t in types
        ]
        return together([*values, level])

    # --- FROM

    def _from(self, depth: int) -> From:
        rng = self.rng
        made = self._item(depth)
        while self._left > 0 and rng.random() < 0.6:
            made = self._joined(made, depth)
        return made

    def _item(self, depth: int) -> From:
        rng = self.rng
        alias = self._name()
        if self._common and rng.random() < 0.5:
            name, query = self._common[0]
            return From(say("{} AS {}", name, alias), _columns(alias, query.columns))
        if depth > 0 and self._left > 1 and rng.random() < 0.25:
            query = self.query(depth - 1)
            return From(say("({}) AS {}", query.text, alias), _columns(alias, query.columns))
        if self._left > 1 and rng.random() < 0.08:
            return self._using()
        self._left -= 1
        table = rng.choice(tuple(SCHEMAS))
        columns = [(field.name, NAMES[field.type]) for field in SCHEMAS[table]]
        return From(say("{} AS {}", table, alias), _columns(alias, columns))

    def _joined(self, left: From, depth: int) -> From:
        rng = self.rng
        lists = [c for c in left.columns if c.type in ("list", "words")]
        if lists and rng.random() < 0.3:
            return self._exploded(left, rng.choice(lists))
        if rng.random() < 0.08:
            return self._lateral(left)
        right = self._item(depth - 1)
        columns = (*left.columns, *right.columns)
        kind = rng.choice(
            (
                "JOIN",
                "JOIN",
                "LEFT JOIN",
                "RIGHT JOIN",
                "FULL JOIN",
                "SEMI JOIN",
                "ANTI JOIN",
                "CROSS JOIN",
            )
        )
        if kind == "CROSS JOIN":
            return From(say("{} CROSS JOIN {}", left.text, right.text), columns)
        on = self._on(Scope(left.columns), Scope(right.columns))
        if kind in ("SEMI JOIN", "ANTI JOIN"):
            return From(
                say(
                    f"{{}} LEFT {kind} {{}} ON {{}}",
                    left.text,
                    right.text,
                    on,
                    duck=f"{{}} {kind} {{}} ON {{}}",
                ),
                left.columns,
            )
        return From(say(f"{{}} {kind} {{}} ON {{}}", left.text, right.text, on), columns)

    def _using(self) -> From:
        """Return a join of two tables on columns of the same names."""
        rng = self.rng
        self._left -= 2
        tables, aliases = rng.sample(tuple(SCHEMAS), 2), (self._name(), self._name())
        types = [{f.name: NAMES[f.type] for f in SCHEMAS[table]} for table in tables]
        shared = [n for n, t in types[0].items() if types[1].get(n) == t and n != "id"]
        names = rng.sample(shared, min(len(shared), rng.randint(1, 2)))
        texts = [say("`{}`", name, duck='"{}"') for name in names]
        columns = [(text, types[0][name]) for text, name in zip(texts, names, strict=True)]
        columns += [
            (say("{}.{}", alias, name), part[name])
            for alias, part in zip(aliases, types, strict=True)
            for name in rng.sample([n for n in part if n not in names], 2)
        ]
        kind = rng.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        source = say(
            f"{{}} AS {{}} {kind} {{}} AS {{}} USING ({{}})",
            tables[0], aliases[0], tables[1], aliases[1], together(texts),
        )  # fmt: skip
        query, alias = self._select(columns, source, say("")), self._name()
        return From(say("({}) AS {}", query.text, alias), _columns(alias, query.columns))

    def _lateral(self, left: From) -> From:
        """Return a lateral join: an aggregate of the matching rows, or the first ones."""
        rng = self.rng
        right = self._item(0)
        scope, alias = Scope(right.columns), self._name()
        types = [t for t in KEYS if scope.of(t) and Scope(left.columns).of(t)]
        if not types:
            return From(
                say("{} CROSS JOIN {}", left.text, right.text), (*left.columns, *right.columns)
            )
        type_ = rng.choice(types)
        key, outer = rng.choice(scope.of(type_)), rng.choice(Scope(left.columns).of(type_))
        where = say(" WHERE {} = {}", key.text, outer.text)
        if rng.random() < 0.4:
            calls = [self.measures.one(scope, types=SIMPLE) for _ in range(rng.randint(1, 2))]
            query = self._select(calls, right.text, where)
        else:
            columns = rng.sample(scope.of(*SIMPLE), min(2, len(scope.of(*SIMPLE))))
            first = say(
                "{} ORDER BY {} LIMIT {}",
                where,
                self.window_calls.order(columns),
                rng.randint(1, 3),
            )
            query = self._select([(c.text, c.type) for c in columns], right.text, first)
        word, on = rng.choice((("CROSS JOIN", ""), ("LEFT JOIN", " ON true")))
        text = say(f"{{}} {word} LATERAL ({{}}) AS {{}}{on}", left.text, query.text, alias)
        return From(text, (*left.columns, *_columns(alias, query.columns)))

    def _exploded(self, left: From, column: Column) -> From:
        alias, name = self._name(), self._name()
        outer = self.rng.random() < 0.4
        made = Column(say("{}.{}", alias, name), "int" if column.type == "list" else "str")
        duck = f"{{0}} {'LEFT' if outer else 'INNER'} JOIN LATERAL (SELECT unnest({{1}}) AS {name}) AS {alias} ON true"
        spark = f"{{0}} {'LEFT' if outer else 'INNER'} JOIN LATERAL explode({{1}}) AS {alias}({name}){' ON true' if outer else ''}"
        return From(say(spark, left.text, column.text, duck=duck), (*left.columns, made))

    def _on(self, left: Scope, right: Scope) -> Text:
        rng = self.rng
        types = [t for t in KEYS if left.of(t) and right.of(t)]
        parts = []
        kind = rng.random()
        if types and kind < 0.75:
            for _ in range(rng.choice((1, 1, 2))):
                type_ = rng.choice(types)
                depth = rng.choice((0, 0, 0, 1))
                sides = (
                    self.expressions.of(left, type_, depth),
                    self.expressions.of(right, type_, depth),
                )
                word = rng.choice(("=", "=", "=", "<=>"))
                parts.append(
                    say(
                        f"{{}} {word} {{}}",
                        *sides,
                        duck="{} IS NOT DISTINCT FROM {}" if word == "<=>" else "",
                    )
                )
        if types and (not parts or rng.random() < 0.25):
            parts.append(self.expressions.comparison(left, right, rng.choice(types), 0))
        if rng.random() < 0.2 or not parts:
            parts.append(self.expressions.condition(Scope((*left.columns, *right.columns)), 1))
        return together(parts, " AND ")

    # --- WHERE and subqueries

    def _where(self, scope: Scope, depth: int) -> Text:
        rng = self.rng
        parts = []
        if rng.random() < 0.35:
            parts.append(self.expressions.condition(scope, rng.choice((0, 1, 2))))
        if self._left > 0 and depth > 0 and rng.random() < 0.45:
            parts.append(self._subquery(scope))
        if self._timed and scope.of("date", "ts") and rng.random() < 0.1:
            parts.append(self.expressions.temporal(scope))
        if not parts:
            return say("")
        return say(" WHERE {}", together(parts, rng.choice((" AND ", " AND ", " OR "))))

    def _subquery(self, scope: Scope) -> Text:
        rng = self.rng
        kind = rng.random()
        source = self._from(0)
        inner = Scope(source.columns)
        types = [t for t in KEYS if scope.of(t)] or ["int"]
        type_ = rng.choice(types)
        where = self._correlated(inner, scope)
        if kind < 0.3:
            word = rng.choice(("", "NOT "))
            return say(f"{word}EXISTS (SELECT 1 FROM {{}}{{}})", source.text, where)
        if kind < 0.7:
            word = rng.choice(("IN", "NOT IN"))
            value = self.expressions.of(inner, type_, rng.choice((0, 1)))
            return say(
                f"{{}} {word} (SELECT {{}} FROM {{}}{{}})",
                self.expressions.of(scope, type_, 0),
                value,
                source.text,
                where,
            )
        call, type_ = self.measures.one(inner, types=SIMPLE)
        value = self.expressions.of(scope, type_, 1)
        return say(
            f"{{}} {rng.choice(COMPARISONS)} (SELECT {{}} FROM {{}}{{}})",
            value,
            call,
            source.text,
            where,
        )

    def _scalar(self, scope: Scope) -> Text:
        source = self._from(0)
        inner = Scope(source.columns)
        call, _ = self.measures.one(inner, types=("int",))
        return say("(SELECT {} FROM {}{})", call, source.text, self._correlated(inner, scope))

    def _correlated(self, inner: Scope, outer: Scope) -> Text:
        rng = self.rng
        types = [t for t in KEYS if inner.of(t) and outer.of(t)]
        if not types or rng.random() < 0.3:
            return (
                say("")
                if rng.random() < 0.6
                else say(" WHERE {}", self.expressions.condition(inner, 0))
            )
        type_ = rng.choice(types)
        on = say("{} = {}", rng.choice(inner.of(type_)).text, rng.choice(outer.of(type_)).text)
        if rng.random() < 0.25:
            on = say(
                "{} AND {}", on, self.expressions.comparison(inner, outer, rng.choice(types), 0)
            )
        return say(" WHERE {}", on)

    def _name(self) -> str:
        self._made += 1
        return f"c{self._made}"


def _columns(alias: str, columns: Sequence[tuple[str, str]]) -> tuple[Column, ...]:
    return tuple(Column(say("{}.{}", alias, name), type_) for name, type_ in columns)
