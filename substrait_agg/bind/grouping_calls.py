"""``grouping(...)``: one integer per grouping set, known when the plan is bound."""

from __future__ import annotations

from substrait_agg.bind.bound import Constant, Expr
from substrait_agg.bind.context import Context, GroupingInfo
from substrait_agg.bind.measure_places import argument_place
from substrait_agg.functions.derive import SIGNED
from substrait_agg.plan import model

MOST_ARGUMENTS = 31
"""Bits of the result, which every producer's type for it can hold."""


def grouping_values(
    arguments: tuple[Expr, ...],
    info: GroupingInfo | None,
    measure: model.Measure,
    context: Context,
) -> tuple[int, ...] | None:
    """Per grouping set: bit i is set where the i-th argument from the right is not a key of the set.

    An argument is an expression equal to a key, or, as DuckDB writes it, the ordinal of a key.

    Returns:
        None once it has been reported that an argument is no grouping key.
    """
    keys = info.keys if info else ()
    places = [_ordinals(argument, keys) for argument in arguments]
    if info is None or not all(places) or len(arguments) > MOST_ARGUMENTS:
        position = next((i for i, found in enumerate(places) if not found), 0)
        missing = info is None or not all(places)
        context.report(
            "GROUPING_ARGUMENT",
            argument_place(measure, position) if missing else f"{measure.path}.arguments",
            name=measure.function.name, position=position + 1, most=MOST_ARGUMENTS,
        )  # fmt: skip
        return None
    sets = info.sets or (tuple(range(len(keys))),)
    return tuple(_bits(places, frozenset(refs)) for refs in sets)


def _ordinals(argument: Expr, keys: tuple[Expr, ...]) -> frozenset[int]:
    """Ordinals of the keys that the argument is."""
    equal = frozenset(ordinal for ordinal, key in enumerate(keys) if key == argument)
    if equal or not isinstance(argument, Constant) or argument.type.kind not in SIGNED:
        return equal
    return frozenset({argument.value}) if argument.value in range(len(keys)) else frozenset()


def _bits(places: list[frozenset[int]], refs: frozenset[int]) -> int:
    last = len(places) - 1
    return sum(1 << (last - i) for i, ordinals in enumerate(places) if not ordinals & refs)
