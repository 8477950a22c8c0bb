"""NOT IN and IN with a subquery have SQL semantics, also with nulls, at every version."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import substrait_agg as sa
from tests.sampling import sample
from tests.sql.results import kept, of_duckdb

LEFT = pa.table({"a": [1, 2, None, 4], "b": ["x", "y", "x", None]}, pa.schema([("a", pa.int64()), ("b", pa.string())]))  # fmt: skip
RIGHT = {
    "empty": ([], []),
    "no null": ([2, 9], ["y", "x"]),
    "with null": ([2, None], ["x", "y"]),
    "only null": ([None], ["x"]),
    "repeated": ([1, 1, None, None], ["x", "y", "y", None]),
}
QUERIES = (
    "SELECT a, b FROM l WHERE a NOT IN (SELECT a FROM r)",
    "SELECT a, b FROM l WHERE a NOT IN (SELECT a FROM r WHERE r.b = l.b)",
    "SELECT a, b FROM l WHERE a + 1 NOT IN (SELECT a FROM r WHERE b = 'x') AND b = 'x'",
    "SELECT a, b FROM l WHERE NOT (a IN (SELECT a FROM r))",
    "SELECT a, b FROM l WHERE a NOT IN (SELECT a FROM r) AND (b = 'x' OR NOT b = 'it''s')",
    "SELECT a, b FROM l WHERE a NOT IN (SELECT a FROM r) AND b <> 'a\nb'",
    "SELECT a, b FROM l WHERE a IN (SELECT a FROM r)",
    "SELECT a, b FROM l WHERE a IN (SELECT a FROM r) OR b = 'y'",
    "SELECT a, b FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.a = l.a)",
    "SELECT a, b FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.a = l.a) OR b = 'y'",
)


def right(name: str) -> pa.Table:
    a, b = RIGHT[name]
    return pa.table({"a": pa.array(a, pa.int64()), "b": pa.array(b, pa.string())})


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("name", sample(RIGHT, "empty", "with null"))
def test_rows_equal_duckdb(query: str, name: str, tmp_path: Path) -> None:
    table, nothing = right(name), right("empty")
    expected = of_duckdb(query, {"l": LEFT, "r": table})
    for number, batches in enumerate(
        (
            [{"l": LEFT, "r": table}],
            [{"l": LEFT, "r": nothing}, {"l": LEFT.slice(0, 0), "r": table}],
            [{"l": LEFT.slice(0, 0), "r": table}, {"l": LEFT, "r": nothing}],
        )
    ):
        assert kept(query, batches, tmp_path / str(number)) == expected, number


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM l WHERE a NOT IN (SELECT a FROM r) OR b = 'y'",
        "SELECT a FROM l WHERE NOT (a IN (SELECT a FROM r) AND b = 'y')",
        "SELECT a FROM l WHERE a NOT IN (SELECT a FROM r WHERE r.b < l.b)",
        "SELECT a FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.a = l.a AND (b = 'x\ny' OR NOT (r.a IN (SELECT a FROM l))))",
    ],
)
def test_a_not_in_that_cannot_be_kept_is_refused(query: str) -> None:
    with pytest.raises(sa.SqlRefused) as caught:
        sa.sql(query, {"l": LEFT.schema, "r": LEFT.schema})
    assert caught.value.code == "SQL_NOT_IN"
