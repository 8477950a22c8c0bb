"""Operators that continue with other measures: the state of one plan converted to that of another,
without Spark.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow.parquet as pq

from substrait_agg.commit.documents.plan_document import OperatorText, PlanDocument
from substrait_agg.commit.documents.snapshot import ChangeFile, Snapshot
from substrait_agg.commit.documents.state_schema import InputSchema, state_schemas
from substrait_agg.commit.evolution.planner import Evolution, evolution
from substrait_agg.commit.evolution.task import MigrationPlan, migrate, state_after
from substrait_agg.commit.hash_ranges import partition_range
from substrait_agg.flow.graph.aggregate import Aggregate
from substrait_agg.flow.graph.graph import Branch, TableOrigin
from substrait_agg.flow.graph.nodes import Flow, FlowView, Node
from substrait_agg.operator.aggregate.operator import GroupOperator
from substrait_agg.operator.common.names import WEIGHT
from tests.operator.measures_columns import COLUMNS, NAMES
from tests.operator.measures_reference import Values, canonical
from tests.operator.measures_world import World
from tests.operator.specs import operator_spec
from tests.operator.tasks import Version

TABLE = TableOrigin(("t",), NAMES, tuple(COLUMNS.values()))


def document(node: Node) -> PlanDocument:
    """The document of a plan that is this operator."""
    reading = replace(node, inputs=(replace(node.inputs[0], branches=(Branch(TABLE, ()),)),))
    flow = Flow((reading,), (FlowView("", 0, (), (), (), ()),), "0" * 64)
    told = tuple(f"{m.kind} {m.path}" for m in node.measures)
    kept = state_schemas(flow)
    prints = tuple(m.print for m in kept[0].measures)
    return PlanDocument(
        "0" * 64, (node.weight,), (), "", (), len(node.key_types), 1,
        early=(node.early,), forget=node.forget, operator_texts=(OperatorText((), (), told, prints),), state_schemas=kept,
        inputs=(InputSchema("t", ()),),
    )  # fmt: skip


def planned(
    world: World, node: Aggregate, *, waiting: int = 0
) -> tuple[Evolution | None, tuple[str, ...]]:
    """The migration of a world to another operator, or the reasons why there is none."""
    now = world.now
    last = Snapshot(now.number, "0" * 64, (now.state,), (), {"quarantined": waiting})
    return evolution(document(world.node), document(node), last)


def evolve(
    world: World, node: Aggregate, partitions: int = 1, *, waiting: int = 0
) -> tuple[str, ...]:
    """Continue a world with another operator; return why this is refused, if it is.

    All shown rows are retracted, and the new rows are inserted in full.
    """
    found, reasons = planned(world, node, waiting=waiting)
    if found is None:
        assert reasons
        return reasons
    (migration,) = found.operators
    assert migration is not None
    sizes = {"page_rows": world.spec.page_rows, "slice_rows": world.spec.slice_rows}
    spec = replace(operator_spec(node), **sizes)  # type: ignore[arg-type]
    number, now = world.now.number + 1, world.now
    done = []
    partitions = 1 if spec.is_global else partitions
    for p in range(partitions):
        low, high = partition_range(p, partitions)
        plan = MigrationPlan(
            checkpoint=str(world.folder),
            operator=0,
            version=number,
            low=low,
            high=high,
            state=now.state.within(low, high),
            spec=spec,
            migration=migration,
            columns=tuple((n, n) for n in spec.output.names),
            final=True,
            retraction_columns=tuple((n, n) for n in world.spec.output.names),
        )
        done.append(migrate(plan))
    state = state_after(now.state, migration, done)
    retracted = _rows(world, [f for m in done for f in m.retracted])
    assert retracted == Counter({row: -weight for row, weight in (+world.log).items()})
    world.log = _rows(world, [f for m in done for f in m.inserted])
    world.node, world.spec = node, spec
    world.operator, world.columns = GroupOperator(spec), plan.columns
    world.now = Version(number, state)
    return ()


def _rows(world: World, files: list[ChangeFile]) -> Counter[Values]:
    rows: Counter[Values] = Counter()
    for file in files:
        table = pq.read_table(world.folder / "changes" / file.name)
        weights = table.column(WEIGHT).to_pylist()
        values = table.drop_columns(["__version", WEIGHT]).columns
        for row, weight in zip(
            zip(*(c.to_pylist() for c in values), strict=True), weights, strict=True
        ):
            rows[canonical(row)] += weight
        if not values:
            rows[()] += sum(weights)
    return rows
