"""Emission policy: parses the user's ``emit`` option and derives the rules of each batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from substrait_agg.arguments import microseconds
from substrait_agg.errors import UsageError
from substrait_agg.operator.common.emission import ALL, Emission

FORMS = "batch, watermark, count:N, delay:5s, end, or several of them separated by commas"


@dataclass(frozen=True, slots=True)
class EmitPolicy:
    """The conditions under which a group is emitted.

    The first condition that holds emits the group and resets all conditions for that group. All
    groups are emitted when a bounded input has been read to its end, whatever the conditions. The
    conditions are the triggers of OctoSQL (counting, delay, watermark, end of stream, any of
    several).

    Attributes:
        batch: after every batch with rows of the group.
        rows: after this many rows of the group; 0 disables the condition.
        delay: after this many microseconds of processing time since the group's last row; None
            disables the condition.
        watermark: once the watermark has passed the group's event time.
    """

    batch: bool = False
    rows: int = 0
    delay: int | None = None
    watermark: bool = False

    def at(self, now: int) -> Emission:
        """Return the rules of a batch at an instant, in microseconds since 1970."""
        before = None if self.delay is None else now - self.delay
        return replace(ALL, now=now) if self.batch else Emission(False, self.rows, before, now)

    def watermark_pass(self, now: int) -> Emission:
        """Return the rules of the watermark pass, the second pass of a version.

        The second pass runs once the watermark of the version is known.

        Args:
            now: microseconds since 1970.
        """
        emission = self.at(now)
        # Require one row: this pass must not emit groups without new rows.
        return Emission(all=False, rows=1, now=now) if self.batch else emission

    @property
    def finishes(self) -> bool:
        """Return whether complete groups are emitted without waiting."""
        return self.batch or self.watermark

    def due(self, since: int, now: int) -> int | None:
        """Return the instant at which a group becomes due for emission without another row.

        If `since` is so far after `now` that the clock was set back, the group is due at `now`.

        Returns:
            Microseconds since 1970, or None if only another row can make the group due.
        """
        if self.batch:
            return since
        if self.delay is None:
            return None
        return now if since >= now + self.delay else since + self.delay


EVERY_BATCH = EmitPolicy(batch=True)


def parse_emit(text: str) -> EmitPolicy:
    """Parse an emission policy.

    The conditions are ``batch``, ``watermark``, ``count:N``, ``delay:5s`` and ``end``, or several
    of them joined by commas.

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
