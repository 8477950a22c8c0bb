"""Deep verification: a version is what its sources give when all rows are computed at once, and
damage with correct checksums is found in every kind of operator.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import substrait_agg as sa
from substrait_agg.bind.bound import BoundPlan, BoundSetOperation
from substrait_agg.bind.joins.normal_form import normal_form
from substrait_agg.bind.joins.single_rows import joins_without_key
from substrait_agg.bind.rewrite import inputs_of
from substrait_agg.commit.documents.file_names import snapshot_name
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.flow_document import flow_text, parse_flow
from substrait_agg.commit.documents.plan_document import document_bytes
from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.flow.graph.set_operation import SET_OUTPUTS
from substrait_agg.flow.passes.lower import lower
from substrait_agg.functions.numbers.stored_digits import FIXED, digits_at
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.plan.model import SetOperationKind
from substrait_agg.required import require
from substrait_agg.state.run import RunFile, RunWriter, open_pages
from substrait_agg.tools.checks.rows import compare_rows
from substrait_agg.tools.verify.recomputed import state_pairs
from substrait_agg_cli.main import main
from tests.bind.bound_relations import WIDTHS, RandomRelations, count, read
from tests.bind.naive import Bag
from tests.joins.local_flow import LocalFlow
from tests.joins.test_random_plans import after_batch, delta
from tests.local.run import run
from tests.sampling import sample, seeds

pytestmark = pytest.mark.usefixtures("spark")

PLANS = 20
"""Plans of a block."""

Rows = list[tuple[Any, ...]]
ORDERS: list[Rows] = [
    [(1, "ada", 10, 1), (2, "ada", 20, 1), (3, "bo", 20, 1), (4, "cy", 5, 1), (5, None, 7, 1)],
    [(2, "ada", 20, -1), (6, "bo", 20, 1), (6, "bo", 20, 1), (7, "di", 30, 1)],
]
CUSTOMERS: list[Rows] = [
    [("ada", "Rome", 1), ("bo", "Oslo", 1), ("di", "Oslo", 1)],
    [("bo", "Oslo", -1), ("bo", "Bern", 1), ("eve", "Bern", 1)],
]
JOIN = "SELECT o.id, o.amount, c.city FROM orders o JOIN customers c ON o.customer = c.customer"
LEFT = JOIN.replace("JOIN", "LEFT JOIN")
OVER_JOIN = (
    "SELECT c.city, count(*) AS n, sum(o.amount) AS s, avg(o.amount) AS a, min(o.id) AS low, "
    "count(DISTINCT o.amount) AS d, median(o.amount) AS m, stddev(o.amount) AS v FROM orders o JOIN customers c ON o.customer = c.customer GROUP BY c.city"
)
STACKED = (
    "SELECT n, count(*) AS c, max(s) AS m, max(high) AS h FROM (SELECT customer, count(*) AS n, sum(amount) AS s, "
    "max(amount) AS high FROM orders GROUP BY customer) AS x GROUP BY n"
)
TOP = "SELECT id, customer, amount FROM orders ORDER BY amount DESC, id LIMIT 3"
EXISTS = "SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM customers c WHERE c.customer = o.customer)"
CHANGES: dict[str, Callable[[int], int]] = {"hash": lambda h: h - 1, "weight": lambda w: -w}
WINDOW = (
    "SELECT id, customer, sum(amount) OVER (PARTITION BY customer ORDER BY id) AS s FROM orders"
)
DISTINCT = "SELECT DISTINCT customer FROM orders"
QUERIES = {
    "join": JOIN, "left": LEFT, "over join": OVER_JOIN, "stacked": STACKED, "top": TOP,
    "exists": EXISTS, "window": WINDOW, "distinct": DISTINCT,
    "full": JOIN.replace("JOIN", "FULL JOIN"),
    "over left": OVER_JOIN.replace("JOIN", "LEFT JOIN"),
    "anti": EXISTS.replace("WHERE EXISTS", "WHERE NOT EXISTS"),
}  # fmt: skip


def write_tables(folder: Path, *, static: bool = False) -> dict[str, str]:
    """Write both tables; return the sources. With `static` the table of customers is static."""
    sources = {}
    for name, columns, batches in (
        ("orders", ["id", "customer", "amount", "w"], ORDERS),
        ("customers", ["customer", "city", "w"], CUSTOMERS),
    ):
        place = folder / name
        place.mkdir()
        fixed = static and name == "customers"
        for number, rows in enumerate(batches[:1] if fixed else batches):
            values = [list(column) for column in zip(*rows, strict=True)]
            table = pa.table(dict(zip(columns, values, strict=True)))
            pq.write_table(table, place / f"{number}.parquet")
        sources[name] = f"parquet:{place}?{'static=true' if fixed else 'weight=w&batch-files=1'}"
    return sources


def maintained(query: str, folder: Path, *, static: bool = False, **options: str) -> Path:
    """Run a query over both tables; return the checkpoint."""
    sources = write_tables(folder, static=static)
    plan = sa.sql(query, sources)
    read = {name: spec for name, spec in sources.items() if name in query}
    run(plan, read, checkpoint=folder / "ckpt", **options).wait()
    return folder / "ckpt"


def sources_of(folder: Path, query: str, **options: str) -> dict[str, str]:
    """Return the sources of `maintained`, without the limit of a batch."""
    given = {n: f"parquet:{folder / n}?weight=w" for n in ("orders", "customers") if n in query}
    return given | {n: f"parquet:{folder / n}?{o}" for n, o in options.items() if n in query}


def deep(folder: Path, sources: Mapping[str, str] | None = None) -> tuple[list[str], list[str]]:
    """Verify; return the messages of the faults, and those of the notes."""
    found = sa.open_state(folder).verify(deep=True, sources=sources).findings
    faults = [f for f in found if f.code == "DEEP_DIFFERS"]
    notes = [f for f in found if f.code == "DEEP_NOT_CHECKED"]
    assert {f.level for f in notes} <= {"note"}
    return [f.message for f in faults], [f.message for f in notes]


def damage(
    folder: Path,
    operator: int,
    tree: str,
    column: str,
    change: Callable[[Any], Any],
    key: int | None = None,
) -> None:
    """Change a value of a column in every run of a tree, with checksums that are right.

    It is that of the first row, or of the group with a `key`.
    """
    store = Checkpoint(folder)
    snapshot = store.newest_snapshot()
    assert snapshot is not None
    state = snapshot.operators[operator]
    runs = [_damaged(store.state, run_, column, change, key) for run_ in state[tree]]
    trees = {**state.trees, tree: tuple(runs)}
    operators = list(snapshot.operators)
    operators[operator] = OperatorState(trees)
    content = replace(snapshot, operators=tuple(operators)).to_bytes(store.identity)
    (folder / "snapshots" / snapshot_name(snapshot.version)).write_bytes(content)


def _damaged(
    files: FolderFiles,
    file: RunFile,
    column: str,
    change: Callable[[Any], Any],
    key: int | None = None,
) -> RunFile:
    reader, _ = open_pages(files.map(file.name))
    with reader:
        rows = reader.read_all().combine_chunks()
    keys = rows.column("k0").to_pylist() if key is not None else []
    if key is not None and key not in keys:
        return file
    at = keys.index(key) if key is not None else 0
    place = rows.column_names.index(column) if column != FIXED else require(digits_at(rows.schema))
    values = rows.column(place).combine_chunks()
    changed = values.to_pylist()
    if column == FIXED:
        digits = np.frombuffer(changed[at], np.int32).copy()
        after_weight = 2 if rows.column_names[place] == FIXED else 1
        digit = min(after_weight, len(digits) - 1)
        digits[digit] = change(int(digits[digit]))
        changed[at] = digits.tobytes()
    else:
        changed[at] = change(changed[at])
    rows = rows.set_column(place, rows.schema.field(place), pa.array(changed, values.type))
    writer = RunWriter(files, file.name.replace(".", "x.", 1), rows.schema, len(rows))
    writer.write(rows)
    written = writer.close()
    assert written is not None
    return replace(written, low=file.low, high=file.high, span=file.span)


# --- nothing is found ----------------------------------------------------------------------------


@pytest.mark.parametrize("early", ["carry", "refuse"])
@pytest.mark.parametrize("query", sample(QUERIES, "left", "over left", "stacked", "top", "window"))
def test_a_right_state_has_no_fault(query: str, early: str, tmp_path: Path) -> None:
    folder = maintained(QUERIES[query], tmp_path, early_retraction=early)
    verdict = sa.open_state(folder).verify(deep=True, sources=sources_of(tmp_path, QUERIES[query]))
    assert not verdict.findings
    assert verdict.checked["comparisons"]


@pytest.mark.parametrize("query", ["join", "over left"])
def test_a_join_with_a_static_table(query: str, tmp_path: Path) -> None:
    text = QUERIES[query]
    folder = maintained(text, tmp_path, static=True)
    given = sources_of(tmp_path, text, customers="static=true")
    assert deep(folder, given) == ([], [])
    os.utime(tmp_path / "customers" / "0.parquet")
    assert deep(folder, given) == ([], []), "its content is the same"
    damage(folder, 1, "group", "shown", lambda n: n + 1)
    assert deep(folder, given)[0]
    (tmp_path / "customers" / "0.parquet").write_bytes(b"")
    faults, notes = deep(folder, given)
    assert not faults
    assert (
        "the static table customers does not have the rows that the first version read" in notes[0]
    )


def test_views_are_compared_one_by_one(tmp_path: Path) -> None:
    """A view whose tables are not given is noted; the others, also those of upserts, are not affected."""
    sources = write_tables(tmp_path)
    (tmp_path / "prices").mkdir()
    for number, price in enumerate((3, 4)):
        table = pa.table(
            {"item": ["tea", "mug"][: 2 - number], "price": [price, price][: 2 - number]}
        )
        pq.write_table(table, tmp_path / "prices" / f"{number}.parquet")
    sources["prices"] = f"parquet:{tmp_path / 'prices'}?batch-files=1&key=item"
    views = {
        "by_customer": "SELECT customer, sum(amount) AS s FROM orders GROUP BY customer",
        "cities": "SELECT city, count(*) AS n FROM customers GROUP BY city",
        "joined": JOIN,
        "priced": "SELECT count(*) AS n, sum(price) AS s FROM prices",
    }
    plans = {name: sa.sql(text, sources) for name, text in views.items()}
    folder = tmp_path / "ckpt"
    run(plans, sources, checkpoint=folder).wait()
    faults, (note,) = deep(folder, sources)
    assert not faults
    assert note.startswith("the view priced: the table has upserts, whose order is not stored")
    orders = {"orders": sources["orders"]}
    faults, notes = deep(folder, orders)
    assert not faults
    assert [note.partition(":")[0] for note in notes] == [
        f"the view {v}" for v in ("cities", "joined", "priced")
    ]
    assert "--source customers=... is not given" in notes[0]
    document = Checkpoint(folder).document().view_schema("by_customer")
    damage(folder, require(document).operator, "group", "v0", lambda v: v + 1)
    faults, _ = deep(folder, orders)
    assert [fault.partition(" has ")[0] for fault in faults[:2]] == ["the view by_customer"] * 2


# --- damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "operator", "tree", "column"),
    [
        ("join", 0, "rows0", "weight"),
        ("join", 0, "rows0", "v0"),
        ("join", 0, "rows1", "hash"),
        ("join", 1, "group", "shown"),
        ("left", 0, "rows1", "weight"),
        ("exists", 0, "rows1", "weight"),
        ("over join", 1, "group", "fixed"),
        ("over join", 1, "tree0", "p0"),
        ("stacked", 0, "group", "k0"),
        ("stacked", 0, "group", "v1"),
        ("stacked", 0, "tree0", "p0"),
        ("top", 0, "tree0", "p1"),
        ("window", 0, "tree0", "p0"),
        ("distinct", 0, "group", "k0"),
        ("distinct", 0, "group", "fixed"),
    ],
)
def test_damage_with_right_checksums_is_found(
    query: str, operator: int, tree: str, column: str, tmp_path: Path
) -> None:
    """Only --deep finds damage in files with correct checksums."""
    folder = maintained(QUERIES[query], tmp_path)
    change = (lambda _: "x") if column == "k0" else CHANGES.get(column, lambda value: value + 1)
    damage(folder, operator, tree, column, change)
    faults, notes = deep(folder, sources_of(tmp_path, QUERIES[query]))
    assert not notes
    assert any(f"{tree} of operator {operator} (" in fault for fault in faults)


def test_the_differing_rows_of_the_view_are_shown(tmp_path: Path) -> None:
    folder = maintained(LEFT, tmp_path)
    damage(folder, 1, "group", "shown", lambda n: n + 1, key=5)
    faults, _ = deep(folder, sources_of(tmp_path, LEFT))
    assert "the view has 2 times, and should have 1 times: id=5, amount=7, city=NULL" in faults
    damage(folder, 1, "group", "shown", lambda _: 0, key=5)
    faults, _ = deep(folder, sources_of(tmp_path, LEFT))
    assert "the view has 0 times, and should have 1 times: id=5, amount=7, city=NULL" in faults


def test_ten_rows_of_a_view_are_shown(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    sources = {"t": f"parquet:{tmp_path / 't'}"}
    pq.write_table(pa.table({"k": list(range(30)), "x": [1] * 30}), tmp_path / "t" / "0.parquet")
    folder = tmp_path / "ckpt"
    run(
        sa.sql("SELECT k, sum(x) AS s FROM t GROUP BY k", sources), sources, checkpoint=folder
    ).wait()
    for key in range(12):
        damage(folder, 0, "group", "v0", lambda value: value + 1, key=key)
    faults = [fault for fault in deep(folder, sources)[0] if fault.startswith("the view")]
    assert len(faults) == 11
    assert faults[-1] == "the view differs in 24 rows; 10 of them are shown"


# --- what cannot be computed again ---------------------------------------------------------------


def test_tables_that_cannot_be_read_again_are_noted(tmp_path: Path) -> None:
    folder = maintained(STACKED, tmp_path)
    place = tmp_path / "orders"

    def notes(spec: str) -> str:
        faults, noted = deep(folder, {"orders": spec})
        assert not faults
        return "; ".join(noted)

    assert notes(f"parquet:{place}?weight=w") == ""
    assert "--source orders=... is not given" in "".join(deep(folder)[1])
    assert "another location" in notes(f"parquet:{tmp_path}?weight=w")
    assert "another static=" in notes(f"parquet:{place}?static=true&weight=w")
    assert "another location" in notes(f"json:{place}?weight=w")
    assert "other options for changes" in notes(f"parquet:{place}")
    assert "it cannot be computed again" in notes(f"parquet:{place}?weight=absent")
    assert "quarantine" in notes(f"parquet:{place}?weight=w&bad-rows=quarantine")
    with pytest.raises(sa.UsageError) as refused:
        sa.open_state(folder).verify(sources={"orders": f"parquet:{place}"})
    assert refused.value.code == "OPTION_CONFLICT"
    with pytest.raises(sa.InputRefused) as unknown:
        sa.open_state(folder).verify(deep=True, sources={"other": "parquet:x"})
    assert unknown.value.code == "SOURCE_UNKNOWN"
    os.utime(place / "0.parquet", (1, 1))
    assert "0.parquet has been modified" in notes(f"parquet:{place}?weight=w")
    (place / "0.parquet").unlink()
    assert "0.parquet is gone" in notes(f"parquet:{place}?weight=w")


def test_files_that_were_not_read_do_not_count(tmp_path: Path) -> None:
    folder = maintained(STACKED, tmp_path)
    table = pq.read_table(tmp_path / "orders" / "0.parquet")
    pq.write_table(table, tmp_path / "orders" / "2.parquet")
    assert deep(folder, sources_of(tmp_path, STACKED)) == ([], [])


@pytest.mark.parametrize(
    ("query", "options", "reason"),
    [
        ("SELECT day, count(*) AS n FROM visits GROUP BY day", {"watermark": {"visits.day": "max-diff:1d"}}, "--watermark"),
        ("SELECT name, count(*) AS n FROM visits GROUP BY name", {"ttl": "10s:keep"}, "--ttl"),
        ("SELECT first_value(day) AS f FROM visits", {}, "order in which rows arrived"),
        ("SELECT name, count(*) AS n FROM visits GROUP BY name", {"early_retraction": "quarantine"}, "quarantine"),
    ],
)  # fmt: skip
def test_what_depends_on_the_arrival_of_rows_is_noted(
    query: str, options: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    days = [[1, 2, 3], [9, 9, 20], [21, 22, 30]]
    (tmp_path / "visits").mkdir()
    for number, some in enumerate(days):
        dates = pa.array(some, pa.int32()).cast(pa.date32())
        names = ["ab"[d % 2] + str(d) for d in some]
        rows = pa.table({"day": dates, "name": names, "w": [1] * len(some)})
        pq.write_table(rows, tmp_path / "visits" / f"{number}.parquet")
    sources = {"visits": f"parquet:{tmp_path / 'visits'}?batch-files=1&weight=w"}
    run(sa.sql(query, sources), sources, checkpoint=tmp_path / "ckpt", **options).wait()
    faults, notes = deep(tmp_path / "ckpt", sources)
    assert not faults
    assert len(notes) == 1
    assert reason in notes[0]


def test_groups_that_wait_are_noted(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    sources = {"t": f"parquet:{tmp_path / 't'}?batch-files=1"}
    pq.write_table(pa.table({"k": [1, 2]}), tmp_path / "t" / "0.parquet")
    plan = sa.sql("SELECT k, count(*) AS n FROM t GROUP BY k", sources)
    run(plan, sources, checkpoint=tmp_path / "ckpt", emit="end").stop()
    faults, notes = deep(tmp_path / "ckpt", sources)
    assert not faults
    assert "the groups that wait would be emitted" in notes[0]


def test_a_flow_that_cannot_be_read_is_noted(tmp_path: Path) -> None:
    """The other checks go on."""
    folder = maintained(STACKED, tmp_path)
    store = Checkpoint(folder)
    document = replace(store.document(), flow="")
    (folder / "plan.json").write_bytes(document_bytes(document, store.identity))
    faults, notes = deep(folder)
    assert (faults, len(notes)) == ([], 1)


@pytest.mark.parametrize("text", ["", "AAAA", "%", "eJyrBgAA9ACB"])
def test_a_text_that_is_no_flow_is_refused(text: str) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        parse_flow(text)


# --- the command ---------------------------------------------------------------------------------


def test_the_command_shows_the_rows(tmp_path: Path) -> None:
    """The exit status is 1 for a difference, and 0 for notes alone."""
    folder = maintained(STACKED, tmp_path)
    arguments = ["state", "verify", str(folder), "--deep"]
    answer = CliRunner().invoke(main, [*arguments, "--format", "json"])
    assert answer.exit_code == 0, answer.output
    assert [f["message"] for f in json.loads(answer.output)["findings"]] == [
        "the view: the rows of orders cannot be read again: --source orders=... is not given"
    ]
    arguments += ["--source", f"orders=parquet:{tmp_path / 'orders'}?weight=w"]
    answer = CliRunner().invoke(main, [*arguments, "--format", "json"])
    told = json.loads(answer.output)
    assert told["findings"] == []
    assert told["checked"]["comparisons"] > 2
    answer = CliRunner().invoke(main, [*arguments, "--source", "other=parquet:x"])
    assert answer.exit_code == 2
    assert "the checkpoint has no table for the source other; it reads orders" in answer.stderr
    damage(folder, 1, "group", "v0", lambda value: value + 1, key=1)
    answer = CliRunner().invoke(main, arguments)
    assert answer.exit_code == 1
    assert "error[DEEP_DIFFERS]" in answer.output
    assert "the view has 1 times, and should have 0 times: n=" in answer.output


# --- random plans --------------------------------------------------------------------------------


def differing_trees(
    flow: Flow, local: LocalFlow, states: list[OperatorState], tables: dict[str, Bag]
) -> list[str]:
    """Return the trees that differ from those of one batch over all rows."""
    with TemporaryDirectory() as folder:
        whole = LocalFlow(flow, Path(folder))
        whole.batch({name: delta(Bag(), rows, name) for name, rows in tables.items()})
        stored, computed = (FolderFiles(f"{place}/state") for place in (local.folder, folder))
        pairs = state_pairs(
            flow, range(len(flow.operators)), (stored, states), (computed, whole.states)
        )
        return [where for where, now, wanted in pairs if compare_rows(now, wanted, 1)[0]]


@pytest.mark.parametrize("block", seeds(2, 100))
def test_the_state_of_random_plans_does_not_depend_on_the_batches(block: int) -> None:
    """Joins of all kinds, fetches, set operations and counts; the flow is read from its text."""
    compared = 0
    for seed in range(block * PLANS, (block + 1) * PLANS):
        chance = RandomRelations(seed, risky=False)
        root = chance.relation(3)
        if any(True for _ in joins_without_key(normal_form(root))) or not inputs_of(root):
            continue
        names = tuple(f"c{i}" for i in range(len(root.types)))
        flow = lower(
            BoundPlan(root, names, (), "", f"{seed}"),
            weights={(name,): "weighted" for name in WIDTHS},
        )
        assert parse_flow(flow_text(flow)) == flow
        with TemporaryDirectory() as folder:
            local = LocalFlow(flow, Path(folder))
            tables = {name: Bag() for name in WIDTHS}
            for _ in range(3):
                now = chance.tables()
                changes = {name: delta(tables[name], now[name], name) for name in WIDTHS}
                tables = now
                if after_batch(local, root, tables, changes) is None:
                    break
            else:
                assert not differing_trees(flow, local, local.states, tables), f"seed {seed}"
                compared += 1
    assert compared > PLANS // 4


@pytest.mark.parametrize("operation", SET_OUTPUTS)
def test_set_operations(operation: SetOperationKind, tmp_path: Path) -> None:
    """Damage of the counts of two tables and of the counts of the inputs is found."""
    inputs = tuple(count(read(name), 0) for name in "ab")
    root = BoundSetOperation(operation, inputs, inputs[0].types, "set")
    flow = lower(
        BoundPlan(root, ("c0", "c1"), (), "", operation), weights={(n,): "weighted" for n in "ab"}
    )
    local, chance = LocalFlow(flow, tmp_path), RandomRelations(3, risky=False)
    tables = {name: Bag() for name in WIDTHS}
    for _ in range(3):
        now = chance.tables()
        local.batch({name: delta(tables[name], now[name], name) for name in WIDTHS})
        tables = now
    assert not differing_trees(flow, local, local.states, tables)
    files = FolderFiles(f"{tmp_path}/state")
    for operator, state in enumerate(local.states):
        runs = [_damaged(files, file, "fixed", lambda value: value + 3) for file in state["group"]]
        states = list(local.states)
        states[operator] = OperatorState({**state.trees, "group": tuple(runs)})
        assert differing_trees(flow, local, states, tables), operator


MEASURES = (
    "SELECT k, count(*), sum(x), avg(x), min(x), max(x), median(x), mode(x), stddev(x), count(DISTINCT x), "
    "sum(DISTINCT x), bool_or(x > 3), corr(x, k), max_by(k, x) FROM t "
    "GROUP BY GROUPING SETS ((k), ())"
)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, x, sum(x) OVER w AS s, lag(x) OVER w AS p FROM t WINDOW w AS (PARTITION BY k ORDER BY x)",
        "SELECT k, x, rank() OVER w AS r, dense_rank() OVER w AS d FROM t WINDOW w AS (PARTITION BY k ORDER BY x)",
        "SELECT k, x, sum(x) OVER (PARTITION BY k ORDER BY x RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS s FROM t",
        "SELECT k, x FROM t QUALIFY dense_rank() OVER (PARTITION BY k ORDER BY x) <= 2",
        MEASURES,
    ],
)
@pytest.mark.parametrize("weight", ["append_only", "weighted"])
def test_measures_and_window_functions(query: str, weight: Any, tmp_path: Path) -> None:
    """The state of many batches is that of one batch, also where only extremes are kept."""
    schema = pa.schema([("k", pa.int64()), ("x", pa.int64())])
    flow = lower(sa.sql(query, {"t": schema}).bind(), weights={("t",): weight})
    folders = [tmp_path / "many", tmp_path / "one"]
    for folder in folders:
        folder.mkdir()
    many, one = (LocalFlow(flow, folder) for folder in folders)
    rng, parts = random.Random(7), list[list[tuple[int, int, int]]]()
    for _ in range(4):
        rows = [(rng.randrange(3), rng.randrange(9), 1) for _ in range(8)]
        if weight == "weighted" and parts:
            rows += [(k, x, -1) for k, x, w in parts[-1] if w > 0][:3]
        parts.append(rows)
    tables = [
        pa.table([pa.array(c, pa.int64()) for c in zip(*rows, strict=True)], ["k", "x", WEIGHT])
        for rows in parts
    ]
    for table in tables:
        many.batch({"t": table})
    one.batch({"t": pa.concat_tables(tables)})
    stored, computed = (FolderFiles(f"{folder}/state") for folder in folders)
    for where, now, wanted in state_pairs(
        flow, range(len(flow.operators)), (stored, many.states), (computed, one.states)
    ):
        assert not compare_rows(now, wanted, 3)[1], where
