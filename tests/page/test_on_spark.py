"""The page of `substrait_agg.run`: there until the run ends, and refused before anything is written."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.errors import UsageError
from tests.e2e.files import write_in_order
from tests.page.runs import totals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_page_is_there_while_the_run_lasts(spark: SparkSession, tmp_path: Path) -> None:
    write_in_order(tmp_path / "sales", [pa.table({"region": ["north"], "amount": [3]})])
    given = {"sales": f"parquet:{tmp_path}/sales"}
    run = sa.run(
        totals(), given, checkpoint=tmp_path / "c", spark=spark, until="0", outputs=["none"], page=0
    )
    try:
        address = run.page
        assert address is not None
        port = urlsplit(address).port
        assert port is not None
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert b"rows per second" in answer.read()
        with pytest.raises(UsageError) as refused:
            sa.run(totals(), given, checkpoint=tmp_path / "other", spark=spark, page=port)
        assert refused.value.code == "PAGE_NOT_SERVED"
        assert not (tmp_path / "other").exists()
    finally:
        run.stop()
    assert run.page is None
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=30)


@pytest.mark.parametrize("port", [-1, 65_536, "80"])
def test_a_port_is_a_number(port: object, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="page") as refused:
        sa.run(totals(), {"sales": "parquet:x"}, checkpoint=tmp_path / "c", page=port)  # type: ignore[arg-type]
    assert refused.value.code == "OPTION_INVALID"
