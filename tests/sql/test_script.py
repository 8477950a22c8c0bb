"""SQL text is split into statements and tokens at the right places."""

from __future__ import annotations

import pytest

import substrait_agg as sa
from substrait_agg.scripts.script import statements
from substrait_agg.scripts.tokens import place_at, tokens

SCRIPT = """-- what is sold; per region
CREATE TABLE sales (region varchar, amount decimal(10, 2) NOT NULL);;
/* a /* nested; */ comment; */
CREATE OR REPLACE MATERIALIZED VIEW `Gold`.totals (region, total) COMMENT 'sold; as SELECT' AS
  WITH q AS (SELECT * FROM sales) SELECT region, sum(amount) FROM q GROUP BY region;
SELECT ';' AS `a;b`, ";", r'\\', '\\';' FROM t;
DROP TABLE t"""


def test_statements_have_kind_name_line_and_query() -> None:
    found = statements(SCRIPT)
    assert [(s.kind, s.name, s.line) for s in found] == [
        ("create_table", ("sales",), 2),
        ("create_view", ("Gold", "totals"), 4),
        ("query", (), 6),
        ("other", (), 7),
    ]
    view = found[1]
    assert view.columns == ("region", "total")
    assert view.modifiers == ("or", "replace", "materialized")
    assert view.query.startswith("WITH q AS")
    assert view.query.endswith("GROUP BY region")


def test_a_padded_query_keeps_its_places() -> None:
    view = statements(SCRIPT)[1]
    padded = view.pad(view.query, view.query_start)
    assert padded.splitlines()[4] == SCRIPT.splitlines()[4].rstrip(";")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("SELECT 'abc", 1, 8),
        ('SELECT 1,\n  "abc', 2, 3),
        ("SELECT 1 /* /* */ x", 1, 10),
        ("SELECT $tag$ $$", 1, 8),
        ("CREATE VIEW v", 1, 14),
        ("CREATE VIEW ; SELECT 1", 1, 12),
    ],
)
def test_text_without_an_end_is_refused_at_its_place(text: str, line: int, column: int) -> None:
    with pytest.raises(sa.SqlRefused) as caught:
        statements(text, "q.sql")
    error = caught.value
    assert (error.code, error.line, error.column) == ("SQL_SYNTAX", line, column)
    assert error.path == f"q.sql:{line}:{column}"
    assert error.excerpt.splitlines()[-1].index("^") == column - 1


def test_tokens_cover_everything_but_space_and_comments() -> None:
    text = "select a.`b``c`, 1.5e3, 'it\\'s', \"d\" -- e\n::int from t"
    found = tokens(text)
    assert [t.text for t in found if t.kind in ("string", "number")] == ["1.5e3", r"'it\'s'", '"d"']
    assert [t.name for t in found if t.kind == "quoted"] == ["b`c"]
    assert "".join(t.text for t in found) == "selecta.`b``c`,1.5e3,'it\\'s',\"d\"::intfromt"
    assert all(text[t.start : t.end] == t.text for t in found)


def test_an_excerpt_points_under_tabs() -> None:
    assert place_at("\tSELECT x", 8, 9).excerpt == "    SELECT x\n           ^"
