"""Encode tables as text: JSON lines, CSV, or an aligned table, at most `PIECE` rows at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.changes.formats.storage_types import to_shown
from substrait_agg.changes.formats.text import as_json, join, json_objects, plain

Table = Any
"""A `pyarrow.Table`."""

PIECE = 1 << 16
NULL = "NULL"


def unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names with a suffix added to duplicates, because keys of a JSON object are unique.

    >>> unique_names(["n", "m", "n"])
    ('n', 'm', 'n_1')
    """
    all_names = list(names)
    unique: list[str] = []
    for name in all_names:
        candidate, count = name, 0
        while candidate in unique or (count and candidate in all_names):
            count += 1
            candidate = f"{name}_{count}"
        unique.append(candidate)
    return tuple(unique)


# --- JSON lines ----------------------------------------------------------------------------------


def row_lines(view: Table) -> Iterator[str]:
    """Yield the rows of a view as JSON lines ``{"name": value, ...}``."""
    names = unique_names(view.column_names)
    for piece in _pieces(view):
        yield lines(row_objects(names, piece))


def change_lines(changes: Table) -> Iterator[str]:
    """Yield changes as JSON lines ``{"version": N, "weight": W, "row": {...}}``, in order."""
    names = unique_names(changes.column_names[:-2])
    for piece in _pieces(changes):
        columns = piece.columns
        version, weight = plain(columns[-2]), plain(columns[-1])
        row = row_objects(names, piece)
        yield lines(join('{"version":', version, ',"weight":', weight, ',"row":', row, "}"))


def row_objects(names: tuple[str, ...], piece: Any) -> Any:
    """Return the first columns of a batch, one per name, as JSON objects."""
    texts = tuple(as_json(c) for c in _shown_columns(piece)[: len(names)])
    return json_objects(names, texts, piece.num_rows)


# --- CSV -----------------------------------------------------------------------------------------


def csv_lines(table: Table, *, header: bool = True) -> Iterator[str]:
    r"""Yield RFC 4180 lines ending in ``\n``; null is an empty field, the empty string is ``""``."""
    if header:
        names = pa.array(table.column_names, pa.string())
        yield ",".join(_csv_quoted(names).to_pylist()) + "\n"
    for piece in _pieces(table):
        fields = [pc.fill_null(_csv_quoted(plain(c)), "") for c in _shown_columns(piece)]
        whole = pc.binary_join_element_wise(*fields, ",") if fields else [""] * piece.num_rows
        yield lines(whole)


def _csv_quoted(texts: Any) -> Any:
    needed = pc.or_(pc.match_substring_regex(texts, '[",\r\n]'), pc.equal(texts, ""))
    return pc.if_else(needed, join('"', pc.replace_substring(texts, '"', '""'), '"'), texts)


# --- aligned table -------------------------------------------------------------------------------


def table_lines(view: Table) -> Iterator[str]:
    """Yield an aligned table for people.

    Numbers are right-aligned, null is ``NULL``, and control characters are escaped.
    """
    columns = cell_texts(view)
    names = [escape_controls(name) for name in view.column_names]
    widths = [_width(name, column) for name, column in zip(names, columns, strict=True)]
    right = [is_number(kind) for kind in view.schema.types]
    heads = [n.rjust(w) if r else n.ljust(w) for n, w, r in zip(names, widths, right, strict=True)]
    yield " | ".join(heads).rstrip() + "\n"
    yield "-+-".join("-" * w for w in widths) + "\n"
    if columns:
        padded = [
            pc.utf8_lpad(c, w) if r else pc.utf8_rpad(c, w)
            for c, w, r in zip(columns, widths, right, strict=True)
        ]
        for piece in _pieces(pa.table(padded, [str(i) for i in range(len(padded))])):
            yield lines(
                pc.utf8_rtrim_whitespace(pc.binary_join_element_wise(*piece.columns, " | "))
            )
    yield f"({view.num_rows} row{'' if view.num_rows == 1 else 's'})\n"


CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def escape_controls(text: str) -> str:
    r"""Return a text with its control characters escaped.

    >>> escape_controls("a\tb")
    'a\\tb'
    """
    return CONTROL.sub(lambda match: json.dumps(match.group())[1:-1], text)


def _cells(values: Any) -> Any:
    texts = pc.fill_null(plain(values), NULL)
    special = pc.match_substring_regex(texts, CONTROL.pattern)
    if not pc.any(special).as_py():
        return texts
    escaped = [escape_controls(text) for text in texts.filter(special).to_pylist()]
    return pc.replace_with_mask(texts, special, pa.array(escaped, pa.string()))


def cell_texts(table: Table) -> list[Any]:
    """Return the cells of a table as text for people, column by column."""
    return [_cells(c) for c in _shown_columns(table)]


def _width(name: str, column: Any) -> int:
    return max(len(name), pc.max(pc.utf8_length(column)).as_py() or 0)


def is_number(kind: Any) -> bool:
    """Return whether values of an Arrow type are right-aligned."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _shown_columns(table: Any) -> list[Any]:
    return [to_shown(c, f) for c, f in zip(table.columns, table.schema, strict=True)]


# --- pieces --------------------------------------------------------------------------------------


def _pieces(table: Table) -> Iterator[Any]:
    for batch in table.to_batches(max_chunksize=PIECE):
        if batch.num_rows:
            yield batch


def lines(texts: Any) -> str:
    """Return one string with a newline after every element."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    joined: str = pc.binary_join(whole, "\n")[0].as_py()
    return joined + "\n"
