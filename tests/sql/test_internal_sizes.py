"""Queries keep the rows of DuckDB if a few rows fill several pages, runs, slices and pieces."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.commit.log.checkpoint import Checkpoint
from tests.local.run import run
from tests.sampling import sample
from tests.sizes import tiny_sizes
from tests.sql.results import of_duckdb, ordered, plain

pytestmark = pytest.mark.usefixtures("spark")

CASES = 5
"""Cases of a block."""
VERSIONS = 60
"""Versions to keep: all."""

Row = tuple[Any, ...]
Tables = dict[str, Counter[Row]]

RESIDUALS = ("", " AND t.x < u.y", " AND t.x + u.y > 3")
LATEST = "ORDER BY x DESC NULLS LAST, id"
QUERIES = [
    *(
        f"SELECT t.id, t.x, u.y, u.s AS us FROM t {kind} JOIN u ON t.k = u.k{residual}"
        for kind in ("INNER", "LEFT", "RIGHT", "FULL")
        for residual in RESIDUALS
    ),
    *(
        f"SELECT t.id, t.x FROM t WHERE {sign} EXISTS (SELECT 1 FROM u WHERE u.k = t.k{residual})"
        for sign in ("", "NOT")
        for residual in RESIDUALS
    ),
    "SELECT t.id FROM t WHERE t.k NOT IN (SELECT k FROM u)",
    "SELECT t.id, t.k IN (SELECT k FROM u) AS m FROM t",
    "SELECT a.id, b.id AS o FROM t a JOIN t b ON a.k = b.k AND a.x = b.x",
    "SELECT t.id, t.s, u.y FROM t JOIN u ON t.s = u.s",
    "SELECT t.k, u.s AS us, count(*) AS n, sum(t.x) AS v FROM t LEFT JOIN u ON t.k = u.k GROUP BY t.k, u.s",
    "SELECT a.id, u.y, v.y AS z FROM t a JOIN u ON a.k = u.k JOIN u v ON v.k = a.k AND v.y > u.y",
    # Measures: sums, extremes, whole groups.
    "SELECT k, count(*) AS n, sum(x) AS v, avg(x) AS a, min(x) AS l, max(x) AS h FROM t GROUP BY k",
    "SELECT k, count(DISTINCT x) AS n, median(x) AS m, min(s) AS l, max(s) AS h FROM t GROUP BY k",
    "SELECT k, string_agg(s, ',' ORDER BY s, id) AS g FROM t GROUP BY k",
    "SELECT k, array_agg(x ORDER BY x NULLS LAST, id) AS g, array_agg(DISTINCT s ORDER BY s NULLS LAST) AS h FROM t GROUP BY k",
    "SELECT s, sum(d) AS a, stddev_samp(f) AS v, sum(f) AS b FROM t GROUP BY s",
    "SELECT count(*) AS n, sum(x) AS v, min(s) AS l, max(id) AS h, count(DISTINCT k) AS d FROM t",
    "SELECT k, s, sum(x) AS v, max(id) AS h FROM t GROUP BY ROLLUP (k, s)",
    "SELECT k, count(*) FILTER (WHERE x > 3) AS n, count(DISTINCT s) FILTER (WHERE x < 5) AS d FROM t GROUP BY k",
    "SELECT n, count(*) AS c, max(m) AS m FROM (SELECT k, count(*) AS n, max(x) AS m FROM t GROUP BY k) q GROUP BY n",
    "SELECT DISTINCT k, x FROM t",
    # First rows of an order.
    "SELECT id, x FROM t ORDER BY x DESC NULLS LAST, id LIMIT 4",
    "SELECT k, x FROM t ORDER BY k NULLS LAST, x NULLS FIRST LIMIT 20 OFFSET 5",
    "SELECT x FROM t ORDER BY x NULLS LAST OFFSET 6",
    # Set operations.
    *(
        f"SELECT k, s FROM t {operation} SELECT k, s FROM u"
        for operation in ("EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL", "UNION")
    ),
    # Window functions.
    f"SELECT id, n FROM (SELECT *, row_number() OVER (PARTITION BY k {LATEST}) AS n FROM t) q WHERE n <= 2",
    f"SELECT id, row_number() OVER (PARTITION BY k {LATEST}) AS n FROM t",
    f"SELECT id, row_number() OVER ({LATEST}) AS n FROM t",
    "SELECT id, rank() OVER (PARTITION BY k ORDER BY x NULLS FIRST) AS n, dense_rank() OVER (ORDER BY x NULLS LAST) AS d FROM t",
    "SELECT id, n FROM (SELECT *, rank() OVER (PARTITION BY k ORDER BY x NULLS FIRST) AS n FROM t) q WHERE n <= 3",
    f"SELECT id, lag(x) OVER w AS p, lead(s, 2) OVER w AS q, sum(x) OVER w AS r FROM t WINDOW w AS (PARTITION BY k {LATEST}, s)",
    f"SELECT id, sum(x) OVER (PARTITION BY k {LATEST} ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS r FROM t",
    f"SELECT id, x - avg(x) OVER (PARTITION BY k) AS a, ntile(3) OVER (PARTITION BY k {LATEST}) AS b FROM t",
]


class History:
    """Random batches of two tables: inserted and deleted rows with weights, some keys with many rows.

    Attributes:
        now: the rows after each batch.
    """

    def __init__(self, random: Random, folder: Path) -> None:
        self._random = random
        self._keys, self._share = random.choice((1, 2, 3, 6)), random.choice((0, 0.5, 0.9))
        self._most = random.choice((3, 8, 25))
        self.now: list[Tables] = []
        tables: Tables = {"t": Counter(), "u": Counter()}
        for number in range(random.randint(2, 7)):
            for name, rows in tables.items():
                changes = self._changes(name, rows)
                for row, weight in changes:
                    rows[row] += weight
                tables[name] = +rows
                (folder / name).mkdir(exist_ok=True)
                weights = pa.array([weight for _, weight in changes], pa.int64())
                table = of_rows(name, [row for row, _ in changes]).append_column("w", weights)
                pq.write_table(table, folder / name / f"{number:04}.parquet")
            self.now.append({name: Counter(rows) for name, rows in tables.items()})

    def _changes(self, name: str, rows: Counter[Row]) -> list[tuple[Row, int]]:
        random = self._random
        if rows and random.random() < 0.12:
            return []
        added = [self._row(name) for _ in range(random.randint(0, self._most))]
        changes = [(row, random.choice((1, 1, 1, 2, 5))) for row in added]
        share = random.choice((0, 0.2, 0.6, 1))
        gone = ((row, n) for row, n in rows.items() if random.random() < share)
        changes += [(row, -random.choice((n, n, 1))) for row, n in gone]
        random.shuffle(changes)
        return changes

    def _row(self, name: str) -> Row:
        random = self._random
        key = 1 if random.random() < self._share else random.choice((None, *range(self._keys)))
        number, text = random.choice((None, *range(8))), random.choice((None, "a", "b", "long" * 9))
        if name == "u":
            return key, number, text
        digits, real = Decimal(random.randrange(-500, 500)) / 100, random.choice((None, 0.5, -2.25))
        return random.randrange(3 * self._most), key, number, text, digits, real


SCHEMAS = {
    "t": pa.schema(
        {
            "id": pa.int64(),
            "k": pa.int64(),
            "x": pa.int64(),
            "s": pa.string(),
            "d": pa.decimal128(12, 2),
            "f": pa.float64(),
        }
    ),
    "u": pa.schema({"k": pa.int64(), "y": pa.int64(), "s": pa.string()}),
}


def of_rows(name: str, rows: list[Row]) -> pa.Table:
    """Give rows of a table of the queries as a table."""
    return pa.Table.from_pylist([dict(zip(SCHEMAS[name].names, row, strict=True)) for row in rows], SCHEMAS[name])  # fmt: skip


@dataclass
class Case:
    """A query over a history, with a checkpoint."""

    query: str
    history: History
    folder: Path
    random: Random

    @property
    def sources(self) -> dict[str, str]:
        """The tables that the query reads."""
        read = [n for n in SCHEMAS if f"FROM {n}" in self.query or f"JOIN {n}" in self.query]
        return {name: f"parquet:{self.folder / name}?weight=w&batch-files=1" for name in read}

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of the query."""
        return self.folder / "checkpoint"

    def run(self, batches: int | None = None) -> None:
        """Compute some batches or all, with a random number of partitions."""
        partitions = self.random.choice((1, 2, 8))
        plan = sa.sql(self.query, self.sources)
        begun = run(plan, self.sources, checkpoint=self.checkpoint, partitions=partitions, keep_versions=VERSIONS)  # fmt: skip
        if batches is None:
            begun.wait()
        else:
            for _ in range(batches):
                begun.batch()

    def expected(self, version: int) -> list[Row]:
        """Give the rows of DuckDB at a version."""
        read = Checkpoint(self.checkpoint).snapshot(version).positions.files
        batches = max((position.count for position in read.values()), default=0)
        tables = {name: [*self.history.now[batches - 1][name].elements()] if batches else [] for name in SCHEMAS}  # fmt: skip
        return of_duckdb(self.query, {name: of_rows(name, rows) for name, rows in tables.items()})

    def check(self) -> None:
        """Compare every version with DuckDB, and versions with the changes between them."""
        view = sa.open_view(self.checkpoint)
        versions = view.versions()
        shown = {v: ordered([*map(tuple, map(dict.values, view.to_arrow(v).to_pylist()))]) for v in versions}  # fmt: skip
        for version in versions:
            assert shown[version] == self.expected(version), f"version {version}"
        for since in (None, *self.random.sample(versions, min(2, len(versions)))):
            until = self.random.choice([v for v in versions if since is None or v >= since])
            rows = Counter(shown[since] if since is not None else ())
            for change in view.changes(since, until).to_pylist():
                *values, _, weight = change.values()
                rows[tuple(map(plain, values))] += weight
            assert {r: n for r, n in rows.items() if n} == Counter(shown[until]), (since, until)

    def verify(self) -> None:
        """Verify the checkpoint, in some cases with the rows of the tables."""
        sources = self.random.choice((None, self.sources))
        verdict = sa.open_state(self.checkpoint).verify(deep=True, sources=sources)
        assert not [f for f in verdict.findings if f.level == "error"]

    def roll_back(self) -> None:
        """Go back to a random version."""
        to = self.random.choice(sa.open_view(self.checkpoint).versions())
        sa.open_state(self.checkpoint).rollback(to, force=True)


def run_case(random: Random, folder: Path) -> None:
    """Run a random query over a random history with tiny sizes: in two runs, and again after a rollback."""
    query = random.choice(QUERIES)
    case = Case(query, History(random, folder), folder, random)
    with tiny_sizes(random) as sizes:
        try:
            case.run(random.randint(0, len(case.history.now)))
            case.run()
            case.check()
            case.verify()
            if random.random() < 0.4:
                case.roll_back()
                case.check()
                case.run()
                case.check()
                case.verify()
        except Exception as error:
            error.add_note(f"{query}\nwith {sizes}")
            raise


@pytest.mark.parametrize("block", sample(range(400), 0, 1))
def test_no_result_depends_on_internal_sizes(block: int) -> None:
    for seed in range(block * CASES, (block + 1) * CASES):
        with TemporaryDirectory() as folder:
            run_case(Random(seed), Path(folder))
