"""Find the source of each table that a plan reads, by the names that the user gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from substrait_agg.bind.bound import BoundRead
from substrait_agg.errors import InputRefused

Source = TypeVar("Source")
Table = tuple[str, ...]


def _spellings(table: Table) -> tuple[str, ...]:
    """Return the names of a table, most exact first: dotted, last part, both in lower case."""
    dotted = ".".join(table)
    return (dotted, table[-1], dotted.lower(), table[-1].lower())


def _find(table: Table, names: Iterable[str]) -> str | None:
    """Return the name that means `table` most exactly, or None if no name means it."""
    all_names = tuple(names)
    for level, spelling in enumerate(_spellings(table)):
        matches = [n for n in all_names if (n if level < 2 else n.lower()) == spelling]
        if len(matches) > 1:
            raise InputRefused(
                "SOURCE_AMBIGUOUS",
                f"the sources {', '.join(matches)} all match the table {'.'.join(table)}",
                help="name one of them exactly as the plan names the table",
            )
        if matches:
            return matches[0]
    return None


def has_source(table: Table, names: Iterable[str]) -> bool:
    """Return whether one of the names of sources means a table."""
    return _find(table, names) is not None


def find_table(name: str, tables: Iterable[Table]) -> Table | None:
    """Return the table that a name means most exactly, or None if it means none or several."""
    all_tables = tuple(tables)
    for level in range(4):
        shown = name if level < 2 else name.lower()
        matches = [table for table in all_tables if _spellings(table)[level] == shown]
        if matches:
            return matches[0] if len(matches) == 1 else None
    return None


def check_sources(sources: Mapping[str, Source], reads: Sequence[BoundRead]) -> dict[Table, Source]:
    """Return the source of each table that is read: table -> source.

    A name means a table if it equals the dotted name of the table, else its last part, else either
    of them without regard to case.

    Raises:
        InputRefused: ``SOURCE_MISSING`` (lists the tables without a source), ``SOURCE_UNKNOWN``
            (lists the sources that no table needs), ``SOURCE_AMBIGUOUS`` (two names for one table,
            or one name for two).
    """
    tables = tuple(dict.fromkeys(read.table for read in reads))
    name_by_table = {table: _find(table, sources) for table in tables}
    missing = [".".join(table) for table, name in name_by_table.items() if name is None]
    table_names = ", ".join(".".join(table) for table in tables) or "no table"
    if missing:
        raise InputRefused(
            "SOURCE_MISSING",
            f"no source is given for {', '.join(missing)}; the plan reads {table_names}",
            help=f"add --source {missing[0]}=SPEC{_or_files(missing[0], reads)}",
        )
    used = [name for name in name_by_table.values() if name is not None]
    unknown = [name for name in sources if name not in used]
    if unknown:
        raise InputRefused(
            "SOURCE_UNKNOWN",
            f"the plan has no table for the source {', '.join(unknown)}; it reads {table_names}",
            help="remove it, or use the table name of the plan",
        )
    _refuse_shared(name_by_table)
    return {table: sources[name] for table, name in name_by_table.items() if name is not None}


def _or_files(table: str, reads: Sequence[BoundRead]) -> str:
    files = any(read.files for read in reads if ".".join(read.table) == table)
    return ", or --allow-files DIR with a folder that has the files of the plan" if files else ""


def source_of(table: Table, sources: Mapping[str, Source]) -> Source:
    """Return the source of one table by the rules of `check_sources`.

    Raises:
        InputRefused: ``SOURCE_MISSING``, ``SOURCE_AMBIGUOUS``.
    """
    name = _find(table, sources)
    if name is None:
        shown = ".".join(table)
        raise InputRefused(
            "SOURCE_MISSING",
            f"no source is given for {shown}, and the plan gives no column types for it",
            help=f"add --source {shown}=SPEC",
        )
    return sources[name]


def _refuse_shared(name_by_table: Mapping[Table, str | None]) -> None:
    for table, name in name_by_table.items():
        others = [".".join(t) for t, n in name_by_table.items() if n == name and t != table]
        if others:
            raise InputRefused(
                "SOURCE_AMBIGUOUS",
                f"the source {name} matches {'.'.join(table)} and {', '.join(others)}",
                help="name each source by the dotted name of its table",
            )
