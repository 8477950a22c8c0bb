"""The columns of a table come from its source, without Spark for local files."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.spark.sources.inferred_columns import inferred_columns
from substrait_agg.spark.sources.readers import check_header

pytestmark = pytest.mark.usefixtures("spark")


def no_session() -> NoReturn:
    raise AssertionError("Spark is not needed")


def columns(spec: str) -> dict[str, str]:
    schema = inferred_columns(spec, "t", no_session)
    assert all(field.nullable for field in schema)
    return {field.name: str(field.type) for field in schema}


CSV = "Id,amount,day,at,zoned,code,ok,op,none\n1,1.5,2026-01-31,2026-01-31 10:00:00,2026-01-31T10:00:00Z,x1,true,insert,\n"
OF_CSV = {
    "Id": "int64", "amount": "double", "day": "date32[day]", "at": "timestamp[us]", "zoned": "timestamp[us, tz=UTC]",
    "code": "string", "ok": "bool", "none": "string",
}  # fmt: skip


def test_csv(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    assert columns(f"csv:{tmp_path}?op=op") == OF_CSV
    with gzip.open(tmp_path / "b.csv.gz", "wt") as file:
        file.write(CSV.replace(",", ";"))
    assert columns(f"{tmp_path}/b.csv.gz?op=op&sep=;") == OF_CSV


def test_json(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(
        '{"id": 1, "at": "2026-01-31T10:00:00.5", "zoned": "2026-01-31 10:00:00Z", "day": "2026-01-31", "s": {"X": [1.5]}}\n'
        '{"id": null, "at": null, "day": "2026-02-01", "text": "2026-02-01 or so"}\n'
    )
    assert columns(str(path)) == {
        "id": "int64", "at": "timestamp[us]", "zoned": "timestamp[us, tz=UTC]", "day": "date32[day]",
        "s": "struct<X: list<item: double>>", "text": "string",
    }  # fmt: skip


def test_parquet_and_the_oldest_file_decides(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False), ("t", pa.timestamp("ns"))])
    pq.write_table(schema.empty_table(), tmp_path / "z.parquet")
    pq.write_table(pa.table({"other": [1]}), tmp_path / "a.parquet")
    os.utime(tmp_path / "z.parquet", (1, 1))
    assert columns(f"parquet:{tmp_path}") == {"a": "int32", "t": "timestamp[us]"}


def test_csv_in_another_encoding(tmp_path: Path) -> None:
    """Spark would replace the characters."""
    (tmp_path / "a.csv").write_bytes("name,n\nä,1\n".encode("latin-1"))
    with pytest.raises(sa.InputRefused) as refused:
        columns(f"csv:{tmp_path}")
    assert refused.value.code == "SOURCE_UNREADABLE"
    assert "encoding=ISO-8859-1" in refused.value.help
    assert columns(f"csv:{tmp_path}?encoding=ISO-8859-1") == {"name": "string", "n": "int64"}


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ("csv:{}/absent", "SOURCE_NOT_FOUND"),
        ("csv:{}/empty", "SOURCE_EMPTY"),
        ("csv:{}/a.csv?header=false", "SOURCE_TYPES_UNKNOWN"),
        ("json:{}/a.csv?cdc=debezium", "SOURCE_TYPES_UNKNOWN"),
        ("parquet:{}/a.csv", "SOURCE_UNREADABLE"),
    ],
)
def test_unknown_columns_are_refused_with_what_to_declare(
    spec: str, code: str, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "empty").mkdir()
    with pytest.raises(sa.InputRefused) as caught:
        sa.sql("SELECT * FROM sales", {"sales": spec.format(tmp_path)})
    assert caught.value.code == code
    assert "CREATE TABLE sales" in caught.value.help


def test_declared_columns_need_no_source() -> None:
    plan = sa.sql(
        "CREATE TABLE Sales (Region string NOT NULL, amount decimal(10,2));"
        "CREATE VIEW totals AS SELECT region, sum(amount) AS total FROM sales GROUP BY region",
        {"sales": "csv:/absent"},
    )
    assert plan.bind().names == ("region", "total")
    assert [str(type_) for type_ in plan.bind().root.types] == ["string", "decimal?<20,2>"]


def test_sources_that_the_query_does_not_name_are_not_read() -> None:
    plan = sa.sql("SELECT a FROM t", {"t": pa.schema([("a", pa.int64())]), "u": "csv:/absent"})
    assert plan.bind().names == ("a",)


def test_csv_with_a_name_twice_is_refused_and_columns_without_one_are_left_out(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.csv").write_text("a,,\n1,2,3\n")
    assert columns(f"csv:{tmp_path}") == {"a": "int64"}
    (tmp_path / "a.csv").write_text("a,b,a\n1,2,3\n")
    with pytest.raises(sa.InputRefused, match="has more than one column a") as refused:
        columns(f"csv:{tmp_path}")
    assert refused.value.code == "COLUMN_AMBIGUOUS"


@pytest.mark.parametrize(
    ("names", "columns", "code"),
    [
        (["A0", "a1", "b"], ["a"], "COLUMN_AMBIGUOUS"),
        (["A0", "a1", "b"], ["b"], ""),
        (["a0", "a1", "a"], ["a"], ""),
        (["a0", "b"], ["a"], "CSV_HEADER_MISSING"),
    ],
)
def test_names_that_spark_has_numbered_are_names_given_twice(
    names: list[str], columns: list[str], code: str
) -> None:
    if not code:
        check_header(names, columns, "x.csv", "t")
        return
    with pytest.raises(sa.InputRefused) as refused:
        check_header(names, columns, "x.csv", "t")
    assert refused.value.code == code


@pytest.mark.parametrize("rest", ["LIMIT 0", "WHERE false", "WHERE id = 1"])
def test_a_table_that_is_planned_away_may_have_a_source(
    rest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source is needed, because it has the columns of the table."""
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    sources = {"t": f"parquet:{tmp_path}", "other": f"parquet:{tmp_path}"}
    started: list[object] = []
    monkeypatch.setattr(
        "substrait_agg.spark.query.start.run", lambda _plan, read, *_: started.append(read)
    )
    query = sa.sql(f"SELECT id FROM t {rest}", sources)
    sa.run(query, sources, checkpoint=tmp_path / "ckpt")
    assert started == [sources]
