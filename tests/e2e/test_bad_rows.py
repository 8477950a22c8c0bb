"""Rows that cannot be read or violate the plan are quarantined: the view is that of the other rows,
and each is listed once.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.errors import SubstraitAggError
from tests.crash.faulty_disk import FaultyDisk, Point, Strike
from tests.e2e.files import age, write_in_order
from tests.e2e.killing import Command
from tests.e2e.plans import Builder, aggregate, column, filtered, literal, read, union_all
from tests.e2e.rows import Bag, bag
from tests.e2e.running import check_versions, maintain
from tests.filesystem import use_filesystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = {"k": "string", "x": "i64", "d": "date!"}
GOOD = ("a,{},2024-01-0{},+I", "b,{},2024-02-0{},+I", ",{},2024-02-0{},insert")
BAD = {
    "ROW_UNREADABLE": ("a,{}x,2024-01-01,+I", "b,1.5,2024-01-01,+I", "a,{},2024-02-30,+I", "c,{}", "c,{},2024-01-01,+I,more", "a,99999999999999999999,2024-01-01,+I"),
    "NULL_IN_REQUIRED_COLUMN": ("b,{},,+I",),
    "OPERATION_UNKNOWN": ("a,{},2024-01-01,upsert", "b,{},2024-01-01,"),
}  # fmt: skip
TASKS = {"spark.substraitAgg.driverBytes": "0"}
"""Settings with which Spark's tasks compute every batch."""


def sums(*tables: str, key: str = "k") -> str:
    """SELECT k, sum(x), count(*), max(d) FROM tables GROUP BY k."""
    build = Builder()
    reads = [read(table, COLUMNS) for table in tables]
    measures = [
        build.measure("sum", (column(1), "i64"), output="i64"),
        build.measure("count", output="i64!"),
        build.measure("max", (column(2), "date!"), output="date"),
    ]
    source = reads[0] if len(reads) == 1 else union_all(*reads)
    return build.plan(aggregate(source, [column(0)], measures), key, "s", "n", "d")


class Stream:
    """CSV files with good and bad rows, and their expected result."""

    def __init__(self, seed: int, files: int) -> None:
        rng = random.Random(seed)
        self.good: list[list[str]] = []
        self.bad: list[list[tuple[str, str]]] = []
        self.texts: list[str] = []
        for number in range(files):
            good, bad, lines = [], [], []
            for i in range(rng.randint(3, 12)):
                value = 100 * number + i
                if rng.random() < 0.4:
                    code = rng.choice(list(BAD))
                    lines.append(rng.choice(BAD[code]).format(value))
                    bad.append((code, lines[-1]))
                else:
                    lines.append(rng.choice(GOOD).format(value, rng.randint(1, 9)))
                    good.append(lines[-1])
            self.good.append(good)
            self.bad.append(bad)
            self.texts.append("\n".join(["k,x,d,op", *lines, ""]))

    def write(self, folder: Path) -> Path:
        folder.mkdir()
        for number, text in enumerate(self.texts):
            path = folder / f"part-{number}.csv"
            path.write_text(text)
            age(path, number)
        return folder

    def view(self, files: int) -> Bag:
        """The view over the good rows of the first files."""
        groups: dict[str | None, list[tuple[int, str]]] = {}
        for row in (row for good in self.good[:files] for row in good):
            key, value, day, _ = row.split(",")
            groups.setdefault(key or None, []).append((int(value), day))
        return Counter(
            (key, sum(v for v, _ in rows), len(rows), _date(max(d for _, d in rows)))
            for key, rows in groups.items()
        )

    def listed(self) -> Counter[tuple[str, str, str]]:
        """File, code and text of every bad row."""
        return Counter(
            (f"part-{number}.csv", code, row)
            for number, bad in enumerate(self.bad)
            for code, row in bad
        )


def _date(text: str) -> Any:
    import datetime as dt

    return dt.date.fromisoformat(text)


