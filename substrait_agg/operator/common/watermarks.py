"""Watermarks: how far event time has come, worked out batch by batch from the event times of the rows of every source.

The two rules are those of OctoSQL: the greatest event time less an allowance (max-diff), and a percentile of the latest event
times. A watermark moves once per batch, when all rows of the batch are known, and never back. That of a run is the least of its
sources. All instants are microseconds since 1970, UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from substrait_agg.durations import microseconds
from substrait_agg.errors import RunFailed, UsageError

MOST_EVENTS = 10_000
"""Greatest number of event times that a percentile is taken of; they are kept in every snapshot."""

MOST_PARTITIONS = 10_000
"""Greatest number of partitions of a source; how far each is stands in every snapshot."""

FORMS = "max-diff:5s or percentile:P:EVENTS:FREQUENCY"


@dataclass(frozen=True, slots=True)
class WatermarkRule:
    """How the watermark of a source follows from its event times.

    Attributes:
        offset: of max-diff: so far behind the greatest event time, microseconds.
        percent: of percentile: so many percent of the latest event times may be above the watermark; None for max-diff.
        events: of percentile: how many of the latest event times count.
        frequency: of percentile: how many rows have to come before it is worked out for the first time.
        idle: after so many microseconds of processing time without a row the source holds the watermark no longer; None: it
            always does.
        by: a column whose values tell partitions apart, each with a watermark of its own; empty for none.
    """

    offset: int = 0
    percent: int | None = None
    events: int = 0
    frequency: int = 0
    idle: int | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class PartitionTime:
    """How far one partition of a source is: its greatest event time, and when its last row came."""

    name: str
    greatest: int
    heard: int


@dataclass(frozen=True, slots=True)
class SourceTime:
    """How far a source is.

    Attributes:
        watermark: its own; None before the first.
        heard: the instant of the batch that brought its last row; of a source without rows, that of the first batch.
        rows: rows with an event time so far.
        latest: the latest event times, oldest first, where the rule needs them.
        partitions: per partition, where the rule tells them apart.
    """

    watermark: int | None = None
    heard: int = 0
    rows: int = 0
    latest: tuple[int, ...] = ()
    partitions: tuple[PartitionTime, ...] = ()


@dataclass(frozen=True, slots=True)
class EventTimeStats:
    """The event times of one source in one batch.

    Attributes:
        rows: rows that have one.
        greatest: the greatest; None without rows.
        latest: the last ones in order of arrival, as many as the rule needs.
        partitions: the greatest per partition, where the rule tells them apart.
    """

    rows: int = 0
    greatest: int | None = None
    latest: tuple[int, ...] = ()
    partitions: Mapping[str, int] | None = None


def moved(
    rule: WatermarkRule, before: SourceTime | None, heard: EventTimeStats, now: int
) -> SourceTime:
    """How far a source is after a batch.

    Args:
        rule: of the source.
        before: how far it was; None at the first batch.
        heard: its rows in the batch.
        now: the instant of the batch.

    Raises:
        RunFailed: WATERMARK_PARTITIONS.
    """
    at = _not_after(before or SourceTime(heard=now), now)
    if not heard.rows or heard.greatest is None:
        return at
    at = replace(at, heard=now, rows=at.rows + heard.rows)
    if rule.percent is not None:
        latest = (*at.latest, *heard.latest)[-rule.events :]
        reached = _percentile(latest, rule.percent) if at.rows >= rule.frequency else None
        return replace(at, latest=latest, watermark=_later(at.watermark, reached))
    if rule.by:
        return replace(at, partitions=_partitions(at.partitions, heard.partitions or {}, now))
    return replace(at, watermark=_later(at.watermark, heard.greatest - rule.offset))


def _not_after(at: SourceTime, now: int) -> SourceTime:
    """Where the clock was set back, a source has been heard now: else it would fall idle only when the clock is there again."""
    if at.heard <= now and all(p.heard <= now for p in at.partitions):
        return at
    partitions = tuple(replace(p, heard=min(p.heard, now)) for p in at.partitions)
    return replace(at, heard=min(at.heard, now), partitions=partitions)


def _percentile(latest: Sequence[int], percent: int) -> int:
    """The least event time above which at most so many percent of them are."""
    return sorted(latest)[len(latest) - 1 - len(latest) * percent // 100]


def _partitions(
    before: Sequence[PartitionTime], heard: Mapping[str, int], now: int
) -> tuple[PartitionTime, ...]:
    known = {p.name: p for p in before}
    for name, greatest in sorted(heard.items()):
        held = known.get(name)
        known[name] = PartitionTime(name, max(greatest, held.greatest if held else greatest), now)
    if len(known) > MOST_PARTITIONS:
        raise RunFailed(
            "WATERMARK_PARTITIONS",
            f"a column that tells partitions of a source apart has more than {MOST_PARTITIONS} values",
            help="name a column with fewer values behind by:, or leave it out; nothing of the batch was committed",
        )
    return tuple(known.values())


def _later(before: int | None, reached: int | None) -> int | None:
    known = [w for w in (before, reached) if w is not None]
    return max(known, default=None)


def watermark_of(
    rules: Sequence[WatermarkRule],
    sources: Sequence[SourceTime],
    before: int | None,
    now: int,
) -> int | None:
    """The watermark of a run: the least of its sources that are not idle, and never before the one that it had.

    Args:
        rules: of the sources.
        sources: how far each is.
        before: the watermark that the run had.
        now: the instant of the batch.
    """
    known: list[int | None] = []
    for rule, source in zip(rules, sources, strict=True):
        if rule.by and source.partitions:
            known += [
                p.greatest - rule.offset for p in source.partitions if _held(rule, p.heard, now)
            ]
        elif _held(rule, source.heard, now):
            known.append(source.watermark)
    if not known or None in known:
        return before
    return _later(before, min(w for w in known if w is not None))


def _held(rule: WatermarkRule, heard: int, now: int) -> bool:
    return rule.idle is None or now - heard < rule.idle


def idle_at(rules: Sequence[WatermarkRule], sources: Sequence[SourceTime], now: int) -> int | None:
    """The next instant at which a source falls idle that is not; None where none will.

    Where the clock was set back it is `now`, at which that is noted (`moved`).
    """
    due = [
        now if heard > now else heard + rule.idle
        for rule, source in zip(rules, sources, strict=True)
        if rule.idle is not None
        for heard in ([p.heard for p in source.partitions] or [source.heard])
        if _held(rule, heard, now)
    ]
    return min(due, default=None)


# --- as users write them ---------------------------------------------------------------------


def parse_rule(text: str) -> WatermarkRule:
    """Read ``max-diff:5s`` or ``percentile:P:EVENTS:FREQUENCY``, and behind it ``,idle:1m`` and ``,by:COLUMN``.

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
            raise _invalid(f"{word!r} is not known here")
    return rule


