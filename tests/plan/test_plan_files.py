"""Plans that name files: how their tables are called, and what checks and explanations say of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

import substrait_agg as sa
from substrait_agg.bind.rewrite import table_reads
from tests.handmade import of_files


def tables(plan: str) -> list[str]:
    return [".".join(read.table) for read in table_reads(sa.load(plan).bind().root)]


@pytest.mark.parametrize(
    ("reads", "names"),
    [
        ([["file:///data/x.parquet"]], ["x.parquet"]),
        ([["/data/sales/"]], ["sales"]),
        ([["file:///data/my%20sales"]], ["my sales"]),
        ([["/data/sales/1.parquet", "/data/sales/2.parquet"]], ["sales"]),
        ([["/a/x"], ["file:///b/x"], ["file:///a/x"]], ["a/x", "b/x", "a/x"]),
        ([["/x"], ["/a/x"]], ["/x", "a/x"]),
        ([["/d/1", "/d/2"], ["/d/1", "/d/3"], ["/d"]], ["d", "1", "d 2"]),
    ],
)
def test_a_table_of_files_has_the_name_of_its_file_or_folder(
    reads: list[list[str]], names: list[str]
) -> None:
    assert tables(of_files(*reads)) == names


def test_a_named_table_keeps_its_name() -> None:
    plan = json.loads(of_files(["/a/t"], ["/b/u"]))
    united = plan["relations"][0]["root"]["input"]["set"]
    united["inputs"][1]["read"].pop("localFiles")
    united["inputs"][1]["read"]["namedTable"] = {"names": ["t"]}
    assert tables(json.dumps(plan)) == ["a/t", "t"]


@pytest.mark.parametrize("mode", ["lenient", "strict"])
def test_such_a_plan_is_valid_and_needs_a_source_to_run(mode: Any) -> None:
    report = sa.validate(of_files(["file:///data/x.parquet"]), mode)
    assert report.ok
    (found,) = report.problems
    assert (found.code, found.level) == ("FILES_NEED_SOURCE", "info")
    assert "x.parquet" in found.message
    assert "--source x.parquet=SPEC" in found.help
    assert "--allow-files" in found.help
    assert "table x.parquet" in sa.explain(of_files(["file:///data/x.parquet"]))


def test_a_read_of_no_files_is_refused() -> None:
    found = [p for p in sa.validate(of_files([])).problems if p.level == "error"]
    assert [(p.code, p.path.rpartition(".")[2]) for p in found] == [
        ("FIELD_MISSING", "local_files")
    ]


def test_the_explanation_takes_a_source_by_the_path_of_the_file() -> None:
    plan = of_files(["file:///data/x.parquet"])
    for name in ("file:///data/x.parquet", "/data/x.parquet", "x.parquet"):
        text = sa.explain(plan, sources={name: "parquet:other?op=kind"})
        assert "assumed" not in text, name
