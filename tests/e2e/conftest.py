"""Shared fixtures of end-to-end tests: the stream of lineitem changes, and undisturbed runs over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from tests.e2e.lineitem import Stream, make_stream
from tests.e2e.tpch import PRODUCERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Finished:
    """A run that has ended: its checkpoint, every version's view, and what its outputs wrote into `folder`."""

    folder: Path
    views: dict[int, pa.Table] = field(default_factory=dict)

    @property
    def checkpoint(self) -> Path:
        """The checkpoint."""
        return self.folder / "checkpoint"

    def keep(self, progress: Any) -> None:
        """Store the view of the version that was just committed."""
        self.views[progress.version] = sa.open_view(self.checkpoint).to_arrow(progress.version)


@pytest.fixture(scope="session")
def lineitem(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    """20 files of changes of lineitem."""
    return make_stream(tmp_path_factory.mktemp("lineitem"))


@pytest.fixture(scope="session")
def undisturbed(
    spark: SparkSession, lineitem: Stream, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], Finished]:
    """The run of a producer's query over lineitem; made once."""

    @cache
    def finished(name: str, query: str) -> Finished:
        done = Finished(tmp_path_factory.mktemp(f"{name}-{query}"))
        run = sa.run(
            PRODUCERS[name].plan(query),
            {"lineitem": f"parquet:{lineitem.folder}?op=op&batch-files=1"},
            checkpoint=done.checkpoint,
            spark=spark,
            outputs=[
                f"changes-parquet={done.folder / 'out'}",
                f"stream-json={done.folder / 'out.jsonl'}",
                f"debezium-json={done.folder / 'events.jsonl'}",
            ],
            progress=done.keep,
        )
        run.wait()
        return done

    return finished
