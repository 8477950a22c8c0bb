"""One run of several views that read each other."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

import substrait_agg as sa
from substrait_agg.bind.plan.views import BoundViews, bound_views
from substrait_agg.errors import InputRefused, UsageError
from substrait_agg.flow.graph.aggregate import Aggregate, Distinct
from substrait_agg.flow.passes.lower import lower
from substrait_agg_cli.main import main
from tests.local.run import run
from tests.views.plans import ALL, BATCHES, expected, rows_of, sources, write_batches

pytestmark = pytest.mark.usefixtures("spark")


def bound(*names: str) -> BoundViews:
    return bound_views({name: sa.load(ALL[name]).bind() for name in names or ALL})


def test_every_view_equals_its_query_at_every_version(tmp_path: Path) -> None:
    write_batches(tmp_path, BATCHES)
    started = run(ALL, sources(tmp_path), checkpoint=tmp_path / "ckpt", outputs=["none"])
    started.wait()
    for name in ALL:
        view = sa.open_view(tmp_path / "ckpt", name)
        assert view.versions() == list(range(len(BATCHES) + 1))
        sums: Counter[tuple[object, ...]] = Counter()
        for version in view.versions():
            want = expected(BATCHES[:version])[name]
            assert rows_of(view.to_arrow(version)) == want, (name, version)
            for row in view.changes(
                since=version - 1 if version else None, until=version
            ).to_pylist():
                *values, _, weight = row.values()
                sums[tuple(values)] += weight
            assert sorted(sums.elements(), key=repr) == want
    assert sa.open_state(tmp_path / "ckpt").verify().ok


def test_operators_are_shared() -> None:
    flow = lower(bound(), {("orders",): "changelog", ("customers",): "changelog"})
    aggregates = [node for node in flow.operators if isinstance(node, Aggregate)]
    assert len(aggregates) == 2
    by_name = {view.name: view for view in flow.views}
    assert by_name["by_customer"].shared
    assert by_name["by_customer"].operator == aggregates[0].id
    # `totals` hides the key, so equal rows of different groups are added up in an operator.
    assert isinstance(flow.operators[by_name["totals"].operator], Distinct)


SHARED_SQL = """
CREATE TABLE orders (id bigint, customer string, amount bigint);
CREATE TABLE customers (name string, region string);
CREATE VIEW best AS
    SELECT region, max(total) AS total
    FROM (SELECT customer, sum(amount) AS total FROM orders GROUP BY customer) t
    JOIN customers ON customer = name GROUP BY region;
CREATE VIEW great AS
    SELECT customer FROM (SELECT customer, sum(amount) AS total FROM orders GROUP BY customer) t WHERE total > 5;
CREATE VIEW small AS
    SELECT customer FROM (SELECT customer, sum(amount) AS total FROM orders WHERE amount < 3 GROUP BY customer) t;
CREATE VIEW twice AS
    SELECT region, max(total) AS total
    FROM (SELECT customer, sum(amount) AS total FROM orders GROUP BY customer) t
    JOIN customers ON customer = name GROUP BY region
