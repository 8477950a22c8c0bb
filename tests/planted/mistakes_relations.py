"""Mistakes in the relations around aggregates: read, filter, project, sort, set, and those that cannot be run."""

from __future__ import annotations

from typing import Any

from tests.planted.changes import (
    NULL,
    NULLABLE,
    NUMBER,
    OUTSIDE,
    TRUTH,
    Change,
    adding,
    becoming,
    clearing,
    combined,
    copying,
    dropping,
    inside,
    misplacing,
    quietly,
    replacing,
    setting,
    wrapping,
)
from tests.planted.mistake import Mistake
from tests.planted.places import Place, column, first, names_of, relation

READ = relation("read", lambda p: p.message.HasField("named_table"))
READ_REL = first("Rel", lambda p: p.message.HasField("read"))
ROWS = relation("read", lambda p: p.message.HasField("virtual_table"))
MASKED = relation("read", lambda p: p.message.HasField("projection"))
FILTER = relation("filter")
SORT = relation("sort")
PROJECT = relation("project", lambda p: p.message.common.HasField("emit"))
UNION = relation("set")

SCHEMA = "base_schema.struct.types"
FLOAT, MONEY, DAY, TIME = 5, 6, 8, 9
"""Columns of the table."""

COMPUTED = {"if_then": {"ifs": [{"if": TRUTH, "then": NUMBER}]}}
"""The fields of an ``Expression`` that is not a constant."""


def _type(ordinal: int, **kind: Any) -> Change:
    """Another type of a column of the table; the problem is at the type."""
    return inside(f"{SCHEMA}[{ordinal}]", becoming(**kind))


def _ordered_by_time(place: Place) -> bool:
    """Whether a measure of the plan is ordered by the table's time."""
    names = names_of(place.plan).values()
    return any(name.startswith(("percentile", "any_value")) for name in names)


READS = (
    Mistake("a table with a name too few", "NAMES_COUNT", READ, inside("base_schema", dropping("names"))),
    Mistake("a table without a schema", "FIELD_MISSING", READ, clearing("base_schema")),
    Mistake("a table without a name", "TABLE_NAME_MISSING", READ,
            inside("named_table", clearing("names")), ".names"),
    Mistake("a read of nothing", "FIELD_MISSING", READ, clearing("named_table")),
    Mistake("a read of files", "FILES_NEED_SOURCE", READ,
            replacing("local_files", items=[{"uri_file": "file:///data/part.parquet"}])),
    Mistake("a read of a table of an extension", "RELATION_NOT_SUPPORTED", READ,
            replacing("extension_table"), ".extension_table"),
    Mistake("a mask beyond the table's columns", "EMIT_OUT_OF_RANGE", MASKED,
            inside("projection.select.struct_items[-1]", setting(field=OUTSIDE)), producers=("DataFusion",)),
    Mistake("an output mapping beyond the table's columns", "EMIT_OUT_OF_RANGE", READ, misplacing(OUTSIDE)),
    Mistake("a best effort filter", "BEST_EFFORT_FILTER", READ,
            replacing("best_effort_filter", **TRUTH), ".best_effort_filter"),
    Mistake("a best effort filter on a column that is not there", "FIELD_OUT_OF_RANGE", READ,
            replacing("best_effort_filter", **column(OUTSIDE)), ".best_effort_filter",
            also=(("BEST_EFFORT_FILTER", ".best_effort_filter"),),
            because="that it is not applied holds for every such filter"),
    Mistake("a table whose rows are nullable", "SCHEMA_NULLABLE", READ,
            inside("base_schema.struct", setting(**NULLABLE))),
    Mistake("a filter of the read that is no condition", "FILTER_NOT_BOOLEAN", READ,
            replacing("filter", **column(0)), ".filter"),
    Mistake("a row with a value too few", "ROW_WIDTH", ROWS,
            inside("virtual_table.expressions[1]", dropping("fields"))),
    Mistake("a value of another type than its column", "ROW_TYPE_DIFFERS", ROWS,
            inside("virtual_table.expressions[1].fields[1]", becoming(literal={"i32": 1, "nullable": True})), ".literal"),
    Mistake("a row with a computed value", "ROW_NOT_CONSTANT", ROWS,
            inside("virtual_table.expressions[1].fields[1]", becoming(**COMPUTED))),
)  # fmt: skip

