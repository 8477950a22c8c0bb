"""Values of CSV and JSON are read as DuckDB reads their texts, or their rows are unreadable."""

from __future__ import annotations

import io
import json
import math
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import substrait_agg as sa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TYPES = {
    "n": "DECIMAL(12,2)", "x": "DOUBLE", "f": "FLOAT", "b": "BOOLEAN", "i": "BIGINT", "s": "SMALLINT", "d": "DATE",
    "ts": "TIMESTAMP", "tz": "TIMESTAMPTZ",
}  # fmt: skip
NUMBERS = (
    "1,5 12,34 2.000,25 1,2,3 5, 1.5 +5 -5 5. .5 1e3 1E-1 1.005 -1.005 1_0 0x10 1d 1f 0x1p3 \u0661 99999999999 1e400 "
    "NaN nan inf -Inf Infinity -NaN - . e 1e 5x 12'5"
).split()
TIMES = [
    "2024", "2024-01", "2024-1-5", "2024-01-05", "24-01-05", "2024/01/05", "20240105", "12345", "2024-02-30", "01/05/2024",
    "2024-01-05x", "2024-01-05 x", "2024-01-05 10", "2024-01-05 10:00", "2024-01-05T10:00:00", "2024-01-05 10:00:00.1234567",
    "2024-01-05 10:00:00Z", "2024-01-05 10:00:00+02", "2024-01-05 10:00:00-02:30", "2024-01-05 10:00:00 UTC",
    "2024-01-05 10:00:00 x", "10:00:00", "T10:00", "1704448800", "2024-01-05 24:00", "2024-01-05 10:60",
]  # fmt: skip
TEXTS = {
    "n": [*NUMBERS, " 5 ", "5 x"], "x": [*NUMBERS, " 5 ", "5 x"], "f": NUMBERS, "b": "t f yes no 1 0 true TRUE False on".split(),
    "i": [t for t in NUMBERS if t != "\u0661"], "s": ["32768", "-32768", "+1"], "d": TIMES, "ts": TIMES, "tz": TIMES,
}  # fmt: skip
READ = {
    "n": "1.5 +5 -5 5. .5 1e3 1E-1 1.005 -1.005".split(),
    "x": "1.5 +5 -5 5. .5 1e3 1E-1 nan inf -Inf Infinity 1e400".split(),
    "b": "true TRUE False".split(),
    "i": ["+5", "-5"],
    "s": ["-32768", "+1"],
    "d": ["2024-1-5", "2024-01-05", "2024-01-05 10:00"],
    "ts": ["2024-1-5", "2024-01-05", "2024-01-05 10:00", "2024-01-05T10:00:00", "2024-01-05 10:00:00.1234567"],
    "tz": ["2024-01-05", "2024-01-05 10:00:00Z", "2024-01-05 10:00:00+02", "2024-01-05 10:00:00-02:30"],
}  # fmt: skip
"""Texts that have to be read in CSV."""
CASES = [(name, text) for name, texts in TEXTS.items() for text in texts]
COLUMNS: dict[str, pa.DataType] = {
    "k": pa.int32(), "n": pa.decimal128(12, 2), "x": pa.float64(), "f": pa.float32(), "b": pa.bool_(), "i": pa.int64(),
    "s": pa.int16(), "d": pa.date32(), "ts": pa.timestamp("us"), "tz": pa.timestamp("us", "UTC"),
}  # fmt: skip
VALUES = ", ".join(f"max({n}) AS {n}" for n in TYPES)
QUERY = f"SELECT k, {VALUES} FROM t GROUP BY k"
QUERY_OF_ONE = "SELECT k, max(v) AS v FROM t GROUP BY k"


