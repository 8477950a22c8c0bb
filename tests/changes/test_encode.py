"""Tables as JSON lines, CSV and aligned text."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from substrait_agg.changes import change_lines, csv_lines, row_lines, table_lines
from substrait_agg.changes.formats import encode
from substrait_agg.changes.formats.encode import unique_names

CHANGE = st.tuples(st.text(max_size=3), st.integers(1, 4), st.sampled_from([-2, -1, 1, 3]))


def changes_of(rows: list[tuple[str, int, int]]) -> Any:
    """Changes with a column `name`, of (name, version, weight)."""
    return pa.table(
        {
            "name": pa.array([r[0] for r in rows], pa.string()),
            "__version": pa.array([r[1] for r in rows], pa.int64()),
            "__weight": pa.array([r[2] for r in rows], pa.int64()),
        }
    )


@given(st.lists(CHANGE))
def test_change_lines_hold_version_weight_and_row_in_the_order_given(
    rows: list[tuple[str, int, int]],
) -> None:
    lines = "".join(change_lines(changes_of(rows))).split("\n")
    found = [json.loads(line) for line in lines[:-1]]
    assert [(c["row"]["name"], c["version"], c["weight"]) for c in found] == rows


@pytest.mark.parametrize("encoder", [change_lines, row_lines, csv_lines, table_lines])
def test_pieces_join_to_the_same_text(encoder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of a table that is written in pieces equals its text written at once."""
    table = changes_of([(f"n{i}", 1, 1) for i in range(10)])
    whole = "".join(encoder(table))
    monkeypatch.setattr(encode, "PIECE", 3)
    assert "".join(encoder(table)) == whole


@given(
    st.lists(st.tuples(st.none() | st.text(alphabet='ab",\n\r '), st.none() | st.integers(0, 9)))
)
def test_csv_reads_back_and_tells_null_from_empty(
    rows: list[tuple[str | None, int | None]],
) -> None:
    table = pa.table(
        {
            "s": pa.array([r[0] for r in rows], pa.string()),
            "n": pa.array([r[1] for r in rows], pa.int8()),
        }
    )
    text = "".join(csv_lines(table))
    read = list(csv.reader(io.StringIO(text, newline="")))
    assert read[0] == ["s", "n"]
    assert read[1:] == [[s or "", "" if n is None else str(n)] for s, n in rows]
    assert text.count('""') >= sum(s == "" for s, _ in rows)


def test_null_and_empty_differ_in_csv() -> None:
    table = pa.table({"s": pa.array(["", None]), "n": pa.array([1, 2])})
    assert "".join(csv_lines(table)) == 's,n\n"",1\n,2\n'


def test_the_table_lines_up_and_stays_on_its_lines() -> None:
    """Numbers are aligned to the right, and a line end in a value or a name does not break a row."""
    table = pa.table({"k\n": pa.array(["a", "b\nc", None]), "n": pa.array([1, None, -250])})
    assert "".join(table_lines(table)) == (
        "k\\n  |    n\n-----+-----\na    |    1\nb\\nc | NULL\nNULL | -250\n(3 rows)\n"
    )


def test_an_empty_view_has_a_header_and_no_rows() -> None:
    empty = pa.table({"n": pa.array([], pa.int64())})
    assert list(row_lines(empty)) == []
    assert list(csv_lines(empty)) == ["n\n"]
    assert "".join(table_lines(empty)) == "n\n-\n(0 rows)\n"


def test_equal_names_are_told_apart_in_json() -> None:
    table = pa.table([pa.array([1]), pa.array([2]), pa.array([3])], ["n", "n", "n_1"])
    assert unique_names(table.column_names) == ("n", "n_2", "n_1")
    assert json.loads("".join(row_lines(table))) == {"n": 1, "n_2": 2, "n_1": 3}


def test_rows_without_columns_are_lines_without_fields() -> None:
    rows = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
    table = pa.Table.from_batches([rows])
    assert "".join(csv_lines(table, header=False)) == "\n\n\n"
    assert "".join(row_lines(table)) == "{}\n{}\n{}\n"
