"""Verification against another engine: a sample of a view is what the engine computes from the source."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import substrait_agg as sa
from substrait_agg.errors import UsageError
from substrait_agg.tools.checks.findings import Finding
from substrait_agg.tools.verify.sample import PARTS, WHOLE_ROWS, GroupSample
from substrait_agg_cli.main import main
from tests.checkpoint.test_checksums import aggregate, source_of
from tests.checkpoint.test_verify_deep import damage
from tests.e2e import plans
from tests.local.run import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = "SELECT k, sum(x) AS total FROM t GROUP BY k"


def maintained(folder: Path) -> Path:
    """A view of sums over a source with retractions; return the checkpoint."""
    run(aggregate("sum"), source_of(folder), checkpoint=folder / "c").wait()
    return folder / "c"


def found(
    folder: Path, query: str = QUERY, against: str = "duckdb", **options: Any
) -> list[Finding]:
    """The findings of a comparison with another engine."""
    sources = {"t": f"parquet:{folder / 't'}?weight=w"}
    state = sa.open_state(folder / "c")
    verdict = state.verify(against=against, query=query, sources=sources, **options)
    return [f for f in verdict.findings if f.code in ("DEEP_DIFFERS", "DEEP_NOT_CHECKED", "QUERY_FAILED")]  # fmt: skip


def test_a_view_equals_the_query_of_duckdb(tmp_path: Path) -> None:
    maintained(tmp_path)
    assert not found(tmp_path)


def test_a_row_that_occurs_twice_is_there_twice(tmp_path: Path) -> None:
    """A source with weights has rows several times, and rows that were taken back not at all."""
    rows = pa.table({"k": ["a", "a", "b", "b"], "x": [1, 1, 5, 5], "w": [2, 1, 1, -1]})
    (tmp_path / "t").mkdir()
    pq.write_table(rows, tmp_path / "t" / "0.parquet")
    source = {"t": f"parquet:{tmp_path / 't'}?weight=w"}
    run(aggregate("sum"), source, checkpoint=tmp_path / "c").wait()
    assert sa.open_view(tmp_path / "c").to_arrow().to_pylist() == [{"k": "a", "sum": 3}]
    assert not found(tmp_path)


def test_operations_are_weights(tmp_path: Path) -> None:
    rows = pa.table({"k": ["a", "b", "b"], "x": [1, 2, 2], "op": ["insert", "c", "delete"]})
    (tmp_path / "t").mkdir()
    pq.write_table(rows, tmp_path / "t" / "0.parquet")
    sources = {"t": f"parquet:{tmp_path / 't'}?op=op"}
    run(aggregate("sum"), sources, checkpoint=tmp_path / "c").wait()
    state = sa.open_state(tmp_path / "c")
    assert not state.verify(against="duckdb", query=QUERY, sources=sources).findings


def test_a_wrong_row_is_named_with_both_values(tmp_path: Path) -> None:
    folder = maintained(tmp_path)
    right = sa.open_view(folder).to_arrow().to_pylist()
    damage(folder, 0, "group", "v0", lambda total: total and total + 1)
    wrong = sa.open_view(folder).to_arrow().to_pylist()
    expected = set()
    for before, after in zip(right, wrong, strict=True):
        if before != after:
            key = "NULL" if before["k"] is None else before["k"]
            expected |= {
                f"the view has 1 times, and should have 0 times: k={key}, sum={after['sum']}",
                f"the view has 0 times, and should have 1 times: k={key}, sum={before['sum']}",
            }
    assert expected
    assert {f.message for f in found(tmp_path)} == expected


def test_the_command_ends_with_1_if_a_row_is_wrong(tmp_path: Path) -> None:
    folder = maintained(tmp_path)
    source = f"t=parquet:{tmp_path / 't'}?weight=w"
    command = ["state", "verify", str(folder), "--against", "duckdb", "--source", source]
    assert CliRunner().invoke(main, [*command, "--query", QUERY]).exit_code == 0
    other = CliRunner().invoke(main, [*command, "--query", QUERY.replace("sum(x)", "sum(x) + 1")])
    assert other.exit_code == 1
    assert "error[DEEP_DIFFERS]" in other.output
    assert "should have 1 times: k=a, sum=6" in other.output


def test_floats_are_compared_without_their_last_bits(tmp_path: Path) -> None:
    """Engines add floats in different orders. The small difference of the sums is not reported."""
    values = [0.1, 0.2, 0.3, 1e10, 0.7] * 7
    (tmp_path / "t").mkdir()
    table = pa.table({"k": ["a"] * len(values), "x": values, "w": [1] * len(values)})
    pq.write_table(table, tmp_path / "t" / "0.parquet")
    b = plans.Builder()
    total = b.measure("sum", (plans.column(1), "fp64"), output="fp64")
    read = plans.read("t", {"k": "string", "x": "fp64"})
    plan = b.plan(plans.aggregate(read, [plans.column(0)], [total]), "k", "total")
    source = {"t": f"parquet:{tmp_path / 't'}?weight=w"}
    run(plan, source, checkpoint=tmp_path / "c").wait()
    assert not found(tmp_path)
    assert len(found(tmp_path, QUERY.replace("sum(x)", "sum(x) * 1.000001"))) == 2


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT k, total FROM t", "duckdb cannot compute the query"),
        ("SELECT k FROM t", "does not have the columns of the view"),
        ("SELECT k, 'one' FROM t", "does not have the columns of the view"),
    ],
)
def test_a_query_that_cannot_be_compared_is_an_error(tmp_path: Path, query: str, said: str) -> None:
    maintained(tmp_path)
    (finding,) = found(tmp_path, query)
    assert (finding.code, finding.level) == ("QUERY_FAILED", "error")
    assert said in finding.message


def test_a_file_that_was_modified_is_not_compared(tmp_path: Path) -> None:
    maintained(tmp_path)
    file = min((tmp_path / "t").glob("*.parquet"))
    os.utime(file, (1, 1))
    (finding,) = found(tmp_path)
    assert (finding.code, finding.level) == ("DEEP_NOT_CHECKED", "note")
    assert "has been modified since it was read" in finding.message


@pytest.mark.parametrize(
    "options",
    [
        {"against": "duckdb"},
        {"query": QUERY},
        {"against": "duckdb", "query": QUERY, "deep": True},
        {"name": "v"},
    ],
    ids="+".join,
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    folder = maintained(tmp_path)
    with pytest.raises(UsageError) as refused:
        sa.open_state(folder).verify(**options)
    assert refused.value.code == "OPTION_CONFLICT"


def test_versions_after_each_other_cover_all_groups() -> None:
    rows = pa.table({"k": np.arange(WHOLE_ROWS + 1), "n": np.ones(WHOLE_ROWS + 1)})
    parts = [GroupSample.of(version, rows.num_rows, (0,)) for version in range(PARTS)]
    taken = [part.column("k") for sample in parts for part in sample.take(iter([rows]))]
    assert max(map(len, taken)) < WHOLE_ROWS / PARTS * 2
    every = pa.concat_arrays([c for column in taken for c in column.chunks])
    assert sorted(every.to_pylist()) == list(range(WHOLE_ROWS + 1))
    small = GroupSample.of(7, WHOLE_ROWS, (0,))
    assert next(small.take(iter([rows.slice(0, 9)]))).num_rows == 9


def test_the_key_alone_decides_whether_a_group_is_in_the_sample() -> None:
    """So a wrong value is compared with the right value of its group."""
    sample = GroupSample.of(3, WHOLE_ROWS + 1, (0,))
    keys = np.arange(5000)
    chosen = [
        next(sample.take(iter([pa.table({"k": keys, "n": keys + more})]))).column("k").to_pylist()
        for more in (0, 1)
    ]
    assert chosen[0] == chosen[1]
    assert chosen[0]


def test_a_view_equals_the_query_of_spark(tmp_path: Path, spark: SparkSession) -> None:
    folder = maintained(tmp_path)
    assert not found(tmp_path, against="spark")
    damage(folder, 0, "group", "v0", lambda total: total and total + 1)
    assert {f.code for f in found(tmp_path, against="spark")} == {"DEEP_DIFFERS"}
    (failed,) = found(tmp_path, "SELECT nothing FROM t", against="spark")
    assert failed.code == "QUERY_FAILED"
    assert "spark cannot compute the query" in failed.message