def _max_diff(values: str) -> WatermarkRule:
    offset = microseconds(values)
    if offset is None:
        raise _invalid(f"max-diff:{values} is not a duration such as 0s, 500ms, 5s, 1m or 1h")
    return WatermarkRule(offset=offset)


def _percentile_rule(values: str) -> WatermarkRule:
    numbers = [int(v) if v.isascii() and v.isdigit() else -1 for v in values.split(":")]
    if len(numbers) != 3:
        raise _invalid(f"percentile:{values} has not three numbers")
    percent, events, frequency = numbers
    if not (0 <= percent < 100 and 0 < events <= MOST_EVENTS and 0 < frequency < 1 << 63):
        raise _invalid(
            f"percentile:{values}: the percentage is from 0 to 99, the events are from 1 to {MOST_EVENTS},"
            " the frequency is at least 1"
        )
    return WatermarkRule(percent=percent, events=events, frequency=frequency)


_RULES = {"max-diff": _max_diff, "percentile": _percentile_rule}


def _invalid(message: str) -> UsageError:
    return UsageError("OPTION_INVALID", message, help=f"use {FORMS}", path="watermark")


@dataclass(frozen=True, slots=True)
class Ttl:
    """For how long groups without rows are remembered.

    Attributes:
        after: microseconds of event time, of processing time where no source has a watermark.
        keep: the view keeps the row last shown of a group that is forgotten; else it is retracted.
    """

    after: int
    keep: bool = False

    def idle(self, instant: int) -> int:
        """The newest event time of groups that are forgotten at an instant; it moves in steps of an eighth of `after`."""
        step = max(self.after // 8, 1)
        return instant - instant % step - self.after

    def next(self, instant: int) -> int:
        """The next instant at which groups can be forgotten."""
        step = max(self.after // 8, 1)
        return instant - instant % step + step


def parse_ttl(text: str) -> Ttl:
    """Read ``1h``, ``1h:retract`` or ``1h:keep``.

    Raises:
        UsageError: OPTION_INVALID.
    """
    duration, colon, word = text.partition(":")
    after = microseconds(duration)
    if not after or (colon and word not in ("retract", "keep")):
        raise UsageError(
            "OPTION_INVALID",
            f"{text!r} is not a time to live",
            help="write a duration such as 30m, 1h or 2d, and :keep behind it to keep the last values",
            path="ttl",
        )
    return Ttl(after, word == "keep")
