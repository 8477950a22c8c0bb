"""Refresh policies that are refused before a run, and their syntax."""

from __future__ import annotations

from pathlib import Path

import pytest

import substrait_agg as sa
from substrait_agg.errors import SqlRefused, UsageError
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.flow.passes.lower import lower
from substrait_agg.refresh.checks import RunConditions, check_policies
from substrait_agg.refresh.chooser import RefreshChooser
from substrait_agg.refresh.cost_model import CostHistory, InputSize
from substrait_agg.refresh.policies import RefreshPolicies, parse_refresh
from substrait_agg.scripts.pipeline import PlanSet
from tests.local.run import run
from tests.spark_plans import plan_query, plan_views
from tests.views.brokerage import TABLES
from tests.views.test_pipeline import SALES

pytestmark = pytest.mark.usefixtures("spark")

NONE = RunConditions()


def planned(*scripts: str) -> PlanSet:
    return plan_views({f"{i}.sql": text for i, text in enumerate(scripts)}, {"sales": SALES})


def flow_of(query: str) -> Flow:
    return lower(plan_query(query, TABLES).bind())


def refusal(flow: Flow, policy: str, conditions: RunConditions = NONE) -> UsageError:
    with pytest.raises(UsageError) as refused:
        check_policies(flow, parse_refresh(policy), conditions)
    return refused.value


def test_an_option_for_all_views_and_for_single_ones() -> None:
    assert parse_refresh("incremental strict").of("a") == "incremental_strict"
    policies = parse_refresh(" AUTO , a=full,b=incremental")
    assert [policies.of(view) for view in "abc"] == ["full", "incremental", "auto"]
    assert parse_refresh("a=full").of("b") == "incremental"
    assert parse_refresh({"a": "full"}) == RefreshPolicies(views={"a": "full"})
    for wrong in ("often", "a=often", "full,auto", "a=full,a=auto", "", "a="):
        with pytest.raises(UsageError) as refused:
            parse_refresh(wrong)
        assert (refused.value.code, refused.value.path) == ("OPTION_INVALID", "refresh")


def test_a_policy_of_an_unknown_view() -> None:
    flow = flow_of("SELECT symbol, count(*) n FROM trades GROUP BY symbol")
    assert refusal(flow, "other=full").code == "VIEW_UNKNOWN"


@pytest.mark.parametrize(
    ("query", "reasons"),
    [
        ("SELECT symbol, string_agg(status, ',') s, sum(quantity) q FROM trades GROUP BY symbol", ["all values of each group"]),
        ("SELECT bit_xor(quantity) b, array_agg(symbol) a FROM trades", ["bit_xor", "collect_list"]),
        ("SELECT symbol FROM trades WHERE quantity > (SELECT avg(quantity) FROM trades)", ["without equal columns"]),
    ],
)  # fmt: skip
def test_strict_refuses_what_reads_stored_rows_again(query: str, reasons: list[str]) -> None:
    error = refusal(flow_of(query), "incremental_strict")
    assert error.code == "REFRESH_NOT_INCREMENTAL"
    assert all(reason in str(error) for reason in reasons)
    assert error.path.startswith("relations[0]")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT symbol, median(quantity) m, min(price) a, count(DISTINCT status) d FROM trades GROUP BY symbol",
        "SELECT t.symbol FROM trades t LEFT JOIN accounts a ON t.account_id = a.account_id",
        "SELECT symbol, sum(quantity) s FROM trades GROUP BY symbol ORDER BY s LIMIT 3",
    ],
)
def test_strict_accepts_what_is_maintained_by_changes(query: str) -> None:
    check_policies(flow_of(query), parse_refresh("incremental_strict"), NONE)


