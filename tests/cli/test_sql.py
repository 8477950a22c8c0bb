"""run, validate, explain, plan and convert take SQL text, and say where it is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import substrait_agg as sa
from substrait_agg_cli.main import main

pytestmark = pytest.mark.usefixtures("spark")

QUERY = "SELECT region, sum(amount) AS total FROM sales GROUP BY region"


@pytest.fixture
def source(tmp_path: Path) -> str:
    """A source of CSV files."""
    (tmp_path / "sales").mkdir()
    (tmp_path / "sales" / "1.csv").write_text("region,amount\nnorth,1\n")
    return f"sales=csv:{tmp_path}/sales"


def call(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)], input=stdin)


def test_the_same_plan_comes_from_every_form(source: str, tmp_path: Path) -> None:
    file = tmp_path / "totals.sql"
    file.write_text(f"-- totals\n{QUERY};\n")
    forms = (
        ("--query", QUERY),
        ("--sql", file),
        (file,),
    )
    texts = {call("plan", *form, "--source", source).stdout for form in forms}
    texts.add(call("plan", "--sql", "-", "--source", source, stdin=QUERY).stdout)
    assert len(texts) == 1
    assert sa.load(texts.pop()).bind().names == ("region", "total")
    assert call("validate", file, "--source", source).stdout == f"{file}: valid\n"
    assert "measure 0: sum(amount)" in call("explain", "--sql", file, "--source", source).stdout


@pytest.mark.parametrize("name", ["out.json", "out.bin"])
def test_a_plan_is_written_and_converted(name: str, source: str, tmp_path: Path) -> None:
    first, second = tmp_path / name, tmp_path / "again.json"
    assert call("plan", "--query", QUERY, "--source", source, "-o", first).exit_code == 0
    assert call("convert", first, second).exit_code == 0
    assert json.loads(second.read_text())["version"]["minorNumber"] >= 106
    assert sa.explain(str(first)).splitlines()[1:] == sa.explain(str(second)).splitlines()[1:]


@pytest.mark.parametrize("command", ["validate", "explain", "plan"])
def test_an_error_shows_the_line(command: str, source: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.sql"
    file.write_text("SELECT region,\n  sum(amont) FROM sales GROUP BY 1")
    result = call(command, "--sql", file, "--source", source)
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert lines[0].startswith(f"error[SQL_COLUMN_UNKNOWN] at {file}:2:7: ")
    assert "`amont` cannot be resolved. Did you mean" in lines[0]
    assert [line.strip() for line in lines[1:3]] == [
        "sum(amont) FROM sales GROUP BY 1",
        "^^^^^",
    ]
    assert lines[3].startswith("help: ")


@pytest.mark.parametrize("command", ["validate", "explain"])
def test_a_clause_without_effect_is_a_warning_with_its_line(
    command: str, source: str, tmp_path: Path
) -> None:
    views = tmp_path / "views"
    (views / "t").mkdir(parents=True)
    file = views / "t" / "totals.sql"
    file.write_text(f"CREATE MATERIALIZED VIEW totals\n  using delta AS {QUERY};\n")
    result = call(command, "--sql", views, "--source", source)
    assert result.exit_code == 0
    message = "USING has no effect: it says how Spark stores a table"
    assert f"warning[SQL_CLAUSE_IGNORED] at {file}:2:3: {message}\n" in result.stderr

    spec = views / "spark-pipeline.yml"
    spec.write_text("name: n\nstorage: s\nschema: lake\nlibraries: [{glob: {include: t/**}}]\n")
    shown = call(command, "--sql", views, "--source", source).stderr
    assert f"warning[PIPELINE_FIELD_IGNORED] at {spec}: schema has no effect" in shown


def test_explain_knows_static_tables_from_their_sources(tmp_path: Path) -> None:
    (tmp_path / "shops.csv").write_text("id,city\n1,Oslo\n")
    tables = "CREATE TABLE sales (shop BIGINT); CREATE TABLE shops (id BIGINT, city STRING);"
    query = ("--query", f"{tables} SELECT city, shop FROM sales CROSS JOIN shops")
    shops = ("--source", f"shops=csv:{tmp_path}/shops.csv?static=true")
    assert "warning[JOIN_WITHOUT_KEY]" in call("explain", *query).stderr
    static = call("explain", *query, "--static", "shops")
    assert static.exit_code == 0
    expected = static.stdout.replace("tables have inserts", "tables without a source have inserts")
    assert call("explain", *query, *shops).stdout == expected


def test_a_problem_of_the_plan_shows_the_line(source: str) -> None:
    query = "SELECT region,\n  first_value(amount) OVER (PARTITION BY region ROWS 1 PRECEDING) FROM sales"
    result = call("validate", "--query", query, "--source", source)
    assert result.exit_code == 1
    assert "error[WINDOW_FUNCTION_NOT_SUPPORTED] at SQL:2:3: " in result.stderr
    assert (
        "    first_value(amount) OVER (PARTITION BY region ROWS 1 PRECEDING) FROM sales"
        in result.stderr
    )


def test_errors_are_in_json_reports(source: str) -> None:
    result = call("validate", "--query", "SELEC 1", "--source", source, "--format", "json")
    (plan,) = json.loads(result.stdout)["plans"]
    assert (result.exit_code, plan["valid"]) == (1, False)
    assert plan["problems"][0]["code"] == "SQL_SYNTAX"


@pytest.mark.parametrize(
    "arguments",
    [
        ("validate",),
        ("explain",),
        ("plan",),
        ("plan", "--sql", "a.sql", "--query", "SELECT 1"),
        ("run", "--checkpoint", "ckpt"),
        ("run", "plan.bin", "--query", "SELECT 1", "--checkpoint", "ckpt"),
        ("validate", "plan.bin", "--query", "SELECT 1"),
        ("validate", "--sql", "absent.sql"),
    ],
)
def test_wrong_usage_has_status_2(arguments: tuple[str, ...]) -> None:
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error[")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--query", "SELECT x FROM sale"], "--source NAME=SPEC, adds a table"),
        (["--query", "SELECT frobnicate(region) FROM sales"], "help: the functions are those of Spark"),
        (["--sql", "nowhere.sql"], "help: give the path of a file of SQL"),
        (["--sql", "SELECT region FROM sales"], "give it with --query"),
        (["select region FROM sales"], "give it with --query"),
        (["--query", "SELECT region FROM sales", "--every", "5x"], "at --every: '5x' is not an interval"),
    ],
)  # fmt: skip
def test_errors_of_a_first_run_say_what_to_do(
    arguments: list[str], said: str, source: str, tmp_path: Path
) -> None:
    result = call("run", *arguments, "--source", source, "--checkpoint", tmp_path / "ckpt")
    assert result.exit_code in (1, 2)
    assert result.stdout == ""
    assert said in result.stderr


def test_a_query_has_a_name_in_results(source: str) -> None:
    arguments = ("validate", "--query", QUERY, "--source", source)
    assert call(*arguments).stdout == "the query: valid\n"
    (plan,) = json.loads(call(*arguments, "--format", "json").stdout)["plans"]
    assert plan["plan"] == "the query"


def test_sql_without_a_query_has_no_excerpt_of_a_plan(tmp_path: Path) -> None:
    (tmp_path / "empty.sql").write_text("-- nothing yet\n")
    result = call("validate", tmp_path / "empty.sql")
    assert result.stderr == (
        f"error[SQL_STATEMENTS] at {tmp_path}/empty.sql: the text has no query\n"
        "help: add a SELECT statement\n\n"
    )


def test_several_files_name_an_error_once(source: str, tmp_path: Path) -> None:
    files = tmp_path / "a.sql", tmp_path / "b.sql"
    for file in files:
        file.write_text("SELECT x FROM sales")
    errors = call("validate", *files, "--source", source).stderr.splitlines()[::5]
    assert len(errors) == len(files)
    for error, file in zip(errors, files, strict=True):
        assert error.startswith(f"error[SQL_COLUMN_UNKNOWN] at {file}:1:8: ")


def test_validate_checks_the_views_of_a_folder(source: str, tmp_path: Path) -> None:
    (tmp_path / "views" / "below").mkdir(parents=True)
    first, second = tmp_path / "views" / "a.sql", tmp_path / "views" / "below" / "b.sql"
    first.write_text(f"CREATE VIEW totals AS {QUERY};")
    second.write_text("CREATE VIEW best AS SELECT max(total) AS total FROM totals;")
    arguments = ("validate", "--sql", tmp_path / "views", "--source", source)
    assert call(*arguments).stdout == f"{first}: valid\n{second}: valid\n"
    second.write_text(
        "CREATE VIEW best AS SELECT first_value(total) OVER (PARTITION BY total ROWS 1 PRECEDING) FROM totals;"
    )
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (1, f"{tmp_path}/views: refused (1 error)\n")
    assert f"error[WINDOW_FUNCTION_NOT_SUPPORTED] at {second}:1:" in result.stderr


def test_a_view_with_the_name_of_its_source_is_told_apart(source: str, tmp_path: Path) -> None:
    (tmp_path / "views.sql").write_text(
        "CREATE VIEW a AS SELECT 1; CREATE VIEW sales AS SELECT region FROM sales"
    )
    result = call("explain", "--sql", tmp_path / "views.sql", "--source", source)
    assert "help: if a source has the name sales, give the view another name" in result.stderr


def test_an_option_of_the_api_is_named_as_the_command_line_has_it(source: str) -> None:
    result = call("explain", "--query", QUERY, "--source", source, "--refresh", "often")
    assert result.stderr.startswith("error[OPTION_INVALID] at --refresh: ")


@pytest.mark.parametrize(
    ("arguments", "help"),
    [
        (["validate", "-"], "give it with --sql -"),
        (["explain", "-"], "give it with --sql -"),
        (["convert", "-", "plan.json"], "write its plan with substrait-agg plan --sql -"),
    ],
)
def test_sql_in_place_of_a_plan_says_which_option_takes_it(arguments: list[str], help: str) -> None:
    result = call(*arguments, stdin="-- all regions\nSELECT region FROM sales")
    assert result.exit_code == 2
    assert result.stderr == (
        f"error[FILE_NOT_READABLE] at -: this is SQL text, not a plan\nhelp: {help}\n"
    )
