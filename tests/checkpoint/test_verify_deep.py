"""Deep verification: correct states have no fault, and damage with correct checksums is found in
every kind of operator.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterable, Iterator
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
from substrait_agg.flow.graph.graph import TableOrigin
from substrait_agg.flow.graph.set_operation import SET_OUTPUTS
from substrait_agg.flow.passes.lower import lower
from substrait_agg.functions.numbers.stored_digits import FIXED, digits_at
from substrait_agg.operator.common.names import WEIGHT, entries_tree
from substrait_agg.plan.model import SetOperationKind
from substrait_agg.required import require
from substrait_agg.state.run import RunFile, RunWriter, open_pages
from substrait_agg.tools.checks.findings import Finding, FindingCollector
from substrait_agg.tools.deep.check import check_deep
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
QUERIES = {
    "join": JOIN, "left": LEFT, "over join": OVER_JOIN, "stacked": STACKED, "top": TOP,
    "exists": EXISTS,
}  # fmt: skip


def maintained(query: str, folder: Path, *, static: bool = False, **options: str) -> Path:
    """Run a query over both tables; return the checkpoint.

    With `static` the table of customers is static.
    """
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
    plan = sa.sql(query, sources)
    read = {name: spec for name, spec in sources.items() if name in query}
    run(plan, read, checkpoint=folder / "ckpt", **options).wait()
    return folder / "ckpt"


def deep(folder: Path) -> list[Finding]:
    return list(sa.open_state(folder).verify(deep=True).findings)


def faults(found: Iterable[Finding]) -> list[str]:
    return [f.message for f in found if f.level == "error"]


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


@pytest.mark.parametrize("early", ["carry", "refuse"])
@pytest.mark.parametrize("query", QUERIES)
def test_a_right_state_has_no_fault(query: str, early: str, tmp_path: Path) -> None:
    found = deep(maintained(QUERIES[query], tmp_path, early_retraction=early))
    assert not faults(found)
    assert {f.code for f in found} <= {"DEEP_NOT_CHECKED"}


@pytest.mark.parametrize(
    ("query", "operator", "tree", "column"),
    [
        ("join", 0, "rows0", "weight"),
        ("join", 0, "rows1", "hash"),
        ("left", 0, "rows1", "weight"),
        ("exists", 0, "rows1", "weight"),
        ("over join", 0, "rows0", "v0"),
        ("over join", 1, "group", "fixed"),
        ("over join", 1, "tree0", "p0"),
        ("stacked", 0, "group", "v1"),
        ("stacked", 0, "group", "fixed"),
        ("stacked", 0, "tree0", "p0"),
        ("top", 0, "tree0", "p1"),
    ],
)
def test_damage_with_right_checksums_is_found(
    query: str, operator: int, tree: str, column: str, tmp_path: Path
) -> None:
    """Only --deep finds damage in files with correct checksums."""
    folder = maintained(QUERIES[query], tmp_path)
    damage(folder, operator, tree, column, CHANGES.get(column, lambda value: value + 1))
    assert sa.open_state(folder).verify().ok
    found = [f for f in deep(folder) if f.level == "error"]
    assert {f.code for f in found} == {"DEEP_DIFFERS"}
    assert all(f.path.startswith("snapshots/") for f in found)


READ_AGAIN = {
    **QUERIES,
    "full": JOIN.replace("JOIN", "FULL JOIN"),
    "over left": OVER_JOIN.replace("JOIN", "LEFT JOIN"),
    "anti": EXISTS.replace("WHERE EXISTS", "WHERE NOT EXISTS"),
}


def sources_of(folder: Path, query: str, **options: str) -> dict[str, str]:
    """Return the sources of `maintained`."""
    given = {n: f"parquet:{folder / n}?weight=w" for n in ("orders", "customers") if n in query}
    return given | {n: f"parquet:{folder / n}?{o}" for n, o in options.items() if n in query}


@pytest.mark.parametrize("early", ["carry", "refuse", "quarantine"])
@pytest.mark.parametrize("query", sample(READ_AGAIN, "left", "over left", "stacked", "top"))
def test_with_the_tables_everything_is_computed_again(
    query: str, early: str, tmp_path: Path
) -> None:
    """With the tables, rows are checked that joins pass on without storing them, because their key
    has a null.
    """
    folder = maintained(READ_AGAIN[query], tmp_path, early_retraction=early)
    found = sa.open_state(folder).verify(deep=True, sources=sources_of(tmp_path, READ_AGAIN[query]))
    assert not found.findings


@pytest.mark.parametrize(
    ("query", "operator", "tree", "column"),
    [
        ("stacked", 0, "group", "k0"),
        ("join", 0, "rows0", "v0"),
        ("over left", 1, "group", "fixed"),
        ("left", 1, "group", "shown"),
    ],
)
def test_damage_below_or_beside_what_is_stored_is_found_with_the_tables(
    query: str, operator: int, tree: str, column: str, tmp_path: Path
) -> None:
    """A wrong row of a table in a join or in a group, and one that the join has not stored."""
    text = READ_AGAIN[query]
    folder = maintained(text, tmp_path)
    change = (lambda _: "x") if column == "k0" else lambda value: value + 1
    damage(folder, operator, tree, column, change)
    verdict = sa.open_state(folder).verify(deep=True, sources=sources_of(tmp_path, text))
    assert any(
        f.code == "DEEP_DIFFERS" and f"operator {operator}" in f.message for f in verdict.findings
    )


def test_a_wrong_row_with_a_null_in_its_key_is_found(tmp_path: Path) -> None:
    """The view has an order without a customer twice; the join does not store it."""
    folder = maintained(LEFT, tmp_path)
    damage(folder, 1, "group", "shown", lambda n: n + 1, key=5)
    verdict = sa.open_state(folder).verify(deep=True, sources=sources_of(tmp_path, LEFT))
    found = [faults(deep(folder)), faults(verdict.findings)]
    wrong = [[m for m in messages if "rows of the operators below" in m] for messages in found]
    assert [len(messages) for messages in wrong] == [0, 1]


@pytest.mark.parametrize("query", ["join", "over join", "left", "over left"])
def test_a_join_with_a_static_table(query: str, tmp_path: Path) -> None:
    """The rows of the other side are not stored; they are read again."""
    text = READ_AGAIN[query]
    folder = maintained(text, tmp_path, static=True)
    assert any("not stored" in f.message for f in deep(folder))
    given = sources_of(tmp_path, text, customers="static=true")
    assert not sa.open_state(folder).verify(deep=True, sources=given).findings
    damage(folder, 1, "group", "shown", lambda n: n + 1)
    verdict = sa.open_state(folder).verify(deep=True, sources=given)
    assert any("operator 1" in message for message in faults(verdict.findings))
    os.utime(tmp_path / "customers" / "0.parquet")
    verdict = sa.open_state(folder).verify(deep=True, sources=given)
    assert any("operator 1" in message for message in faults(verdict.findings)), (
        "its content is the same"
    )
    (tmp_path / "customers" / "0.parquet").write_bytes(b"")
    notes = [f.message for f in sa.open_state(folder).verify(deep=True, sources=given).findings]
    assert any("customers has changed" in note for note in notes)


def test_tables_that_cannot_be_compared_are_noted(tmp_path: Path) -> None:
    folder = maintained(STACKED, tmp_path)
    place = tmp_path / "orders"
    state = sa.open_state(folder)

    def notes(spec: str) -> str:
        verdict = state.verify(deep=True, sources={"orders": spec})
        assert not faults(verdict.findings)
        return "; ".join(f.message for f in verdict.findings)

    assert notes(f"parquet:{place}?weight=w") == ""
    assert "another location" in notes(f"parquet:{tmp_path}?weight=w")
    assert "another static=" in notes(f"parquet:{place}?static=true")
    assert "another location" in notes(f"json:{place}?weight=w")
    assert "cannot be read" in notes(f"parquet:{place}?weight=absent")
    with pytest.raises(sa.UsageError) as refused:
        state.verify(sources={"orders": f"parquet:{place}"})
    assert refused.value.code == "OPTION_CONFLICT"
    os.utime(place / "0.parquet", (1, 1))
    assert "0.parquet has been modified" in notes(f"parquet:{place}?weight=w")
    (place / "0.parquet").unlink()
    assert "0.parquet is gone" in notes(f"parquet:{place}?weight=w")


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
    files = FolderFiles(f"{tmp_path}/state")
    found = FindingCollector()
    check_deep(flow, files, local.states, "x", found)
    assert not faults(found)
    for operator, state in enumerate(local.states):
        runs = [_damaged(files, file, "fixed", lambda value: value + 3) for file in state["group"]]
        states = list(local.states)
        states[operator] = OperatorState({**state.trees, "group": tuple(runs)})
        found = FindingCollector()
        check_deep(flow, files, states, "x", found)
        assert faults(found), operator


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, x, sum(x) OVER w AS s, lag(x) OVER w AS p FROM t WINDOW w AS (PARTITION BY k ORDER BY x)",
        "SELECT k, x, rank() OVER w AS r, dense_rank() OVER w AS d FROM t WINDOW w AS (PARTITION BY k ORDER BY x)",
        "SELECT k, x, sum(x) OVER (PARTITION BY k ORDER BY x RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS s FROM t",
        "SELECT k, x FROM t QUALIFY dense_rank() OVER (PARTITION BY k ORDER BY x) <= 2",
    ],
)
def test_window_functions(query: str, tmp_path: Path) -> None:
    """Values that differ from those of the stored rows are found."""
    schema = pa.schema([("k", pa.int64()), ("x", pa.int64())])
    flow = lower(sa.sql(query, {"t": schema}).bind(), weights={("t",): "weighted"})
    local, rng = LocalFlow(flow, tmp_path), random.Random(7)
    for _ in range(4):
        rows = [(rng.randrange(3), rng.randrange(9), rng.choice((1, 1, 2))) for _ in range(8)]
        columns = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)]
        local.batch({"t": pa.table(columns, names=["k", "x", WEIGHT])})
    files = FolderFiles(f"{tmp_path}/state")
    found = FindingCollector()
    check_deep(flow, files, local.states, "x", found)
    assert not faults(found)
    state = local.states[0]
    name = entries_tree(0)
    entries = [_damaged(files, file, "weight", lambda value: value + 1) for file in state[name]]
    states = [OperatorState({**state.trees, name: tuple(entries)}), *local.states[1:]]
    found = FindingCollector()
    check_deep(flow, files, states, "x", found)
    assert faults(found)


def test_the_command_names_the_operator(tmp_path: Path) -> None:
    """The exit status is 1 for a difference, and 0 for notes alone."""
    folder = maintained(STACKED, tmp_path)
    arguments = ["state", "verify", str(folder), "--deep", "--format", "json"]
    answer = CliRunner().invoke(main, arguments)
    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.output)
    assert told["checked"]["comparisons"] > 2
    assert [f["message"] for f in told["findings"]] == [
        "operator 0 (aggregate): rows of the table orders are not stored; --source orders=... reads them again"
    ]
    source = ["--source", f"orders=parquet:{tmp_path / 'orders'}?weight=w"]
    answer = CliRunner().invoke(main, [*arguments, *source])
    assert json.loads(answer.output)["findings"] == []
    answer = CliRunner().invoke(main, [*arguments, "--source", "other=parquet:x"])
    assert answer.exit_code == 2
    assert "the checkpoint has no table for the source other; it reads orders" in answer.stderr
    damage(folder, 0, "group", "fixed", lambda value: value + 1)
    answer = CliRunner().invoke(main, arguments)
    assert answer.exit_code == 1
    assert any("operator 0" in f["message"] for f in json.loads(answer.output)["findings"])


def test_a_checkpoint_without_its_flow_is_noted(tmp_path: Path) -> None:
    """A checkpoint of an older release, without its flow, gets a note."""
    folder = maintained(STACKED, tmp_path)
    path = folder / "plan.json"
    store = Checkpoint(folder)
    document = replace(store.document(), flow="")
    path.write_bytes(document_bytes(document, store.identity))
    assert [(f.code, f.level) for f in deep(folder)] == [("DEEP_NOT_CHECKED", "note")]


@pytest.mark.parametrize("text", ["", "AAAA", "%", "eJyrBgAA9ACB"])
def test_a_text_that_is_no_flow_is_refused(text: str) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        parse_flow(text)


@pytest.mark.parametrize("block", seeds(2, 100))
def test_random_plans_have_no_fault_at_any_version(block: int) -> None:
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
            for version in range(3):
                now = chance.tables()
                changes = {name: delta(tables[name], now[name], name) for name in WIDTHS}
                tables = now
                if after_batch(local, root, tables, changes) is None:
                    break
                found = FindingCollector()
                storage = FolderFiles(f"{folder}/state")
                reader = BagReader(tables) if seed % 2 else None
                compared += check_deep(flow, storage, local.states, "x", found, reader)
                assert not faults(found), f"seed {seed}, version {version}"
                assert not (reader and list(found)), f"seed {seed}: not all of it is compared"
    assert compared > 2 * PLANS


class BagReader:
    """The rows of tables in memory."""

    def __init__(self, tables: dict[str, Bag]) -> None:
        self._tables = tables

    def rows(self, origin: TableOrigin) -> Iterator[pa.Table]:
        """Yield the columns that are read, and the weight."""
        (name,) = origin.table
        rows = delta(Bag(), self._tables[name], name)
        table = rows.select([*origin.names, WEIGHT])
        yield table.rename_columns([*(f"c{i}" for i in range(len(origin.names))), WEIGHT])


DAILY = "SELECT day, name, count(*) AS n FROM visits GROUP BY day, name"
COUNTED = "SELECT n, count(*) AS c FROM (SELECT name, count(*) AS n FROM visits GROUP BY name) AS x GROUP BY n"


def visits(query: str, folder: Path, **options: Any) -> tuple[Path, dict[str, str]]:
    """Maintain a query over visits by day; return the checkpoint and the sources."""
    days = [[1, 2, 3], [9, 9, 20], [21, 22, 30], [31, 31]]
    (folder / "visits").mkdir()
    for number, some in enumerate(days):
        dates = pa.array(some, pa.int32()).cast(pa.date32())
        rows = pa.table({"day": dates, "name": ["ab"[d % 2] + str(d) for d in some]})
        pq.write_table(rows, folder / "visits" / f"{number}.parquet")
    sources = {"visits": f"parquet:{folder / 'visits'}?batch-files=1"}
    run(sa.sql(query, sources), sources, checkpoint=folder / "ckpt", **options).wait()
    return folder / "ckpt", sources


@pytest.mark.parametrize("ttl", ["10s:keep", "10s:retract"])
def test_operators_above_evicted_groups(ttl: str, tmp_path: Path) -> None:
    """Operators above evicted groups are compared with the rows that are stored of them."""
    ticks = iter(range(10**9))
    folder, sources = visits(COUNTED, tmp_path, ttl=ttl, clock=lambda: next(ticks) * 10**7)
    for given in (None, sources):
        found = sa.open_state(folder).verify(deep=True, sources=given).findings
        assert not faults(found)
        assert not any("operator 1 " in f.message for f in found), "all of it is compared"
    damage(folder, 1, "group", "fixed", lambda value: value + 1)
    assert any("rows of the operators below" in message for message in faults(deep(folder)))


def test_groups_that_are_not_closed(tmp_path: Path) -> None:
    """Groups that the watermark has closed may be missing; those that are stored have all their rows."""
    query = f"SELECT day, sum(n) AS s FROM ({DAILY}) AS x GROUP BY day"
    folder, _ = visits(query, tmp_path, watermark={"visits.day": "max-diff:1d"})
    last = Checkpoint(folder).newest_snapshot()
    assert last is not None
    assert last.operators[1]["closed"]
    found = deep(folder)
    assert not faults(found)
    assert not any("operator 1 " in f.message for f in found)
    damage(folder, 0, "group", "shown", lambda n: n + 1)
    assert any("operator 1 " in message for message in faults(deep(folder)))


def test_complete_groups_that_wait_over_closed_groups(tmp_path: Path) -> None:
    """A group that waits is not closed, but the rows below it are deleted; all others are compared."""
    query = f"SELECT day, sum(n) AS s, max(n) AS m FROM ({DAILY}) AS x GROUP BY day"
    options = {"watermark": {"visits.day": "max-diff:1d"}, "emit": "count:3"}
    folder, _ = visits(query, tmp_path, **options)
    found = deep(folder)
    assert not faults(found)
    assert not any("operator 1 " in f.message for f in found)
    damage(folder, 0, "group", "shown", lambda n: n + 1)
    assert any("operator 1 " in message for message in faults(deep(folder)))


def test_an_empty_group_that_waits(tmp_path: Path) -> None:
    """Its old row is stored until it is retracted; it has no rows to compare it with."""
    (tmp_path / "t").mkdir()
    sources = {"t": f"parquet:{tmp_path / 't'}?weight=w&batch-files=1"}
    for number, weight in enumerate((3, -3)):
        table = pa.table({"k": [1, 2], "w": [weight, 1]})
        pq.write_table(table, tmp_path / "t" / f"{number}.parquet")
        plan = sa.sql("SELECT k, count(*) AS n, max(k) AS m FROM t GROUP BY k", sources)
        started = run(plan, sources, checkpoint=tmp_path / "ckpt", emit="end")
        started.stop() if number else started.wait()
    assert len(sa.open_view(tmp_path / "ckpt").to_arrow()) == 2
    assert not sa.open_state(tmp_path / "ckpt").verify(deep=True, sources=sources).findings
    damage(tmp_path / "ckpt", 0, "group", "fixed", lambda value: value + 1, key=2)
    assert not sa.open_state(tmp_path / "ckpt").verify(deep=True, sources=sources).ok


def test_groups_over_closed_groups_are_noted(tmp_path: Path) -> None:
    """The rows of closed groups are not stored below another operator."""
    query = f"SELECT n, count(*) AS c FROM ({DAILY}) AS x GROUP BY n"
    folder, sources = visits(query, tmp_path, watermark={"visits.day": "max-diff:1d"})
    found = sa.open_state(folder).verify(deep=True, sources=sources).findings
    assert not faults(found)
    notes = [f.message for f in found]
    assert any("operator 1 (aggregate): rows of closed groups are not stored" in n for n in notes)
    assert any("operator 0 (aggregate): late rows have been left out" in n for n in notes)


PLAYS = "SELECT team, session_window AS w, count(*) AS c, max(n) AS m FROM plays GROUP BY team, session_window(t, '20 seconds')"
PER_SESSION = f"SELECT w, count(*) AS teams, sum(c) AS c FROM ({PLAYS}) AS x GROUP BY w"


@pytest.mark.parametrize("watermark", [{}, {"plays.t": "max-diff:30s"}])
@pytest.mark.parametrize("early", ["carry", "refuse", "quarantine"])
@pytest.mark.parametrize("query", [PLAYS, PER_SESSION])
def test_sessions(query: str, early: str, watermark: dict[str, str], tmp_path: Path) -> None:
    """The groups above the sessions are compared with themselves, and with their input where it is stored."""
    batches: list[list[tuple[str | None, int | None, int, int]]] = [
        [("a", 0, 1, 1), ("a", 15, 2, 1), ("b", 3, 1, 1), (None, None, 4, 1)],
        [("a", 0, 1, -1), ("b", 90, 5, 1), ("b", 99, 6, 1)],
        [("a", 80, 2, 1), ("b", 99, 6, -1)],
    ]
    (tmp_path / "plays").mkdir()
    for number, rows in enumerate(batches):
        team, seconds, n, weight = map(list, zip(*rows, strict=True))
        times = pa.array(seconds, pa.timestamp("s")).cast(pa.timestamp("us"))
        table = pa.table({"team": pa.array(team, pa.string()), "t": times, "n": n, "w": weight})
        pq.write_table(table, tmp_path / "plays" / f"{number}.parquet")
    sources = {"plays": f"parquet:{tmp_path / 'plays'}?weight=w&batch-files=1"}
    folder, plan = tmp_path / "ckpt", sa.sql(query, sources)
    options = {"early_retraction": early, "watermark": watermark}
    run(plan, sources, checkpoint=folder, **options).wait()
    for given in (None, sources):
        found = sa.open_state(folder).verify(deep=True, sources=given).findings
        assert {f.code for f in found} == {"DEEP_NOT_CHECKED"}
    if query == PLAYS:
        damage(folder, 1, "group", "v1", lambda _: 99)
        assert any("the values of groups" in message for message in faults(deep(folder)))
