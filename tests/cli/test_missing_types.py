"""Plans without column types, as DataFusion wrote them before release 42, take them from sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import substrait_agg as sa
from substrait_agg.errors import InputRefused
from substrait_agg_cli.main import main
from tests.handmade import counting


def untyped() -> str:
    plan = counting()
    read = plan["relations"][0]["root"]["input"]["aggregate"]["input"]["read"]
    read["baseSchema"] = {"names": ["k", "v"]}
    return json.dumps(plan)


def source(folder: Path, **columns: Any) -> str:
    folder.mkdir()
    pq.write_table(pa.table(columns), folder / "1.parquet")
    return f"parquet:{folder}"


def codes(*arguments: Any) -> list[str]:
    return [p.code for p in sa.validate(*arguments).problems if p.level == "error"]


def test_validate_takes_the_types_of_the_source(tmp_path: Path) -> None:
    spec = source(tmp_path / "t", k=pa.array([1], pa.int64()), v=["x"])
    assert codes(untyped()) == ["SCHEMA_TYPES_MISSING"]
    assert codes(untyped(), "lenient", {"t": spec, "other": "parquet:none"}) == []
    assert codes(untyped(), "lenient", {"other": spec}) == ["SCHEMA_TYPES_MISSING"]
    assert codes(untyped(), "strict", {"t": spec}) == ["SCHEMA_TYPES_MISSING"]


def test_problems_behind_the_missing_types_are_found(tmp_path: Path) -> None:
    plan = json.loads(untyped())
    plan["relations"][0]["root"]["names"] = ["k"]
    spec = source(tmp_path / "t", k=["x"], v=["x"])
    assert codes(json.dumps(plan), "lenient", {"t": spec}) == ["NAMES_COUNT"]


def test_explain_shows_the_types_of_the_source(tmp_path: Path) -> None:
    spec = source(tmp_path / "t", k=pa.array([1], pa.decimal128(9, 2)), v=["x"])
    assert "k: decimal?<9,2>" in sa.explain(untyped(), sources={"t": spec})


def test_the_commands_take_sources(tmp_path: Path) -> None:
    spec = source(tmp_path / "t", k=["x"], v=["x"])
    plan = tmp_path / "plan.json"
    plan.write_text(untyped())
    for command in ("validate", "explain"):
        done = CliRunner().invoke(main, [command, str(plan), "--source", f"t={spec}"])
        assert done.exit_code == 0, done.output
    assert "k: string?" in done.output


def test_a_source_without_types_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputRefused) as error:
        sa.validate(untyped(), sources={"t": f"csv:{tmp_path}"})
    assert error.value.code == "SOURCE_TYPES_UNKNOWN"
