"""Register the kinds of measures: their state, the input that they read, and their evaluation.

A kind is one row here. Later stages map the words of a column to functions. `complete` raises an
error at import if a word is missing or surplus, so that no kind silently runs the code of another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeVar, get_args

MeasureKind = OneOf[
    "count", "sum", "sum0", "avg", "bool_and", "bool_or", "variance", "std_dev", "covar", "corr",
    "min", "max", "any_value", "mode", "median", "quantile", "percentile_cont", "percentile_disc",
    "product", "bit_and", "bit_or", "bit_xor", "list", "string_agg", "first_value", "last_value",
    "nth_value", "min_by", "max_by", "list_union_distinct", "first", "last", "surrogate_key",
    "grouping", "user", "estimated_count", "skewness",
    "kurtosis", "count_min_sketch",
]  # fmt: skip
"""The measures that can be maintained.

`count` counts rows, or the non-null values of an argument.
"""

StateClass = OneOf["additive", "shared tree", "own tree", "none"]
"""Where the state of a plain measure is.

Accumulators of the group, a tree shared with other measures, or a separate tree.
"""

Input = OneOf[
    "count", "total", "conditions", "moments", "least", "greatest", "multiset", "ranked",
    "first in order", "last in order", "first by", "last by", "earliest", "latest", "elements",
    "user", "none",
]  # fmt: skip
"""The input of a measure.

It reads accumulators (counts, totals, products) or entries of an ordered tree (an extreme, ranks,
all).
"""

Evaluation = OneOf[
    "number", "condition", "moment", "extreme", "multiset", "user", "surrogate_key", "grouping"
]
"""How the value of a group is computed from the input."""


@dataclass(frozen=True, slots=True)
class KindRow:
    """A row of the registry.

    Attributes:
        state: class of state of a measure without DISTINCT and ORDER BY.
        input: the input of the measure.
        evaluation: how its value is computed.
        sums: for ``moments``, the sums after the count among its accumulators, named by their
            factors.
    """

    state: StateClass
    input: Input
    evaluation: Evaluation
    sums: tuple[str, ...] = ()


Key = TypeVar("Key")
Value = TypeVar("Value")


def complete(table: Mapping[Key, Value], words: object) -> Mapping[Key, Value]:
    """Return `table` if it has exactly one entry per word.

    Args:
        table: word -> entry.
        words: a ``Literal`` type, or a collection of words.

    Raises:
        TypeError: the table lacks words or has others.

    >>> complete({"a": 1, "b": 2}, ("a", "b"))
    {'a': 1, 'b': 2}
    """
    expected = set(words if isinstance(words, Collection) else get_args(words))
    if expected != set(table):
        raise TypeError(
            f"the table and its words differ in {sorted(map(str, expected ^ set(table)))}"
        )
    return table


_MULTISET = KindRow("shared tree", "multiset", "multiset")
_RANKED = KindRow("shared tree", "ranked", "multiset")

KINDS: Mapping[MeasureKind, KindRow] = {
    "count": KindRow("additive", "count", "number"),
    "sum": KindRow("additive", "total", "number"),
    "sum0": KindRow("additive", "total", "number"),
    "avg": KindRow("additive", "total", "number"),
    "bool_and": KindRow("additive", "conditions", "condition"),
    "bool_or": KindRow("additive", "conditions", "condition"),
    "variance": KindRow("additive", "moments", "moment", ("x", "xx")),
    "std_dev": KindRow("additive", "moments", "moment", ("x", "xx")),
    "covar": KindRow("additive", "moments", "moment", ("x", "y", "xy")),
    "corr": KindRow("additive", "moments", "moment", ("x", "y", "xy", "xx", "yy")),
    "min": KindRow("shared tree", "least", "extreme"),
    "max": KindRow("shared tree", "greatest", "extreme"),
    "any_value": KindRow("shared tree", "least", "extreme"),
    "mode": _MULTISET,
    "median": _RANKED,
    "quantile": _RANKED,
    "percentile_cont": _RANKED,
    "percentile_disc": _RANKED,
    "product": _MULTISET,
    "bit_and": _MULTISET,
    "bit_or": _MULTISET,
    "bit_xor": _MULTISET,
    "estimated_count": _MULTISET,
    "skewness": _MULTISET,
    "kurtosis": _MULTISET,
    "count_min_sketch": _MULTISET,
    "list": _MULTISET,
    "string_agg": _MULTISET,
    "list_union_distinct": KindRow("shared tree", "elements", "multiset"),
    "first_value": KindRow("own tree", "first in order", "extreme"),
    "last_value": KindRow("own tree", "last in order", "extreme"),
    "nth_value": KindRow("own tree", "ranked", "multiset"),
    "min_by": KindRow("own tree", "first by", "extreme"),
    "max_by": KindRow("own tree", "last by", "extreme"),
    "first": KindRow("own tree", "earliest", "extreme"),
    "last": KindRow("own tree", "latest", "extreme"),
    "surrogate_key": KindRow("none", "none", "surrogate_key"),
    "grouping": KindRow("none", "none", "grouping"),
    "user": KindRow("additive", "user", "user"),
}
"""The registry."""

complete(KINDS, MeasureKind)


def kinds_of(evaluation: Evaluation) -> tuple[MeasureKind, ...]:
    """List the kinds with this evaluation."""
    return tuple(kind for kind, row in KINDS.items() if row.evaluation == evaluation)
