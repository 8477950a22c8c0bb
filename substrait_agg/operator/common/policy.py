"""When values are emitted: what the user says, read and turned into the rules of each batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from substrait_agg.durations import microseconds
from substrait_agg.errors import UsageError
from substrait_agg.operator.common.emission import ALL, Emission

FORMS = "batch, watermark, count:N, delay:5s, end, or several of them joined by commas"


@dataclass(frozen=True, slots=True)
class EmitPolicy:
    """When a group is emitted; the first rule that holds does it, and all begin anew for that group.

    The rules are the triggers of OctoSQL (counting, delay, watermark, end of stream, any of several).

    Attributes:
        batch: after every batch that touches it.
        rows: after so many rows of it; 0 is no rule.
        delay: so many microseconds of processing time after its last row; None is no rule.
        watermark: once the watermark has passed its event time.

    Whatever the rules, everything is emitted when a bounded input has been read to its end.
    """

    batch: bool = False
    rows: int = 0
    delay: int | None = None
    watermark: bool = False

    def at(self, now: int) -> Emission:
        """The rules at an instant, in microseconds since 1970."""
        before = None if self.delay is None else now - self.delay
        return replace(ALL, now=now) if self.batch else Emission(False, self.rows, before, now)

    def watermark_pass(self, now: int) -> Emission:
        """The rules for groups that are touched in the second pass of a version, when its watermark is known."""
        emission = self.at(now)
        # Groups that are only looked at are not emitted: the first row of a group is what fires.
        return Emission(all=False, rows=1, now=now) if self.batch else emission

    @property
    def finishes(self) -> bool:
        """Whether a group that is complete waits no longer."""
        return self.batch or self.watermark

    def due(self, since: int, now: int) -> int | None:
        """The instant at which a group is emitted whose last row came at `since`; None: not without another row.

        Where that is so long after `now` that the clock must have been set back, it is at once.
        """
        if self.batch:
            return since
        if self.delay is None:
            return None
        return now if since >= now + self.delay else since + self.delay


EVERY_BATCH = EmitPolicy(batch=True)


def parse_emit(text: str) -> EmitPolicy:
    """Read ``batch``, ``watermark``, ``count:N``, ``delay:5s``, ``end``, or several joined by commas.

    Raises:
        UsageError: OPTION_INVALID.
    """
    policy = EmitPolicy()
    words = [word.strip() for word in text.split(",")]
    for word in words:
        kind, colon, value = word.partition(":")
        if kind not in _RULES or bool(colon) != (kind in _WITH_VALUE):
            raise _invalid(f"{word!r} is not known")
        policy = _RULES[kind](policy, value)
    if len({word.partition(":")[0] for word in words}) < len(words):
        raise _invalid("a rule is given twice")
    return policy


def _count(policy: EmitPolicy, value: str) -> EmitPolicy:
    if not (value.isascii() and value.isdigit() and 0 < int(value) < 1 << 63):
        raise _invalid(f"count:{value} is not a number of rows of at least 1")
    return replace(policy, rows=int(value))


def _delay(policy: EmitPolicy, value: str) -> EmitPolicy:
    duration = microseconds(value)
    if not duration:
        raise _invalid(f"delay:{value} is not a duration such as 500ms, 5s, 1m or 1h")
    return replace(policy, delay=duration)


_RULES: dict[str, Callable[[EmitPolicy, str], EmitPolicy]] = {
    "batch": lambda policy, _: replace(policy, batch=True),
    "count": _count,
    "delay": _delay,
    "end": lambda policy, _: policy,
    "watermark": lambda policy, _: replace(policy, watermark=True),
}
_WITH_VALUE = frozenset({"count", "delay"})


def _invalid(message: str) -> UsageError:
    return UsageError("OPTION_INVALID", message, help=f"use {FORMS}", path="emit")
