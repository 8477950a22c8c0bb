"""Plans whose explanations the tests look at: real ones, and ones with names that could mean something to a format."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from substrait_agg.bind import bind
from substrait_agg.explanation import ExplainedPlan, explain_flow, explain_plan
from substrait_agg.flow.passes.lower import lower
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction
from substrait_agg.plan import decode
from substrait_agg.plan.model import FilterRel, ProjectRel, Relation, SetRel, SortField
from substrait_agg.plan.types import BOOL, FP64, I64, STRING
from substrait_agg.problems import Problems
from tests.bind.build import ROOT, aggregate, at, bound, call, lit, measure, read

PLANS = Path(__file__).parents[2] / "plans"

HOSTILE = (
    'a"b', "x]y[", "|pipe|", "#35;", "#quot;", "`tick`", "<b>bold</b>", "</script><script>alert(1)",
    "&amp;", "end", "subgraph", "style a:#x;b", "classDef x:#f;", "%%c", "%%{init:{}}%%", "new\nline",
    "---", "-->", "1. item", "- item", "* star *", "__under__", "_x_", "\u202eabc", "\u2060", "\x00\x1b[31m",
    "é漢字", "click a b", "{{}}", "$$x$$", "\\", "A" * 3000, "~~~", "@{shape: x}", ";", "", ":::view",
    "javascript:alert(1)", "' onload='x", "{", "\ud800",
)  # fmt: skip
"""Names of columns."""


def explained(name: str, early: EarlyRetraction = "carry") -> ExplainedPlan:
    """Of a plan of the repository."""
    problems = Problems()
    made = bind(decode((PLANS / f"{name}.bin").read_bytes(), problems), problems)
    assert made is not None, problems.errors
    return explain_plan(made, early)


def of(root: Relation, *names: str) -> ExplainedPlan:
    """Of a plan made by hand."""
    return explain_flow(lower(bound(root, *names)))


@cache
def samples() -> tuple[tuple[str, ExplainedPlan], ...]:
    """Every plan of the repository that can be run."""
    return tuple(_samples())


def _samples() -> Iterator[tuple[str, ExplainedPlan]]:
    for path in sorted(PLANS.glob("**/*.bin")):
        problems = Problems()
        made = bind(decode(path.read_bytes(), problems), problems)
        if made is not None and not problems.errors:
            name = str(path.relative_to(PLANS)).removesuffix(".bin")
            yield name, explain_plan(made)
            yield f"{name} guarded", explain_plan(made, "quarantine")


def hostile(name: str) -> ExplainedPlan:
    """A plan in which a column, the view and a constant have this name."""
    table = read({name: STRING, "v": I64})
    order = SortField(at(1), "desc_nulls_last", None, "sort")
    measures = (
        measure("min", at(0)),
        measure("sum", at(1), filter=call("equal", at(0), lit(name, STRING))),
        measure("string_agg", at(0), lit(name, STRING), sorts=(order,)),
    )
    return of(aggregate(table, (at(0),), measures), "k", name, name, "d")


def chain(length: int) -> ExplainedPlan:
    """Aggregates over aggregates."""
    root: Relation = read({"a": I64, "b": I64})
    for _ in range(length):
        root = aggregate(
            root, (at(0),), (measure("sum", at(1)), measure("min", at(1))), emit=(0, 1)
        )
    return of(root, "a", "b")


def squares(length: int) -> ExplainedPlan:
    """Projections that each read the one before twice: written out, the last one would have 2^length parts."""
    root: Relation = read({"a": FP64})
    for _ in range(length):
        squared = call("multiply", at(0), at(0), output=FP64)
        root = ProjectRel(root, (squared,), (1,), f"{ROOT}.project")
    return of(root, "a")


def union(width: int) -> ExplainedPlan:
    """Groups in several sets over a union of aggregates and tables, each with a filter."""
    inputs: list[Relation] = []
    for i in range(width):
        table = read({"a": I64, "b": STRING}, table=(f"t{i}",))
        held = FilterRel(table, call("gt", at(0), lit(i, I64), output=BOOL), None, f"{ROOT}.filter")
        inputs.append(held if i % 2 else aggregate(held, (at(0),), (measure("max", at(1)),)))
    made = SetRel(tuple(inputs), None, f"{ROOT}.set")
    sets = ((0, 1), (0,), ())
    return of(aggregate(made, (at(1), at(0)), (measure("count"),), groupings=sets), *"abcg")


def minus(width: int) -> ExplainedPlan:
    """The rows of a table that are in none of `width` others."""
    inputs = [read({"a": I64, "b": STRING}, table=(f"t{i}",)) for i in range(width + 1)]
    return of(SetRel(tuple(inputs), None, f"{ROOT}.set", "minus_primary"), "a", "b")


def wide(columns: int) -> ExplainedPlan:
    """Many keys and measures, with names that are longer when they are escaped."""
    table = read({f'column "{i}" <b>': STRING for i in range(columns)})
    measures = tuple(measure("min", at(i)) for i in range(columns))
    keys = tuple(at(i) for i in range(columns))
    return of(aggregate(table, keys, measures), *(f"<{i}>" for i in range(2 * columns)))
