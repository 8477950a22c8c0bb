"""A run reads the files that a plan names only if the user gives a source, or allows their folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.errors import InputRefused, UsageError
from substrait_agg.plan.files import PlanFile
from substrait_agg.run_options import RunOptions
from substrait_agg.spark.inputs.plan_files import with_plan_files
from substrait_agg.spark.sources.specs import SourceSpec
from tests.handmade import of_files
from tests.local.run import run


def write(file: Path, *values: int) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"a": pa.array(values, pa.int64())}), file)
    return file


def rows(plan: str, folder: Path, sources: dict[str, Any], **options: Any) -> list[int]:
    run(plan, sources, checkpoint=folder / "ckpt", outputs=["none"], **options).wait()
    return sorted(row["a"] for row in sa.open_view(folder / "ckpt").to_arrow().to_pylist())


def refused(plan: str, folder: Path, **options: Any) -> str:
    with pytest.raises(InputRefused) as error:
        rows(plan, folder, {}, **options)
    assert not (folder / "ckpt").exists()
    assert "--source" in error.value.help
    return error.value.code


def spec(allowed: Path, *files: PlanFile) -> SourceSpec:
    class Read:
        table = ("t",)

    read: Any = Read()
    read.files = files
    found = with_plan_files({}, [read], allowed)["t"]
    assert isinstance(found, SourceSpec)
    return found


def test_a_source_is_found_by_name_and_by_path(tmp_path: Path) -> None:
    file, other = write(tmp_path / "x.parquet", 1), write(tmp_path / "other" / "y.parquet", 2)
    plan, source = of_files([file.as_uri()]), f"parquet:{other.parent}"
    for number, name in enumerate(("x.parquet", str(file), file.as_uri())):
        assert rows(plan, tmp_path / str(number), {name: source}) == [2]
    with pytest.raises(InputRefused) as error:
        rows(plan, tmp_path, {"x.parquet": source, str(file): source})
    assert error.value.code == "SOURCE_AMBIGUOUS"


def test_without_a_source_nothing_is_read(tmp_path: Path) -> None:
    file = write(tmp_path / "x.parquet", 1)
    with pytest.raises(InputRefused) as error:
        rows(of_files([str(file)]), tmp_path, {})
    assert error.value.code == "SOURCE_MISSING"
    assert "--source x.parquet=SPEC, or --allow-files DIR" in error.value.help


def test_files_and_folders_below_an_allowed_folder_are_read(tmp_path: Path) -> None:
    data = tmp_path / "data"
    file = write(data / "a" / "x.parquet", 1)
    write(data / "b" / "x.parquet", 2)
    write(data / "b" / "y.parquet", 3)
    (data / "link").symlink_to(data / "b")
    plan = of_files([file.parent.as_uri()], [f"{data}/a/../link"], kind="uriFolder")
    assert rows(plan, tmp_path, {}, allow_files=data) == [1, 2, 3]


def test_a_given_source_replaces_the_allowed_files(tmp_path: Path) -> None:
    file, other = write(tmp_path / "x.parquet", 1), write(tmp_path / "other" / "y.parquet", 2)
    plan, sources = of_files([str(file)]), {"x.parquet": f"parquet:{other.parent}"}
    assert rows(plan, tmp_path, sources, allow_files=tmp_path) == [2]


@pytest.mark.parametrize(
    "path",
    [
        "{out}/secret.parquet", "file://{out}/secret.parquet", "{data}/../out/secret.parquet",
        "{data}/file-link", "{data}/folder-link/secret.parquet", "{data}/folder", "{data}/deep",
        "file:{out}/%73ecret.parquet", "{out}/nothing.parquet", "file://host{data}/x.parquet",
        "s3://bucket/x.parquet", "http://127.0.0.1:9/x.parquet", "{data}-2/x.parquet", "/",
    ],
)  # fmt: skip
def test_nothing_outside_the_folder_is_read(path: str, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    write(out / "secret.parquet", 7)
    write(tmp_path / "data-2" / "x.parquet", 7)
    write(data / "x.parquet", 1)
    (data / "file-link").symlink_to(out / "secret.parquet")
    (data / "folder-link").symlink_to(out)
    (data / "folder").mkdir()
    (data / "folder" / "x.parquet").symlink_to(out / "secret.parquet")
    (data / "deep" / "k=1").mkdir(parents=True)
    (data / "deep" / "k=1" / "more").symlink_to(out)
    plan = of_files([path.format(data=data, out=out)])
    assert refused(plan, tmp_path, allow_files=data) == "FILES_NOT_ALLOWED"


def test_a_file_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    plan = of_files([f"{tmp_path}/x.parquet"])
    assert refused(plan, tmp_path, allow_files=tmp_path) == "SOURCE_NOT_FOUND"


def test_what_no_source_reads_is_refused(tmp_path: Path) -> None:
    file = str(write(tmp_path / "x.parquet", 1))
    comma = str(write(tmp_path / "{a,b}.parquet", 1))
    plans = (
        of_files([file], arrow={}), of_files([file], dwrf={}), of_files([comma]),
        of_files([f"{tmp_path}/*"], kind="uriPathGlob"),
        of_files([file], text={"headerLinesToSkip": 2}),
    )  # fmt: skip
    for plan in plans:
        assert refused(plan, tmp_path, allow_files=tmp_path) == "FILES_NOT_READABLE"


def test_formats_and_options_are_those_of_the_plan(tmp_path: Path) -> None:
    one, two = (str(write(tmp_path / "t" / name, 1)) for name in ("1", "2"))
    assert spec(tmp_path, PlanFile(one, format="orc")).format == "orc"
    several = spec(tmp_path, *(PlanFile(path, format="parquet") for path in (one, two)))
    assert several.location == f"{tmp_path}/t/{{1,2}}"
    options = (("field_delimiter", "|"), ("value_treated_as_null", "\\N"))
    text = spec(tmp_path, PlanFile(one, False, "text", (*options, ("header_lines_to_skip", "0"))))
    assert (text.format, text.location, text.by_position) == ("csv", one, True)
    assert dict(text.options) == {"sep": "|", "nullValue": "\\N", "header": "false"}
    with_header = PlanFile(one, False, "text", (("header_lines_to_skip", "1"),))
    assert not spec(tmp_path, with_header).by_position


def test_the_allowed_folder_must_be_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        RunOptions(checkpoint=tmp_path, allow_files=tmp_path / "none")
    assert error.value.code == "OPTION_INVALID"


def test_plans_of_one_run_cannot_mean_different_files_by_one_name(tmp_path: Path) -> None:
    plans = {name: sa.load(of_files([f"/{name}/x.parquet"])) for name in ("v", "w")}
    with pytest.raises(InputRefused) as error:
        run(plans, {"x.parquet": "parquet:any"}, checkpoint=tmp_path / "ckpt")
    assert error.value.code == "SOURCE_AMBIGUOUS"
