"""Calls of scalar functions with the values that they must have."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from substrait_agg.bind.bound import Call
from substrait_agg.plan.types import Type
from tests.spark.evaluating import STRING

FAILS = "an error"
TIME = Type("precision_time", params=(6,))
TEXTS = Type("list", children=(STRING,))
EPOCH = dt.datetime(1970, 1, 1)
FACES = "\U0001f600a\U0001f600b"
"""Characters beyond the basic plane, which take two units in UTF-16."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A call and its value; `FAILS` where it fails."""

    call: Call
    wanted: Any


def ticks(text: str) -> int:
    """A timestamp as microseconds."""
    return (dt.datetime.fromisoformat(text) - EPOCH) // dt.timedelta(microseconds=1)


def day(text: str) -> int:
    return (dt.date.fromisoformat(text) - EPOCH.date()).days


def clock(text: str) -> int:
    return ticks(f"1970-01-01T{text}")
