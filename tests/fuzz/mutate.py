"""Random changes of plans by their descriptors, as a deviating or broken producer could write them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from substrait_agg.functions.aggregates.catalogue import AGGREGATES
from substrait_agg.functions.scalars.catalogue import SCALAR_NAMES
from substrait_agg.plan.messages.schema import MESSAGE, Field, schema
from tests.fuzz.messages import Message, parsed, shape_of

PLANS = Path(__file__).parents[2] / "plans"
LARGEST = 20_000
"""Bytes of the plans that are changed: larger ones are slow and hold nothing that smaller ones do not."""

INTEGERS = (0, 1, 2, 3, 5, 6, 7, 9, 10, 18, 19, 31, 32, 38, 39, 63, 64, 100, 127, 128, 255, 256, 65535,
            2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, -1, -2, -128, -(2**31), -(2**63))  # fmt: skip
FLOATS = (0.0, -0.0, 1.0, -1.5, 1e-45, 1e38, 3.5e38, 1e308, math.inf, -math.inf, math.nan)
WORDS = (
    "", "a", "A", "overflow", "ERROR", "SILENT", "SATURATE", "rounding", "distinct", "null_handling",
    "IGNORE_NULLS", "TRUE", "YEAR", "SECOND", "substrait", "datafusion", "isthmus", "ibis-substrait",
    "duckdb", "extension:io.substrait:functions_arithmetic", "extension:io.substrait:functions_aggregate_generic",
    "/functions_boolean.yaml", "count:any", "sum:i64", "min:fp64", "avg:dec", "u8", "{0}", "{name}", "\u0000",
    "\n", "\u202e", "\U0001f600", "%", "%a_", "[", "\\", "x" * 300,
)  # fmt: skip


@cache
def samples() -> tuple[bytes, ...]:
    """The binary sample plans that are not large."""
    found = (path.read_bytes() for path in sorted(PLANS.rglob("*.bin")))
    return tuple(content for content in found if len(content) <= LARGEST)


@cache
def _donors() -> dict[str, list[Message]]:
    """Messages of all sample plans by their kind."""
    found: dict[str, list[Message]] = {}
    for content in samples():
        for message in parsed(content).everything():
            found.setdefault(message.shape.name, []).append(message)
    return found


@cache
def _names() -> tuple[str, ...]:
    return (*WORDS, *sorted(AGGREGATES), *sorted(SCALAR_NAMES))


def mutated(message: Message, random: Random, times: int = 1) -> Message:
    """A copy of a plan with `times` changes."""
    made = copy.deepcopy(message)
    for _ in range(times):
        spot = random.choice(made.everything())
        random.choice(_CHANGES)(spot, random)
    return made


def _drop(spot: Message, random: Random) -> None:
    if spot.fields:
        del spot.fields[random.randrange(len(spot.fields))]


def _repeat(spot: Message, random: Random) -> None:
    if spot.fields:
        item, value = random.choice(spot.fields)
        for _ in range(random.choice((1, 1, 2, 40))):
            spot.fields.append((item, copy.deepcopy(value)))


def _swap(spot: Message, random: Random) -> None:
    if len(spot.fields) > 1:
        left, right = random.sample(range(len(spot.fields)), 2)
        spot.fields[left], spot.fields[right] = spot.fields[right], spot.fields[left]


def _change(spot: Message, random: Random) -> None:
    """Give a scalar another value, or a message the content of another of its kind."""
    if spot.fields:
        at = random.randrange(len(spot.fields))
        item, _ = spot.fields[at]
        spot.fields[at] = (item, value_for(item, random))


def _add(spot: Message, random: Random) -> None:
    """Set a field that may never have been written here."""
    items = list(spot.shape.by_number.values())
    if items:
        item = random.choice(items)
        if not item.repeated:
            spot.fields = [(i, v) for i, v in spot.fields if i.name != item.name]
        spot.fields.append((item, value_for(item, random)))


def _choose_other(spot: Message, random: Random) -> None:
    """Another member of a choice that has been made: another literal, type, expression, relation."""
    chosen = [at for at, (item, _) in enumerate(spot.fields) if item.oneof]
    if chosen:
        at = random.choice(chosen)
        oneof = spot.fields[at][0].oneof
        item = random.choice([i for i in spot.shape.by_number.values() if i.oneof == oneof])
        spot.fields[at] = (item, value_for(item, random))


def _nest(spot: Message, random: Random) -> None:
    """Put a message into another one of its own type, at a place that a donor message has."""
    for at, (item, value) in enumerate(spot.fields):
        if item.kind == MESSAGE and random.random() < 0.5:
            around = copy.deepcopy(_donor(item.type, random))
            places = [(m, i) for m in around.everything() for i, (f, _) in enumerate(m.fields)
                      if f.type == item.type]  # fmt: skip
            if places:
                holder, place = random.choice(places)
                holder.fields[place] = (holder.fields[place][0], value)
                spot.fields[at] = (item, around)
            return


_CHANGES: tuple[Callable[[Message, Random], None], ...] = (
    _drop, _repeat, _swap, _change, _change, _change, _add, _add, _choose_other, _choose_other, _nest,
)  # fmt: skip


def _donor(kind: str, random: Random) -> Message:
    found = _donors().get(kind)
    return random.choice(found) if found and random.random() < 0.9 else Message(shape_of(kind))


def value_for(item: Field, random: Random) -> Any:
    """A random value of a field; for a message, the one that a sample plan has there."""
    if item.kind == MESSAGE:
        return copy.deepcopy(_donor(item.type, random))
    if item.kind == "enum":
        known = list(schema().enums[item.type].values())
        return random.choice([*known, max(known) + 1])
    if item.kind in ("float", "double"):
        number = random.choice(FLOATS)
        return math.copysign(min(abs(number), 3e38), number) if _too_large(item, number) else number
    if item.kind == "bool":
        return random.random() < 0.5
    if item.kind == "string":
        return random.choice(_names())
    if item.kind == "bytes":
        return random.randbytes(random.choice((0, 1, 16, 16, 17)))
    return _ranged(item.kind, random.choice(INTEGERS))


def _too_large(item: Field, number: float) -> bool:
    return item.kind == "float" and math.isfinite(number) and abs(number) > 3e38


def _ranged(kind: str, number: int) -> int:
    bits = 32 if kind.endswith("32") else 64
    number &= (1 << bits) - 1
    return number - (1 << bits) if kind.startswith("int") and number >> (bits - 1) else number
