"""Mistakes in aggregate relations: grouping expressions, grouping sets, output mapping."""

from __future__ import annotations

from tests.planted.changes import (
    OUTSIDE,
    Change,
    adding,
    becoming,
    clearing,
    combined,
    copying,
    holding,
    inside,
    literal,
    misplacing,
    quietly,
    repeating,
    setting,
)
from tests.planted.mistake import Mistake
from tests.planted.places import Place, called, column, relation

GROUPED = relation("aggregate", lambda p: len(p.message.grouping_expressions) > 0)
ROLLUP = relation("aggregate", lambda p: len(p.message.groupings) > 1)
ONE_SET = relation("aggregate", lambda p: len(p.message.groupings) == 1)
"""With several sets DataFusion writes equal keys several times: a change of one makes it another key."""
TWO_KEYS = relation(
    "aggregate",
    lambda p: len(p.message.groupings) == 1 and len(p.message.grouping_expressions) == 2,
)
AVERAGING = relation(
    "aggregate",
    lambda p: "avg" in {called(p.down(f"measures[{i}].measure")) for i in range(len(p.message.measures))},
)  # fmt: skip

COMPOUND = literal(
    interval_compound={
        "interval_year_to_month": {"months": 1},
        "interval_day_to_second": {"days": 1, "precision": 6},
    }
)
LIST = literal(list={"values": [{"i64": 1}]})
INLINE = ".groupings[0].grouping_expressions"


def _without_copies(place: Place) -> None:
    """Takes away the keys that DataFusion writes once more inside the sets, so that a changed key is written once."""
    for grouping in place.message.groupings:
        grouping.ClearField("grouping_expressions")


def _key(change: Change) -> Change:
    """Changes the first grouping expression, where the problem is."""
    return combined(_without_copies, inside("grouping_expressions[0]", change))


def _refer_to_nothing(place: Place) -> str:
    """One more reference in the first grouping set."""
    references = place.message.groupings[0].expression_references
    references.append(OUTSIDE)
    return f"{place.path}.groupings[0].expression_references[{len(references) - 1}]"


def _averaged(place: Place) -> Place:
    """The first grouping expression becomes the argument of the average."""
    measures = range(len(place.message.measures))
    at = next(i for i in measures if called(place.down(f"measures[{i}].measure")) == "avg")
    source = f"measures[{at}].measure.arguments[0].value"
    found = copying("grouping_expressions[0]", source)(place)
    assert isinstance(found, Place)
    return found


def _inline_keys(place: Place) -> None:
    """The keys once more inside the first set."""
    inline = place.message.groupings[0].grouping_expressions
    for key in place.message.grouping_expressions:
        inline.add().CopyFrom(key)


AGGREGATES = (
    Mistake("a grouping set that refers to no grouping expression", "GROUPING_REFERENCE_OUT_OF_RANGE",
            GROUPED, combined(_without_copies, _refer_to_nothing)),
    Mistake("a grouping expression that no set uses", "GROUPING_EXPRESSION_UNUSED", TWO_KEYS,
            adding("grouping_expressions", **column(3))),
    Mistake("an aggregate of nothing", "AGGREGATE_EMPTY", GROUPED,
            clearing("groupings", "grouping_expressions", "measures")),
    # DataFusion writes equal sets and keys twice where the query does, and counts them.
    Mistake("a grouping set that is there twice", "GROUPING_SET_DUPLICATE", ROLLUP,
            repeating("groupings"), producers=("substrait-python",)),
    Mistake("a grouping expression that is there twice", "GROUPING_EXPRESSION_DUPLICATE", TWO_KEYS,
            copying("grouping_expressions[1]", "grouping_expressions[0]"), producers=("substrait-python",)),
    Mistake("a key that the input does not have", "FIELD_OUT_OF_RANGE", ONE_SET,
            _key(becoming(**column(OUTSIDE)))),
    Mistake("a key that is a float", "KEY_TYPE_FLOAT", AVERAGING, combined(_without_copies, _averaged)),
    Mistake("a key that has no order", "KEY_TYPE_NOT_SUPPORTED", ONE_SET, _key(becoming(**COMPOUND))),
    Mistake("a key that is a list", "KEY_TYPE_NESTED", ONE_SET, _key(becoming(**LIST))),
    Mistake("an enhancement of an aggregate", "ENHANCEMENT_NOT_SUPPORTED", GROUPED,
            inside("advanced_extension.enhancement", setting(type_url="type.googleapis.com/com.example.Own")),
            json=False),
    Mistake("a key that says nothing", "FIELD_MISSING", ONE_SET, _key(becoming())),
    Mistake("an output mapping beyond the aggregate's columns", "EMIT_OUT_OF_RANGE", ONE_SET,
            misplacing(OUTSIDE)),
    Mistake("an aggregate without an input", "FIELD_MISSING", GROUPED, clearing("input")),
    Mistake("fewer keys inside the set than it refers to", "FIELD_CONFLICT", TWO_KEYS,
            quietly("groupings[0]", holding("grouping_expressions", column(0))), INLINE,
            producers=("DataFusion",)),
    Mistake("another key inside the set than it refers to", "FIELD_CONFLICT", TWO_KEYS,
            quietly("groupings[0].grouping_expressions[0]", becoming(**column(5))), INLINE,
            producers=("DataFusion",)),
    Mistake("keys inside the set in a plan of a release that has none there", "FIELD_REMOVED", TWO_KEYS,
            _inline_keys, INLINE, producers=("substrait-python",)),
)  # fmt: skip
