"""Watermarks, derived batch by batch from the event times of the rows of every source.

The two rules are those of OctoSQL: the greatest event time minus an allowance (max-diff), and a
percentile of the latest event times. A watermark moves once per batch, when all rows of the batch
are known, and never decreases. The watermark of a run is the least watermark of its sources. All
instants are microseconds since 1970, UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from substrait_agg.arguments import microseconds
from substrait_agg.document_fields import DOCUMENT_KEY
from substrait_agg.errors import RunFailed, UsageError

MOST_EVENTS = 10_000
"""The maximal number of event times for a percentile; every snapshot stores them."""

MOST_PARTITIONS = 10_000
"""The maximal number of partitions of a source; every snapshot stores the event time of each."""

FORMS = "max-diff:5s or percentile:P:EVENTS:FREQUENCY"


@dataclass(frozen=True, slots=True)
class WatermarkRule:
    """The rule that derives the watermark of a source from its event times.

    Attributes:
        offset: for max-diff: distance from the greatest event time to the watermark, microseconds.
        percent: for percentile: at most this percentage of the latest event times is above the
            watermark; None for max-diff.
        events: for percentile: number of latest event times to consider.
        frequency: for percentile: number of rows before the watermark is computed for the first
            time.
        idle: after this many microseconds of processing time without a row, the source is idle and
            no longer limits the run's watermark; None if it is never idle.
        by: column whose values define the partitions of the source, each with its own watermark;
            empty for none.
    """

    offset: int = 0
    percent: int | None = None
    events: int = 0
    frequency: int = 0
    idle: int | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class PartitionTime:
    """The event time of one partition of a source."""

    name: str
    greatest: int
    last_rows_at: int = field(metadata={DOCUMENT_KEY: "heard"})


@dataclass(frozen=True, slots=True)
class SourceTime:
    """The event time of a source.

    Attributes:
        watermark: its watermark; None before the first.
        last_rows_at: the instant of the batch with its last row; of the first batch if the source has no
            rows.
        rows: number of rows with an event time so far.
        latest: the latest event times, oldest first, if the rule needs them.
        partitions: the event time per partition, if the rule has partitions.
    """

    watermark: int | None = None
    last_rows_at: int = field(default=0, metadata={DOCUMENT_KEY: "heard"})
    rows: int = 0
    latest: tuple[int, ...] = ()
    partitions: tuple[PartitionTime, ...] = ()


@dataclass(frozen=True, slots=True)
class EventTimeStats:
    """The event times observed in one batch of one source.

    Attributes:
        greatest: the greatest event time; None without rows.
        latest: the last event times in order of arrival, as many as the rule needs.
        partitions: the greatest event time per partition, if the rule has partitions.
    """

    rows: int = 0
    greatest: int | None = None
    latest: tuple[int, ...] = ()
    partitions: Mapping[str, int] | None = None


def move(
    rule: WatermarkRule, before: SourceTime | None, observed: EventTimeStats, now: int
) -> SourceTime:
    """Return the event time of a source after a batch.

    Raises:
        RunFailed: WATERMARK_PARTITIONS.
    """
    at = _not_after(before or SourceTime(last_rows_at=now), now)
    if not observed.rows or observed.greatest is None:
        return at
    at = replace(at, last_rows_at=now, rows=at.rows + observed.rows)
    if rule.percent is not None:
        latest = (*at.latest, *observed.latest)[-rule.events :]
        reached = _percentile(latest, rule.percent) if at.rows >= rule.frequency else None
        return replace(at, latest=latest, watermark=_later(at.watermark, reached))
    if rule.by:
        return replace(at, partitions=_partitions(at.partitions, observed.partitions or {}, now))
    return replace(at, watermark=_later(at.watermark, observed.greatest - rule.offset))


def _not_after(at: SourceTime, now: int) -> SourceTime:
    """Limit the instants of last rows to `now`.

    They are in the future if the clock was set back. Without the limit, the source would not become
    idle until the clock has caught up.
    """
    if at.last_rows_at <= now and all(p.last_rows_at <= now for p in at.partitions):
        return at
    partitions = tuple(replace(p, last_rows_at=min(p.last_rows_at, now)) for p in at.partitions)
    return replace(at, last_rows_at=min(at.last_rows_at, now), partitions=partitions)


def _percentile(latest: Sequence[int], percent: int) -> int:
    """Return the least event time with at most `percent` percent of all event times above it."""
    return sorted(latest)[len(latest) - 1 - len(latest) * percent // 100]


def _partitions(
    before: Sequence[PartitionTime], observed: Mapping[str, int], now: int
) -> tuple[PartitionTime, ...]:
    by_name = {p.name: p for p in before}
    for name, greatest in sorted(observed.items()):
        stored = by_name.get(name)
        by_name[name] = PartitionTime(
            name, max(greatest, stored.greatest if stored else greatest), now
        )
    if len(by_name) > MOST_PARTITIONS:
        raise RunFailed(
            "WATERMARK_PARTITIONS",
            f"a column that partitions a source for its watermark has more than {MOST_PARTITIONS} values",
            help="use a column with fewer values in by:, or remove it; nothing of the batch was committed",
        )
    return tuple(by_name.values())


def _later(before: int | None, reached: int | None) -> int | None:
    watermarks = [w for w in (before, reached) if w is not None]
    return max(watermarks, default=None)


def watermark_of(
    rules: Sequence[WatermarkRule],
    sources: Sequence[SourceTime],
    before: int | None,
    now: int,
) -> int | None:
    """Return a run's watermark: the least of its sources that are not idle; it never decreases."""
    watermarks: list[int | None] = []
    for rule, source in zip(rules, sources, strict=True):
        if rule.by and source.partitions:
            watermarks += [
                p.greatest - rule.offset
                for p in source.partitions
                if _is_active(rule, p.last_rows_at, now)
            ]
        elif _is_active(rule, source.last_rows_at, now):
            watermarks.append(source.watermark)
    if not watermarks or None in watermarks:
        return before
    return _later(before, min(w for w in watermarks if w is not None))


