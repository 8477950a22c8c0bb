"""Deep verification: correct states have no fault, and damage with correct checksums is found in
every kind of operator.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
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
from substrait_agg.flow.graph.set_operation import SET_OUTPUTS
from substrait_agg.flow.passes.lower import lower
from substrait_agg.plan.model import SetOperationKind
from substrait_agg.state.run import RunFile, RunWriter, open_pages
from substrait_agg.tools.checks.findings import Finding, FindingCollector
from substrait_agg.tools.deep.check import check_deep
from substrait_agg_cli.main import main
from tests.bind.bound_relations import WIDTHS, RandomRelations, count, read
from tests.bind.naive import Bag
from tests.joins.local_flow import LocalFlow
from tests.joins.test_random_plans import after_batch, delta
from tests.local.run import run
from tests.sampling import seeds

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


def maintained(query: str, folder: Path, **options: str) -> Path:
    """Run a query over both tables; return the checkpoint."""
    sources = {}
    for name, columns, batches in (
        ("orders", ["id", "customer", "amount", "w"], ORDERS),
        ("customers", ["customer", "city", "w"], CUSTOMERS),
    ):
        place = folder / name
        place.mkdir()
        for number, rows in enumerate(batches):
            values = [list(column) for column in zip(*rows, strict=True)]
            table = pa.table(dict(zip(columns, values, strict=True)))
            pq.write_table(table, place / f"{number}.parquet")
        sources[name] = f"parquet:{place}?weight=w&batch-files=1"
    plan = sa.sql(query, sources)
    read = {name: spec for name, spec in sources.items() if name in query}
    run(plan, read, checkpoint=folder / "ckpt", **options).wait()
    return folder / "ckpt"


def deep(folder: Path) -> list[Finding]:
    return list(sa.open_state(folder).verify(deep=True).findings)


def faults(found: Iterable[Finding]) -> list[str]:
    return [f.message for f in found if f.level == "error"]


def damage(
    folder: Path, operator: int, tree: str, column: str, change: Callable[[int], int]
) -> None:
    """Change the first value of a column in the newest run of a tree, with checksums that are right."""
    store = Checkpoint(folder)
    snapshot = store.newest_snapshot()
    assert snapshot is not None
    state = snapshot.operators[operator]
    runs = [_damaged(store.state, run_, column, change) for run_ in state[tree]]
    trees = {**state.trees, tree: tuple(runs)}
    operators = list(snapshot.operators)
    operators[operator] = OperatorState(trees)
    content = replace(snapshot, operators=tuple(operators)).to_bytes(store.identity)
    (folder / "snapshots" / snapshot_name(snapshot.version)).write_bytes(content)


def _damaged(
    files: FolderFiles, file: RunFile, column: str, change: Callable[[int], int]
) -> RunFile:
    reader, _ = open_pages(files.map(file.name))
    with reader:
        rows = reader.read_all().combine_chunks()
    place = rows.column_names.index(column)
    values = rows.column(column).combine_chunks()
    if column == "fixed":
        digits = np.frombuffer(values[0].as_py(), np.int32).copy()
        at = min(2, len(digits) - 2)  # of the first number after the weight
        digits[at] = change(int(digits[at]))
        changed = [digits.tobytes(), *values.to_pylist()[1:]]
    else:
        changed = [change(values[0].as_py()), *values.to_pylist()[1:]]
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


@pytest.mark.parametrize("operation", SET_OUTPUTS)
def test_set_operations(operation: SetOperationKind, tmp_path: Path) -> None:
    """Over counts of two tables; the counts below and the counts of inputs are damaged in turn."""
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


def test_the_command_names_the_operator(tmp_path: Path) -> None:
    """The exit status is 1 for a difference, and 0 for notes alone."""
    folder = maintained(STACKED, tmp_path)
    arguments = ["state", "verify", str(folder), "--deep", "--format", "json"]
    answer = CliRunner().invoke(main, arguments)
    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.output)
    assert told["checked"]["comparisons"] > 2
    assert [f["message"] for f in told["findings"]] == [
        "operator 0 (aggregate): rows of the table orders are not stored"
    ]
    damage(folder, 0, "group", "fixed", lambda value: value + 1)
    answer = CliRunner().invoke(main, arguments)
    assert answer.exit_code == 1
    assert any("operator 0" in f["message"] for f in json.loads(answer.output)["findings"])


def test_a_checkpoint_without_its_flow_is_noted(tmp_path: Path) -> None:
    """Older releases did not store it."""
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
                compared += check_deep(flow, storage, local.states, "x", found)
                assert not faults(found), f"seed {seed}, version {version}"
    assert compared > 2 * PLANS
