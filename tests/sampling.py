"""How many random cases run in `make test`. `make soak` runs all of them.

Cases of `make test` are the same in every run, so that a failure belongs to the change at hand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import settings

QUICK, DEEP = "quick", "deep"
"""Profiles of Hypothesis: that of `make test`, and that of `make soak`."""

EXAMPLES = 100
"""Examples of a property in the deep profile where the test does not say."""
QUICK_SHARE = 10
"""In the quick profile there is one example for so many."""
QUICK_MINIMUM = 10


def register_profiles() -> None:
    """Make the profiles known, and the quick one the default."""
    settings.register_profile(
        QUICK, max_examples=_quick(EXAMPLES), deadline=None, derandomize=True, print_blob=True
    )
    settings.register_profile(DEEP, max_examples=EXAMPLES, deadline=None, print_blob=True)
    settings.load_profile(QUICK)


def examples(count: int) -> int:
    """Give the number of examples of a property: `count` in the deep profile, fewer in the quick one."""
    return count if settings.get_current_profile_name() == DEEP else _quick(count)


def sample(values: Iterable[Any], *quick: Any) -> list[Any]:
    """Give the parameters of a test: those that are among `quick` run always, the rest only in `make soak`."""
    parameters = list(values)
    unknown = [value for value in quick if value not in parameters]
    if unknown:
        raise ValueError(f"{unknown} are no parameters")
    return [v if v in quick else _in_soak(v) for v in parameters]


def seeds(quick: int, count: int, *, also: Collection[int] = ()) -> list[Any]:
    """Give the parameters of a test over seeds: the first `quick` ones run always, the rest only in `make soak`.

    Args:
        quick: how many run always.
        count: how many there are.
        also: others that run always, since they come to code that the first ones do not come to.
    """
    return sample(range(count), *range(quick), *also)


def _in_soak(value: Any) -> Any:
    # A tuple is the values of several parameters.
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.soak)


def _quick(count: int) -> int:
    return min(count, max(QUICK_MINIMUM, count // QUICK_SHARE))