def _is_active(rule: WatermarkRule, last_rows_at: int, now: int) -> bool:
    return rule.idle is None or now - last_rows_at < rule.idle


def idle_at(rules: Sequence[WatermarkRule], sources: Sequence[SourceTime], now: int) -> int | None:
    """Return the next instant at which an active source becomes idle; None if none will.

    If the clock was set back, the instant is `now`, and `move` corrects the stored instants.
    """
    due = [
        now if heard > now else heard + rule.idle
        for rule, source in zip(rules, sources, strict=True)
        if rule.idle is not None
        for heard in ([p.last_rows_at for p in source.partitions] or [source.last_rows_at])
        if _is_active(rule, heard, now)
    ]
    return min(due, default=None)


# --- as users write them ---------------------------------------------------------------------


def parse_rule(text: str) -> WatermarkRule:
    """Parse a watermark rule.

    The form is ``max-diff:5s`` or ``percentile:P:EVENTS:FREQUENCY``, followed by the optional parts
    ``,idle:1m`` and ``,by:COLUMN``.

    Raises:
        UsageError: OPTION_INVALID.
    """
    first, *rest = (word.strip() for word in text.split(","))
    kind, _, values = first.partition(":")
    if kind not in _RULES:
        raise _invalid(f"{first!r} is not known")
    rule = _RULES[kind](values)
    for word in rest:
        name, _, value = word.partition(":")
        if name == "idle" and microseconds(value) and rule.idle is None:
            rule = replace(rule, idle=microseconds(value))
        elif name == "by" and value and not rule.by and rule.percent is None:
            rule = replace(rule, by=value)
        else:
            raise _invalid(f"{word!r} is not allowed here")
    return rule


def _max_diff(values: str) -> WatermarkRule:
    offset = microseconds(values)
    if offset is None:
        raise _invalid(f"max-diff:{values} is not a duration such as 0s, 500ms, 5s, 1m or 1h")
    return WatermarkRule(offset=offset)


def _percentile_rule(values: str) -> WatermarkRule:
    numbers = [int(v) if v.isascii() and v.isdigit() else -1 for v in values.split(":")]
    if len(numbers) != 3:
        raise _invalid(f"percentile:{values} does not have three numbers")
    percent, events, frequency = numbers
    if not (0 <= percent < 100 and 0 < events <= MOST_EVENTS and 0 < frequency < 1 << 63):
        raise _invalid(
            f"percentile:{values}: the percentage must be from 0 to 99, the events from 1 to {MOST_EVENTS}, the "
            "frequency at least 1"
        )
    return WatermarkRule(percent=percent, events=events, frequency=frequency)


_RULES = {"max-diff": _max_diff, "percentile": _percentile_rule}


def _invalid(message: str) -> UsageError:
    return UsageError("OPTION_INVALID", message, help=f"use {FORMS}", path="watermark")


@dataclass(frozen=True, slots=True)
class Ttl:
    """The time to live of groups without rows.

    Attributes:
        after: microseconds of event time, or of processing time if no source has a watermark.
        keep: whether the view keeps the last row of an evicted group; otherwise it is retracted.
    """

    after: int
    keep: bool = False

    def idle(self, instant: int) -> int:
        """Return the newest event time of groups to evict, in steps of one eighth of `after`."""
        step = max(self.after // 8, 1)
        return instant - instant % step - self.after

    def next(self, instant: int) -> int:
        """Return the next instant at which groups can be evicted."""
        step = max(self.after // 8, 1)
        return instant - instant % step + step


def parse_ttl(text: str) -> Ttl:
    """Parse ``1h``, ``1h:retract`` or ``1h:keep``.

    Raises:
        UsageError: OPTION_INVALID.
    """
    duration, colon, word = text.partition(":")
    after = microseconds(duration)
    if not after or (colon and word not in ("retract", "keep")):
        raise UsageError(
            "OPTION_INVALID",
            f"{text!r} is not a time to live",
            help="write a duration such as 30m, 1h or 2d, followed by :keep to keep the last values",
            path="ttl",
        )
    return Ttl(after, word == "keep")
