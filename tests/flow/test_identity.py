"""The fingerprint of a measure depends only on its own computation, not on the rest of the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import substrait_agg as sa
from substrait_agg.flow.graph.identity import identities
from substrait_agg.flow.passes.lower import lower
from substrait_agg.plan.model import Expression
from substrait_agg.plan.types import Type
from tests.bind import build
from tests.bind.build import aggregate, at, bound, measure, read
from tests.e2e import plans

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
    """Columns are identified by name, so added, dropped and reordered columns do not change the
    identity of a measure.
    """
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


B = plans.Builder()
TABLE = plans.read("t", {"a": "i64", "b": "i64", "c": "i64"})
Step = Callable[[plans.Json], plans.Json]


def call(name: str, left: plans.Json, right: plans.Json, output: str = "i64") -> plans.Json:
    """A function of two numbers."""
    urn = plans.COMPARISON if output == "bool" else plans.ARITHMETIC
    kind = "any_any" if output == "bool" else "i64_i64"
    return B.call(f"{name}:{kind}", urn, left, right, output=output)


def identity_of(*steps: Step, summed: Sequence[int] = (1,)) -> tuple[str, tuple[str, ...]]:
    """The fingerprints of the rows and of sums of columns by the first one, of a table after some steps."""
    source = TABLE
    for step in steps:
        source = step(source)
    measures = [B.measure("sum", (plans.column(i), "i64"), output="i64") for i in summed]
    root = plans.aggregate(source, [plans.column(0)], measures)
    text = B.plan(root, "k", *(f"s{i}" for i, _ in enumerate(summed)))
    (found,) = identities(lower(sa.load(text.encode()).bind()))
    return found.rows, found.measures


def projected(*expressions: plans.Json) -> Step:
    """A step that gives these, of rows of three columns."""
    return lambda source: plans.projected(source, 3, *expressions)


FIRST, SECOND, THIRD = (plans.column(i) for i in range(3))


def test_a_column_that_only_the_filter_reads_does_not_matter() -> None:
    """Without the measure that read it as well, it is dropped behind the filter: that is another step, and the same rows."""
    condition = call("gt", THIRD, plans.literal("i64", 0), "bool")
    positive = partial(plans.filtered, condition=condition)
    rows, measures = identity_of(positive, summed=(1, 2))
    assert identity_of(positive, summed=(1,)) == (rows, measures[:1])
    assert identity_of(positive, summed=(2, 1)) == (rows, measures[::-1])
    assert identity_of(summed=(1,))[0] != rows


def test_a_projection_that_computes_nothing_does_not_matter() -> None:
    """Producers put one under an aggregate as soon as one of its measures is over an expression."""
    rows, measures = identity_of(summed=(1, 2))
    assert identity_of(projected(FIRST, THIRD, SECOND), summed=(2, 1)) == (rows, measures)
    more = projected(FIRST, SECOND, call("add", SECOND, THIRD))
    wider = identity_of(more, summed=(1, 2))
    assert (wider[0], wider[1][0]) == (rows, measures[0])
    assert identity_of(more, summed=(1,)) == (rows, measures[:1])
    assert wider[1][1] not in measures


def test_an_expression_is_the_same_wherever_it_is_computed() -> None:
    """An expression has the same identity whether a step computes it for two readers or one reader
    contains it.
    """
    one = projected(FIRST, SECOND, call("add", SECOND, THIRD))
    two = projected(FIRST, THIRD, call("multiply", THIRD, SECOND))
    rows, (last,) = identity_of(one, two, summed=(2,))
    assert identity_of(one, two, summed=(1, 2)) == (
        rows,
        (identity_of(one, summed=(2,))[1][0], last),
    )
    product = call("multiply", call("add", SECOND, THIRD), SECOND)
    assert identity_of(projected(FIRST, SECOND, product), summed=(2,)) == (rows, (last,))
    other = call("multiply", call("add", SECOND, THIRD), THIRD)
    assert identity_of(projected(FIRST, SECOND, other), summed=(2,))[1] != (last,)


def test_a_deeply_nested_expression_has_an_identity() -> None:
    nested: Expression = at(1)
    for _ in range(600):
        nested = build.call("add", nested, at(2), output=I64)
    root = aggregate(read(COLUMNS), (at(0),), (measure("sum", nested, output=I64),))
    flow = lower(bound(root, "k", "s"))
    assert len(identities(flow)[-1].measures) == 1
