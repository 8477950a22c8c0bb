"""A run in a client of Spark Connect is refused before anything else; no server is started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.session import SparkSession as ConnectSession

import substrait_agg as sa
from tests.handmade import counting

READS_VIEWS = "can read the view"


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> ConnectSession:
    """A session whose server does not exist; everything that needs the server fails."""
    monkeypatch.setattr(SparkConnectClient, "config", _no_server)
    session = object.__new__(ConnectSession)
    session._client = None  # type: ignore[assignment]
    return session


def _no_server(*_: Any) -> Any:
    raise AssertionError("the server was called")


def refused(checkpoint: Path, source: object, **options: Any) -> sa.SubstraitAggError:
    with pytest.raises(sa.UsageError) as refusal:
        sa.run(json.dumps(counting()), {"t": source}, checkpoint=checkpoint, **options)
    assert not checkpoint.exists()
    return refusal.value


def test_a_session_of_spark_connect_is_refused(client: ConnectSession, tmp_path: Path) -> None:
    error = refused(tmp_path / "ckpt", "csv:absent?header=true", spark=client)
    assert error.code == "CONNECT_NOT_SUPPORTED"
    assert "a SparkSession of Spark Connect was given" in error.message
    assert READS_VIEWS in error.help


def test_a_dataframe_of_spark_connect_is_refused(client: ConnectSession, tmp_path: Path) -> None:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import Read

    frame = DataFrame(Read("t"), client)
    error = refused(tmp_path / "ckpt", frame)
    assert error.code == "CONNECT_NOT_SUPPORTED"
    assert "a DataFrame of Spark Connect was given" in error.message


def test_a_process_of_spark_connect_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    error = refused(tmp_path / "ckpt", "csv:absent?header=true")
    assert error.code == "CONNECT_NOT_SUPPORTED"
    assert "this process uses Spark Connect" in error.message
