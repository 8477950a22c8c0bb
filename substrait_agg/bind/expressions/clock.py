"""Bind the variables of the execution that tell the time: columns of a table with one row, the clock.

A version has one instant. The clock (`connect.clock`) is a source like others, so the instant is a
position of the version, rows change by its changes, and a version computed again has the same.
"""

from __future__ import annotations

from functools import cache

from substrait_agg.bind.bound import BoundAggregate, BoundMeasure, BoundRead, Column, Expr
from substrait_agg.bind.context import BindContext, unknown
from substrait_agg.bind.conversions import convert
from substrait_agg.bind.expressions.subqueries import NO_RELATION, add_column
from substrait_agg.bind.subqueries.decorrelate import Decorrelated
from substrait_agg.bind.subqueries.joins import BoundSubquery
from substrait_agg.connect.protocol import CLOCK_COLUMNS, CLOCK_TABLE
from substrait_agg.plan import model
from substrait_agg.plan.types import Type

_TYPES = (Type("precision_timestamp_tz", nullable=False, params=(6,)), Type("date", nullable=False))
CLOCK_PATH = ".".join(CLOCK_TABLE)
_ORDINALS = {"current_timestamp": 0, "current_date": 1}


def bind_context_variable(
    node: model.ContextVariable, width: int | None, context: BindContext
) -> Expr:
    """Return the value of a variable: a column that a join with the clock adds.

    Args:
        node: the variable.
        width: number of columns of the rows; None if unknown.
        context: the context.
    """
    if width is None:
        return unknown()
    if context.added is None or context.parameters:
        kind = f"{node.name} {NO_RELATION}"
        context.report("EXPRESSION_NOT_SUPPORTED", node.path, kind=kind)
        return unknown()
    clock = _clock(_ORDINALS[node.name])
    query = Decorrelated(clock, (Column(clock.types[0], 0),))
    value = add_column(BoundSubquery("scalar", (), query, CLOCK_PATH), width, context.added)
    return convert(value, node.type.as_nullable())


@cache
def _clock(ordinal: int) -> BoundAggregate:
    """Return the only row of a column of the clock; an aggregate without keys has always one row."""
    read = BoundRead(CLOCK_TABLE, CLOCK_COLUMNS, _TYPES, CLOCK_PATH)
    type_ = _TYPES[ordinal].as_nullable()
    newest = BoundMeasure(
        "max", (Column(_TYPES[ordinal], ordinal),), None, type_, "max", CLOCK_PATH
    )
    return BoundAggregate(read, (), (newest,), (type_,), CLOCK_PATH)
