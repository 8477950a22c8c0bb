"""Bound relations for tests: made by hand, and at random."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundFetch,
    BoundFilter,
    BoundJoin,
    BoundMeasure,
    BoundProject,
    BoundRead,
    BoundRelation,
    BoundRows,
    BoundUnion,
    Call,
    Column,
    Constant,
    Expr,
    JoinKey,
    JoinKind,
    MeasureSort,
)
from substrait_agg.bind.context import columns
from substrait_agg.bind.joins.keys import make_join
from substrait_agg.bind.rewrite import inputs_of, table_reads
from substrait_agg.plan.types import BOOL, I64, Type
from tests.bind.naive import Bag


def read(table: str, width: int = 2) -> BoundRead:
    names = tuple(f"{table}{i}" for i in range(width))
    return BoundRead((table,), names, (I64,) * width, table)


def col(ordinal: int, type_: Type = I64) -> Column:
    return Column(type_, ordinal)


def lit(number: int | None) -> Constant:
    return Constant(I64, number)


def call(function: str, *arguments: Expr, type_: Type = BOOL) -> Call:
    options = (("ON_DIVISION_BY_ZERO", "ERROR"),) if function == "divide" else ()
    return Call(type_, function, arguments, options=options)


def eq(left: int, right: int) -> Call:
    return call("equal", col(left), col(right))


def is_(column: int, number: int) -> Call:
    return call("equal", col(column), lit(number))


def quotient(left: int, right: int) -> Call:
    """An expression that fails where the right column is 0."""
    return call("divide", col(left), col(right), type_=I64)


RISKY = call("gt", quotient(0, 1), lit(0))


def where(source: BoundRelation, *parts: Expr) -> BoundFilter:
    condition = parts[0] if len(parts) == 1 else call("and", *parts)
    return BoundFilter(source, condition, source.types, "filter")


def select(source: BoundRelation, *expressions: Expr) -> BoundProject:
    return BoundProject(source, expressions, tuple(e.type for e in expressions), "project")


def key(left: int, right: int, *, null_safe: bool = False) -> JoinKey:
    return JoinKey(col(left), col(right), null_safe)


def join(
    kind: JoinKind,
    left: BoundRelation,
    right: BoundRelation,
    *keys: JoinKey,
    residual: Expr | None = None,
) -> BoundJoin:
    return make_join(kind, left, right, keys, residual, f"join of {left.path} and {right.path}")


def cross(left: BoundRelation, right: BoundRelation) -> BoundJoin:
    return join("inner", left, right)


def count(source: BoundRelation, *keys: int) -> BoundAggregate:
    required = I64.as_nullable(False)
    measure = BoundMeasure("count", (), None, required, "count", "measure")
    expressions = tuple(Column(source.types[k], k) for k in keys)
    types = (*(e.type for e in expressions), required)
    return BoundAggregate(source, expressions, (measure,), types, "aggregate")


def fetch(source: BoundRelation, offset: int, number: int | None, *keys: int) -> BoundFetch:
    sorts = tuple(MeasureSort(Column(source.types[k], k), False, True) for k in keys)
    return BoundFetch(source, sorts, offset, number, source.types, "fetch")


def joins_in(root: BoundRelation) -> Iterator[BoundJoin]:
    if isinstance(root, BoundJoin):
        yield root
    for source in inputs_of(root):
        yield from joins_in(source)


def below(root: BoundRelation, table: str) -> BoundRelation:
    """The relation between a join and the read of a table."""
    for made in joins_in(root):
        for side in (made.left, made.right):
            tables = [r.table for r in table_reads(side)]
            if tables == [(table,)]:
                return side
    raise AssertionError(f"{table} is no input of a join")


KINDS: tuple[JoinKind, ...] = (
    "inner", "inner", "inner", "left", "full", "semi", "anti", "mark", "single",
)  # fmt: skip
WIDTHS = {"a": 2, "b": 2, "c": 1}
CELLS = (None, 0, 1, 2)


class RandomRelations:
    """Random relations over the tables a, b and c, and random rows of these tables.

    With `risky`, expressions that can fail are among them. An equality that can fail is not, since
    it becomes a key where nothing else connects two inputs.
    """

    def __init__(self, seed: int, *, risky: bool) -> None:
        self.random = random.Random(seed)
        self.risky = risky

    def tables(self) -> dict[str, Bag]:
        return {name: self._bag(width) for name, width in WIDTHS.items()}

    def _bag(self, width: int) -> Bag:
        made = range(self.random.randint(0, 4))
        rows_ = [tuple(self.random.choice(CELLS) for _ in range(width)) for _ in made]
        return Counter({row: self.random.randint(1, 2) for row in rows_})

    def relation(self, depth: int) -> BoundRelation:
        """A relation of at most `depth` levels with a column of integers."""
        kinds = (
            ("join",) * 5 + ("filter",) * 3 + ("project",) * 2 + ("count", "fetch", "union", "read")
        )
        kind = self.random.choice(kinds) if depth else "read"
        if kind == "read":
            return self._read()
        source = self.relation(depth - 1)
        numbers = integers(source)
        match kind:
            case "filter":
                return where(source, self.condition(numbers))
            case "project":
                return select(source, *self._some(lambda: self.value(numbers), 1, 3))
            case "count":
                keys = self.random.sample(numbers, min(len(numbers), self.random.randint(0, 2)))
                return count(source, *(k.ordinal for k in keys))
            case "fetch":
                limit = self.random.choice((None, 1, 2))
                sorts = self.random.choice(((), (numbers[0].ordinal,)))
                return fetch(source, self.random.randint(0, 2), limit, *sorts)
        other = self.relation(depth - 1)
        if kind == "union":
            sides = tuple(select(side, integers(side)[0]) for side in (source, other))
            return BoundUnion(sides, (I64,), "union")
        return self._join(source, other)

    def _read(self) -> BoundRelation:
        table = self.random.choice(("a", "a", "b", "c", "one"))
        if table == "one":
            return BoundRows((I64,), ((lit(self.random.randint(0, 2)),),), "rows")
        return read(table, WIDTHS[table])

    def _join(self, left: BoundRelation, right: BoundRelation) -> BoundJoin:
        sides, width = (integers(left), integers(right)), len(left.types)
        keys = self._some(lambda: self._key(*sides), 0, 2)
        both = [*sides[0], *(col(c.ordinal + width) for c in sides[1])]
        residual = self.condition(both) if self.random.random() < 0.6 else None
        return join(self.random.choice(KINDS), left, right, *keys, residual=residual)

    def _key(self, left: list[Column], right: list[Column]) -> JoinKey:
        return JoinKey(self.value(left), self.value(right), self.random.random() < 0.3)

    def _some(self, make: Callable[[], Any], least: int, most: int) -> list[Any]:
        return [make() for _ in range(self.random.randint(least, most))]

    def value(self, source: list[Column], *, risky: bool | None = None) -> Expr:
        """An integer over columns."""
        risky = self.risky if risky is None else risky

        def plain() -> Expr:
            cells: list[Expr] = [*source, *source, *map(lit, CELLS[1:])]
            return self.random.choice(cells)

        chance = self.random.random()
        if risky and chance < 0.15:
            return call("divide", plain(), plain(), type_=I64)
        return call("coalesce", plain(), plain(), type_=I64) if chance > 0.85 else plain()

    def condition(self, source: list[Column], depth: int = 2) -> Expr:
        if depth and self.random.random() < 0.5:
            function = self.random.choice(("and", "and", "or"))
            return call(function, *self._some(lambda: self.condition(source, depth - 1), 2, 3))
        function = self.random.choice(
            ("equal",) * 4 + ("gt", "lte", "not_equal", "is_null", "is_not_distinct_from")
        )
        if function == "is_null":
            return call(function, self.value(source))
        risky = self.risky and function in ("gt", "not_equal")
        return call(function, *(self.value(source, risky=risky) for _ in range(2)))


def integers(relation: BoundRelation) -> list[Column]:
    """The columns of integers."""
    return [c for c in columns(relation.types) if isinstance(c, Column) and c.type.kind == "i64"]