@pytest.mark.parametrize(
    ("query", "conditions", "reason"),
    [
        ("SELECT symbol, first_value(status) f FROM trades GROUP BY symbol", NONE, "order in which rows arrived"),
        ("SELECT count(*) n FROM trades", RunConditions(event_time=True), "--watermark"),
        ("SELECT count(*) n FROM trades", RunConditions(delayed=True), "--emit"),
        ("SELECT count(*) n FROM trades", RunConditions(unreadable={("trades",): "it is a stream"}), "it is a stream"),
    ],
)  # fmt: skip
def test_what_cannot_be_computed_again(query: str, conditions: RunConditions, reason: str) -> None:
    flow = flow_of(query)
    error = refusal(flow, "full", conditions)
    assert error.code == "REFRESH_NOT_FULL"
    assert reason in str(error)
    check_policies(flow, parse_refresh("auto"), conditions)
    chooser = RefreshChooser(flow, parse_refresh("auto"), conditions)
    choice = chooser.choose(CostHistory(), InputSize(1, 2))
    assert not choice.operators
    assert reason in choice.reason


def test_a_join_shared_by_views_with_different_policies(tmp_path: Path) -> None:
    plans = plan_views(
        {
            "a.sql": "CREATE VIEW a AS SELECT t.symbol, t.quantity, x.broker FROM trades t JOIN accounts x"
            " ON t.account_id = x.account_id;"
            "CREATE VIEW b AS SELECT broker, sum(quantity) s FROM a GROUP BY broker"
        },
        TABLES,
    )
    sources = {}
    for name in ("trades", "accounts"):
        (tmp_path / name).mkdir()
        sources[name] = f"parquet:{tmp_path / name}"
    with pytest.raises(UsageError, match="shares operator") as refused:
        run(plans, sources, checkpoint=tmp_path / "c", outputs=["none"], refresh="b=full")
    assert refused.value.code == "REFRESH_NOT_FULL"
    assert refused.value.path.endswith("a.sql:1")


def test_a_source_that_cannot_be_read_again(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    plan = plan_query("SELECT count(*) n FROM trades", TABLES)
    for spec in (
        f"csv:{tmp_path / 't'}",
        f"parquet:{tmp_path / 't'}?key=trade_id",
        f"parquet:{tmp_path / 't'}?static=true",
    ):
        with pytest.raises(UsageError, match="cannot be read again") as refused:
            run(plan, {"trades": spec}, checkpoint=tmp_path / "c", outputs=["none"], refresh="full")
        assert refused.value.code == "REFRESH_NOT_FULL"


def test_a_source_that_does_not_exist(tmp_path: Path) -> None:
    """The error is that of a run without the policy."""
    plan = plan_query("SELECT count(*) n FROM trades", TABLES)
    for spec in (f"parquet:{tmp_path}/gone", f"csv:{tmp_path}/gone.csv"):
        with pytest.raises(sa.InputRefused, match="does not exist") as refused:
            run(plan, {"trades": spec}, checkpoint=tmp_path / "c", outputs=["none"], refresh="full")
        assert refused.value.code == "SOURCE_NOT_FOUND"


STATEMENTS = (
    "CREATE OR REFRESH STREAMING TABLE a REFRESH POLICY INCREMENTAL STRICT COMMENT 'x' AS SELECT * FROM STREAM sales;",
    "CREATE MATERIALIZED VIEW b\nREFRESH POLICY full AS\nSELECT region, sum(amount) s FROM a GROUP BY region;",
    "CREATE MATERIALIZED VIEW c TBLPROPERTIES ('substrait_agg.refresh_policy' = 'auto') AS SELECT region FROM b",
    "CREATE VIEW d AS SELECT s FROM b",
)  # fmt: skip


def test_statements_declare_policies() -> None:
    plans = planned(*STATEMENTS)
    assert plans.refresh == {"a": "incremental_strict", "b": "full", "c": "auto"}
    assert plans.places == {name: f"{i}.sql:1" for i, name in enumerate("abcd")}
    policies = parse_refresh("incremental,b=auto").declared_by(plans)
    found = [policies.of(view) for view in "abcd"]
    assert found == ["incremental_strict", "auto", "auto", "incremental"]
    assert parse_refresh("auto").declared_by({"a": 1}) == parse_refresh("auto")


def test_a_declared_policy_is_refused_with_its_line(tmp_path: Path) -> None:
    plans = planned(
        "CREATE VIEW a AS SELECT * FROM sales;\n\n"
        "CREATE VIEW b REFRESH POLICY INCREMENTAL STRICT AS SELECT string_agg(region, ',') r FROM a;"
    )
    assert isinstance(plans, PlanSet)
    (tmp_path / "s").mkdir()
    with pytest.raises(UsageError) as refused:
        run(
            plans,
            {"sales": f"parquet:{tmp_path / 's'}"},
            checkpoint=tmp_path / "c",
            outputs=["none"],
        )
    assert (refused.value.code, refused.value.path) == ("REFRESH_NOT_INCREMENTAL", "0.sql:3")
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    "clause",
    [
        "REFRESH POLICY OFTEN",
        "REFRESH POLICY",
        "TBLPROPERTIES ('substrait_agg.refresh_policy'='x')",
    ],
)
def test_an_unknown_declared_policy(clause: str) -> None:
    with pytest.raises(SqlRefused) as refused:
        planned(
            f"CREATE VIEW a AS SELECT * FROM sales;\nCREATE VIEW b {clause} AS SELECT region FROM a"
        )
    assert (refused.value.code, refused.value.line) == ("SQL_NOT_MAINTAINED", 2)