def listed(checkpoint: Path | str) -> Counter[tuple[str, str, str]]:
    """File, code and text of the bad rows of a checkpoint."""
    rows = sa.open_view(checkpoint).bad_rows().to_pylist()
    return Counter((Path(r["file"]).name, r["code"], r["row"]) for r in rows)


def codes(checkpoint: Path | str) -> Counter[str]:
    return Counter(r["code"] for r in sa.open_view(checkpoint).bad_rows().to_pylist())


def verified(checkpoint: Path | str) -> bool:
    return not [f for f in sa.open_state(checkpoint).verify().findings if f.level == "error"]


@pytest.mark.parametrize(("seed", "cut", "conf"), [(1, 1, {}), (2, 2, TASKS), (3, 5, {})])
def test_the_view_is_that_of_the_good_rows_at_any_cut(
    spark: SparkSession, tmp_path: Path, seed: int, cut: int, conf: dict[str, str]
) -> None:
    """Bad rows are listed once with file and text, for any batches, on the driver and in tasks."""
    stream = Stream(seed, 5)
    source = f"csv:{stream.write(tmp_path / 'in')}?op=op&bad-rows=quarantine&batch-files={cut}"
    checkpoint = tmp_path / "checkpoint"
    seen: list[Any] = []
    run = sa.run(
        sums("t"), {"t": source}, checkpoint=checkpoint, spark=spark, conf=conf, progress=seen.append
    )  # fmt: skip
    run.wait()
    ends = [0, *range(cut, 5, cut), 5]
    view = sa.open_view(checkpoint)
    assert [bag(view.to_arrow(v)) for v in view.versions()] == [stream.view(e) for e in ends]
    assert listed(checkpoint) == stream.listed()
    bad = [sum(map(len, stream.bad[:end])) for end in ends]
    assert [view.bad_rows(until=v).num_rows for v in view.versions()] == bad
    assert [p.bad_rows for p in seen] == bad
    assert verified(checkpoint)


