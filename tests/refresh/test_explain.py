"""Refresh policies in explanations and metrics."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

import substrait_agg as sa
from substrait_agg.metrics import Progress
from substrait_agg.metrics.files import metrics_line, prometheus_text
from substrait_agg.metrics.summary import progress_line
from substrait_agg_cli.main import main
from tests.local.run import run
from tests.refresh.test_rebuild import chosen_at_random, tables_of
from tests.spark_plans import plan_query, plan_views
from tests.views.brokerage import TABLES
from tests.views.test_pipeline import SALES

pytestmark = pytest.mark.usefixtures("spark")

QUERY = "SELECT symbol, sum(quantity) s FROM trades GROUP BY symbol"


def test_policies_and_what_is_in_their_way() -> None:
    plans = plan_views(
        {
            "a.sql": "CREATE VIEW a REFRESH POLICY AUTO AS SELECT region, first_value(amount) f FROM sales GROUP BY region;"
            "CREATE VIEW b AS SELECT region, sum(amount) s FROM sales GROUP BY region;"
        },
        {"sales": SALES},
    )
    assert "refresh" not in sa.explain(plans)
    assert "refresh" not in json.loads(sa.explain(plans, "json"))
    text = sa.explain(plans, refresh="full")
    assert "view a: auto, for operators 0" in text
    assert "no batch is full: it depends on the order in which rows arrived" in text
    assert "view b: full, for operators 1" in text
    assert "refused" not in text
    told = json.loads(sa.explain(plans, "json", refresh="incremental_strict"))["refresh"]
    assert [(one["view"], one["policy"], one["operators"]) for one in told] == [
        ("a", "auto", [0]),
        ("b", "incremental_strict", [1]),
    ]
    with pytest.raises(sa.UsageError) as refused:
        sa.explain(plans, refresh="c=full")
    assert refused.value.code == "VIEW_UNKNOWN"


def test_what_was_chosen_and_why(tmp_path: Path) -> None:
    given = {"trades": tables_of(tmp_path, 1)["trades"]}
    plan = plan_query(QUERY, {"trades": TABLES["trades"]})
    seen: list[Progress] = []
    with chosen_at_random(Random(2)):
        run(
            plan, given, checkpoint=tmp_path / "c", outputs=["none"], refresh="auto", progress=seen.append,
        ).wait()  # fmt: skip
    last = seen[-1].refresh
    assert last is not None
    assert last.full
    assert last.full + last.incremental == 6
    assert last.incremental_seconds is not None
    (tmp_path / "q.sql").write_text(QUERY)
    text = sa.explain(plan, checkpoint=tmp_path / "c")
    lines = text[text.index("past batches") :].splitlines()[1:]
    assert len(lines) == 6
    assert sum("full: estimated" in line for line in lines) == last.full
    assert lines[0].endswith(last.reason)
    assert "version 1: incremental: the batch has all input so far" in lines[-1]
    told = json.loads(sa.explain(plan, "json", checkpoint=tmp_path / "c"))["batches"]
    assert [batch["version"] for batch in told] == [6, 5, 4, 3, 2, 1]
    assert progress_line(seen[-1]).endswith(last.reason)
    line = json.loads(metrics_line(seen[-1]))
    assert line["refresh"] == last.reason
    assert {"way": "full", "value": last.full} in line["metrics"]["refreshes_total"]
    assert "refresh_estimate_seconds{checkpoint=" in prometheus_text(seen[-1])


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("CREATE TABLE trades (symbol string, quantity bigint);" + QUERY)
    done = CliRunner().invoke(
        main, ["explain", "--sql", str(tmp_path / "q.sql"), "--refresh", "auto"]
    )
    assert done.exit_code == 0, done.output
    assert "view: auto, for operators 0" in done.output