def view(
    spark: SparkSession,
    folder: Path,
    source: str,
    columns: dict[str, Any],
    query: str = QUERY_OF_ONE,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of a view of a source, and its bad rows."""
    checkpoint, plan = folder / "checkpoint", sa.sql(query, {"t": pa.schema(columns)})
    sa.run(plan, {"t": source}, checkpoint=checkpoint, outputs=["none"], spark=spark).wait()
    made = sa.open_view(checkpoint)
    return made.to_arrow().to_pylist(), made.bad_rows().to_pylist()


def by_duckdb(text: str, type_: str) -> Any:
    """Return the value that DuckDB reads, or an error."""
    with duckdb.connect() as connection:
        try:
            return connection.execute(f"SELECT CAST(? AS {type_})", [text]).fetchall()[0][0]
        except duckdb.Error as error:
            return error


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_text_is_read_as_by_duckdb_or_its_row_is_bad(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    rows = [{"k": k, name: text} for k, (name, text) in enumerate(CASES)]
    if form == "json":
        content = "".join(json.dumps(dict.fromkeys(TYPES) | row) + "\n" for row in rows)
    else:
        lines = (";".join(str(row.get(name, "")) for name in ("k", *TYPES)) for row in rows)
        content = "\n".join([";".join(("k", *TYPES)), *lines, ""])
    (folder / f"a.{form}").write_text(content)
    options = "bad-rows=quarantine" + ("&sep=;" if form == "csv" else "")
    good, bad = view(spark, tmp_path, f"{form}:{folder}?{options}", COLUMNS, QUERY)
    assert len(good) + len(bad) == len(CASES)
    assert {row["code"] for row in bad} == {"ROW_UNREADABLE"}
    read = {CASES[row["k"]]: row[CASES[row["k"]][0]] for row in good}
    wanted = {(name, text): by_duckdb(text, TYPES[name]) for name, text in read}
    assert {case: (value, wanted[case]) for case, value in read.items() if not same(value, wanted[case])} == {}  # fmt: skip
    if form == "csv":
        assert {(name, text) for name, texts in READ.items() for text in texts} - read.keys() == set()  # fmt: skip


@pytest.mark.parametrize("type_", [pa.decimal128(12, 2), pa.float64(), pa.float32()])
def test_a_comma_is_the_decimal_sign_where_the_source_says_so(
    spark: SparkSession, tmp_path: Path, type_: pa.DataType
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text(
        "k;v\na;1,5\nb;,25\nc;5,\nd;-1,5e1\ne;7\nf;1.5\ng;2.000,25\nh;1,2,3\n"
    )
    source = f"csv:{folder}?sep=;&decimal=,&bad-rows=quarantine"
    good, bad = view(spark, tmp_path, source, {"k": pa.string(), "v": type_})
    values = {row["k"]: float(row["v"]) for row in good}
    assert values == {"a": 1.5, "b": 0.25, "c": 5, "d": -15, "e": 7}
    assert sorted(row["row"] for row in bad) == ["f;1.5", "g;2.000,25", "h;1,2,3"]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_decimal_with_a_comma_fails_its_batch_with_file_and_line(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    contents = {"csv": "k;v\na;2.5\nb;1,5\n", "json": '\n{"k":"a","v":2.5}\n{"k":"b","v":"1,5"}\n'}
    folder = tmp_path / "the files"
    folder.mkdir()
    (folder / f"a.{form}").write_text(contents[form])
    source = f"{form}:{folder}" + ("?sep=;" if form == "csv" else "")
    with pytest.raises(sa.RunFailed) as failed:
        view(spark, tmp_path, source, {"k": pa.string(), "v": pa.decimal128(12, 2)})
    assert failed.value.code == "ROW_UNREADABLE"
    said = "line 3 of table t cannot be read: column v has the value '1,5', which is not a valid decimal<12,2>"
    assert said in failed.value.message
    assert Path(failed.value.path.removeprefix("file:")) == folder / f"a.{form}"


def test_decimals_in_a_list(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_text(
        '{"k":"a","v":[1.50,"2.5",null]}\n{"k":"b","v":[1,"1,5"]}\n{"k":"c"}\n'
    )
    columns = {"k": pa.string(), "v": pa.list_(pa.decimal128(12, 2))}
    query = "SELECT k, any_value(v) AS v FROM t GROUP BY k"
    good, bad = view(spark, tmp_path, f"json:{folder}?bad-rows=quarantine", columns, query)
    shown = {row["k"]: row["v"] and [v and float(v) for v in row["v"]] for row in good}
    assert shown == {"a": [1.5, 2.5, None], "c": None}
    assert [row["row"] for row in bad] == ['{"k":"b","v":["1","1,5"]}']


@pytest.mark.parametrize(
    "separator", ["sep=\\t", "sep=\t", "sep=%09", "delimiter=\\t", "delimiter=\t"]
)
def test_a_tab_separates_values(spark: SparkSession, tmp_path: Path, separator: str) -> None:
    """Also if the types of the columns are inferred."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("k\tv\na\t1\n")
    source = {"t": f"csv:{folder}?{separator}"}
    plan = sa.sql("SELECT k, sum(v) AS v FROM t GROUP BY k", source)
    sa.run(plan, source, checkpoint=tmp_path / "c", outputs=["none"], spark=spark).wait()
    assert sa.open_view(tmp_path / "c").to_arrow().to_pylist() == [{"k": "a", "v": 1}]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("sep=", "SPEC_OPTION_BAD"),
        ("quote=ab", "SPEC_OPTION_BAD"),
        ("decimal=;", "SPEC_OPTION_BAD"),
        ("sep=||", "SOURCE_TYPES_UNKNOWN"),
    ],
)
def test_marks_that_cannot_be_read_are_refused(tmp_path: Path, options: str, code: str) -> None:
    (tmp_path / "a.csv").write_text("k\tv\na\t1\n")
    with pytest.raises(sa.SubstraitAggError) as refused:
        sa.sql("SELECT k FROM t", {"t": f"csv:{tmp_path}?{options}"})
    assert refused.value.code == code
    assert refused.value.help


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("declared", [True, False])
def test_a_tar_archive_is_refused(
    spark: SparkSession, tmp_path: Path, form: str, *, declared: bool
) -> None:
    content = {"csv": b"k,v\na,1\n", "json": b'{"k":"a","v":1}\n'}[form]
    folder = tmp_path / "in"
    folder.mkdir()
    with tarfile.open(folder / f"a.{form}.gz", "w:gz") as archive:
        entry = tarfile.TarInfo(f"a.{form}")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    source = {"t": f"{form}:{folder}"}
    types: Any = {"t": pa.schema({"k": "string", "v": "int64"})} if declared else source

    def run() -> None:
        plan = sa.sql("SELECT k, sum(v) AS v FROM t GROUP BY k", types)
        sa.run(plan, source, checkpoint=tmp_path / "c", outputs=["none"], spark=spark).wait()

    with pytest.raises(sa.InputRefused, match="is a tar archive") as refused:
        run()
    assert refused.value.code == "SOURCE_UNREADABLE"
    assert "unpack" in str(refused.value.help)
