"""The demo: small, from another folder; and its check, which has to be able to fail."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from substrait_agg_cli.demo_check import changes_add_up, compare, rounded_quotient

Columns = dict[str, list[Any]]
ROOT = Path(__file__).parents[2]


@pytest.mark.spark
def test_the_demo_passes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """It kills its run half way, so what Spark had in temporary folders has to be removed by the demo."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}",
        "TMPDIR": str(tmp_path),
    }
    result = subprocess.run(
        [sys.executable, "-m", "substrait_agg_cli.demo", "--scale", "0.001", "--files", "4"],
        cwd=tempfile.gettempdir(),
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert "Killed with SIGKILL after version " in result.stdout
    assert "FAIL" not in result.stdout
    assert result.stdout.splitlines()[-1].startswith("PASS in ")
    assert not list(tmp_path.iterdir())


def test_a_value_that_differs_in_the_last_digit_is_found() -> None:
    found: Columns = {"a": [1, 2], "b": [Decimal("1.50"), Decimal("2.51")]}
    wanted: Columns = {"a": [1, 2], "b": [Decimal("1.50"), Decimal("2.50")]}
    first, second = compare(found, wanted)
    assert first.ok
    assert second.different == ((1, Decimal("2.51"), Decimal("2.50")),)


def test_a_missing_row_an_extra_row_and_another_type_are_found() -> None:
    for found in ([1], [1, 2, 3], [1, Decimal(2)], [1, None]):
        (column,) = compare({"a": found}, {"a": [1, 2]})
        assert not column.ok, found


@pytest.mark.parametrize(
    ("total", "count", "average"),
    [("1.00", 8, "0.13"), ("-1.00", 8, "-0.13"), ("2.00", 3, "0.67"), ("1.00", 3, "0.33")],
)
def test_averages_are_rounded_once_half_away_from_zero(
    total: str, count: int, average: str
) -> None:
    found = rounded_quotient(Decimal(total), count, 2)
    assert (found, str(found)) == (Decimal(average), average)


def test_changes_that_do_not_add_up_are_found() -> None:
    columns = {"k": [1, 1, 2], "__version": [0, 1, 1], "__weight": [1, -1, 1]}
    changes = pa.table(columns)
    assert changes_add_up(changes, [(2,)])
    assert not changes_add_up(changes, [(1,), (2,)])
    assert not changes_add_up(changes, [])
