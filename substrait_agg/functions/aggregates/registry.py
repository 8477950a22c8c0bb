"""Register measures that an embedding program declares under its own URN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal as OneOf

from substrait_agg.functions.aggregates.catalogue import STANDARD_URNS
from substrait_agg.functions.aggregates.row import (
    HONOURED,
    AggregateFunction,
    Alias,
    FunctionParameter,
    no_op,
)
from substrait_agg.functions.aggregates.types import OWN
from substrait_agg.plan.types import Type

ResultOf = Callable[[tuple[Type, ...]], Type]


@dataclass(frozen=True, slots=True)
class UserMeasure:
    """A measure of an embedding program.

    Attributes:
        urn: URN of the extension, ``owner:id`` with or without ``extension:`` in front; not a
            standard one.
        names: the function's names, in lower case; the first is the canonical one.
        arguments: the accepted type kinds per argument; empty for any.
        result: its type, or a function that returns it for the types of the arguments.
        state: ``additive`` (state columns that are added) or ``ordered`` (computed from the ordered
            values).
        implementation: the object that computes it; opaque here.
        version: version of the implementation.
    """

    urn: str
    names: tuple[str, ...]
    arguments: tuple[tuple[str, ...], ...]
    result: Type | ResultOf
    state: OneOf["additive", "ordered"]
    implementation: object
    version: str = ""

    @property
    def key(self) -> str:
        """The identity of the measure in plans and in stored state.

        It is ``urn:name``, or ``urn:name@version`` if the measure has a version.
        """
        version = f"@{self.version}" if self.version else ""
        return f"{plain_urn(self.urn)}:{self.names[0]}{version}"

    @property
    def row(self) -> AggregateFunction:
        """The measure as a row of the catalogue.

        FILTER and DISTINCT are honoured. ORDER BY is honoured if the state is ordered.
        """
        unordered = no_op("its state is a sum, which does not depend on the order of rows")
        return AggregateFunction(
            self.names[0],
            "user",
            tuple(
                FunctionParameter(f"x{i}", kinds=kinds) for i, kinds in enumerate(self.arguments)
            ),
            OWN,
            urns=(plain_urn(self.urn),),
            aliases=tuple(Alias(name) for name in self.names[1:]),
            order_by=HONOURED if self.state == "ordered" else unordered,
        )

    def result_type(self, types: tuple[Type, ...]) -> Type:
        """Return the type of the measure for arguments of these types."""
        return self.result if isinstance(self.result, Type) else self.result(types)


_MEASURES: dict[tuple[str, str], UserMeasure] = {}
"""(plain URN, name) -> measure."""


def plain_urn(urn: str) -> str:
    """Return a URN as in decoded plans: ``acme:stats`` for ``extension:acme:stats``."""
    return urn.strip().removeprefix("extension:")


def register(measure: UserMeasure) -> UserMeasure:
    """Register a measure for every plan bound from now on, and return it.

    Raises:
        ValueError: it has no name or no argument, its URN is a standard one, or a name is taken
            under this URN.
    """
    urn = plain_urn(measure.urn)
    if not measure.names or any(not n or n != n.lower() or ":" in n for n in measure.names):
        raise ValueError("a measure needs at least one name, in lower case and without a signature")
    if not measure.arguments:
        raise ValueError("a measure needs an argument")
    if not urn or urn.removeprefix("io.substrait:") in STANDARD_URNS:
        raise ValueError(f"{measure.urn!r} is not a URN of a user-defined extension")
    conflicts = [n for n in measure.names if _MEASURES.get((urn, n), measure) != measure]
    if conflicts:
        raise ValueError(f"{conflicts[0]} is already registered under {urn}")
    _MEASURES.update({(urn, name): measure for name in measure.names})
    return measure


def unregister(measure: UserMeasure) -> None:
    """Unregister a measure. An unknown measure is ignored."""
    for name in measure.names:
        _MEASURES.pop((plain_urn(measure.urn), name), None)


def list_registered() -> tuple[tuple[str, int], ...]:
    """Return the registered measures in comparable form.

    A plan may bind differently after this value changes.
    """
    return tuple((m.key, id(m.implementation)) for m in _MEASURES.values())


def find_user(urn: str | None, name: str) -> UserMeasure | None:
    """Return the measure registered under a URN and any of its names."""
    return None if urn is None else _MEASURES.get((plain_urn(urn), name))


def implementation_of(key: str) -> UserMeasure:
    """Return the measure that a bound plan names by its key.

    Raises:
        KeyError: no measure is registered under the key.
    """
    return {measure.key: measure for measure in _MEASURES.values()}[key]
