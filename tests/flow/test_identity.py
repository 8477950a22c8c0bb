"""Measures keep their fingerprint whatever else a plan computes, and lose it as soon as they compute something else."""

from __future__ import annotations

from typing import Any

from substrait_agg.flow import lower
from substrait_agg.flow.identity import identities
from substrait_agg.plan.types import Type
from tests.bind.build import aggregate, at, bound, measure, read

I64 = Type("i64", nullable=True)
COLUMNS = {"a": I64, "b": I64, "c": I64}
OTHER_ORDER = {"c": I64, "z": I64, "a": I64, "b": I64}


def prints(columns: dict[str, Type], key: str, *summed: str, **more: Any) -> tuple[str, ...]:
    """Fingerprints of sums per key."""
    place = {name: at(i) for i, name in enumerate(columns)}
    measures = tuple(measure("sum", place[name], output=I64) for name in summed)
    source = read(columns, **more)
    root = aggregate(source, (place[key],), measures)
    flow = lower(bound(root, "k", *(f"s{i}" for i in range(len(summed)))))
    return identities(flow)[-1].measures


def test_other_columns_and_measures_do_not_matter() -> None:
    """Columns are known by name: added, dropped and reordered ones leave a measure what it is."""
    first = prints(COLUMNS, "a", "b", "c")
    assert prints(COLUMNS, "a", "c", "b") == first[::-1]
    assert prints(COLUMNS, "a", "b") == first[:1]
    assert prints(OTHER_ORDER, "a", "b", "c") == first
    assert prints(OTHER_ORDER, "a", "z", "b")[1] == first[0]


def test_what_a_measure_computes_matters() -> None:
    """Its argument, the keys, the table."""
    first = prints(COLUMNS, "a", "b")[0]
    others = [
        prints(COLUMNS, "a", "c")[0],
        prints(COLUMNS, "c", "b")[0],
        prints(COLUMNS, "a", "b", table=("u",))[0],
        prints({**COLUMNS, "b": Type("i32", nullable=True)}, "a", "b")[0],
    ]
    assert len({first, *others}) == 1 + len(others)
