"""Mistakes in joins and fetches, which are put on top of a read or a sort of the plan."""

from __future__ import annotations

from typing import Any

from tests.planted.changes import (
    NULLABLE,
    NUMBER,
    OUTSIDE,
    TEXT,
    TRUTH,
    Change,
    combined,
    joining,
    literal,
    wrapping,
)
from tests.planted.mistake import PRODUCERS, Mistake
from tests.planted.mistakes_relations import READ_REL
from tests.planted.places import Finder, column, first

TABLE_REL = first(
    "Rel", lambda p: p.message.HasField("read") and p.message.read.HasField("named_table")
)

SEMI, ANTI = 5, 7
"""Types of physical joins that pass on the columns of the left input; a semi join is 5 in every message."""

REFERENCE = {"direct_reference": {"struct_field": {"field": 0}}, "root_reference": {}}
BY_FIRST = {"expr": column(0), "direction": 1}


def _key(**comparison: Any) -> dict[str, Any]:
    return {"left": REFERENCE, "right": REFERENCE, "comparison": comparison}


EQUAL = _key(simple=1)


def _joined(
    name: str,
    code: str,
    change: Change,
    where: str = "",
    *also: tuple[str, str],
    because: str = "",
    producers: tuple[str, ...] = PRODUCERS,
    find: Finder = READ_REL,
) -> Mistake:
    return Mistake(name, code, find, change, where, also, because, producers)


JOINS = (
    _joined("a join without a type", "JOIN_TYPE_MISSING", joining("join", expression=TRUTH), ".type"),
    _joined("a join of a type that no release has", "VALUE_INVALID",
            joining("join", type=77, expression=TRUTH), ".type"),
    _joined("a join on true", "JOIN_WITHOUT_KEY", joining("join", type=SEMI, expression=TRUTH), find=TABLE_REL),
    _joined("a join without a condition", "JOIN_CONDITION_MISSING", joining("join", type=SEMI),
            "", ("JOIN_WITHOUT_KEY", ""), because="a condition that is missing is no key", find=TABLE_REL),
    _joined("a join on no condition", "FILTER_NOT_BOOLEAN",
            joining("join", type=SEMI, expression=NUMBER), ".expression.literal"),
    _joined("a join on a column that is not there", "FIELD_OUT_OF_RANGE",
            joining("nested_loop_join", type=SEMI, expression=column(OUTSIDE)), ".expression"),
    _joined("a hash join without keys", "FIELD_MISSING", joining("hash_join", type=SEMI),
            "", ("JOIN_WITHOUT_KEY", ""), because="nothing else connects the inputs", find=TABLE_REL),
    _joined("a key without a comparison", "JOIN_COMPARISON_MISSING",
            joining("hash_join", type=SEMI, keys=[EQUAL, _key(simple=0)]), ".keys[1].comparison.simple"),
    _joined("a key that may be equal", "JOIN_COMPARISON_NOT_SUPPORTED",
            joining("merge_join", type=SEMI, keys=[EQUAL, _key(simple=3)]), ".keys[1].comparison.simple",
            ("MERGE_JOIN_ORDER", ""), because="every merge join is told so"),
    _joined("a key that is not there", "FIELD_OUT_OF_RANGE",
            joining("hash_join", type=SEMI, keys=[{**EQUAL, "left": {**REFERENCE, "direct_reference": {
                "struct_field": {"field": OUTSIDE}}}}]), ".keys[0].left"),
    _joined("a merge join", "MERGE_JOIN_ORDER", joining("merge_join", type=SEMI, keys=[EQUAL])),
    _joined("a residual that is no condition", "FILTER_NOT_BOOLEAN",
            joining("hash_join", type=SEMI, keys=[EQUAL], residual_expression=NUMBER), ".residual_expression.literal"),
    _joined("a filter after a join that is no condition", "FILTER_NOT_BOOLEAN",
            joining("hash_join", type=SEMI, keys=[EQUAL], post_join_filter=NUMBER), ".post_join_filter.literal", producers=("substrait-python",)),
    _joined("an anti join over keys with nulls", "JOIN_NOT_IN_UNCLEAR",
            joining("hash_join", type=ANTI, keys=[EQUAL]), find=TABLE_REL, producers=("DataFusion",)),
)  # fmt: skip


def _sorted_fetch(**fields: Any) -> Change:
    """A fetch over a sort; the problem is at the fetch."""
    return combined(wrapping("sort", sorts=[BY_FIRST]), wrapping("fetch", **fields))


FETCHES = (
    Mistake("a limit without an order", "FETCH_WITHOUT_SORT", READ_REL,
            wrapping("fetch", count_expr=NUMBER)),
    Mistake("a negative limit", "FETCH_OUT_OF_RANGE", READ_REL,
            _sorted_fetch(count_expr=literal(i64=-1)), ".count_expr"),
    Mistake("a negative offset", "FETCH_OUT_OF_RANGE", READ_REL,
            _sorted_fetch(offset_expr=literal(i64=-1)), ".offset_expr"),
    Mistake("a limit by a text", "FETCH_NOT_INTEGER", READ_REL,
            _sorted_fetch(count_expr=TEXT), ".count_expr"),
    Mistake("a limit by a column that is not there", "FIELD_OUT_OF_RANGE", READ_REL,
            _sorted_fetch(count_expr=column(OUTSIDE)), ".count_expr"),
    Mistake("an offset that is null", "FETCH_NULL", READ_REL,
            _sorted_fetch(offset_expr=literal(null={"i64": NULLABLE}), count_expr=NUMBER), ".offset_expr"),
    Mistake("a top-n that does not say what ties are", "FETCH_MODE_MISSING", READ_REL,
            wrapping("top_n", sorts=[BY_FIRST], count=NUMBER), ".mode"),
    Mistake("a top-n without keys", "SORT_KEYS_MISSING", READ_REL,
            wrapping("top_n", count=NUMBER, mode=1), "", (("FETCH_WITHOUT_SORT", ""),),
            "rows have no order then"),
)  # fmt: skip
