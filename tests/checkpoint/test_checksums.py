"""Checksums of views: what a version stores is what SQL engines compute over its rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner

import substrait_agg as sa
from substrait_agg.commit.checksums.md5 import md5_words
from substrait_agg.commit.checksums.queries import checksum_query
from substrait_agg.commit.checksums.row_text import row_texts
from substrait_agg.commit.checksums.sums import add_rows
from substrait_agg.commit.documents.file_names import snapshot_name
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.view.view import View
from substrait_agg.errors import UsageError
from substrait_agg_cli.main import main
from tests.checkpoint.checksum_rows import COLUMNS, FINER, rows_of
from tests.e2e import plans
from tests.e2e.files import write_in_order
from tests.local.run import run
from tests.views.plans import ALL, BATCHES, sources, write_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONES = ("UTC", "America/St_Johns")


def by_duckdb(rows: pa.Table, query: str, zone: str = "UTC") -> int:
    """The result of a query over the table `rows`."""
    with duckdb.connect() as con:
        con.execute(f"SET TimeZone = '{zone}'")
        con.register("rows", rows)
        return int(con.execute(query).fetchall()[0][0])


def stored(view: View) -> dict[int, int | None]:
    """The checksum of each version."""
    return {version: view.checksum(version) for version in view.versions()}


def computed(view: View) -> dict[int, int]:
    """The checksum of the rows of each version, by DuckDB."""
    query = view.checksum_query("duckdb", "rows")
    return {version: by_duckdb(view.to_arrow(version), query) for version in view.versions()}


def aggregate(*measures: str) -> str:
    """Measures over x by k."""
    b = plans.Builder()
    made = [b.measure(name, (plans.column(1), "i64"), output="i64") for name in measures]
    table = plans.read("t", {"k": "string", "x": "i64"})
    return b.plan(plans.aggregate(table, [plans.column(0)], made), "k", *measures)


def source_of(folder: Path) -> dict[str, str]:
    """The source of `aggregate`: three files, the last of which retracts a whole group."""
    batches = (
        [("a", 1, 1), ("b", 2, 1)], [("a", 5, 1), (None, 7, 1)], [("b", 2, -1), ("a", 1, -1)],
    )  # fmt: skip
    tables = [
        pa.table({name: [row[i] for row in rows] for i, name in enumerate(("k", "x", "w"))})
        for rows in batches
    ]
    write_in_order(folder / "t", tables)
    return {"t": f"parquet:{folder / 't'}?weight=w&batch-files=1"}


# --- the hash and the text of a row -------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 40, 5000])
def test_md5_of_many_texts_is_that_of_the_library(count: int) -> None:
    random = Random(count)
    sizes = (0, 1, 8, 54, 55, 56, 63, 64, 65, 119, 120, 128, 247, 248, 700)
    texts = [random.randbytes(random.choice(sizes)) for _ in range(count + 1)]
    words = md5_words(pa.array(texts, pa.binary()).slice(1))
    expected = [hashlib.md5(text).digest()[:8] for text in texts[1:]]
    assert words.tolist() == [int.from_bytes(part, "big") for part in expected]


def test_rows_that_differ_have_texts_that_differ() -> None:
    """The separator inside values, nulls and empty values cannot be taken for each other."""
    rows = pa.table(
        {
            "a": pa.array(["x|1:y", "x", "", None, None, ""]),
            "b": pa.array(["z", "y|1:z", None, "", None, ""]),
        }
    )
    texts = row_texts([column.combine_chunks() for column in rows.columns]).to_pylist()
    assert texts == ["5:x|1:y|1:z", "1:x|5:y|1:z", "0:|", "|0:", "|", "0:|0:"]


def test_the_order_of_rows_does_not_matter_and_retractions_cancel() -> None:
    rows = rows_of(COLUMNS)
    backward = rows.take(list(range(rows.num_rows))[::-1])
    assert add_rows(0, rows) == add_rows(0, backward) != add_rows(0, rows.slice(1))
    one = pa.array([-1] * (rows.num_rows - 1)).to_numpy()
    assert add_rows(add_rows(0, rows), rows.slice(1), one) == add_rows(0, rows.slice(0, 1))
    twice = pa.array([2] * rows.num_rows).to_numpy()
    assert add_rows(0, rows, twice) == add_rows(0, pa.concat_tables([rows, rows]))


# --- the engines --------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ZONES)
def test_duckdb_computes_the_checksum_of_every_type(zone: str) -> None:
    columns = COLUMNS | FINER
    for chosen in (*({name: column} for name, column in columns.items()), columns):
        rows = rows_of(chosen)
        query = checksum_query(rows.schema, "duckdb", "rows")
        assert by_duckdb(rows, query, zone) == add_rows(0, rows), list(chosen)


def test_spark_computes_the_checksum_of_every_type(spark: SparkSession) -> None:
    columns = COLUMNS | {"lasted": FINER["lasted"]}
    rows = rows_of(columns)
    singles = [rows.select([name]) for name in columns]
    frames = [spark.createDataFrame(part) for part in (*singles, rows)]
    for number, frame in enumerate(frames):
        frame.createOrReplaceTempView(f"checksum_rows{number}")
    queries = [
        checksum_query(part.schema, "spark", f"checksum_rows{number}")
        for number, part in enumerate((*singles, rows))
    ]
    found = [int(row[0]) for row in spark.sql("\nUNION ALL\n".join(queries)).collect()]
    named = [*columns, "all"]
    expected = [add_rows(0, part) for part in (*singles, rows)]
    assert dict(zip(named, found, strict=True)) == dict(zip(named, expected, strict=True))


def test_an_engine_without_the_type_of_a_column_is_refused() -> None:
    schema = pa.schema([("clock", pa.time64("ns"))])
    with pytest.raises(UsageError) as refused:
        checksum_query(schema, "spark", "t")
    assert refused.value.code == "OPTION_INVALID"
    with pytest.raises(UsageError, match="duckdb, spark"):
        checksum_query(schema, "oracle", "t")


# --- versions -----------------------------------------------------------------------------------


def test_every_version_of_every_view_has_the_checksum_of_its_rows(tmp_path: Path) -> None:
    write_batches(tmp_path, BATCHES)
    run(ALL, sources(tmp_path), checkpoint=tmp_path / "c", checksum=True).wait()
    for name in ALL:
        view = sa.open_view(tmp_path / "c", name)
        assert stored(view) == computed(view)
        assert len(set(stored(view).values())) > 2
    assert sa.open_state(tmp_path / "c").verify().ok


@pytest.mark.parametrize(
    "options", [{}, {"refresh": "full"}, {"emit": "count:2"}, {"emit": "end"}], ids=str
)
def test_the_checksum_follows_every_way_to_compute_a_batch(
    tmp_path: Path, options: Mapping[str, Any]
) -> None:
    run(
        aggregate("sum", "min"), source_of(tmp_path), checkpoint=tmp_path / "c", checksum=True, **options
    ).wait()  # fmt: skip
    view = sa.open_view(tmp_path / "c")
    assert stored(view) == computed(view)
    assert view.checksum() == by_duckdb(
        view.to_arrow(), "SELECT * FROM (" + view.checksum_query("duckdb", "rows") + ")"
    )  # fmt: skip


def test_a_query_over_the_input_has_the_same_checksum(tmp_path: Path) -> None:
    """The proof for users: another engine computes the view from the source."""
    source = source_of(tmp_path)
    run(aggregate("sum"), source, checkpoint=tmp_path / "c", checksum=True).wait()
    view = sa.open_view(tmp_path / "c")
    query = (
        f"(SELECT k, CAST(sum(x * w) AS BIGINT) AS sum FROM '{tmp_path}/t/*.parquet'"
        " GROUP BY k HAVING sum(w) > 0)"
    )
    rows = view.to_arrow()
    assert by_duckdb(rows, view.checksum_query("duckdb", query)) == view.checksum()


def test_checksums_can_begin_and_pause_at_any_version(tmp_path: Path) -> None:
    source, folder = source_of(tmp_path), tmp_path / "c"
    for checksum in (False, True, False, True):
        started = run(aggregate("sum"), source, checkpoint=folder, until="0", checksum=checksum)
        started._close()
        count = len(list((tmp_path / "t").glob("part-*")))
        more = pa.table({"k": ["a", "c"], "x": [1, count], "w": [1, 1]})
        write_in_order(tmp_path / "t", [more], count)
    view = sa.open_view(folder)
    found = stored(view)
    assert {version: c for version, c in found.items() if c is not None} == {
        version: computed(view)[version] for version, c in found.items() if c is not None
    }
    assert None in found.values()
    assert view.checksum() is not None


def test_a_version_with_another_plan_keeps_a_checksum(tmp_path: Path) -> None:
    source, folder = source_of(tmp_path), tmp_path / "c"
    run(aggregate("sum"), source, checkpoint=folder, checksum=True).wait()
    last = sa.open_view(folder).version
    run(aggregate("sum", "count"), source, checkpoint=folder, checksum=True, evolve=True).wait()
    view = sa.open_view(folder)
    assert view.version > last
    query = view.checksum_query("duckdb", "rows")
    assert view.checksum() == by_duckdb(view.to_arrow(), query)
    assert sa.open_state(folder).verify().ok


def test_without_the_option_a_version_has_no_checksum(tmp_path: Path) -> None:
    run(aggregate("sum"), source_of(tmp_path), checkpoint=tmp_path / "c").wait()
    view = sa.open_view(tmp_path / "c")
    assert set(stored(view).values()) == {None}
    assert "checksum" not in CliRunner().invoke(main, ["state", "ls", str(tmp_path / "c")]).output


# --- the command line ---------------------------------------------------------------------------


def test_state_ls_shows_checksums(tmp_path: Path) -> None:
    write_batches(tmp_path, BATCHES)
    folder = str(tmp_path / "c")
    run(ALL, sources(tmp_path), checkpoint=folder, checksum=True).wait()
    expected = {name: str(sa.open_view(folder, name).checksum()) for name in ALL}
    listed = CliRunner().invoke(main, ["state", "ls", folder, "--format", "json"])
    assert json.loads(listed.output)["versions"][-1]["checksums"] == expected
    text = CliRunner().invoke(main, ["state", "ls", folder]).output
    for name, checksum in expected.items():
        assert any(name in line and line.endswith(checksum) for line in text.splitlines())


def test_state_verify_finds_a_checksum_that_is_not_that_of_the_rows(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    run(aggregate("sum"), source_of(tmp_path), checkpoint=folder, checksum=True).wait()
    store = Checkpoint(folder)
    newest = store.newest_snapshot()
    assert newest is not None
    wrong = replace(newest, checksum=(newest.checksum or 0) ^ 1)
    path = f"snapshots/{snapshot_name(newest.version)}"
    (folder / path).write_bytes(wrong.to_bytes(store.identity))
    (finding,) = sa.open_state(folder).verify().errors
    assert (finding.code, finding.path) == ("CHECKSUM_DIFFERS", path)
    assert str(wrong.checksum) in finding.message
