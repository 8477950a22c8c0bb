"""What peers read and answer, and the table of what they took: no peer runs here."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from benchmarks import plot
from benchmarks.check import WrongView, answered_rows, check_answer
from benchmarks.data import tpch
from benchmarks.data.bids import bids
from benchmarks.data.churn import churn, with_deletions
from benchmarks.data.data_sets import DataSet, make
from benchmarks.data.nexmark import Nexmark, write
from benchmarks.data.rows import with_key
from benchmarks.nexmark.beside import Peer, flink_script
from benchmarks.nexmark.queries import NAMES, for_flink
from benchmarks.peers import flink_sql, summary
from benchmarks.peers.__main__ import QUERIES_OF_PEERS, WORKLOADS_OF_PEERS
from benchmarks.peers.conversion import LAYOUTS, ChangeFiles, converted, of_data_set
from benchmarks.peers.peer_input import InputTable, PeerInput
from benchmarks.queries import QUERIES
from benchmarks.refresh import QueryResult
from benchmarks.results import LaneResult, MeasuredBatch, WorkloadResult
from benchmarks.workload import Sizes
from benchmarks.workloads import WORKLOADS

DOCS = Path(__file__).parents[2] / "docs"
CHURN = {"rows": 200, "groups": 20, "batch": 10, "pairs": 3}


def _alive(data: DataSet, table: str, batches: int) -> list[tuple[Any, ...]]:
    """Return the rows of a table after some batches, sorted."""
    rows: list[tuple[Any, ...]] = []
    names = data.table.names
    for file in data.files[:batches]:
        for row in pq.read_table(data.folder / file.name).to_pylist():
            values = tuple(row[name] for name in names)
            if row.get("op", "insert") == "insert":
                rows.append(values)
            else:
                rows.remove(values)
    return sorted(rows)


def _csv(files: list[Path]) -> list[tuple[Any, ...]]:
    if not files:
        return []
    with duckdb.connect() as connection:
        found = connection.execute(f"FROM read_csv({[str(f) for f in files]})").fetchall()
    return [tuple(row) for row in found]


@pytest.mark.parametrize("generator", [churn, with_deletions, with_key])
def test_files_that_come_and_go_are_the_rows_of_each_batch(generator: Any, tmp_path: Path) -> None:
    """A batch adds its files and removes those named after it; counts and checksums are its own."""
    drawn = [["rows", 60]] * 4
    parameters: dict[Any, dict[str, Any]] = {
        churn: CHURN,
        with_deletions: {"keys": 9, "batches": drawn},
        with_key: {"keys": 9, "held": 10, "batches": drawn},
    }
    data = make(generator.__name__, generator, parameters[generator], tmp_path)
    given = converted("pathway", of_data_set(data, "t"), tmp_path / "peer")
    there: dict[str, list[Path]] = {}
    for number, file in enumerate(data.files, 1):
        there.pop(file.name, None)
        for path in given.files(file.name, "t"):
            there.setdefault(path.stem, []).append(path)
        rows = sorted(row for files in there.values() for row in _csv(files))
        assert rows == _alive(data, "t", number)
        ((_, batch),) = given.changed(file.name, ["t"])
        assert (batch.alive, batch.checksum) == (len(rows), sum(row[0] for row in rows))
    assert given.tables["t"].changes == data.changes


def test_flink_reads_the_changes_in_two_files(tmp_path: Path) -> None:
    data = make("churn", churn, CHURN, tmp_path)
    given = converted("flink", of_data_set(data, "churn"), tmp_path / "peer")
    assert PeerInput.read(tmp_path / "peer") == given
    for file in data.files:
        files = given.files(file.name, "churn")
        assert len(files) == 2
        rows = pq.read_table(data.folder / file.name, columns=["g", "v", "op"]).to_pylist()
        assert sorted(_csv(files)) == sorted((r["g"], r["v"], r["op"]) for r in rows)
        ((_, batch),) = given.changed(file.name, ["churn"])
        assert batch.lines == file.rows


def test_rows_of_two_columns_identify_themselves(tmp_path: Path) -> None:
    """The rows of TPC-H have no number, but primary keys."""
    for number, op in enumerate(("insert", "delete", "insert")):
        with duckdb.connect() as connection:
            connection.execute(
                f"COPY (SELECT 1 AS a, i AS b, i * 0.5 AS c, '{op}' AS op FROM range(4) r(i)"
                f" WHERE '{op}' = 'insert' OR i < 2) TO '{tmp_path}/{number}.parquet'"
            )
    files = {str(n): tmp_path / f"{n}.parquet" for n in range(2)}
    given = converted("pathway", {"t": ChangeFiles(files, ("a", "b"))}, tmp_path / "peer")
    assert [path.name for path in given.files("0", "t")] == ["1.csv", "never.csv"]
    assert given.tables["t"].batches["1"].alive == 2


def _table(columns: dict[str, str]) -> InputTable:
    return InputTable(columns, False, {})


def test_the_text_of_a_query_for_flink() -> None:
    """Reserved words are quoted, averages of integers are not cut, and a sort alone is left out."""
    table = _table({"auction": "int64", "price": "int64", "x": "double"})
    asked = "SELECT CAST(price AS DATE) AS day, avg(price) AS mean, avg(x) AS a FROM t WHERE c = 'day' ORDER BY day;"
    assert flink_sql.query(asked, [table]) == (
        "SELECT CAST(`price` AS DATE) AS `day`, avg(CAST(`price` AS DOUBLE)) AS `mean`, avg(`x`) AS `a`"
        " FROM t WHERE c = 'day'"
    )
    limited = flink_sql.query("SELECT auction FROM t ORDER BY auction LIMIT 3", [table])
    assert limited == "SELECT `auction` FROM t ORDER BY `auction` LIMIT 3"
    assert "ORDER" not in flink_sql.query(tpch.sql(5), [table])
    assert "DESC" in flink_sql.query(tpch.sql(3), [table])


def test_the_tables_of_flink(tmp_path: Path) -> None:
    columns = {"k": "int64", "at": "timestamp[us]", "price": "decimal128(15, 2)"}
    (plain,) = flink_sql.source("t", _table(columns), tmp_path, "20 ms")
    assert "(`k` BIGINT, `at` TIMESTAMP(6), `price` DECIMAL(15, 2))" in plain
    files, view = flink_sql.source("t", InputTable(columns, True, {}), tmp_path, "20 ms")
    assert files.startswith("CREATE TABLE t_files (")
    assert "`op` STRING" in files
    assert "FROM_CHANGELOG(input => TABLE t_files" in view


def test_events_of_nexmark_are_tables_of_peers(tmp_path: Path) -> None:
    """Batches are files of each table; the bounded table comes with the first one."""
    folder = tmp_path / "events"
    write(folder, Nexmark(400, 2).changes())
    flink = Peer("flink", "python", folder, 1).input_of("q3")
    assert set(flink.tables) == {"auction", "person"}
    assert len(flink.files("000001.parquet", "person")) == 2
    assert "id" in flink.tables["auction"].columns
    assert [batch.alive for batch in flink.tables["person"].batches.values()] == [4, 8]
    (table, *_) = flink_script("q3", flink)
    assert "WATERMARK FOR rowtime AS rowtime - INTERVAL '4' SECOND" in table
    assert "'path' = 'file://{folder}/auction'" in table
    pathway = Peer("pathway", "python", folder, 1)
    assert list(pathway.input_of("q13").tables["side_input"].batches) == ["000000.parquet"]
    assert "id_" in pathway.input_of("q3").tables["person"].columns


def test_pathway_and_flink_express_all_queries_of_nexmark() -> None:
    """Neither is installed here, so functions are read as text."""
    module = ast.parse(Path(summary.__file__).with_name("pathway_nexmark.py").read_text())
    assert {n.name for n in module.body if isinstance(n, ast.FunctionDef)} >= set(NAMES)
    reserved = re.compile(r"(?<!`)\b(dateTime|AS day|AS minute)\b(?!`)")
    assert not [name for name in NAMES if reserved.search(for_flink(name))]


def test_pathway_expresses_all_queries_of_its_lanes() -> None:
    """Pathway is not installed here, so its queries are read as text."""
    module = Path(summary.__file__).with_name("pathway_queries.py")
    literals = [n for n in ast.walk(ast.parse(module.read_text())) if isinstance(n, ast.Dict)]
    keys = {k.value for d in literals for k in d.keys if isinstance(k, ast.Constant)}
    lanes = [lane for made in WORKLOADS.values() for lane in made(Sizes()).lanes]
    wanted = {lane.query for lane in lanes if lane.engine == "pathway"}
    assert wanted <= keys
    assert {f"tpch_q{query:02}" for query in QUERIES_OF_PEERS} <= keys


@pytest.mark.parametrize("name", WORKLOADS_OF_PEERS)
def test_peers_run_their_workloads_or_say_why_not(name: str) -> None:
    workload = WORKLOADS[name](Sizes())
    known = {*workload.absent, *(lane.name for lane in workload.lanes)}
    specials = {lane.name.partition("@")[2] for lane in workload.lanes if lane.engine in LAYOUTS}
    for special in specials:
        for engine in (*LAYOUTS, "ours", "rocksdb", "default"):
            assert "@".join(filter(None, (engine, special))) in known


def _answer(folder: Path, text: str, names: list[str] | None = None) -> Path:
    folder.mkdir()
    (folder / "part-0").write_text(text)
    if names is not None:
        (folder / "_columns.json").write_text(json.dumps(names))
    return folder


def test_changes_of_an_answer_are_added_up(tmp_path: Path) -> None:
    """An update takes the row before it away, whether by its operation or by its weight."""
    types = {"k": "BIGINT", "s": "DOUBLE"}
    by_operation = "INSERT,1,0.5\nINSERT,2,7\nUPDATE_BEFORE,1,0.5\nUPDATE_AFTER,1,1.5\nDELETE,2,7\n"
    by_weight = (
        '"k","s","time","diff"\n"1","0.5","10","1"\n"1","0.5","11","-1"\n"1","1.5","11","1"\n'
    )
    answers = (
        _answer(tmp_path / "a", by_operation, ["op", "k", "s"]),
        _answer(tmp_path / "b", by_weight),
    )
    with duckdb.connect() as connection:
        for answer in answers:
            assert connection.execute(answered_rows(answer, types)).fetchall() == [(1, 1.5)]
        lost = _answer(tmp_path / "c", "DELETE,1,0.5\n", ["op", "k", "s"])
        with pytest.raises(duckdb.Error, match="left more often"):
            connection.execute(answered_rows(lost, types)).fetchall()


def test_a_wrong_answer_of_a_peer_is_found(tmp_path: Path) -> None:
    data = make("bids", bids, {"batches": [["rows", 50]]}, tmp_path)
    names = [file.name for file in data.files]
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW bids AS FROM '{data.folder}/*.parquet'")
        right = connection.sql(QUERIES["q17"].sql).to_arrow_table()
    for number, rows in enumerate((right, right.slice(1))):
        folder = tmp_path / str(number)
        folder.mkdir()
        pq.write_table(rows, folder / "part.parquet")
    check_answer("q17", data, names, tmp_path / "0", tmp_path)
    with pytest.raises(WrongView, match="missing"):
        check_answer("q17", data, names, tmp_path / "1", tmp_path)


def _lane(name: str, seconds: float, cpu: float | None = None) -> LaneResult:
    batches = tuple(MeasuredBatch(0, kind, 10, seconds) for kind in ("delete", "insert"))
    return LaneResult(name, name.partition("@")[0], "q", batches, 0.0, 1, 1, {}, cpu=cpu)


def test_the_table_of_peers(tmp_path: Path) -> None:
    lanes = (_lane("ours@x", 0.5, 0.25), _lane("flink-heap@x", 1.0), _lane("ours@y", 2.0))
    workload = WorkloadResult("W4", "churn", lanes, {"pathway@y": "it cannot"})
    rows = [*summary.rows_of(workload)]
    assert [row.name for row in rows] == [
        "W4 x delete",
        "W4 x insert",
        "W4 y delete",
        "W4 y insert",
    ]
    query = QueryResult(
        3, 0.5, 0.2, 0.1, 4.0, 1.0, 1, {"pathway": 0.25}, {"flink-heap": "it failed"}
    )
    rows.append(summary.row_of_query(query))
    body = json.loads(json.dumps(summary.stored(rows, {"cores": 2, "load": 0.1}, {"scale": 1})))
    text = summary.markdown(body)
    assert "| W4 x delete | 0.50 | 1.00 (2) | - | - | - |" in text
    assert "| TPC-H Q3 | 0.50 | - | 0.25 (0.5) | 0.10 (0.2) | 4.00 (8) |" in text
    assert "| Pathway | W4 y delete, W4 y insert | it cannot |" in text
    assert "| Flink, heap | TPC-H Q3 | it failed |" in text
    page = f"before {summary.BEGIN} old {summary.END} after"
    assert (
        summary.with_table(page, "new") == f"before {summary.BEGIN}\n\nnew\n\n{summary.END} after"
    )
    with pytest.raises(ValueError, match="no <!--"):
        summary.with_table("nothing", "new")
    drawn = plot.picture(body)
    assert drawn.count("<circle") == 4 + 5  # the legend, and the figures that have one of ours


def test_the_page_has_the_stored_table() -> None:
    body = json.loads((DOCS / "benchmarks" / "peers.json").read_text())
    page = (DOCS / "peers.md").read_text()
    assert summary.with_table(page, summary.markdown(body)) == page
