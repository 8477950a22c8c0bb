"""A naive evaluation of bound relations: nested loops over bags of Python rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundFetch,
    BoundFilter,
    BoundJoin,
    BoundProject,
    BoundRead,
    BoundRelation,
    BoundRows,
    BoundUnion,
    Call,
    Column,
    Constant,
    Expr,
    InList,
)

Row = tuple[Any, ...]
Bag = Counter[Row]
Tables = dict[str, Bag]


class RunFailed(Exception):
    """The plan fails for these rows."""


def _divide(left: Any, right: Any) -> Any:
    if right == 0:
        raise RunFailed("division by zero")
    return None if None in (left, right) else left // right


def _and(*values: Any) -> Any:
    return False if False in values else None if None in values else True


def _or(*values: Any) -> Any:
    return True if True in values else None if None in values else False


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: None if None in values else function(*values)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "equal": _strict(lambda a, b: a == b),
    "not_equal": _strict(lambda a, b: a != b),
    "gt": _strict(lambda a, b: a > b),
    "lt": _strict(lambda a, b: a < b),
    "gte": _strict(lambda a, b: a >= b),
    "lte": _strict(lambda a, b: a <= b),
    "between": lambda a, least, most: _and(FUNCTIONS["gte"](a, least), FUNCTIONS["lte"](a, most)),
    "add": _strict(lambda a, b: a + b),
    "subtract": _strict(lambda a, b: a - b),
    "not": _strict(lambda a: not a),
    "and": _and,
    "or": _or,
    "is_null": lambda a: a is None,
    "is_not_distinct_from": lambda a, b: a == b,
    "coalesce": lambda *values: next((v for v in values if v is not None), None),
    "divide": _divide,
}


def value(expression: Expr, row: Row) -> Any:
    """The value of an expression. All parts are computed, so that every part that can fail does
    fail.
    """
    match expression:
        case Column(ordinal=ordinal):
            return row[ordinal]
        case Constant(value=constant):
            return constant
        case Call(function=function, arguments=arguments):
            return FUNCTIONS[function](*(value(a, row) for a in arguments))
        case InList(value=inner, options=options):
            found = value(inner, row)
            return _or(*(FUNCTIONS["equal"](found, value(o, row)) for o in options))
        case _:
            raise TypeError(expression)


def rows(relation: BoundRelation, tables: Tables) -> Bag:
    """The rows of a relation with their numbers.

    Raises:
        RunFailed: an expression or a single join fails.
    """
    match relation:
        case BoundRead(table=table):
            return tables[table[0]]
        case BoundRows(rows=written):
            return Counter(tuple(value(cell, ()) for cell in row) for row in written)
        case BoundFilter(input=source, condition=condition):
            kept = rows(source, tables).items()
            return Counter({row: n for row, n in kept if value(condition, row) is True})
        case BoundProject(input=source, expressions=expressions):
            return _summed(
                (tuple(value(e, row) for e in expressions), n)
                for row, n in rows(source, tables).items()
            )
        case BoundUnion(inputs=inputs):
            return _summed(item for source in inputs for item in rows(source, tables).items())
        case BoundAggregate():
            return _aggregated(relation, rows(relation.input, tables))
        case BoundFetch():
            return _fetched(relation, rows(relation.input, tables))
        case BoundJoin():
            return _joined(relation, rows(relation.left, tables), rows(relation.right, tables))
        case _:
            raise TypeError(relation)


def _summed(items: Iterator[tuple[Row, int]]) -> Bag:
    total: Bag = Counter()
    for row, n in items:
        total[row] += n
    return total


def _aggregated(relation: BoundAggregate, source: Bag) -> Bag:
    """Every measure counts rows."""
    groups: Bag = Counter() if relation.keys else Counter({(): 0})
    for row, n in source.items():
        groups[tuple(value(key, row) for key in relation.keys)] += n
    return Counter({(*key, *[n] * len(relation.measures)): 1 for key, n in groups.items()})


def _fetched(relation: BoundFetch, source: Bag) -> Bag:
    def place(row: Row) -> list[Any]:
        keys = []
        for sort in relation.sorts:
            found = value(sort.expression, row)
            rank = (found is None) != sort.nulls_first
            number = 0 if found is None else int(found)
            keys.append((rank, -number if sort.descending else number))
        return [*keys, *((cell is None, cell or 0) for cell in row)]

    ordered = [row for row in sorted(source, key=place) for _ in range(source[row])]
    last = None if relation.count is None else relation.offset + relation.count
    return Counter(ordered[relation.offset : last])


def _matches(join: BoundJoin, left: Row, right: Row) -> bool:
    for key in join.keys:
        one, other = value(key.left, left), value(key.right, right)
        if one != other or (one is None and not key.null_safe):
            return False
    return join.residual is None or value(join.residual, (*left, *right)) is True


def _joined(join: BoundJoin, left: Bag, right: Bag) -> Bag:
    for key in join.keys:  # they are computed for every row
        for row in left:
            value(key.left, row)
        for row in right:
            value(key.right, row)
    pairs = [(a, b) for a, b in product(left, right) if _matches(join, a, b)]
    matched = {a for a, _ in pairs}
    if join.kind in ("semi", "anti"):
        return Counter({a: n for a, n in left.items() if (a in matched) == (join.kind == "semi")})
    if join.kind == "mark":
        return Counter({(*a, a in matched): n for a, n in left.items()})
    if join.kind == "single" and any(
        sum(right[b] for x, b in pairs if x == a) > 1 for a in matched
    ):
        raise RunFailed("several matches")
    found = [(a + b, left[a] * right[b]) for a, b in pairs]
    if join.kind != "inner":
        pad = (None,) * len(join.right.types)
        found += [(a + pad, n) for a, n in left.items() if a not in matched]
    if join.kind == "full":
        met, pad = {b for _, b in pairs}, (None,) * len(join.left.types)
        found += [(pad + b, n) for b, n in right.items() if b not in met]
    return _summed(iter(found))