TYPES = (
    Mistake("a column type that does not say whether it is nullable", "NULLABILITY_MISSING", READ,
            _type(DAY, date={}), ".date"),
    Mistake("a column of a variation that is not declared", "TYPE_VARIATION_UNDECLARED", READ,
            _type(FLOAT, fp64={"type_variation_reference": 3, **NULLABLE}), ".fp64"),
    Mistake("a decimal with a scale above its precision", "VALUE_INVALID", READ,
            _type(MONEY, decimal={"precision": 5, "scale": 9, **NULLABLE}), ".decimal"),
    Mistake("a column without a type", "FIELD_MISSING", READ, _type(TIME)),
    Mistake("a time of nanoseconds", "TIME_DIGITS_NOT_KEPT", relation("read", _ordered_by_time),
            quietly(f"{SCHEMA}[{TIME}]", becoming(precision_timestamp={"precision": 9, **NULLABLE})),
            ".base_schema"),
)  # fmt: skip

FILTERS = (
    Mistake("a condition that is no condition", "FILTER_NOT_BOOLEAN", FILTER,
            inside("condition", becoming(**column(0)))),
    Mistake("a condition that is always true", "FILTER_CONSTANT", FILTER,
            inside("condition", becoming(**TRUTH)), ".literal"),
    Mistake("a condition that is null", "FILTER_CONSTANT", FILTER,
            inside("condition", becoming(**NULL)), ".literal"),
    Mistake("an IN list without options", "IN_LIST_EMPTY", FILTER,
            inside("condition", becoming(singular_or_list={"value": column(0)}))),
    Mistake("a filter without a condition", "FIELD_MISSING", FILTER, clearing("condition")),
    Mistake("a condition that says nothing", "FIELD_MISSING", FILTER, inside("condition", becoming())),
    Mistake("a filter without an input", "FIELD_MISSING", FILTER, clearing("input")),
    Mistake("a condition on a column that is not there", "FIELD_OUT_OF_RANGE", FILTER,
            inside("condition", becoming(**column(OUTSIDE)))),
    Mistake("an output mapping beyond the filter's columns", "EMIT_OUT_OF_RANGE", FILTER,
            misplacing(OUTSIDE)),
)  # fmt: skip


PROJECTS = (
    Mistake("an output mapping beyond the project's columns", "EMIT_OUT_OF_RANGE", PROJECT,
            misplacing(OUTSIDE)),
    Mistake("a negative output mapping", "EMIT_OUT_OF_RANGE", PROJECT, misplacing(-1)),
    Mistake("a project without expressions", "PROJECT_EXPRESSIONS_MISSING",
            READ_REL, wrapping("project")),
    Mistake("a projected column that is not there", "FIELD_OUT_OF_RANGE", PROJECT,
            inside("expressions[0]", becoming(**column(OUTSIDE)))),
    Mistake("a projected expression that says nothing", "FIELD_MISSING", PROJECT,
            inside("expressions[0]", becoming())),
)  # fmt: skip


SORTS = (
    Mistake("a sort of the result without direction", "SORT_DIRECTION_MISSING", SORT,
            inside("sorts[0]", setting(direction=0)), ".direction"),
    Mistake("a sort of the result in a direction that no release has", "VALUE_INVALID", SORT,
            inside("sorts[0]", setting(direction=9)), ".direction"),
    Mistake("a sort by a column that is not there", "FIELD_OUT_OF_RANGE", SORT,
            inside("sorts[0].expr", becoming(**column(OUTSIDE)))),
    Mistake("a sort by nothing", "SORT_KEYS_MISSING", SORT, clearing("sorts")),
    Mistake("a sort of the result without a key", "FIELD_MISSING", SORT,
            inside("sorts[0]", clearing("expr"))),
    Mistake("a sort of a table", "SORT_NO_EFFECT", READ_REL,
            combined(wrapping("sort"), quietly("sort", adding("sorts", expr=column(0), direction=1))),
            ".sort"),
)  # fmt: skip


def _other_types(place: Place) -> Place:
    """In the first input, the first column once more in place of the second."""
    project = next(p for p in place.inside() if p.kind == "ProjectRel")
    copying("expressions[1]", "expressions[0]")(project)
    return place.child("inputs[1]")


SETS = (
    Mistake("a minus of one table", "SET_SECONDARY_MISSING", UNION, combined(setting(op=1), dropping("inputs"))),
    Mistake("a minus without a number of copies", "SET_COPIES_UNCLEAR", UNION, setting(op=2), ".op"),
    Mistake("a set operation that is not said", "FIELD_MISSING", UNION, setting(op=0)),
    Mistake("a set operation that no release has", "VALUE_INVALID", UNION, setting(op=77), ".op"),
    Mistake("a union of nothing", "FIELD_MISSING", UNION, clearing("inputs")),
    Mistake("a union of one table", "SET_ONE_INPUT", UNION, dropping("inputs")),
    Mistake("a union of tables of other types", "UNION_TYPES_DIFFER", UNION, _other_types),
    Mistake("a write", "RELATION_NOT_SUPPORTED", READ_REL, wrapping("write")),
)  # fmt: skip

RELATIONS = (*READS, *TYPES, *FILTERS, *PROJECTS, *SORTS, *SETS)
