"""Outputs of a run: their content after it, after a crash, and after a crash at the worst moment."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from substrait_agg.changes import Delivery, Sink, check_outputs, parse_output
from substrait_agg.changes.records import Record
from substrait_agg.errors import StateRefused, UsageError
from substrait_agg.spark.inputs.source_identity import source_folders


@dataclass
class FakeView:
    """A counter `n` that goes up by one in every version, except in versions divisible by 3."""

    version: int

    def versions(self) -> tuple[int, ...]:
        return tuple(range(1, self.version + 1))

    def changes(self, since: int | None = None, until: int | None = None) -> Any:
        rows: list[tuple[int, int, int]] = []
        for version in self.versions():
            if (since or 0) < version <= (until or self.version) and version % 3:
                rows += [(version - 1, version, -1), (version, version, 1)]
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        return pa.table(
            {
                name: pa.array(c, pa.int64())
                for name, c in zip(("n", "__version", "__weight"), columns, strict=True)
            }
        )

    def evolutions(self) -> list[Any]:
        return []

    def retractions(self, version: int) -> Any:
        raise NotImplementedError

    def to_arrow(self, version: int | None = None) -> Any:
        return pa.table({"n": pa.array([version or self.version])})


def opened(version: int) -> Any:
    """The view at a version, as `Delivery` takes it."""
    return cast("Any", FakeView(version))


def deliver(tmp_path: Path, output: str | Sink, versions: list[int], **options: Any) -> str:
    """Commit `versions` in one run and return what it wrote to stdout."""
    stdout = io.StringIO()
    delivery = Delivery([output], checkpoint=tmp_path / "ckpt", stdout=stdout, **options)
    with closing(delivery):
        for version in versions:
            delivery.deliver(opened(version))
        delivery.finish(opened(versions[-1]))
    return stdout.getvalue()


def change(version: int, n: int, weight: int) -> dict[str, Any]:
    return {"version": version, "weight": weight, "row": {"n": n}}


def expected_changes(until: int, since: int = 0) -> list[dict[str, Any]]:
    versions = [v for v in range(since + 1, until + 1) if v % 3]
    return [c for v in versions for c in (change(v, v - 1, -1), change(v, v, 1))]


def test_stdout_has_the_changes_of_this_run_only(tmp_path: Path) -> None:
    lines = deliver(tmp_path, "stream-json", [3, 4, 5], since=2).splitlines()
    assert [json.loads(line) for line in lines] == expected_changes(5, since=2)


def test_batch_outputs_show_the_view_once_at_the_end(tmp_path: Path) -> None:
    assert deliver(tmp_path, "batch-csv", [1, 2, 3]) == "n\n3\n"
    assert deliver(tmp_path, f"batch-csv={tmp_path}/v.csv", [4]) == ""
    assert (tmp_path / "v.csv").read_text() == "n\n4\n"
    assert deliver(tmp_path, "batch-table", [7]) == "n\n-\n7\n(1 row)\n"
    assert deliver(tmp_path, "none", [7]) == ""


def test_on_changes_gets_every_version_that_changed(tmp_path: Path) -> None:
    seen: list[tuple[int, list[int]]] = []

    def note(changes: Any, version: int) -> None:
        seen.append((version, changes.column("__weight").to_pylist()))

    deliver(tmp_path, "none", [1, 2, 3, 4], on_changes=note)
    assert seen == [(1, [-1, 1]), (2, [-1, 1]), (4, [-1, 1])]


def test_one_call_catches_up_over_several_versions(tmp_path: Path) -> None:
    """A version whose delivery was lost is delivered before the next one."""
    lines = deliver(tmp_path, "stream-json", [5]).splitlines()
    assert [json.loads(line) for line in lines] == expected_changes(5)


class Killed(BaseException):
    """Ends a run immediately, like a kill."""


def test_on_changes_misses_no_version_that_a_kill_cut_off(tmp_path: Path) -> None:
    """The version in delivery is delivered again, later runs continue after the last delivered version."""
    seen: list[int] = []

    def note(_changes: Any, version: int) -> None:
        if version == 4 and 4 not in seen:
            seen.append(version)
            raise Killed
        seen.append(version)

    with pytest.raises(Killed):
        deliver(tmp_path, "none", [1, 2, 4], on_changes=note, since=0)
    deliver(tmp_path, "none", [5, 7], on_changes=note, since=4)
    assert seen == [1, 2, 4, 4, 5, 7]


def read_json(location: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in location.read_text().splitlines()]


def read_parquet(location: Path) -> list[dict[str, Any]]:
    names = sorted(p for p in location.iterdir() if not p.name.startswith("."))
    rows = [row for name in names for row in pq.read_table(name).to_pylist()]
    return [change(r["__version"], r["n"], r["__weight"]) for r in rows]


def read_events(location: Path) -> list[dict[str, Any]]:
    """Debezium events as the changes they are made of."""
    events = read_json(location)
    sides = [(e, e[s], w) for e in events for s, w in (("before", -1), ("after", 1)) if e[s]]
    return [change(int(e["source"]["sequence"]), row["n"], w) for e, row, w in sides]


KEEPERS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    "stream-json": read_json,
    "debezium-json": read_events,
    "changes-parquet": read_parquet,
}


@pytest.mark.parametrize("kind", KEEPERS)
@pytest.mark.parametrize("moment", ["before the record", "after the record"])
def test_every_version_is_delivered_exactly_once_over_a_kill(
    kind: str, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run writes version 2 and dies around the move of its record; the next run continues up to
    version 5 and delivers each version once.
    """
    location = tmp_path / "out"
    write = Record.write

    def dying(record: Record, version: int | None, size: int = 0) -> None:
        if version == 2 and moment == "before the record":
            raise Killed
        write(record, version, size)
        if version == 2:
            raise Killed

    monkeypatch.setattr(Record, "write", dying)
    with pytest.raises(Killed):
        deliver(tmp_path, f"{kind}={location}", [1, 2])
    monkeypatch.setattr(Record, "write", write)
    deliver(tmp_path, f"{kind}={location}", [5], since=2)
    assert KEEPERS[kind](location) == expected_changes(5)