"""


def test_equal_subqueries_of_views_are_computed_once(tmp_path: Path) -> None:
    """Equal subqueries of views share one operator, with the rows of the queries run separately."""
    planned = sa.sql_views(SHARED_SQL)
    flow = lower(
        bound_views({name: plan.bind() for name, plan in planned.items()}),
        {("orders",): "changelog", ("customers",): "changelog"},
    )
    # One sum for three views, one join and one maximum for two of them, another sum for `small`.
    kinds = Counter(type(node).__name__ for node in flow.operators)
    assert (kinds["Aggregate"], kinds["Join"]) == (3, 1)
    by_name = {view.name: view for view in flow.views}
    assert by_name["best"].operator == by_name["twice"].operator
    write_batches(tmp_path, BATCHES)
    given = sources(tmp_path)
    run(planned, given, checkpoint=tmp_path / "ckpt", outputs=["none"]).wait()
    for name, plan in planned.items():
        read = {t: given[t] for t in given if t == "orders" or name in ("best", "twice")}
        run(plan, read, checkpoint=tmp_path / name, outputs=["none"]).wait()
        alone, view = sa.open_view(tmp_path / name), sa.open_view(tmp_path / "ckpt", name)
        for version in range(len(BATCHES) + 1):
            assert rows_of(view.to_arrow(version)) == rows_of(alone.to_arrow(version)), name
    assert rows_of(sa.open_view(tmp_path / "ckpt", "great").to_arrow()) == [("a",), ("d",)]
    assert sa.open_state(tmp_path / "ckpt").verify().ok


APART_SQL = {
    "totals": "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer",
    "great": "SELECT total, customer FROM totals WHERE total > 4",
    "sizes": "SELECT amount, count(*) AS n FROM orders GROUP BY amount",
}


@pytest.mark.parametrize("emit", ["count:2", "end"])
def test_groups_of_views_wait_as_those_of_single_views_do(tmp_path: Path, emit: str) -> None:
    """Views of one run have the versions and rows that each has when it is maintained alone, with
    delayed emission.
    """
    tables = "CREATE TABLE orders (id bigint, customer string, amount bigint);"
    views = "".join(f"CREATE VIEW {name} AS {query};" for name, query in APART_SQL.items())
    write_batches(tmp_path, BATCHES)
    given = {"orders": sources(tmp_path)["orders"]}
    run(
        sa.sql_views(tables + views), given, checkpoint=tmp_path / "c", outputs=["none"], emit=emit
    ).wait()
    delayed = False
    for name, query in APART_SQL.items():
        plan = sa.sql(tables + query.replace("FROM totals", f"FROM ({APART_SQL['totals']}) t"))
        run(plan, given, checkpoint=tmp_path / name, outputs=["none"], emit=emit).wait()
        alone, view = sa.open_view(tmp_path / name), sa.open_view(tmp_path / "c", name)
        assert view.versions() == alone.versions()
        assert len(view.versions()) > len(BATCHES)
        for version in view.versions():
            assert rows_of(view.to_arrow(version)) == rows_of(alone.to_arrow(version)), name
        delayed = delayed or rows_of(view.to_arrow(1)) != rows_of(view.to_arrow())
    assert delayed
    assert sa.open_state(tmp_path / "c").verify().ok


def two_roots() -> sa.Plan:
    """Two views over one relation, which they share by reference."""
    plan = json.loads(ALL["by_customer"])
    first = plan["relations"][0]["root"]
    sums = {"filter": {
        "input": {"reference": {"subtreeOrdinal": 0}},
        "condition": {"literal": {"boolean": True}},
    }}  # fmt: skip
    second = {"root": {"input": sums, "names": ["who", "orders", "sum"]}}
    shared = {"root": {"input": {"reference": {"subtreeOrdinal": 0}}, "names": first["names"]}}
    plan["relations"] = [{"rel": first["input"]}, shared, second]
    return sa.load(json.dumps(plan).replace('"orders_clean"', '"orders"'))


def test_the_roots_of_a_plan_are_views(tmp_path: Path) -> None:
    plan = two_roots()
    assert sa.validate(plan).ok
    views = plan.views()
    assert [(name, one.bind().names[0]) for name, one in views.items()] == [
        ("root1", "customer"),
        ("root2", "who"),
    ]
    explained = sa.explain(plan)
    assert "root1" in explained
    assert "root2" in explained
    write_batches(tmp_path, BATCHES)
    run(
        plan,
        {"orders": sources(tmp_path)["orders"]},
        checkpoint=tmp_path / "ckpt",
        outputs=["none"],
    ).wait()
    for version in range(len(BATCHES) + 1):
        rows = [rows_of(sa.open_view(tmp_path / "ckpt", name).to_arrow(version)) for name in views]
        assert rows[0] == rows[1]
        assert bool(rows[0]) == bool(version)
    (tmp_path / "roots.json").write_text(plan.content)
    called = CliRunner().invoke(main, ["validate", str(tmp_path / "roots.json")])
    assert (called.exit_code, called.stdout.rstrip().rpartition(": ")[2]) == (
        0,
        "valid (1 warning)",
    )


def test_the_problems_of_all_roots_are_reported_once() -> None:
    plan = json.loads(two_roots().content)
    for relation in plan["relations"][1:]:
        relation["root"]["names"].pop()
    plan["relations"][0]["rel"]["aggregate"]["measures"][0]["measure"]["functionReference"] = 99
    problems = sa.validate(json.dumps(plan)).problems
    wrong = [(p.code, p.path) for p in problems if p.level == "error"]
    assert len(wrong) == len(set(wrong))
    assert [path for code, path in wrong if code == "NAMES_COUNT"] == [
        f"relations[{i}].root.names" for i in (1, 2)
    ]
    assert sum(path.startswith("relations[0]") for _, path in wrong) == 1
    with pytest.raises(sa.PlanRefused) as refused:
        sa.explain(json.dumps(plan))
    assert refused.value.problems == problems


def test_the_order_of_the_plans_does_not_matter() -> None:
    plans = {name: sa.load(text).bind() for name, text in ALL.items()}
    backwards = dict(reversed(plans.items()))
    assert bound_views(plans) == bound_views(backwards)
    assert [v.name for v in bound_views(plans).views].index("by_customer") == 1


@pytest.mark.parametrize("names", [("totals", "by_customer", "orders_clean")])
def test_a_view_that_is_not_stored_is_only_read(tmp_path: Path, names: tuple[str, ...]) -> None:
    plans = {name: sa.load(ALL[name]).bind() for name in names}
    views = bound_views(plans, temporary=["orders_clean", "by_customer"])
    flow = lower(views)
    assert [view.name for view in flow.views] == ["totals"]
    assert not flow.views[0].shared


def test_views_in_a_circle_are_refused() -> None:
    looped = {"orders_clean": ALL["by_customer"], "orders": ALL["orders_clean"]}
    with pytest.raises((UsageError, InputRefused), match="VIEW_CYCLE") as refused:
        sa.explain(
            {**looped, "orders_clean": ALL["orders_clean"].replace('"orders"', '"orders_clean"')}
        )
    assert refused.value.code == "VIEW_CYCLE"


def test_a_view_with_the_name_of_a_source_is_refused(tmp_path: Path) -> None:
    write_batches(tmp_path, BATCHES)
    given = {**sources(tmp_path), "by_customer": "parquet:x"}
    with pytest.raises(UsageError) as refused:
        run(ALL, given, checkpoint=tmp_path / "ckpt")
    assert refused.value.code == "VIEW_NAME_TAKEN"


def test_columns_of_a_view_are_checked() -> None:
    other = ALL["by_customer"].replace('"amount"', '"price"')
    with pytest.raises(InputRefused, match="column price") as refused:
        sa.explain({"orders_clean": ALL["orders_clean"], "by_customer": other})
    assert refused.value.code == "VIEW_COLUMNS_DIFFER"


def test_a_view_must_be_named_where_there_are_several(tmp_path: Path) -> None:
    write_batches(tmp_path, BATCHES[:1])
    run(ALL, sources(tmp_path), checkpoint=tmp_path / "ckpt", outputs=["none"]).wait()
    with pytest.raises(UsageError) as missing:
        sa.open_view(tmp_path / "ckpt")
    assert missing.value.code == "VIEW_NAME_MISSING"
    assert "by_region" in str(missing.value)
    with pytest.raises(UsageError) as unknown:
        sa.open_view(tmp_path / "ckpt", "nothing")
    assert unknown.value.code == "VIEW_UNKNOWN"


def test_the_command_line_names_a_view(tmp_path: Path) -> None:
    write_batches(tmp_path, BATCHES[:1])
    run(ALL, sources(tmp_path), checkpoint=tmp_path / "ckpt", outputs=["none"]).wait()
    missing = CliRunner().invoke(main, ["changes", str(tmp_path / "ckpt")])
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert "error[VIEW_NAME_MISSING]" in missing.stderr
    assert "by_region" in missing.stderr
    shown = CliRunner().invoke(
        main, ["view", str(tmp_path / "ckpt"), "--name", "by_region", "--format", "csv"]
    )
    assert sorted(shown.stdout.splitlines()) == ["region,customers,best", "x,2,7", "y,1,2"]


def test_explain_shows_all_views_in_every_format() -> None:
    told = json.loads(sa.explain(ALL, "json"))
    assert next(view["name"] for view in told["views"]) == "orders_clean"
    assert {view["name"] for view in told["views"]} == ALL.keys()
    drawn = sa.explain(ALL, "mermaid")
    page = sa.explain(ALL, "html")
    for number, name in enumerate(view["name"] for view in told["views"]):
        assert f'view{number}["view {name}' in drawn.replace("#95;", "_")
        assert f'id="view{number}"' in page
        assert f"View {name}" in page


def test_explain_names_what_is_shared() -> None:
    text = sa.explain(ALL)
    assert "at by_customer: relations[0].root.input" in text
    assert "view by_customer from operator" in text
    assert "for views by_customer, by_region, totals, with_region" in text
