"""Runs with real Spark that are refused or fail: one readable message, the right status, nothing changed on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from substrait_agg_cli.main import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _session(spark: SparkSession) -> None:
    """The command uses the Spark that is running."""


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A folder with one file of the table ``t``."""
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"k": pa.array([1, 1, 2], pa.int64())}), folder / "a.parquet")
    return folder


def run(plan: Path, source: str, checkpoint: Path, *more: object) -> Result:
    arguments = [
        "run", plan, "--source", f"t={source}", "--checkpoint", checkpoint, "--no-progress", *more,
    ]  # fmt: skip
    return CliRunner().invoke(main, [str(a) for a in arguments])


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def is_one_message(result: Result, code: str) -> None:
    error, advice = result.stderr.splitlines()
    assert error.startswith((f"error[{code}]: ", f"error[{code}] at ")), error
    assert advice.startswith("help: ")
    assert result.stdout == ""


def test_a_run_and_its_repetition(good_plan: Path, rows: Path, tmp_path: Path) -> None:
    """The call that the other tests break works, and works again."""
    table = "k | n\n--+--\n1 | 2\n2 | 1\n(2 rows)\n"
    for _ in range(2):
        result = run(good_plan, f"parquet:{rows}", tmp_path / "ck")
        assert (result.exit_code, result.stderr) == (0, "")
        assert sorted(result.stdout.splitlines()) == sorted(table.splitlines())


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("parquet:{folder}/absent", "SOURCE_NOT_FOUND"),
        ("csv:{folder}/empty?header=true", "SOURCE_EMPTY"),
        ("{folder}/t", "SPEC_FORMAT_MISSING"),
        ("parquet:{folder}/other", "COLUMN_MISSING"),
        ("parquet:{folder}/text", "COLUMN_TYPE_MISMATCH"),
        ("parquet:{folder}/broken", "SOURCE_UNREADABLE"),
        ("nosuchformat:{folder}/t", "SOURCE_UNREADABLE"),
        ("parquet:nosuchscheme://host/t", "SOURCE_UNREADABLE"),
        ("parquet:{folder}/t?op=kind", "COLUMN_MISSING"),
    ],
)
def test_a_source_that_does_not_fit_changes_nothing(
    source: str, code: str, good_plan: Path, rows: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    for name, table in {"other": {"x": [1]}, "text": {"k": ["1"]}}.items():
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(table), tmp_path / name / "a.parquet")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.parquet").write_text("not Parquet")
    before = contents(tmp_path)
    result = run(good_plan, source.format(folder=tmp_path), tmp_path / "ck")
    is_one_message(result, code)
    assert result.exit_code == 2
    assert contents(tmp_path) == before
    assert not (tmp_path / "ck").exists()


