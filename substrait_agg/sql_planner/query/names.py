"""Match the names of a query with those of its tables, and name the columns of its result."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from substrait_agg.errors import SqlRefused
from substrait_agg.plan.plannable import plannable
from substrait_agg.sql_planner.query.tokens import Token

TableName = tuple[str, ...]

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


@dataclass(frozen=True, slots=True)
class TableNames:
    """The tables of a query, under the names by which DataFusion finds them.

    DataFusion reads a name without quotes in lower case. So a name is registered in lower case,
    unless the query has it in quotes, or another name equals it in lower case.

    Attributes:
        schemas: name for DataFusion -> columns with their names for DataFusion.
        tables: name for DataFusion -> name as given.
        columns: name for DataFusion -> column names as given, in order.
    """

    schemas: Mapping[TableName, pa.Schema]
    tables: Mapping[TableName, TableName]
    columns: Mapping[TableName, tuple[str, ...]]

    @classmethod
    def of(cls, tables: Mapping[str, pa.Schema], tokens: Sequence[Token]) -> TableNames:
        """Return the names of tables in a query with these tokens."""
        quoted = {token.name for token in tokens if token.kind == "quoted"}
        parts = {name: tuple(name.split(".")) for name in tables}
        sql_names = _chosen([".".join(p) for p in parts.values()], quoted)
        schemas, originals, columns = {}, {}, {}
        for name, schema in tables.items():
            key = tuple(sql_names[name].split("."))
            plannable_schema = plannable(schema)
            renamed = _chosen(plannable_schema.names, quoted)
            schemas[key] = pa.schema(
                [field.with_name(renamed[field.name]) for field in plannable_schema]
            )
            originals[key] = parts[name]
            columns[key] = tuple(plannable_schema.names)
        _check_different(originals)
        return cls(schemas, originals, columns)

    def own_column(self, name: str) -> str:
        """Return the name as given of a column, if it means one; else the name itself."""
        own_names = {own for columns in self.columns.values() for own in columns}
        matches = [own for own in own_names if own.lower() == name]
        return matches[0] if len(matches) == 1 else name

    def key(self, written: TableName) -> TableName | None:
        """Return the name for DataFusion of a table as DataFusion writes it in a plan."""
        return next((key for key in self.schemas if _full(key) == _full(written)), None)


_DEFAULTS = ("datafusion", "public")
"""Catalog and schema of a table whose name has no others."""


def _full(name: TableName) -> TableName:
    """Return the catalog, the schema and the table of a name for DataFusion."""
    last = name[-3:]
    return (*_DEFAULTS[: 3 - len(last)], *last)


def _check_different(tables: Mapping[TableName, TableName]) -> None:
    """Refuse tables that DataFusion cannot tell apart, such as ``t`` and ``public.t``.

    Raises:
        SqlRefused: SQL_NOT_PLANNED.
    """
    by_full_name: dict[TableName, TableName] = {}
    for key, own in tables.items():
        first = by_full_name.setdefault(_full(key), own)
        if first is not own:
            message = f"the tables {'.'.join(first)} and {'.'.join(own)} are one table in SQL"
            help = "give one of them another name"
            raise SqlRefused("SQL_NOT_PLANNED", message, help=help)


def _chosen(names: Sequence[str], quoted: Iterable[str]) -> dict[str, str]:
    """Return the name for DataFusion of each name."""
    reserved = set(quoted)
    lower = [name.lower() for name in names]
    return {
        name: name
        if reserved.intersection((name, *name.split("."))) or lower.count(name.lower()) > 1
        else name.lower()
        for name in names
    }


# --- names of the result ------------------------------------------------------------------------


def output_names(query: str, tokens: Sequence[Token], names: Sequence[str]) -> tuple[str, ...]:
    """Return the texts that name the columns of the result of a query, or nothing.

    Args:
        query: the query.
        tokens: its tokens.
        names: names of the columns in front of the query, ``CREATE VIEW v (a, b) AS``.

    Returns:
        A text per column. It is empty where the query does not show its columns, such as with
        ``*``, and where it is not a SELECT.

    >>> from substrait_agg.sql_planner.query.tokens import tokens
    >>> text = "SELECT Region, sum(x), max(y) AS top FROM t"
    >>> output_names(text, tokens(text), ())
    ('Region', 'sum(x)', 'top')
    """
    if names:
        return tuple(names)
    items = list(_items(_select_list(tokens)))
    if not items or any(_is_star(item) for item in items):
        return ()
    return tuple(_text(query, item) for item in items)


_ENDS = ("from", "union", "except", "intersect", "where", "order", "limit")
"""Words after the columns of a SELECT."""


def _select_list(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens between SELECT and FROM of the outermost SELECT: the first one of a set operation."""
    depth, level, begin = 0, 0, None
    for number, token in enumerate(tokens):
        before = tokens[number - 1] if number else None
        if begin is None and depth == level and token.text == "(":
            level += before is None or before.text in ("(", ")")  # no parenthesis of WITH
        depth += (token.text in _OPENING) - (token.text in _CLOSING)
        if begin is None and depth == level and token.is_word("select"):
            begin = number + 1
        elif begin is not None and (depth < level or (depth == level and token.is_word(*_ENDS))):
            if token.is_word("from") and number > begin and tokens[number - 1].is_word("distinct"):
                continue  # IS DISTINCT FROM
            return _without_quantifier(tokens[begin:number])
    return () if begin is None else _without_quantifier(tokens[begin:])


def _without_quantifier(part: Sequence[Token]) -> Sequence[Token]:
    if part and part[0].is_word("distinct", "all"):
        if len(part) > 1 and part[1].is_word("on"):
            return ()
        return part[1:]
    return part


def _items(part: Sequence[Token]) -> Iterator[Sequence[Token]]:
    depth, begin = 0, 0
    for number, token in enumerate(part):
        depth += (token.text in _OPENING) - (token.text in _CLOSING)
        if depth == 0 and token.text == ",":
            yield part[begin:number]
            begin = number + 1
    if part:
        yield part[begin:]


def _is_star(item: Sequence[Token]) -> bool:
    return not item or (item[0].text == "*") or (len(item) > 2 and item[-1].text == "*")


def _text(query: str, item: Sequence[Token]) -> str:
    last, before = item[-1], item[-2] if len(item) > 1 else None
    if last.kind in ("word", "quoted"):
        is_column = len(item) % 2 == 1 and all(t.text == "." for t in item[1::2])
        if is_column or (before is not None and before.is_word("as")):
            return last.name if last.kind == "quoted" else last.text
    return re.sub(r"\s+", " ", query[item[0].start : last.end])


def column_name(text: str, planned: str) -> str:
    """Return the name of a column of the result.

    Args:
        text: what `output_names` returns for the column.
        planned: the name that DataFusion gives it.

    >>> column_name("sum(x) AS Total", "total"), column_name("sum(x) total", "total")
    ('Total', 'total')
    """
    match = re.search(r"(?:^|[\s)'\]])([^\W\d][\w$]*)$", text)
    if match and match[1].lower() == planned:
        return match[1]
    return planned if text.endswith('"') else text
