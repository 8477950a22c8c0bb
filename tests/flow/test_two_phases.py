"""Aggregates in several phases have the rows of one phase after every batch, on the local executor."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from substrait_agg.errors import RunFailed
from substrait_agg.flow.passes.lower import lower
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.model import AggregateRel, FunctionName, MeasureCall, Relation
from substrait_agg.plan.types import BOOL, FP64, I32, I64, STRING, Type, decimal
from tests.bind.build import aggregate, at, bound, call, lit, measure, read
from tests.joins.local_flow import LocalFlow

COUNT = I64.as_nullable(False)
MONEY, WIDE = decimal(12, 2), decimal(38, 2)
AVERAGE = Type("struct", False, children=(COUNT, COUNT))
COLUMNS = {
    "k": I64, "d": I64, "i": I32, "l": I64, "m": MONEY, "x": FP64, "s": STRING,
}  # fmt: skip
MEASURES: list[tuple[str, str, str, Type, Type]] = [
    ("count:any", "functions_aggregate_generic", "s", COUNT, COUNT),
    ("count:", "functions_aggregate_generic", "", COUNT, COUNT),
    ("sum:i32", "functions_arithmetic", "i", I64, I64),
    ("sum0:i64", "functions_arithmetic", "l", COUNT, COUNT),
    ("sum:dec", "functions_arithmetic_decimal", "m", WIDE, WIDE),
    ("min:fp64", "functions_arithmetic", "x", FP64, FP64),
    ("max:i64", "functions_arithmetic", "l", I64, I64),
    ("max:dec", "functions_arithmetic_decimal", "m", MONEY, MONEY),
    ("any_value:any", "functions_aggregate_generic", "s", STRING, STRING),
    ("avg:i32", "functions_arithmetic", "i", AVERAGE, I32),
    ("avg:i64", "functions_arithmetic", "l", AVERAGE, I64),
    ("avg:dec", "functions_arithmetic_decimal", "m",
     Type("struct", False, children=(WIDE.as_nullable(False), COUNT)), WIDE),
    ("product:i32", "functions_arithmetic", "i", COUNT, I32),
]  # fmt: skip
"""Signature, extension, argument, type of the state, type of the result."""


def measures_of(phase: str, first: int = 0, **changes: Any) -> tuple[MeasureCall, ...]:
    """All measures in a phase; those of states read the columns from `first` on."""
    made = []
    for position, (signature, urn, column, state, result) in enumerate(MEASURES):
        name, _, words = signature.partition(":")
        whole = (at(list(COLUMNS).index(column)),) if column else ()
        arguments = whole if phase.startswith("initial") else (at(first + position),)
        made.append(
            measure(
                name, *arguments, output=result if phase.endswith("result") else state,
                phase=phase, function=FunctionName(name, words, urn, signature), **changes,
            )
        )  # fmt: skip
    return tuple(made)


def one_phase(*keys: int) -> AggregateRel:
    return aggregate(read(COLUMNS), tuple(map(at, keys)), measures_of("initial_to_result"))


def fine(**changes: Any) -> AggregateRel:
    """The states of groups by k and d."""
    keys = (at(0), at(1))
    return aggregate(read(COLUMNS), keys, measures_of("initial_to_intermediate", **changes))


def run_of(root: Relation, folder: Path, width: int) -> LocalFlow:
    folder.mkdir()
    names = tuple(f"c{i}" for i in range(width))
    return LocalFlow(lower(bound(root, *names), weights={("t",): "weighted"}), folder)


def draw(chance: random.Random) -> tuple[Any, ...]:
    row = (
        chance.randint(0, 2), chance.randint(0, 3), chance.choice([-2, -1, 1, 2]),
        chance.randint(-(2**58), 2**58), Decimal(chance.randint(-(10**11), 10**11)) / 100,
        chance.uniform(-1, 1), chance.choice("abc"),
    )  # fmt: skip
    return tuple(None if chance.random() < 0.2 else value for value in row)


def table(changed: Counter[tuple[Any, ...]], columns: dict[str, Type]) -> pa.Table:
    rows = list(changed)
    made = {
        name: pa.array([row[i] for row in rows], to_arrow(type_))
        for i, (name, type_) in enumerate(columns.items())
    }
    return pa.table({**made, WEIGHT: pa.array(list(changed.values()), pa.int64())})


def test_two_and_three_phases_equal_one_phase_at_every_version(tmp_path: Path) -> None:
    by_key = aggregate(fine(), (at(0),), measures_of("intermediate_to_result", 2))
    merged = aggregate(fine(), (at(0),), measures_of("intermediate_to_intermediate", 2))
    total = aggregate(merged, (), measures_of("intermediate_to_result", 1))
    width = len(MEASURES)
    runs = {
        "one by k": run_of(one_phase(0), tmp_path / "a", width + 1),
        "two by k": run_of(by_key, tmp_path / "b", width + 1),
        "one": run_of(one_phase(), tmp_path / "c", width),
        "three": run_of(total, tmp_path / "d", width),
    }
    chance = random.Random(7)
    rows: Counter[tuple[Any, ...]] = Counter()
    for version in range(12):
        gone = Counter({row: -n for row, n in rows.items() if chance.random() < 0.5})
        new = Counter(draw(chance) for _ in range(0 if version in (0, 11) else 15))
        if version == 11:
            gone = Counter({row: -n for row, n in rows.items()})
        changed = Counter({row: gone[row] + new[row] for row in {*gone, *new}})
        rows = Counter({row: rows[row] + changed[row] for row in {*rows, *changed}})
        rows = Counter({row: n for row, n in rows.items() if n})
        for run in runs.values():
            run.batch({"t": table(changed, COLUMNS)})
        assert runs["two by k"].view == runs["one by k"].view, f"version {version}"
        assert runs["three"].view == runs["one"].view, f"version {version}"
    assert sum(runs["one by k"].view.values()) == 0


STATES = {"k": I64, "state": AVERAGE.as_nullable()}


def average(*options: Any) -> Relation:
    """The averages of states that a table has."""
    given = measure(
        "avg", at(1), output=I64, phase="intermediate_to_result", options=options,
        function=FunctionName("avg", "i64", "functions_arithmetic", "avg:i64"),
    )  # fmt: skip
    return aggregate(read(STATES), (at(0),), (given,))


def test_states_of_a_table_are_merged_and_retracted(tmp_path: Path) -> None:
    run = run_of(average(), tmp_path / "run", 2)

    def change(*states: tuple[tuple[int, int] | None, int]) -> None:
        values = [None if s is None else {"f0": s[0], "f1": s[1]} for s, _ in states]
        type_ = pa.struct([("f0", pa.int64()), ("f1", pa.int64())])
        run.batch(
            {
                "t": pa.table(
                    {
                        "k": pa.array([1] * len(states), pa.int64()),
                        "state": pa.array(values, type_),
                        WEIGHT: pa.array([weight for _, weight in states], pa.int64()),
                    }
                )
            }
        )

    change(((2**62, 3), 2), ((1, 1), 1), (None, 1))
    assert run.view == Counter({(1, (2**63 + 1) // 7): 1})
    change(((2**62, 3), -2))
    assert run.view == Counter({(1, 1): 1})
    change(((1, 1), -1))
    assert run.view == Counter({(1, None): 1})
    change(((0, 2**62), 1))
    with pytest.raises(RunFailed, match="count more than") as failed:
        change(((0, 2**62), 1))
    assert failed.value.code == "RESULT_OVERFLOW"


def test_a_state_that_its_type_cannot_hold_fails_the_batch(tmp_path: Path) -> None:
    """The sum of one phase fits, because later phases would subtract; the state does not."""
    given = measure(
        "sum", at(1), output=I64, phase="initial_to_intermediate",
        function=FunctionName("sum", "i64", "functions_arithmetic", "sum:i64"),
    )  # fmt: skip
    columns = {"k": I64, "l": I64}
    run = run_of(aggregate(read(columns), (at(0),), (given,)), tmp_path / "run", 2)
    with pytest.raises(RunFailed) as failed:
        run.batch({"t": table(Counter({(1, 2**62): 2}), columns)})
    assert failed.value.code == "RESULT_OVERFLOW"


def test_filters_of_each_phase_choose_rows_and_states(tmp_path: Path) -> None:
    small = call("lt", at(2), lit(1, I32), output=BOOL)
    first = fine(filter=small)
    kept = call("equal", at(1), lit(1, I64), output=BOOL)
    root = aggregate(first, (at(0),), measures_of("intermediate_to_result", 2, filter=kept))
    both = call("and", small, kept, output=BOOL)
    whole = aggregate(read(COLUMNS), (at(0),), measures_of("initial_to_result", filter=both))
    width = len(MEASURES) + 1
    runs = [run_of(root, tmp_path / "a", width), run_of(whole, tmp_path / "b", width)]
    chance = random.Random(3)
    rows = table(Counter(draw(chance) for _ in range(60)), COLUMNS)
    for run in runs:
        run.batch({"t": rows})
    assert runs[0].view == runs[1].view
    assert len(runs[0].view) > 1
