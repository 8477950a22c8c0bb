"""view and changes: formats, files and streams, over a view that the test makes up."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import substrait_agg
from substrait_agg.errors import StateRefused
from substrait_agg_cli.main import main


class FakeView:
    """Two rows at version 7; one change in each of two versions."""

    version = 7

    def to_arrow(self, version: int | None = None) -> Any:
        if version not in (None, 6, 7):
            raise StateRefused("VERSION_UNKNOWN", f"there is no version {version}")
        return pa.table({"k": ["b", "a"], "n": [version or 7, 1]})

    def quarantined(self, version: int | None = None) -> Any:
        return pa.table({"k": ["c"], "x": [version or 7], "__weight": [-2]})

    def changes(self, since: int | None = None, until: int | None = None) -> Any:
        rows = [r for r in ((6, -1), (7, 1)) if (since or 0) < r[0] <= (until or 7)]
        return pa.table(
            {
                "n": pa.array([1 for _ in rows], pa.int64()),
                "__version": pa.array([r[0] for r in rows], pa.int64()),
                "__weight": pa.array([r[1] for r in rows], pa.int64()),
            }
        )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the command accepts as a checkpoint."""
    monkeypatch.setattr(substrait_agg, "open_view", lambda _folder, _name=None: FakeView())
    checkpoint = tmp_path / "ckpt"
    checkpoint.mkdir()
    return checkpoint


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("table", "k | n\n--+--\nb | 7\na | 1\n(2 rows)\n"),
        ("csv", "k,n\nb,7\na,1\n"),
        ("json", '{"k":"b","n":7}\n{"k":"a","n":1}\n'),
    ],
)
def test_the_view_in_its_order_in_every_text_format(format: str, text: str, folder: Path) -> None:
    result = call("view", folder, "--format", format)
    assert (result.exit_code, result.stdout, result.stderr) == (0, text, "")
    to_file = call("view", folder, "--format", format, "--to", folder.parent / "out")
    assert (to_file.exit_code, to_file.stdout) == (0, "")
    assert (folder.parent / "out").read_text() == text


def test_table_is_the_default_and_the_suffix_of_the_file_decides_else(folder: Path) -> None:
    assert call("view", folder).stdout.startswith("k | n\n")
    call("view", folder, "--to", folder.parent / "v.csv")
    assert (folder.parent / "v.csv").read_text().startswith("k,n\n")
    call("view", folder, "--to", folder.parent / "v.parquet")
    assert pq.read_table(folder.parent / "v.parquet").to_pydict() == {"k": ["b", "a"], "n": [7, 1]}


def test_parquet_goes_to_a_pipe_too(folder: Path) -> None:
    result = call("view", folder, "--format", "parquet", "--version", 6)
    table = pq.read_table(io.BytesIO(result.stdout_bytes))
    assert table.column("n").to_pylist() == [6, 1]
    assert table.schema.metadata[b"substrait_agg.version"] == b"6"


def test_an_older_version_can_be_asked_for(folder: Path) -> None:
    assert call("view", folder, "--version", 6, "--format", "csv").stdout == "k,n\nb,6\na,1\n"
    unknown = call("view", folder, "--version", 99)
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert unknown.stderr == "error[VERSION_UNKNOWN]: there is no version 99\n"


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("table", "k | x | __weight\n--+---+---------\nc | 7 |       -2\n(1 row)\n"),
        ("csv", "k,x,__weight\nc,7,-2\n"),
        ("json", '{"k":"c","x":7,"__weight":-2}\n'),
    ],
)
def test_rows_in_quarantine_are_listed_instead_of_the_view(
    format: str, text: str, folder: Path
) -> None:
    result = call("view", folder, "--quarantined", "--format", format)
    assert (result.exit_code, result.stdout, result.stderr) == (0, text, "")


def test_rows_in_quarantine_go_to_parquet_too_and_at_a_version(folder: Path) -> None:
    call("view", folder, "--quarantined", "--version", 6, "--to", folder.parent / "q.parquet")
    found = pq.read_table(folder.parent / "q.parquet").to_pydict()
    assert found == {"k": ["c"], "x": [6], "__weight": [-2]}


