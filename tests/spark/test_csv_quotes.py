"""Quotes and backslashes in CSV: as RFC 4180 has them, or refused; never read as they stand by accident."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pytest

import substrait_agg as sa
from substrait_agg.spark.sources.inferred_columns import inferred_columns
from substrait_agg.spark.sources.open import open_source
from tests.spark.test_sources import I64, STRING, origin, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

RANDOM = random.Random(4180)
TEXTS = ["".join(RANDOM.choices('a"\\,;b ', k=RANDOM.randint(1, 7))) for _ in range(300)]


def _by_python(path: Path, **options: str) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, **options)  # type: ignore[arg-type]
        writer.writerows([["k", 'the "v"'], *enumerate(TEXTS)])


def _by_arrow(path: Path) -> None:
    pyarrow.csv.write_csv(pa.table({"k": range(len(TEXTS)), 'the "v"': TEXTS}), path)


@pytest.mark.parametrize("written", [_by_python, _by_arrow])
def test_quotes_that_are_written_twice_are_quotes(
    spark: SparkSession, tmp_path: Path, written: object
) -> None:
    """Also in the header; a backslash is a character like others."""
    assert callable(written)
    written(tmp_path / "a.csv")
    wanted = [(k, text, 1) for k, text in enumerate(TEXTS)]
    table = origin(**{"k": I64, 'the "v"': STRING})
    assert rows(spark, f"csv:{tmp_path}?static=true", table) == wanted
    found = inferred_columns(f"csv:{tmp_path}", "t", lambda: spark)
    assert found == pa.schema([("k", pa.int64()), ('the "v"', pa.string())])


def test_another_quote_is_written_twice_as_well(spark: SparkSession, tmp_path: Path) -> None:
    _by_python(tmp_path / "a.csv", quotechar="a")
    wanted = [(k, text, 1) for k, text in enumerate(TEXTS)]
    table = origin(**{"k": I64, 'the "v"': STRING})
    assert rows(spark, f"csv:{tmp_path}?static=true&quote=a", table) == wanted
    assert inferred_columns(f"csv:{tmp_path}?quote=a", "t", lambda: spark).names == ["k", 'the "v"']


@pytest.mark.parametrize("policy", ["fail", "quarantine"])
def test_quotes_behind_backslashes_have_to_be_declared(
    spark: SparkSession, tmp_path: Path, policy: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text('k,v\n1,"say \\"hi\\" to"\n')
    plan = sa.sql(
        "SELECT k, max(v) AS v FROM t GROUP BY k", {"t": pa.schema({"k": "int64", "v": "string"})}
    )

    def view(options: str) -> list[dict[str, object]]:
        source, checkpoint = f"csv:{tmp_path / 'in'}?bad-rows={policy}{options}", tmp_path / "c"
        sa.run(plan, {"t": source}, checkpoint=checkpoint, outputs=["none"], spark=spark).wait()
        return list(sa.open_view(checkpoint).to_arrow().to_pylist())

    with pytest.raises(sa.RunFailed) as failed:
        view("")
    assert failed.value.code == "ROW_UNREADABLE"
    assert "escape=%5C" in failed.value.help
    assert view("&escape=%5C") == [{"k": 1, "v": 'say "hi" to'}]


def test_doubled_quotes_are_not_read_as_they_stand_behind_another_escape(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text('k,v\n1,"say ""hi"" to"\n')
    table, spec = origin(k=I64, v=STRING), f"csv:{tmp_path}?static=true&escape=%5C"
    with pytest.raises(Exception, match="Unescaped quote"):
        open_source(spark, spec, table).frame.collect()
    kept = f"{spec}&unescapedquotehandling=STOP_AT_DELIMITER"
    assert rows(spark, kept, table) == [(1, '"say ""hi"" to"', 1)]
