"""Define what a table of functions contains: kernels with the calls that they can compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from substrait_agg.bind.bound import Call, Constant
from substrait_agg.bind.joins.failing import without_text_casts
from substrait_agg.evaluation.constants import arrow_type
from substrait_agg.plan.types import Type


@dataclass(frozen=True, slots=True)
class KernelArguments:
    """A call and the columns of its arguments, each of `count` values."""

    call: Call
    columns: tuple[pa.Array, ...]
    count: int

    def __getitem__(self, ordinal: int) -> pa.Array:
        return self.columns[ordinal]

    def __len__(self) -> int:
        return len(self.columns)

    def type(self, ordinal: int) -> Type:
        """Return the type of an argument."""
        return self.call.arguments[ordinal].type

    def constant(self, ordinal: int) -> Any:
        """Return the value of an argument that is a constant."""
        return constant_of(self.call, ordinal)

    @property
    def result(self) -> pa.DataType:
        """The Arrow type of the result."""
        return arrow_type(self.call.type)


Takes = Callable[[Call], bool]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A way to compute some calls of a function.

    Attributes:
        takes: whether it computes a call exactly as Spark does.
        compute: computes the column of a call; it raises ``ArrowInvalid`` where Spark fails.
        all_values: whether it computes all values that Spark does; for others it raises ``ArrowInvalid``, too.
    """

    takes: Takes
    compute: Callable[[KernelArguments], pa.Array]
    all_values: bool = True


Kernels = Mapping[str, tuple[Kernel, ...]]
"""Function -> its kernels; the first that takes a call computes it."""


def option(call: Call, name: str, default: str = "") -> str:
    """Return the value of an option of a call."""
    return dict(call.options).get(name, default)


def constant_of(call: Call, ordinal: int) -> Any:
    """Return the value of a constant argument; None if it is null, missing or no constant.

    A constant text may be cast to another kind of text.
    """
    if ordinal >= len(call.arguments):
        return None
    argument = without_text_casts(call.arguments[ordinal])
    return argument.value if isinstance(argument, Constant) else None


def all_of(*kinds: str) -> Takes:
    """Return a test that all arguments and the result are of these kinds."""
    return lambda call: all(t.kind in kinds for t in (call.type, *_types(call)))


def first_of(*kinds: str) -> Takes:
    """Return a test that the first argument is of these kinds."""
    return lambda call: call.arguments[0].type.kind in kinds


def with_options(takes: Takes, **values: tuple[str, ...]) -> Takes:
    """Return a test that the options of a call have one of some values, or are absent."""
    return lambda call: (
        takes(call) and all(option(call, n.upper(), v[0]) in v for n, v in values.items())
    )


def constants_after_first(takes: Takes) -> Takes:
    """Return a test that all arguments but the first are constants other than null."""
    return lambda call: (
        takes(call) and all(constant_of(call, i) is not None for i in range(1, len(call.arguments)))
    )


def _types(call: Call) -> tuple[Type, ...]:
    return tuple(argument.type for argument in call.arguments)