def test_other_table_properties_are_still_reported(caplog: pytest.LogCaptureFixture) -> None:
    planned(*STATEMENTS)
    assert not caplog.records
    planned(
        "CREATE VIEW a TBLPROPERTIES ('substrait_agg.refresh_policy'='full', 'x'='y') AS"
        " SELECT * FROM sales;"
    )
    assert "SQL_CLAUSE_IGNORED" in caplog.text


TOTALS = "SELECT symbol, sum(quantity) q FROM trades GROUP BY symbol"
LISTS = "SELECT symbol, string_agg(status, ',') s FROM trades GROUP BY symbol"


def test_a_query_has_the_policy_that_it_was_planned_with(tmp_path: Path) -> None:
    plan = sa.sql(TOTALS, TABLES, refresh="full")
    assert parse_refresh("auto").declared_by(plan).of("") == "full"
    assert parse_refresh("auto").declared_by(sa.sql(TOTALS, TABLES)).of("") == "auto"
    both = {"totals": plan, "other": sa.sql(TOTALS, TABLES)}
    policies = parse_refresh("auto").declared_by(both)
    assert [policies.of(name) for name in both] == ["full", "auto"]
    assert "view: full" in sa.explain(plan, refresh="auto")
    strict = sa.sql(LISTS, TABLES, refresh="incremental_strict")
    with pytest.raises(UsageError) as refused:
        run(
            strict,
            {"trades": f"parquet:{tmp_path}"},
            checkpoint=tmp_path / "ckpt",
            outputs=["none"],
        )
    assert refused.value.code == "REFRESH_NOT_INCREMENTAL"


def test_views_have_the_policies_that_they_were_planned_with() -> None:
    script = (
        f"CREATE MATERIALIZED VIEW a AS {TOTALS};"
        f"CREATE MATERIALIZED VIEW b REFRESH POLICY FULL AS {TOTALS};"
        f"CREATE TEMPORARY VIEW c AS {TOTALS}"
    )
    assert sa.sql_views(script, TABLES).refresh == {"b": "full"}
    assert sa.sql_views(script, TABLES, refresh="auto").refresh == {"a": "auto", "b": "full"}
    assert sa.sql_views(script, TABLES, refresh={"b": "auto"}).refresh == {"b": "auto"}
    plans = sa.sql_views(script, TABLES, refresh="auto,b=incremental")
    assert plans.refresh == {"a": "auto", "b": "incremental"}
    assert parse_refresh("b=full").declared_by(plans).views == {"a": "auto", "b": "full"}


@pytest.mark.parametrize(
    ("refresh", "code"), [("often", "OPTION_INVALID"), ("x=full", "VIEW_UNKNOWN")]
)
def test_wrong_policies_are_refused_when_a_query_is_planned(refresh: str, code: str) -> None:
    for plan in (
        lambda: sa.sql(TOTALS, TABLES, refresh=refresh),
        lambda: sa.sql_views(f"CREATE VIEW a AS {TOTALS}", TABLES, refresh=refresh),
    ):
        with pytest.raises(UsageError) as refused:
            plan()
        assert (refused.value.code, refused.value.path) == (code, "refresh")
