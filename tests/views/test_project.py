"""Projects of Spark Declarative Pipelines: spark-pipeline.yml, and tools of a checkpoint of several views."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

import substrait_agg as sa
from substrait_agg.errors import UsageError
from substrait_agg.scripts.project import read_spec
from substrait_agg_cli.main import main
from substrait_agg_cli.queries import checkpoint_of
from tests.local.run import run
from tests.views import plans
from tests.views.brokerage import PIPELINE, TABLES

SPEC = "name: n\nstorage: file:///tmp/n\nlibraries:\n  - glob: {include: transformations/**}\n"


def project(folder: Path, spec: str = SPEC) -> Path:
    """A project with the example's views."""
    shutil.copytree(PIPELINE, folder / "transformations")
    file = folder / "spark-pipeline.yml"
    file.write_text(spec)
    return file


def called(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.parametrize("named", ["file", "folder"])
def test_a_project_has_the_views_of_its_libraries(
    spark: SparkSession, tmp_path: Path, named: str
) -> None:
    spec = "name: n\nstorage: s3://b/n\nconfiguration:\n  spark.sql.shuffle.partitions: '3'\n"
    file = project(tmp_path, spec + SPEC[SPEC.index("libraries") :])
    (tmp_path / "other.sql").write_text("this is not SQL")
    path = file if named == "file" else tmp_path
    found = sa.sql_views(path, TABLES, spark=spark)
    assert [*found] == [*sa.sql_views(PIPELINE, TABLES, spark=spark)]
    assert found.configuration == {"spark.sql.shuffle.partitions": "3"}
    assert checkpoint_of(str(path)) == "s3://b/n/substrait_agg"


def test_a_field_that_has_no_effect_is_noted_once(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = project(tmp_path, f"{SPEC}database: lake\n")
    assert checkpoint_of(str(file))
    sa.sql_views(file, TABLES, spark=spark)
    noted = [line for line in caplog.messages if "PIPELINE_FIELD_IGNORED" in line]
    assert len(noted) == 1
    assert "database" in noted[0]


def test_a_checkpoint_is_kept_in_local_storage(tmp_path: Path) -> None:
    assert read_spec(project(tmp_path)).checkpoint == "/tmp/n/substrait_agg"


def test_a_glob_may_name_a_file(spark: SparkSession, tmp_path: Path) -> None:
    file = project(tmp_path, SPEC.replace("transformations/**", "transformations/silver/a.sql"))
    (tmp_path / "transformations" / "silver" / "a.sql").write_text(
        "CREATE MATERIALIZED VIEW a AS SELECT broker FROM accounts"
    )
    assert [*sa.sql_views(file, TABLES, spark=spark)] == ["a"]


@pytest.mark.parametrize(
    ("spec", "place", "message"),
    [
        (SPEC + "clusters: []\n", ":5:1", "clusters"),
        (SPEC.replace("name: n\n", ""), ":1:1", "name is missing"),
        (SPEC.replace("name: n\n", "name: 3\n"), ":1:7", "name is not a string"),
        (SPEC + "configuration: {a: 3}\n", ":5:20", "a is not a string"),
        (SPEC + "configuration:\n  spark.sql.ansi.enabled: 'false'\n", ":6:27", "changes the rows"),
        (SPEC.replace("/**", "/**/*.sql"), ":4:21", "does not accept the glob"),
        (SPEC.replace("transformations", "/etc"), ":4:21", "does not accept the glob"),
        (SPEC + "libraries: 3", ":5:12", "libraries is not a list"),
        (SPEC.replace("glob:", "file:"), ":4:5", "no glob"),
        (SPEC.replace("include:", "exclude:"), ":4:11", "no include"),
        ("- a\n", ":1:1", "not a mapping"),
        ("name: [\n", ":2:1", "not YAML"),
        ("", ":1:1", "empty"),
    ],
)  # fmt: skip
def test_what_a_specification_cannot_have_is_refused_with_its_line(
    tmp_path: Path, spec: str, place: str, message: str
) -> None:
    file = project(tmp_path, spec)
    with pytest.raises(UsageError, match=message) as refused:
        sa.sql_views(file, TABLES)
    assert (refused.value.code, refused.value.path) == ("PIPELINE_SPEC_INVALID", f"{file}{place}")


def test_files_that_spark_would_refuse_are_refused(tmp_path: Path) -> None:
    file = project(tmp_path)
    notes = tmp_path / "transformations" / "notes.md"
    notes.touch()
    with pytest.raises(UsageError, match=r"notes\.md") as refused:
        sa.sql_views(file, TABLES)
    assert refused.value.code == "PIPELINE_SPEC_INVALID"


def test_a_project_without_views_is_refused(tmp_path: Path) -> None:
    file = project(tmp_path, SPEC.replace("transformations/**", "nothing/**"))
    with pytest.raises(UsageError) as refused:
        sa.sql_views(file, TABLES)
    assert refused.value.code == "SQL_FOLDER_EMPTY"


def test_two_specifications_in_a_folder_are_refused(tmp_path: Path) -> None:
    project(tmp_path).with_suffix(".yaml").write_text(SPEC)
    result = called("run", "--sql", tmp_path)
    assert result.exit_code == 2
    assert "error[PIPELINE_SPEC_INVALID]" in result.stderr


def test_other_plans_need_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1")
    result = called("run", "--sql", tmp_path / "a.sql")
    assert result.exit_code == 2
    assert "error[OPTION_INVALID] at --checkpoint: no checkpoint is given" in result.stderr


# --- tools ----------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint of several views with a version per batch."""
    plans.write_batches(tmp_path, plans.BATCHES)
    run(
        plans.ALL, plans.sources(tmp_path), checkpoint=tmp_path / "ckpt", partitions=2, outputs=["none"]
    ).wait()  # fmt: skip
    return tmp_path / "ckpt"


def check(checkpoint: Path, batches: int, version: int) -> None:
    for name, want in plans.expected(plans.BATCHES[:batches]).items():
        view = sa.open_view(checkpoint, name)
        assert view.version == version
        assert plans.rows_of(view.to_arrow()) == want, name
    assert sa.open_state(checkpoint).verify().ok


def test_the_state_lists_the_views(checkpoint: Path) -> None:
    listed = json.loads(called("state", "ls", checkpoint, "--format", "json").stdout)
    views = {view["name"]: view for view in listed["views"]}
    assert views.keys() == plans.ALL.keys()
    assert views["by_region"]["columns"] == ["region", "customers", "best"]
    lines = called("state", "ls", checkpoint).stdout.splitlines()
    assert any(line.split(" | ")[0].strip() == "by_region" for line in lines)
    shown = json.loads(
        called("state", "show", checkpoint, "--name", "by_region", "--format", "json").stdout
    )
    number = str(views["by_region"]["operator"])
    by_number = called("state", "show", checkpoint, "--operator", number, "--format", "json")
    assert shown == json.loads(by_number.stdout)
    wrong = called("state", "show", checkpoint, "--name", "nothing")
    assert (wrong.exit_code, "error[VIEW_UNKNOWN]" in wrong.stderr) == (2, True)
    both = called("state", "show", checkpoint, "--name", "by_region", "--operator", "0")
    assert (both.exit_code, "error[OPTION_CONFLICT]" in both.stderr) == (2, True)


def test_a_rollback_rolls_all_views_back_and_a_run_continues(
    checkpoint: Path, tmp_path: Path
) -> None:
    sa.open_state(checkpoint).rollback(2)
    check(checkpoint, batches=2, version=2)
    run(plans.ALL, plans.sources(tmp_path), checkpoint=checkpoint, outputs=["none"]).wait()
    check(checkpoint, batches=4, version=4)


def test_vacuum_keeps_what_the_views_need(checkpoint: Path, tmp_path: Path) -> None:
    state = sa.open_state(checkpoint)
    state.vacuum(keep=1)
    check(checkpoint, batches=4, version=4)
    for name in plans.ALL:
        with pytest.raises(sa.StateRefused) as refused:
            sa.open_view(checkpoint, name).to_arrow(2)
        assert refused.value.code == "VERSION_EXPIRED"


def test_the_views_continue_with_other_partitions(checkpoint: Path, tmp_path: Path) -> None:
    sa.open_state(checkpoint).rescale(8)
    more = {"orders": [(8, "a", 6, 1)], "customers": [("c", "y", -1)]}
    plans.write_batches(tmp_path, [more], first=len(plans.BATCHES))
    run(plans.ALL, plans.sources(tmp_path), checkpoint=checkpoint, outputs=["none"]).wait()
    for name, want in plans.expected([*plans.BATCHES, more]).items():
        assert plans.rows_of(sa.open_view(checkpoint, name).to_arrow()) == want, name
    assert sa.open_state(checkpoint).verify().ok