def test_a_bad_row_fails_the_batch_unless_it_is_set_aside(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A bad row fails the batch, and the same checkpoint continues with bad-rows=quarantine."""
    stream = Stream(4, 3)
    source = f"csv:{stream.write(tmp_path / 'in')}?op=op&batch-files=1"
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(SubstraitAggError):
        sa.run(sums("t"), {"t": source}, checkpoint=checkpoint, spark=spark).wait()
    assert sa.open_view(checkpoint).bad_rows().num_rows == 0
    aside = {"t": f"{source}&bad-rows=quarantine"}
    sa.run(sums("t"), aside, checkpoint=checkpoint, spark=spark).wait()
    assert bag(sa.open_view(checkpoint).to_arrow()) == stream.view(3)
    assert listed(checkpoint) == stream.listed()


@pytest.mark.soak
def test_a_killed_run_lists_bad_rows_once(tmp_path: Path) -> None:
    """Bad rows are listed once after a kill, after a rollback with another run, and after a vacuum."""
    stream = Stream(5, 8)
    source = f"t=csv:{stream.write(tmp_path / 'in')}?op=op&bad-rows=quarantine&batch-files=1"
    (tmp_path / "plan.json").write_text(sums("t"))
    checkpoint = tmp_path / "checkpoint"
    arguments = (
        str(tmp_path / "plan.json"),
        "--source",
        source,
        "--output",
        "none",
        "--master",
        "local[2]",
    )
    command = Command(arguments, checkpoint, tmp_path / "log")
    assert command.kill_after(3, 0.05) < 8
    command.finish()
    assert bag(sa.open_view(checkpoint).to_arrow()) == stream.view(8)
    assert listed(checkpoint) == stream.listed()
    state = sa.open_state(checkpoint)
    state.rollback(4)
    assert sa.open_view(checkpoint).bad_rows().num_rows == sum(map(len, stream.bad[:4]))
    command.finish()
    assert listed(checkpoint) == stream.listed()
    assert verified(checkpoint)


def test_a_run_that_cannot_commit_lists_bad_rows_once(spark: SparkSession, tmp_path: Path) -> None:
    """Bad rows of a batch that was not committed are written again by the next run and listed once,
    also after a rollback.
    """
    stream, checkpoint = Stream(5, 6), tmp_path / "checkpoint"
    source = f"csv:{stream.write(tmp_path / 'in')}?op=op&bad-rows=quarantine&batch-files=1"

    def go_on() -> None:
        maintain(spark, sums("t"), {"t": source}, checkpoint, conf=TASKS)

    point = Point("link", "a snapshot", "Checkpoint.publish")
    faulty = FaultyDisk(tmp_path, Strike(point, 4, "fails before"), own=False)
    with use_filesystem(faulty), pytest.raises(SubstraitAggError, match="CHECKPOINT_NOT_WRITTEN"):
        go_on()
    assert faulty.struck
    go_on()
    assert bag(sa.open_view(checkpoint).to_arrow()) == stream.view(6)
    assert listed(checkpoint) == stream.listed()
    sa.open_state(checkpoint).rollback(4)
    assert sa.open_view(checkpoint).bad_rows().num_rows == sum(map(len, stream.bad[:4]))
    go_on()
    assert listed(checkpoint) == stream.listed()
    assert verified(checkpoint)


def test_a_row_bad_in_one_column_is_left_out_of_every_branch(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two aggregates read other columns of a table; a filter that no row passes reads none. The row is listed once."""
    build = Builder()
    count = build.measure("count", output="i64!")
    table = {"k": "string", "x": "i64", "y": "i64"}
    total = build.measure("sum", (column(1), "i64"), output="i64")
    other = build.measure("sum", (column(2), "i64"), output="i64")
    below = [aggregate(read("t", table), [column(0)], [m, count]) for m in (total, other)]
    top = aggregate(
        union_all(*below), [column(0)], [build.measure("sum", (column(1), "i64"), output="i64")]
    )
    (tmp_path / "a.csv").write_text("k,x,y\na,1,10\na,2,zwei\nb,drei,30\n")
    source = {"t": f"csv:{tmp_path / 'a.csv'}?bad-rows=quarantine"}
    checkpoint = tmp_path / "checkpoint"
    sa.run(build.plan(top, "k", "s"), source, checkpoint=checkpoint, spark=spark).wait()
    assert bag(sa.open_view(checkpoint).to_arrow()) == Counter([("a", 11)])
    assert listed(checkpoint) == Counter(
        [("a.csv", "ROW_UNREADABLE", "a,2,zwei"), ("a.csv", "ROW_UNREADABLE", "b,drei,30")]
    )
    never = filtered(read("t", table), literal("boolean", False))
    plan = build.plan(aggregate(never, [column(0)], [count]), "k", "n")
    sa.run(plan, source, checkpoint=tmp_path / "never", spark=spark).wait()
    assert codes(tmp_path / "never") == Counter()  # the plan reads `k` alone


def test_json_rows(spark: SparkSession, tmp_path: Path) -> None:
    """The listed text is that of the file for a row that cannot be parsed, else the values as JSON."""
    lines = ['{"k": "a", "x": 1, "d": "2024-01-01", "w": 2}', '{"k": "a", "x": "one", "d": "2024-01-01", "w": 1}', '{"k": "a", "x"',
             '{"k": "b", "x": 5, "d": null, "w": 1}', '{"k": "b", "x": 6, "d": "2024-01-01"}']  # fmt: skip
    (tmp_path / "a.json").write_text("\n".join(lines))
    source = {"t": f"json:{tmp_path / 'a.json'}?weight=w&bad-rows=quarantine"}
    checkpoint = tmp_path / "checkpoint"
    sa.run(sums("t"), source, checkpoint=checkpoint, spark=spark).wait()
    assert bag(sa.open_view(checkpoint).to_arrow()) == Counter([("a", 2, 2, _date("2024-01-01"))])
    found = {r["row"]: r for r in sa.open_view(checkpoint).bad_rows().to_pylist()}
    assert (
        found[lines[1]]["reason"]
        == "column x of table t has the value 'one', which is not a valid i64"
    )
    assert found[lines[2]]["code"] == "ROW_UNREADABLE"
    others = {r["code"]: json.loads(t) for t, r in found.items() if t not in lines}
    assert others == {
        "NULL_IN_REQUIRED_COLUMN": {"k": "b", "x": 5, "d": None, "w": 1},
        "WEIGHT_IS_NULL": {"k": "b", "x": 6, "d": "2024-01-01", "w": None},
    }


def test_parquet_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that violate a constraint are listed with their position in the file."""
    build = Builder()
    measures = [
        build.measure("sum", (column(1), "i64"), output="i64"),
        build.measure("count", output="i64!"),
    ]
    plan = build.plan(
        aggregate(read("t", {"k": "string!", "x": "i64"}), [column(0)], measures), "k", "s", "n"
    )
    table = pa.table({"k": ["a", None, "b", "a"], "x": [1, 2, 3, 4], "op": ["+I", "+I", "?", "+I"]})
    write_in_order(tmp_path / "in", [table])
    source = {"t": f"parquet:{tmp_path / 'in'}?op=op&bad-rows=quarantine"}
    for number, conf in enumerate(({}, TASKS)):
        checkpoint = tmp_path / str(number)
        sa.run(plan, source, checkpoint=checkpoint, spark=spark, conf=conf).wait()
        assert bag(sa.open_view(checkpoint).to_arrow()) == Counter([("a", 5, 2)])
        found = [
            (r["position"], r["code"]) for r in sa.open_view(checkpoint).bad_rows().to_pylist()
        ]
        assert found == [("1", "NULL_IN_REQUIRED_COLUMN"), ("2", "OPERATION_UNKNOWN")]


@pytest.mark.parametrize(("form", "text", "row"), [
    ("csv", "k,x\na,1\nb\n", "b"), ("json", '{"k": "a"}\n{"k": \n{}\n', '{"k": '),
])  # fmt: skip
def test_a_count_of_all_rows_leaves_bad_rows_out(
    spark: SparkSession, tmp_path: Path, form: str, text: str, row: str
) -> None:
    """A plan that reads no column leaves out bad rows as well."""
    build = Builder()
    plan = build.plan(
        aggregate(read("t", COLUMNS), [], [build.measure("count", output="i64!")]), "n"
    )
    (tmp_path / f"a.{form}").write_text(text)
    source = {"t": f"{tmp_path / f'a.{form}'}?bad-rows=quarantine"}
    checkpoint = tmp_path / "checkpoint"
    sa.run(plan, source, checkpoint=checkpoint, spark=spark).wait()
    good = len(text.splitlines()) - 1 - (form == "csv")
    assert bag(sa.open_view(checkpoint).to_arrow()) == Counter([(good,)])
    assert listed(checkpoint) == Counter([(f"a.{form}", "ROW_UNREADABLE", row)])


EVENTS: Sequence[tuple[Any, str]] = (
    ({"op": "c", "after": {"k": "a", "x": 1, "d": 19723}}, ""),
    ({"op": "u", "before": {"k": "a", "x": 1, "d": 19723}, "after": {"k": "a", "x": 2, "d": None}}, "NULL_IN_REQUIRED_COLUMN"),
    ({"op": "c", "after": {"k": "b", "x": "many", "d": 19723}}, "ENVELOPE_INVALID"),
    ({"op": "z", "after": {"k": "b", "x": 1, "d": 19723}}, "OPERATION_UNKNOWN"),
    ({"op": "d", "before": None}, "ROW_BEFORE_MISSING"),
    ({"op": "c", "after": {"k": "b", "x": 1, "d": "soon"}}, "ROW_UNREADABLE"),
    ({"op": "c", "after": {"k": "b", "x": 7, "d": "2024-01-02"}}, ""),
)  # fmt: skip


def test_change_events_are_set_aside_whole(spark: SparkSession, tmp_path: Path) -> None:
    """If the new row of an update is bad, the whole event is quarantined and the old row stays."""
    lines = [json.dumps(event) for event, _ in EVENTS]
    text = "\n".join([*lines, "no event", '{"op": "c", "after": {"k": "'])
    (tmp_path / "a.json").write_bytes(text.encode() + b'\xff", "x": 1, "d": 19723}}')
    source = {"t": f"json:{tmp_path / 'a.json'}?cdc=debezium&bad-rows=quarantine"}
    checkpoint = tmp_path / "checkpoint"
    sa.run(sums("t"), source, checkpoint=checkpoint, spark=spark).wait()
    assert bag(sa.open_view(checkpoint).to_arrow()) == Counter(
        [("a", 1, 1, _date("2024-01-01")), ("b", 7, 1, _date("2024-01-02"))]
    )
    wanted = [("a.json", code, line) for line, (_, code) in zip(lines, EVENTS, strict=True) if code]
    replaced = '{"op": "c", "after": {"k": "\ufffd", "x": 1, "d": 19723}}'
    assert listed(checkpoint) == Counter(
        [
            *wanted,
            ("a.json", "ENVELOPE_INVALID", "no event"),
            ("a.json", "TEXT_ENCODING_INVALID", replaced),
        ]
    )


def test_late_rows_and_bad_rows_beside_each_other(spark: SparkSession, tmp_path: Path) -> None:
    """A bad row is not late, and does not move the watermark; several tables stream."""
    build = Builder()
    table = {"k": "string", "d": "date"}
    reads = [read(name, table) for name in ("t", "u")]
    plan = build.plan(
        aggregate(union_all(*reads), [column(1)], [build.measure("count", output="i64!")]), "d", "n"
    )
    texts = {
        "t": ["k,d\na,2024-01-10\nb,2024-13-01\n", "k,d\nlate,2024-01-01\nc\n"],
        "u": ["k,d\nx,2024-01-10\n", "k,d\ny,x\n"],
    }
    for name, files in texts.items():
        (tmp_path / name).mkdir()
        for number, text in enumerate(files):
            (tmp_path / name / f"{number}.csv").write_text(text)
            age(tmp_path / name / f"{number}.csv", number)
    sources = {n: f"csv:{tmp_path / n}?batch-files=1&bad-rows=quarantine" for n in texts}
    seen: list[Any] = []
    run = sa.run(
        plan, sources, checkpoint=tmp_path / "checkpoint", spark=spark, progress=seen.append,
        watermark={"t.d": "max-diff:1d", "u.d": "max-diff:1d"}, outputs=[f"late-parquet={tmp_path / 'late'}"],
    )  # fmt: skip
    run.wait()
    assert (seen[-1].late_rows, seen[-1].bad_rows) == (1, 3)
    assert bag(sa.open_view(tmp_path / "checkpoint").to_arrow()) == Counter(
        [(_date("2024-01-10"), 2)]
    )
    assert sum(t.num_rows for t in sa.open_view(tmp_path / "checkpoint").late().values()) == 1


def test_upserts_with_bad_rows(spark: SparkSession, tmp_path: Path) -> None:
    """An upsert without a key is quarantined; the rows before and after it count."""
    (tmp_path / "a.csv").write_text(
        "k,x,d\na,1,2024-01-01\n,2,2024-01-01\na,drei,2024-01-01\na,4,2024-01-02\n"
    )
    source = {"t": f"csv:{tmp_path / 'a.csv'}?key=k&bad-rows=quarantine"}
    views = maintain(spark, sums("t"), source, tmp_path / "checkpoint")
    check_versions(
        tmp_path / "checkpoint", views, [Counter(), Counter([("a", 4, 1, _date("2024-01-02"))])]
    )
    assert codes(tmp_path / "checkpoint") == Counter(["KEY_IS_NULL", "ROW_UNREADABLE"])
