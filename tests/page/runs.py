"""Runs on the local executor with their page, and requests to it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.metrics import Progress
from substrait_agg.page.server import WebPage
from tests.e2e.files import write_in_order
from tests.e2e.plans import Builder, aggregate, column, ordered, read
from tests.local.run import LocalRun

COLUMNS = {"region": "string", "amount": "i64"}
Row = tuple[str | None, int]


def totals() -> str:
    """SELECT region, sum(amount) AS total, count(*) AS n FROM sales GROUP BY region."""
    build = Builder()
    measures = [
        build.measure("sum", (column(1), "i64"), output="i64"),
        build.measure("count", output="i64!"),
    ]
    return build.plan(
        aggregate(read("sales", COLUMNS), [column(0)], measures), "region", "total", "n"
    )


def largest() -> str:
    """SELECT region, max(amount) AS most FROM sales GROUP BY region ORDER BY most DESC."""
    build = Builder()
    measures = [build.measure("max", (column(1), "i64"), output="i64")]
    groups = aggregate(read("sales", COLUMNS), [column(0)], measures)
    return build.plan(ordered(groups, (column(1), True)), "region", "most")


@dataclass
class Answer:
    """A response of the server."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class ShownRun:
    """A run with a page."""

    run: LocalRun
    page: WebPage

    def ask(
        self, path: str = "/data.json", method: str = "GET", host: str | None = None, **headers: str
    ) -> Answer:
        """Send a request; the names of headers have ``_`` for ``-``."""
        place = urlsplit(self.page.address)
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=30)
        sent = {name.replace("_", "-"): text for name, text in headers.items()}
        connection.request(method, path, headers={"Host": host or place.netloc, **sent})
        response = connection.getresponse()
        answer = Answer(response.status, dict(response.headers), response.read())
        connection.close()
        return answer

    def rows(self, view: int = 0) -> list[list[str]]:
        """Return the rows of a view in the data."""
        found: list[list[str]] = self.ask().data["views"][view]["rows"]
        return found


@contextmanager
def shown_run(
    folder: Path, batches: Sequence[Sequence[Row]], plan: Any = None, **options: Any
) -> Iterator[ShownRun]:
    """Start a run with a file per batch, which `LocalRun.batch` reads one after another."""
    tables = [
        pa.table(
            {"region": pa.array([r for r, _ in rows], pa.string()), "amount": [a for _, a in rows]},
            schema=pa.schema([("region", pa.string()), ("amount", pa.int64())]),
        )
        for rows in batches
    ]
    write_in_order(folder / "sales", tables)
    plan = totals() if plan is None else plan
    names = list(plan) if isinstance(plan, dict) else [""]
    page = WebPage(0, Checkpoint(folder / "c"), names)
    try:
        page.begin(Progress)
        run = LocalRun(
            plan,
            {"sales": f"parquet:{folder}/sales?batch-files=1"},
            checkpoint=folder / "c",
            progress=page.committed,
            outputs=["none"],
            **options,
        )
        page.begin(lambda: run.progress)
        yield ShownRun(run, page)
    finally:
        page.close()
