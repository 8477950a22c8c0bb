"""Decoded plans made by hand, for cases that no producer writes."""

from __future__ import annotations

from typing import Any

from substrait_agg.bind import BoundPlan, bind
from substrait_agg.plan.model import (
    AggregateRel,
    DecodedPlan,
    Expression,
    FieldRef,
    FunctionName,
    Literal,
    MeasureCall,
    OptionPreferences,
    ReadRel,
    Relation,
    ScalarCall,
    SortField,
    SortRel,
)
from substrait_agg.plan.types import BOOL, DATE, FP64, I32, I64, STRING, Type, decimal
from substrait_agg.problem_kinds import Mode
from substrait_agg.problems import Problem, Problems

ROOT = "relations[0].root.input"
MEASURE = f"{ROOT}.aggregate.measures[0].measure"

COLUMNS = {
    "name": STRING,
    "flag": BOOL,
    "small": I32,
    "big": I64,
    "must": I64.as_nullable(False),
    "x": FP64,
    "money": decimal(12, 2),
    "day": DATE,
}
ORDINALS = {name: ordinal for ordinal, name in enumerate(COLUMNS)}


def read(columns: dict[str, Type] | None = None, **changes: Any) -> ReadRel:
    shape = columns or COLUMNS
    values: dict[str, Any] = {
        "table": ("t",),
        "names": tuple(shape),
        "types": tuple(shape.values()),
        "rows": None,
        "filter": None,
        "projection": None,
        "files": (),
        "emit": None,
        "path": f"{ROOT}.read",
    }
    return ReadRel(**{**values, **changes})


def at(ordinal: int) -> FieldRef:
    return FieldRef((ordinal,), f"{ROOT}.selection")


def col(name: str) -> FieldRef:
    return at(ORDINALS[name])


def lit(value: Any, type_: Type) -> Literal:
    return Literal(type_, value, f"{ROOT}.literal")


def name_of(name: str, signature: str | None = None, urn: str | None = None) -> FunctionName:
    declared = name if signature is None else f"{name}:{signature}"
    return FunctionName(name, signature, urn, declared)


def call(
    name: str,
    *arguments: Any,
    output: Type | None = BOOL,
    options: tuple[OptionPreferences, ...] = (),
) -> ScalarCall:
    return ScalarCall(name_of(name), arguments, options, output, f"{ROOT}.call")


def option(name: str, *preferences: str) -> OptionPreferences:
    return OptionPreferences(name, preferences, f"{MEASURE}.options[0]")


def measure(name: str, *arguments: Any, output: Type | None = None, **changes: Any) -> MeasureCall:
    values: dict[str, Any] = {
        "function": name_of(name),
        "arguments": arguments,
        "options": (),
        "output_type": output,
        "phase": "initial_to_result",
        "invocation": "all",
        "sorts": (),
        "filter": None,
        "path": MEASURE,
    }
    return MeasureCall(**{**values, **changes})


def aggregate(
    source: Relation,
    keys: tuple[Expression, ...] = (),
    measures: tuple[MeasureCall, ...] = (),
    groupings: tuple[tuple[int, ...], ...] | None = None,
    emit: tuple[int, ...] | None = None,
) -> AggregateRel:
    sets = groupings if groupings is not None else (tuple(range(len(keys))),)
    return AggregateRel(source, keys, sets, measures, emit, f"{ROOT}.aggregate")


def sort(source: Relation, *keys: tuple[Expression, str], path: str = f"{ROOT}.sort") -> SortRel:
    fields = tuple(SortField(e, d, None, f"{path}.sorts[{i}]") for i, (e, d) in enumerate(keys))
    return SortRel(source, fields, None, path)


def plan(root: Relation, *names: str, producer: str = "") -> DecodedPlan:
    return DecodedPlan(root, names, producer, (0, 106, 0), b"")


def bound(root: Relation, *names: str, producer: str = "") -> BoundPlan:
    problems = Problems()
    made = bind(plan(root, *names, producer=producer), problems)
    assert made is not None, problems.errors
    return made


def problems_of(
    root: Relation, *names: str, mode: Mode = "lenient", producer: str = ""
) -> list[Problem]:
    problems = Problems(mode)
    made = bind(plan(root, *names, producer=producer), problems)
    assert (made is None) == bool(problems.errors)
    return problems.items


def errors_of(root: Relation, *names: str) -> list[tuple[str, str]]:
    return [(p.code, p.path) for p in problems_of(root, *names) if p.level == "error"]


def codes_of(root: Relation, *names: str, **more: Any) -> dict[str, str]:
    """Code -> level of everything found."""
    return {p.code: p.level for p in problems_of(root, *names, **more)}
