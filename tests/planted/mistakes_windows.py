"""Mistakes in window functions."""

from __future__ import annotations

from typing import Any

from tests.planted.changes import OUTSIDE, clearing, inside, setting
from tests.planted.mistake import Mistake
from tests.planted.places import Finder, Place, called, first


def window(*names: str) -> Finder:
    """Finds the first call of one of the window functions."""
    return first("Expression.WindowFunction", lambda p: called(p) in names)


LAG, SUM, NTILE = window("lag"), window("sum"), window("ntile")
RANGE = 2


def _distance(**bound: Any) -> Any:
    """Another distance of the lower bound."""
    return inside("lower_bound.preceding", setting(**bound))


def _column_as_distance(place: Place) -> None:
    """Have ``lag`` read the distance from a column."""
    place.message.arguments[1].CopyFrom(place.message.arguments[0])


def _without_kind(place: Place) -> None:
    place.message.lower_bound.Clear()
    place.message.lower_bound.SetInParent()


def _by_a_float(place: Place) -> None:
    """Have the frame begin at a distance between values that is a float."""
    place.message.bounds_type = RANGE
    place.message.lower_bound.preceding.ClearField("offset")
    place.message.lower_bound.preceding.offset_expr.literal.fp64 = 1.5


DATAFUSION = ("DataFusion",)

WINDOWS = (
    Mistake("a frame by a distance of another type than the sort key", "WINDOW_FRAME_NOT_SUPPORTED", SUM,
            _by_a_float, producers=DATAFUSION),
    Mistake("a frame of an unknown kind", "VALUE_INVALID", SUM, setting(bounds_type=OUTSIDE), ".bounds_type",
            producers=DATAFUSION),
    Mistake("a frame of neither rows nor values", "WINDOW_FRAME_NOT_SUPPORTED", SUM, clearing("bounds_type"),
            producers=DATAFUSION),
    Mistake("a bound that is nothing", "FIELD_MISSING", SUM, _without_kind, ".lower_bound", producers=DATAFUSION),
    Mistake("a distance below zero", "VALUE_INVALID", SUM, _distance(offset=-2), ".offset", producers=DATAFUSION),
    Mistake("distinct rows of a function of another row", "DISTINCT_NOT_SUPPORTED", LAG, setting(invocation=2),
            ".invocation", producers=DATAFUSION),
    Mistake("a partial result of a function of another row", "PHASE_NOT_SUPPORTED", LAG, setting(phase=1), ".phase",
            producers=DATAFUSION),
    Mistake("a distance that is a column", "CONSTANT_ARGUMENT_INVALID", LAG, _column_as_distance,
            ".arguments[1].value", producers=DATAFUSION),
    Mistake("a value of another row without arguments", "ARGUMENT_COUNT", LAG, clearing("arguments"), ".arguments",
            producers=DATAFUSION),
    Mistake("a number of parts that is no literal", "ARGUMENT_COUNT", NTILE, clearing("arguments"), ".arguments",
            producers=DATAFUSION),
    Mistake("a window function of an anchor that nothing declares", "FUNCTION_UNDECLARED", LAG,
            setting(function_reference=OUTSIDE), producers=DATAFUSION),
)  # fmt: skip