@pytest.mark.parametrize(
    "options", [("--format", "parquet", "--to", "-"), ("--to", "changes.parquet")]
)
def test_changes_go_to_parquet_too(
    options: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    result = call("changes", folder, "--since", 6, *options)
    content = result.stdout_bytes or (folder.parent / "changes.parquet").read_bytes()
    table = pq.read_table(io.BytesIO(content))
    assert table.to_pydict() == {"n": [1], "__version": [7], "__weight": [1]}
    assert table.schema.metadata[b"substrait_agg.version"] == b"7"


def test_the_version_in_a_file_is_that_of_its_rows(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may commit a version between the reads of its number and of its rows."""
    versions = iter((6, 7))
    monkeypatch.setattr(FakeView, "version", property(lambda _view: next(versions)))
    call("view", folder, "--to", folder.parent / "v.parquet")
    table = pq.read_table(folder.parent / "v.parquet")
    assert table.column("n").to_pylist() == [6, 1]
    assert table.schema.metadata[b"substrait_agg.version"] == b"6"


def test_a_version_below_zero_is_a_wrong_call(folder: Path) -> None:
    for option in ("view", "--version"), ("changes", "--since"), ("changes", "--until"):
        result = call(option[0], folder, option[1], -1)
        assert (result.exit_code, result.stdout) == (2, ""), option
        assert result.stderr.startswith("error[USAGE]: "), option


def test_changes_are_json_lines_within_the_bounds(folder: Path) -> None:
    lines = call("changes", folder).stdout.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"version": 6, "weight": -1, "row": {"n": 1}},
        {"version": 7, "weight": 1, "row": {"n": 1}},
    ]
    assert call("changes", folder, "--since", 6).stdout.splitlines() == lines[1:]
    backward = call("changes", folder, "--since", 7, "--until", 6)
    assert (backward.exit_code, backward.stdout) == (2, "")
    assert "help: write --since 6 --until 7" in backward.stderr
    assert call("changes", folder, "--until", 6).stdout.splitlines() == lines[:1]


def test_changes_in_csv_have_version_and_weight_columns(folder: Path) -> None:
    text = call("changes", folder, "--format", "csv").stdout
    assert text == "n,__version,__weight\n1,6,-1\n1,7,1\n"
    assert call("changes", folder, "--to", folder.parent / "all.CSV").stdout == ""
    assert (folder.parent / "all.CSV").read_text() == text


def test_changes_as_events_say_what_became_of_a_row(folder: Path) -> None:
    """The view does not show the key, so a row that goes and one that comes are two events."""
    lines = call("changes", folder, "--format", "debezium").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    assert [(e["op"], e["before"], e["after"]) for e in events] == [
        ("d", {"n": 1}, None),
        ("c", None, {"n": 1}),
    ]
    feed = call("changes", folder, "--format", "spark-cdc").stdout.splitlines()
    found = [json.loads(line) for line in feed]
    assert [(r["_change_type"], r["n"], r["_commit_version"]) for r in found] == [
        ("delete", 1, 6),
        ("insert", 1, 7),
    ]


@pytest.mark.parametrize("command", ["view", "changes"])
def test_what_is_not_a_folder_is_a_wrong_call(command: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    missing, file = call(command, tmp_path / "no"), call(command, tmp_path / "file")
    assert (missing.exit_code, file.exit_code) == (2, 2)
    assert missing.stderr.startswith("error[FILE_NOT_FOUND]")
    assert file.stderr.startswith("error[NOT_A_FOLDER]")


@pytest.mark.parametrize("command", ["view", "changes"])
def test_a_folder_that_is_no_checkpoint_is_refused(command: str, tmp_path: Path) -> None:
    """The real `open_view` refuses a folder that is no checkpoint."""
    result = call(command, tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error[NOT_A_CHECKPOINT]")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["view", "changes"])
def test_a_file_in_the_checkpoint_is_refused(command: str, folder: Path) -> None:
    """It could be one of the files of the checkpoint."""
    (folder / "plan.json").write_text("{}")
    (folder.parent / "link").symlink_to(folder)
    for file in (folder / "plan.json", folder.parent / "link" / "new.csv"):
        result = call(command, folder, "--to", file)
        assert result.exit_code == 2
        assert result.stderr.startswith("error[OPTION_CONFLICT] at --to")
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("plan.json", "{}")]


def test_a_file_that_cannot_be_written_is_an_error_line(folder: Path) -> None:
    (folder.parent / "file").write_text("")
    result = call("view", folder, "--to", folder.parent / "file" / "below")
    assert result.exit_code == 1
    assert result.stderr.startswith("error[FILE_NOT_USABLE] at ")
