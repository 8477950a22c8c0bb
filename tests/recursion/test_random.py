"""Recursive queries have the rows of DuckDB at every version, whatever is inserted and deleted."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from tests.local.run import run
from tests.sampling import seeds
from tests.sql.results import changed, chosen, of_duckdb, ordered

pytestmark = pytest.mark.usefixtures("spark")

REACHED = "WITH RECURSIVE r(a, b, d) AS (SELECT a, b, 1 FROM edges WHERE a < 2 UNION ALL"
SHORT = "WITH RECURSIVE r(a, d) AS (SELECT a, 1 FROM edges UNION ALL"
QUERIES = {
    "paths": f"{REACHED} SELECT r.a, e.b, d + 1 FROM r JOIN edges e ON r.b = e.a WHERE d < 4) SELECT * FROM r",
    "aggregate above": (
        f"{REACHED} SELECT r.a, e.b, d + 1 FROM r, edges e WHERE r.b = e.a AND d < 4)"
        " SELECT b, count(*) AS n, min(d) AS d FROM r GROUP BY b"
    ),
    "numbers": (
        "WITH RECURSIVE r(a, n) AS (SELECT a, 1 FROM edges UNION ALL SELECT a, n + 1 FROM r WHERE n < a)"
        " SELECT a, n FROM r"
    ),
    "two readers": (
        f"{REACHED} SELECT r.a, e.b, d + 1 FROM r JOIN edges e ON r.b = e.a WHERE d < 3)"
        " SELECT x.a, x.b, y.b AS c FROM r x JOIN r y ON x.b = y.a AND x.d = y.d"
    ),
    "semi join": (
        f"{SHORT} SELECT a + 1, d + 1 FROM r WHERE d < 5 AND EXISTS (SELECT 1 FROM edges e WHERE e.b = r.a))"
        " SELECT * FROM r"
    ),
    "anti join": (
        f"{SHORT} SELECT a + 1, d + 1 FROM r WHERE d < 5 AND NOT EXISTS (SELECT 1 FROM edges e WHERE e.b = r.a))"
        " SELECT * FROM r"
    ),
    "left join": (
        f"{SHORT} SELECT coalesce(e.b, 0), d + 1 FROM r LEFT JOIN edges e ON e.a = r.a WHERE d < 4) SELECT * FROM r"
    ),
    "distinct": (
        f"{SHORT} SELECT DISTINCT e.b, d + 1 FROM r JOIN edges e ON r.a = e.a WHERE d < 4) SELECT * FROM r"
    ),
    "two steps": (
        f"{SHORT} (SELECT a + 1, d + 1 FROM r WHERE d < 3 UNION ALL SELECT a, d + 2 FROM r WHERE d < 2))"
        " SELECT * FROM r"
    ),
    "twice in the step": (
        f"{SHORT} SELECT x.a + y.a, x.d + 1 FROM r x JOIN r y ON x.a = y.a + 1 WHERE x.d < 3) SELECT * FROM r"
    ),
    "subquery in the step": (
        f"{SHORT} SELECT e.b, d + 1 FROM r JOIN (SELECT a, max(b) AS b FROM edges GROUP BY a) e ON r.a = e.a"
        " WHERE d < 4) SELECT * FROM r"
    ),
    "range": (
        f"{SHORT} SELECT e.b, d + 1 FROM r JOIN edges e ON r.a BETWEEN e.a AND e.b WHERE d < 3) SELECT * FROM r"
    ),
    "below a join": (
        f"{REACHED} SELECT r.a, e.b, d + 1 FROM r JOIN edges e ON r.b = e.a WHERE d < 4)"
        " SELECT e.a, e.b, r.d FROM edges e LEFT JOIN r ON e.a = r.a AND e.b = r.b"
    ),
    "not in a table": (
        f"{SHORT} SELECT a + 1, d + 1 FROM r WHERE d < 4 AND a NOT IN (SELECT b FROM edges WHERE b <> 2))"
        " SELECT * FROM r"
    ),
    "except a table": (
        f"{SHORT} (SELECT a + 1, d + 1 FROM r WHERE d < 4 EXCEPT SELECT b, 3 FROM edges)) SELECT * FROM r"
    ),
    "intersect with a table": (
        f"{SHORT} (SELECT b, 2 FROM edges INTERSECT SELECT a, d + 1 FROM r)) SELECT * FROM r"
    ),
    "except itself": (
        f"{SHORT} (SELECT a + 1, d + 1 FROM r WHERE d < 4 EXCEPT ALL SELECT a, d + 1 FROM r)) SELECT * FROM r"
    ),
    "recursion of a recursion": (
        f"{SHORT} SELECT b, d + 1 FROM r JOIN edges e ON r.a = e.a WHERE d < 3),"
        " s(a, d) AS (SELECT a, d FROM r WHERE d < 3 UNION ALL SELECT a + 1, d + 1 FROM s WHERE d < 4)"
        " SELECT * FROM s"
    ),
    "constants": (
        "WITH RECURSIVE r(a, d) AS (SELECT 1, 1 UNION ALL SELECT e.b, d + 1 FROM r JOIN edges e ON r.a = e.a"
        " WHERE d < 5) SELECT a, d, count(*) AS n FROM r GROUP BY a, d"
    ),
}
VERSIONS = 5


@pytest.mark.parametrize("seed", seeds(2, 10))
@pytest.mark.parametrize("name", QUERIES)
def test_every_version_is_that_of_duckdb(name: str, seed: int, tmp_path: Path) -> None:
    rng, query = random.Random(seed), QUERIES[name]
    ends = [rng.choices((0, 1, 2, 3, 4, None), (3, 3, 3, 3, 3, 1), k=12) for _ in range(2)]
    rows = pa.table({n: pa.array(e, pa.int32()) for n, e in zip("ab", ends, strict=True)})
    (tmp_path / "edges").mkdir()
    before: set[int] = set()
    versions = []
    for version in range(VERSIONS):
        after = {i for i in range(len(rows)) if rng.random() < 0.5}
        changes = changed(rows, before, after)
        file = changes.rename_columns(["a", "b", "w"])
        pq.write_table(file, tmp_path / "edges" / f"{version}.parquet")
        before = after
        versions.append(after)
    sources = {"edges": f"parquet:{tmp_path / 'edges'}?weight=w&batch-files=1"}
    batches = run(sa.sql(query, sources), sources, checkpoint=tmp_path / "ckpt", partitions=2)
    for after in versions:
        assert batches.batch()
        view = sa.open_view(tmp_path / "ckpt").to_arrow().to_pylist()
        wanted = of_duckdb(query, {"edges": chosen(rows, after)})
        assert ordered([tuple(row.values()) for row in view]) == wanted