def test_a_torn_line_of_a_killed_run_is_written_again(tmp_path: Path) -> None:
    location = tmp_path / "out.json"
    deliver(tmp_path, f"stream-json={location}", [1])
    with location.open("a") as file:
        file.write('{"version":2,"wei')
    deliver(tmp_path, f"stream-json={location}", [2])
    assert read_json(location) == expected_changes(2)


@pytest.mark.parametrize("kind", KEEPERS)
def test_a_new_checkpoint_does_not_mix_into_old_output(kind: str, tmp_path: Path) -> None:
    location = tmp_path / "out"
    deliver(tmp_path / "one", f"{kind}={location}", [1])
    with pytest.raises(UsageError) as refused:
        deliver(tmp_path / "two", f"{kind}={location}", [1])
    assert refused.value.code == "OUTPUT_EXISTS"
    assert KEEPERS[kind](location) == expected_changes(1)


@pytest.mark.parametrize("output", ["stream-json", "batch-csv"])
def test_a_pipe_is_written_to_and_stays_a_pipe(output: str, tmp_path: Path) -> None:
    """A pipe such as /dev/stdout is written to, never replaced by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    deliver(tmp_path, f"{output}={pipe}", [1])
    reader.join(timeout=30)
    assert pipe.is_fifo()
    assert read[0].count("1") >= 1


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    deliver(tmp_path, f"batch-csv={tmp_path}/link", [4])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "n\n4\n"


def test_an_output_that_lost_bytes_is_refused(tmp_path: Path) -> None:
    location = tmp_path / "out.json"
    deliver(tmp_path, f"stream-json={location}", [2])
    location.write_bytes(location.read_bytes()[:10])
    with pytest.raises(StateRefused) as refused:
        deliver(tmp_path, f"stream-json={location}", [3])
    assert refused.value.code == "OUTPUT_DAMAGED"


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    location = tmp_path / "out.json"
    deliver(tmp_path, f"stream-json={location}", [1])
    (record,) = (tmp_path / "ckpt" / "outputs").iterdir()
    record.write_text("{")
    with pytest.raises(StateRefused) as refused:
        deliver(tmp_path, f"stream-json={location}", [2])
    assert (refused.value.code, refused.value.path) == ("OUTPUT_RECORD_DAMAGED", str(record))


def test_versions_that_change_nothing_leave_no_file(tmp_path: Path) -> None:
    deliver(tmp_path, f"changes-parquet={tmp_path}/out", [3])
    names = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert names == [f"changes-{v:020d}.parquet" for v in (1, 2)]


def test_the_view_in_parquet_is_one_file_and_names_its_version(tmp_path: Path) -> None:
    deliver(tmp_path, f"view-parquet={tmp_path}/v", [1, 2])
    deliver(tmp_path, f"view-parquet={tmp_path}/v", [4])
    assert [p.name for p in (tmp_path / "v").iterdir()] == ["view.parquet"]
    table = pq.read_table(tmp_path / "v")
    assert table.column("n").to_pylist() == [4]
    assert table.schema.metadata[b"substrait_agg.version"] == b"4"


def test_a_run_without_an_end_keeps_the_view_file_current(tmp_path: Path) -> None:
    delivery = Delivery([f"view-parquet={tmp_path}/v"], checkpoint=tmp_path / "ckpt")
    for version in (1, 2):
        delivery.deliver(opened(version), show=True)
        assert pq.read_table(tmp_path / "v").column("n").to_pylist() == [version]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("xml", "OPTION_INVALID"),
        ("view-parquet", "OPTION_INVALID"),
        ("changes-parquet=-", "OPTION_INVALID"),
        ("none=x", "OPTION_INVALID"),
    ],
)
def test_wrong_outputs_are_refused_before_anything_runs(text: str, code: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_output(text)
    assert refused.value.code == code
    assert refused.value.help


def test_a_colon_for_an_equals_sign_is_pointed_out() -> None:
    """The error for ``KIND:LOCATION`` says to write ``KIND=LOCATION``; only sources have a colon."""
    with pytest.raises(UsageError) as refused:
        parse_output("changes-parquet:out/x")
    assert refused.value.help == "write changes-parquet=out/x"
    with pytest.raises(UsageError) as refused:
        parse_output("parquet:out")
    assert "view-parquet" in refused.value.help


def test_two_outputs_in_one_file_are_refused(tmp_path: Path) -> None:
    outputs = [f"stream-json={tmp_path}/out", f"debezium-json={tmp_path}/sub/../out"]
    with pytest.raises(UsageError) as refused:
        check_outputs(outputs, tmp_path / "ckpt")
    assert refused.value.code == "OPTION_CONFLICT"
    check_outputs([f"stream-json={tmp_path}/out", "stream-json", "batch-table"], tmp_path / "ckpt")


@pytest.mark.parametrize(
    ("output", "refused"),
    [
        ("stream-json=in/out.json", True),
        ("batch-csv=sub/../in/out.csv", True),
        ("view-parquet=in", True),
        ("changes-parquet=in", True),
        ("stream-json=in/_out.json", False),
        ("stream-json=in.json", False),
        ("view-parquet=out", False),
        ("batch-csv", False),
    ],
)
def test_an_output_that_the_run_would_read_is_refused(
    output: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path)
    sources: dict[Any, Any] = {("t",): "json:in", ("x",): "csv:out?pathGlobFilter=*.csv"}
    folders = source_folders(sources)
    assert folders == {tmp_path / "in": "t"}
    with ExitStack() as stack:
        if refused:
            message = "OPTION_CONFLICT.*the files of .* as rows of the table t"
            stack.enter_context(pytest.raises(UsageError, match=message))
        check_outputs([output], tmp_path / "ckpt", tables=folders)
    with pytest.raises(UsageError, match="the files of metrics"):
        check_outputs([], tmp_path / "ckpt", tmp_path / "in" / "m.jsonl", folders)


@pytest.mark.parametrize(
    ("output", "refused"),
    [
        ("stream-json=data/ck/out.json", True),
        ("batch-csv=data/ck/sub/out.csv", True),
        ("view-parquet=data/ck", True),
        ("changes-parquet=data/../data/ck/changes", True),
        ("view-parquet=data", False),
        ("spark=parquet:data/ck/out", True),
        ("spark=delta:data", True),
        ("link/x", True),
        ("view-parquet=data/ck2", False),
        ("stream-json=data/out.json", False),
        ("spark=parquet:s3://data/ck", False),
        ("spark=kafka:data", False),
    ],
)
def test_an_output_in_or_around_the_checkpoint_is_refused(
    output: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "ck").mkdir(parents=True)
    (tmp_path / "link").symlink_to("data/ck")
    metrics = None if "=" in output else output
    outputs = [output] if "=" in output else []
    with ExitStack() as stack:
        if refused:
            match = "OPTION_CONFLICT.*would write to the same folder"
            stack.enter_context(pytest.raises(UsageError, match=match))
        check_outputs(outputs, tmp_path / "data" / "ck", metrics)


def test_metrics_in_the_file_of_an_output_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        check_outputs([f"stream-json={tmp_path}/out"], tmp_path / "ckpt", tmp_path / "out")
    assert refused.value.code == "OPTION_CONFLICT"


def test_a_file_where_a_folder_is_needed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError) as refused:
        Delivery([f"view-parquet={tmp_path}/file"], checkpoint=tmp_path / "ckpt")
    assert refused.value.code == "OUTPUT_NOT_A_FOLDER"