def test_a_folder_without_files_is_an_empty_table(good_plan: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = run(good_plan, f"parquet:{tmp_path / 'empty'}", tmp_path / "ck")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith("(0 rows)\n")


@pytest.mark.parametrize("kind", ["file", "file/below", "file/far/below", "full", "partitions"])
def test_a_checkpoint_that_cannot_be_one_changes_nothing(
    kind: str, good_plan: Path, rows: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").write_text("mine")
    before = contents(tmp_path)
    more = ("--partitions", 3) if kind == "partitions" else ()
    result = run(good_plan, f"parquet:{rows}", tmp_path / kind, *more)
    is_one_message(result, "PARTITIONS_INVALID" if more else "NOT_A_CHECKPOINT")
    assert result.exit_code == 2
    assert contents(tmp_path) == before
    assert not (tmp_path / "partitions").exists()


def test_the_checkpoint_of_another_plan_is_left_alone(
    good_plan: Path, rows: Path, tmp_path: Path
) -> None:
    run(good_plan, f"parquet:{rows}", tmp_path / "ck")
    before = contents(tmp_path / "ck")
    plan = json.loads(good_plan.read_text())
    plan["relations"][0]["root"]["names"] = ["k", "another"]
    other = tmp_path / "other.json"
    other.write_text(json.dumps(plan))
    result = run(other, f"parquet:{rows}", tmp_path / "ck")
    is_one_message(result, "PLAN_DIFFERS")
    assert (result.exit_code, contents(tmp_path / "ck")) == (2, before)


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (None, "NULL_IN_REQUIRED_COLUMN", "column k of table t is null"),
        ("damaged", "BATCH_FAILED", "b.parquet"),
    ],
)
def test_a_batch_that_fails_is_one_readable_line(
    value: str | None, code: str, text: str, good_plan: Path, rows: Path, tmp_path: Path
) -> None:
    """A failed batch is reported in one line; committed versions remain, and the corrected command
    continues.
    """
    good_plan.write_text(good_plan.read_text().replace("NULLABLE", "REQUIRED"))
    assert run(good_plan, f"parquet:{rows}", tmp_path / "ck").exit_code == 0
    before = contents(tmp_path / "ck" / "snapshots")
    bad = rows / "b.parquet"
    pq.write_table(pa.table({"k": pa.array([3, None], pa.int64())}), bad)
    if value == "damaged":
        bad.write_bytes(bad.read_bytes()[:40])
    result = run(good_plan, f"parquet:{rows}", tmp_path / "ck")
    assert result.exit_code == 1
    is_one_message(result, code)
    error = result.stderr.splitlines()[0]
    assert text in error
    assert not any(word in error for word in ("Traceback", "org.apache", "SQLSTATE", "py4j"))
    assert contents(tmp_path / "ck" / "snapshots") == before
    pq.write_table(pa.table({"k": pa.array([3], pa.int64())}), bad)
    assert "3 | 1" in run(good_plan, f"parquet:{rows}", tmp_path / "ck").stdout


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("changes-parquet={folder}/file", "OUTPUT_NOT_A_FOLDER"),
        ("view-parquet={folder}/file", "OUTPUT_NOT_A_FOLDER"),
        ("stream-json={folder}/file", "OUTPUT_EXISTS"),
        ("stream-json={folder}", "OUTPUT_NOT_A_FILE"),
        ("batch-csv={folder}", "OUTPUT_NOT_A_FILE"),
        ("spark=nosuch:{folder}/place", "OUTPUT_FORMAT_UNKNOWN"),
    ],
)
def test_an_output_that_cannot_be_written_changes_nothing(
    output: str, code: str, good_plan: Path, rows: Path, tmp_path: Path
) -> None:
    """If one output cannot be written, no output is begun."""
    (tmp_path / "file").write_text("mine")
    before = contents(tmp_path)
    fine, refused = f"stream-json={tmp_path / 'new'}", output.format(folder=tmp_path)
    result = run(
        good_plan, f"parquet:{rows}", tmp_path / "ck", "--output", fine, "--output", refused
    )
    is_one_message(result, code)
    assert result.exit_code == 2
    assert contents(tmp_path) == before
    assert not (tmp_path / "ck").exists()


def test_metrics_that_cannot_be_written_change_nothing(
    good_plan: Path, rows: Path, tmp_path: Path
) -> None:
    before = contents(tmp_path)
    for name in ("no/folder/m.prom", "no/folder/m.jsonl"):
        result = run(
            good_plan, f"parquet:{rows}", tmp_path / "ck", "--metrics", tmp_path / name,
            "--output", f"stream-json={tmp_path / 'new'}",
        )  # fmt: skip
        is_one_message(result, "METRICS_NOT_WRITABLE")
        assert result.exit_code == 2
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "conf", ["spark.sql.shuffle.partitions=Moon/There", "spark.sql.session.timeZone=Moon/There"]
)
def test_a_setting_that_is_not_taken_is_one_message(
    good_plan: Path, rows: Path, tmp_path: Path, conf: str
) -> None:
    """Spark refuses a value, or the setting would change the rows of the result."""
    result = run(good_plan, f"parquet:{rows}", tmp_path / "ck", "--conf", conf)
    is_one_message(result, "SETTING_REFUSED")
    assert "Moon/There" in result.stderr
    assert not (tmp_path / "ck").exists()
